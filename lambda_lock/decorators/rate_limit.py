"""`@rate_limit`: a function that never starts too often."""

from __future__ import annotations

from types import SimpleNamespace  # functools has it loaded

from ..client import checks
from ..client.options import LOCK, checked, declared, filled
from ..client.rate_limit import limit_of
from ..keys.compile import compile_key
from .functions import check_answer, check_answer_of, check_decorated, check_no_batch
from .guard import CurrentLocks, Guard, prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any, Literal, Unpack, overload

    from ..client.async_client import AsyncLockClient
    from ..client.lock_client import LockClient
    from ..keys.compile import Key
    from .guard import Call
    from .types import Answering, AnsweringAsync, P, R, RateOptions, T

_CURRENT = CurrentLocks("rate_limit")


def _rate_limit(
    key: Key, limit: int, *more: object, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    asked = filled(rate_limit, options)
    checks.per_by_name(key, limit, more)
    on_limited, on_unavailable, client = (asked.pop(name) for name in ("on_limited", "on_unavailable", "client"))
    check_answer("on_limited", on_limited, ("raise", "skip"))
    n, per, burst, wait, sort_key = (asked[name] for name in ("n", "per", "burst", "wait", "sort_key"))

    def start(call: Call) -> Any:
        count = n(*call.args, **call.kwargs) if callable(n) else n
        waited = call.client.rate_limit(call.key, limit, **asked | {"n": count})
        return _started(waited) if hasattr(waited, "__await__") else _STARTED

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        check_decorated(func, "rate_limit", client, "raise", on_unavailable)
        check_answer_of(func, "on_limited", on_limited)
        check_no_batch(func, "rate_limit", "limit whole batches, not their records", f"rate={(key, limit, per)!r}")
        if getattr(func, "__globals__", {}).get("__name__") == Guard.__module__:
            raise TypeError(
                "write @rate_limit below @with_lock and @deduplicate, and once: a slot does not wait for another"
            )
        limit_of(limit, per, burst, 1 if callable(n) else n, wait)
        checked(LOCK, {"reserve": asked["reserve"], "sort_key": sort_key})
        guard = Guard(
            _CURRENT,
            func,
            client,
            compile_key(func, key, None),
            start,
            sort_key=sort_key,
            on_not_granted=on_limited,
            on_unavailable=on_unavailable,
        )
        prepare(client, func)
        return guard.wrapped()

    return decorate


if TYPE_CHECKING:

    @overload
    def rate_limit(
        key: Key, limit: int, *, on_limited: Literal["raise"] = "raise", **options: Unpack[RateOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def rate_limit(
        key: Key, limit: int, *, on_limited: Literal["skip"], **options: Unpack[RateOptions]
    ) -> Answering[None]: ...
    @overload
    def rate_limit(  # type: ignore[overload-overlap]  # as in with_lock
        key: Key, limit: int, *, on_limited: Callable[..., Coroutine[Any, Any, T]], **options: Unpack[RateOptions]
    ) -> AnsweringAsync[T]: ...
    @overload
    def rate_limit(
        key: Key, limit: int, *, on_limited: Callable[..., T], **options: Unpack[RateOptions]
    ) -> Answering[T]: ...


@declared(_rate_limit)
def rate_limit(
    key: Key,
    limit: int,
    *,
    per: float = 1.0,
    burst: int = 1,
    n: int | Callable[..., int] = 1,
    wait: float | None = None,
    reserve: float | None = None,
    sort_key: str | None = None,
    on_limited: Any = "raise",
    on_unavailable: Literal["raise", "run"] = "raise",
    client: LockClient | AsyncLockClient | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Start the decorated function at most ``limit`` times in ``per`` seconds, over all callers, in order.

    key: a template, or a function of the call's own arguments that returns the key, as for `with_lock`.
    limit: starts, 1 or more. Pass the same limit, per and burst wherever the key is used.
    per: seconds, above 0: at most one start in a microsecond, and a year for ``burst`` of them.
    burst: how many may start at once after a pause, 1 or more. In any ``per`` seconds about limit + burst start at
        most, so 1, the default, comes closest to the limit.
    n: how many starts a call is, 1 to ``burst``, or a function of the call's own arguments that returns this.
    wait: seconds to wait for the start, 0 to 86,400. None: the invocation's time left less ``reserve`` (outside Lambda:
        the client's lease + 5 s). 0: start now or not at all.
    reserve: seconds that the function needs after it starts, 0 or more. None: a quarter of the time left, at least 1 s.
    sort_key: the value of the table's sort key, if it has one.
    on_limited: what the call does if no start is free within the wait. "raise": raise the RateLimitedError. "skip":
        return None. A function: return what it returns for the call's own arguments and ``error=`` (awaited for an
        async def function).
    on_unavailable: what the call does when DynamoDB gives no answer (TransportError). "raise": raise the error. "run":
        run the function all the same, with a warning and a metric.
    client: the LockClient. None: default_client(), which reads LAMBDA_LOCK_TABLE.

    Write it below all other decorators of lambda_lock: a slot does not wait for a lock. While LAMBDA_LOCK_DISABLED is
    set, the function runs at once, with a warning.

    Decorating raises what `with_lock` does, LockArgumentError for a number out of range, and TypeError for a function
    that another decorator of lambda_lock has decorated before, and for a handler made by sqs_batch or kafka_batch. A
    call raises KeyTemplateError if its arguments give no key, and what LockClient.rate_limit raises.

    Example::

        @rate_limit("api#{account}", 10)
        def call_api(account: str) -> None: ...
    """
    raise NotImplementedError


async def _started(waiting: Awaitable[float]) -> Any:
    await waiting
    return _STARTED_ASYNC


async def _released() -> bool:
    return True


# What a call has instead of a lock: nothing is held, and nothing is released.
_STARTED = SimpleNamespace(is_held=False, release=lambda: True)
_STARTED_ASYNC = SimpleNamespace(is_held=False, release=_released)
