"""Judges forgets: an erasure removes the completion that was read, and no older one is served afterwards."""

from typing import Any

from lambda_lock.core.protocol import AcquireRequest, Send
from lambda_lock.core.schema import JAVA

from .clocks import EPOCH
from .errands import Errand, Waiter
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


class Forgets:
    """The forgets of a run, and the runs of handlers whose completions they may erase."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: dict[int, tuple[Forget, Any, float]] = {}  # erasures with the time of their first send
        self.claims: dict[int, Any] = {}  # all other requests of forgets, which are kept for their ids
        #: When the handler of a completion began, by key and end; the newest one.
        self._begun: dict[tuple[str, float], float] = {}
        self._completed: dict[str, float] = {}  # true time of the newest completion
        self._erased: dict[str, float] = {}  # true time of the newest erasure
        self._over: dict[str, list[tuple[float, float]]] = {}  # by key: the end and start of each forget

    def completed(self, key: str, until: int, begun: float) -> None:
        self._begun[key, until] = begun
        self._completed[key] = self.world.now

    def erased(self, request: Any, key: str, before: Any, after: Any) -> None:
        """One of the erasures was carried out."""
        errand, _, sent = self.requests[id(request)]
        judge, until = self.world.judge, int(before.get(JAVA.completed_until, {"N": "0"})["N"])
        self._erased[key] = self.world.now
        self.world.counts["forgotten"] += 1
        if not until:
            judge.fail("forgot nothing", f"{errand.wanted.owner} removed a completion of {key} that was gone")
        if JAVA.released not in before:
            judge.fail("forgot a holder", f"{errand.wanted.owner} removed the completion of {key}, which is held")
        if until and self._completed[key] > sent:
            judge.fail("forgot a later one", f"{errand.wanted.owner} removed a completion of {key} that came after it")
        if errand.meant is not ... and before.get(JAVA.result, {}).get("S") != errand.meant:
            judge.fail("forgot another result", f"{errand.wanted.owner} removed a result of {key} that it did not mean")
        if JAVA.completed_until in after or JAVA.result in after:
            judge.fail("forgot in part", f"{errand.wanted.owner} left a part of the completion of {key}")
        judge.completed.setdefault(key, []).append(0)  # none counts now; who saw one before may still say so

    def over(self, errand: Forget, done: bool) -> None:
        """A forget returned ``done``."""
        if done and self._erased.get(errand.key, -1.0) < errand.started:
            self.world.judge.fail("false success", f"{errand.wanted.owner} was told that it forgot {errand.key}")
        self._over.setdefault(errand.key, []).append((self.world.now, errand.started))

    def refused(self, errand: Forget, before: Any) -> None:
        """A forget of one result returned False. before: the row when it began."""
        after, world = self.world.table.get(errand.key) or {}, self.world
        until = int(after.get(JAVA.completed_until, {"N": "0"})["N"])
        if before == after and until > EPOCH + world.now + 3 and after.get(JAVA.result, {}).get("S") == errand.meant:
            world.judge.fail("forgot too little", f"{errand.wanted.owner} left the result of {errand.key} it meant")

    def served(self, key: str, until: float, asked: float) -> None:
        """A delivery that began at ``asked`` was told that the event is done until then."""
        for end, start in self._over.get(key, ()):
            has_passed = until <= EPOCH + end + 1 + self.world.settings.front_ends
            if end <= asked and not has_passed and self._begun[key, until] < start:
                self.world.judge.fail("stale", f"{key} is done by a run that began before it was forgotten")
