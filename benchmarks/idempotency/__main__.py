"""Compare deduplication with Powertools idempotency: python -m benchmarks.idempotency (make bench)

Both libraries run in one process against one engine. The result shows the requests, the CPU time and the outcome of
each case.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import sys
import warnings

from benchmarks.results import add_json, save
from lambda_lock import __version__
from rig.engine import Ministack

from .cases import CASES
from .measure import Cpu, cpu_times, create_tables, play
from .report import Results, as_json, table, timeline


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idempotency", description=__doc__)
    parser.add_argument("--case", choices=CASES, help="play only this case, and print a timeline of it")
    parser.add_argument("--rounds", type=int, default=100, help="how often to measure the CPU time (default: 100)")
    add_json(parser)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds={arguments.rounds} is out of range: give 1 or more")
    logging.disable()  # the errors that the cases provoke are part of the outcomes
    warnings.simplefilter("ignore")
    with Ministack() as engine:
        _use(engine)
        create_tables(engine)
        chosen = [arguments.case] if arguments.case else list(CASES)
        results: Results = {}
        for case in chosen:
            _progress(f"case {case}")
            results[case] = play(engine, case)
        _progress("")
        if arguments.case and not arguments.json:
            print("\n\n".join(timeline(arguments.case, *entry) for entry in results[arguments.case].items()))
            return 0
        cpu: Cpu = {}
        if not arguments.case:
            _progress(f"CPU time, {arguments.rounds} rounds")
            cpu = cpu_times(engine, arguments.rounds)
            _progress("")
    about = {"python": sys.version.split()[0], "packages": _versions(), "rounds": arguments.rounds}
    if save(arguments.json, about | as_json(results, cpu)):
        return 0
    print("Requests on the wire, CPU time (median), effects in a real table, and the outcome of the deliveries\n")
    print(table(results, cpu))
    versions = ", ".join(f"{name} {version}" for name, version in _versions().items())
    print(f"\n{versions}; Python {sys.version.split()[0]}; {arguments.rounds} rounds")
    return 0


def _use(engine: Ministack) -> None:
    """Make this process use the engine, and remove all other settings for AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(engine.environment())


def _versions() -> dict[str, str]:
    others = ("aws-lambda-powertools", "boto3")
    return {"lambda-lock": __version__} | {name: importlib.metadata.version(name) for name in others}


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
