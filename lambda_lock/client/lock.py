"""The handle of a lock that was granted."""

from __future__ import annotations

from ..core import requests
from ..errors import LockAlreadyReleasedError
from .record import row_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self, TypeAlias, TypeVar

    from .held import HeldLock
    from .session import Operation

    T = TypeVar("T")
    Callback: TypeAlias = Callable[["Lock"], object]


class Handle:
    """What `Lock` and `AsyncLock` have in common: everything that sends nothing."""

    def __init__(self, held: HeldLock) -> None:
        self._held = held

    @property
    def key(self) -> str:
        """The lock's key, as given to acquire."""
        return self._held.key

    @property
    def sort_key(self) -> str | None:
        """The value of the table's sort key. None: the table has none."""
        return self._held.hold.place.sort_key

    @property
    def owner(self) -> str:
        """``prefix#nonce``, unique for this acquisition."""
        return self._held.hold.owner

    @property
    def fencing_token(self) -> int:
        """Rises with every grant of this key, as long as the row is kept. Give it to what must refuse late writers.

        See Kleppmann, "How to do distributed locking" (2016).
        """
        return self._held.hold.token

    @property
    def version(self) -> str:
        """The newest version that was sent for this lock."""
        return self._held.hold.version

    @property
    def data(self) -> bytes | None:
        """The application's bytes in the row, as of the grant or of the last `heartbeat` with data."""
        return self._held.data

    @property
    def attributes(self) -> dict[str, Any]:
        """The application's additional attributes in the row, as of the grant."""
        return row_attributes(self._held.hold.item, self._held.hold.place)

    @property
    def lease_duration(self) -> float:
        """Seconds. It is shorter than asked for where the invocation's deadline comes first."""
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
        """Whether the lock is not held any more: its validity ended, it was lost, or it was released."""
        return not self._held.is_held()

    @property
    def is_almost_expired(self) -> bool:
        """Whether ``safe_time`` or less is left. Raises SessionMonitorNotSetError for a lock without ``safe_time``."""
        return self._held.is_almost_expired()

    @property
    def lost(self) -> bool:
        """Whether the lock was lost while held: a write was refused, or validity ended. This is final."""
        return self._held.is_lost()

    def raise_if_lost(self) -> None:
        """Raise LockLostError if the lock is not held now. Call this before each step that must not be done twice.

        It raises once the lock is lost, once it was released (by another thread, say), and with ``hold_on_unavailable``
        while an outage lasts longer than the validity.

        Example: ``lock.raise_if_lost(); charge(card)``
        """
        self._held.raise_if_lost()

    def transact_item(self) -> dict[str, Any]:
        """Return an Update for a transaction of your own, which then happens only while this lock is held.

        A renewal at the same moment may cancel the transaction with TransactionConflict. Send it again then. Raises
        what `commit` raises before it sends anything.

        Example: ``boto3_client.transact_write_items(TransactItems=[lock.transact_item(), put])``
        """
        held = self._held
        held.check_open()
        held.check_kept()
        return requests.transact_item(held.hold.place, owner=self.owner, token=self.fencing_token)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} {self._held.state()}, token {self.fencing_token}>"

    def _complete(self, result: str | None) -> Any:
        """Release the lock and complete its event. An AsyncLock returns what is awaited for that."""
        raise NotImplementedError


def held_by(handle: Handle) -> HeldLock:
    """What ``handle`` is a face of. For modules of this package."""
    return handle._held


def complete(handle: Handle, result: str | None) -> Any:
    """`Handle._complete`, for modules of this package."""
    return handle._complete(result)


