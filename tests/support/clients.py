"""Clients on the real engine, which end with the test."""

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
    """Makes clients, and ends them with the test; what they hold is left in the table."""
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
    """A client whose requests go over the wire, and for which pauses between them take no time."""
    return make(clock=LeapingClock(), heartbeat_period=0)
