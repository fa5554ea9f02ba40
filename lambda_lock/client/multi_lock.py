"""The handle of several locks that were taken together."""

from __future__ import annotations

from ..errors import LockAlreadyReleasedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self, TypeAlias, TypeVar

    from .group import Group
    from .held import Begin
    from .session import Operation

    T = TypeVar("T")
    MultiCallback: TypeAlias = Callable[["MultiLock"], object]


class MultiHandle:
    """What `MultiLock` and `AsyncMultiLock` have in common: everything that sends no request."""

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, each one once, in the order in which the locks were taken: by their bytes in UTF-8."""
        return self._group.keys

    @property
    def owner(self) -> str:
        """``prefix#nonce``, unique for this acquisition. All the locks have it."""
        return self._group.owner

    @property
    def fencing_tokens(self) -> dict[str, int]:
        """The fencing token of each lock, by key. See `Lock.fencing_token`."""
        return {member.key: member.hold.token for member in self._group.members}

    @property
    def remaining(self) -> float:
        """Seconds for which all locks are still held without another renewal. 0 once one is lost or released."""
        return self._group.remaining()

    @property
    def is_held(self) -> bool:
        """Whether all locks are held now. This looks at the clocks, so it notices a freeze longer than a lease."""
        return self._group.is_held()

    @property
    def lost(self) -> bool:
        """Whether any lock was lost while held. This is final. The others are still renewed until the release, because
        they protect the work in hand."""
        return self._group.is_lost()

    def raise_if_lost(self) -> None:
        """Raise LockLostError, with the key of the lock, if any lock is not held now. Call this before each step that
        must not be done twice.

        Example: ``locks.raise_if_lost(); transfer(...)``
        """
        self._group.raise_if_lost()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._group.state()}>"


def group_of(handle: MultiHandle) -> Group:
    """What ``handle`` is a face of. For modules of this package."""
    return handle._group


class MultiLock(MultiHandle):
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
        self._run(self._group.heartbeat())

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
        operation = self._group.release()
        return self._run_last(operation, again=operation[1])

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
        self._run_last(self._group.commit(items))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group.released or not self._group.is_in_this_process():
            return
        try:
            operation = self._group.release(best_effort=True)
            self._run_last(operation, again=operation[1])
        except LockAlreadyReleasedError:  # another thread releases them at this moment
            return

    def _run(self, operation: Operation[T]) -> T:
        return self._group.session.run(*operation)

    def _run_last(self, operation: Operation[T], again: Begin[bool] | None = None) -> T:
        return self._group.session.run_last(self._group, operation, again)
