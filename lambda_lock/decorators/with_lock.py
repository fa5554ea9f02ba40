"""`@with_lock`: a function that never runs twice at once for one key."""

from __future__ import annotations

from ..client import checks
from ..client.options import LOCK, LOCKS, TABLE, checked, declared, filled
from ..keys.compile import compile_key, compile_keys
from ..keys.parameters import name_of
from ..observe.log import NOT_RELEASED
from ..observe.observer import package
from .functions import check_answer, check_called, check_decorated, refuse_bare
from .guard import CurrentLocks, Guard, key_of, locking, prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any, Literal, TypeVar, Unpack, overload

    from ..client.async_client import AsyncLockClient
    from ..client.async_lock import AsyncLock, AsyncMultiLock
    from ..client.lock import Lock
    from ..client.lock_client import LockClient
    from ..client.multi_lock import MultiLock
    from ..keys.compile import Key, Keys
    from .guard import Call, CallEnd
    from .types import Answering, AnsweringAsync, LockOptions, P, R, SeveralLockOptions, T

    Kind = TypeVar("Kind", Lock, AsyncLock, MultiLock, AsyncMultiLock)


_CURRENT = CurrentLocks("with_lock")
_OWN = ("key_jmespath", "client", "on_not_granted", "on_unavailable")  # what is not for an acquire


if TYPE_CHECKING:

    @overload
    def current_lock() -> Lock: ...
    @overload
    def current_lock(kind: type[Kind]) -> Kind: ...


def current_lock(kind: type[Any] | None = None) -> Any:
    """The lock of the innermost @with_lock function that is running in this thread or task.

    kind: Lock, AsyncLock, MultiLock or AsyncMultiLock. In an async def function the lock is an AsyncLock, and with a
        list of keys a MultiLock or AsyncMultiLock: ``current_lock(MultiLock)`` tells type checkers so. None: a Lock,
        for type checkers.

    Raises LookupError if no such function is running, and TypeError for a lock of another kind. While
    LAMBDA_LOCK_DISABLED is set, this returns a stand-in that says it is held.

    Example: ``current_lock().raise_if_lost()``
    """
    return _CURRENT.innermost(kind)


