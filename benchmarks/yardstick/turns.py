"""Cycles that take turns in one process: ``turns.py 40``. It prints the CPU milliseconds of a cycle, medians, as JSON.

With a second argument, it calls getpriority between cycles instead, at which callgrind writes down what it has counted.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable

NAMES = ("lambda_lock", "raw socket", "http.client")  # in their order within a turn
WARM_UP = 5  # turns


class Context:
    """What a lock reads from a Lambda context."""

    aws_request_id = "5f4a9c0e-8d4b-4f6f-9d35-0c8f1f4f3a11"
    function_name = "orders"

    def get_remaining_time_in_millis(self) -> int:
        return 15_000  # less than the lease, so that no heartbeat is needed


def _cycles() -> tuple[Callable[[], object], ...]:
    from lambda_lock import LockClient, with_lock

    from .thin import HttpClient, RawSocket  # which read the environment

    @with_lock("order#{id}", client=LockClient(os.environ["BENCHMARK_TABLE"]))
    def handler(event: dict[str, str], context: Context) -> None:
        """The work."""

    return lambda: handler({"id": "1"}, Context()), RawSocket().cycle, HttpClient().cycle


def main() -> None:
    cycles = _cycles()
    turns, is_counted = int(sys.argv[1]), len(sys.argv) > 2
    taken: dict[str, list[float]] = {name: [] for name in NAMES}
    for turn in range(WARM_UP + turns):
        for name, cycle in zip(NAMES, cycles, strict=True):
            if is_counted and turn >= WARM_UP:
                os.getpriority(os.PRIO_PROCESS, 0)
            began = time.process_time()
            cycle()
            if turn >= WARM_UP:
                taken[name].append((time.process_time() - began) * 1000)
    if is_counted:
        os.getpriority(os.PRIO_PROCESS, 0)
    print(json.dumps({name: statistics.median(times) for name, times in taken.items()}), flush=True)
    os._exit(0)  # without teardown


if __name__ == "__main__":
    main()
