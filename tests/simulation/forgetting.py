"""Events that are forgotten: the caller is told the truth, and is served no result of a handler that began before.

A forget may have a claim in flight beside it, and holders that die or complete late. Its own requests are lost, doubled
and late like all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.core import forget
from lambda_lock.core.outcome import ServiceError
from lambda_lock.errors import LockConfigurationError, LockNotGrantedError, TransportError

from .errands import Errand, Waiter
from .interrupts import THROWN

if TYPE_CHECKING:
    from lambda_lock.core.protocol import AcquireRequest, Send

    from .clients import Client, Part
    from .world import Process, World


class Forget(Waiter):
    """Watches one forget. As for every acquisition, a dead holder is not waited for, and what it takes is released."""

    def __init__(self, world: World, process: Process, wanted: AcquireRequest, meant: Any) -> None:
        super().__init__(world, process, wanted)
        self.what = "forget"
        self.meant = meant  # the result to forget; ...: any

    def sends(self, action: Send) -> None:
        if not is_erasure(action):
            super().sends(action)
            self.world.judge.forgets.claims[id(action.request)] = action.request
            return
        Errand.sends(self, action)  # an erasure is not a release
        self.world.judge.forgets.requests.setdefault(id(action.request), (self, action.request, self.world.now))


def is_erasure(action: Send) -> bool:
    return action.operation == "UpdateItem" and action.request["UpdateExpression"].startswith("REMOVE ")


def turn(client: Client) -> Part[None]:
    """Forget an event, as an application does when the data changes that its result came from."""
    process, world = client.process, client.world
    wanted = client.draw_wish()
    wanted.window = wanted.queue = None
    wanted.replace = wanted.delete_on_release = False
    meant: Any = ...
    if client.rng.random() < world.settings.if_result:
        results = [
            found for (key, _), known in world.judge.results.items() if key == wanted.place.key for found in known
        ]
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
