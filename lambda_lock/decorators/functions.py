"""Which functions, clients and answers a decorator takes. Everything else is a TypeError when decorating."""

from __future__ import annotations

import functools  # the Lambda runtime has these loaded
import sys
from itertools import accumulate, dropwhile, filterfalse, groupby, starmap, takewhile

from ..keys.parameters import Parameters, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_GENERATOR, _COROUTINE = 0x20 | 0x200, 0x80 | 0x100  # flags of a code object, with those of async and old ones
_DURABLE_EXECUTION = "aws_durable_execution_sdk_python.execution"  # the module of its decorator
_DURABLE_CONTEXT = "aws_durable_execution_sdk_python.context"  # the module of durable_step and its like
_PREPARED = "_original_name"  # what that module sets on a prepared step
_MOST_DECORATORS = 50  # on one function: a bound, in case its __wrapped__ chain is a circle
_OF_CONTEXTLIB = ("contextmanager.<locals>.helper", "asynccontextmanager.<locals>.helper")  # they make generators too
_OPTIMIZED = 0x01  # a function's code, not a module's or class body's
#: Iterators that call a function for each element, when they are read.
_LAZY = (map, filter, accumulate, dropwhile, filterfalse, groupby, starmap, takewhile)


def check_decorated(
    func: Callable[..., Any], decorator: str, client: object, on_not_granted: object, on_unavailable: object
) -> None:
    """Raise TypeError for a function that cannot be decorated, and for options that do not fit it."""
    if on_unavailable not in ("raise", "run"):
        raise TypeError(f"on_unavailable= must be 'raise' or 'run', got {on_unavailable!r}")
    check_function(func, decorator)
    if client is not None and is_async(acquire_of(client)) != is_async(func):
        needed = "an AsyncLockClient" if is_async(func) else "a LockClient"
        raise TypeError(f"client= has the type {type(client).__name__}, but {name_of(func)}() needs {needed}")
    check_answer_of(func, "on_not_granted", on_not_granted)


def acquire_of(client: object) -> object:
    """The client's method ``acquire``. Raises TypeError for an object that is not a client."""
    if isinstance(client, type):
        raise TypeError(f"client= is the class {client.__name__}, not a client: write {client.__name__}(...)")
    acquire = getattr(client, "acquire", None)
    if not callable(acquire):
        raise TypeError(f"client= must be a LockClient or an AsyncLockClient, got {type(client).__name__}")
    return acquire


def check_function(func: object, decorator: str) -> None:
    """Raise TypeError for what cannot run within a lock: no function, or one whose body would run after the release."""
    if isinstance(func, (classmethod, staticmethod)):
        raise TypeError(f"write @{decorator}(...) below @{type(func).__name__}, so that it decorates the function")
    if _is_task_of_celery(func):
        raise TypeError(
            f"@{decorator} cannot decorate a task of Celery: its delay() and its other methods would be lost. Write "
            f"@{decorator} below the decorator that makes the task"
        )
    if isinstance(func, type) or not callable(func):
        raise TypeError(
            f"@{decorator} decorates functions and methods, not {type(func).__name__}; "
            f"is it written with its key, as in @{decorator}('order-{{id}}')?"
        )
    is_rate = decorator == "rate_limit"
    later = "where the limit does not see it" if is_rate else "after the lock's release"
    sdk = _durable_module(func)
    if sdk == _DURABLE_EXECUTION:
        raise TypeError(
            f"@{decorator} cannot decorate {name_of(func)}, a durable execution: its event would be the service's, not "
            + (
                "yours, and each replay would be a start. Remove it, and decorate a function that runs inside one step"
                if is_rate
                else "yours, and the lock would be released at each suspension. Remove it, and write `with "
                "durable_lock(context, key, lease_duration=...)` in the function (lambda_lock.durable)"
            )
        )
    if sdk == _DURABLE_CONTEXT:
        raise TypeError(
            f"@{decorator} cannot decorate {name_of(func)}: it only prepares a durable operation, whose function would "
            f"run {later}. For a step, write @{decorator} below the SDK's decorator. For a child context or a branch, "
            + (
                "decorate a function that runs inside one of its steps"
                if is_rate
                else "write `with durable_lock(context, key, lease_duration=...)` in it (lambda_lock.durable)"
            )
        )
    code = getattr(func, "__code__", None)
    if _flags(func) & _GENERATOR or getattr(code, "co_qualname", None) in _OF_CONTEXTLIB:
        raise TypeError(
            f"@{decorator} cannot decorate {name_of(func)}, a generator: its body would run {later}. Decorate the "
            "function that consumes it"
        )


