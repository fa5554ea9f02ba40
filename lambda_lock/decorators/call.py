"""What all decorators share: which functions they take, their client, and the locks that the current call holds."""

from __future__ import annotations

import functools  # the Lambda runtime has it loaded
import os
import sys
from contextvars import ContextVar  # a few lines over a built-in module

from ..client import LockClient
from ..errors import LockAlreadyReleasedError, LockConfigurationError
from ..keys.parameters import name_of
from ..log import NOT_RELEASED, logger, tell_not_released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Token
    from types import FrameType
    from typing import Any, TypeAlias, TypeVar

    from ..aio import AsyncLock, AsyncLockClient
    from ..lock import Lock

    T = TypeVar("T")
    #: Yields what is to be called, and is given what came of it: one flow for plain and async functions.
    Calls: TypeAlias = Generator[Callable[[], Any], Any, T]
    Resume: TypeAlias = Callable[[Any], Callable[[], Any]]

VARIABLE = "LAMBDA_LOCK_DISABLED"
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")
_GENERATOR, _COROUTINE = 0x20, 0x80 | 0x100  # flags of a code object, as inspect names them
_ASYNC_GENERATOR = 0x200
_OPTIMIZED = 0x01  # a function's code, not a module's or class body's

# "client": as set, or made at first use; "async client": as set; "async over": made over "client", and gone with it.
# No lock guards it: setdefault is atomic, and building a client does nothing that would matter if it were built twice.
_default: dict[str, Any] = {}


def default_client() -> LockClient:
    """The client of decorators that are given none; made at the first call, from LAMBDA_LOCK_TABLE.

    Raises nothing: what is missing (table, Region, credentials) is said at the first acquire.
    """
    client: LockClient | None = _default.get("client")
    return _default.setdefault("client", LockClient()) if client is None else client


def default_async_client() -> AsyncLockClient:
    """As default_client(), for async def functions; with the settings and the connections of that one."""
    client: AsyncLockClient | None = _default.get("async client") or _default.get("async over")
    if client is not None:
        return client
    from ..aio import AsyncLockClient

    made: AsyncLockClient = _default.setdefault("async over", AsyncLockClient.over(default_client()))
    return made


def set_default_client(client: LockClient | AsyncLockClient | None) -> None:
    """Use ``client`` for decorators that are given none, from their next call on; None: one made from the environment.

    A LockClient serves plain functions, and async def functions too unless an AsyncLockClient is set for these.
    Raises TypeError for what is no lock client.
    """
    if client is None:
        _default.clear()
    elif is_async(_acquire_of(client)):
        _default["async client"] = client
    else:
        _default["client"] = client
        _default.pop("async over", None)


def disabled() -> bool:
    """Whether the kill switch is on, read at each call: then functions run unprotected, for when nothing else helps.

    Text that is neither yes nor no is no, with a warning.
    """
    text = os.environ.get(VARIABLE, "")
    word = text.strip().lower()
    if word in _YES:
        return True
    if word not in _NO:
        logger.warning(
            "%s=%r is neither yes nor no, so locks stay on: write 1 to disable them, or remove it",
            VARIABLE,
            text,
            extra={"lock_event": "switch_unreadable"},
        )
    return False


def check_client(client: object, func: object) -> None:
    """Raise TypeError where ``client`` is not the kind of client that ``func`` needs."""
    if is_async(_acquire_of(client)) == is_async(func):
        return
    given, needed = type(client).__name__, "an AsyncLockClient" if is_async(func) else "a LockClient"
    raise TypeError(f"client= is a {given}, but {name_of(func)}() needs {needed}")


def _acquire_of(client: object) -> object:
    if isinstance(client, type):
        raise TypeError(f"client= is the class {client.__name__}, not a client: write {client.__name__}(...)")
    acquire = getattr(client, "acquire", None)
    if not callable(acquire):
        raise TypeError(f"client= must be a LockClient or an AsyncLockClient, got {type(client).__name__}")
    return acquire


def check_function(func: object, decorator: str) -> None:
    """Raise TypeError for what cannot run within a lock: its body would run after the release, or it is no function."""
    if isinstance(func, (classmethod, staticmethod)):
        raise TypeError(f"write @{decorator}(...) below @{type(func).__name__}, so that it decorates the function")
    if isinstance(func, type) or not callable(func):
        raise TypeError(
            f"@{decorator} decorates functions and methods, not {type(func).__name__}; "
            f"is it written with its key, as in @{decorator}('order-{{id}}')?"
        )
    if _flags(func) & (_GENERATOR | _ASYNC_GENERATOR):
        raise TypeError(
            f"@{decorator} cannot decorate {name_of(func)}, a generator: its body would run after the lock's release. "
            "Decorate the function that consumes it"
        )


def check_answer(name: str, answer: object, words: tuple[str, ...]) -> None:
    """Raise TypeError for what on_not_granted= or on_duplicate= (``name``) cannot be."""
    if not callable(answer) and answer not in words:
        raise TypeError(f"{name}= must be {', '.join(map(repr, words))} or a function, got {answer!r}")


def is_async(func: object) -> bool:
    """Whether ``func`` is known to be a coroutine function."""
    return bool(_flags(func) & _COROUTINE)


def check_result(result: object, func: Callable[..., Any], decorator: str) -> None:
    """Raise TypeError if calling a plain function gave a coroutine: its body would run after the lock's release."""
    if not hasattr(type(result), "__await__"):
        return
    close = getattr(result, "close", None)
    if close is not None:
        close()  # it has not begun
    raise TypeError(
        f"{name_of(func)} returned {type(result).__name__}, which would run after the lock's release: "
        f"@{decorator} takes functions that do their work before they return"
    )


