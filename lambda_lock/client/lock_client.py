"""The client: acquires and reads locks, and releases all its locks when it is closed."""

from __future__ import annotations

from . import checks
from .asking import AskingClient
from .base import init_of
from .lock import Lock
from .options import ACQUIRE, SEVERAL, Terms, checked, declared, wanted
from .taking import Taking, entered_before

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Self, TypeVar, Unpack

    from .lock import Callback
    from .multi_lock import MultiCallback, MultiLock
    from .options import AcquireOptions, HoldParts, SeveralOptions
    from .session import Operation, Session

    T = TypeVar("T")


def under(session: Session, terms: Terms, key: str) -> Operation[Lock]:
    """What takes the lock ``key`` under these terms. It raises what `LockClient.acquire` does before a request."""
    asked = terms.asked
    if asked["holder"] is not None:
        from .resuming import by_holder

        return by_holder(session, wanted(session, terms, key))
    if asked["reentrant"]:
        again = entered_before(session, key, asked["sort_key"], asked["permits"], asked["take"] or 1)
        if again is not None:
            return again
    return Taking(session, wanted(session, terms, key))


def all_under(session: Session, terms: Terms, keys: Iterable[str]) -> Operation[MultiLock]:
    """`under`, for several locks."""
    from .multi_lock import TakingSeveral

    found = checks.several_keys(keys)
    return TakingSeveral(session, wanted(session, terms, found[0]), found, terms.asked["sort_key"])


def _acquire(self: LockClient, /, key: str, **options: Any) -> Any:
    session = self.__session__
    terms = Terms(session.settings, checked(ACQUIRE, options), key)
    return self.__runner__.run(under(session, terms, key))


def _acquire_all(self: LockClient, /, keys: Iterable[str], **options: Any) -> Any:
    session = self.__session__
    terms = Terms(session.settings, checked(SEVERAL, options))
    return self.__runner__.run(all_under(session, terms, keys))


