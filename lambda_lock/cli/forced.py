"""A release by somebody other than the holder. Only people do that, and only here: no other code path does."""

from __future__ import annotations

from ..client.lock_client import LockClient
from ..client.record import LockRecord
from ..client.session import Session, session_of
from ..core import protocol, requests
from ..core.lease import ClockReading, Holder
from ..core.outcome import ConditionFailed, Reply
from ..core.row import RATE, Row
from ..errors import TransportError


def force_release_permit(client: LockClient, record: LockRecord, holder: Holder) -> bool:
    """Release a permit under the owner and token of ``holder``: never that of a later attempt. Returns whether it was.

    Raises what `LockClient.get` raises, and TransportError if the outcome is unknown.
    """
    from ..core.permits import PermitPlace

    assert holder.owner is not None
    session = session_of(client)
    place = PermitPlace(session.settings.place(record.key, record.sort_key), 1, holder.owner)
    request = requests.release(place, owner=holder.owner, token=holder.fencing_token)

    def steps(reading: ClockReading) -> protocol.Steps[bool]:
        outcome, unclear = yield from _sent(session, request, reading, f"a permit of {record.key!r}")
        row = protocol.row_of(outcome, place)
        # After a lost reply: that it is gone is what was asked for.
        return isinstance(outcome, Reply) or (unclear and (row is None or row.token != holder.fencing_token))

    return session.run(place, steps)


def force_release(client: LockClient, record: LockRecord) -> Row | None:
    """Release the lock as it stands in ``record``, under its version: never a newer holder, never a renewed lock.

    The row of a rate limit is deleted: marked as released, it would be a free lock.

    Returns None if the lock was released. Otherwise it returns the row that is there instead. A row without a version
    means that there is no row. The time to live stays as it is, since the row may be another client's. Raises what
    `LockClient.get` raises, and TransportError if the outcome is unknown.
    """
    session = session_of(client)
    place = session.settings.place(record.key, record.sort_key)
    update = requests.Update(place)
    update.expect(version={"S": record.version or RATE})
    deletes = place.schema.released is None or record.rate is not None
    if not deletes:
        update.expect(released=None)
        update.end(record.owner or "")
    request = update.request("DeleteItem" if deletes else "UpdateItem")

    def steps(reading: ClockReading) -> protocol.Steps[Row | None]:
        outcome, unclear = yield from _sent(session, request, reading, f"lock {record.key!r}")
        if isinstance(outcome, Reply):
            return None
        row = Row(outcome.item or {}, place.schema)
        # After a lost reply: this very version, released, is what was asked for; so is a row deleted.
        done = unclear and (row.version is None or (row.version == record.version and row.is_free))
        return None if done else row

    return session.run(place, steps)


def _sent(
    session: Session, request: requests.Request, reading: ClockReading, what: str
) -> protocol.Steps[tuple[Reply | ConditionFailed, bool]]:
    """Send a release. Returns its answer, and whether an earlier send may have been carried out.

    Raises the transport's error, and TransportError if the outcome is unknown.
    """
    until = reading.elapsed + protocol.DECISION
    outcome, unclear, _ = yield from protocol.exchange(request, session.memory, session.entropy, reading, until)
    if not isinstance(outcome, (Reply, ConditionFailed)):
        raise TransportError(True, f"it is unknown whether {what} was released") if unclear else outcome
    return outcome, unclear
