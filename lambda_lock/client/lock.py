"""The handle of a lock that was granted."""

from __future__ import annotations

from ..core.outcome import expected
from ..errors import LockAlreadyReleasedError, SessionMonitorNotSetError
from .session import Entered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Never, Self, TypeAlias

    from .held import HeldLock
    from .session import Runner, Session

    Callback: TypeAlias = Callable[["Lock"], object]


class HandleBase(Entered):
    """What the handles of one lock and of several have in common.

    ``__held__``: what is held, a HeldLock or a Group. ``__runner__``: what runs its operations. See base.py.
    """

    def __init__(self, held: Any, runner: Runner | None = None) -> None:
        self.__held__ = held
        self.__runner__: Runner = runner or held.session


class WithBlock(HandleBase):
    """The end of the ``with`` block of a handle releases what is still held."""

    __runner__: Session

    def __enter__(self) -> Self:
        self.__held__.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.__held__.is_released_by_block():
            try:
                self.__runner__.run(self.__held__.release(best_effort=True))
            except expected(LockAlreadyReleasedError):
                pass  # another thread releases it at this moment


class Handle(HandleBase):
    """What `Lock` and `AsyncLock` have in common: everything that sends no request."""

    __held__: HeldLock

    @property
    def key(self) -> str:
        """The lock's key, as given to acquire."""
        return self.__held__.hold.place.key

    @property
    def sort_key(self) -> str | None:
        """The value of the table's sort key. None: the table has none."""
        return self.__held__.hold.place.sort_key

    @property
    def owner(self) -> str:
        """``prefix#nonce``, unique for this acquisition. After a resume ``prefix#nonce/…``, unique for this handle."""
        return self.__held__.hold.owner

    @property
    def fencing_token(self) -> int:
        """Rises with every grant of this key, as long as the row is kept.

        Where releases delete the row (``delete_on_release``, the schema PYTHON), it may be equal or fall.

        Pass it to stores that must refuse late writers. See Kleppmann, "How to do distributed locking" (2016).
        """
        return self.__held__.hold.token

    @property
    def permits(self) -> int | None:
        """How many may hold at once, as passed to acquire. None for a lock."""
        return self.__held__.hold.place.permits

    @property
    def take(self) -> int:
        """How many of the permits this holder has taken. 1 for a lock."""
        return self.__held__.hold.take

    @property
    def version(self) -> str:
        """The newest version that was sent for this lock."""
        return self.__held__.hold.version

    @property
    def data(self) -> bytes | None:
        """The application's bytes in the row, as of the grant or of the last `heartbeat` with data."""
        from .values import row_data

        return row_data(self.__held__.hold.item, self.__held__.hold.place)

    @property
    def attributes(self) -> dict[str, Any]:
        """The application's additional attributes in the row, as of the grant."""
        from .values import row_attributes

        return row_attributes(self.__held__.hold.item, self.__held__.hold.place)

    @property
    def lease_duration(self) -> float:
        """The lease in seconds. It is shorter than requested if the invocation's deadline comes first."""
        return self.__held__.lease_duration

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is still held without another renewal. 0 once it is lost or released."""
        return self.__held__.remaining()

    @property
    def is_held(self) -> bool:
        """Whether the lock is held now. This looks at the clocks, so it notices a freeze longer than the lease."""
        return self.__held__.is_held()

    @property
    def is_expired(self) -> bool:
        """Whether the lock is no longer held: its validity ended, it was lost, or it was released."""
        return not self.__held__.is_held()

    @property
    def is_almost_expired(self) -> bool:
        """Whether ``safe_time`` or less is left. Raises SessionMonitorNotSetError for a lock without ``safe_time``."""
        safe_time = self.__held__.options.safe_time
        if safe_time is None:
            raise SessionMonitorNotSetError(
                f"lock {self.key!r} has no safe_time: pass safe_time=seconds to acquire, or to the client", key=self.key
            )
        return self.remaining <= safe_time

    @property
    def lost(self) -> bool:
        """Whether the lock was lost while held: a write was refused, or validity ended. This is final."""
        return self.__held__.is_lost()

    def raise_if_lost(self) -> None:
        """Raise LockLostError if the lock is not held now. Call this before each step that must not be done twice.

        It also raises after a release (by another thread, for example) and, with ``hold_on_unavailable``, while an
        outage outlasts the validity.

        Example: ``lock.raise_if_lost(); charge(card)``
        """
        self.__held__.raise_if_lost()

    def transact_item(self) -> dict[str, Any]:
        """Return an Update for a transaction of your own, which then succeeds only while this lock is held.

        A renewal at the same moment may cancel the transaction with TransactionConflict: send it again.

        Raises LockAlreadyReleasedError, OwnerMismatchError and LockConfigurationError as `commit` does.

        Example: ``boto3_client.transact_write_items(TransactItems=[lock.transact_item(), put])``
        """
        held = self.__held__
        held.check_open()
        held.check_kept()
        return held.hold.place.transact_item(self.owner, self.fencing_token)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} {self.__held__.state()}, token {self.fencing_token}>"

    def __reduce__(self) -> Never:
        raise TypeError(f"lock {self.key!r} stays in its process: pass another one the string of hand_over()")


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
        held = self.__held__
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
        from .operations import heartbeat

        return self.__runner__.run(heartbeat(self.__held__, data, delete_data, lease_duration))

    def ensure(self, seconds: float) -> None:
        """Make sure that the lock is held for ``seconds`` more. If less is left, renew it with a long enough lease.

        seconds: 0 or more.

        Raises what `heartbeat` raises, and LockArgumentError if the invocation ends sooner.

        Example: ``lock.ensure(30); copy_file()``
        """
        from .operations import ensure

        return self.__runner__.run(ensure(self.__held__, seconds))

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
        return self.__runner__.run(self.__held__.release(data, delete, best_effort))

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
        from .operations import commit

        return self.__runner__.run(commit(self.__held__, items, data, result))

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
        from .operations import hand_over

        return self.__runner__.run(hand_over(self.__held__, lease_duration))
