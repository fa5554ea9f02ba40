"""`@with_lock`: a function that never runs twice at once for one key."""

from __future__ import annotations

import functools  # the Lambda runtime has it loaded

from .. import invocation
from ..errors import KeyTemplateError, LockNotGrantedError
from ..log import logger
from .call import (
    Holding,
    check_client,
    check_function,
    check_result,
    default_async_client,
    default_client,
    is_async,
    refuse_bare,
    release_quietly,
    release_quietly_async,
    set_default_client,
)
from .disabled import StandIn, disabled
from .keys import compile_key
from .parameters import Parameters

__all__ = ["current_lock", "default_client", "set_default_client", "with_lock"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

    from ..aio import AsyncLock, AsyncLockClient
    from ..client import LockClient
    from ..lock import Callback, Lock
    from .keys import Key, KeyBuilder

    P = ParamSpec("P")
    R = TypeVar("R")
    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)

    class Answering(Protocol[T_co]):
        """A decorator whose functions may give a T as well; async def functions do so when awaited."""

        @overload
        def __call__(
            self, func: Callable[P, Coroutine[Any, Any, R]], /
        ) -> Callable[P, Coroutine[Any, Any, R | T_co]]: ...
        @overload
        def __call__(self, func: Callable[P, R], /) -> Callable[P, R | T_co]: ...

    class AnsweringAsync(Protocol[T_co]):
        """The same with an answer that is awaited, so for async def functions only."""

        def __call__(
            self, func: Callable[P, Coroutine[Any, Any, R]], /
        ) -> Callable[P, Coroutine[Any, Any, R | T_co]]: ...


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
    lock = _LOCKS.innermost()
    if kind is not None and not isinstance(lock, (kind, StandIn)):
        raise TypeError(f"the innermost lock is a {type(lock).__name__}, not a {kind.__name__}")
    return lock