class Lock(Handle):
    """A held lock. `LockClient.acquire` makes it. As a context manager it releases the lock at the end of the block.

    It may be used from several threads of the process that acquired it. In a forked child it is not held, and it is
    neither renewed nor released there.
    """

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Block until the lock is lost (True), or was released or ``timeout`` seconds have passed (False).

        timeout: seconds; None: no limit.

        Example: ``if lock.wait_lost(10): stop_work()``
        """
        held = self._held
        end = None if timeout is None else held.elapsed() + timeout
        while not held.is_lost():
            seconds = held.seconds_to_look(end)
            if seconds is None:
                return False
            held.wait_over(seconds)
        return True

    def heartbeat(
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        """Renew the lock now, with new data or another lease.

        data: bytes to store. None leaves what is stored. delete_data: delete what is stored. Not together with data.
        lease_duration: seconds, from now on. None leaves it.

        Raises LockLostError if the lock is lost, LockAlreadyReleasedError after a release, and TransportError where the
        outcome is unknown (the lock is then held until its validity ends), LockArgumentError or TypeError for bad
        input.

        Example: ``lock.heartbeat(data=b"page 7")``
        """
        self._run(self._held.heartbeat(data, delete_data, lease_duration))

    def ensure(self, seconds: float) -> None:
        """Make sure that the lock is held for ``seconds`` more. If less is left, renew it with a lease that is enough.

        Raises what `heartbeat` raises, and LockArgumentError if the invocation ends before.

        Example: ``lock.ensure(30); copy_file()``
        """
        self._run(self._held.ensure(seconds))

    def release(self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False) -> bool:
        """Release the lock.

        data: bytes to store in the row. None leaves what is stored. delete: whether the row is deleted. None: as
        acquire was told by ``delete_on_release``. best_effort: log the errors below instead of raising them, and
        return False.

        Returns True if the lock was released, False if it was lost before. Raises LockAlreadyReleasedError the second
        time, OwnerMismatchError in another process, TransportError(ambiguous=True) where the outcome is unknown (the
        lease ends by itself), and TransportError or LockConfigurationError where DynamoDB refused. After an error
        release may be called again.

        Example: ``lock.release(data=b"done")``
        """
        return self._run(self._held.release(data, delete, best_effort))

    def commit(self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None) -> None:
        """Write ``items`` and release the lock in one transaction: the items are written only while the lock is held.

        items: 1 to 99 entries of TransactWriteItems (low-level DynamoDB JSON, as boto3's client takes them), of this
        account and Region. data: bytes to leave in the lock's row. result: a JSON value for the event's duplicates,
        where the lock is that of @deduplicate: the same transaction completes the event.

        It is the lock's last act. Raises CommitRefusedError where a condition of the items did not hold (the lock is
        released then), LockLostError where the lock was not held any more (nothing is written then),
        TransportError(ambiguous=True) where the outcome is unknown, LockAlreadyReleasedError and OwnerMismatchError as
        `release` does, and LockConfigurationError for a lock that deletes its row or for items that DynamoDB cannot
        take.

        Example: ``lock.commit([{"Put": {"TableName": "orders", "Item": {"id": {"S": "7"}}}}])``
        """
        self._run(self._held.commit(items, data, result))

    def hand_over(self, *, lease_duration: float | None = None) -> str:
        """End this handle, and return a string with which another process goes on: `LockClient.adopt`.

        lease_duration: seconds for which the lock is renewed, so that there is time to adopt it. None: the full lease.
        It does not end with this invocation.

        From here on this handle is neither held nor renewed. Raises LockLostError where the lock was not held any more,
        LockFormatError where its row is damaged, and LockAlreadyReleasedError, OwnerMismatchError or
        LockConfigurationError as `release` does. Raises LockConfigurationError too, and the lock stays held, for the
        event of @deduplicate (the process that adopts it could not complete it) and for a lock that deletes its row.

        Example: ``queue.send_message(MessageBody=lock.hand_over(lease_duration=300))``
        """
        return self._run(self._held.hand_over(lease_duration))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held.released or not self._held.is_in_this_process():
            return
        try:
            self.release(best_effort=True)
        except LockAlreadyReleasedError:  # another thread releases it at this moment
            return

    def _complete(self, result: str | None) -> bool:
        return self._run(self._held.complete(result))

    def _run(self, operation: Operation[T]) -> T:
        return self._held.session.run(*operation)
