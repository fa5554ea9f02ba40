"""A lock that is held by this process: its state, and its release. What else can be done with it is in operations.py.

`Lock` and `AsyncLock` are handles of a HeldLock: one runs its operations on the calling thread, the other awaits them.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from functools import partial  # the Lambda runtime has it loaded

from ..core import keep, requests
from ..core.outcome import expected, is_interrupt
from ..core.protocol import DECISION
from ..core.row import is_attempt
from ..errors import (
    LockAlreadyReleasedError,
    LockArgumentError,
    LockConfigurationError,
    LockError,
    LockLostError,
    OwnerMismatchError,
)
from ..runtime.signalsafe import Caller, Turn, released
from . import checks
from .renewer import KeepOptions, Renewer, leave_to_lease
from .session import Explained, Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    from ..core.protocol import Conversation, Hold, Steps
    from ..observe.observer import Observer
    from .event_results import Storing
    from .session import Session

    T = TypeVar("T")
    #: The steps of an operation, which begin with a reading of the clocks.
    Begin: TypeAlias = Callable[[Conversation], Steps[T]]

_AT_ONCE = "at this moment, by another thread or by the code that a signal handler interrupted"
_FORKED = "acquired by process {pid}: a forked child neither renews nor releases its parent's locks. Acquire"
#: Why a use of one lock is refused, and of several.
_REFUSALS = {
    "ended": (
        "was released, committed or handed over: acquire it again",
        "were released or committed: acquire them again",
    ),
    "ending": (
        f"is being released, committed or handed over {_AT_ONCE}",
        f"are being released or committed {_AT_ONCE}",
    ),
    "forked": (
        f"was {_FORKED} it here, or leave it to the parent",
        f"were {_FORKED} them here, or leave them to the parent",
    ),
    "released": (
        "was released before: a handle is released once",
        "were released before: a handle is released once",
    ),
}


class Holding:
    """One lock, or several that were taken together: what ends by one last act at a time, in the process that took it.

    pid: the only process that may end it. make_handle: makes the Lock or MultiLock that callbacks and hooks are given,
    and a plain client returns. key: of the lock that errors name. None: there are several. is_timed: whether its end is
    measured. False for one of several locks: their common end is. turn: of the last act that is under way.
    """

    if TYPE_CHECKING:

        @property
        def key(self) -> str | None: ...
        @property
        def released(self) -> bool: ...
        def each_hold(self) -> list[Hold]: ...
        def end(self) -> None: ...
        def name(self) -> str: ...
        def leave_to_lease(self, error: LockError) -> None: ...

    def __init__(self, session: Session, pid: int, make_handle: Callable[[Any], Any]) -> None:
        self.session = session
        self.pid = pid
        self.is_timed = True
        self.turn = Turn()
        self._make_handle = make_handle
        self._handle: weakref.ref[Any] | None = None

    def handle(self) -> Any:
        """The Lock or MultiLock that the application has, or a new one if it has none."""
        handle = None if self._handle is None else self._handle()
        if handle is None:
            handle = self._make_handle(self)
            self._handle = weakref.ref(handle)
        return handle

    @property
    def ended(self) -> bool:
        """Whether a last act was begun."""
        return any(hold.ended for hold in self.each_hold())

    def is_in_this_process(self) -> bool:
        return self.pid == os.getpid()

    def check_open(self) -> None:
        """Raise LockAlreadyReleasedError after a last act was begun, and OwnerMismatchError in another process."""
        self.check_process()
        if self.ended:
            raise self.refusal("ended")

    def check_process(self) -> None:
        if self.pid != os.getpid():
            raise self.refusal("forked", OwnerMismatchError)

    def check_not_released(self) -> None:
        if self.released:
            raise self.refusal("released")

    def refusal(self, why: str, kind: type[LockError] = LockAlreadyReleasedError) -> LockError:
        """The error for a use of it that is not possible."""
        text = _REFUSALS[why][self.key is None].format(pid=self.pid)
        return kind(f"{self.name()} {text}", key=self.key)


class LastAct(Operation["T"]):
    """A release, commit or handover: one at a time. Its first step is `Holding.end`.

    If an interrupt (Ctrl-C, sys.exit() in a signal handler) ends it, the lock is released before that propagates:
    whatever the act did, no other code would release it.

    acting: its steps, once it has the turn. check: raises if a last act that has just ended leaves nothing to do.
    closed: makes the error if closing the client ends it. again: what releases the lock after an interrupt. None: this.
    """

    what, is_urgent, patience = "release", True, DECISION

    def __init__(
        self,
        held: Holding,
        acting: Begin[T],
        check: Callable[[], None],
        closed: Callable[[], LockError],
        again: LastAct[bool] | None = None,
    ) -> None:
        self.place = held.each_hold()[0].place
        self.closed = closed
        self._held = held
        self._acting = acting
        self._check = check
        self._again = again

    def begin(self, observer: Observer, talk: Conversation) -> Steps[T]:
        """Its steps, which are measured only once it has the turn."""
        return self.steps(talk)

    def steps(self, talk: Conversation) -> Steps[T]:
        """Its requests. Raises if another last act is under way."""
        held = self._held
        held.check_process()  # here: drive() has noted the process, and sees a fork from now on
        turn = Caller()
        try:
            if not held.turn.take(turn):
                raise held.refusal("ending")
            self._check()
            held.end()
            acting = self._acting(talk)
            return (yield from self.measured(held.session.observer, talk, acting) if held.is_timed else acting)
        finally:
            held.turn.give_back(turn)

    def keys(self) -> list[str]:
        """The keys of all its locks."""
        return [hold.place.key for hold in self._held.each_hold()]

    def of_hold(self) -> tuple[int | None, float]:
        """The token of the lock, or None for several, and from when on all were held."""
        holds = self._held.each_hold()
        return None if self._held.key is None else holds[0].token, max(hold.since for hold in holds)

    def outcome(self, done: object) -> str:
        """What the hold became."""
        holds = self._held.each_hold()
        if any(hold.lost for hold in holds):
            return "lost"
        return "handed_over" if holds[0].handed_over else "released"

    def leaves(self, error: BaseException) -> bool:
        """Whether an interrupt has ended it. After other errors, the caller may release again."""
        return is_interrupt(error) and self._held.is_in_this_process()

    def undo(self) -> None:
        """Release on this thread, with any outcome of the act."""
        try:
            self._held.session.drive(self._again or self)
        except expected(LockAlreadyReleasedError):
            return
        except expected(LockError) as error:
            self.give_up(error)

    def give_up(self, error: LockError) -> None:
        """Leave it to its lease."""
        self._held.leave_to_lease(error)


class _BestEffort(LastAct["bool"]):
    """A release whose errors are logged."""

    def steps(self, talk: Conversation) -> Steps[bool]:
        """Its requests. Raises if there is nothing to release."""
        try:
            with Explained(self.place):
                return (yield from super().steps(talk))
        except LockAlreadyReleasedError:
            raise
        except LockError as error:
            self.give_up(error)
            return False


class HeldLock(Holding):
    """A lock that was granted, and the operations that end it. It may be used from any thread."""

    released: bool = False  # or handed over, or left to its lease: there is nothing more to end

    def __init__(
        self, session: Session, hold: Hold, options: KeepOptions, make_handle: Callable[[HeldLock], Any]
    ) -> None:
        super().__init__(session, options.pid, make_handle)
        self._entered = 1
        self._storing: Storing | None = None
        self.is_given = not hold.resumed  # False until the caller has a resumed Lock: close() does not release it
        self.elapsed = session.timeline.elapsed
        self.hold = hold
        self.options = options
        self.renewer = Renewer(session, hold, options, weakref.ref(self))

    # -- its state --------------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        return self.hold.place.key

    def each_hold(self) -> list[Hold]:
        return [self.hold]

    @property
    def lease_duration(self) -> float:
        return self.hold.lease_ms / 1000

    def name(self) -> str:
        return f"lock {self.key!r}"

    def is_held(self) -> bool:
        return self._is_live(self.elapsed())

    def remaining(self) -> float:
        now = self.elapsed()
        return max(0.0, self.hold.valid_until - now) if self._is_live(now) else 0.0

    def is_lost(self) -> bool:
        return self.pid != os.getpid() or self.renewer.notice() or self.hold.lost

    def is_open(self) -> bool:
        """Whether it is still to be released: held, held on through an outage, or its release was interrupted."""
        return self.is_in_this_process() and not self.is_lost() and not self.released

    def is_left(self) -> bool:
        """Whether it is left to the next attempt: it was resumed, and an interrupt ended its handing over."""
        return self.hold.resumed and self.hold.handed_over and not self.hold.unclear

    def raise_if_lost(self) -> None:
        self.renewer.notice()
        if self.is_held():
            return
        holder = self.hold.holder
        ended = self.hold.ended and not self.hold.lost
        state = "was released" if ended else f"is lost; {holder} has it now" if holder else "is lost"
        advice = "Ask before its release" if ended else "Stop here: its new holder may be doing the same work"
        raise LockLostError(
            f"lock {self.key!r} {state}. {advice}",
            key=self.key,
            holder=holder,
        )

    def state(self) -> str:
        """For people: the state of the lock now."""
        if self.is_held():
            return f"held for {self.remaining():.1f} s"
        if self.hold.lost or not self.hold.ended:
            return "lost"
        if self.hold.handed_over:
            return "handed over"
        return "released" if self.released else "given up, release not confirmed"

    def _is_live(self, now: float) -> bool:
        return self.hold.is_held(now) and self.pid == os.getpid()

    # -- checks -----------------------------------------------------------------------------------------------------

    def check_kept(self) -> None:
        """Raise LockConfigurationError if the row is deleted on release."""
        if self.hold.delete_on_release:
            raise LockConfigurationError(
                f"lock {self.key!r} deletes its row on release, so it cannot guard a transaction or be handed over: "
                "a late copy of its claim could bring the same owner and token back. Acquire it without "
                "delete_on_release, and not in the schema PYTHON",
                key=self.key,
            )

    # -- its end ----------------------------------------------------------------------------------------------------

    def release(
        self,
        data: bytes | None = None,
        delete: bool | None = None,
        best_effort: bool = False,
        *,
        complete: bool = False,
        result: str | None = None,
    ) -> Operation[bool]:
        """The operation of `Lock.release`. complete: the same request completes the event, and stores the text
        ``result`` with it.
        """
        encoded = None if data is None else self.encoded(data)
        if delete and self.hold.place.permits is not None:
            raise LockArgumentError(
                f"release(delete=True) is not possible for a permit: the row of semaphore {self.key!r} belongs to all "
                "its holders. Leave delete out",
                key=self.key,
            )
        if delete and is_attempt(self.hold.owner):
            raise LockArgumentError(
                f"release(delete=True) is not possible for {self.key!r}, which was resumed or adopted: a late copy of "
                "its claim could bring the same owner and token back. Leave delete out",
                key=self.key,
            )
        self.check_process()
        if self._entered > 1:  # an inner release of a re-entrant lock: nothing is sent
            self._entered -= 1
            return Operation(self.hold.place, _done, is_urgent=True)
        self.check_not_released()
        acting = partial(self.releasing, data=encoded, delete=delete, complete=complete, result=result)
        return (_BestEffort if best_effort else LastAct)(self, acting, self.check_not_released, released)

    def releasing(self, talk: Conversation, **options: Any) -> Steps[bool]:
        """The requests of a release. options: as for `keep.release`."""
        done = yield from keep.release(self.hold, talk, **options)
        if self.released:  # close() of the client has released it meanwhile
            return True
        self.note_release(done)
        return done

    def is_released_by_block(self) -> bool:
        """Whether leaving its block releases it. A lock that is left to the next attempt is not held from here on."""
        if not self.is_in_this_process():
            return False
        if self.is_left():
            self.abandon()
        return not self.released

    def abandon(self) -> None:
        """Stop holding and renewing it. The row is left to its lease."""
        self.end()
        self.note_over()

    def leave_to_lease(self, error: LockError) -> None:
        """Tell that a release failed. The lease ends the lock."""
        leave_to_lease(self.session, self.hold, error)

    def end(self) -> None:
        """Stop holding and renewing it, before the first send of a last act."""
        self.hold.end()
        self.renewer.stop()

    def note_release(self, done: bool) -> None:
        """Note how a release ended: done, or found to be lost before."""
        if not done:
            self.lose("lock %r was lost before its release")
            return
        self.note_over()
        self.renewer.tell("released", "lock %r was released")

    def lose(self, message: str) -> None:
        """Note that a last act found the lock lost: there is nothing more to end."""
        self.released = True
        self.renewer.lose(message)

    def note_over(self) -> None:
        """Note that nothing is left to end, also not by close() of the client."""
        self.released = True
        self.session.open_locks.discard(self.hold)

    # -- re-entrance ------------------------------------------------------------------------------------------------

    def enter_again(self, *, event: bool) -> None:
        """Count up. One release more is needed then. event: entered for an event, so it must be an event's lock."""
        if event and self.hold.window is None:
            raise LockConfigurationError(
                f"lock {self.key!r} is held already, but not by @deduplicate: it could not complete the event. Give "
                "one of the two a different key",
                key=self.key,
            )
        self._entered += 1

    def leave_all(self) -> None:
        """The next release is the outermost one."""
        self._entered = 1

    # -- what is stored ---------------------------------------------------------------------------------------------

    def store_by(self, storing: Storing) -> None:
        """Store the event's result in this way. For a re-entrant lock, the outermost call says how."""
        self._storing = self._storing or storing

    def checked_result(self, result: object, data: str | None = None) -> str | None:
        """The text to store for an event's duplicates. It fits into the row along with ``data``."""
        if result is None and self._storing is None:
            return None
        if self.hold.window is None:
            raise LockArgumentError(
                f"result= is for the duplicates of an event, but lock {self.key!r} does not belong to one: use data=",
                key=self.key,
            )
        from .event_results import encode_result

        return encode_result(result, self.hold, data, self._storing)

    def count_for(self, result: object) -> None:
        """Let the event count as done for as long as window= says of its result."""
        if self._storing is not None and self._storing.window_of is not None and self._entered == 1:
            self.hold.count_for(self._storing.window_of(result))

    def encoded(self, data: bytes | None) -> str | None:
        """Data as it is stored. Raises LockArgumentError if the row would be too large."""
        if data is None:
            return None
        from .values import check_size

        encoded = requests.encode_data(checks.data(data))
        check_size({**self.hold.item, self.hold.place.schema.data: {"B": encoded}}, self.key)
        return encoded

    # -- its end without a release ----------------------------------------------------------------------------------

    def __del__(self) -> None:
        hold = getattr(self, "hold", None)  # None: an interrupt came while this was made
        if hold is None or sys.is_finalizing() or (hold.ended and hold not in self.session.open_locks):
            return
        now = self.elapsed()
        if not hold.ended and self.is_in_this_process():
            self.session.observer.note_unended(hold, now)
        if hold not in self.session.open_locks:
            return
        if not self._is_live(now):
            if now >= hold.valid_until:
                self.session.open_locks.discard(hold)  # its lease has freed it
            return
        remedy, end = "(`with client.acquire(...) as lock:`)", "when the client is closed"
        if hold.resumed:
            remedy, end = "or hand it over", "the next attempt goes on with it"
        message = (
            f"the handle of lock {self.key!r} was dropped while the lock is held: keep it, and release it {remedy}. It "
            f"is no longer renewed. It ends with its lease, or {end}"
        )
        # No place: a finalizer loads no module for metrics, which do not count it.
        about = {"key": self.key, "owner": hold.owner, "fencing_token": hold.token}
        self.session.observer.tell("forgotten", "%s", message, **about)
        warnings.warn(message, ResourceWarning, stacklevel=2)


def _done(talk: Conversation) -> Steps[bool]:
    """An operation that has nothing to send."""
    yield from ()
    return True
