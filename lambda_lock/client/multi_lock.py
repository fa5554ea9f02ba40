"""Several locks that were taken together: their acquire, their common state, their last act, and their handle.

Each lock stays one of its own: it is renewed, lost and released by itself (held.py). core/several.py has the rules of
an acquire.
"""

from __future__ import annotations

import weakref

from ..core import keep
from ..core import several as core
from ..core.protocol import OUTAGE
from ..errors import CommitRefusedError, LockAlreadyReleasedError, LockError, LockLostError, TransportError
from ..runtime.signalsafe import released, unclear
from . import checks
from .held import HeldLock, Holding, LastAct
from .lock import HandleBase, Lock, WithBlock
from .operations import heartbeat
from .renewer import leave_to_lease
from .session import Explained, Operation
from .taking import Taking, unsent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from ..core.protocol import AcquireRequest, Conversation, Hold, Steps
    from .session import Session
    from .taking import Wanted

    MultiCallback: TypeAlias = Callable[["MultiLock"], object]

_SHOWN = 3  # keys in a repr


class TakingSeveral(Taking["MultiLock"]):
    """Takes several locks, under the terms of one acquire. Meanwhile it is their `Keeper` (core/several.py).

    keys: in the order in which they are taken.
    """

    _group: Group  # of this round

    def __init__(self, session: Session, wanted: Wanted, keys: Sequence[str], sort_key: str | None) -> None:
        super().__init__(session, wanted)
        self._places = [session.settings.place(key, sort_key) for key in keys]
        self._held: dict[Hold, HeldLock] = {}  # kept alive, so that they are renewed

    # -- as a Taking ------------------------------------------------------------------------------------------------

    def of_hold(self) -> tuple[None, None]:
        return None, None

    def _grant(self, talk: Conversation) -> Steps[Any]:
        return core.acquire_all(self, talk)

    def result(self, _: object) -> MultiLock:
        """Return the handle of the locks that were taken, and keep them no longer."""
        self._held.clear()  # the group has them now
        del self._group
        return super().result(None)

    def _register(self, holds: Any, talk: Conversation) -> None:
        group = self._group
        self._locks.append(group.handle())  # made first: callbacks and hooks are given this one
        self._session.check_open()
        for member in group.members:
            member.renewer.quiet = False
            member.renewer.keep_period(self._kept.heartbeat_period)
            member.is_timed = True
            member.renewer.tell("granted", "lock %r was granted")
        group.is_lost()  # tells what was lost meanwhile

    # -- as the Keeper ----------------------------------------------------------------------------------------------

    def each_wanted(self) -> Iterator[AcquireRequest]:
        """One for each lock, all under a new owner."""
        prefix, _, _ = self._wanted.owner.rpartition("#")
        owner = f"{prefix}#{self._session.entropy.nonce()}"
        self._group = Group(self._session, self._kept.pid)
        for place in self._places:
            self.place = place
            yield self._wanted.like(place, owner)

    def watch(self, hold: Hold) -> None:
        """Renew it, without a word to the application, which gets all locks or none."""
        group, kept = self._group, self._kept
        kept = kept.for_one(group.signal("danger", kept.on_danger), group.signal("lost", kept.on_lost))
        if self._wanted.waits and kept.heartbeat_period == 0:
            kept.heartbeat_period = None  # the wait for others may be long: renew it meanwhile all the same
        self._held[hold] = held = HeldLock(self._session, hold, kept, Lock)
        group.members.append(held)
        held.is_timed = False
        held.renewer.quiet = True  # the caller does not have this lock yet, and may never get it
        held.renewer.start(held.elapsed())
        self._session.open_locks.attach(hold, held)
        self._session.check_open()  # either close() finds the lock among those held, or the client is found closed here

    def renew(self, hold: Hold, talk: Conversation) -> Steps[None]:
        """Renew it once, but not while the heartbeat does."""
        return self._held[hold].renewer.once(talk)

    def release(self, hold: Hold, talk: Conversation) -> Steps[bool]:
        """Release a lock that the application never had. Returns whether DynamoDB answered."""
        session, held, answered = self._session, self._held.get(hold), True
        try:
            with Explained(hold.place):
                if held is not None:
                    yield from held.release().steps(talk)
                else:
                    yield from keep.release(hold, talk)
        except LockAlreadyReleasedError:  # close() just released it
            pass
        except LockError as error:
            leave_to_lease(session, hold, error)
            answered = not isinstance(error, TransportError)
        self._drop(hold)
        return answered

    def leave(self, hold: Hold) -> None:
        """Leave it to its lease: DynamoDB does not answer."""
        if hold in self._held:
            self._held[hold].abandon()
        leave_to_lease(self._session, hold, unsent(hold))
        self._drop(hold)

    def _drop(self, hold: Hold) -> None:
        self._session.open_locks.discard(hold)
        self.granted[:] = [other for other in self.granted if other is not hold]  # an interrupt may lead here twice
        self._held.pop(hold, None)


