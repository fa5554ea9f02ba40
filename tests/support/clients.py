"""Clients on the real engine, which are closed at the end of the test."""

import gc
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import AsyncLock, AsyncLockClient, Lock, LockClient, MultiLock
from lambda_lock.client.async_client import entered_too
from rig.wire import Wire

from .awaited import Awaited
from .clocks import LeapingClock

Make = Callable[..., LockClient]


class KeepingClient(LockClient):
    """A client that keeps the handles it returns: a test may drop them, and no ResourceWarning is reported."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.kept: list[Lock] = []
        self.kept_together: list[MultiLock] = []

    def acquire(self, *arguments: Any, **options: Any) -> Lock:
        self.kept.append(super().acquire(*arguments, **options))
        return self.kept[-1]

    def adopt(self, *arguments: Any, **options: Any) -> Lock:
        self.kept.append(super().adopt(*arguments, **options))
        return self.kept[-1]

    def resume(self, *arguments: Any, **options: Any) -> Lock:
        self.kept.append(super().resume(*arguments, **options))
        return self.kept[-1]

    def acquire_all(self, *arguments: Any, **options: Any) -> MultiLock:
        self.kept_together.append(super().acquire_all(*arguments, **options))
        return self.kept_together[-1]


class KeepingAsyncClient(AsyncLockClient):
    """`KeepingClient` for asyncio."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.kept: list[AsyncLock] = []

    @entered_too
    async def acquire(self, *arguments: Any, **options: Any) -> AsyncLock:
        self.kept.append(await super().acquire(*arguments, **options))
        return self.kept[-1]

    @entered_too
    async def adopt(self, *arguments: Any, **options: Any) -> AsyncLock:
        self.kept.append(await super().adopt(*arguments, **options))
        return self.kept[-1]

    @entered_too
    async def resume(self, *arguments: Any, **options: Any) -> AsyncLock:
        self.kept.append(await super().resume(*arguments, **options))
        return self.kept[-1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """For a conftest.py: the tests of its folder run on both faces, except those that are marked plain.

    `make test` runs one in three of them on AsyncLockClient, `make test-slow` the others. DynamoDB Local is asked by
    one face: both send the same requests, and it is there to see those.
    """
    if "face" in metafunc.fixturenames and metafunc.definition.get_closest_marker("plain") is None:
        chosen = zlib.crc32(metafunc.definition.name.encode()) % 3 == 0
        faces = ["plain", pytest.param("awaited", marks=() if chosen else pytest.mark.long)]
        metafunc.parametrize("face", faces[:1] if os.environ.get("LAMBDA_LOCK_ENGINE") == "dynamodb-local" else faces)


@pytest.fixture
def make(table: str, face: str) -> Iterator[Make]:
    """Creates clients, and closes them at the end of the test. The locks that they hold stay in the table.

    ``keeping=False`` creates a client whose handles can be dropped.
    """
    clients: list[Any] = []
    kinds: tuple[type, type] = (LockClient, KeepingClient)
    if face == "awaited":
        kinds = (AsyncLockClient, KeepingAsyncClient)

    def build(*arguments: Any, keeping: bool = True, **options: Any) -> Any:
        made = kinds[keeping](*arguments, **options)
        clients.append(Awaited(made) if face == "awaited" else made)
        return clients[-1]

    yield build
    for client in clients:
        client.close(release=False)


def drop(take: Callable[[], object]) -> None:
    """Take locks and drop their handle, which is warned about. asyncio's tasks, which had it too, are cycles."""

    def forget() -> None:
        take()
        gc.collect()

    gc.collect()  # what tests before have left warns as well
    with pytest.warns(ResourceWarning, match="was dropped while the lock is held"):
        forget()


@pytest.fixture
def client(make: Make) -> LockClient:
    return make()


@pytest.fixture
def wired(wire: Wire, make: Make) -> LockClient:
    """A client whose requests go over the wire."""
    return make()


@pytest.fixture
def impatient(wire: Wire, make: Make) -> LockClient:
    """A client whose requests go over the wire. Pauses between its requests take no time."""
    return make(clock=LeapingClock(), heartbeat_period=0)
