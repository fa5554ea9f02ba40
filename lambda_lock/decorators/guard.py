"""The decorated function: the client and key of each call, its lock, and what it returns without a grant.

Also what decorators take from their environment: the default client, and the switch that disables all locks.
"""

from __future__ import annotations

import os
from contextlib import suppress  # the Lambda runtime has it loaded
from contextvars import ContextVar  # a few lines over a built-in module
from functools import partial, wraps  # the Lambda runtime has it loaded
from types import MethodType  # functools has it loaded

from .. import errors
from ..client import checks
from ..client.base import session_in, settings_of
from ..client.lock_client import OURS, LockClient, all_under, under
from ..client.options import LOCK, Terms, checked, terms_of
from ..client.settings import SCOPE_VARIABLE
from ..core.outcome import expected, is_interrupt
from ..errors import LockError, TransportError
from ..keys.arguments import check_key, scoped
from ..keys.parameters import name_of
from ..observe.log import NOT_RELEASED
from ..observe.observer import package
from ..runtime import invocation
from .functions import acquire_of, check_result, is_async, undecorated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    from ..client.async_client import AsyncLockClient
    from ..client.event_results import Storing
    from ..core.requests import Place
    from ..keys.arguments import KeyBuilder
    from ..observe.observer import Observer

    #: What names a lock: its client, key and sort key.
    Target: TypeAlias = tuple[object, str, str | None]
    #: How the lock of a call ends: the function to call, the log's message if that raises, and a function that is then
    #: told whether the lock was held to the end.
    CallEnd: TypeAlias = tuple[Callable[[], Any], str, Callable[[bool], None]]

VARIABLE = "LAMBDA_LOCK_DISABLED"
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")
_REFUSED = (errors.LockNotGrantedError, errors.DuplicateEventError, errors.RateLimitedError)

# "client": as set, or made at its first use. "async client": as set. "async over": made over "client", and dropped with
# it. No lock guards this: setdefault is atomic, and building a client twice does no harm.
_default: dict[str, Any] = {}

_KINDS: list[CurrentLocks] = []  # `refuse_again` asks all kinds: with scope="", an event and a lock may share a row


class CurrentLocks:
    """The locks that the current call and the calls around it hold by one kind of decorator.

    entries: each lock with its targets, the innermost last. A stand-in has no target.
    """

    __slots__ = ("decorator", "entries")

    def __init__(self, decorator: str) -> None:
        self.decorator = decorator
        self.entries: ContextVar[tuple[tuple[tuple[Target, ...], Any], ...]] = ContextVar(
            f"lambda_lock_{decorator}", default=()
        )
        _KINDS.append(self)

    def innermost(self, kind: type[Any] | None) -> Any:
        """The innermost lock. Raises TypeError if it is not of ``kind``. A stand-in is of every kind."""
        entries = self.entries.get()
        if not entries:
            where = "this thread or task: pass its lock to threads that it starts, or run them in a copy of its context"
            raise LookupError(f"no @{self.decorator} function is running in {where} (contextvars.copy_context)")
        targets, lock = entries[-1]
        if kind is not None and targets and not isinstance(lock, kind):
            raise TypeError(
                f"the innermost lock is of type {type(lock).__name__}, not {kind.__name__}: ask for its own type"
            )
        return lock


def refuse_again(targets: tuple[Target, ...]) -> None:
    """Raise LockConfigurationError if this very call holds one of ``targets``: it would wait for itself.

    This is not contention, so it is not a LockNotGrantedError: trying again would not help.
    """
    for kind in _KINDS:
        for held, lock in kind.entries.get():
            for target in targets:
                if target in held and _holds(lock, target[1]):
                    raise errors.LockConfigurationError(
                        f"this call holds the lock {target[1]!r} already, by an outer @{kind.decorator}, and would "
                        "wait for itself: give the inner one another key or, if it has no list of keys, reentrant=True",
                        key=target[1],
                    )


def _holds(lock: Any, key: str) -> bool:
    """Whether the lock of this key is held. Of several, one may be lost while the others are still renewed."""
    if not hasattr(lock, "keys"):
        return bool(lock.is_held)
    return bool(lock.__held__.holds(key))


class Call:
    """One call of a decorated function.

    key: the lock's key, or a tuple of several. targets: its locks; empty if it runs without them.
    storing: how the result of an event is stored; None: as plain JSON, or not at all. forgets:
    `Completed.forgets` when the call began; None without a cache.
    """

    __slots__ = ("args", "client", "forgets", "invocation", "key", "kwargs", "storing", "targets")

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        if isinstance(func, partial):  # it may have bound the context
            args, kwargs = (*args, *func.args), func.keywords | kwargs
        self.invocation = invocation.find(args, kwargs)
        self.client: Any = None
        self.key: Any = None
        self.targets: tuple[Target, ...] = ()
        self.storing: Storing | None = None
        self.forgets: object = None


