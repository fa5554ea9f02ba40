"""Clients on the real engine, which are closed at the end of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import LockClient
from rig.wire import Wire

from .clocks import LeapingClock

Make = Callable[..., LockClient]


@pytest.fixture
def make(table: str) -> Iterator[Make]:
    """Creates clients, and closes them at the end of the test. The locks that they hold stay in the table."""
    clients: list[LockClient] = []

    def build(*arguments: Any, **options: Any) -> LockClient:
        clients.append(LockClient(*arguments, **options))
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
