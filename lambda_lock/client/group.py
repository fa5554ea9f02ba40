"""Several locks that were taken together: their common state, and the steps of the operations that renew and end them.

`MultiLock` and `AsyncMultiLock` are two faces of a Group, as Lock and AsyncLock are of a HeldLock. Each lock stays one
of its own: it is renewed, lost and released by itself (held.py).
"""

from __future__ import annotations

import os
import weakref

from ..core.several import OUTAGE
from ..errors import (
    CommitRefusedError,
    LockAlreadyReleasedError,
    LockError,
    LockLostError,
    OwnerMismatchError,
    TransportError,
)
from ..runtime.signalsafe import Ticket, Turn
from ..runtime.under_way import released
from . import checks
from .session import Explained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..core.lease import ClockReading
    from ..core.protocol import Hold, Steps
    from .held import Begin, HeldLock
    from .session import Operation, Session

_SHOWN = 3  # keys in a repr


class Group:
    """Several locks of one owner. It may be used from any thread.

    members: in the order in which they were taken. pid: the process that may have them. make_face: makes the MultiLock
    that callbacks are given, and a plain client returns.
    """

    def __init__(self, session: Session, pid: int, make_face: Callable[[Group], Any]) -> None:
        self.session = session
        self.members: list[HeldLock] = []
        self.pid = pid
        self._make_face = make_face
        self._face: weakref.ref[Any] | None = None
        self._last_act = Turn()  # release and commit: one of them at a time
        self._untold = {"danger": True, "lost": True}

    def face(self) -> Any:
        """The MultiLock that the application has, or a new one if it has none."""
        face = None if self._face is None else self._face()
        if face is None:
            face = self._make_face(self)
            self._face = weakref.ref(face)
        return face

    def signal(self, event: str, callback: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
        """What each member calls for ``event``: the callback, with the MultiLock, by the first member that calls."""
        if callback is None:
            return None
        reference, wanted = weakref.ref(self), callback  # weakly: the members have this, and the group has them

        def call(_: object) -> None:
            group = reference()
            if group is not None and group._untold.pop(event, False):
                wanted(group.face())

        return call

    # -- its state --------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(member.key for member in self.members)

    @property
    def owner(self) -> str:
        return self.members[0].hold.owner

    @property
    def released(self) -> bool:
        """Whether there is nothing more to end."""
        return all(member.released for member in self.members)

    @property
    def ended(self) -> bool:
        """Whether a last act was begun: release or commit."""
        return any(member.ended for member in self.members)

    def is_held(self) -> bool:
        return all(member.is_held() for member in self.members)

    def holds(self, key: str) -> bool:
        """Whether the lock of this key is held, whatever has become of the others."""
        return any(member.key == key and member.is_held() for member in self.members)

    def is_lost(self) -> bool:
        lost = [member.is_lost() for member in self.members]  # each one notices its own loss
        return True in lost

    def remaining(self) -> float:
        return min(member.remaining() for member in self.members)

    def raise_if_lost(self) -> None:
        self.is_lost()
        for member in self.members:
            member.raise_if_lost()

    def is_in_this_process(self) -> bool:
        return self.pid == os.getpid()

    def state(self) -> str:
        """For people: the keys, and the state now. Where the members' differ, the one that is not held says it."""
        worst = next((member for member in self.members if not member.is_held()), None)
        state = f"held for {self.remaining():.1f} s" if worst is None else worst.state()
        shown = ", ".join(map(repr, self.keys[:_SHOWN]))
        more = f" and {len(self.members) - _SHOWN} more" if len(self.members) > _SHOWN else ""
        return f"{shown}{more} {state}"

    # -- renewing ---------------------------------------------------------------------------------------------------

    def heartbeat(self) -> Operation[None]:
        """The operation of `MultiLock.heartbeat`."""
        self._check_open()

        def steps(reading: ClockReading) -> Steps[None]:
            errors: list[LockError] = []
            unanswered = 0
            for member in self.members:
                try:
                    with Explained(member.hold.place):
                        yield from member.heartbeat()[1](self.session.timeline.reading())
                    unanswered = 0
                except LockError as error:  # the others are renewed all the same: they protect the work in hand
                    errors.append(error)
                    unanswered = unanswered + 1 if isinstance(error, TransportError) else 0
                if unanswered == OUTAGE:
                    break
            if errors:
                raise next((error for error in errors if isinstance(error, LockLostError)), errors[0])

        return self.members[0].hold.place, steps

    # -- the last act: release, commit ------------------------------------------------------------------------------

    def release(self, *, best_effort: bool = False) -> Operation[bool]:
        """The operation of `MultiLock.release`. best_effort: log errors, and leave those locks to their lease."""
        self._check_process()
        self._check_not_released()

        def steps(reading: ClockReading) -> Steps[bool]:
            self._end()
            errors = yield from self._release_rest(best_effort)
            if errors:
                raise errors[0]
            return not any(member.hold.lost or not member.released for member in self.members)

        return self.members[0].hold.place, self._last(steps)

    def _release_rest(self, best_effort: bool) -> Steps[list[LockError]]:
        """Release the members that are not released yet, the newest first. Returns the errors, or logs them."""
        errors: list[LockError] = []
        unanswered = 0
        for member in reversed(self.members):
            if member.released:
                continue
            try:
                if unanswered == OUTAGE:
                    raise TransportError(False, "DynamoDB does not answer, nothing was sent", key=member.key)
                with Explained(member.hold.place):
                    yield from member.release()[1](self.session.timeline.reading())
                unanswered = 0
            except LockAlreadyReleasedError:  # by close(), at this moment
                continue
            except LockError as error:
                if unanswered < OUTAGE:
                    unanswered = unanswered + 1 if isinstance(error, TransportError) else 0
                if best_effort:
                    member.tell_not_released(error)
                else:
                    errors.append(error)
        return errors

    def commit(self, items: Sequence[Mapping[str, Any]]) -> Operation[None]:
        """The operation of `MultiLock.commit`."""
        from ..core.transaction import commit_all

        checked = checks.transact_items(items, len(self.members))
        self._check_open()
        for member in self.members:
            member.check_kept()
        holds = [member.hold for member in self.members]
        memory, entropy = self.session.memory, self.session.entropy

        def steps(reading: ClockReading) -> Steps[None]:
            self._end()
            released: list[Hold] = []
            try:
                yield from commit_all(holds, checked, memory, entropy, reading, released.append)
            except Exception as error:
                for member in self.members:
                    if member.hold in released:
                        member.end_release(True)
                if isinstance(error, (LockLostError, CommitRefusedError)):
                    yield from self._end_refused(error)
                raise
            for member in self.members:
                member.end_release(True)

        return self.members[0].hold.place, self._last(steps)

    def _end_refused(self, error: LockError) -> Steps[None]:
        """After a commit that was refused for good: release what it has not released. Errors are logged."""
        for member in self.members:
            if isinstance(error, LockLostError) and member.key == error.key:
                member.released = True
                member.upkeep.lose("lock %r was lost before its commit")
        yield from self._release_rest(best_effort=True)

    def give_up(self, last_act: Begin[bool] | None = None) -> None:
        """Release on this thread after a last act was interrupted, with any outcome. Errors are logged."""
        if not self.is_in_this_process():  # as in HeldLock
            return
        try:
            self.session.run(*self.release(best_effort=True), ends=released)
        except LockAlreadyReleasedError:
            return

    def tell_not_released(self, error: LockError) -> None:
        """Log for each lock that its release failed. The leases end them."""
        for member in self.members:
            if not member.released:
                member.tell_not_released(error)

    def _last(self, steps: Begin[Any]) -> Begin[Any]:
        """The steps of a last act, while no other one is under way."""

        def alone(reading: ClockReading) -> Steps[Any]:
            self._check_process()  # here: drive() has noted the process, and sees a fork from now on
            turn = Ticket()
            try:
                if not self._last_act.take(turn):
                    raise LockAlreadyReleasedError(
                        f"the locks {self._names()} are being released or committed at this moment, by another thread "
                        "or by the code that a signal handler interrupted"
                    )
                self._check_not_released()
                acting = steps(reading)
                if self.session.observer.measures:
                    acting = self._timed(reading, acting)
                return (yield from acting)
            finally:
                self._last_act.give_back(turn)

        return alone

    def _timed(self, reading: ClockReading, steps: Steps[Any]) -> Steps[Any]:
        from .timed import ending  # this module is loaded late itself

        table = self.members[0].hold.place.table
        since = max(member.hold.since for member in self.members)  # all of them were held from then on
        return ending(self.session, table, self.keys, reading, steps, self._ended_how, None, since=since)

    def _ended_how(self, _: object) -> str:
        return "lost" if any(member.hold.lost for member in self.members) else "released"

    def _end(self) -> None:
        """None of them is held or renewed from here on: before the first send of a last act.

        One that was entered again (reentrant=True) is left by all: it ends with the others.
        """
        for member in self.members:
            member.is_timed = False  # all of them are, together
            member.leave_all()
            member.end()

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        self._check_process()
        if self.ended:
            raise LockAlreadyReleasedError(f"the locks {self._names()} were released or committed: acquire them again")

    def _check_process(self) -> None:
        if not self.is_in_this_process():
            raise OwnerMismatchError(
                f"the locks {self._names()} were acquired by process {self.pid}: a forked child neither renews nor "
                "releases its parent's locks. Acquire them here, or leave them to the parent"
            )

    def _check_not_released(self) -> None:
        if self.released:
            raise LockAlreadyReleasedError(f"the locks {self._names()} were released before: a handle is released once")

    def _names(self) -> str:
        return ", ".join(map(repr, self.keys))