class Guard:
    """What with_lock, deduplicate and rate_limit share. They differ in how the lock is acquired, and in how it ends
    after the function returned.

    build_key: gives a call's key or keys. acquire: gives the lock of a call, from an async client an awaitable.
    on_not_granted: "raise", "skip", or a function of the call's own arguments and ``error=``.
    bad_key: the errors about a key for which `answered` gives the call's result. All others are raised.
    is_event: whether a result says that an event is done.
    """

    bad_key: tuple[type[LockError], ...] = ()
    is_event = False

    def __init__(
        self,
        current: CurrentLocks,
        func: Callable[..., Any],
        client: Any,
        build_key: Callable[[tuple[Any, ...], dict[str, Any]], Any],
        acquire: Callable[[Call], Any],
        *,
        lease_duration: float | None = None,
        permits: int | None = None,
        reentrant: bool = True,
        sort_key: str | None,
        on_not_granted: Any,
        on_unavailable: str,
    ) -> None:
        self.current = current
        self.func = func
        self.is_async = is_async(func)
        self.client = client
        self.build_key = build_key
        self.acquire = acquire
        self.lease_duration = lease_duration
        self.permits = permits
        self.reentrant = reentrant
        self.sort_key = sort_key
        self.on_not_granted = on_not_granted
        self.on_unavailable = on_unavailable

    def wrapped(self) -> Callable[..., Any]:
        """The decorated function."""
        return self._awaited() if self.is_async else self._plain()

    def _plain(self) -> Callable[..., Any]:
        func, entries, name = self.func, self.current.entries, f"@{self.current.decorator}"

        @wraps(func)
        def locked(*args: Any, **kwargs: Any) -> Any:
            call = Call(func, args, kwargs)
            token = invocation.enter(call.invocation)
            try:
                try:
                    lock = self.prepare(call)
                except self.bad_key as error:
                    return self.answered(call, error)
                if lock is None:
                    try:
                        lock = self.acquire(call)
                    except _REFUSED as error:
                        return self.answered(call, error)
                    except TransportError as error:
                        lock = self.unlocked(call, error)
                if call.storing is not None:
                    lock.__held__.store_by(call.storing)
                end: CallEnd = lock.release, NOT_RELEASED, lambda _: None  # if the function raises
                entered = entries.set((*entries.get(), (call.targets, lock)))
                try:
                    result = func(*args, **kwargs)
                    check_result(result, func, name, is_event=self.is_event)
                    end = self.call_end(call, lock, result)
                    return result
                finally:
                    entries.reset(entered)
                    act, failure, told = end
                    try:
                        kept = act()
                    except expected(Exception) as error:
                        kept = _not_ended(lock, error, failure)
                    told(kept)
            finally:
                invocation.leave(token)

        return locked

    def _awaited(self) -> Callable[..., Any]:
        """`_plain` for an async def function: the same steps, awaited."""
        func, entries, name = self.func, self.current.entries, f"@{self.current.decorator}"

        @wraps(func)
        async def locked_async(*args: Any, **kwargs: Any) -> Any:
            call = Call(func, args, kwargs)
            token = invocation.enter(call.invocation)
            try:
                try:
                    lock = self.prepare(call)
                except self.bad_key as error:
                    answer = self.answered(call, error)
                    return await answer if hasattr(answer, "__await__") else answer
                if lock is None:
                    try:
                        lock = await self.acquire(call)
                    except _REFUSED as error:
                        answer = self.answered(call, error)
                        return await answer if hasattr(answer, "__await__") else answer
                    except TransportError as error:
                        lock = self.unlocked(call, error)
                if call.storing is not None:
                    lock.__held__.store_by(call.storing)
                end: CallEnd = lock.release, NOT_RELEASED, lambda _: None
                entered = entries.set((*entries.get(), (call.targets, lock)))
                try:
                    result = await func(*args, **kwargs)
                    if self.is_event:
                        check_result(result, func, name, is_event=True)
                    end = self.call_end(call, lock, result)
                    return result
                finally:
                    entries.reset(entered)
                    act, failure, told = end
                    try:
                        kept = await act()
                    except expected(Exception) as error:
                        kept = _not_ended(lock, error, failure)
                    told(kept)
            finally:
                invocation.leave(token)

        return locked_async

    def prepare(self, call: Call) -> Any:
        """Find the client and the key of a call. Returns the stand-in for its lock while locks are disabled, else None.

        Raises KeyTemplateError if no key can be built, and LockConfigurationError if this very call holds the lock.
        """
        call.client = self.client or (default_async_client() if self.is_async else default_client())
        if disabled():
            try:
                call.key = self.build_key(call.args, call.kwargs)
            except (errors.KeyTemplateError, errors.LockArgumentError) as error:  # nothing may keep a call from running
                call.key = f"(no key: {error})"
            lock = self.stand_in(call, f"{VARIABLE} is set")
            message, (observer, place) = "%s is set: the call runs without its lock %r", self.observer(call)
            observer.tell("disabled", message, VARIABLE, lock.key, place=place, key=lock.key)
            return lock
        call.key = key = self.build_key(call.args, call.kwargs)
        if isinstance(key, str):
            call.targets = ((call.client, key, self.sort_key),)
        else:
            call.targets = tuple([(call.client, one, self.sort_key) for one in key])
        if not self.reentrant:
            refuse_again(call.targets)
        return None

    def call_end(self, call: Call, lock: Any, result: object) -> CallEnd:
        """How the lock ends after the function returned ``result``. Sends nothing."""
        return lock.release, NOT_RELEASED, lambda _: None

    def answered(self, call: Call, error: LockError) -> Any:
        """What the call returns when its lock was not granted. Raises ``error`` if it is to be raised."""
        if self.on_not_granted == "raise" or getattr(error, "too_late", False) or is_interrupt(error):
            raise error
        return None if self.on_not_granted == "skip" else self.on_not_granted(*call.args, **call.kwargs, error=error)

    def unlocked(self, call: Call, error: TransportError) -> Any:
        """The stand-in for the lock in an outage. Raises ``error`` if DynamoDB answered, or as on_unavailable= says."""
        if self.on_unavailable == "raise" or error.answered or is_interrupt(error):
            raise error
        call.targets, call.storing = (), None
        text = call.key if isinstance(call.key, str) else ", ".join(call.key)
        message = 'the call runs without its lock %r, as on_unavailable="run" asks for: %s'
        observer, place = self.observer(call)
        observer.tell("unavailable", message, text, error, place=place, key=text)
        return self.stand_in(call, 'DynamoDB gave no answer, and on_unavailable="run"')

    def observer(self, call: Call) -> tuple[Observer, Place | None]:
        """Where a call tells that it runs without its lock, and the lock's place if the client knows its table."""
        session = session_in(call.client)
        if session is None:
            return package, None
        with suppress(errors.LockConfigurationError):  # while locks are disabled, nothing need be configured
            key = call.key if isinstance(call.key, str) else call.key[0]
            return session.observer, session.settings.place(key, self.sort_key)
        return session.observer, None

    def stand_in(self, call: Call, why: str) -> Any:
        """What the function finds as its lock while locks are disabled, or in an outage."""
        from .disabled import AsyncStandIn, StandIn

        return (AsyncStandIn if self.is_async else StandIn)(call, self, why)


