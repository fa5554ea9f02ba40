"""A worker that takes and releases locks until it is stopped: ``python -m tests.stopping.worker SHAPE PREFIX RECORD``.

It writes down what it sees, in the file RECORD. A fourth argument names a mistake that is planted before (mistakes.py).
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias, TypeVar

from lambda_lock import AsyncLock, AsyncLockClient, AsyncMultiLock, Lock, LockClient, MultiLock, release_on_sigterm
from lambda_lock.errors import LockError
from tests.histories.record import Recorder, now

AT_ONCE = 4
_LEASE = 600.0  # seconds: what is left is not over before somebody looks
_WORK = 0.004  # seconds, about as long as a request
#: Seconds. A signal that comes when a thread gives up the GIL to sleep does not wake it: Python handles it afterwards.
_TURN = 0.1
RECORDER = Recorder(Path(os.devnull if __name__ != "__main__" else sys.argv[3]))

Client = TypeVar("Client", LockClient, AsyncLockClient)
AnyLock: TypeAlias = Lock | MultiLock | AsyncLock | AsyncMultiLock
Told = Callable[[AnyLock], AbstractContextManager[None]]

SHAPES: dict[str, Callable[[str], None]] = {}


def shape(work: Callable[[str], None]) -> Callable[[str], None]:
    SHAPES[work.__name__] = work
    return work


@contextlib.contextmanager
def noted(*keys: str) -> Iterator[Told]:
    """Write down an acquire of these locks. What this gives writes down how long their holder counts on them."""
    asked = {key: RECORDER.begin("acquire", key, os.getpid()) for key in keys}
    over: list[int] = []

    @contextlib.contextmanager
    def told(lock: AnyLock) -> Iterator[None]:
        tokens = {lock.key: lock.fencing_token} if isinstance(lock, (Lock, AsyncLock)) else lock.fencing_tokens
        for key, number in asked.items():
            RECORDER.end(number, "ok", token=tokens[key], owner=lock.owner)
        _look(lock, tokens)
        try:
            yield
            _look(lock, tokens)
        finally:
            over.extend(RECORDER.begin("release", key, os.getpid(), token=tokens[key]) for key in keys)

    yield told
    for number in over:
        RECORDER.end(number, "over")


def _look(lock: AnyLock, tokens: dict[str, int]) -> None:
    call = now()
    held, remaining = lock.is_held, lock.remaining
    if held:
        for key, token in tokens.items():
            RECORDER.held(key, os.getpid(), token, call, now(), remaining)


def _released(client: Client) -> Client:
    release_on_sigterm(client)
    return client


async def _work(client: AsyncLockClient, key: str) -> None:
    for number in range(sys.maxsize):
        name = f"{key} {number % 3}"
        with noted(name) as told:
            async with client.acquire(name, lease_duration=_LEASE) as lock:
                with told(lock):
                    await asyncio.sleep(random.random() * _WORK)


def _tell() -> None:
    print("working", flush=True)


async def _gather(client: AsyncLockClient, prefix: str) -> None:
    await asyncio.gather(*(_work(client, f"{prefix} {each}") for each in range(AT_ONCE)))


def _share(client: LockClient, prefix: str) -> None:
    """Take the lock that all want, again and again, until the client is closed."""
    with contextlib.suppress(LockError):
        while True:
            name = f"{prefix} shared"
            with noted(name) as told, client.acquire(name, lease_duration=_LEASE, wait=60) as lock, told(lock):
                time.sleep(random.random() * _WORK)


@shape
def gather(prefix: str) -> None:
    client = _released(AsyncLockClient())
    _tell()
    asyncio.run(_gather(client, prefix))


@shape
def close_in_finally(prefix: str) -> None:
    async def main() -> None:
        client = _released(AsyncLockClient())
        _tell()
        try:
            await _gather(client, prefix)
        finally:
            await client.close()

    asyncio.run(main())


@shape
def several(prefix: str) -> None:
    """Each task takes two locks together, and all want the same ones: they wait in the queue."""
    client = _released(AsyncLockClient())
    names = [f"{prefix} a", f"{prefix} b"]

    async def work() -> None:
        while True:
            with noted(*names) as told:
                async with client.acquire_all(names, lease_duration=_LEASE, wait=60) as locks:
                    with told(locks):
                        await asyncio.sleep(random.random() * _WORK)

    async def main() -> None:
        _tell()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    asyncio.run(main())


@shape
def bare_loop(prefix: str) -> None:
    """Nobody cancels the tasks of a loop that is run like this."""
    client = _released(AsyncLockClient())
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(_work(client, f"{prefix} {each}")) for each in range(AT_ONCE)]
    loop.call_soon(_tell)
    loop.run_forever()
    assert tasks


@shape
def own_handler(prefix: str) -> None:
    """It raises SystemExit wherever the signal lands, which asyncio does not stand: a task may never end then."""
    client = _released(AsyncLockClient())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _tell()
    asyncio.run(_gather(client, prefix))


@shape
def plain(prefix: str) -> None:
    client = _released(LockClient())
    _tell()
    for number in range(sys.maxsize):
        name = f"{prefix} {number % 3}"
        with noted(name) as told, client.acquire(name, lease_duration=_LEASE) as lock, told(lock):
            time.sleep(random.random() * _WORK)


@shape
def threads(prefix: str) -> None:
    """Daemon threads, which Python does not wait for. All want the same lock."""
    client = _released(LockClient())
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
    if len(sys.argv) > 4 and sys.argv[4]:
        from .mistakes import MISTAKES

        MISTAKES[sys.argv[4]].change()
    SHAPES[sys.argv[1]](sys.argv[2])
