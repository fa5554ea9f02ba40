"""What a client can do without taking a lock: read rows, wait for a start of a rate limit, and sleep."""

from __future__ import annotations

from . import checks
from .base import Client
from .options import declared, filled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeVar

    from .record import LockRecord
    from .session import Session

    Kind = TypeVar("Kind", bound=type)


def _of_lock_client(kind: Kind) -> Kind:
    """Let errors name the methods of a class as those of `LockClient`, the public class that inherits them."""
    for name, method in vars(kind).items():
        if hasattr(method, "__qualname__"):
            method.__qualname__ = f"LockClient.{name}"
    return kind


def _rate_limit(self: AskingClient, /, key: str, limit: int, *more: object, **options: Any) -> float:
    from .rate_limit import rate_limit

    checks.per_by_name(key, limit, more)
    session, asked = self.__session__, filled(AskingClient.rate_limit, options)
    return self.__runner__.run(rate_limit(session, key, limit, **asked))


@_of_lock_client
class AskingClient(Client):
    """The methods of `LockClient` that take no lock."""

    __runner__: Session

    def _begin(self, session: Session) -> None:
        super()._begin(session)
        self.__runner__ = session

    def get(self, key: str, *, sort_key: str | None = None) -> LockRecord | None:
        """Read a lock without taking it, by one consistent read. Returns None if the table has no such row.

        key, sort_key: as for `acquire`.

        Raises LockConfigurationError, TransportError, ClientClosedError, LockArgumentError and TypeError as `acquire`
        does.

        Example: ``record = client.get("invoice#7")``
        """
        from .reads import get

        return self.__runner__.run(get(self.__session__, key, sort_key))

    def list(self, *, key: str | None = None) -> Iterator[LockRecord]:
        """Read all locks of the table, held or not, page by page. Rows that were never a lock's are left out.

        key: only this partition, in a table with a sort key. None: the whole table.

        Needs dynamodb:Scan (with ``key`` dynamodb:Query) on top of a lock's four permissions. A Scan reads the whole
        table. Raises what `get` raises.

        Example: ``held = [record.key for record in client.list() if not record.is_released]``
        """
        from .listing import pages_of
        from .reads import ask

        pages = pages_of(self.__session__, key)
        while (request := pages.request()) is not None:
            yield from pages.records(self.__runner__.run(ask(self.__session__, pages.place, request)))

    def erase(self, key: str, *, scope: str = "", sort_key: str | None = None, force: bool = False) -> bool:
        """Delete the row of a key that nobody uses, with its data, attributes, and the result of an event.

        An event that was done runs again at its next delivery. A rate limit starts anew, and what was a semaphore may
        become a lock. The tokens of the new row are higher as long as clocks are right.

        key, sort_key: as for `acquire`.
        scope: the scope of a deduplicated function, if the key is without it. "": ``key`` is the row's key.
        force: delete also what is held, waited for, or cannot be read. Until a holder notices that, two may work at
            once: stop it first.

        One read, and one delete of the row as it was read. Returns True if it is erased, and False if there was no row.
        Backups, streams and logs keep what they have, and those who sleep for the lock have a row of their own.

        Raises LockNotGrantedError if somebody holds the lock, or took it in the meantime; if starts of a rate limit are
        taken; or if executions sleep for it. LockFormatError if the row cannot be read or was never a lock's,
        TransportError(ambiguous=True) if the outcome is unknown (erase it again), and otherwise what `get` raises.

        Example: ``client.erase(f"customer#{customer}")``
        """
        from .erase import erase

        return self.__runner__.run(erase(self.__session__, key, scope, sort_key, force))

    def prewarm(self) -> None:
        """Open the connection and learn DynamoDB's time, so that the first lock waits for neither.

        Sends one consistent read of a row that does not exist. Raises what `get` raises.

        Example: ``client.prewarm()  # at INIT``
        """
        from .reads import prewarm

        return self.__runner__.run(prewarm(self.__session__))

    @declared(_rate_limit)
    def rate_limit(
        self,
        key: str,
        limit: int,
        *,
        per: float = 1.0,
        burst: int = 1,
        n: int = 1,
        wait: float | None = None,
        reserve: float | None = None,
        sort_key: str | None = None,
        context: object = None,
    ) -> float:
        """Wait for a start of the rate limit ``key``: at most ``limit`` in ``per`` seconds, in order.

        key, sort_key, reserve, context: as for `LockClient.acquire`. A key is a rate limit or a lock, never both.
        limit: starts, 1 or more. Pass the same limit, per and burst everywhere.
        per: seconds, above 0: at most one start in a microsecond, and a year for ``burst`` of them.
        burst: how many may start at once after a pause, 1 or more. In any ``per`` seconds about limit + burst start at
            most, so 1, the default, comes closest to the limit.
        n: how many starts this call is, 1 to ``burst``.
        wait: seconds to wait, 0 to 86,400. None: as for `acquire`. 0: start now or not at all.

        Returns how many seconds it waited. Begin at once: the slot does not wait.
        Raises RateLimitedError at once if no start is free within the wait, LockNotGrantedError if less than a second
        is left, LockFormatError for the row of a lock or semaphore, LockConfigurationError also for the schemas GO and
        PYTHON, and otherwise what `acquire` raises. An interrupted call gives its start back.

        Example: ``client.rate_limit("api", 10)``
        """
        raise NotImplementedError

    def sleep(
        self,
        key: str,
        *,
        holder: str,
        task_token: str,
        permits: int | None = None,
        take: int | None = None,
        shared: bool | None = None,
        sort_key: str | None = None,
    ) -> None:
        """Let a state machine sleep until the lock ``key`` is free for it. Call it after an acquire was refused.

        The table's waker (``LockTable(wake=...)``) takes the lock for the one that has slept longest, and calls it. The
        state then ends, and ``acquire(key, holder=holder, wait=0)`` goes on with what was taken. Being called proves
        nothing: acquire decides. The one that is called has 60 s for that.

        key, sort_key, permits, take, shared: as for that acquire. Whoever sleeps for several permits is not passed by
            those who came later, nor by callers that do not wait.
        holder: the name that acquires, such as the execution's. A second call of it replaces the first.
        task_token: of a state with ``.waitForTaskToken``, 1 to 2,048 characters.

        Raises LockNotGrantedError if 256 sleep already, LockConfigurationError also for other schemas than JAVA and
        where the table has no waker (``LAMBDA_LOCK_WAKE`` is not set), and otherwise what `get` raises. After an
        error, call it again.

        Example: ``client.sleep("report", holder=event["execution"], task_token=event["token"])``
        """
        from .sleep import sleep

        sleeping = sleep(self.__session__, key, holder, task_token, sort_key, permits=permits, take=take, shared=shared)
        return self.__runner__.run(sleeping)