def check_no_batch(func: object, decorator: str, harm: str, instead: str) -> None:
    """Raise TypeError for a handler made by sqs_batch or kafka_batch. harm: what the decorator would do above it.

    instead: the option of the batch that does what is wanted.
    """
    for layer in _layers(func):
        batch = getattr(layer, "lambda_lock_batch", None)
        if isinstance(batch, str):  # a mock has every attribute
            raise TypeError(
                f"@{decorator} above @{batch} would {harm}: write it below @{batch}, or pass {instead} to {batch}"
            )


def check_answer(name: str, answer: object, words: tuple[str, ...]) -> None:
    """Raise TypeError if on_not_granted= or on_duplicate= (``name``) is neither one of ``words`` nor a function."""
    if not callable(answer) and answer not in words:
        raise TypeError(f"{name}= must be {', '.join(map(repr, words))} or a function, got {answer!r}")


def check_answer_of(func: Callable[..., Any], name: str, answer: object) -> None:
    """Raise TypeError if an answer (``name``: on_not_granted, on_duplicate) does not fit the calls of ``func``."""
    if not callable(answer):
        return
    taken = Parameters(func)
    if "error" in taken.names or "error" in taken.hidden:
        raise TypeError(
            f"the function has a parameter named error, but {name}= gets an argument of that name: rename it"
        )
    if is_async(answer) and not is_async(func):
        raise TypeError(f"{name}= must be a plain function here, because nothing would await an async def function")
    # A function that wraps another may pass on more than it is given. Only its own parameters count.
    given = Parameters(func, follow_wrapped=False)
    if not Parameters(answer, follow_wrapped=False).take_calls_of(given, "error"):
        raise TypeError(
            f"{name}= is called with the arguments of {name_of(func)}() and error=, which {name_of(answer)}() cannot "
            f"take: give it the parameters of {name_of(func)}(), and error"
        )


def check_called(func: Callable[..., Any], name: str, given: Callable[..., Any]) -> None:
    """Raise TypeError if an option (``name``) is a function that cannot be called with the arguments of ``func``."""
    taken = Parameters(func, follow_wrapped=False)
    is_plain = not is_async(given) and not _flags(given) & _GENERATOR
    if not is_plain or not Parameters(given, follow_wrapped=False).take_calls_of(taken):
        raise TypeError(
            f"{name}= is called with the arguments of {name_of(func)}(), and what it returns is used at once: give "
            f"{name_of(given)}() the same parameters, as a plain function"
        )


def check_object(func: object, args: tuple[Any, ...]) -> None:
    """Raise TypeError if ``func`` is a method, and the arguments of its forget do not begin with its object.

    An object is known by a method of this name, or by an attribute of its class that wraps ``func``.
    """
    inner, name = undecorated(func), name_of(func)
    first = () if hasattr(inner, "__self__") else getattr(getattr(inner, "__code__", None), "co_varnames", ())[:1]
    if not args or first not in (("self",), ("cls",)) or hasattr(args[0], name.rpartition(".")[2]):
        return
    kind = args[0] if isinstance(args[0], type) else type(args[0])
    if any(layer is func for base in kind.__mro__ for value in vars(base).values() for layer in _layers(value)):
        return
    raise TypeError(
        f"forget does not know the object of a method: write {name}.forget(object, ...), with the object first. A "
        "function of its own, which the method calls, needs none"
    )