def _with_lock(key: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    asked = filled(with_lock, options)
    refuse_bare(key, with_lock)
    key_jmespath, client, on_not_granted, on_unavailable = (asked.pop(name) for name in _OWN)
    check_answer("on_not_granted", on_not_granted, ("raise", "skip"))
    several = isinstance(key, (list, tuple)) and key_jmespath is None
    if several:
        for name in [name for name in asked if LOCKS not in TABLE[name].takers]:
            if (value := asked.pop(name)) != TABLE[name].default:
                raise TypeError(
                    f"{name}={value!r} is for a single key: several locks are taken without it. Leave {name} out, or "
                    "pass one key"
                )
    take = asked.get("take") if callable(asked.get("take")) else None
    if take is not None:  # what it returns is checked at each call, and all else now
        checks.weight(asked)
        asked["take"] = 1
    options = checked(LOCKS if several else LOCK, asked)

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        check_decorated(func, "with_lock", client, on_not_granted, on_unavailable)
        if take is not None:
            check_called(func, "take", take)
        guard = _LockGuard(
            _CURRENT,
            func,
            client,
            compile_keys(func, key) if several else compile_key(func, key, key_jmespath),
            locking(options, client, several=several, take=take),
            lease_duration=options["lease_duration"],
            permits=options.get("permits"),
            reentrant=options.get("reentrant", False),
            sort_key=options["sort_key"],
            on_not_granted=on_not_granted,
            on_unavailable=on_unavailable,
        )
        prepare(client, func, permits=guard.permits is not None, several=several)
        return guard.wrapped()

    return decorate


if TYPE_CHECKING:  # one for each kind of on_not_granted, for a key and for several

    @overload
    def with_lock(
        key: Key | None = None, *, on_not_granted: Literal["raise"] = "raise", **options: Unpack[LockOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
    def with_lock(
        key: Key | None = None, *, on_not_granted: Literal["skip"], **options: Unpack[LockOptions]
    ) -> Answering[None]: ...

    @overload
    def with_lock(  # type: ignore[overload-overlap]  # of an async answer, the awaited result counts
        key: Key | None = None,
        *,
        on_not_granted: Callable[..., Coroutine[Any, Any, T]],
        **options: Unpack[LockOptions],
    ) -> AnsweringAsync[T]: ...

    @overload
    def with_lock(
        key: Key | None = None, *, on_not_granted: Callable[..., T], **options: Unpack[LockOptions]
    ) -> Answering[T]: ...

    @overload
    def with_lock(
        key: Sequence[Key], *, on_not_granted: Literal["raise"] = "raise", **options: Unpack[SeveralLockOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
    def with_lock(
        key: Sequence[Key], *, on_not_granted: Literal["skip"], **options: Unpack[SeveralLockOptions]
    ) -> Answering[None]: ...

    @overload
    def with_lock(  # type: ignore[overload-overlap]  # of an async answer, the awaited result counts
        key: Sequence[Key],
        *,
        on_not_granted: Callable[..., Coroutine[Any, Any, T]],
        **options: Unpack[SeveralLockOptions],
    ) -> AnsweringAsync[T]: ...

    @overload
    def with_lock(
        key: Sequence[Key], *, on_not_granted: Callable[..., T], **options: Unpack[SeveralLockOptions]
    ) -> Answering[T]: ...


@declared(_with_lock)
def with_lock(
    key: Keys | None = None,
    *,
    key_jmespath: str | None = None,
    client: LockClient | AsyncLockClient | None = None,
    wait: float | None = None,
    reserve: float | None = None,
    lease_duration: float | None = None,
    refresh_period: float | None = None,
    queue: bool = True,
    permits: int | None = None,
    take: int | Callable[..., int] | None = None,
    shared: bool | None = None,
    reentrant: bool = False,
    sort_key: str | None = None,
    safe_time: float | None = None,
    on_danger: Any = None,
    on_lost: Any = None,
    on_not_granted: Any = "raise",
    on_unavailable: Literal["raise", "run"] = "raise",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the decorated function only while it holds a lock.

    key: a template, or a function of the call's own arguments that returns the key. In a template, a name that is a
        parameter of what is called is that argument: of the function, or of the decorator below this one, unless that
        takes ``*args, **kwargs``. Any other name is a field of the first argument (after self or cls). Nested fields
        are written with ``[name]`` and ``[index]``, also within JSON text: ``"order#{body[order][id]}"``. Dates are
        written in ISO 8601, datetimes with a zone in UTC. Different values give different keys: if a field's value
        contains the text that follows the field in the template, it is escaped. A list of templates and functions: the
        function runs while it holds all these locks, taken as by `LockClient.acquire_all`.
    key_jmespath: a JMESPath expression over the first argument, instead of key. Needs jmespath.
    client: the LockClient. None: default_client(), which reads LAMBDA_LOCK_TABLE.
    wait: seconds to wait for the lock, 0 or more. None: the invocation's time left less ``reserve`` (outside Lambda:
        the lease + 5 s). 0: try once. inf: no limit.
    reserve: seconds that the function needs after the grant, 0 or more. None: a quarter of the time left, at least
        1 s.
    lease_duration: seconds, 1 or more. None: the client's.
    refresh_period: the longest pause between two polls, in seconds, 0.01 or more. None: the client's.
    queue: wait first come, first served. False: poll, and take the lock when it is found free.
    permits: let at most this many calls run at once for one key, 1 to 100. Pass the same number everywhere. None: one,
        under a lock. A key is a lock or a semaphore, never both.
    take: how many of the permits each call takes, 1 to ``permits``, or a function of the call's own arguments that
        returns this. None: one. `LockClient.acquire` says more.
    shared: True: run beside other readers. False: run alone, as the writer. None: neither. Not together with permits
        or take.
    reentrant: whether a call that already holds the lock may enter again. If not, that raises LockConfigurationError.
        Not with a list of keys.
    sort_key: the value of the table's sort key, if it has one.
    safe_time: seconds before the end of validity at which ``on_danger`` is called, above 0 and below the lease. None:
        the client's.
    on_danger: called with the Lock or MultiLock, on a thread of its own, when ``safe_time`` is reached.
    on_lost: called with the Lock or MultiLock, on a thread of its own, when it is lost.
    on_not_granted: what the call does when the lock is held elsewhere. "raise": raise the LockNotGrantedError. "skip":
        return None. A function: return what it returns for the call's own arguments and ``error=`` (awaited for an
        async def function). It does not apply to errors of the decorated function, nor if too little time is left:
        these are raised.

    on_unavailable: what the call does when DynamoDB gives no answer within the wait (TransportError), an outage.
        "raise": raise the error. "run": run the function without its lock, with a warning and a metric. Two calls may
        then run at once: only where that is better than no call at all.

    The Lambda context is found among the call's arguments, or as register_lambda_context() left it.

    The lock is released however the function ends. Its result or error is passed on unchanged, even if the release
    fails (this is logged, and the lease ends by itself) or if the lock was lost meanwhile (a warning is logged). Call
    current_lock().raise_if_lost() before a step that must not be done twice.

    An async def function is awaited while an AsyncLockClient holds the lock.

    Decorating raises TypeError for an object that is not a function (or is a generator or a class), a client of the
    other kind, a missing key, an on_not_granted that cannot take the call's arguments with ``error=``, and arguments of
    the wrong type. It raises KeyTemplateError for a template or expression that cannot be read. A call raises
    KeyTemplateError if its arguments give no key, and what LockClient.acquire raises.

    Example::

        @with_lock("order#{order_id}")
        def charge(order_id: str) -> None: ...
    """
    raise NotImplementedError


class _LockGuard(Guard):
    def call_end(self, call: Call, lock: Any, result: object) -> CallEnd:
        lost = lock.lost  # asked before the release, which can succeed although the validity was over

        def tell_lost(kept: bool) -> None:
            if lost or not kept:
                message = "%s() finished although its lock %r was lost: another call may have run at the same time"
                key = key_of(lock)
                package.tell("finished_lost", message, name_of(self.func), key, key=key, owner=lock.owner)

        return lock.release, NOT_RELEASED, tell_lost
