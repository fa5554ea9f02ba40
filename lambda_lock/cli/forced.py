"""A release by somebody other than the holder. Only people do that, and only here: no other code path does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..client.base import session_of
from ..client.record import LockRecord
from ..core import protocol
from ..core.outcome import ConditionFailed, Reply
from ..core.row import RELEASED, Row
from ..errors import TransportError

if TYPE_CHECKING:
    from ..client.lock_client import LockClient
    from ..core.lease import ClockReading
    from ..core.protocol import Steps
    from ..core.requests import Request


def force_release(client: LockClient, record: LockRecord) -> Row | None:
    """Release the lock as it stands in ``record``, under its version: never a newer holder, never a renewed lock.

    Returns None if the lock was released. Otherwise it returns the row that is there instead. A row without a version
    means that there is no row. The time to live stays as it is, since the row may be another client's. Raises what
    `LockClient.get` raises, and TransportError if the outcome is unknown.
    """
    session = session_of(client)
    place = session.settings.place(record.key, record.sort_key)
    schema, names = place.schema, {"#v": place.schema.version}
    request: dict[str, Any] = {
        "TableName": place.table,
        "Key": place.item_key,
        "ConditionExpression": "#v = :v",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {":v": {"S": record.version}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    operation = "DeleteItem"
    if schema.released is not None:
        operation = "UpdateItem"
        names["#r"] = schema.released
        request["ConditionExpression"] += " AND attribute_not_exists(#r)"
        request["UpdateExpression"] = "SET #r = :r"
        request["ExpressionAttributeValues"][":r"] = {"S": RELEASED}

    def steps(reading: ClockReading) -> Steps[Row | None]:
        sent: Request = (operation, request)
        outcome, unclear, _ = yield from protocol.exchange(
            sent, session.memory, session.entropy, reading, reading.elapsed + protocol.DECISION
        )
        if isinstance(outcome, Reply):
            return None
        if not isinstance(outcome, ConditionFailed):
            unknown = f"it is unknown whether lock {record.key!r} was released"
            raise TransportError(True, unknown) if unclear else outcome
        row = Row(outcome.item or {}, schema)
        # After a lost reply: this very version, released, is what was asked for; so is a row deleted.
        done = unclear and (row.version is None or (row.version == record.version and row.is_free))
        return None if done else row

    return session.run(place, steps)
