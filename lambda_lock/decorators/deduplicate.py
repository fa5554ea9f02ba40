"""`@deduplicate`: a function that processes an event once, however often it is delivered."""

from __future__ import annotations

import os
from functools import partial  # the Lambda runtime has it loaded

from ..client import checks
from ..client.base import session_of, take
from ..client.lock import complete, held_by
from ..client.taking import acquire
from ..errors import DuplicateEventError, LockArgumentError
from ..keys.parameters import name_of
from ..keys.separator import Separator
from ..observe.log import logger, tell
from .call import NOT_COMPLETED, end_quietly
from .functions import check_answer, refuse_bare
from .guard import Guard, check_answer_of
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
    from ..errors import LockError
    from ..keys.compile import Key
    from .call import Calls
    from .types import Answering, AnsweringAsync, EventOptions

    P = ParamSpec("P")
    R = TypeVar("R")
    T = TypeVar("T")
    U = TypeVar("U")

_EVENTS = Holding("deduplicate")
DAY = 86_400.0  # seconds
_SHARED = ""  # a scope without a prefix: everything that uses the key shares the row
_AFTER_SCOPE = Separator("#")


if TYPE_CHECKING:

    @overload
    def current_dedup() -> Lock: ...
    @overload
    def current_dedup(kind: type[AsyncLock]) -> AsyncLock: ...
    @overload
    def current_dedup(kind: type[Lock]) -> Lock: ...


def current_dedup(kind: type[Any] | None = None) -> Any:
    """The lock of the innermost @deduplicate function that is running in this thread or task.

    kind: Lock or AsyncLock. In an async def function the lock is an AsyncLock, and ``current_dedup(AsyncLock)`` tells
        type checkers so. None: a Lock, for type checkers.

    Its ``commit(items)`` writes the application's items and completes the event in one transaction, so these effects
    happen exactly once. Raises LookupError if no such function is running, and TypeError for a lock of another kind.

    Example: ``current_dedup().commit([{"Put": {"TableName": "payments", "Item": item}}])``
    """
    return _EVENTS.innermost(kind)


if TYPE_CHECKING:  # one for each kind of on_duplicate and on_not_granted

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["return"] = "return",
        on_not_granted: Literal["raise", "skip"] = "raise",
        **options: Unpack[EventOptions],
    ) -> Answering[None]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["raise"],
        on_not_granted: Literal["raise"] = "raise",
        **options: Unpack[EventOptions],
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["raise"],
        on_not_granted: Literal["skip"],
        **options: Unpack[EventOptions],
    ) -> Answering[None]: ...

    @overload
    def deduplicate(  # type: ignore[overload-overlap]  # an answer that is awaited gives what it is awaited for
        key: Key | None = None,
        *,
        on_duplicate: Callable[..., Coroutine[Any, Any, T]],
        on_not_granted: Literal["raise"] = "raise",
        **options: Unpack[EventOptions],
    ) -> AnsweringAsync[T]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Callable[..., T],
        on_not_granted: Literal["raise"] = "raise",
        **options: Unpack[EventOptions],
    ) -> Answering[T]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Callable[..., T],
        on_not_granted: Literal["skip"],
        **options: Unpack[EventOptions],
    ) -> Answering[T | None]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["return"] = "return",
        on_not_granted: Callable[..., T],
        **options: Unpack[EventOptions],
    ) -> Answering[T | None]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["raise"],
        on_not_granted: Callable[..., T],
        **options: Unpack[EventOptions],
    ) -> Answering[T]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Callable[..., T],
        on_not_granted: Callable[..., U],
        **options: Unpack[EventOptions],
    ) -> Answering[T | U]: ...


