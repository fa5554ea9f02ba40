"""What the application is told about one lock: danger and loss, once each, and its events for the log and the hooks."""

from __future__ import annotations

import threading
from contextlib import suppress  # the Lambda runtime has it loaded

from ..core import lease
from ..observe.log import tell_not_released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..core.protocol import Hold
    from ..errors import LockError
    from .session import Session
    from .terms import Terms

    #: The lock, as the application sees it. None: the application has dropped it, and it was collected.
    Subject: TypeAlias = Callable[[], Any]


class Signals:
    """Signals of one lock. Any thread may notice that the lock is in danger or lost; one of them tells it."""

    def __init__(self, session: Session, hold: Hold, terms: Terms, subject: Subject) -> None:
        self._session = session
        self._hold = hold
        self._terms = terms
        self._subject = subject
        self._untold = {"danger": True, "lost": True}
        self.quiet = False  # tell nothing yet: the application does not have the lock

    @property
    def danger_at(self) -> float | None:
        """When to tell the danger (elapsed seconds). None: never, not yet, or it was told before."""
        safe_time = self._terms.safe_time
        untold = "danger" in self._untold and not self.quiet
        return self._hold.valid_until - safe_time if safe_time is not None and untold else None

    @property
    def are_wanted(self) -> bool:
        """Whether there is a callback or hook to call, and validity ends before the invocation does."""
        hold = self._hold
        if self._terms.safe_time is not None:
            return True
        wanted = self._terms.on_lost is not None or self._session.observer.wants("lost")
        return wanted and lease.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms)

    def tell_danger(self) -> None:
        """Call ``on_danger``, the first time."""
        if self._is_first("danger"):
            self._call(self._terms.on_danger)

    def tell_lost(self, message: str, *, apart: bool = False) -> None:
        """Tell the loss, the first time: in the log, to the hooks, and by ``on_lost``.

        apart: on a thread of its own, since a logging handler of the application may take long.
        """
        if self.quiet or not self._is_first("lost"):
            return

        def tell() -> None:
            try:
                self.tell("lost", message)
            finally:  # also where a logging handler raised SystemExit
                self._call(self._terms.on_lost)

        if apart:
            _on_thread(tell)
        else:
            tell()

    def tell(self, event: str, message: str, *arguments: object, cause: BaseException | None = None) -> None:
        """Tell an event of this lock. The key is the first argument of ``message``."""
        if self.quiet and event != "renewal_failed":  # which concerns the table, not only this lock
            return
        hold, observer = self._hold, self._session.observer
        subject = self._subject() if observer.wants(event) else None
        key = hold.place.key
        observer.tell(event, subject, hold.place.table, message, key, *arguments, cause=cause, **about(hold))

    def _is_first(self, signal: str) -> bool:
        """Threads may notice at the same time. Taking the entry out is one step, which only one of them makes."""
        return self._untold.pop(signal, False)

    def _call(self, callback: Callable[[Any], object] | None) -> None:
        subject = None if callback is None else self._subject()
        if callback is None or subject is None:
            return

        def run() -> None:
            try:
                callback(subject)
            except Exception as error:  # noqa: BLE001 - the application's, on a thread of its own: it can only be logged
                self.tell("callback_failed", "a callback of lock %r failed", cause=error)

        error = _on_thread(run, or_run=False)
        if error is not None:
            self.tell("callback_failed", "a callback of lock %r was not called: %s", error)


def about(hold: Hold) -> dict[str, Any]:
    """What log records say about a lock, in their ``extra``."""
    return {"key": hold.place.key, "owner": hold.owner, "fencing_token": hold.token}


def leave_to_lease(session: Session, hold: Hold, error: LockError) -> None:
    """Log a release that failed. The lease ends the lock."""
    tell_not_released(session.log, error, **about(hold))
    session.open_locks.discard(hold)


def _on_thread(function: Callable[[], None], *, or_run: bool = True) -> RuntimeError | None:
    """Run ``function`` on a thread of its own.

    Where no thread can be started (there are too many, or the interpreter ends), ``function`` is run here. With
    ``or_run=False`` the error is returned instead. It is no reason for a release to fail.
    """

    def run() -> None:
        with suppress(SystemExit):  # of a logging handler
            function()

    try:
        threading.Thread(target=run, name="lambda_lock-callback", daemon=True).start()
    except RuntimeError as error:
        if not or_run:
            return error
        function()
    return None
