"""`@deduplicate`: a function that processes an event once, however often it is delivered."""

from __future__ import annotations

from functools import partial  # the Lambda runtime has it loaded

from ..client import checks
from ..client.base import settings_of
from ..client.event_results import Storing, result_parts
from ..client.options import EVENT, checked, terms_of, wanted
from ..client.taking import Taking, entered_before, tell_refused
from ..errors import DuplicateEventError, KeyTemplateError
from ..keys.compile import compile_key
from ..keys.parameters import Parameters, name_of
from ..observe.log import NOT_RELEASED
from ..observe.observer import package
from ..runtime import invocation
from .functions import (
    check_answer,
    check_answer_of,
    check_decorated,
    check_no_batch,
    check_object,
    refuse_bare,
)
from .guard import Call, CurrentLocks, Guard, default_async_client, default_client, prepare, scoped_keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any, Literal, Never, Unpack, overload

    from typing_extensions import TypeVar

    from ..client.async_client import AsyncLockClient
    from ..client.async_lock import AsyncLock
    from ..client.held import HeldLock
    from ..client.lock import Lock
    from ..client.lock_client import LockClient
    from ..client.options import DecoratorOptions
    from ..errors import LockError
    from ..keys.arguments import KeyBuilder
    from ..keys.compile import Key
    from .completed import Completed
    from .guard import CallEnd
    from .types import Deduplicated, Deduplicating, EventOptions, P, R, T
    from .versions import Versions

    Kind = TypeVar("Kind", Lock, AsyncLock)
    #: What the answers return. Never: the answer is a word, such as "raise", and no function.
    OnDuplicate = TypeVar("OnDuplicate", default=Never)
    OnNotGranted = TypeVar("OnNotGranted", default=Never)
    OnBadKey = TypeVar("OnBadKey", default=Never)
    OnMismatch = TypeVar("OnMismatch", default=Never)

_CURRENT = CurrentLocks("deduplicate")
DAY = 86_400.0  # seconds
_TEN_YEARS = 10 * 365 * DAY
_NOT_COMPLETED = "event %r may not be marked as done, and its next delivery may run again: %s"


if TYPE_CHECKING:

    @overload
    def current_dedup() -> Lock: ...
    @overload
    def current_dedup(kind: type[Kind]) -> Kind: ...


def current_dedup(kind: type[Any] | None = None) -> Any:
    """The lock of the innermost @deduplicate function that is running in this thread or task.

    kind: Lock or AsyncLock. In an async def function the lock is an AsyncLock, and ``current_dedup(AsyncLock)`` tells
        type checkers so. None: a Lock, for type checkers.

    Its ``commit(items)`` writes the application's items and completes the event in one transaction, so these effects
    happen exactly once. Raises LookupError if no such function is running, and TypeError for a lock of another kind.

    Example: ``current_dedup().commit([{"Put": {"TableName": "payments", "Item": item}}])``
    """
    return _CURRENT.innermost(kind)


