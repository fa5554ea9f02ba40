"""Clients on the real engine, which are closed at the end of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import Lock, LockClient
from rig.wire import Wire

from .clocks import LeapingClock

Make = Callable[..., LockClient]


class KeepingClient(LockClient):
    """A client that keeps the handles it returns: a test may drop them, and no ResourceWarning is reported."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.kept: list[Lock] = []

    def acquire(self, *arguments: Any, **options: Any) -> Lock:
        self.kept.append(super().acquire(*arguments, **options))
        return self.kept[-1]

    def adopt(self, *arguments: Any, **options: Any) -> Lock:
        self.kept.append(super().adopt(*arguments, **options))
        return self.kept[-1]

    def resume(self, *arguments: Any, **options: Any) -> Lock:
        self.kept.append(super().resume(*arguments, **options))
        return self.kept[-1]


@pytest.fixture
def make(table: str) -> Iterator[Make]:
    """Creates clients, and closes them at the end of the test. The locks that they hold stay in the table.

    ``keeping=False`` creates a client whose handles can be dropped.
    """
    clients: list[LockClient] = []

    def build(*arguments: Any, keeping: bool = True, **options: Any) -> LockClient:
        kind = KeepingClient if keeping else LockClient
        clients.append(kind(*arguments, **options))
        return clients[-1]

    yield build
    for client in clients:
        client.close(release=False)


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