def key_of(lock: Any) -> str:
    """The key of a lock, or the keys of several, for the log."""
    key: str | None = getattr(lock, "key", None)
    return ", ".join(lock.keys) if key is None else key


def _not_ended(lock: Any, error: Exception, failure: str) -> bool:
    """Log the error of a last act. It must not hide the call's result or error. Returns True: no loss is known."""
    # Not logged: the function has released its lock itself. An event that was released so runs again, which is logged.
    if failure != NOT_RELEASED or not isinstance(error, errors.LockAlreadyReleasedError):
        cause, key = None if isinstance(error, LockError) else error, key_of(lock)
        package.tell("release_failed", failure, key, error, cause=cause, key=key, owner=lock.owner)
    return True


def default_client() -> LockClient:
    """The client of decorators that were given none. The first call makes it, from LAMBDA_LOCK_TABLE.

    Raises nothing. If the table, the Region or the credentials are missing, the first acquire says so.

    Example: ``default_client().prewarm()``
    """
    client: LockClient | None = _default.get("client")
    return _default.setdefault("client", LockClient()) if client is None else client


def default_async_client() -> AsyncLockClient:
    """As default_client(), for async def functions. It has the settings and connections of that client."""
    client: AsyncLockClient | None = _default.get("async client") or _default.get("async over")
    if client is not None:
        return client
    from ..client.async_client import AsyncLockClient

    made: AsyncLockClient = _default.setdefault("async over", AsyncLockClient.over(default_client()))
    return made


def prepare(client: Any, func: object, *, permits: bool = False, several: bool = False) -> None:
    """In Lambda's INIT, load what the first lock of ``func`` will need. Elsewhere that lock loads it.

    client: the client that the decorator was given. None: the default client.
    permits: whether the lock is a permit of a semaphore. several: whether there are several locks.

    Raises nothing. What fails here fails again at the first lock, which raises it.
    """
    if not invocation.initializing():
        return
    with suppress(Exception):
        if permits:
            from ..core import permits as _permits  # noqa: F401
        if several:
            from ..client import multi_lock  # noqa: F401
        if several and is_async(func):
            from ..client import async_lock  # noqa: F401
        client = client or (default_async_client() if is_async(func) else default_client())
        if (session := session_in(client)) is not None:
            session.prepare()


