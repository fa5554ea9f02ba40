"""The handle of a lock that was granted, and the operations that renew it."""

from __future__ import annotations

from functools import partial  # the Lambda runtime has it loaded

from ..core import lease, protocol
from ..core.outcome import expected
from ..errors import LockAlreadyReleasedError, LockArgumentError, SessionMonitorNotSetError
from . import checks
from .session import Entered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Never, Self, TypeAlias, TypeVar

    from ..core.protocol import Conversation, Steps
    from .held import HeldLock, LastAct
    from .session import Operation

    T = TypeVar("T")
    Callback: TypeAlias = Callable[["Lock"], object]


class WithBlock(Entered):
    """Runs the operations of one lock or of several. The end of its ``with`` block releases what is still held."""

    _held: Any  # a HeldLock or a Group

    def _run(self, operation: Operation[T]) -> T:
        done: T = self._held.session.run(*operation)
        return done

    def _end(self, act: LastAct[T]) -> T:
        done: T = self._held.run_last(act)
        return done

    def __enter__(self) -> Self:
        self._held.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held.ends_with_block():
            try:
                self._end(self._held.release(best_effort=True))
            except expected(LockAlreadyReleasedError):
                pass  # another thread releases it at this moment


class Handle(Entered):
    """What `Lock` and `AsyncLock` have in common: everything that sends no request."""

    def __init__(self, held: HeldLock) -> None:
        self._held = held

    @property
    def key(self) -> str:
        """The lock's key, as given to acquire."""
        return self._held.hold.place.key

    @property
    def sort_key(self) -> str | None:
        """The value of the table's sort key. None: the table has none."""
        return self._held.hold.place.sort_key

    @property
    def owner(self) -> str:
        """``prefix#nonce``, unique for this acquisition. After a resume ``prefix#nonce/…``, unique for this handle."""
        return self._held.hold.owner

    @property
    def fencing_token(self) -> int:
        """Rises with every grant of this key, as long as the row is kept.

        Where releases delete the row (``delete_on_release``, the schema PYTHON), it may be equal or fall.

        Pass it to stores that must refuse late writers. See Kleppmann, "How to do distributed locking" (2016).
        """
        return self._held.hold.token

    @property
    def permits(self) -> int | None:
        """How many may hold at once, as passed to acquire. None for a lock."""
        return self._held.hold.place.permits

    @property
    def version(self) -> str:
        """The newest version that was sent for this lock."""
        return self._held.hold.version

    @property
    def data(self) -> bytes | None:
        """The application's bytes in the row, as of the grant or of the last `heartbeat` with data."""
        from .record import row_data

        return row_data(self._held.hold.item, self._held.hold.place)

    @property
    def attributes(self) -> dict[str, Any]:
        """The application's additional attributes in the row, as of the grant."""
        from .record import row_attributes

        return row_attributes(self._held.hold.item, self._held.hold.place)

    @property
    def lease_duration(self) -> float:
        """The lease in seconds. It is shorter than requested if the invocation's deadline comes first."""
        return self._held.lease_duration

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is still held without another renewal. 0 once it is lost or released."""
        return self._held.remaining()

    @property
    def is_held(self) -> bool:
        """Whether the lock is held now. This looks at the clocks, so it notices a freeze longer than the lease."""
        return self._held.is_held()

    @property
    def is_expired(self) -> bool:
        """Whether the lock is no longer held: its validity ended, it was lost, or it was released."""
        return not self._held.is_held()

    @property
    def is_almost_expired(self) -> bool:
        """Whether ``safe_time`` or less is left. Raises SessionMonitorNotSetError for a lock without ``safe_time``."""
        safe_time = self._held.options.safe_time
        if safe_time is None:
            raise SessionMonitorNotSetError(
                f"lock {self.key!r} has no safe_time: pass safe_time=seconds to acquire, or to the client", key=self.key
            )
        return self.remaining <= safe_time

    @property
    def lost(self) -> bool:
        """Whether the lock was lost while held: a write was refused, or validity ended. This is final."""
        return self._held.is_lost()

    def raise_if_lost(self) -> None:
        """Raise LockLostError if the lock is not held now. Call this before each step that must not be done twice.

        It also raises after a release (by another thread, for example) and, with ``hold_on_unavailable``, while an
        outage outlasts the validity.

        Example: ``lock.raise_if_lost(); charge(card)``
        """
        self._held.raise_if_lost()

    def transact_item(self) -> dict[str, Any]:
        """Return an Update for a transaction of your own, which then succeeds only while this lock is held.

        A renewal at the same moment may cancel the transaction with TransactionConflict: send it again.

        Raises LockAlreadyReleasedError, OwnerMismatchError and LockConfigurationError as `commit` does.

        Example: ``boto3_client.transact_write_items(TransactItems=[lock.transact_item(), put])``
        """
        held = self._held
        held.check_open()
        held.check_kept()
        return held.hold.place.transact_item(self.owner, self.fencing_token)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} {self._held.state()}, token {self.fencing_token}>"

    def __reduce__(self) -> Never:
        raise TypeError(f"lock {self.key!r} stays in its process: pass another one the string of hand_over()")

    if TYPE_CHECKING:

        def _complete(self, result: str | None) -> Any:
            """Release the lock and complete its event. An AsyncLock returns an awaitable."""


def held_by(handle: Handle) -> HeldLock:
    """The HeldLock of ``handle``. For modules of this package."""
    return handle._held


def complete(handle: Handle, result: str | None) -> Any:
    """`Handle._complete`, for modules of this package."""
    return handle._complete(result)


def heartbeat(
    held: HeldLock, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
) -> Operation[None]:
    """The operation of `Lock.heartbeat`."""
    encoded = held.encoded(data)
    if data is not None and delete_data:
        raise LockArgumentError("heartbeat takes data= or delete_data=True, not both", key=held.key)
    lease_ms = None
    if lease_duration is not None:
        lease_ms = int(checks.lease_duration(lease_duration) * 1000)
        checks.heartbeat_period(held.options.heartbeat_period, lease_duration)
    held.check_open()

    def steps(talk: Conversation) -> Steps[None]:
        yield from held.renewer.now(
            talk, partial(_check_renewable, held), lease_ms=lease_ms, data=encoded, delete_data=delete_data
        )
        if delete_data or data is not None:
            held.hold.note_data(encoded)

    return held.hold.place, steps


def ensure(held: HeldLock, seconds: float) -> Operation[None]:
    """The operation of `Lock.ensure`."""
    checks.seconds("seconds", seconds, least=0.0)
    _check_renewable(held)
    end, needed = held.hold.lease_end, seconds * (1 + 2 * lease.DRIFT)
    is_enough = held.remaining() >= seconds
    if not is_enough and end is not None and end - held.elapsed() < needed:
        raise _cannot_ensure(held, seconds, end)
    # A renewal is worth its lease, less the drift and the time that its reply takes.
    lease_duration = max(held.lease_duration, needed + protocol.DECISION)

    def steps(talk: Conversation) -> Steps[None]:
        if is_enough:
            return
        yield from heartbeat(held, lease_duration=lease_duration)[1](talk)
        if end is not None and held.remaining() < seconds:  # the lease ends with the invocation
            raise _cannot_ensure(held, seconds, end)

    return held.hold.place, steps


def _check_renewable(held: HeldLock) -> None:
    held.check_open()
    if held.is_lost():
        held.raise_if_lost()


def _cannot_ensure(held: HeldLock, seconds: float, end: float) -> LockArgumentError:
    return LockArgumentError(
        f"ensure({seconds:g}): the invocation ends in {end - held.elapsed():.1f} s, and the lease of {held.key!r} with "
        "it",
        key=held.key,
    )


class Lock(Handle, WithBlock):
    """A lock that `LockClient.acquire` returned. Use it in a ``with`` block, which releases it at its end.

    It may be used from several threads of the process that acquired it. In a forked child it is not held, and it is
    neither renewed nor released there.

    Example::

        with client.acquire("invoice#7") as lock:
            lock.raise_if_lost()
    """

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until the lock is lost, was released, or ``timeout`` has passed.

        timeout: seconds, 0 or more. None: no limit.

        Returns True if the lock is lost, and False otherwise.

        Example: ``if lock.wait_lost(10): stop_work()``
        """
        held = self._held
        end = None if timeout is None else held.elapsed() + timeout
        while not held.is_lost():
            now = held.elapsed()
            if held.ended or (end is not None and now >= end):
                return False
            moments = [now + 1.0]  # at least one look a second, because of freezes
            moments += [moment for moment in (end, held.hold.valid_until) if moment is not None and moment > now]
            held.renewer.over.wait(max(min(moments) - now, 0.001))
        return True

    def heartbeat(
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        """Renew the lock now, with new data or another lease.

        data: bytes to store. None keeps the stored data.
        delete_data: True: delete the stored data. Not together with ``data``.
        lease_duration: the lease from now on, in seconds, 1 or more. None keeps the current one.

        Raises LockLostError if the lock is lost, LockAlreadyReleasedError after a release, OwnerMismatchError in
        another process, TransportError if the outcome is unknown (the lock is then held until its validity ends),
        LockConfigurationError if DynamoDB refused the request, and LockArgumentError or TypeError for bad input.

        Example: ``lock.heartbeat(data=b"page 7")``
        """
        return self._run(heartbeat(self._held, data, delete_data, lease_duration))

    def ensure(self, seconds: float) -> None:
        """Make sure that the lock is held for ``seconds`` more. If less is left, renew it with a long enough lease.

        seconds: 0 or more.

        Raises what `heartbeat` raises, and LockArgumentError if the invocation ends sooner.

        Example: ``lock.ensure(30); copy_file()``
        """
        return self._run(ensure(self._held, seconds))

    def release(self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False) -> bool:
        """Release the lock.

        data: bytes to store in the row. None keeps the stored data.
        delete: whether to delete the row. None: what ``delete_on_release`` of `LockClient.acquire` says.
        best_effort: True: if DynamoDB does not answer or refuses the request, log that and return False.

        Returns True if the lock was released, and False if it had been lost before.

        Raises LockAlreadyReleasedError the second time, OwnerMismatchError in another process,
        TransportError(ambiguous=True) if the outcome is unknown (the lease ends by itself), TransportError or
        LockConfigurationError if DynamoDB refused, and LockArgumentError or TypeError for bad input. After a
        TransportError or LockConfigurationError, release may be called again. An interrupt propagates once the lock is
        released, also from `commit` and `hand_over`. (`hand_over` leaves a resumed lock to the next attempt instead.)
        An interrupt before the release has begun leaves the lock held, and the handle says so.

        Example: ``lock.release(data=b"done")``
        """
        return self._end(self._held.release(data, delete, best_effort))

    def commit(self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None) -> None:
        """Write ``items`` and release the lock in one transaction: the items are written only while the row is ours.

        DynamoDB decides. It may still write after the validity has ended, if nobody took the lock over meanwhile.

        items: 1 to 99 entries of TransactWriteItems (low-level DynamoDB JSON, as boto3's client takes them), for tables
            of this account and Region.
        data: bytes to store in the lock's row. None keeps the stored data.
        result: a JSON value for the event's duplicates, if the lock belongs to @deduplicate. The same transaction
            completes the event.

        The handle cannot be used for another commit or hand_over afterwards.

        Raises CommitRefusedError if a condition of the items did not hold (the lock is then released), LockLostError if
        the row is another's or released (nothing is then written), TransportError(ambiguous=True) if the outcome is
        unknown, TransportError if DynamoDB did not carry it out, LockAlreadyReleasedError and OwnerMismatchError as
        `release` does, LockConfigurationError for a lock that deletes its row and for items that DynamoDB refuses, and
        LockArgumentError or TypeError for bad input.

        Example: ``lock.commit([{"Put": {"TableName": "orders", "Item": {"id": {"S": "7"}}}}])``
        """
        return self._end(self._held.commit(items, data, result))

    def hand_over(self, *, lease_duration: float | None = None) -> str:
        """End this handle, and return a string with which another process continues the lock: `LockClient.resume`,
        any number of times, or `LockClient.adopt`, once.

        lease_duration: seconds for which the lock is renewed, 1 or more, so that there is time to adopt it. None: the
            full lease. It does not end with this invocation.

        From now on this handle is neither held nor renewed.

        Raises LockLostError if the lock was no longer held, LockFormatError if its row is damaged,
        LockAlreadyReleasedError, OwnerMismatchError, TransportError or LockConfigurationError as `release` does, and
        LockArgumentError or TypeError for bad input. Also raises LockConfigurationError, and the lock stays held, for
        the event of @deduplicate (the process that adopts it could not complete it), and for a lock that deletes its
        row.

        Example: ``queue.send_message(MessageBody=lock.hand_over(lease_duration=300))``
        """
        return self._end(self._held.hand_over(lease_duration))

    def _complete(self, result: str | None) -> bool:
        return self._end(self._held.release(complete=True, result=result))
