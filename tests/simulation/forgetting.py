"""Turns of a client that forgets events. Claims are in flight beside a forget, and holders die or complete late.

Its own requests are lost, doubled and late like all others. forgets.py judges it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.core import forget
from lambda_lock.core.outcome import ServiceError
from lambda_lock.errors import LockConfigurationError, LockNotGrantedError, TransportError

from .forgets import Forget
from .interrupts import THROWN
from .world import Steps

if TYPE_CHECKING:
    from .clients import Client


def turn(client: Client) -> Steps[None]:
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
    steps = forget.forget(wanted, client.talk(), is_meant)
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