class Group(Holding):
    """Several locks of one owner. It may be used from any thread.

    members: in the order in which they were taken.
    """

    key = None
    members: list[HeldLock]

    def __init__(self, session: Session, pid: int) -> None:
        super().__init__(session, pid, MultiLock)
        self.members = []
        self._untold = {"danger": True, "lost": True}

    def signal(self, event: str, callback: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
        """Return what each member calls for ``event``. The first call runs the callback, with the MultiLock."""
        if callback is None:
            return None
        reference, wanted = weakref.ref(self), callback  # weakly: the group refers to its members, and they to this

        def call(_: object) -> None:
            group = reference()
            if group is not None and group._untold.pop(event, False):
                wanted(group.handle())

        return call

    # -- its state --------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(member.key for member in self.members)

    @property
    def released(self) -> bool:
        """Whether there is nothing more to end."""
        return all(member.released for member in self.members)

    def each_hold(self) -> list[Hold]:
        return [member.hold for member in self.members]

    def holds(self, key: str) -> bool:
        """Whether the lock of this key is held, whatever has become of the others."""
        return any(member.key == key and member.is_held() for member in self.members)

    def is_lost(self) -> bool:
        lost = [member.is_lost() for member in self.members]  # each one notices its own loss
        return True in lost

    def name(self) -> str:
        return f"the locks {', '.join(map(repr, self.keys))}"

    # -- renewing ---------------------------------------------------------------------------------------------------

    def heartbeat(self) -> Operation[None]:
        """The operation of `MultiLock.heartbeat`."""
        self.check_open()

        def steps(talk: Conversation) -> Steps[None]:
            failed = yield from self._each(talk, self.members, heartbeat)
            if failed:
                errors = [error for _, error in failed]
                raise next((error for error in errors if isinstance(error, LockLostError)), errors[0])

        return Operation(self.members[0].hold.place, steps, is_urgent=True)

    def _each(
        self, talk: Conversation, members: Iterable[HeldLock], asks: Callable[[HeldLock], Operation[Any]]
    ) -> Steps[list[tuple[HeldLock, LockError]]]:
        """Run an operation of each lock, and return those that failed. After an outage nothing more is sent."""
        failed: list[tuple[HeldLock, LockError]] = []
        unanswered = 0  # in a row
        for member in members:
            try:
                if unanswered == OUTAGE:
                    raise unsent(member.hold)
                with Explained(member.hold.place):
                    yield from asks(member).steps(talk)
                unanswered = 0
            except LockError as error:  # the others go on all the same: they protect the work in hand, or must be freed
                failed.append((member, error))
                if unanswered < OUTAGE and not isinstance(error, LockAlreadyReleasedError):
                    unanswered = unanswered + 1 if isinstance(error, TransportError) else 0
        return failed

    # -- the last act: release, commit ------------------------------------------------------------------------------

    def release(self, *, best_effort: bool = False) -> LastAct[bool]:
        """The operation of `MultiLock.release`. best_effort: log errors, and leave those locks to their lease."""
        self.check_process()
        self.check_not_released()
        return self._release(best_effort)

    def _release(self, best_effort: bool) -> LastAct[bool]:
        def steps(talk: Conversation) -> Steps[bool]:
            errors = yield from self._release_rest(talk, best_effort)
            if errors:
                raise errors[0]
            return not any(member.hold.lost or not member.released for member in self.members)

        again = None if best_effort else self._release(best_effort=True)
        return LastAct(self, steps, self.check_not_released, released, again)

    def _release_rest(self, talk: Conversation, best_effort: bool) -> Steps[list[LockError]]:
        """Release the members that are not released yet, the newest first. Returns the errors, or logs them."""
        left = (member for member in reversed(self.members) if not member.released)
        errors: list[LockError] = []
        for member, error in (yield from self._each(talk, left, HeldLock.release)):
            if isinstance(error, LockAlreadyReleasedError):  # close() just released it
                continue
            if best_effort:
                member.leave_to_lease(error)
            else:
                errors.append(error)
        return errors

    def commit(self, items: Sequence[Mapping[str, Any]]) -> LastAct[None]:
        """The operation of `MultiLock.commit`."""
        from ..core.transaction import commit

        checked = checks.transact_items(items, len(self.members))
        self.check_open()
        for member in self.members:
            member.check_kept()
        holds = self.each_hold()

        def steps(talk: Conversation) -> Steps[None]:
            released: list[Hold] = []
            try:
                yield from commit(holds, checked, talk, released.append)
            except Exception as error:
                for member in self.members:
                    if member.hold in released:
                        member.note_release(True)
                    elif isinstance(error, LockLostError) and member.key == error.key:
                        member.lose("lock %r was lost before its commit")
                if isinstance(error, (LockLostError, CommitRefusedError)):  # refused for good: release the rest
                    yield from self._release_rest(talk, best_effort=True)
                raise
            for member in self.members:
                member.note_release(True)

        return LastAct(self, steps, self.check_not_released, unclear, self._release(best_effort=True))

    def is_released_by_block(self) -> bool:
        """Whether leaving their block releases them."""
        return self.is_in_this_process() and not self.released

    def leave_to_lease(self, error: LockError) -> None:
        """Tell of each lock that its release failed. The leases end them."""
        for member in self.members:
            if not member.released:
                member.leave_to_lease(error)

    def end(self) -> None:
        """Stop holding and renewing them, before the first send of a last act.

        A lock that was entered again (reentrant=True) ends with the others.
        """
        for member in self.members:
            member.is_timed = False  # their common end is measured
            member.leave_all()
            member.end()


class MultiHandle(HandleBase):
    """What `MultiLock` and `AsyncMultiLock` have in common: everything that sends no request."""

    __held__: Group

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, each one once, in the order in which the locks were taken: by their bytes in UTF-8."""
        return self.__held__.keys

    @property
    def owner(self) -> str:
        """``prefix#nonce``, unique for this acquisition. All the locks have it."""
        return self.__held__.members[0].hold.owner

    @property
    def fencing_tokens(self) -> dict[str, int]:
        """The fencing token of each lock, by key. See `Lock.fencing_token`."""
        return {member.key: member.hold.token for member in self.__held__.members}

    @property
    def remaining(self) -> float:
        """Seconds for which all locks are still held without another renewal. 0 once one is lost or released."""
        return min(member.remaining() for member in self.__held__.members)

    @property
    def is_held(self) -> bool:
        """Whether all locks are held now. This looks at the clocks, so it notices a freeze longer than a lease."""
        return all(member.is_held() for member in self.__held__.members)

    @property
    def lost(self) -> bool:
        """Whether any lock was lost while held. This is final. The others are still renewed until the release, because
        they protect the work in hand."""
        return self.__held__.is_lost()

    def raise_if_lost(self) -> None:
        """Raise LockLostError, with the key of the lock, if any lock is not held now. Call this before each step that
        must not be done twice.

        Example: ``locks.raise_if_lost(); transfer(...)``
        """
        self.__held__.is_lost()
        for member in self.__held__.members:
            member.raise_if_lost()

    def __repr__(self) -> str:
        # The locks may be in different states. Then the state of the first one that is not held is shown.
        worst = next((member for member in self.__held__.members if not member.is_held()), None)
        state = f"held for {self.remaining:.1f} s" if worst is None else worst.state()
        shown, more = ", ".join(map(repr, self.keys[:_SHOWN])), len(self.keys) - _SHOWN
        return f"<{type(self).__name__} {shown}{f' and {more} more' if more > 0 else ''} {state}>"


class MultiLock(MultiHandle, WithBlock):
    """The locks that `LockClient.acquire_all` returned. Use it in a ``with`` block, which releases them at its end.

    It may be used from several threads of the process that acquired it. In a forked child it is not held, and it is
    neither renewed nor released there.

    Example::

        with client.acquire_all(["account#1", "account#2"]) as locks:
            locks.raise_if_lost()
    """

    def heartbeat(self) -> None:
        """Renew all locks now.

        Every lock is tried, unless two in a row get no answer. Raises what `Lock.heartbeat` raises: LockLostError if
        there is one, otherwise the first error.

        Example: ``locks.heartbeat()``
        """
        return self.__runner__.run(self.__held__.heartbeat())

    def release(self) -> bool:
        """Release all locks, the newest first.

        Returns True if all were released, and False if any had been lost before.

        Every lock is tried by itself, and the first error is raised at the end: TransportError(ambiguous=True) if an
        outcome is unknown, TransportError or LockConfigurationError if DynamoDB refused. If two in a row get no answer
        (10 s at most), nothing more is sent. The locks in question end with their leases, or release may be called
        again: it tries those that are not released yet. Raises LockAlreadyReleasedError if all were released, and
        OwnerMismatchError in another process.

        Example: ``locks.release()``
        """
        return self.__runner__.run(self.__held__.release())

    def commit(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Write ``items`` and release all locks in one transaction: the items are written only while all are held.

        items: entries of TransactWriteItems (low-level DynamoDB JSON, as boto3's client takes them), for tables of this
            account and Region; at least 1, and at most 100 together with the locks.

        The handle cannot be used for another commit afterwards.

        Raises CommitRefusedError if a condition of the items did not hold (all locks are then released); LockLostError,
        with its key, if the row of one is another's or released (nothing is then written, and the others are released);
        otherwise what `Lock.commit` raises.

        Example: ``locks.commit([{"Update": take_from_one}, {"Update": give_to_the_other}])``
        """
        return self.__runner__.run(self.__held__.commit(items))
