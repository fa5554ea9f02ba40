"""The last act of what is held, one lock or several: one call at a time ends it, in the process that took it."""

from __future__ import annotations

import os
import weakref

from ..errors import LockAlreadyReleasedError, LockError, OwnerMismatchError
from ..runtime.signalsafe import Caller, Turn, released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    from ..core.lease import ClockReading
    from ..core.protocol import Hold, Steps
    from ..core.requests import Place
    from .session import Session

    T = TypeVar("T")
    #: The steps of an operation, which begin with a reading of the clocks.
    Begin: TypeAlias = Callable[[ClockReading], Steps[T]]
    #: A release, commit or hand_over: the lock that errors name, the steps, what makes the error if closing the client
    #: ends them, and the steps that release the lock after an interrupt has ended them.
    LastAct: TypeAlias = tuple[Place, Begin[T], Callable[[], LockError], Begin[bool]]


class LastActs:
    """The end of one lock, or of several that were taken together: by one call at a time, in the process that took it.

    pid: the only process that may end it. make_handle: makes the Lock or MultiLock that callbacks and hooks are given,
    and a plain client returns. key: of the lock that errors name. None: there are several. is_timed: its end is. False
    for one of several locks: theirs is.
    """

    _was, _is, _it, _ended_by = "was", "is", "it", "released, committed or handed over"

    if TYPE_CHECKING:

        @property
        def key(self) -> str | None: ...
        @property
        def released(self) -> bool: ...
        def each_hold(self) -> list[Hold]: ...
        def end(self) -> None: ...
        def name(self) -> str: ...
        def tell_not_released(self, error: LockError) -> None: ...

    def __init__(self, session: Session, pid: int, make_handle: Callable[[Any], Any]) -> None:
        self.session = session
        self.pid = pid
        self.is_timed = True
        self._make_handle = make_handle
        self._handle: weakref.ref[Any] | None = None
        self._last_act = Turn()  # release, commit and hand_over: one of them at a time

    def handle(self) -> Any:
        """The Lock or MultiLock that the application has, or a new one if it has none."""
        handle = None if self._handle is None else self._handle()
        if handle is None:
            handle = self._make_handle(self)
            self._handle = weakref.ref(handle)
        return handle

    @property
    def ended(self) -> bool:
        """Whether a last act was begun: release, commit or hand_over."""
        return any(hold.ended for hold in self.each_hold())

    def is_in_this_process(self) -> bool:
        return self.pid == os.getpid()

    def check_open(self) -> None:
        """Raise LockAlreadyReleasedError after a last act was begun, and OwnerMismatchError in another process."""
        self.check_process()
        if self.ended:
            raise LockAlreadyReleasedError(
                f"{self.name()} {self._was} {self._ended_by}: acquire {self._it} again", key=self.key
            )

    def check_process(self) -> None:
        if self.pid != os.getpid():
            raise OwnerMismatchError(
                f"{self.name()} {self._was} acquired by process {self.pid}: a forked child neither renews nor releases "
                f"its parent's locks. Acquire {self._it} here, or leave {self._it} to the parent",
                key=self.key,
            )

    def check_not_released(self) -> None:
        if self.released:
            raise LockAlreadyReleasedError(
                f"{self.name()} {self._was} released before: a handle is released once", key=self.key
            )

    def last(self, check: Callable[[], None], steps: Begin[T]) -> Begin[T]:
        """The steps of a last act, while no other one is under way. From here on nothing is held or renewed.

        check: raises if a last act that has just ended leaves nothing to do.
        """

        def alone(reading: ClockReading) -> Steps[T]:
            self.check_process()  # here: drive() has noted the process, and sees a fork from now on
            turn = Caller()
            try:
                if not self._last_act.take(turn):
                    raise LockAlreadyReleasedError(
                        f"{self.name()} {self._is} being {self._ended_by} at this moment, by another thread or by the "
                        "code that a signal handler interrupted",
                        key=self.key,
                    )
                check()
                self.end()
                acting = steps(reading)
                if self.is_timed and self.session.observer.measures:
                    acting = self._timed(reading, acting)
                return (yield from acting)
            finally:
                self._last_act.give_back(turn)

        return alone

    def _timed(self, reading: ClockReading, steps: Steps[T]) -> Steps[T]:
        from ..observe.timing import timed

        def how(_: T) -> tuple[str, int | None]:
            if any(hold.lost for hold in holds):
                return "lost", token
            return "handed_over" if holds[0].handed_over else "released", token

        holds = self.each_hold()
        keys = [hold.place.key for hold in holds]
        token = None if self.key is None else holds[0].token
        since = max(hold.since for hold in holds)  # all of them were held from then on
        table = holds[0].place.table
        return timed(self.session.observer, "release", table, keys, reading, steps, how, token, since=since)

    def run_last(self, act: LastAct[T]) -> T:
        """Run a last act on this thread. If an interrupt (Ctrl-C, sys.exit() in a signal handler) ends it, the lock is
        released before that propagates: whatever the act did, no other code would release it.
        """
        place, steps, ends, again = act
        try:
            return self.session.run(place, steps, ends=ends)
        except Exception:
            raise
        except BaseException:
            self.give_up(again)
            raise

    def give_up(self, again: Begin[bool]) -> None:
        """Release on this thread after a last act was interrupted, with any outcome. Errors are logged."""
        if not self.is_in_this_process():  # a child leaves that was forked meanwhile: the lock is its parent's
            return
        try:
            self.session.run(self.each_hold()[0].place, again, ends=released)
        except LockAlreadyReleasedError:
            return
        except LockError as error:
            self.tell_not_released(error)
