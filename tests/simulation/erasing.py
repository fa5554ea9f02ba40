"""Rows that are erased, as for a person whose data must go: only where nobody has them, and exactly as they were read.

Claims are in flight beside an erasure, and its own requests are lost, doubled and late like all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_lock.client import erase
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.protocol import Send
from lambda_lock.errors import LockFormatError, LockNotGrantedError, TransportError

from .errands import Errand
from .interrupts import THROWN
from .items import place_of
from .world import Steps

if TYPE_CHECKING:
    from .clients import Client


class Erase(Errand):
    """Watches one erasure."""

    def sends(self, action: Send) -> None:
        super().sends(action)
        if action.operation == "DeleteItem":
            self.world.judge.erasures[id(action.request)] = action.request


def turn(client: Client) -> Steps[None]:
    """Erase the row of a key, without force."""
    process, world = client.process, client.world
    place = place_of(client.rng.choice(client.keys))
    errand = Erase(world, process, place.key)
    world.trace(process.name, f"erases {place.key}")
    steps = erase.steps(place, False, client.talk())
    try:
        done = yield from client.watched(errand, steps, "erase")
    except (LockNotGrantedError, LockFormatError, TransportError, ServiceError, *THROWN) as error:
        world.trace(process.name, f"not erased: {error!r}")
        client.judge_error(error)
        return
    world.trace(process.name, f"erased {place.key}: {done}")
