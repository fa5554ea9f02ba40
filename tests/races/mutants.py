"""Checks and turns of the shipped code that keep threads apart, each taken out on its own. A sweep must notice each."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from lambda_lock.client import closing, held, renewer, taking
from lambda_lock.core import keep, protocol
from lambda_lock.runtime import heartbeat, signalsafe
from tests.prove.mistakes import Change, edit, planted


@dataclass(frozen=True)
class Mutant:
    """function, texts: what is written into which function, as in tests/prove/mistakes.py.
    scenarios: in which of them it shows.
    within: if it takes two switches to show it, a part of the place of the first ("file:line function").
    """

    function: Any
    texts: tuple[str, ...]
    scenarios: tuple[str, ...]
    within: str = ""

    @property
    def change(self) -> Change:
        return edit(self.function, *self.texts)


_SHORTER = "renewal / heartbeat() with a shorter lease"
_TAKE = "return self._taken.setdefault(None, weakref.ref(caller, self._end))() is caller → "
_IN_TWO_STEPS = "first = self._untold.get(signal, False)\n    self._untold[signal] = False\n    return first"
_TAKE_IN_TWO_STEPS = """\
if self._taken.get(None) is None:
        self._taken[None] = weakref.ref(caller, self._end)
        return True
    return self._taken[None]() is caller"""
_SET_LATE = """\
self.is_set = True
    while self._gates: → while self._gates:
        self._gates.pop().release()
    self.is_set = True
    while False:"""
_CLOSED, _ENDED = "session.closed.set()", "self._live[identity] = number"
_ATTACH, _CHECK = "self._session.open_locks.attach(hold, held)", "self._session.check_open()"
_PUT = "self._commands.put((elapsed() + seconds, number, reference))"

MUTANTS: dict[str, Mutant] = {
    "two last acts have the turn at once": Mutant(
        signalsafe.Turn.take, (f"{_TAKE}return True",), ("release / release", "release / commit")),
    "a turn is taken in two steps": Mutant(
        signalsafe.Turn.take, (_TAKE + _TAKE_IN_TWO_STEPS,), ("release / release",), within=" take"),
    "a last act does not look again once it has the turn": Mutant(
        held.LastAct.steps, ("self._check()\n → pass\n",), ("release / release", "release / commit")),
    "a last act does not end the lock": Mutant(
        protocol.Hold.end, ('self._become("ending") → pass',), ("renewal / release", "heartbeat() / hand_over")),
    "a renewal that was refused after the release counts": Mutant(
        keep.renew, ("if hold.ended: → if False:",), ("renewal / release", "heartbeat() / release")),
    "an acquire does not look whether its client was closed": Mutant(
        taking.Taking._register, (f"{_CHECK} → pass",), ("close without releases / acquire",)),
    "close does not know a lock before its handle is made": Mutant(
        taking.Taking.keep, ("self._session.open_locks.add(hold, self._kept.pid) → pass",), ("close / acquire",)),
    "a client is closed once its locks are released": Mutant(
        closing.close, (f"{_CLOSED} → ", f"session.open_locks.abandon() → session.open_locks.abandon()\n    {_CLOSED}"),
        ("close / acquire",)),
    "close does not look again once it can be woken": Mutant(
        signalsafe.UnderWay.wait, ("if self.elsewhere(): → if True:",), ("close / acquire that waits",)),
    "an acquire looks whether its client was closed before its handle is known": Mutant(
        taking.Taking._register, (f"{_ATTACH}\n    {_CHECK} → {_CHECK}\n    {_ATTACH}",),
        ("close without releases / acquire",)),
    "a loss is told in two steps": Mutant(
        renewer.Renewer._is_first, (f"return self._untold.pop(signal, False) → {_IN_TWO_STEPS}",),
        ("refused renewal / release", "refused renewal / heartbeat()")),
    "a lost lock is not final": Mutant(
        protocol.Hold.is_held, ("not (self.lost or self.ended) → not self.ended",), ("refused renewal / reads",)),
    "wait_lost does not look again once it can be woken": Mutant(
        signalsafe.Flag.wait, ("if not self.is_set: → if True:",), ("release / wait_lost",)),
    "a flag is set once its gates are open": Mutant(
        signalsafe.Flag.set, (_SET_LATE,), ("release / wait_lost",), within="signalsafe.py"),
    "who waits for a loss is woken before the lock has ended": Mutant(
        held.HeldLock.end, ("self.hold.end()\n    self.renewer.stop() → self.renewer.stop()\n    self.hold.end()",),
        ("release / wait_lost",)),
    "the end of a lock wakes nobody": Mutant(
        signalsafe.Flag.set, ("self._gates.pop().release() → self._gates.pop()",), ("release / wait_lost",)),
    "a renewal is planned from a validity that has changed": Mutant(
        renewer.Renewer._plan, ("if self._hold.valid_until == valid_until: → if True:",), (_SHORTER,)),
    "a later tick replaces a sooner one": Mutant(
        renewer.Renewer.watch, ("if self._next == planned and hold.valid_until == valid_until: → if True:",),
        (_SHORTER,)),
    "the heartbeat is told of a lock before it counts as watched": Mutant(
        heartbeat.Heartbeat.watch, (f"{_ENDED} → ", f"{_PUT} → {_PUT}\n    {_ENDED}"),
        ("release / acquire of another lock",)),
    "a forked child may release its parent's lock": Mutant(
        held.Holding.check_process, ("if self.pid != os.getpid(): → if False:",), ("fork / renewal",)),
}  # fmt: skip


def broken(name: str) -> AbstractContextManager[None]:
    """The shipped code with this mutant planted."""
    return planted(MUTANTS[name].change)
