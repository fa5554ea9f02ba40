"""Operations that do not take a lock: get, prewarm, list, and writes while locks are disabled."""

from __future__ import annotations

from ..core import protocol
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..core.lease import ClockReading
    from ..core.outcome import Reply
    from ..core.protocol import Steps
    from ..core.requests import Place, Request
    from .pages import Pages
    from .record import LockRecord
    from .session import Operation, Session

PREWARM_KEY = "lambda_lock#prewarm"  # of a row that is never written


def get(session: Session, key: str, sort_key: str | None) -> Operation[LockRecord | None]:
    """The operation of `LockClient.get`."""
    from .record import LockRecord

    place = session.settings.place(key, sort_key)
    session.check_open()

    def steps(reading: ClockReading) -> Steps[LockRecord | None]:
        row, date = yield from protocol.read(place, session.memory, session.entropy, reading)
        return None if row is None else LockRecord(row, place, date)

    return place, steps


def prewarm(session: Session) -> Operation[LockRecord | None]:
    """The operation of `LockClient.prewarm`: a read of a row that does not exist."""
    has_sort_key = session.settings.names()[2] is not None
    return get(session, PREWARM_KEY, PREWARM_KEY if has_sort_key else None)


def pages_of(session: Session, key: str | None) -> Pages:
    """What `LockClient.list` reads, page by page."""
    from .pages import Pages

    session.check_open()
    if key is not None:
        checks.key_text("key", key)
    table, partition_key_name, sort_key_name = session.settings.names()
    return Pages(table, session.settings.schema, partition_key_name, sort_key_name, key)


def ask(session: Session, place: Place, request: Request) -> Operation[Reply]:
    """Send a request that takes and changes no lock."""
    return place, lambda reading: protocol.ask(request, session.memory, session.entropy, reading)


def write_unguarded(session: Session, items: Sequence[Mapping[str, Any]], key: str) -> Operation[Reply]:
    """The operation of `Lock.commit` while locks are disabled."""
    request = {"TransactItems": checks.transact_items(items), "ClientRequestToken": session.entropy.nonce()}
    place = session.settings.place(key, None if session.settings.names()[2] is None else key)
    return ask(session, place, ("TransactWriteItems", request))
