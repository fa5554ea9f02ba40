"""Worker processes of one contestant that contend for a lock: python -m benchmarks.contention.crowd CONTESTANT

Each line of input orders one run, and each line of output is its result. The modules are loaded once and each worker is
forked, because 64 processes that load boto3 would keep two cores busy for longer than a run lasts.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any, NoReturn

from benchmarks.contention.contestants import CONTESTANTS, Contestant

LEAD = 0.2  # the share of a run that is not measured, because all workers ask at the same moment there
_DELAY = 0.05  # seconds between the word to start and the start
_WORD = 32  # bytes of the start's time


class Worker:
    """Locks, holds, releases and pauses until its time is over. Then it writes down what happened, and ends.

    order: "key", "hold" and "pause" in seconds, "exponential" (whether holds vary), "seed", "apart" (a key each).
    """

    def __init__(self, contestant: Contestant, number: int, order: dict[str, Any], report: int) -> None:
        self._contestant = contestant
        self._report = report
        self._hold, self._pause = order["hold"], order["pause"]
        self._key = f"{order['key']}-{number}" if order["apart"] else order["key"]
        self._random = random.Random(f"{order['seed']}-{number}")
        self._exponential = order["exponential"]
        self._waits: list[list[float | int | None]] = []  # asked, placed, granted, ended, token
        self._errors: list[str] = []
        self._cpu = 0.0

    def prepare(self) -> None:
        self._contestant.open()
        key = f"warm-{os.getpid()}-{self._key}"
        self._contestant.release(self._contestant.acquire(key))

    def run(self, start: float, seconds: float) -> None:
        lead = LEAD * seconds
        signal.signal(signal.SIGALRM, self._begin)
        signal.setitimer(signal.ITIMER_REAL, max(start + lead - time.monotonic(), 0.001), seconds - lead)
        time.sleep(max(start - time.monotonic(), 0.0))
        contestant = self._contestant
        while True:
            hold = self._random.expovariate(1 / self._hold) if self._exponential else self._hold
            wait: list[float | int | None] = [time.monotonic(), None, None, None, None]
            self._waits.append(wait)
            try:
                handle = contestant.acquire(self._key)
                granted = time.monotonic()
                wait[4], wait[1], wait[2] = contestant.token(handle), contestant.placed, granted
                if hold:
                    time.sleep(hold)
                wait[3] = time.monotonic()
                contestant.release(handle)
            except Exception as error:  # noqa: BLE001 - the report counts errors, and shows them
                self._errors.append(f"{type(error).__name__}: {error}"[:300])
            if self._pause:
                time.sleep(self._pause)

    def _begin(self, *_: object) -> None:
        signal.signal(signal.SIGALRM, self._end)
        self._contestant.writes = self._contestant.reads = 0
        self._cpu = time.process_time()

    def _end(self, *_: object) -> NoReturn:
        contestant = self._contestant
        waits = self._waits
        if waits and waits[-1][2] is None:
            waits[-1][1] = contestant.placed
        result = {
            "waits": waits,
            "writes": contestant.writes,
            "reads": contestant.reads,
            "removed": contestant.removed,
            "errors": self._errors,
            "cpu": time.process_time() - self._cpu,
        }
        left = json.dumps(result).encode()
        while left:
            left = left[os.write(self._report, left) :]
        os._exit(0)


def run(name: str, order: dict[str, Any]) -> dict[str, Any]:
    """Fork the workers, let all start at once, and collect what they report."""
    contestant = CONTESTANTS[name](order["table"])
    go_read, go_write = os.pipe()
    ready_read, ready_write = os.pipe()
    reports: list[tuple[int, int]] = []
    for number in range(order["workers"]):
        report_read, report_write = os.pipe()
        pid = os.fork()
        if not pid:
            worker = Worker(contestant, number, order, report_write)
            worker.prepare()
            os.write(ready_write, b"r")
            os.close(ready_write)
            worker.run(float(os.read(go_read, _WORD)), order["seconds"])
        os.close(report_write)
        reports.append((pid, report_read))
    os.close(ready_write)
    for _ in reports:
        if not os.read(ready_read, 1):
            raise SystemExit("a worker ended before the start")
    start = time.monotonic() + _DELAY
    os.write(go_write, f"{start:<{_WORD}.9f}".encode() * len(reports))
    workers = []
    for pid, descriptor in reports:
        with os.fdopen(descriptor, "rb") as file:
            said = file.read()
        os.waitpid(pid, 0)
        workers.append(json.loads(said))
    for descriptor in (go_read, go_write, ready_read):
        os.close(descriptor)
    return {"start": start + LEAD * order["seconds"], "end": start + order["seconds"], "workers": workers}


def main() -> None:
    name = sys.argv[1]
    CONTESTANTS[name]("any")  # loads the modules
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(run(name, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
