"""Several Lambda environments contend for locks; one is killed at its timeout, one is frozen, others take over.

Everything is real but the services around it: DynamoDB is ministack, the environments run the unmodified awslambdaric,
and SQS, EventBridge and the schedule are played by the demo (see play.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rig.engine import ROOT, EngineError, Ministack
from rig.lambda_runtime import FunctionError

from . import svg, tables, terminal
from .evidence import Change, Evidence
from .play import ENVIRONMENTS, Play
from .progress import Progress
from .timeline import tell
from .verify import Check, verify

HOLDS, BROKEN, NOT_RUN, INTERRUPTED = 0, 1, 2, 130  # exit statuses


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--svg", type=Path, default=ROOT / "build" / "demo.svg", metavar="PATH", help="the picture's file"
    )
    parser.add_argument("--json", action="store_true", help="print the story, its evidence and the checks as JSON")
    options = parser.parse_args(arguments)
    if options.svg.is_dir():
        parser.error(f"--svg {options.svg}: a folder; give the path of a file")
    try:
        with Progress() as progress:
            evidence = run(progress)
    except (EngineError, FunctionError, TimeoutError) as error:
        print(f"The demo could not be played: {error}", file=sys.stderr)
        return NOT_RUN
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    return report(evidence, options.svg, options.json)


def run(progress: Progress) -> Evidence:
    """Play the story. Raises EngineError, FunctionError and TimeoutError where it could not be played."""

    def announce(change: Change) -> None:
        if change.kind != "renewed":
            what = "taken over" if change.took_over else change.kind
            progress.say(f"{play.lane(change.request)}: {change.key} {what}")

    progress.say("starting DynamoDB (ministack)")
    with Ministack() as engine:
        stream = tables.create(engine)
        with tables.Watch(engine, stream, announce) as watch, Play(engine, watch, progress.say) as play:
            progress.say(f"starting {len(ENVIRONMENTS)} Lambda environments (awslambdaric)")
            play.warm_up()
            play.run()
        return Evidence(
            environments=ENVIRONMENTS,
            events=play.events,
            deliveries=sorted(play.deliveries, key=lambda delivery: delivery.started),
            freezes=play.freezes,
            changes=watch.changes,
            journal=tables.journal(engine, watch.began),
            ledger=tables.ledger(engine),
            held=tables.held(engine),
        )


def report(evidence: Evidence, picture: Path, as_json: bool) -> int:
    """Print the story and what was verified, and write the picture. Returns the exit status."""
    story, checks = tell(evidence), verify(evidence)
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(svg.draw(story, checks), encoding="utf-8")
    holds = all(check.holds for check in checks)
    if as_json:
        parts = {"story": story, "checks": checks, "evidence": evidence}
        print(json.dumps({"holds": holds, "svg": str(picture)} | _plain(parts), indent=2))
    else:
        colour = _wants_colour(sys.stdout)
        columns = shutil.get_terminal_size((100, 24)).columns
        drawing = terminal.draw(story, columns, colour)
        print("", drawing, "", terminal.verdict(checks, colour), "", f"Picture: {_near(picture)}", sep="\n")
    if not holds:
        wrong = [f"  {text}" for check in checks for text in check.wrong]
        print("\n".join(["The demo's verification failed:", *wrong]), file=sys.stderr)
    return HOLDS if holds else BROKEN


def _wants_colour(stream: TextIO) -> bool:
    """As no-color.org has it: any text in NO_COLOR says no."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _plain(parts: dict[str, object]) -> dict[str, object]:
    def plain(part: object) -> object:
        if isinstance(part, list):
            return [plain(one) for one in part]
        assert dataclasses.is_dataclass(part)
        assert not isinstance(part, type)
        return dataclasses.asdict(part) | ({"holds": part.holds} if isinstance(part, Check) else {})

    return {name: plain(part) for name, part in parts.items()}


def _near(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))  # so that what was started is stopped
    sys.exit(main())
