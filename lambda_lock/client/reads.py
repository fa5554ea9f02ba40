"""Reads that take and change no lock: get and prewarm, and any other request (ask). Loaded when used."""

from __future__ import annotations

from ..core import requests
from .session import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.outcome import Reply
    from ..core.protocol import Conversation, Steps
    from ..core.requests import Place, Request
    from .record import LockRecord
    from .session import Session

PREWARM_KEY = "lambda_lock#prewarm"  # of a row that is never written


def get(session: Session, key: str, sort_key: str | None) -> Operation[LockRecord | None]:
    """The operation of `LockClient.get`."""
    from .record import LockRecord

    place = session.settings.place(key, sort_key, reads=True)
    session.check_open()

    def steps(talk: Conversation) -> Steps[LockRecord | None]:
        reply = yield from talk.ask(requests.read(place))
        row = place.row(reply.item)
        return None if row is None else LockRecord(row, place, reply.date)

    return Operation(place, steps)


def prewarm(session: Session) -> Operation[None]:
    """The operation of `LockClient.prewarm`: a read of a row that is not there. If it is, nobody looks at it."""
    has_sort_key = session.settings.names()[2] is not None
    place = session.settings.place(PREWARM_KEY, PREWARM_KEY if has_sort_key else None)
    session.check_open()

    def steps(talk: Conversation) -> Steps[None]:
        yield from talk.ask(requests.read(place))

    return Operation(place, steps)


def ask(session: Session, place: Place, request: Request) -> Operation[Reply]:
    """Send a request that takes and changes no lock."""
    return Operation(place, lambda talk: talk.ask(request))
