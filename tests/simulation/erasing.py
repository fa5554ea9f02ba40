"""Rows that are erased, as for a person whose data must go: only where nobody has them, and exactly as they were read.

And events that are forgotten: the caller is told the truth, and is served no result of a handler that began before.
Claims are in flight beside both, and holders die or complete late. Their own requests are lost, doubled and late like
all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.client import erase as erasing
from lambda_lock.core import forget as forgetting
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.protocol import Send
from lambda_lock.errors import LockConfigurationError, LockFormatError, LockNotGrantedError, TransportError

from .errands import Errand
from .forgets import Forget
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


def erase(client: Client) -> Steps[None]:
    """Erase the row of a key, without force."""
    process, world = client.process, client.world
    place = place_of(client.rng.choice(client.keys))
    errand = Erase(world, process, place.key)
    world.trace(process.name, f"erases {place.key}")
    steps = erasing.steps(place, False, client.talk())
    try:
        done = yield from client.watched(errand, steps, "erase")
    except (LockNotGrantedError, LockFormatError, TransportError, ServiceError, *THROWN) as error:
        world.trace(process.name, f"not erased: {error!r}")
        client.judge_error(error)
        return
    world.trace(process.name, f"erased {place.key}: {done}")


def forget(client: Client) -> Steps[None]:
    """Forget an event, as an application does when the data changes that its result came from."""
    process, world = client.process, client.world
    wanted = client.draw_wish()
    wanted.window = wanted.queue = None
    wanted.replace = wanted.delete_on_release = False
    meant: Any = ...
    if client.rng.random() < world.settings.if_result:
        known = [texts for (key, _), texts in world.judge.results.items() if key == wanted.place.key]
        results = [text for texts in known for text in texts]
        meant = client.rng.choice(sorted(results[-2:], key=str) or [None])
    watcher = Forget(world, process, wanted, meant)
    world.trace(process.name, f"forgets {wanted.place.key}")
    world.counts["forgets"] += 1
    is_meant = None if meant is ... else lambda text: bool(text == meant)
    before = world.table.get(wanted.place.key)
    steps = forgetting.forget(wanted, client.talk(), is_meant)
    try:
        done = yield from client.watched(watcher, steps, watcher.what)
    except (LockNotGrantedError, LockConfigurationError, TransportError, ServiceError, *THROWN) as error:
        world.trace(process.name, f"not forgotten: {error!r}")
        watcher.failed(error, process.peek())
        client.judge_error(error)
        return
    world.trace(process.name, f"forgot {wanted.place.key}: {done}")
    if done or meant is ...:
        world.judge.forgets.over(watcher, done)
    else:
        world.judge.forgets.refused(watcher, before)
