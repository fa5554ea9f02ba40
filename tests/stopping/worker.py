"""A worker that takes and releases locks until it is stopped: ``python -m tests.stopping.worker SHAPE PREFIX``.

A third argument names a mistake that is planted before (mistakes.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

from lambda_lock import AsyncLockClient, LockClient, release_on_sigterm
from lambda_lock.errors import LockError

AT_ONCE = 4
_LEASE = 600.0  # seconds: what is left is not over before somebody looks
_WORK = 0.004  # seconds, about as long as a request
#: Seconds. A signal that comes when a thread gives up the GIL to sleep does not wake it: Python handles it afterwards.
_TURN = 0.1


SHAPES: dict[str, Callable[[str], None]] = {}


def shape(work: Callable[[str], None]) -> Callable[[str], None]:
    SHAPES[work.__name__] = work
    return work


def _client() -> AsyncLockClient:
    client = AsyncLockClient()
    release_on_sigterm(client)
    return client


def _plain_client() -> LockClient:
    client = LockClient()
    release_on_sigterm(client)
    return client


async def _work(client: AsyncLockClient, key: str) -> None:
    for number in range(sys.maxsize):
        async with client.acquire(f"{key} {number % 3}", lease_duration=_LEASE):
            await asyncio.sleep(random.random() * _WORK)


def _tell() -> None:
    print("working", flush=True)


async def _gather(client: AsyncLockClient, prefix: str) -> None:
    await asyncio.gather(*(_work(client, f"{prefix} {each}") for each in range(AT_ONCE)))


def _share(client: LockClient, prefix: str) -> None:
    """Take the lock that all want, again and again, until the client is closed."""
    with contextlib.suppress(LockError):
        while True:
            with client.acquire(f"{prefix} shared", lease_duration=_LEASE, wait=60):
                time.sleep(random.random() * _WORK)


@shape
def gather(prefix: str) -> None:
    client = _client()
    _tell()
    asyncio.run(_gather(client, prefix))


@shape
def close_in_finally(prefix: str) -> None:
    async def main() -> None:
        client = _client()
        _tell()
        try:
            await _gather(client, prefix)
        finally:
            await client.close()

    asyncio.run(main())


@shape
def task_group(prefix: str) -> None:
    client = _client()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for each in range(AT_ONCE):
                group.create_task(_work(client, f"{prefix} {each}"))
            _tell()

    asyncio.run(main())


@shape
def several(prefix: str) -> None:
    """Each task takes two locks together, and all want the same ones: they wait in the queue."""
    client = _client()

    async def work() -> None:
        while True:
            async with client.acquire_all([f"{prefix} a", f"{prefix} b"], lease_duration=_LEASE, wait=60):
                await asyncio.sleep(random.random() * _WORK)

    async def main() -> None:
        _tell()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    asyncio.run(main())


@shape
def bare_loop(prefix: str) -> None:
    """Nobody cancels the tasks of a loop that is run like this."""
    client = _client()
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(_work(client, f"{prefix} {each}")) for each in range(AT_ONCE)]
    loop.call_soon(_tell)
    loop.run_forever()
    assert tasks


@shape
def own_handler(prefix: str) -> None:
    """It raises SystemExit wherever the signal lands, which asyncio does not stand: a task may never end then."""
    client = _client()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _tell()
    asyncio.run(_gather(client, prefix))


@shape
def plain(prefix: str) -> None:
    client = _plain_client()
    _tell()
    for number in range(sys.maxsize):
        with client.acquire(f"{prefix} {number % 3}", lease_duration=_LEASE):
            time.sleep(random.random() * _WORK)


@shape
def plain_several(prefix: str) -> None:
    client = _plain_client()
    _tell()
    while True:
        with client.acquire_all([f"{prefix} a", f"{prefix} b", f"{prefix} c"], lease_duration=_LEASE):
            time.sleep(random.random() * _WORK)


@shape
def threads(prefix: str) -> None:
    """Daemon threads, which Python does not wait for. All want the same lock."""
    client = _plain_client()
    for _ in range(AT_ONCE):
        threading.Thread(target=_share, args=(client, prefix), daemon=True).start()
    _tell()
    while True:
        time.sleep(_TURN)


@shape
def closed_and_gone(prefix: str) -> None:
    """Its own handler closes the client, and ends the process at once."""
    client = LockClient()

    def end(*_: object) -> None:
        client.close()
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)

    threading.Thread(target=_share, args=(client, prefix), daemon=True).start()
    _tell()
    _share(client, prefix)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        from .mistakes import MISTAKES

        MISTAKES[sys.argv[3]].change()
    SHAPES[sys.argv[1]](sys.argv[2])
