"""`@with_lock`: a function that never runs twice at once for one key."""

from __future__ import annotations

from ..keys.parameters import name_of
from ..observe.log import logger, tell
from .call import end_quietly
from .functions import check_answer, refuse_bare
from .guard import Guard
from .holding import Holding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, Literal, ParamSpec, TypeVar, Unpack, overload

    from ..client.async_client import AsyncLockClient
    from ..client.async_lock import AsyncLock
    from ..client.lock import Callback, Lock
    from ..client.lock_client import LockClient
    from ..client.order import DecoratorOptions
    from ..keys.compile import Key
    from .call import Calls
    from .types import Answering, AnsweringAsync, LockOptions

    P = ParamSpec("P")
    R = TypeVar("R")
    T = TypeVar("T")


_LOCKS = Holding("with_lock")


if TYPE_CHECKING:

    @overload
    def current_lock() -> Lock: ...
    @overload
    def current_lock(kind: type[AsyncLock]) -> AsyncLock: ...
    @overload
    def current_lock(kind: type[Lock]) -> Lock: ...


def current_lock(kind: type[Any] | None = None) -> Any:
    """The lock of the innermost @with_lock function that is running in this thread or task.

    In an async def function it is an AsyncLock: ``current_lock(AsyncLock)`` tells type checkers so. Raises LookupError
    where no such function is running, and TypeError for a lock of another kind. With LAMBDA_LOCK_DISABLED set it is a
    stand-in that says it is held.
    """
    return _LOCKS.innermost(kind)


if TYPE_CHECKING:  # one for each kind of on_not_granted

    @overload
    def with_lock(
        key: Key | None = None, *, on_not_granted: Literal["raise"] = "raise", **options: Unpack[LockOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
    def with_lock(
        key: Key | None = None, *, on_not_granted: Literal["skip"], **options: Unpack[LockOptions]
    ) -> Answering[None]: ...

    @overload
    def with_lock(  # type: ignore[overload-overlap]  # an answer that is awaited gives what it is awaited for
        key: Key | None = None,
        *,
        on_not_granted: Callable[..., Coroutine[Any, Any, T]],
        **options: Unpack[LockOptions],
    ) -> AnsweringAsync[T]: ...

    @overload
    def with_lock(
        key: Key | None = None, *, on_not_granted: Callable[..., T], **options: Unpack[LockOptions]
    ) -> Answering[T]: ...


def with_lock(
    key: Key | None = None,
    *,
    key_jmespath: str | None = None,
    client: LockClient | AsyncLockClient | None = None,
    wait: float | None = None,
    reserve: float | None = None,
    lease_duration: float | None = None,
    refresh_period: float | None = None,
    reentrant: bool = False,
    sort_key: str | None = None,
    safe_time: float | None = None,
    on_danger: Callback | None = None,
    on_lost: Callback | None = None,
    on_not_granted: Any = "raise",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the decorated function only while it holds a lock.

    key: a template, or a function of the call's own arguments that returns the key. In a template a name that is a
        parameter of the function is that argument, any other a field of its first argument (after self or cls); fields
        of fields are reached by ``[name]`` and ``[index]``, also in JSON text: ``"order#{body[order][id]}"``. Different
        values give different keys: the text between two fields is escaped where the first of them contains it.
    key_jmespath: in place of key, a JMESPath expression over the first argument. Needs jmespath.
    client: the LockClient; None: default_client(), which reads LAMBDA_LOCK_TABLE.
    wait: seconds; None: the invocation's time left less ``reserve`` (outside Lambda the lease + 5 s), 0: one decision,
        inf: for ever. reserve: seconds that the function needs after the grant; None: a quarter of the time left, at
        least 1 s. The context is found among the arguments, or as register_lambda_context() left it.
    lease_duration, refresh_period, safe_time: seconds, None: the client's. sort_key: where the table has one.
    reentrant: whether a call that holds the lock already may enter again; otherwise that raises LockConfigurationError.
    on_danger, on_lost: called with the Lock on a thread of their own, ``safe_time`` before the end of validity and
        when the lock is lost.
    on_not_granted: what a call gives that does not get the lock because somebody else has it: "raise" the
        LockNotGrantedError, "skip" (None), or a function of the call's own arguments and ``error=``, whose result it
        is (awaited for an async def function). It does not concern errors of the function itself, nor too little time
        left: these are raised.

    The lock is released however the function ends; its result or error comes through unchanged, also where the release
    fails (it is logged, and the lease ends by itself) or the lock was lost meanwhile (a warning). Call
    current_lock().raise_if_lost() before a step that must not be done twice.

    An async def function is awaited while the lock is held, by an AsyncLockClient.

    When decorating, raises TypeError for what is no function (generators, classes), for a client of the other kind, a
    missing key, an on_not_granted that cannot take a call's arguments with ``error=``, and for arguments of the wrong
    type; KeyTemplateError for a template or expression that cannot be read.
    A call raises KeyTemplateError where its arguments give no key, and what LockClient.acquire raises.
    """
    refuse_bare(key, "with_lock")
    check_answer("on_not_granted", on_not_granted, ("raise", "skip"))
    options: DecoratorOptions = {
        "reserve": reserve,
        "lease_duration": lease_duration,
        "refresh_period": refresh_period,
        "reentrant": reentrant,
        "sort_key": sort_key,
        "safe_time": safe_time,
        "on_danger": on_danger,
        "on_lost": on_lost,
    }

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        return _LockGuard(_LOCKS, func, key, key_jmespath, client, wait, options, on_not_granted).wrapped()

    return decorate


class _LockGuard(Guard):
    __slots__ = ()

    def row_key(self, key: str) -> str:
        return key

    def acquire(self, client: Any, key: str) -> Any:
        return client.acquire(key, wait=self.wait, **self.options)

    def succeed(self, lock: Any, result: object) -> Calls[None]:
        lost = lock.lost  # asked first: its validity may be over, and the row free to release all the same
        if not (yield from end_quietly(lock, lock.release)) or lost:
            self.tell_lost(lock)

    def tell_lost(self, lock: Any) -> None:
        tell(
            logger,
            "finished_lost",
            "%s() finished although its lock %r was lost: another call may have run at the same time",
            name_of(self.func),
            lock.key,
            key=lock.key,
            owner=lock.owner,
        )
