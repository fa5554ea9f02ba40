"""Rate limits beside a published limiter, over HTTP: python -m benchmarks.rates.published

zae-limiter is a token bucket on DynamoDB. Callers of it and of ours start things on the engine, in real time, in one
process of each. It is not part of `make bench`: its package needs another boto3 than the contestants there, so it has
an environment of its own.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from rig.engine import ROOT, Ministack, client_environment
from rig.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT, WANTED, CALLERS, SECONDS = 10, 8.8, 20, 30.0
PYTHON = ROOT / ".venv-limiters" / "bin" / "python"
INSTALL = (
    "python -m venv .venv-limiters && .venv-limiters/bin/pip install --require-hashes -r requirements/limiters.txt"
)


def ours() -> Callable[[], object]:
    from lambda_lock import LockClient

    client = LockClient("locks")
    return lambda: client.rate_limit("api", LIMIT, wait=1000)


def zae_limiter() -> Callable[[], object]:
    """As in its documentation: a refused caller sleeps for as long as the error says, and tries again."""
    from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

    repository = SyncRepository("limits", endpoint_url=os.environ["AWS_ENDPOINT_URL"], _skip_deprecation_warning=True)
    repository.create_table()
    repository.register_namespace("default")
    limiter = SyncRateLimiter(repository=repository)
    limits = [Limit("rate", capacity=1, refill_amount=LIMIT, refill_period_seconds=1)]

    def start() -> None:
        while True:
            try:
                with limiter.acquire("api", "calls", {"rate": 1}, limits=limits):
                    return
            except RateLimitExceeded as refused:
                time.sleep(max(refused.retry_after_seconds, 0.001))

    return start


CONTESTANTS = {"lambda_lock": ours, "zae-limiter 0.17.0": zae_limiter}


def work(name: str) -> None:
    """Let callers start things for a while, and print the most in a second, the longest wait, and how many started."""
    start = CONTESTANTS[name]()
    start()
    starts: list[float] = []
    waits: list[float] = []
    end = time.monotonic() + SECONDS

    def call(number: int) -> None:
        rng = random.Random(number)
        time.sleep(rng.uniform(0, CALLERS / WANTED))
        while (asked := time.monotonic()) < end:
            start()
            starts.append(time.monotonic())
            waits.append(starts[-1] - asked)
            time.sleep(rng.expovariate(WANTED / CALLERS))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    starts.sort()
    most = max(sum(first <= at < first + 1 for at in starts) for first in starts)
    print(most, max(waits), len(starts))


def main() -> None:
    if len(sys.argv) > 1:
        work(sys.argv[1])
        return
    if not PYTHON.exists():
        sys.exit(f"{PYTHON} is missing: {INSTALL}")
    head = f"{CALLERS} callers, {WANTED} wanted a second, limit {LIMIT}"
    print(f"| {head} | starts a second | most | longest wait | requests a start |")
    print("|---|---|---|---|---|")
    for name in CONTESTANTS:
        with Ministack() as engine, Wire(engine.url) as wire:
            engine.create_table("locks")
            environment = os.environ | client_environment(wire.url) | {"PYTHONPATH": str(ROOT)}
            command = [str(PYTHON), "-m", "benchmarks.rates.published", name]
            done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
            most, longest, count = map(float, done.stdout.split())
            print(
                f"| {name} | {count / SECONDS:.1f} | {most:.0f} | {longest:.1f} s | {len(wire.requests) / count:.1f} |"
            )


if __name__ == "__main__":
    main()