if TYPE_CHECKING:  # "return" and "skip" add None to what the function returns, an answer adds what it returns

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["raise"],
        on_not_granted: Literal["raise"] = "raise",
        **options: Unpack[EventOptions],
    ) -> Callable[[Callable[P, R]], Deduplicated[P, R, Any]]: ...

    @overload
    def deduplicate(  # type: ignore[overload-overlap]  # of an async answer, the awaited result counts
        key: Key | None = None,
        *,
        on_duplicate: Callable[..., Coroutine[Any, Any, T]],
        on_not_granted: Literal["raise"] | Callable[..., Coroutine[Any, Any, OnNotGranted]] = "raise",
        on_bad_key: Literal["raise"] | Callable[..., Coroutine[Any, Any, OnBadKey]] = "raise",
        on_mismatch: Literal["raise"] | Callable[..., Coroutine[Any, Any, OnMismatch]] = "raise",
        **options: Unpack[EventOptions],
    ) -> Callable[
        [Callable[P, Coroutine[Any, Any, R]]],
        Deduplicated[P, Coroutine[Any, Any, R | T | OnNotGranted | OnBadKey | OnMismatch], Coroutine[Any, Any, bool]],
    ]: ...

    @overload
    def deduplicate(  # type: ignore[overload-overlap]  # the same, for an answer to bad keys
        key: Key | None = None,
        *,
        on_duplicate: Literal["return", "raise"] = "return",
        on_not_granted: Literal["raise", "skip"] | Callable[..., Coroutine[Any, Any, OnNotGranted]] = "raise",
        on_bad_key: Callable[..., Coroutine[Any, Any, T]],
        on_mismatch: Literal["raise"] | Callable[..., Coroutine[Any, Any, OnMismatch]] = "raise",
        **options: Unpack[EventOptions],
    ) -> Callable[
        [Callable[P, Coroutine[Any, Any, R]]],
        Deduplicated[P, Coroutine[Any, Any, R | T | OnNotGranted | None], Coroutine[Any, Any, bool]],
    ]: ...

    @overload
    def deduplicate(  # type: ignore[overload-overlap]  # the same, for an answer to mismatches
        key: Key | None = None,
        *,
        on_duplicate: Literal["return", "raise"] = "return",
        on_not_granted: Literal["raise", "skip"] | Callable[..., Coroutine[Any, Any, OnNotGranted]] = "raise",
        on_mismatch: Callable[..., Coroutine[Any, Any, T]],
        **options: Unpack[EventOptions],
    ) -> Callable[
        [Callable[P, Coroutine[Any, Any, R]]],
        Deduplicated[P, Coroutine[Any, Any, R | T | OnNotGranted | None], Coroutine[Any, Any, bool]],
    ]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Callable[..., OnDuplicate],
        on_not_granted: Literal["raise"] | Callable[..., OnNotGranted] = "raise",
        on_bad_key: Literal["raise"] | Callable[..., OnBadKey] = "raise",
        on_mismatch: Literal["raise"] | Callable[..., OnMismatch] = "raise",
        **options: Unpack[EventOptions],
    ) -> Deduplicating[OnDuplicate | OnNotGranted | OnBadKey | OnMismatch]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["raise"],
        on_not_granted: Literal["raise"] | Callable[..., OnNotGranted] = "raise",
        on_bad_key: Literal["raise"] | Callable[..., OnBadKey] = "raise",
        on_mismatch: Literal["raise"] | Callable[..., OnMismatch] = "raise",
        **options: Unpack[EventOptions],
    ) -> Deduplicating[OnNotGranted | OnBadKey | OnMismatch]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["raise"] | Callable[..., OnDuplicate],
        on_not_granted: Literal["skip"],
        on_bad_key: Literal["raise"] | Callable[..., OnBadKey] = "raise",
        on_mismatch: Literal["raise"] | Callable[..., OnMismatch] = "raise",
        **options: Unpack[EventOptions],
    ) -> Deduplicating[OnDuplicate | OnBadKey | OnMismatch | None]: ...

    @overload
    def deduplicate(
        key: Key | None = None,
        *,
        on_duplicate: Literal["return"] = "return",
        on_not_granted: Literal["raise", "skip"] | Callable[..., OnNotGranted] = "raise",
        on_bad_key: Literal["raise"] | Callable[..., OnBadKey] = "raise",
        on_mismatch: Literal["raise"] | Callable[..., OnMismatch] = "raise",
        **options: Unpack[EventOptions],
    ) -> Deduplicating[OnNotGranted | OnBadKey | OnMismatch | None]: ...


