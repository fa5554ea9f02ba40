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
from ..errors import LockFormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MARK = "lambda_lock"
_PLAIN = (bool, int, float, str)


def _starlette(made: Any, state: dict[str, Any], base: Any) -> None:
    made.status_code, made.body, made.background = state["status"], state["body"], None
    made.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in state["headers"]]


def _werkzeug(made: Any, state: dict[str, Any], base: Any) -> None:
    base.__init__(made, state["body"], state["status"])
    made.headers.clear()  # of the default Content-Type
    made.headers.extend(state["headers"])


def _django(made: Any, state: dict[str, Any], base: Any) -> None:
    base.__init__(made, status=state["status"], headers=dict(state["headers"]))
    made.content = state["body"]
    for cookie in state["cookies"]:
        made.cookies.load(cookie)


def _of_starlette(response: Any) -> dict[str, Any]:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
    return {"status": response.status_code, "headers": headers, "body": bytes(response.body)}


def _of_werkzeug(response: Any) -> dict[str, Any]:
    return {"status": response.status, "headers": list(response.headers.items()), "body": response.get_data()}


def _of_django(response: Any) -> dict[str, Any]:
    cookies = [cookie.OutputString() for cookie in response.cookies.values()]
    return {**_head_of(response), "body": response.content, "cookies": cookies}


def _head_of(response: Any) -> dict[str, Any]:
    return {"status": response.status_code, "headers": list(response.headers.items())}


def _attributes(made: Any, state: dict[str, Any], base: Any) -> None:
    vars(made).update(state)


#: By kind: the module and name of the class, what reads a response and what fills an empty one, and whether a response
#: is made while it is sent.
_RESPONSES: dict[str, tuple[str, str, Callable[[Any], Any], Callable[[Any, Any, Any], None], Callable[[Any], bool]]] = {
    "starlette": ("starlette.responses", "Response", _of_starlette, _starlette, lambda one: not hasattr(one, "body")),
    "werkzeug": (
        *("werkzeug.wrappers.response", "Response", _of_werkzeug, _werkzeug),
        lambda one: one.is_streamed or one.direct_passthrough,
    ),
    "django": ("django.http.response", "HttpResponseBase", _of_django, _django, lambda one: one.streaming),
    "powertools": (
        *("aws_lambda_powertools.event_handler.api_gateway", "Response"),
        *(lambda one: dict(vars(one)), _attributes, lambda one: False),
    ),
    "chalice": ("chalice.app", "Response", lambda one: dict(vars(one)), _attributes, lambda one: False),
}


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
    _, _, read, _, is_streamed = _RESPONSES[kind]
    if is_streamed(value):
        raise Unfit(f"is of type {type(value).__name__}, which is made while it is sent")
    cls = type(value)
    return {MARK: kind, "class": [cls.__module__, cls.__qualname__], "value": dump(read(value))}


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
    module, name, _, fill, _ = _RESPONSES[kind]
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


def loaded(value: Any, key: str | None) -> Any:
    """As `load`. Raises LockFormatError if that fails."""
    try:
        return load(value)
    except Exception as error:
        raise LockFormatError(
            f"the result stored with event {key!r} cannot be loaded ({said(error)}): is its web framework not "
            "installed here, or of another version?",
            key=key,
        ) from error
