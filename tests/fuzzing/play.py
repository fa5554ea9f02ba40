"""One play: an operation against a server that follows a script, and the judgement of it."""

import random
import traceback
from dataclasses import dataclass, replace
from typing import Any

from lambda_lock import LockError

from .liar import Liar
from .operations import OPERATIONS
from .scene import Scene, Script, Scripted, Unbounded, lucky, scripted

# What a client may take of one answer: the limits of transport/http1.py, and what the sockets' buffers hold.
MOST_TAKEN = 16 * 1024 * 1024 + 8 * 1024 * 1024


@dataclass(frozen=True)
class Play:
    """An operation against a script."""

    operation: str
    script: Script
    is_async: bool = False

    def __str__(self) -> str:
        return f"{'await ' if self.is_async else ''}{self.operation}: {self.script}"


@dataclass(frozen=True)
class Outcome:
    """The result of a play. failure: what is wrong, with the reason on its first line; "" if nothing is.

    error: the documented error that came out.
    """

    requests: int = 0
    seconds: float = 0.0
    error: str = ""
    failure: str = ""
    double_holders: int = 0

    @property
    def reason(self) -> str:
        return self.failure.partition("\n")[0]


def drawn(seed: int) -> Play:
    """The play of a seed."""
    rng = random.Random(seed)
    names = sorted(OPERATIONS)
    name = names[seed % len(names)]
    return Play(name, scripted(rng), is_async=not OPERATIONS[name].sync_only and rng.random() < 0.3)


def perform(play: Play, server: Liar) -> Outcome:
    """Run a play."""
    operation, script = OPERATIONS[play.operation], play.script
    server.most_sent = 0
    with lucky(script.luck):
        meter = Scripted(server)
        scene = Scene(meter, is_async=play.is_async)
        try:
            scene.kept = operation.prepare(scene)
            meter.script = script
            return _judged(play, scene, server)
        finally:
            scene.close()
            meter.inner.close()


def _judged(play: Play, scene: Scene, server: Liar) -> Outcome:
    operation, meter = OPERATIONS[play.operation], scene.meter
    limit = operation.bound(play.script.luck)
    error = failure = ""
    granted = None
    meter.limited(limit)
    try:
        granted = operation.act(scene)
    except LockError as documented:
        error = type(documented).__name__
    except Unbounded as unbounded:
        failure = f"no bound: {unbounded}"
    except Exception as undocumented:  # noqa: BLE001  # whatever it is, it is reported
        failure = f"undocumented: {type(undocumented).__name__}\n{traceback.format_exc()}"
    requests, seconds = meter.requests, meter.seconds
    meter.limit = None
    if not failure and (requests > limit.requests or seconds > limit.seconds + 0.01):
        failure = f"no bound: {requests} requests and {seconds:.1f} s; the bound is {limit}"
    if not failure and server.most_sent > MOST_TAKEN:
        failure = f"no limit: {server.most_sent} bytes of one answer were taken"
    double = int(not failure and operation.grants and play.script.is_faithful and _is_double(granted, scene))
    if double:
        failure = "two holders"
    return Outcome(requests, seconds, error, failure, double)


def _is_double(granted: Any, scene: Scene) -> bool:
    """Whether a rival, which gets honest answers, is granted the lock while the first holder counts as holding it."""
    while granted is not None and granted.is_held:
        if scene.rival.try_acquire("k") is not None:
            return bool(granted.is_held)
        scene.clock.advance(1.0)
    return False


def shrunk(play: Play, outcome: Outcome, server: Liar) -> Play:
    """The simplest play that fails for the same reason. Of one that breaks its bound, the figures may differ."""
    reason = "no bound" if outcome.reason.startswith("no bound") else outcome.reason
    for script in play.script.smaller():
        smaller = replace(play, script=script)
        if perform(smaller, server).reason.startswith(reason):
            return shrunk(smaller, outcome, server)
    return play