def deduplicate(
    key: Key | None = None,
    *,
    key_jmespath: str | None = None,
    client: LockClient | AsyncLockClient | None = None,
    wait: float | None = 0,
    on_not_granted: Any = "raise",
    on_unavailable: Literal["raise", "run"] = "raise",
    on_bad_key: Any = "raise",
    on_mismatch: Any = "raise",
    window: float | Callable[[Any], float] = DAY,
    done_if: Callable[[Any], bool] | None = None,
    scope: str | None = None,
    result: Any = None,
    validate: Sequence[str] | None = None,
    cache_size: int = 0,
    on_duplicate: Any = "return",
    **options: Unpack[DecoratorOptions],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the decorated function once for each event: not while it runs elsewhere, and not again once it is done.

    A new event costs two requests, a duplicate one. The arguments that are not listed here are those of with_lock.

    key: what two deliveries of one event have in common. A template (``"{messageId}"`` for a record of SQS, ``"{id}"``
        for EventBridge), a function of the call's own arguments, or payload_hash().
    wait: seconds to wait while the event is in progress elsewhere. 0: raise LockNotGrantedError at once, so that the
        source delivers it again. None: as for with_lock.
    on_bad_key: what the call does if its arguments give no key, such as a header that is missing. "raise": raise the
        KeyTemplateError. A function: return what it returns for the call's own arguments and ``error=``.
    on_mismatch: the same for an event that is done with another payload (see validate) and its PayloadMismatchError.
    window: seconds for which an event counts as done, from its completion on, 1 second to 10 years, rounded up. Make it
        longer than the source may keep delivering the event: an SQS queue keeps a message for up to 14 days. A plain
        function of the result gives the seconds for this result.
    done_if: a plain function of the result that returns True if the event is done, else False. If not, the lock is
        released, the result is returned, and the next delivery runs again. commit() always completes. None: it is done.
    scope: a prefix of the stored key, so that two functions that consume one event do not suppress each other. None:
        the Lambda function's name, and this function's module and name (of a partial, those of its function; of an
        object, those of its class), and ``@`` and the tenant's id for a function with tenant isolation. Before these is
        LAMBDA_LOCK_SCOPE, if that is set: the stage, where several share a table. "": no prefix.
        The key is shared with everything else that uses it.
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

    A result is loaded once when it is stored. If it cannot be written as JSON, is too large, has an iterator in it, or
    would not come back as it was, it is not stored: a warning says so, and duplicates get None.
    If ``window`` or ``done_if`` raises, or gives no number of seconds or neither True nor False, a warning says so, and
    the event is done (for a day, if ``window`` failed).

    The decorated function has a method ``forget``: ``handler.forget(event, context)`` forgets an event that is done,
    for its next delivery to run. It takes the function's arguments and ``wait=``, as `LockClient.forget`, and is
    awaited for an async def function.

    Decorating raises what with_lock raises, LockArgumentError for a window, scope or cache_size out of range, and
    TypeError for a result of a type that cannot be stored, and for a window or done_if that is not a plain function of
    the result. A call raises what with_lock raises; PayloadMismatchError if the event is done with another payload;
    LockFormatError if a stored result cannot be read; TypeError, and the event is not done, if the function returns
    what has not run yet: an awaitable, a generator, ``map`` and the like, or a Future that is not done.

    Example::

        @deduplicate("{id}", result="json")
        def handler(event, context): ...
    """
    asked = checked(EVENT, {"wait": wait, **options}, own=deduplicate.__kwdefaults__)
    refuse_bare(key, deduplicate)
    check_answer("on_not_granted", on_not_granted, ("raise", "skip"))
    check_answer("on_duplicate", on_duplicate, ("return", "raise"))
    check_answer("on_bad_key", on_bad_key, ("raise",))
    check_answer("on_mismatch", on_mismatch, ("raise",))
    serializer, fields, as_written, is_done, window_of = None, None, None, None, None
    if result is not None or done_if is not None or callable(window):
        from . import returned

        serializer = returned.serializer_of(result)
        window_of = None if not callable(window) else returned.judged("window", window, _whole, int(DAY))
        is_done = None if done_if is None else returned.judged("done_if", done_if, returned.yes_or_no, True)
    if validate is not None:
        named = () if isinstance(validate, str) or not hasattr(validate, "__iter__") else tuple(validate)
        if not named:
            raise TypeError(f"validate= takes a list of fields, as in validate=['detail[amount]'], got {validate!r}")
        from ..keys.payload_hash import PayloadHash, payload_hash

        payload_hash(*named)  # raises for what is not a path
        fields = PayloadHash(named, may_be_empty=True)
        as_written = PayloadHash(named, may_be_empty=True, as_written=True)
    checks.whole("cache_size", cache_size, least=0)
    seconds = int(DAY) if callable(window) else _whole(window)
    if scope is not None and scope != "":
        checks.key_text("scope", scope)

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        check_decorated(func, "deduplicate", client, on_not_granted, on_unavailable)
        if is_done is None:
            check_no_batch(func, "deduplicate", "count a batch as done in which records failed", "dedup_key=")
        check_answer_of(func, "on_duplicate", on_duplicate)
        check_answer_of(func, "on_bad_key", on_bad_key)
        check_answer_of(func, "on_mismatch", on_mismatch)
        known = None
        if cache_size:
            from .completed import Completed

            known = Completed(cache_size)

        terms = terms_of(asked, settings_of(client))
        sort_key, reentrant = asked.get("sort_key"), asked.get("reentrant", False)

        def acquire_event(call: Call) -> Any:
            client, key = call.client, call.key
            session = client.__session__
            duplicate = None if known is None else known.find(session, key)
            if duplicate is not None:
                session.check_open()
                tell_refused(session, duplicate, session.settings.place(key, sort_key), None, cancelled=False)
                raise duplicate
            taking: Any = entered_before(session, key, sort_key, None, event=True) if reentrant else None
            if taking is None:
                taking = Taking(session, wanted(session, terms(session.settings), key, seconds))
            return client.__runner__.run(taking)

        guard = _EventGuard(
            _CURRENT,
            func,
            client,
            scoped_keys(func, scope, compile_key(func, key, key_jmespath)),
            acquire_event,
            lease_duration=asked.get("lease_duration"),
            reentrant=reentrant,
            sort_key=sort_key,
            on_not_granted=on_not_granted,
            on_unavailable=on_unavailable,
        )
        guard.on_duplicate, guard.on_mismatch = on_duplicate, on_mismatch
        guard.stores_result = result is not None
        guard.serializer = returned.serializer_for(func) if result == "json" else serializer
        guard.payload = None if fields is None else compile_key(func, fields, None)
        if as_written is not None:
            guard.payload_as_written = compile_key(func, as_written, None)
        if fields is not None or guard.serializer is not None:
            from .versions import Versions

            guard.versions = Versions(func, fields, guard.serializer)
        guard.known = known
        guard.is_done = is_done
        guard.window_of = window_of
        if on_bad_key != "raise":
            guard.bad_key, guard.on_bad_key = (KeyTemplateError,), on_bad_key
        prepare(client, func)
        decorated: Any = guard.wrapped()
        decorated.forget = guard.forget
        return decorated  # type: ignore[no-any-return]

    return decorate


class _EventGuard(Guard):
    is_event = True
    known: Completed | None
    on_bad_key: Any
    on_duplicate: Any
    on_mismatch: Any
    payload: KeyBuilder | None
    payload_as_written: KeyBuilder
    serializer: Any
    stores_result: bool
    is_done: Callable[[object], bool] | None
    window_of: Callable[[object], int] | None
    versions: Versions | None = None
    returns: bool | None = None  # True: it has returned a result, and no warning has said that duplicates get None

    def prepare(self, call: Call) -> Any:
        if self.known is not None:
            call.forgets = self.known.forgets
        lock = super().prepare(call)
        if lock is None and (self.payload is not None or self.serializer is not None or self.window_of is not None):
            payload = None if self.payload is None else self.payload(call.args, call.kwargs)
            made = None if self.versions is None else self.versions.made
            call.storing = Storing(self.serializer, payload, self.window_of, made)
        return lock

    def answered(self, call: Call, error: LockError) -> Any:
        if isinstance(error, KeyTemplateError):
            return self.on_bad_key(*call.args, **call.kwargs, error=error)
        if not isinstance(error, DuplicateEventError):
            return super().answered(call, error)
        if self.known is not None:
            self.known.learn(call.client.__session__, error, call.forgets)
        payload, (_, stored, made) = call.storing and call.storing.payload, result_parts(error.result)
        if made and self.versions is not None and self.versions.have_other_fields(error, made, stored):
            payload = None  # of other fields
        # An event stored without validate= has none. Version 0.2.0 stored one of each JSON text as it was written.
        if payload is not None and stored not in (None, payload, self.payload_as_written(call.args, call.kwargs)):
            from .returned import mismatched

            mismatch = mismatched(error, self.func)
            if self.on_mismatch == "raise":
                raise mismatch from None
            return self.on_mismatch(*call.args, **call.kwargs, error=mismatch)
        stored_result = None
        if self.stores_result:
            from .returned import loaded

            stored_result = loaded(error, self.serializer)
        error.give(stored_result)
        if self.on_duplicate == "raise":
            raise error
        if self.on_duplicate != "return":
            return self.on_duplicate(*call.args, **call.kwargs, error=error)
        if self.returns and not self.stores_result:
            self.returns = False
            message = "%s() returns something, but duplicates are given None: pass result='json', or on_duplicate="
            package.tell("result_missing", message, name_of(self.func), key=error.key)
        return error.result

    def call_end(self, call: Call, lock: Any, result: object) -> CallEnd:
        if not call.targets:
            return lock.release, NOT_RELEASED, lambda _: None
        held = lock.__held__
        if held.ended:  # by the function itself: by a commit that completed the event, or in another way
            message = (
                "%s() returned, but did not complete event %r: it released it, or its commit was refused or had no "
                "clear answer. Its next delivery runs, unless that commit went through"
            )
            if not held.hold.completed:
                package.tell("not_completed", message, name_of(self.func), lock.key, key=lock.key, owner=lock.owner)
            return lock.release, NOT_RELEASED, lambda _: None
        if self.returns is None and result is not None:
            self.returns = True
        if self.is_done is not None and not self.is_done(result):
            return lock.release, NOT_RELEASED, lambda kept: None if kept else self.tell_lost(lock)
        held.count_for(result)
        text, known, forgets = self.text(lock, result), self.known, call.forgets
        since = 0.0 if known is None else held.elapsed()

        def completed(kept: bool) -> None:
            if not kept:
                self.tell_lost(lock)
            elif known is not None:
                known.completed(held, text, since, forgets)

        return (
            lambda: lock.__runner__.run(held.release(complete=True, result=text)),
            _NOT_COMPLETED,
            completed,
        )

    def text(self, lock: Any, result: object) -> str | None:
        """The text to store: of the result, and of the payload's hash. None if there is neither."""
        held: HeldLock = lock.__held__
        if not self.stores_result:
            return held.checked_result(None)
        from .returned import stored_text

        return stored_text(held, result, as_json=self.serializer is None)

    def forget(self, *args: Any, wait: float | None = 0, if_result: object = ..., **kwargs: Any) -> Any:
        """Forget the event of a call with these arguments, as `LockClient.forget`; awaited for an async def function.

        wait: seconds to wait while the event is in progress, as for `LockClient.forget`. It is never an argument of the
            function's own, which is passed by position.
        if_result: forget only while this is the stored result, as a call returned it. Otherwise that is False, at once.

        The function's cache (``cache_size``) in this environment forgets it, too.

        Returns and raises what `LockClient.forget` does, KeyTemplateError if the arguments give no key, and TypeError
        for arguments that the function does not take. Those that its key does not need may be left out.

        Example: ``handler.forget(event, context, wait=10)``
        """
        check_object(self.func, args)
        Parameters(self.func, follow_wrapped=False).check_known(args, kwargs, name_of(self.func))
        call = Call(self.func, args, kwargs)
        token = invocation.enter(call.invocation)
        try:
            key = self.build_key(args, kwargs)
        finally:
            invocation.leave(token)
        client: Any = self.client or (default_async_client() if self.is_async else default_client())
        found = call.invocation  # without a deadline it may be an earlier one, which is not to be read anew
        context = None if found is None or found.deadline is None else found.context
        meant = {}
        if if_result is not ...:
            if not self.stores_result:
                raise TypeError(
                    f"if_result= needs a stored result: pass result= to @deduplicate of {name_of(self.func)}"
                )
            from .returned import as_stored

            meant["if_result"] = as_stored(if_result) if self.serializer is None else self.serializer.dump(if_result)
        ask = partial(client.forget, key, sort_key=self.sort_key, wait=wait, context=context, **meant)
        return ask() if self.known is None else self.known.forgetting(key, ask)

    def tell_lost(self, lock: Any) -> None:
        message = (
            "%s() finished, but event %r was lost meanwhile: it may have run twice. Use current_dedup().commit() for "
            "what must happen once"
        )
        package.tell("finished_lost", message, name_of(self.func), lock.key, key=lock.key, owner=lock.owner)


def _whole(window: object) -> int:
    """The seconds of a window, rounded up. Raises LockArgumentError or TypeError."""
    return int(-(-checks.seconds("window", window, least=1.0, most=_TEN_YEARS) // 1))
