"""`@deduplicate`: a function that processes an event once, however often it is delivered."""

from __future__ import annotations

import os
from functools import partial  # the Lambda runtime has it loaded

from ..client import checks
from ..client.lock import complete, held_by
from ..client.options import order
from ..client.record import Storing, decode_result, result_parts
from ..client.session import session_of, take
from ..client.taking import Fresh, entered_before, tell_refused
from ..errors import DuplicateEventError, LockArgumentError, PayloadMismatchError
from ..keys.arguments import name_of
from ..keys.compile import compile_key
from ..keys.template import Separator
from ..observe.log import NOT_RELEASED, logger, tell
from .environment import prepare
from .functions import check_answer, check_answer_of, check_decorated, refuse_bare
from .guard import CurrentLocks, Guard, check_times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any, Literal, ParamSpec, TypeVar, Unpack, overload

    from ..client.async_client import AsyncLockClient
    from ..client.async_lock import AsyncLock
    from ..client.lock import Callback, Lock
    from ..client.lock_client import LockClient
    from ..client.taking import Taking
    from ..errors import LockError
    from ..keys.arguments import KeyBuilder
    from ..keys.compile import Compiled, Key
    from .completed import Completed
    from .guard import Call, LastAct
    from .types import Answering, AnsweringAsync, EventOptions

    P = ParamSpec("P")
    R = TypeVar("R")
    T = TypeVar("T")
    U = TypeVar("U")