class LockClient(AskingClient):
    """Locks in one DynamoDB table. It may be used from several threads.

    Creating a client sends nothing, and needs neither the table nor credentials yet. ``help(LockClient.__init__)``
    describes the settings.

    Example::

        client = LockClient("locks")
        with client.acquire("invoice#7") as lock:
            ...
    """

    if not TYPE_CHECKING:
        __init__ = init_of("LockClient")

    @declared(_acquire)
    def acquire(
        self,
        /,
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
        queue: bool = True,
        permits: int | None = None,
        take: int | None = None,
        shared: bool | None = None,
        reentrant: bool = False,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        cancel_check: Callable[[], bool] | None = None,
        holder: str | None = None,
        context: object = None,
    ) -> Lock:
        """Take the lock ``key``. If it is held elsewhere, wait for it.

        key: 1 to 2,048 bytes of UTF-8.
        wait: seconds to wait, 0 or more. None: the invocation's time left less ``reserve`` (outside Lambda: the lease +
            5 s). 0: try once. inf: no limit.
        reserve: seconds that the work needs after the grant, 0 or more. None: a quarter of the time left, at least 1 s.
        data: bytes to store with the lock. None keeps the stored data, b"" empties it.
        replace_data: False: store ``data`` only if the row has none.
        attributes: plain Python values, stored as columns of the row.
        sort_key: the value of the table's sort key, where it has one.
        lease_duration: seconds, 1 or more. None: the client's.
        refresh_period: the longest pause between two polls, in seconds, 0.01 or more. None: the client's.
        delete_on_release: delete the row on release. Fencing tokens then have no guaranteed order, and two holders may
            have the same one.
        replace: rewrite the row, which removes columns that others left in it. Costs one more request.
        only_if_exists: take the lock only if its row exists.
        queue: wait first come, first served. False: poll, and take the lock when it is found free. An acquire with a
            wait under 0.25 s, of an event, or with replace, delete_on_release or only_if_exists never queues.
        permits: let at most this many hold the key at once, 1 to 100. Each caller compares with its own number, so pass
            the same everywhere. None: a lock, which one holds. A key is a lock or a semaphore, never both, and
            ``permits=1`` is a semaphore. Not together with replace or delete_on_release.
        take: how many of the permits to take, 1 to ``permits``. All are taken in one write, or none. None: one. Every
            caller of a key passes take=, or none does: until nobody holds it, take=2 or more waits for those who came
            without.
        shared: True: be one of at most 100 readers (``permits=100, take=1``). False: be the one writer, with no reader
            beside (``permits=100, take=100``). None: neither. Not together with permits or take. A reader never
            becomes a writer: release first.
        reentrant: if the same thread or task already holds the lock, return the same Lock. It is then released by as
            many releases as there were acquires.
        safe_time: seconds before the end of validity at which ``on_danger`` is called, above 0 and below the lease.
            None: the client's.
        on_danger: called with the Lock, on a thread of its own, when ``safe_time`` is reached.
        on_lost: called with the Lock, on a thread of its own, when the lock is lost.
        cancel_check: called after each pause of the wait. When it returns True, LockTimeoutError is raised.
        holder: a name for this work that stays the same when it is tried again, such as a state machine's execution: 1
            to 512 bytes. The owner is then ``holder#nonce``. If an earlier attempt of this holder has the lock, go on
            with its hold at once, as `resume` does, and store nothing: pass it only where that attempt is known to be
            dead, and never any client's ``owner_prefix``. Work that runs at the same time, such as the items of a Map,
            needs a name each. Under one name the second takes the lock from the first, which is refused only at its
            next renewal or `hand_over`, also within one process. A holder has one permit of a semaphore at most. Such
            an acquire never queues. Not together with replace, delete_on_release or reentrant. None: no such name.
        context: the Lambda context, for the time it has left. None: that of the enclosing decorator, or as registered.

        Returns the Lock. Raises LockNotGrantedError at once if ``wait=0`` finds the lock held, or if less than a second
        is left; LockTimeoutError if a wait ran out; LockFormatError for a held row that cannot be read, a lock's row
        with ``permits`` and a semaphore's without; LockConfigurationError if something is wrong with the table, its
        keys, the schema, the Region, the credentials or a permission; TransportError if DynamoDB did not answer;
        LockError if the heartbeat's thread cannot start; ClientClosedError if the client was closed; LockArgumentError
        or TypeError for bad input.

        After an error nothing is held here. A claim that may have reached DynamoDB is released first, which may take
        5 s. If the release gets no answer either, the row looks held until the lease ends.

        Example: ``with client.acquire("invoice#7", wait=10) as lock: ...``
        """
        raise NotImplementedError

    def try_acquire(self, key: str, *, wait: float = 0, **options: Unpack[AcquireOptions]) -> Lock | None:
        """Take the lock ``key`` without waiting, or within ``wait`` seconds. Returns None if it is held elsewhere.

        key: as for `acquire`.
        wait: seconds to wait, 0 or more. 0: try once. inf: no limit.
        options: the other options of `acquire`.

        Returns the Lock, or None. Raises what `acquire` raises, except for contention.

        Example: ``if lock := client.try_acquire("report"): ...``
        """
        return self.__runner__.tried(self.acquire, key, wait=wait, **options)

    @declared(_acquire_all)
    def acquire_all(
        self,
        /,
        keys: Iterable[str],
        *,
        wait: float | None = None,
        reserve: float | None = None,
        sort_key: str | None = None,
        lease_duration: float | None = None,
        refresh_period: float | None = None,
        queue: bool = True,
        safe_time: float | None = None,
        on_danger: MultiCallback | None = None,
        on_lost: MultiCallback | None = None,
        cancel_check: Callable[[], bool] | None = None,
        context: object = None,
    ) -> MultiLock:
        """Take several locks: all of them or none. Callers never deadlock, in whatever order they name the keys.

        keys: 1 to 50 different keys, as for `acquire`. Equal ones count once.
        wait: seconds to wait for all together, 0 or more. None and inf: as for `acquire`. 0: try each key once. A key
            may be held just then by another such call, which is itself refused a moment later.
        sort_key: the value of the table's sort key for all keys, where it has one.
        on_danger, on_lost: called once with the MultiLock, for the first of the locks in danger or lost.
        cancel_check: called after each pause of the wait. When it returns True, LockTimeoutError is raised.
        reserve, lease_duration, refresh_period, queue, safe_time, context: as for `acquire`.

        The locks are ordinary ones, taken one after the other in the order of their keys' bytes in UTF-8. The ones that
        are held are renewed while later ones are waited for. A caller that also takes single locks, within this block
        or around it, may still wait for itself or for others until the wait ends.

        Returns the MultiLock.

        Raises what `acquire` raises. The error's ``key`` is the key of the lock that it is about. Everything that was
        taken is then released, the newest first. If releases get no answer, the rows look held until the leases end.

        Example: ``with client.acquire_all(["account#1", "account#2"], wait=10) as locks: ...``
        """
        raise NotImplementedError

    def try_acquire_all(
        self, keys: Iterable[str], *, wait: float = 0, sort_key: str | None = None, **options: Unpack[SeveralOptions]
    ) -> MultiLock | None:
        """Take several locks without waiting, or within ``wait`` seconds. Returns None if any is held elsewhere.

        keys, wait, sort_key: as for `acquire_all`.
        options: the other options of `acquire_all`.

        Returns the MultiLock, or None. Raises what `acquire_all` raises, except for contention.

        Example: ``if locks := client.try_acquire_all(["account#1", "account#2"]): ...``
        """
        return self.__runner__.tried(self.acquire_all, keys, wait=wait, sort_key=sort_key, **options)

    def adopt(
        self,
        token: str | None = None,
        *,
        key: str | None = None,
        sort_key: str | None = None,
        owner: str | None = None,
        fencing_token: int | None = None,
        permits: int | None = None,
        lease_duration: float | None = None,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        context: object = None,
    ) -> Lock:
        """Continue a lock that was handed over. The fencing token rises by one, so a string is adopted once.

        token: the string that `Lock.hand_over` returned. None: the parts name the lock.
        key, sort_key, owner, fencing_token, permits: the lock's, if there is no string. permits: None for a lock.
        lease_duration: seconds, 1 or more. None: as handed over; without a string the client's. The lease ends with
            this invocation.
        safe_time, on_danger, on_lost, context: as for `acquire`.

        Returns the Lock.

        Raises LockLostError if the lock is gone, was taken by another owner, or was adopted or resumed before. Raises
        LockFormatError for a string that is damaged or belongs to another table. Otherwise raises what `acquire`
        raises.

        Example: ``with client.adopt(event["lock"]) as lock: ...``
        """
        from .resuming import named, taken

        hold = named(self.__session__, "adopt", token, key, sort_key, owner, fencing_token, permits)
        return self.__runner__.run(
            taken(self.__session__, "adopt", hold, lease_duration, safe_time, on_danger, on_lost, context)
        )

    def resume(
        self,
        string: str | None = None,
        *,
        key: str | None = None,
        sort_key: str | None = None,
        owner: str | None = None,
        fencing_token: int | None = None,
        permits: int | None = None,
        lease_duration: float | None = None,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        context: object = None,
    ) -> Lock:
        """Go on with a hold, in a step that may be tried again. The string stays good, and the fencing token stays.

        Every earlier attempt of the hold is refused from then on. Call it only where the earlier attempt is known to
        be dead: if it lives, both believe that they hold the lock until its next renewal (docs/holds.md).

        string: what `Lock.hand_over` returned. None: the parts name the hold.
        key, sort_key, fencing_token, permits: the hold's, if there is no string. permits: None for a lock.
        owner: the owner of any handle of the hold, if there is no string.
        lease_duration: seconds, 1 or more. None: as handed over; without a string the client's. The lease in the row
            does not end with this invocation, but the Lock is not held beyond it.
        safe_time, on_danger, on_lost, context: as for `acquire`.

        Returns the Lock, another one each time. `Lock.hand_over` ends it and gives a string of the same hold;
        `Lock.release` ends the hold.

        Raises LockLostError if the hold was released or adopted, or was lost. Raises LockFormatError for a string that
        is damaged or belongs to another table, and for a row that lambda_lock did not write. Raises LockNotGrantedError
        if less than a second is left, LockConfigurationError also for the schema PYTHON, and otherwise what `adopt`
        raises. After an error nothing is released: resume again.

        Example: ``lock = client.resume(event["lock"])``
        """
        from .resuming import named, taken

        hold = named(self.__session__, "resume", string, key, sort_key, owner, fencing_token, permits)
        return self.__runner__.run(
            taken(self.__session__, "resume", hold, lease_duration, safe_time, on_danger, on_lost, context)
        )

    def release(self, string: str | None = None, **parts: Unpack[HoldParts]) -> bool:
        """Release a hold by its string, without a Lock. It may be called any number of times.

        Call it only where the work is known to be over: no attempt is asked. With a Lock in hand, use its `release`,
        which is refused to an attempt that is no longer the newest.

        string: what `Lock.hand_over` returned. None: the parts name the hold.
        parts: key, sort_key, owner, fencing_token and permits, if there is no string, as for `resume`. lease_duration
            (seconds, 1 or more) is not used: so the parts are the same for both.

        Returns True if the hold is released, now or before. Returns False if it is not held under this string any more:
        it was released and taken by others, adopted or lost before; a permit, also if it was released before.

        Raises TransportError(ambiguous=True) if the outcome is unknown (call it again), TransportError if DynamoDB
        refused, LockConfigurationError also for the schema PYTHON, LockFormatError for a string that is damaged or
        belongs to another table, ClientClosedError if the client was closed, and otherwise what `get` raises.

        Example: ``client.release(event["lock"])``
        """
        from .resuming import released

        return self.__runner__.run(released(self.__session__, string, **parts))

    def forget(
        self,
        key: str,
        *,
        scope: str = "",
        sort_key: str | None = None,
        wait: float | None = 0,
        context: object = None,
        if_result: object = ...,
    ) -> bool:
        """Forget an event of @deduplicate that is done, with its stored result, so that its next delivery runs.

        key: the event's key, as `deduplicate` builds it.
        scope: the scope of the function, if the key is without it. "": ``key`` is the row's key.
        sort_key, context: as for `acquire`.
        wait: seconds to wait while the event is in progress, 0 or more. 0: raise at once. None, inf: as for `acquire`.
        if_result: forget only while the stored result is this JSON value, which may be None. Otherwise nothing is
            written and nothing waited for: that is False, also while the event is in progress. ...: any result.

        Once this has returned True, no caller gets the result of a run that began before it was called, except from the
        caches of functions (``cache_size``), until their entries end. ``handler.forget`` clears the cache of its
        function, in this environment.

        Returns True if the event was done, and False if there was nothing to forget. An event in progress is neither,
        without ``if_result``: its run may have read data that has changed since.

        Raises LockNotGrantedError if the event is in progress (LockTimeoutError after a wait), TransportError(
        ambiguous=True) if the outcome is unknown (forget it again), LockConfigurationError also for the schema PYTHON,
        and otherwise what `acquire` raises.

        Example: ``client.forget("token", scope="billing", wait=10)``
        """
        from .forget import forget

        return self.__runner__.run(forget(self.__session__, key, scope, sort_key, wait, context, if_result))

    def held(self) -> tuple[Lock, ...]:
        """The locks of this client that are held now, in this process.

        Example: ``keys = [lock.key for lock in client.held()]``
        """
        return tuple(held.handle() for held in self.__session__.open_locks.handled() if held.is_held())

    def close(self, *, release: bool = True) -> None:
        """Close the client. Acquires that are waiting raise ClientClosedError, and held locks are released.

        release: False: leave held locks to their lease.

        Acquires and releases that are under way end first: those of other threads within 8 s, and the one that a signal
        handler has interrupted here, which then raises ClientClosedError or LockAlreadyReleasedError; commit and
        hand_over raise TransportError(ambiguous=True).

        Locks whose handles were dropped are released as well, except resumed ones: the next attempt goes on with them.
        If a release fails, that is logged, and the others are still tried. If two in a row get no answer (10 s at
        most), DynamoDB cannot be reached, and the other locks are left to their lease. After an interrupt, call close
        again: it continues. Otherwise closing twice does nothing.

        Example: ``client.close()``, or ``with LockClient("locks") as client: ...``
        """
        from .closing import close

        close(self.__session__, release=release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


#: The methods that take locks as `under` and `all_under` do. An application may replace them, to trace calls.
OURS: set[object] = {LockClient.acquire, LockClient.acquire_all, LockClient.rate_limit}