def deduplicate(
    key: Key | None = None,
    *,
    key_jmespath: str | None = None,
    client: LockClient | AsyncLockClient | None = None,
    wait: float | None = 0,
    reserve: float | None = None,
    lease_duration: float | None = None,
    refresh_period: float | None = None,
    reentrant: bool = False,
    sort_key: str | None = None,
    safe_time: float | None = None,
    on_danger: Callback | None = None,
    on_lost: Callback | None = None,
    on_not_granted: Any = "raise",
    window: float = DAY,
    scope: str | None = None,
    result: str | None = None,
    on_duplicate: Any = "return",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the decorated function once for each event: not while it runs elsewhere, and not again once it is done.

    A new event costs two requests, a duplicate one. The arguments that are not listed here are those of with_lock.

    key: what two deliveries of one event have in common. A template (``"{messageId}"`` for a record of SQS, ``"{id}"``
        for EventBridge), a function of the call's own arguments, or payload_hash().
    wait: seconds to wait while the event is in progress elsewhere. 0: raise LockNotGrantedError at once, so that the
        source delivers it again. None: as for with_lock.
    window: seconds for which an event counts as done, from its completion on, 1 or more. Make it longer than the
        source may keep delivering the event: an SQS queue keeps a message for up to 14 days.
    scope: a prefix of the stored key, so that two functions that consume one event do not suppress each other. None:
        the Lambda function's name, and this function's module and name (of a partial, those of its function; of an
        object, those of its class). "": no prefix. The key is shared with everything else that uses it.
    result: "json" stores what the function returns, for the event's duplicates. None stores nothing.
    on_duplicate: what the call does for an event that is done. "return": return the stored result (None if none was
        stored). "raise": raise DuplicateEventError. A function: return what it returns for the call's own arguments and
        ``error=``.

    If the function raises, the event may run again at once. If it times out or crashes, the event may run again when
    the lease is over. If it returns, the release marks the event as done, in the same request. If the outcome of that
    request is unknown, this is logged and the result is returned.

    A function whose lease was over before it ended completes the event only if no other call has taken it over since.
    Otherwise a warning says that it may have run twice. current_dedup().commit() prevents that for everything that is
    written to DynamoDB.

    Decorating raises what with_lock raises, and LockArgumentError for a window or scope out of range. A call raises
    what with_lock raises; LockArgumentError if result="json" has a result that JSON cannot write or that is too large
    (the event counts as done all the same); LockFormatError if a stored result is not JSON.

    Example::

        @deduplicate("{id}", result="json")
        def handler(event, context): ...
    """
    refuse_bare(key, "deduplicate")
    check_answer("on_not_granted", on_not_granted, ("raise", "skip"))
    check_answer("on_duplicate", on_duplicate, ("return", "raise"))
    if result not in (None, "json"):
        raise TypeError(f"result= must be None or 'json', got {result!r}")
    seconds = int(-(-checks.seconds("window", window, least=1.0) // 1))
    if scope is not None and scope != _SHARED:
        checks.key_text("scope", scope)
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
        guard = _EventGuard(_EVENTS, func, key, key_jmespath, client, wait, options, on_not_granted)
        guard.of_event(seconds, scope, result is not None, on_duplicate)
        return guard.wrapped()

    return decorate


class _EventGuard(Guard):
    __slots__ = ("on_duplicate", "scope", "stores_result", "window")

    def of_event(self, window: int, scope: str | None, stores_result: bool, on_duplicate: Any) -> None:
        check_answer_of(self.func, "on_duplicate", on_duplicate)
        self.window = window
        self.scope = scope
        self.stores_result = stores_result
        self.on_duplicate = on_duplicate

    def row_key(self, key: str) -> str:
        scope = _default_scope(self.func) if self.scope is None else self.scope
        return key if scope == _SHARED else _AFTER_SCOPE.escaped(scope) + _AFTER_SCOPE.literal + key

    def acquire(self, client: Any, key: str) -> Any:
        event = acquire(session_of(client), key, wait=self.wait, window=self.window, **self.options)
        return take(client, event)

    def answered(self, error: LockError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(error, DuplicateEventError):
            return super().answered(error, args, kwargs)
        from ..client.result import decode

        error.give(decode(error.result, error.key) if self.stores_result else None)
        if self.on_duplicate == "return":
            return error.result
        if self.on_duplicate == "raise":
            raise error
        return self.on_duplicate(*args, **kwargs, error=error)

    def succeed(self, lock: Any, result: object) -> Calls[None]:
        if held_by(lock).ended:
            yield from end_quietly(lock, lock.release)
            self.tell_open(lock)
            return
        text, unfit = self.text(lock, result)
        if not (yield from end_quietly(lock, partial(complete, lock, text), NOT_COMPLETED)):
            self.tell_lost(lock)
        if unfit is not None:
            raise unfit

    def text(self, lock: Any, result: object) -> tuple[str | None, LockArgumentError | None]:
        """The text to store, or why it cannot be stored. The event is done all the same."""
        if not self.stores_result:
            return None, None
        try:
            return held_by(lock).checked_result(result), None
        except LockArgumentError as unfit:
            return None, unfit

    def tell_open(self, lock: Any) -> None:
        """The function ended the lock itself, by a commit that completed the event or in another way."""
        if held_by(lock).completed:
            return
        tell(
            logger,
            "not_completed",
            "%s() returned, but did not complete event %r: it released it, or its commit was refused or had no clear "
            "answer. Its next delivery runs, unless that commit went through",
            name_of(self.func),
            lock.key,
            key=lock.key,
            owner=lock.owner,
        )

    def tell_lost(self, lock: Any) -> None:
        tell(
            logger,
            "finished_lost",
            "%s() finished, but event %r was lost meanwhile: it may have run twice. Use current_dedup().commit() for "
            "what must happen once",
            name_of(self.func),
            lock.key,
            key=lock.key,
            owner=lock.owner,
        )


def _default_scope(func: Any) -> str:
    while hasattr(func, "__wrapped__") or isinstance(func, partial):  # what the user wrote, under other decorators
        func = func.func if isinstance(func, partial) else func.__wrapped__
    names = (os.environ.get("AWS_LAMBDA_FUNCTION_NAME"), getattr(func, "__module__", None), name_of(func))
    return ".".join(name for name in names if name)
