"""What the functions of web frameworks return, as JSON: tuples, their Response objects, and bytes in these.

They are written as ``{"lambda_lock": kind, "value": …}``. A dict that has this name itself is written so, too. Loaded
for results that have such a part, and for the answers of `lambda_lock.web`. A framework is imported only when one of
its responses is given back.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys

from ..client.fits import Unfit, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MARK = "lambda_lock"
_PLAIN = (bool, int, float, str)


def _werkzeug(made: Any, state: dict[str, Any], base: Any) -> None:
    base.__init__(made, state["body"], state["status"])
    made.headers.clear()  # of the default Content-Type
    made.headers.extend(state["headers"])


def _of_werkzeug(response: Any) -> dict[str, Any]:
    return {"status": response.status, "headers": list(response.headers.items()), "body": response.get_data()}


def _of_starlette(response: Any) -> dict[str, Any]:
    state = {"status_code": response.status_code, "raw_headers": response.raw_headers, "background": None}
    return {**state, "body": bytes(response.body)}


def _attributes(made: Any, state: dict[str, Any], base: Any) -> None:
    vars(made).update(state)


#: By kind: the module and name of the class, what reads a response, and what fills an empty one.
_RESPONSES: dict[str, tuple[str, str, Callable[[Any], Any], Callable[[Any, Any, Any], None]]] = {
    "starlette": ("starlette.responses", "Response", _of_starlette, _attributes),
    "werkzeug": ("werkzeug.wrappers.response", "Response", _of_werkzeug, _werkzeug),
    "powertools": (
        "aws_lambda_powertools.event_handler.api_gateway",
        "Response",
        lambda one: {**vars(one)},
        _attributes,
    ),
    "chalice": ("chalice.app", "Response", lambda one: {**vars(one)}, _attributes),
}


def _is_streamed(response: Any) -> bool:
    return (
        not hasattr(response, "body") if hasattr(response, "raw_headers") else getattr(response, "is_streamed", False)
    )


def kind_of(cls: type) -> str | None:
    """The kind of a class of responses. None for any other."""
    bases = {(base.__module__, base.__qualname__) for base in cls.__mro__}
    return next((kind for kind, entry in _RESPONSES.items() if entry[:2] in bases), None)


def is_web(result: object) -> bool:
    """Whether it is what the functions of web frameworks return, and means nothing when it is something else."""
    return isinstance(result, tuple) or kind_of(type(result)) is not None


def why(error: Exception) -> str:
    """Why a result cannot be stored: what follows after "a result"."""
    return str(error) if isinstance(error, Unfit) else f"cannot be written: {said(error)}"


def dump(value: Any) -> Any:
    """A JSON value. Raises Unfit for what would not come back."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list):
        return [dump(part) for part in value]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        entries = {name: dump(part) for name, part in value.items()}
        return {MARK: "dict", "value": entries} if MARK in value else entries
    if isinstance(value, bytes):
        return _of_bytes(value)
    if type(value) is tuple:
        return {MARK: "tuple", "value": [dump(part) for part in value]}
    kind = kind_of(type(value))
    if kind is None:
        raise Unfit(f"has a part of type {type(value).__name__}, which would not come back")
    if _is_streamed(value):
        raise Unfit(f"is of type {type(value).__name__}, which is made while it is sent")
    cls = type(value)
    return {MARK: kind, "class": [cls.__module__, cls.__qualname__], "value": dump(_RESPONSES[kind][2](value))}


def load(value: Any) -> Any:
    """What `dump` was given."""
    if isinstance(value, list):
        return [load(part) for part in value]
    if not isinstance(value, dict):
        return value
    if MARK not in value:
        return {name: load(part) for name, part in value.items()}
    kind, inner = value[MARK], value["value"]
    if kind == "dict":
        return {name: load(part) for name, part in inner.items()}
    if kind == "tuple":
        return tuple([load(part) for part in inner])
    if kind in ("text", "base64"):
        return inner.encode() if kind == "text" else base64.b64decode(inner)
    module, name, _, fill = _RESPONSES[kind]
    base: Any = getattr(importlib.import_module(module), name)
    where, own = value["class"]
    cls = getattr(sys.modules.get(where), own, base)
    made = base.__new__(cls if isinstance(cls, type) and issubclass(cls, base) else base)
    fill(made, load(inner), base)
    return made


def _of_bytes(value: bytes) -> dict[str, str]:
    """Text where it is one that JSON writes with fewer characters."""
    encoded = base64.b64encode(value).decode()
    try:
        text = value.decode()
    except ValueError:
        text = None
    if text is None or len(json.dumps(text)) > len(encoded) + 2:
        return {MARK: "base64", "value": encoded}
    return {MARK: "text", "value": text}
