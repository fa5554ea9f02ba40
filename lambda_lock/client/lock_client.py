"""The client: takes locks, reads them, and releases them all when it is closed."""

from __future__ import annotations

from ..errors import LockNotGrantedError
from ..runtime.late import Late
from . import taking
from .base import Client, init_of
from .lock import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Any, Self, TypeVar, Unpack

    from .lock import Callback
    from .order import AcquireOptions
    from .record import LockRecord
    from .session import Operation
    from .taking import Taking

    T = TypeVar("T")


class LockClient(Client):
    """Locks in one DynamoDB table, for threads. Building a client does no I/O and needs no table or credentials yet.

    The settings are described in `lambda_lock.client.settings.Settings`.

    Example::

        client = LockClient("locks")
        with client.acquire("invoice#7") as lock:
            ...
    """

    if not TYPE_CHECKING:
        __init__ = init_of("LockClient")

    def acquire(
        self,
        key: str,
        *,
        wait: float | None = None,
        reserve: float | None = None,
        data: bytes | None = None,
        replace_data: bool = True,
        attributes: Mapping[str, Any] | None = None,
        sort_key: str | None = None,
        lease_duration: float | None = None,
        refresh_period: float | None = None,
        delete_on_release: bool = False,
        replace: bool = False,
        only_if_exists: bool = False,
        reentrant: bool = False,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        cancel_check: Callable[[], bool] | None = None,
        context: object = None,
    ) -> Lock:
        """Take the lock ``key``. If it is held elsewhere, wait for it.

        key: 1 to 2,048 bytes of UTF-8.
        wait: seconds to wait. None: the invocation's time left less ``reserve`` (outside Lambda the lease + 5 s). 0:
            one decision. inf: no limit.
        reserve: seconds that the work needs after the grant. None: a quarter of the time left, at least 1 s.
        data: bytes stored with the lock. None leaves what is stored, b"" empties it.
        replace_data: False: store ``data`` only if the row has none.
        attributes: plain Python values, stored as columns of the row.
        sort_key: the value of the table's sort key, where it has one.
        lease_duration: seconds, 1 or more. None: the client's.
        refresh_period: seconds, the longest pause between two polls. None: the client's.
        delete_on_release: delete the row on release. Fencing tokens do not continue to rise then.
        replace: write the row anew, so that columns which others left in it go. Costs one request more.
        only_if_exists: take the lock only if its row exists.
        reentrant: if the same thread or task holds the lock already, count up and return the same Lock.
        safe_time: seconds before the end of validity at which ``on_danger`` is called. None: the client's.
        on_danger: called with the Lock, on a thread of its own, when ``safe_time`` is reached.
        on_lost: called with the Lock, on a thread of its own, when the lock is lost.
        cancel_check: called after each pause of the wait. When it returns True, LockTimeoutError is raised.
        context: the Lambda context, for the time it has left. None: the context that a decorator or
            `register_lambda_context` left.

        Returns the Lock. Raises LockNotGrantedError at once if ``wait=0`` finds the lock held, or if less than a second
        is left; LockTimeoutError if a wait ran out; LockFormatError for a held row that cannot be read;
        LockConfigurationError (table, keys, Region, credentials, permission); TransportError if DynamoDB did not
        answer; LockError if the heartbeat's thread cannot start; ClientClosedError; LockArgumentError or TypeError for
        bad input.

        After an error nothing is held here. A claim that may have reached DynamoDB is released first, which may take
        5 s. If that gets no answer either, the row looks held until the lease ends.

        Example: ``with client.acquire("invoice#7", wait=10) as lock: ...``
        """
        return self._take(
            taking.acquire(
                self._session,
                key,
                wait=wait,
                reserve=reserve,
                data=data,
                replace_data=replace_data,
                attributes=attributes,
                sort_key=sort_key,
                lease_duration=lease_duration,
                refresh_period=refresh_period,
                delete_on_release=delete_on_release,
                replace=replace,
                only_if_exists=only_if_exists,
                reentrant=reentrant,
                safe_time=safe_time,
                on_danger=on_danger,
                on_lost=on_lost,
                cancel_check=cancel_check,
                context=context,
            )
        )

    def try_acquire(self, key: str, *, wait: float = 0, **options: Unpack[AcquireOptions]) -> Lock | None:
        """`acquire` in one decision (``wait=0``), or within ``wait`` seconds. Returns None if it is held elsewhere.

        Takes and raises what `acquire` does, except for contention.

        Example: ``if lock := client.try_acquire("report"): ...``
        """
        try:
            return self.acquire(key, wait=wait, **options)
        except LockNotGrantedError as error:
            if error.too_late:
                raise
            return None

    def get(self, key: str, *, sort_key: str | None = None) -> LockRecord | None:
        """Read a lock without taking it, by one consistent read. Returns None if the table has no such row.

        key, sort_key: as for `acquire`. Raises what `acquire` raises about table, keys, Region, credentials, permission
        and transport.

        Example: ``record = client.get("invoice#7")``
        """
        with Late():
            from .reading import get

        return self._run(get(self._session, key, sort_key))

    def list(self, *, key: str | None = None) -> Iterator[LockRecord]:
        """All locks of the table, held or not, read page by page. Rows that never were a lock's are left out.

        key: only this partition, in a table with a sort key.

        Needs dynamodb:Scan, or dynamodb:Query with ``key``, beyond a lock's four permissions. A Scan reads the whole
        table. Raises what `get` raises.

        Example: ``held = [record.key for record in client.list() if not record.is_released]``
        """
        with Late():
            from .reading import ask, pages_of

        pages = pages_of(self._session, key)
        while (request := pages.request()) is not None:
            yield from pages.take(self._run(ask(self._session, pages.place, request)))

    def prewarm(self) -> None:
        """Open the connection and learn DynamoDB's time, so that the first lock waits for neither.

        One consistent read of a row that does not exist. Raises what `get` raises.

        Example: ``client.prewarm()  # at INIT``
        """
        with Late():
            from .reading import prewarm

        self._run(prewarm(self._session))

    def adopt(
        self,
        token: str,
        *,
        lease_duration: float | None = None,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        context: object = None,
    ) -> Lock:
        """Continue a lock that was handed over. The fencing token rises by one.

        token: the string that `Lock.hand_over` returned.
        lease_duration: seconds. None: as handed over. The lease ends with this invocation.
        safe_time, on_danger, on_lost, context: as for `acquire`.

        Raises LockLostError if the lock is not there any more or the string was adopted before, LockFormatError for a
        string that is damaged or belongs to another table, and what `acquire` raises otherwise.

        Example: ``with client.adopt(event["lock"]) as lock: ...``
        """
        return self._take(
            taking.adopt(
                self._session,
                token,
                lease_duration=lease_duration,
                safe_time=safe_time,
                on_danger=on_danger,
                on_lost=on_lost,
                context=context,
            )
        )

    def held(self) -> tuple[Lock, ...]:
        """The locks of this client that are held now, in this process."""
        return tuple(held.face() for held in self._session.open_locks.handled() if held.is_held())

    def close(self, *, release: bool = True) -> None:
        """End the client. Acquires that wait raise ClientClosedError, and held locks are released.

        release: False: leave held locks to their lease.

        Locks whose handles were dropped are released as well. A release that fails is logged, and the others are tried
        all the same. If two in a row get no answer (10 s at most), DynamoDB cannot be reached, and the rest is left to
        its lease. After an interrupt, call close again: it continues. Otherwise closing twice does nothing.
        """
        with Late():
            from .closing import close

        close(self._session, release=release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, operation: Operation[T]) -> T:
        return self._session.run(*operation)

    def _take(self, taking: Taking) -> Lock:
        try:
            self._session.run(taking.place, taking.steps, taking.after_wait)
            return taking.lock()
        except BaseException:
            taking.give_back()
            raise
