"""Checks and turns of the shipped code that keep threads apart, each taken out on its own. A sweep must notice each."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lambda_lock.client import closing, held, last_act, renewer, taking
from lambda_lock.core import keep, protocol
from lambda_lock.runtime import heartbeat, signalsafe, under_way

from .scheduler import Patches


@dataclass(frozen=True)
class Mutant:
    """home: what has the function. old, new: a part of its source, and what takes its place.

    scenarios: in which of them it shows.
    within: it takes two switches to show it. The first is in this file.
    """

    home: Any
    function: str
    old: str
    new: str
    scenarios: tuple[str, ...]
    within: str = ""


_SHORTER = "renewal / heartbeat() with a shorter lease"
_WATCH = """\
    self._live[identity] = number
    # put() gets the dead reference as well. It takes that for `block`, which it does not use.
    reference = weakref.ref(lock, functools.partial(self._commands.put, (identity, number)))
    self._commands.put((elapsed() + seconds, number, reference))
"""

_CLOSE = """\
    session.closed.set()
    if release:
        _settle(session)
        _release_all(session)
    else:
        session.open_locks.abandon()
"""
_SET = """\
self.is_set = True
    while self._gates:
"""
_SET_LATE = """\
while self._gates:
        self._gates.pop().release()
    self.is_set = True
    while False:
"""
_ATTACH, _CHECK = "self._session.open_locks.attach(hold, held)", "self._session.check_open()"

MUTANTS: dict[str, Mutant] = {
    "two last acts have the turn at once": Mutant(
        signalsafe.Turn,
        "take",
        "return self._taken.setdefault(None, weakref.ref(ticket, self._end))() is ticket",
        "return True",
        ("release / release", "release / commit"),
    ),
    "a turn is taken in two steps": Mutant(
        signalsafe.Turn,
        "take",
        "return self._taken.setdefault(None, weakref.ref(ticket, self._end))() is ticket",
        "if self._taken.get(None) is None:\n"
        "        self._taken[None] = weakref.ref(ticket, self._end)\n"
        "        return True\n"
        "    return self._taken[None]() is ticket",
        ("release / release",),
        within="signalsafe.py",
    ),
    "a last act does not look again once it has the turn": Mutant(
        last_act.LastActs, "last", "check()\n", "pass\n", ("release / release", "release / commit")
    ),
    "a last act does not end the lock": Mutant(
        protocol.Hold, "end", "self.ended = True", "pass", ("renewal / release", "heartbeat() / hand_over")
    ),
    "a renewal that was refused after the release counts": Mutant(
        keep, "renew", "if hold.ended:", "if False:", ("renewal / release", "heartbeat() / release")
    ),
    "an acquire does not look whether its client was closed": Mutant(
        taking.Fresh, "_register", "self._session.check_open()", "pass", ("close without releases / acquire",)
    ),
    "close does not know a lock before its handle is made": Mutant(
        taking.Fresh, "keep", "self._session.open_locks.add(hold, self._order.kept.pid)", "pass", ("close / acquire",)
    ),
    "a client is closed once its locks are released": Mutant(
        closing,
        "close",
        _CLOSE,
        "".join(_CLOSE.splitlines(keepends=True)[line] for line in (1, 2, 3, 4, 5, 0)),
        ("close / acquire",),
    ),
    "close does not look again once it can be woken": Mutant(
        under_way.UnderWay, "wait", "if self.elsewhere():", "if True:", ("close / acquire that waits",)
    ),
    "an acquire looks whether its client was closed before its handle is known": Mutant(
        taking.Fresh,
        "_register",
        f"{_ATTACH}\n    {_CHECK}",
        f"{_CHECK}\n    {_ATTACH}",
        ("close without releases / acquire",),
    ),
    "a loss is told in two steps": Mutant(
        renewer.Renewer,
        "_is_first",
        "return self._untold.pop(signal, False)",
        "first = self._untold.get(signal, False)\n    self._untold[signal] = False\n    return first",
        ("refused renewal / release", "refused renewal / heartbeat()"),
    ),
    "a lost lock is not final": Mutant(
        protocol.Hold, "is_held", "not (self.lost or self.ended)", "not self.ended", ("refused renewal / reads",)
    ),
    "wait_lost does not look again once it can be woken": Mutant(
        signalsafe.Flag, "wait", "if not self.is_set:", "if True:", ("release / wait_lost",)
    ),
    "a flag is set once its gates are open": Mutant(
        signalsafe.Flag, "set", _SET, _SET_LATE, ("release / wait_lost",), within="signalsafe.py"
    ),
    "who waits for a loss is woken before the lock has ended": Mutant(
        held.HeldLock,
        "end",
        "self.hold.end()\n    self.renewer.stop()",
        "self.renewer.stop()\n    self.hold.end()",
        ("release / wait_lost",),
    ),
    "the end of a lock wakes nobody": Mutant(
        signalsafe.Flag, "set", "self._gates.pop().release()", "self._gates.pop()", ("release / wait_lost",)
    ),
    "a renewal is planned from a validity that has changed": Mutant(
        renewer.Renewer, "_plan", "if self._hold.valid_until == valid_until:", "if True:", (_SHORTER,)
    ),
    "a later tick replaces a sooner one": Mutant(
        renewer.Renewer,
        "watch",
        "if self._next == planned and hold.valid_until == valid_until:",
        "if True:",
        (_SHORTER,),
    ),
    "the heartbeat is told of a lock before it counts as watched": Mutant(
        heartbeat.Heartbeat,
        "watch",
        _WATCH,
        "".join(_WATCH.splitlines(keepends=True)[line] for line in (1, 2, 0)),
        ("release / acquire of another lock",),
    ),
    "a forked child may release its parent's lock": Mutant(
        last_act.LastActs, "check_process", "if self.pid != os.getpid():", "if False:", ("fork / renewal",)
    ),
}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The shipped code with one of them taken out."""
    mutant = MUTANTS[name]
    with Patches() as patches:
        patches.put(mutant.home, mutant.function, _rewritten(mutant))
        yield


def _rewritten(mutant: Mutant) -> Callable[..., Any]:
    original = getattr(mutant.home, mutant.function)
    source = textwrap.dedent(inspect.getsource(original))
    if mutant.old not in source:
        raise ValueError(f"{mutant.function} has changed: {mutant.old!r} is not in it")
    changed = "from __future__ import annotations\n" + source.replace(mutant.old, mutant.new)
    code = compile(changed, inspect.getfile(original), "exec")
    made: dict[str, Any] = {}
    exec(code, original.__globals__, made)
    rewritten: Callable[..., Any] = made[mutant.function]
    return rewritten