def check_result(result: object, func: Callable[..., Any], decorator: str, *, is_event: bool = False) -> None:
    """Raise TypeError if a function returned what has not run yet.

    For a lock these are awaitables: their bodies would run after its release. For an event, which would count as done
    without them, also generators, ``map`` and the like, context managers made of generators, and a Future that is not
    done. The error of a Future that is done is raised.
    """
    is_awaitable = hasattr(type(result), "__await__")
    if not is_awaitable and not (is_event and _has_not_run(result)):
        return
    close = getattr(result, "close", None) if is_awaitable else None
    if close is not None:
        close()  # its body has not begun; without this, Python warns that nothing awaited it
    when = "has not run yet: the event would count as done" if is_event else "would run after the lock's release"
    raise TypeError(
        f"{name_of(func)} returned {type(result).__name__}, which {when}. {decorator} takes functions that do their "
        "work before they return: await it, read it into a list, or wait for its result"
    )


def _has_not_run(result: Any) -> bool:
    kind = type(result)
    if kind in _LAZY or hasattr(kind, "throw") or hasattr(kind, "athrow"):  # a generator, an async one
        return True
    if kind.__module__ == "contextlib" and hasattr(result, "gen"):
        return True
    if not callable(getattr(kind, "done", None)) or not callable(getattr(kind, "result", None)):
        return False
    if not result.done():
        return True
    result.result()  # the work has run: its error is the function's
    return False


def is_async(func: object) -> bool:
    """Whether ``func`` is known to be a coroutine function."""
    return bool(_flags(func) & _COROUTINE) or getattr(func, "is_awaited", False) is True


def refuse_bare(key: object, decorator: Any) -> None:
    """Raise TypeError if ``decorator`` was written without parentheses, so that ``key`` is the decorated function.

    A function that is being decorated was defined in the calling scope, but is not bound to its name there yet. A
    function that makes keys is bound, or it is a lambda, or it comes from elsewhere. Only the decorator itself may call
    this.
    """
    if not isinstance(key, (classmethod, staticmethod, type)):
        name = getattr(key, "__name__", "<lambda>")
        if not callable(key) or name == "<lambda>":
            return
        frame = sys._getframe(2)
        if getattr(key, "__module__", None) != frame.f_globals.get("__name__"):
            return
        scope = "" if frame.f_code.co_name == "<module>" else frame.f_code.co_qualname + "."
        if frame.f_code.co_flags & _OPTIMIZED:
            scope += "<locals>."
        if getattr(key, "__qualname__", None) != scope + name or frame.f_locals.get(name) is key:
            return
    raise TypeError(
        f"@{decorator.__name__} needs a key: write @{decorator.__name__}('order-{{id}}'), "
        "where id is a parameter of the function or a field of its event"
    )


def undecorated(func: Any) -> Any:
    """What the user wrote: the function, or an object, under other decorators and partial functions."""
    for layer in _layers(func):
        func = layer
    return func


def _is_task_of_celery(func: object) -> bool:
    """Whether ``func`` is a task, or stands for one that is made later. Of neither is anything read but its type."""
    return any(str(kind.__module__).partition(".")[0] == "celery" for kind in type(func).__mro__)


def _layers(func: Any) -> Iterator[Any]:
    """A function, and what its decorators and partial functions wrap, from the outside in."""
    for _ in range(_MOST_DECORATORS):
        yield func
        is_partial = isinstance(func, functools.partial)
        if not is_partial and not hasattr(func, "__wrapped__"):
            return
        func = func.func if is_partial else func.__wrapped__


def _durable_module(func: object) -> str:
    """The module of the SDK of durable functions whose decorator made ``func``, also below other decorators.

    Empty for every other function, and for a prepared step: calling that runs the step's function.
    """
    for layer in _layers(func):
        module = getattr(layer, "__globals__", {}).get("__name__")
        if module in (_DURABLE_EXECUTION, _DURABLE_CONTEXT) and not hasattr(layer, _PREPARED):
            return str(module)
    return ""


def _flags(func: object) -> int:
    while isinstance(func, functools.partial):
        func = func.func
    code = getattr(func, "__code__", None) or getattr(type(func).__call__, "__code__", None)
    return code.co_flags if code is not None else 0
