"""`@rate_limit`: a function that never starts too often."""

from __future__ import annotations

from ..client import checks
from ..client import rate_limit as waiting
from ..client.lock_client import OURS
from ..client.options import LOCK, checked, declared, filled
from ..errors import LockConfigurationError
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

    def start(call: Call, is_outer: bool) -> Any:
        count = n(*call.args, **call.kwargs) if callable(n) else n
        terms, method = asked | {"n": count}, getattr(call.client.rate_limit, "__func__", None)
        if not is_outer or method not in OURS:
            return call.client.rate_limit(call.key, limit, **terms), None
        starting = waiting.rate_limit(call.client.__session__, call.key, limit, **terms)
        return call.client.__runner__.run(starting), lambda: call.client.__runner__.run(starting.give_back())

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        check_decorated(func, "rate_limit", client, "raise", on_unavailable)
        check_answer_of(func, "on_limited", on_limited)
        check_no_batch(func, "rate_limit", "limit whole batches, not their records", f"rate={(key, limit, per)!r}")
        waiting.limit_of(limit, per, burst, 1 if callable(n) else n, wait)
        checked(LOCK, {"reserve": asked["reserve"], "sort_key": sort_key})
        inner: Any = getattr(func, "limited", None)
        is_stacked = inner is not None and inner.made is func
        if getattr(func, "__globals__", {}).get("__name__") == Guard.__module__ and not is_stacked:
            raise TypeError("write @rate_limit below @with_lock and @deduplicate: a slot does not wait for a lock")
        if is_stacked and inner.per > per:
            raise TypeError(
                f"write @rate_limit({key!r}, {limit}, per={per:g}) below the one with per={inner.per:g}: of several "
                "limits the one with the widest window is outside, and the narrowest is taken last"
            )
        guard: _RateGuard = _RateGuard(
            _CURRENT,
            func,
            client,
            compile_key(func, key, None),
            lambda call: guard.begin(call),
            sort_key=sort_key,
            on_not_granted=on_limited,
            on_unavailable=on_unavailable,
        )
        prepare(client, func)
        guard.start, guard.per, guard.is_outer = start, per, is_stacked
        made: Any = guard.wrapped()
        guard.made, made.limited = made, guard
        return made  # type: ignore[no-any-return]

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

    Write it below all other decorators of lambda_lock: a slot does not wait for a lock. Several limits are written one
    above the other, the one with the widest window (``per``) outside, each with a key of its own. Starts are taken from
    the outside in, and given back if an inner limit refuses, unless later ones were given out. While
    LAMBDA_LOCK_DISABLED is set, the function runs at once, with a warning.

    Decorating raises what `with_lock` does, LockArgumentError for a number out of range, and TypeError for a function
    that with_lock or deduplicate has decorated before, for limits in another order, and for a handler made by sqs_batch
    or kafka_batch. A call raises KeyTemplateError if its arguments give no key, LockConfigurationError if two limits
    have one key, and what LockClient.rate_limit raises.

    Example::

        @rate_limit("api#{account}", 10)
        def call_api(account: str) -> None: ...
    """
    raise NotImplementedError


class _Slot:
    """What a call has instead of a lock. Nothing is held, and the release gives back a start in which nothing ran.

    func: what the call runs in it. above: the slot of the limit around this one; None if there is none. end: gives it
        back, until the function runs; then it does nothing.
    """

    __slots__ = ("above", "end", "func", "key", "targets")
    is_held, owner = False, None

    def __init__(self, call: Call, func: object, above: _Slot | None, end: Callable[[], Any]) -> None:
        self.key, self.targets, self.func, self.above, self.end = call.key, call.targets, func, above, end

    def release(self) -> Any:
        return self.end()  # as it is now: the guard asks for this method before the function runs


class _RateGuard(Guard):
    """per: that of the limit. made: the decorated function. is_outer: whether it decorates another limit.

    start: waits for the start of a call. Gives the seconds that it waited, and what gives the start back, if anything.
    """

    start: Callable[[Call, bool], Any]
    per: float
    made: Any
    is_outer: bool

    def begin(self, call: Call) -> Any:
        above = self.above()
        if above is not None and above.targets == call.targets:
            raise LockConfigurationError(
                f"two rate limits of one function have the key {call.key!r}: give each a key of its own", key=call.key
            )
        waited, give_back = self.start(call, self.is_outer)
        return self.awaited(call, waited, give_back) if self.is_async else self.slot(call, give_back)

    async def awaited(self, call: Call, waited: Awaitable[float], give_back: Any) -> _Slot:
        await waited
        return self.slot(call, give_back)

    def slot(self, call: Call, give_back: Callable[[], Any] | None) -> _Slot:
        """The slot of a start. If the function itself runs now, those of the limits around this one are used."""
        if not self.is_outer:
            self.use_all()
        return _Slot(call, self.func, self.above(), give_back or self.nothing)

    def stand_in(self, call: Call, why: str) -> Any:
        self.use_all()
        return super().stand_in(call, why)

    def use_all(self) -> None:
        above = self.above()
        while above is not None:
            above.end, above = self.nothing, above.above

    def above(self) -> _Slot | None:
        """The slot of the limit that is written directly above this one, in this call."""
        _, slot = (self.current.entries.get() or [((), None)])[-1]
        return slot if isinstance(slot, _Slot) and slot.func is self.made else None

    @property
    def nothing(self) -> Callable[[], Any]:
        return _released if self.is_async else lambda: True


async def _released() -> bool:
    return True
