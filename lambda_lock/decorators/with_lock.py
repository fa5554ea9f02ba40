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
    default_client,
    is_async,
    refuse_bare,
    release_quietly,
    set_default_client,
)
from .disabled import StandIn, disabled
from .keys import compile_key
from .parameters import Parameters

__all__ = ["current_lock", "default_client", "set_default_client", "with_lock"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, ParamSpec, TypeVar, overload

    from ..client import LockClient
    from ..lock import Callback, Lock
    from .keys import Key, KeyBuilder

    P = ParamSpec("P")
    R = TypeVar("R")
    T = TypeVar("T")

_LOCKS = Holding("with_lock")


def current_lock() -> Lock:
    """The lock of the innermost @with_lock function that is running in this thread or task.

    Raises LookupError where none is. With LAMBDA_LOCK_DISABLED set it is a stand-in that says it is held.
    """
    return _LOCKS.innermost()


if TYPE_CHECKING:  # one for each kind of on_not_granted

    @overload
    def with_lock(
        key: Key | None = None,
        *,
        key_jmespath: str | None = None,
        client: LockClient | None = None,
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
        client: LockClient | None = None,
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
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...

    @overload
    def with_lock(
        key: Key | None = None,
        *,
        key_jmespath: str | None = None,
        client: LockClient | None = None,
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
    ) -> Callable[[Callable[P, R]], Callable[P, R | T]]: ...


def with_lock(
    key: Key | None = None,
    *,
    key_jmespath: str | None = None,
    client: LockClient | None = None,
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
        is. It does not concern errors of the function itself, nor too little time left: these are raised.

    The lock is released however the function ends; its result or error comes through unchanged, also where the release
    fails (it is logged, and the lease ends by itself) or the lock was lost meanwhile (a warning). Call
    current_lock().raise_if_lost() before a step that must not be done twice.

    When decorating, raises TypeError for what is no plain function (async def, generators, classes), for a missing
    key and for arguments of the wrong type; KeyTemplateError for a template or expression that cannot be read. A call
    raises KeyTemplateError where its arguments give no key, and what LockClient.acquire raises.
    """
    refuse_bare(key, "with_lock")
    if client is not None:
        check_client(client)
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
        build_key = compile_key(func, key, key_jmespath)
        if callable(on_not_granted):
            _check_no_parameter_error(func)

        @functools.wraps(func)
        def locked(*args: Any, **kwargs: Any) -> Any:
            found = invocation.find(args, kwargs)
            token = invocation.enter(found)
            try:
                if disabled():
                    stand_in = _stand_in(build_key, args, kwargs, options, found)
                    return _run(func, args, kwargs, None, stand_in)
                name = build_key(args, kwargs)
                chosen = default_client() if client is None else client
                place = (chosen, name, sort_key)
                if not reentrant:
                    _LOCKS.refuse_again(place, name)
                try:
                    lock = chosen.acquire(name, **options)
                except LockNotGrantedError as error:
                    if error.too_late or on_not_granted == "raise":
                        raise
                    return None if on_not_granted == "skip" else on_not_granted(*args, **kwargs, error=error)
                return _run(func, args, kwargs, place, lock)
            finally:
                invocation.leave(token)

        return locked

    return decorate


def _run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], place: object, lock: Lock) -> Any:
    """Call ``func`` while ``lock`` is held, and release it."""
    token = _LOCKS.enter(place, lock)
    try:
        result = func(*args, **kwargs)
        check_result(result, func, "with_lock")
    finally:
        _LOCKS.leave(token)
        lost = lock.lost  # asked first: its validity may be over, and the row free to release all the same
        kept = release_quietly(lock) and not lost
    if not kept:
        logger.warning(
            "%s() finished although its lock %r was lost: another call may have run at the same time",
            func.__qualname__,
            lock.key,
            extra={"lock_event": "finished_lost", "lock_key": lock.key, "lock_owner": lock.owner},
        )
    return result


def _stand_in(
    build_key: KeyBuilder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: dict[str, Any],
    found: invocation.Invocation | None,
) -> Any:
    try:
        name = build_key(args, kwargs)
    except KeyTemplateError as error:  # with the switch on, nothing about locks may keep the call from running
        name = f"(no key: {error})"
    return StandIn(name, options["sort_key"], options["lease_duration"] or 20.0, found)


def _check_answer(on_not_granted: object) -> None:
    if not callable(on_not_granted) and on_not_granted not in ("raise", "skip"):
        raise TypeError(f"on_not_granted= must be 'raise', 'skip' or a function, got {on_not_granted!r}")
    if is_async(on_not_granted):
        raise TypeError("on_not_granted= must be a plain function, got an async def function: nobody would await it")


def _check_no_parameter_error(func: Callable[..., Any]) -> None:
    if "error" in Parameters.of(func).names:
        raise TypeError("the function has a parameter named error, which on_not_granted= gets as well: rename it")
