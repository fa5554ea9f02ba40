"""By which version of a function an event's result was stored: the fields of validate=, and the type of its result.

Beside a result, the row has fingerprints of these (RESULT_OF). While two versions of a function are deployed, each
meets results of the other. Loaded for functions with ``validate=``, or with a result that has a serializer.
"""

from __future__ import annotations

import json  # the Lambda runtime has it loaded
from contextlib import suppress  # the Lambda runtime has it loaded
from hashlib import sha256  # already loaded for signing requests

from ..keys.parameters import name_of
from ..observe.observer import package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..errors import DuplicateEventError
    from ..keys.payload_hash import PayloadHash

_FIELDS_DIFFER = (
    "event %r was completed by a version of %s() with another validate=, so its payload is not compared. That is right "
    "while events from before the change are in their window"
)
_TYPE_DIFFERS = (
    "the result of event %r was stored by a version of %s() with another type. It is loaded as it is, and fields that "
    "it does not have get their defaults: see that these are right for older results"
)


class Versions:
    """The settings of one function, for what it stores, and for what it finds stored.

    serializer: one made from a type has its ``read()``. Any other one has no fields that could be named.
    """

    def __init__(self, func: object, fields: PayloadHash | None, serializer: Any) -> None:
        self._func = func
        self._fields = "" if fields is None else _fingerprint(sorted(fields.paths))
        self._read = getattr(serializer, "read", None)
        self._type: str | None = None
        self._told: set[str] = set()

    @property
    def made(self) -> str | None:
        """The fingerprints, with ":" between them. None: neither fields nor a type."""
        if self._type is None:  # not when decorating: a name in the annotation may be defined later
            kind = ""
            if self._read is not None:
                from .shapes import shape_of

                with suppress(Exception):  # of the application's types. No call fails for what is only told
                    kind = _fingerprint(shape_of(self._read()))
            self._type = kind
        return f"{self._fields}:{self._type}" if self._fields or self._type else None

    def have_other_fields(self, error: DuplicateEventError, made: str, payload: str | None) -> bool:
        """Whether the hash of the payload that a result is stored with is of other fields. Tells once what differs."""
        fields, _, kind = made.partition(":")
        differ = bool(payload and fields and self._fields and fields != self._fields)
        if differ:
            self._tell("validate_differs", _FIELDS_DIFFER, error)
        mine = (self.made or ":").partition(":")[2]
        if kind and mine and kind != mine:
            self._tell("result_differs", _TYPE_DIFFERS, error)
        return differ

    def _tell(self, event: str, message: str, error: DuplicateEventError) -> None:
        if event not in self._told:
            self._told.add(event)
            package.tell(event, message, error.key, name_of(self._func), key=error.key)


def _fingerprint(of: object) -> str:
    return sha256(json.dumps(of).encode()).hexdigest()[:8]
