"""A semaphore over time: python -m demo.permits (docs/semaphores.svg)

Processes take a permit of one semaphore, work and release it. One of them is killed. When each of them asked, got in
and went is what the processes themselves wrote down.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from pathlib import Path

from lambda_lock import LockClient
from rig.engine import ROOT, Ministack, client_environment

from .svg import STYLE, length_of, text_at

KEY = "billing-api"
PATIENCE = 60.0  # seconds that a job waits for its permit


@dataclass(frozen=True)
class Plan:
    """One job: when it asks, for how long it works, and whether it is killed instead of releasing. In seconds."""

    asks: float
    works: float
    killed: bool = False


@dataclass(frozen=True)
class Job:
    """What became of a job, in epoch seconds.

    until: if it was killed, the end of its lease. Up to then it may have been valid.
    """

    asked: float
    entered: float
    left: float
    token: int
    until: float | None = None

    @property
    def freed(self) -> float:
        return self.left if self.until is None else self.until


PERMITS, LEASE = 3, 2.0
PLANS = (
    Plan(0.0, 2.0),
    Plan(0.3, 1.4, killed=True),
    Plan(0.6, 2.4),
    Plan(0.9, 2.2),
    Plan(1.2, 2.4),
    Plan(1.5, 1.8),
    Plan(1.8, 1.6),
    Plan(2.1, 1.2),
)


def play(engine: Ministack, plans: Sequence[Plan] = PLANS, permits: int = PERMITS, lease: float = LEASE) -> list[Job]:
    """Play it on an engine, in a table "locks" that is made for it."""
    engine.create_table("locks")
    environment = os.environ | client_environment(engine.url) | {"LAMBDA_LOCK_TABLE": "locks", "PYTHONPATH": str(ROOT)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lambda-lock-permits-")))
        processes = []
        for number, plan in enumerate(plans):
            said = stack.enter_context((folder / str(number)).open("wb"))
            how = json.dumps({"permits": permits, "lease": lease, "works": plan.works, "killed": plan.killed})
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", __spec__.name if __name__ == "__main__" else __name__, "--job", how],
                    stdin=subprocess.PIPE,
                    stdout=said,
                    env=environment,
                    cwd=ROOT,
                )
            )
            stack.callback(processes[-1].kill)
        for number in range(len(plans)):
            _wait_for(folder / str(number), 1)  # each has loaded what it needs
        began = time.time()
        for process, plan in zip(processes, plans, strict=True):
            time.sleep(max(0.0, began + plan.asks - time.time()))
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.close()
        for process in processes:
            process.wait(PATIENCE * 2)
        return [_read(folder / str(number)) for number in range(len(plans))]


def _wait_for(file: Path, lines: int) -> None:
    end = time.monotonic() + PATIENCE
    while file.read_text().count("\n") < lines:
        if time.monotonic() > end:
            raise TimeoutError(f"a job wrote only {file.read_text()!r}")
        time.sleep(0.01)


def _read(file: Path) -> Job:
    said = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    return Job(**{name: value for one in said for name, value in one.items()})


def work(permits: int, lease: float, works: float, killed: bool) -> None:
    """One job, in a process of its own."""

    def say(**what: float | None) -> None:
        print(json.dumps(what), flush=True)

    with LockClient(lease_duration=lease, owner_prefix="job", refresh_period=0.2) as client:
        client.prewarm()
        print("ready", flush=True)
        sys.stdin.readline()
        say(asked=time.time())
        permit = client.acquire(KEY, permits=permits, wait=PATIENCE)
        say(entered=time.time(), token=permit.fencing_token)
        time.sleep(works)
        if killed:
            say(left=time.time(), until=time.time() + permit.remaining)
            os.kill(os.getpid(), 9)
        say(left=time.time())
        permit.release()


def taken(jobs: Sequence[Job]) -> list[tuple[float, int]]:
    """How many permits are taken from each moment on."""
    steps = sorted([(job.entered, 1) for job in jobs] + [(job.freed, -1) for job in jobs])
    return list(zip((at for at, _ in steps), itertools.accumulate(step for _, step in steps), strict=True))


def faults(jobs: Sequence[Job], permits: int) -> list[str]:
    """What is wrong, as texts. Empty if nothing is."""
    found = []
    most = max(count for _, count in taken(jobs))
    if most > permits:
        found.append(f"{most} permits were taken at once, of {permits}")
    if len({job.token for job in jobs}) < len(jobs):
        found.append("two grants have one token")
    by_asking = sorted(jobs, key=lambda job: job.asked)
    if [job.token for job in by_asking] != sorted(job.token for job in jobs):
        found.append("they were not let in in the order in which they asked")
    return found


# The picture

_WIDTH, _MARGIN, _LEFT = 960, 24, 92
_RIGHT = _WIDTH - _MARGIN
_TOP, _BAR, _LANE = 84, 20, 27
_STEP = 18  # height of one permit in the chart
_COLOUR = "#2563eb"
_STYLE = STYLE + (
    ".sum{fill:#2563eb;fill-opacity:.28}.rest{fill:#8c959f;fill-opacity:.35}"
    ".limit{stroke:#d1242f;stroke-width:1.6;stroke-dasharray:6 4;fill:none}\n"
    "@media (prefers-color-scheme:dark){.sum{fill:#539bf5;fill-opacity:.4}.limit{stroke:#ff7b72}}\n"
)


def draw(jobs: Sequence[Job], permits: int) -> str:
    """The picture, as the text of an SVG file."""
    return "\n".join(_Picture(jobs, permits).draw()) + "\n"


class _Picture:
    def __init__(self, jobs: Sequence[Job], permits: int) -> None:
        self.jobs, self.permits = jobs, permits
        self.began = min(job.asked for job in jobs)
        self.seconds = int(max(job.freed for job in jobs) - self.began) + 1
        self.lanes_end = _TOP + _LANE * len(jobs) + 6
        self.chart_end = self.lanes_end + 30 + _STEP * permits

    def draw(self) -> Iterator[str]:
        height = self.chart_end + 66
        title = f"permits={self.permits}: at most {self.permits} at once, first come, first served"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img" aria-labelledby="title description">'
        )
        yield f'<title id="title">{escape(title)}</title>'
        yield f'<desc id="description">{escape(self._in_words())}</desc>'
        yield f"<style>{_STYLE}</style>"
        yield f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="10"/>'
        yield text_at(_MARGIN, 36, title, "title")
        said = "Each job is a process that takes a permit, works and releases it."
        if self._killed():
            said += " A killed job's permit is free again when its lease is over."
        yield text_at(_MARGIN, 58, said)
        yield from self._axis()
        yield from self._arrows()
        for number, job in enumerate(self.jobs):
            yield from self._job(number, job)
        yield from self._chart()
        yield from self._legend(self.chart_end + 46)
        yield "</svg>"

    def _x(self, at: float) -> float:
        return round(_LEFT + (at - self.began) * (_RIGHT - _LEFT) / self.seconds, 1)

    def _y(self, number: int) -> float:
        return _TOP + _LANE * number

    def _killed(self) -> list[int]:
        return [number for number, job in enumerate(self.jobs) if job.until is not None]

    def _axis(self) -> Iterator[str]:
        for second in range(self.seconds + 1):
            x = self._x(self.began + second)
            yield f'<path class="grid" d="M{x} {_TOP - 8}V{self.chart_end}"/>'
            yield text_at(x, self.chart_end + 16, f"{second} s", "faint middle")
        for number in range(len(self.jobs)):
            yield text_at(_LEFT - 14, self._y(number) + 14.5, f"job {number + 1}", "lane")

    def _bar(self, number: int, start: float, end: float, how: str) -> str:
        x, width = self._x(start), max(self._x(end) - self._x(start), 2)
        return f'<rect {how} x="{x}" y="{self._y(number)}" width="{width:.1f}" height="{_BAR}" rx="3"/>'

    def _job(self, number: int, job: Job) -> Iterator[str]:
        y = self._y(number) + 14
        if job.entered - job.asked > 0.15:
            yield self._bar(number, job.asked, job.entered, 'class="card bare"')
            yield self._bar(number, job.asked, job.entered, f'class="wait" fill="{_COLOUR}" stroke="{_COLOUR}"')
            yield text_at((self._x(job.asked) + self._x(job.entered)) / 2, y, "waits", "middle")
        yield self._bar(number, job.entered, job.left, f'fill="{_COLOUR}"')
        yield text_at(self._x(job.entered) + 7, y, "works", "on", f' stroke="{_COLOUR}"')
        if job.until is not None:
            yield self._bar(number, job.left, job.until, 'class="card bare"')
            yield self._bar(number, job.left, job.until, 'class="ice"')
            x, middle = self._x(job.left), self._y(number) + _BAR / 2
            arms = f"M{x - 6} {middle - 6}l12 12m0 -12l-12 12"
            yield f'<path class="halo" d="{arms}"/><path class="cross" d="{arms}"/>'
            note = "killed; its lease runs on"
            room = self._x(job.until) - x - 16
            note = note if length_of(note) <= room else "killed"
            yield text_at(x + 14, y, note, "red strong")

    def _arrows(self) -> Iterator[str]:
        """From the end of a killed job's lease to the job that got its permit."""
        for number in self._killed():
            until = self.jobs[number].freed
            later = [other for other, job in enumerate(self.jobs) if job.entered >= until]
            if not later:
                continue
            heir = min(later, key=lambda other: self.jobs[other].entered)
            x, start = self._x(self.jobs[heir].entered) + 2, self._y(number) + _BAR / 2
            end = self._y(heir) - 2 if heir > number else self._y(heir) + _BAR + 2
            tip = end - 6 if heir > number else end + 6
            yield f'<path class="line dashed" d="M{self._x(until)} {start}H{x}V{tip}"/>'
            yield f'<path class="tip" d="M{x} {end}l-5 {tip - end:.0f}h10z"/>'

    def _chart(self) -> Iterator[str]:
        """How many permits are taken."""
        base, limit = self.chart_end, self.chart_end - _STEP * self.permits
        steps = taken(self.jobs)
        ends = [at for at, _ in steps[1:]] + [steps[-1][0]]
        for (start, count), end in zip(steps, ends, strict=True):
            dead = sum(job.until is not None and job.left <= start < job.until for job in self.jobs)
            for style, low, high in (("sum", 0, count - dead), ("rest", count - dead, count)):
                if high > low and end > start:
                    x, width = self._x(start), self._x(end) - self._x(start)
                    top = base - _STEP * high
                    tall = _STEP * (high - low)
                    yield f'<rect class="{style}" x="{x}" y="{top}" width="{width:.1f}" height="{tall}"/>'
        yield f'<path class="track" d="M{_LEFT} {base}H{_RIGHT}"/>'
        yield f'<path class="limit" d="M{_LEFT} {limit}H{_RIGHT}"/>'
        yield text_at(_LEFT - 14, base - _STEP * self.permits / 2 + 4, "taken", "lane")
        yield text_at(_RIGHT, limit - 7, f"never more than {self.permits}", "red strong end")

    def _legend(self, y: float) -> Iterator[str]:
        x = float(_MARGIN)
        for how, said in (
            (f'fill="{_COLOUR}"', "holds a permit"),
            (f'class="wait" fill="{_COLOUR}" stroke="{_COLOUR}"', "waits in the queue"),
            ('class="ice"', "dead, its permit not yet free"),
        ):
            yield f'<rect {how} x="{x}" y="{y - 12}" width="26" height="16" rx="3"/>'
            yield text_at(x + 34, y, said, "faint")
            x += 34 + length_of(said) + 26

    def _in_words(self) -> str:
        def seconds(at: float) -> str:
            return f"{at - self.began:.1f} s"

        said = [f"A timeline of {len(self.jobs)} jobs that share a semaphore of {self.permits} permits."]
        for number, job in enumerate(self.jobs):
            how = f"is killed at {seconds(job.left)}, its lease ends at {seconds(job.freed)}"
            how = f"releases at {seconds(job.left)}" if job.until is None else how
            said.append(f"Job {number + 1} asks at {seconds(job.asked)}, gets in at {seconds(job.entered)}, {how}.")
        return " ".join([*said, f"Never more than {self.permits} permits are taken."])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m demo.permits", description=__doc__)
    parser.add_argument("--svg", type=Path, default=ROOT / "build" / "permits.svg", metavar="PATH", help="the file")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.job:
        work(**json.loads(options.job))
        return 0
    with Ministack() as engine:
        jobs = play(engine)
    broken = faults(jobs, PERMITS)
    if broken:
        print("; ".join(broken), file=sys.stderr)
        return 1
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(draw(jobs, PERMITS))
    print(f"{options.svg}: {len(jobs)} jobs, never more than {PERMITS} at once, in the order in which they asked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