_CURRENT = CurrentLocks("deduplicate")
DAY = 86_400.0  # seconds
_NOT_COMPLETED = "event %r may not be marked as done, and its next delivery may run again: %s"
_SHARED = ""  # a scope without a prefix: everything that uses the key shares the row
_AFTER_SCOPE = Separator("#")
#: What types have that are no classes: ``list[Receipt]``, a NewType, an alias made by ``type``.
_OF_TYPES = ("__args__", "__supertype__", "__value__")
#: The names in a return annotation of what JSON represents as it is.
_PLAIN_NAMES = frozenset(
    {"Any", "None", "NoneType", "bool", "dict", "float", "int", "list", "object", "str", "typing.Any"}
)


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
    return _CURRENT.innermost(kind)


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
    on_unavailable: Literal["raise", "run"] = "raise",
    window: float = DAY,
    scope: str | None = None,
    result: Any = None,
    validate: Sequence[str] | None = None,
    cache_size: int = 0,
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
    result: how to store what the function returns, for the event's duplicates. "json": as JSON. If the function's
        return annotation says so, duplicates get dataclasses, pydantic models, dates, Decimals, UUIDs, Enum members,
        sets and what contains them. A type, for a function without an annotation: the same. An object with
        ``dump(value)``, which gives a JSON value, and ``load(value)``: it converts. None stores nothing.
    validate: the fields in which two deliveries with one key must not differ, written as for payload_hash(). A hash of
        them is stored with the event. None: none.
    cache_size: how many events that are done this environment remembers, 0 or more, for this function. A duplicate of
        one of these costs no request. Each takes the memory of its stored result. 0: none.
    on_duplicate: what the call does for an event that is done. "return": return the stored result (None if none was
        stored). "raise": raise DuplicateEventError. A function: return what it returns for the call's own arguments and
        ``error=``.

    If the function raises, the event may run again at once. If it times out or crashes, the event may run again when
    the lease is over. If it returns, the release marks the event as done, in the same request. If the outcome of that
    request is unknown, this is logged and the result is returned.

    A function whose lease was over before it ended completes the event only if no other call has taken it over since.
    Otherwise a warning says that it may have run twice. current_dedup().commit() prevents that for everything that is
    written to DynamoDB.

    A result that cannot be written as JSON, or is too large, is not stored: a warning says so, and duplicates get None.

    Decorating raises what with_lock raises, LockArgumentError for a window, scope or cache_size out of range, and
    TypeError for a result of a type that cannot be stored. A call raises what with_lock raises; PayloadMismatchError if
    the event is done with another payload; LockFormatError if a stored result cannot be read.

    Example::

        @deduplicate("{id}", result="json")
        def handler(event, context): ...
    """
    refuse_bare(key, "deduplicate")
    check_answer("on_not_granted", on_not_granted, ("raise", "skip"))
    check_answer("on_duplicate", on_duplicate, ("return", "raise"))
    serializer = _serializer(result)
    fields = _fields(validate)
    checks.whole("cache_size", cache_size, least=0)
    seconds = int(-(-checks.seconds("window", window, least=1.0) // 1))
    if scope is not None and scope != _SHARED:
        checks.key_text("scope", scope)

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        check_decorated(func, "deduplicate", client, on_not_granted, on_unavailable)
        check_times(wait, reserve, lease_duration, refresh_period)
        check_answer_of(func, "on_duplicate", on_duplicate)
        known = _cache(cache_size)

        def acquire_event(client: Any, key: str) -> Any:
            session = session_of(client)
            duplicate = None if known is None else known.find(session, key)
            if duplicate is not None:
                session.check_open()
                tell_refused(session, duplicate, session.settings.place(key, sort_key), cancelled=False)
                raise duplicate
            taking: Taking[Lock] | None = None
            if reentrant:
                taking = entered_before(session, key, sort_key, None, event=True)
            if taking is None:
                ordered = order(
                    session,
                    key,
                    seconds,
                    wait=wait,
                    reserve=reserve,
                    lease_duration=lease_duration,
                    refresh_period=refresh_period,
                    reentrant=reentrant,
                    sort_key=sort_key,
                    safe_time=safe_time,
                    on_danger=on_danger,
                    on_lost=on_lost,
                )
                taking = Fresh(session, ordered)
            return take(client, taking)

        guard = _EventGuard(
            _CURRENT,
            func,
            client,
            _scoped(func, scope, compile_key(func, key, key_jmespath)),
            acquire_event,
            lease_duration=lease_duration,
            permits=None,
            reentrant=reentrant,
            sort_key=sort_key,
            on_not_granted=on_not_granted,
            on_unavailable=on_unavailable,
        )
        guard.on_duplicate = on_duplicate
        guard.stores_result = result is not None
        guard.serializer = _serializer_of(func) if result == "json" else serializer
        guard.payload = None if fields is None else compile_key(func, fields, None)
        guard.known = known
        prepare(client, func)
        return guard.wrapped()

    return decorate


class _EventGuard(Guard):
    known: Completed | None
    on_duplicate: Any
    payload: KeyBuilder | None
    serializer: Any
    stores_result: bool

    def prepare(self, call: Call) -> Any:
        lock = super().prepare(call)
        if lock is None and (self.payload is not None or self.serializer is not None):
            payload = None if self.payload is None else self.payload(call.args, call.kwargs)
            call.storing = Storing(self.serializer, payload)
        return lock

    def answered(self, call: Call, error: LockError) -> Any:
        if not isinstance(error, DuplicateEventError):
            return super().answered(call, error)
        if self.known is not None:
            self.known.learn(session_of(call.client), error)
        self.check_payload(call, error)
        error.give(decode_result(error.result, error.key, self.serializer) if self.stores_result else None)
        if self.on_duplicate == "return":
            return error.result
        if self.on_duplicate == "raise":
            raise error
        return self.on_duplicate(*call.args, **call.kwargs, error=error)

    def last_act(self, call: Call, lock: Any, result: object) -> LastAct:
        if not call.targets:
            return lock.release, NOT_RELEASED, lambda _: None
        held = held_by(lock)
        if held.ended:
            return lock.release, NOT_RELEASED, lambda _: self.tell_ended(lock)
        text, known = self.text(lock, result), self.known
        since = 0.0 if known is None else held.elapsed()

        def completed(kept: bool) -> None:
            if not kept:
                self.tell_lost(lock)
            elif known is not None:
                known.completed(held, text, since)

        return partial(complete, lock, text), _NOT_COMPLETED, completed

    def text(self, lock: Any, result: object) -> str | None:
        """The text to store. The event is done even if its result cannot be stored."""
        held = held_by(lock)
        for value in (result if self.stores_result else None, None):
            try:
                return held.checked_result(value)
            except LockArgumentError as unfit:
                message = "a result is not stored, and duplicates of the event get None: %s"
                tell(logger, "result_not_stored", message, unfit, cause=unfit.__cause__, key=lock.key, owner=lock.owner)
        return None

    def check_payload(self, call: Call, error: DuplicateEventError) -> None:
        """Raise PayloadMismatchError for an event that is done with another payload. Older ones have no payload."""
        if call.storing is None or call.storing.payload is None:
            return
        stored = result_parts(error.result)[1]
        if stored is None or stored == call.storing.payload:
            return
        mismatch = PayloadMismatchError(
            f"event {error.key!r} was completed with another payload, so {name_of(self.func)}() is neither run for "
            "this one nor given the result. Two different events have one key: give them different ones, or repeat an "
            "event as it was",
            key=error.key,
            completed_until=error.completed_until,
        )
        tell(logger, "payload_mismatch", "%s", mismatch, key=error.key)
        raise mismatch from None

    def tell_ended(self, lock: Any) -> None:
        """The function ended the lock itself, by a commit that completed the event or in another way."""
        if held_by(lock).hold.completed:
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


def _serializer(result: Any) -> Any:
    """The serializer that result= names. None: JSON as it is, or none. Raises TypeError for what it cannot be."""
    if result is None or result == "json":
        return None
    if isinstance(result, type) or any(hasattr(result, name) for name in _OF_TYPES):
        return _storable("for_type", result, f"result={result!r}")
    if callable(getattr(result, "dump", None)) and callable(getattr(result, "load", None)):
        return result
    raise TypeError(
        f"result= must be None or 'json', a type, or an object with dump(value) and load(value), got {result!r}"
    )


def _serializer_of(func: Any) -> Any:
    """The serializer for what ``func`` says that it returns. None: JSON as it is. Raises TypeError."""
    while isinstance(func, partial):
        func = func.func
    if not hasattr(func, "__annotations__"):
        func = type(func).__call__
    try:
        returned = func.__annotations__.get("return")
    except NameError:  # since Python 3.14 annotations are evaluated when they are asked for
        returned = ""
    text = (
        returned if isinstance(returned, str) else returned.__name__ if isinstance(returned, type) else repr(returned)
    )
    words = text
    for mark in "[],|":
        words = words.replace(mark, " ")
    named_by_strs = text.count("dict[") == text.count("dict[str,")  # JSON has no other names of entries
    if words and named_by_strs and _PLAIN_NAMES.issuperset(words.split()):
        return None  # mostly so: typing and dataclasses need not be loaded
    return _storable("for_function", func, f"result='json': {name_of(func)}()")


def _storable(make: str, of: Any, what: str) -> Any:
    from . import results

    try:
        return getattr(results, make)(of)
    except results.Unstorable as error:
        raise TypeError(
            f"{what} has a result that cannot be stored: {error}. Return JSON values, dataclasses, pydantic models, "
            "dates or the like, pass a serializer with dump(value) and load(value) as result=, or pass None to store "
            "none"
        ) from None


def _fields(validate: Any) -> Compiled | None:
    if validate is None:
        return None
    fields = () if isinstance(validate, str) or not hasattr(validate, "__iter__") else tuple(validate)
    if not fields:
        raise TypeError(f"validate= takes a list of fields, as in validate=['detail[amount]'], got {validate!r}")
    from ..keys.payload_hash import PayloadHash, payload_hash

    payload_hash(*fields)  # raises for what is not a path
    return PayloadHash(fields, may_be_empty=True)


def _cache(size: int) -> Completed | None:
    """What remembers so many events. None: nothing is remembered."""
    if not size:
        return None
    from .completed import Completed

    return Completed(size)


def _scoped(func: Any, scope: str | None, build_key: KeyBuilder) -> KeyBuilder:
    """The builder of the keys under which events are stored: with the scope before them."""
    if scope == _SHARED:
        return build_key

    def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        prefix = _default_scope(func) if scope is None else scope
        return _AFTER_SCOPE.escaped(prefix) + _AFTER_SCOPE.literal + build_key(args, kwargs)

    return build


def _default_scope(func: Any) -> str:
    while hasattr(func, "__wrapped__") or isinstance(func, partial):  # what the user wrote, under other decorators
        func = func.func if isinstance(func, partial) else func.__wrapped__
    names = (os.environ.get("AWS_LAMBDA_FUNCTION_NAME"), getattr(func, "__module__", None), name_of(func))
    return ".".join(name for name in names if name)