def refuse_bare(key: object, decorator: str) -> None:
    """Raise TypeError where the decorator was written without its parentheses, so that ``key`` is what it decorates.

    A function that is being decorated was defined in the calling scope but is not bound to its name there yet; a
    function that makes keys is bound, or a lambda, or from elsewhere. To be called by the decorator itself.
    """
    wrapped = isinstance(key, (classmethod, staticmethod, type))
    if wrapped or (callable(key) and _is_being_decorated(key, sys._getframe(2))):
        raise TypeError(
            f"@{decorator} needs a key: write @{decorator}('order-{{id}}'), "
            "where id is a parameter of the function or a field of its event"
        )


def _is_being_decorated(func: Callable[..., Any], frame: FrameType) -> bool:
    name, module = getattr(func, "__name__", "<lambda>"), getattr(func, "__module__", None)
    if name == "<lambda>" or module != frame.f_globals.get("__name__"):
        return False
    code = frame.f_code
    scope = "" if code.co_name == "<module>" else code.co_qualname + "."
    if code.co_flags & _OPTIMIZED:
        scope += "<locals>."
    return getattr(func, "__qualname__", None) == scope + name and frame.f_locals.get(name) is not func


def _flags(func: object) -> int:
    while isinstance(func, functools.partial):
        func = func.func
    code = getattr(func, "__code__", None) or getattr(type(func).__call__, "__code__", None)
    return code.co_flags if code is not None else 0


_KINDS: list[Holding] = []  # an event's row may be a lock's as well: scope=""


class Holding:
    """The locks that the current call, and the calls around it, hold by one kind of decorator; innermost last."""

    __slots__ = ("_entries", "decorator")

    def __init__(self, decorator: str) -> None:
        self.decorator = decorator
        _KINDS.append(self)
        self._entries: ContextVar[tuple[tuple[object, Lock], ...]] = ContextVar(f"lambda_lock_{decorator}", default=())

    def enter(self, place: object, lock: Lock) -> Token[Any]:
        """Make ``lock``, the one at ``place``, the innermost until leave() is called with what this returns.

        place: None for what stands in for a lock while locks are disabled.
        """
        return self._entries.set((*self._entries.get(), (place, lock)))

    def leave(self, token: Token[Any]) -> None:
        self._entries.reset(token)

    def innermost(self, kind: type[Any] | None) -> Any:
        """The innermost lock, checked to be of ``kind``; what stands in for a lock is of any."""
        entries = self._entries.get()
        if not entries:
            raise LookupError(f"no @{self.decorator} function is running in this thread or task")
        place, lock = entries[-1]
        if kind is not None and place is not None and not isinstance(lock, kind):
            raise TypeError(f"the innermost lock is a {type(lock).__name__}, not a {kind.__name__}")
        return lock

    def refuse_again(self, place: object, key: str) -> None:
        """Raise LockConfigurationError where this very call holds the lock at ``place``: it would wait for itself.

        Not contention, so no LockNotGrantedError: nobody else has the lock, and trying again would not help.
        """
        for kind in _KINDS:
            if any(held == place and lock.is_held for held, lock in kind._entries.get()):
                raise LockConfigurationError(
                    f"this call holds the lock {key!r} already, by an outer @{kind.decorator}, and would wait for "
                    "itself: give the inner one reentrant=True, or another key",
                    key=key,
                )


NOT_COMPLETED = "event %r may not be marked as done, and its next delivery may run again: %s"


def end_quietly(lock: Lock | AsyncLock, end: Callable[[], Any], failure: str = NOT_RELEASED) -> Calls[bool]:
    """Release, or complete, at the end of a call; False where the lock turns out to have been lost.

    What goes wrong is logged as ``failure``: it must not hide the call's result or error.
    """
    try:
        kept: bool = yield end
        return kept
    except LockAlreadyReleasedError:
        return True  # by the function itself
    except Exception as error:  # noqa: BLE001 - whatever it is, the call has to end as it did
        tell_not_released(logger, error, message=failure, key=lock.key, owner=lock.owner)
        return True


def run(calls: Calls[T], resume: Resume | None = None, value: Any = None) -> T:
    """Make the calls that ``calls`` yields, give it what they return or raise, and return what it returns.

    resume, value: how it goes on, for this function itself: after an error within the handler of that, so that what is
    called then (on_not_granted, a release) finds it as the error being handled.
    """
    resume = resume or calls.send
    try:
        while True:  # inside the try: an interrupt may come up between any two steps of this loop
            value = resume(value)()
            resume = calls.send
    except BaseException as error:
        if calls.gi_frame is None:  # type: ignore[attr-defined]  # they have ended
            if isinstance(error, StopIteration):
                result: T = error.value
                return result
            raise
        try:
            return run(calls, calls.throw, error)
        except RuntimeError as ended:
            if not isinstance(error, StopIteration) or ended.__cause__ is not error:
                raise
        raise  # the application's StopIteration: no generator can let it through (PEP 479)
    finally:
        del value  # an error's traceback has this frame


async def run_async(calls: Calls[T], resume: Resume | None = None, value: Any = None) -> T:
    """As run(), awaiting what can be awaited."""
    resume = resume or calls.send
    try:
        while True:
            value = resume(value)()
            if hasattr(value, "__await__"):
                value = await value
            resume = calls.send
    except BaseException as error:
        if calls.gi_frame is None:  # type: ignore[attr-defined]
            if isinstance(error, StopIteration):
                result: T = error.value
                return result
            raise
        return await run_async(calls, calls.throw, error)
    finally:
        del value