def set_default_client(client: LockClient | AsyncLockClient | None) -> None:
    """Use ``client`` for decorators that were given none, from their next call on.

    client: None: a client made from the environment. A LockClient serves plain functions, and async def functions as
        well, unless an AsyncLockClient is set for these.

    Raises TypeError for an object that is not a lock client.

    Example: ``set_default_client(LockClient("locks", lease_duration=60))``
    """
    if client is None:
        _default.clear()
        return
    if is_async(acquire_of(client)):
        _default["async client"] = client
    else:
        _default["client"] = client
        _default.pop("async over", None)
    prepare(client, None)


def remember_default_clients() -> Callable[[], None]:
    """Return a function that restores the default clients of this moment."""
    before = dict(_default)

    def restore() -> None:
        _default.clear()
        _default.update(before)

    return restore


def disabled() -> bool:
    """Whether LAMBDA_LOCK_DISABLED is set, read at each call. Functions run unprotected then: the last resort.

    A value that means neither yes nor no counts as no, with a warning.
    """
    text = os.environ.get(VARIABLE, "")
    word = text.strip().lower()
    if word in _YES:
        return True
    if word not in _NO:
        message = "%s=%r is neither yes nor no, so locks stay on: write 1 to disable them, or remove it"
        package.tell("switch_unreadable", message, VARIABLE, text)
    return False


def locking(
    options: dict[str, Any],
    client: object,
    *,
    several: bool = False,
    take: Callable[..., int] | None = None,
) -> Callable[[Call], Any]:
    """What acquires the lock or locks of a call under ``options``, which were checked.

    client: the client that the decorator was given. The terms are made for it at once, so what does not fit its
        settings is an error when decorating. take: gives the option of this name, for a call's arguments.
    """
    terms, method = terms_of(options, settings_of(client)), "acquire_all" if several else "acquire"

    def acquire(call: Call) -> Any:
        acquire, asked = getattr(call.client, method), options
        if take is not None:
            count: Any = take(*call.args, **call.kwargs)
            try:
                # None is 1 that counts: who passes a function takes more in other calls (rule 10 of core/permits.py).
                asked = checked(LOCK, {**options, "take": 1 if count is None else count})
            except (errors.LockArgumentError, TypeError) as error:
                error.args = (f"{error}: the function of take= returned it for {call.key!r}",)
                if isinstance(error, errors.LockArgumentError):
                    error.key = call.key  # it concerns this call, not the decorator
                raise
        # A client of another kind, or one whose calls are traced: what wraps a method may pass on its attributes.
        if type(acquire) is not MethodType or acquire.__func__ not in OURS:
            return acquire(call.key, **asked)
        client: Any = acquire.__self__  # `call.client` may be a wrapper that passes this method on
        session = client.__session__
        begin = all_under if several else under
        of_call = terms(session.settings) if take is None else Terms(session.settings, asked, call.key)
        return client.__runner__.run(begin(session, of_call, call.key))

    return acquire


def scoped_keys(func: Any, scope: str | None, build_key: KeyBuilder) -> KeyBuilder:
    """The builder of the keys under which events are stored: with the scope before them.

    The default scope has the tenant: the results of one tenant are not for another. With another scope, a warning is
    logged once if nothing in the key names the tenant. Before the default scope is LAMBDA_LOCK_SCOPE, as a scope of
    its own: two stages on one table do not share what is done.
    """
    told: list[str] = []
    func = undecorated(func)
    made_by = f"the scope and key of {name_of(func)}()"

    def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        key, tenant = build_key(args, kwargs), invocation.tenant_id()
        if scope is None:
            names = (os.environ.get("AWS_LAMBDA_FUNCTION_NAME"), getattr(func, "__module__", None), name_of(func))
            default = ".".join(name for name in names if name)
            key = check_key(scoped(f"{default}@{tenant}" if tenant else default, key), made_by)
            stage = os.environ.get(SCOPE_VARIABLE)
            return check_key(scoped(checks.key_text(SCOPE_VARIABLE, stage), key), made_by) if stage else key
        if scope:  # "" shares the row with everything that uses the key
            key = check_key(scoped(scope, key), made_by)
        if tenant and not told and tenant not in key:
            told.append(tenant)
            message = (
                "%s() has a scope= of its own, and neither that nor its key names the tenant: a result is given to "
                "other tenants as well. Put {context[tenant_id]} into the key, or leave scope= out"
            )
            package.tell("tenant_not_named", message, name_of(func), key=key)
        return key

    return build
