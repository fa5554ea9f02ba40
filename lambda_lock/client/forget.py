"""`LockClient.forget`: an event that is done is forgotten, under its lock. Loaded when it is used."""

from __future__ import annotations

import json  # the Lambda runtime has it loaded

from ..core import forget as core
from ..errors import LockArgumentError, LockConfigurationError
from . import checks
from .options import request_for
from .session import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .session import Session

_ADVICE = "What runs may have read what has changed since: forget it again when it has ended, or pass wait=seconds"


def forget(
    session: Session, key: str, scope: str, sort_key: str | None, wait: float | None, context: object, if_result: object
) -> Operation[bool]:
    """The operation of `LockClient.forget`."""
    key = checks.in_scope(scope, key)
    request = request_for(session, key, wait=wait, sort_key=sort_key, context=context)
    place = request.place
    if place.schema.released is None:
        raise LockConfigurationError(
            f"event {key!r} cannot be forgotten: rows of the schema {place.schema.name} are deleted on release, and "
            "remember no events. Use a client with the schema JAVA or GO",
            key=key,
        )
    request.advice = request.advice or (lambda: _ADVICE)
    is_meant = None if if_result is ... else _is(if_result, key)
    return Operation(place, lambda talk: core.forget(request, talk, is_meant), session.check_open)


def _is(result: object, key: str) -> Callable[[str | None], bool]:
    """Tells whether a stored text is this result, as JSON, in whatever order its fields are."""
    try:
        wanted = json.dumps(result, sort_keys=True)
    except Exception as error:
        what = f"a {type(result).__name__} with a value that is not"
        raise LockArgumentError(f"if_result= is {what} JSON: pass the result as JSON values", key=key) from error

    def is_meant(text: str | None) -> bool:
        from .event_results import decode_result

        return json.dumps(decode_result(text, key), sort_keys=True) == wanted

    return is_meant