if TYPE_CHECKING:  # one for each kind of on_not_granted

    @overload
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
        on_not_granted: Literal["raise"] = "raise",
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
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
        on_not_granted: Literal["skip"],
    ) -> Answering[None]: ...

    @overload
    def with_lock(  # type: ignore[overload-overlap]  # an answer that is awaited gives what it is awaited for
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
        on_not_granted: Callable[..., Coroutine[Any, Any, T]],
    ) -> AnsweringAsync[T]: ...

    @overload
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
        on_not_granted: Callable[..., T],
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
        of fields are reached by ``[name]`` and ``[index]``, also in JSON text: ``"order#{body[order][id]}"``.
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
    missing key and for arguments of the wrong type; KeyTemplateError for a template or expression that cannot be read.
    A call raises KeyTemplateError where its arguments give no key, and what LockClient.acquire raises.
    """
    refuse_bare(key, "with_lock")
    _check_answer(on_not_granted)
    options: dict[str, Any] = {
        "wait": wait,
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
        check_function(func, "with_lock")
        if client is not None:
            check_client(client, func)
        guard = _Guard(func, compile_key(func, key, key_jmespath), client, options, on_not_granted)
        return guard.wrapped_async() if is_async(func) else guard.wrapped()

    return decorate


class _Guard:
    """A decorated function: the key of each call, the lock around it, and the answer where that is not granted."""

    __slots__ = ("answer", "build_key", "client", "func", "options")

    def __init__(
        self, func: Callable[..., Any], build_key: KeyBuilder, client: Any, options: dict[str, Any], answer: Any
    ) -> None:
        if callable(answer):
            _check_no_parameter_error(func)
        if is_async(answer) and not is_async(func):
            raise TypeError(
                "on_not_granted= must be a plain function here, got an async def function: nobody would await it"
            )
        self.func = func
        self.build_key = build_key
        self.client = client
        self.options = options
        self.answer = answer

    def wrapped(self) -> Callable[..., Any]:
        @functools.wraps(self.func)
        def locked(*args: Any, **kwargs: Any) -> Any:
            found = invocation.find(args, kwargs)
            token = invocation.enter(found)
            try:
                if disabled():
                    client = self.client or default_client()
                    return self.run(
                        args, kwargs, None, StandIn(client, self.key_if_any(args, kwargs), self.options, found)
                    )
                client = self.client or default_client()
                place = self.place(client, args, kwargs)
                try:
                    lock = client.acquire(place[1], **self.options)
                except LockNotGrantedError as error:
                    return self.refused(error, args, kwargs)
                return self.run(args, kwargs, place, lock)
            finally:
                invocation.leave(token)

        return locked

    def wrapped_async(self) -> Callable[..., Any]:
        @functools.wraps(self.func)
        async def locked(*args: Any, **kwargs: Any) -> Any:
            found = invocation.find(args, kwargs)
            token = invocation.enter(found)
            try:
                client = self.client or default_async_client()
                if disabled():
                    from .disabled_async import AsyncStandIn

                    stand_in = AsyncStandIn(client, self.key_if_any(args, kwargs), self.options, found)
                    return await self.run_async(args, kwargs, None, stand_in)
                place = self.place(client, args, kwargs)
                try:
                    lock = await client.acquire(place[1], **self.options)
                except LockNotGrantedError as error:
                    answer = self.refused(error, args, kwargs)
                    return await answer if hasattr(answer, "__await__") else answer
                return await self.run_async(args, kwargs, place, lock)
            finally:
                invocation.leave(token)

        return locked

    def place(self, client: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[object, str, str | None]:
        """Which lock a call needs: client, key and sort key. Raises where this very call holds it already."""
        place = (client, self.build_key(args, kwargs), self.options["sort_key"])
        if not self.options["reentrant"]:
            _LOCKS.refuse_again(place, place[1])
        return place

    def key_if_any(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The key, or why there is none: while locks are disabled, nothing about them may keep a call from running."""
        try:
            return self.build_key(args, kwargs)
        except KeyTemplateError as error:
            return f"(no key: {error})"

    def refused(self, error: LockNotGrantedError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if error.too_late or self.answer == "raise":
            raise error
        return None if self.answer == "skip" else self.answer(*args, **kwargs, error=error)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], place: object, lock: Any) -> Any:
        """Call the function while ``lock`` is held, and release it."""
        token = _LOCKS.enter(place, lock)
        try:
            result = self.func(*args, **kwargs)
            check_result(result, self.func, "with_lock")
        finally:
            _LOCKS.leave(token)
            lost = lock.lost  # asked first: its validity may be over, and the row free to release all the same
            kept = release_quietly(lock) and not lost
        if not kept:
            self.tell_lost(lock)
        return result

    async def run_async(self, args: tuple[Any, ...], kwargs: dict[str, Any], place: object, lock: Any) -> Any:
        """As `run`."""
        token = _LOCKS.enter(place, lock)
        try:
            result = await self.func(*args, **kwargs)
        finally:
            _LOCKS.leave(token)
            lost = lock.lost
            kept = await release_quietly_async(lock) and not lost
        if not kept:
            self.tell_lost(lock)
        return result

    def tell_lost(self, lock: Any) -> None:
        logger.warning(
            "%s() finished although its lock %r was lost: another call may have run at the same time",
            self.func.__qualname__,
            lock.key,
            extra={"lock_event": "finished_lost", "lock_key": lock.key, "lock_owner": lock.owner},
        )


def _check_answer(on_not_granted: object) -> None:
    if not callable(on_not_granted) and on_not_granted not in ("raise", "skip"):
        raise TypeError(f"on_not_granted= must be 'raise', 'skip' or a function, got {on_not_granted!r}")


def _check_no_parameter_error(func: Callable[..., Any]) -> None:
    if "error" in Parameters.of(func).names:
        raise TypeError("the function has a parameter named error, which on_not_granted= gets as well: rename it")
