"""`LockClient.forget`: an event that is done is forgotten, under its lock. Loaded when it is used."""

from __future__ import annotations

from ..core import forget as core
from ..errors import LockConfigurationError
from ..keys.arguments import scoped
from . import checks
from .options import request_for
from .session import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .session import Session

_ADVICE = "What runs may have read what has changed since: forget it again when it has ended, or pass wait=seconds"


def forget(
    session: Session, key: str, scope: str, sort_key: str | None, wait: float | None, context: object
) -> Operation[bool]:
    """The operation of `LockClient.forget`."""
    if scope != "":
        checks.key_text("key", key)
        key = scoped(checks.key_text("scope", scope), key)
    request = request_for(session, key, wait=wait, sort_key=sort_key, context=context)
    place = request.place
    if place.schema.released is None:
        raise LockConfigurationError(
            f"event {key!r} cannot be forgotten: rows of the schema {place.schema.name} are deleted on release, and "
            "remember no events. Use a client with the schema JAVA or GO",
            key=key,
        )
    request.advice = request.advice or _ADVICE
    return Operation(place, lambda talk: core.forget(request, talk), session.check_open)
