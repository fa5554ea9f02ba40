"""The result of a decorated function: how it is stored for duplicates, and what window= and done_if= say of it.

Loaded for functions with ``result=``, ``done_if=`` or a function as ``window=``, and for a payload that differs.
"""

from __future__ import annotations

from ..client.event_results import decode_result
from ..errors import DuplicateEventError, LockArgumentError, LockFormatError, PayloadMismatchError
from ..keys.parameters import Parameters, name_of
from ..observe.observer import package
from .functions import is_async, undecorated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..client.held import HeldLock

    T = TypeVar("T")

#: Attributes of types that are not classes: ``list[Receipt]``, a NewType, an alias made by ``type``.
_OF_TYPES = ("__args__", "__supertype__", "__value__")
#: The names in return annotations of types that JSON represents as they are.
_PLAIN_NAMES = frozenset(
    {"Any", "None", "NoneType", "bool", "dict", "float", "int", "list", "object", "str", "typing.Any"}
)

_JSON = (list, str, int, float, type(None))
_MARK = "lambda_lock"  # kinds.MARK: the name that a result has which kinds has written


def judged(name: str, ask: Any, read: Callable[[Any], T], otherwise: T) -> Callable[[object], T]:
    """A function that returns ``read(ask(result))``. If that fails, it returns ``otherwise``: an error after the work
    would repeat the work. Raises TypeError if ``ask`` is not a plain function of the result. name: its parameter."""
    if not callable(ask) or is_async(ask) or not Parameters(ask, follow_wrapped=False).take(1):
        raise TypeError(f"{name}= must be a plain function that takes the result, and nothing else, got {ask!r}")

    def asked(result: object) -> T:
        try:
            answer = ask(result)
            if hasattr(type(answer), "__await__"):  # a lambda can return a coroutine, which would count as true
                getattr(answer, "close", bool)()
                raise TypeError(f"{name}= returned {type(answer).__name__}, which nothing awaits")
            return read(answer)
        except Exception as error:  # noqa: BLE001 - the application's
            message = "%s= gave no answer for a result, so its event counts as done, for a day if that is unknown: %r"
            package.tell("result_not_judged", message, name, error, cause=error)
            return otherwise

    return asked


def yes_or_no(answer: Any) -> bool:
    """The answer of done_if=, a bool or numpy's. Raises TypeError for any other: None would turn protection off."""
    found = answer.item() if type(answer).__module__ == "numpy" else answer
    if not isinstance(found, bool):
        raise TypeError(
            f"done_if= must return True or False, but returned {type(answer).__name__}: is a return missing?"
        )
    return found


def stored_text(held: HeldLock, result: object, as_json: bool) -> str | None:
    """The text of a result and of the payload's hash. Of a result that does not fit, a warning is logged instead.

    as_json: no serializer is known for it. Then a tuple or a web framework's response is stored as what it is.

    Raises TypeError for one that cannot be stored. Its duplicates would be answered wrongly.
    """
    if as_json:
        result = as_stored(result)
    try:
        return held.checked_result(result)
    except LockArgumentError as unfit:
        message = "a result is not stored, and duplicates of the event get None: %s"
        package.tell("result_not_stored", message, unfit, key=held.key, owner=held.hold.owner)
        return held.checked_result(None)


def as_stored(result: object) -> object:
    """A result as it is stored without a serializer. Raises TypeError for one that cannot be."""
    is_plain = isinstance(result, _JSON) or (isinstance(result, dict) and _MARK not in result)
    return result if is_plain else _marked(result)


def _marked(result: object) -> object:
    """What is stored for a tuple or a response, and for a dict that looks so, as `loaded` reads it."""
    from . import kinds

    if not kinds.is_web(result) and not isinstance(result, dict):
        return result
    try:
        return kinds.dump(result)
    except Exception as error:
        if isinstance(result, dict):
            return result  # it does not fit as it is, either
        raise TypeError(
            f"a result {kinds.why(error)}, so duplicates of the event could not be given it. Return a response with "
            "a body that is there, of JSON values, text or bytes; or pass result=None and on_duplicate="
        ) from error


def loaded(error: DuplicateEventError, serializer: Any) -> object:
    """The result that is stored with an event that is done. Raises LockFormatError if it cannot be made."""
    value = decode_result(error.result, error.key, serializer)
    if serializer is not None or not isinstance(value, dict) or _MARK not in value:
        return value
    from . import kinds

    try:
        return kinds.load(value)
    except Exception as failed:
        raise LockFormatError(
            f"the result stored with event {error.key!r} cannot be loaded ({kinds.why(failed)}): is its web framework "
            "not installed here, or of another version?",
            key=error.key,
        ) from failed


def mismatched(error: DuplicateEventError, func: object) -> PayloadMismatchError:
    """The error for an event that is done with another payload, which is logged as well."""
    mismatch = PayloadMismatchError(
        f"event {error.key!r} was completed with another payload, so {name_of(func)}() is neither run for this one nor "
        "given the result. Two different events have one key: give them different ones, or repeat an event as it was",
        key=error.key,
        completed_until=error.completed_until,
    )
    package.tell("payload_mismatch", "%s", mismatch, key=error.key)
    return mismatch


def serializer_of(result: Any) -> Any:
    """The serializer that result= names. None for "json" (see `serializer_for`) and for None. Raises TypeError."""
    if result is None or result == "json":
        return None
    if isinstance(result, type) or any(hasattr(result, name) for name in _OF_TYPES):
        return _storable("for_type", result, f"result={result!r}")
    if callable(getattr(result, "dump", None)) and callable(getattr(result, "load", None)):
        return result
    raise TypeError(
        f"result= must be None or 'json', a type, or an object with dump(value) and load(value), got {result!r}"
    )


def serializer_for(func: Any) -> Any:
    """The serializer for the return annotation of ``func``. None: JSON as it is. Raises TypeError."""
    func = undecorated(func)  # a wrapper of an object or of a partial function does not have their annotations
    if not hasattr(func, "__annotations__"):
        func = type(func).__call__
    try:
        returned = func.__annotations__.get("return")
    except NameError:  # since Python 3.14 annotations are evaluated when they are asked for
        returned = ""
    text = returned.__name__ if isinstance(returned, type) else str(returned)
    words = text.translate(dict.fromkeys(map(ord, "[],|"), " "))
    named_by_strs = text.count("dict[") == text.count("dict[str,")  # JSON has no other names of entries
    if words and named_by_strs and _PLAIN_NAMES.issuperset(words.split()):
        return None  # the usual case, which loads neither typing nor dataclasses
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
