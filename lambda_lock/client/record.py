"""Operations that take no lock: get, list, prewarm, and writes while locks are disabled. A row that was read is a
LockRecord.
"""

from __future__ import annotations

from ..core import protocol
from ..core.outcome import unusable
from ..core.requests import Place
from ..core.row import SEAL, Row
from ..errors import LockConfigurationError, printable
from ..runtime.import_guard import ImportGuard
from . import checks
from .stored import result_parts, row_attributes, row_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..core.lease import ClockReading, Holder
    from ..core.outcome import Item, Reply
    from ..core.protocol import Steps
    from ..core.requests import Request
    from ..core.schema import Schema
    from .session import Operation, Session

MOST_PAGES = 100_000  # of one list: a page has up to 1 MB (API reference, Scan), so this is 100 GB
PREWARM_KEY = "lambda_lock#prewarm"  # of a row that is never written


def _unreadable(row: Row, place: Place, attributes: dict[str, Any], data: bytes | None) -> tuple[str, ...]:
    schema = place.schema
    own = {*schema.attribute_names(), *place.key_names}
    names = [name for name in row.item if name not in own and name not in attributes]
    if data is None and "B" in row.item.get(schema.data, {}):
        names.append(schema.data)
    if row.version == SEAL:
        names += _unreadable_maps(row.item, schema)
    return (*row.unreadable(schema), *names)


def _unreadable_maps(item: Item, schema: Schema) -> list[str]:
    """The names of a semaphore's maps that are missing or no maps, or have entries that cannot be read."""
    with ImportGuard():
        from ..core.permits import read_entry

    permits, tokens = (item.get(name or "", {}).get("M") for name in (schema.permits, schema.permit_tokens))
    readable = {
        schema.permits: permits is not None and all(map(read_entry, permits.values())),
        schema.permit_tokens: tokens is not None and tokens.keys() == (permits or tokens).keys(),
    }
    return [name for name, is_read in readable.items() if name is not None and not is_read]


def _holders(row: Row, place: Place, read_at: int | None) -> tuple[Holder, ...]:
    """Who holds the lock, or the permits of a semaphore: all whose stored expiry has not passed."""
    if row.version == SEAL:
        with ImportGuard():
            from ..core.permits import entries_of, holder_of

        holders = [holder_of(nonce, entry) for nonce, entry in entries_of(row.item, place.schema).items()]
    else:
        holders = [*row.holders()]
    return tuple(
        holder for holder in holders if read_at is None or holder.expires_at is None or read_at < holder.expires_at
    )


class LockRecord:
    """A lock's row, read without acquiring the lock. It is frozen: it describes the lock at ``read_at``.

    The row of a semaphore has ``holders`` instead of an owner, a version, a lease and an expiry, which are None.

    key: the lock's key.
    sort_key: its sort key; None if the table has none.
    owner: the owner that holds the lock, or held it last; None if the row names none.
    holders: who holds the lock now, or the permits of a semaphore, the oldest grant first: a tuple of Holder (owner,
        expires_at, fencing_token). () if the lock is free or its stored expiry has passed.
    data: the application's bytes; None if there are none.
    attributes: the application's additional attributes, as plain Python values.
    version: the version in the row; None if no client has ever held the lock.
    lease_duration: the lease in seconds; None if it is absent or cannot be read.
    expires_at: the stored expiry in epoch seconds; None for a row that another client library wrote.
    read_at: the Date of the reply in epoch seconds; None if the reply had none.
    fencing_token: the fencing token of the last grant; None if it is absent or cannot be read.
    is_held: whether anybody holds the lock now, or any permit of the semaphore: whether there are ``holders``. A permit
        may be free all the same: a semaphore has N of them, and only its callers know N.
    is_released: whether the lock is free. For a semaphore: whether nobody holds a permit, as far as they can be read.
    is_expired: whether the lock is held but its stored expiry has passed by DynamoDB's clock.
    completed_until: the time until which a completed event counts as done, in epoch seconds; None if there is none.
    result: the JSON text that a completed event stored; None if there is none.
    waiters: the number of acquires that wait in the queue, without those whose places have expired by ``read_at``.
    unreadable: the names of the attributes that cannot be read, such as a lease of another schema or of zero, or a
        token that is not a whole number; () if all can be read. Their values are None here, or absent from
        ``attributes``. An acquire that depends on one of them raises LockFormatError.

    Example::

        record = client.get("nightly-report")
        if record is not None and record.is_held:
            print("held by", ", ".join(str(holder.owner) for holder in record.holders))
    """

    __slots__ = (
        "attributes",
        "completed_until",
        "data",
        "expires_at",
        "fencing_token",
        "holders",
        "is_expired",
        "is_released",
        "key",
        "lease_duration",
        "owner",
        "read_at",
        "result",
        "sort_key",
        "unreadable",
        "version",
        "waiters",
    )

    key: str
    sort_key: str | None
    owner: str | None
    data: bytes | None
    attributes: dict[str, Any]
    version: str | None
    lease_duration: float | None
    expires_at: float | None
    read_at: int | None
    fencing_token: int | None
    holders: tuple[Holder, ...]
    is_released: bool
    is_expired: bool
    completed_until: int | None
    result: str | None
    waiters: int
    unreadable: tuple[str, ...]

    def __init__(self, row: Row, place: Place, read_at: int | None) -> None:
        expires_at = None if row.expiry_ms is None else row.expiry_ms / 1000
        data, attributes = row_data(row.item, place), row_attributes(row.item, place)
        holders, is_semaphore = _holders(row, place, read_at), row.version == SEAL
        unreadable = _unreadable(row, place, attributes, data)
        is_free = row.is_free
        if is_semaphore:
            is_free = not holders and place.schema.permits not in (None, *unreadable)
        fields = {
            "key": place.key,
            "sort_key": place.sort_key,
            "owner": None if is_semaphore else row.owner,
            "data": data,
            "attributes": attributes,
            "version": None if is_semaphore else row.version,
            "lease_duration": None if row.lease_ms is None else row.lease_ms / 1000,
            "expires_at": expires_at,
            "read_at": read_at,
            "fencing_token": row.token,
            "holders": holders,
            "is_released": is_free,
            "is_expired": not row.is_free and None not in (expires_at, read_at) and read_at >= expires_at,  # type: ignore[operator]
            "completed_until": row.completed_until,
            "result": result_parts(row.item.get(place.schema.result, {}).get("S"))[0],
            "waiters": row.waiting(read_at),
            "unreadable": unreadable,
        }
        _fill(self, fields)

    @property
    def is_held(self) -> bool:
        return bool(self.holders)

    def __reduce__(self) -> tuple[Any, ...]:
        return _record, ({name: getattr(self, name) for name in self.__slots__},)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a LockRecord is frozen: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LockRecord):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # attributes is a dict

    def __repr__(self) -> str:
        owners = [holder.owner for holder in self.holders] or [self.owner]
        state = "released" if self.is_released else f"held by {printable(', '.join(map(str, owners)))}"
        return f"LockRecord({self.key!r}, {state}, token {self.fencing_token})"


def _record(fields: dict[str, object]) -> LockRecord:
    record = LockRecord.__new__(LockRecord)
    _fill(record, fields)
    return record


def _fill(record: LockRecord, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        object.__setattr__(record, name, value)


class Pages:
    """`request` returns the request for the next page, or None after the last. `take` yields the records in a reply.

    A list ends, whatever the answers say: pages that lead in a circle are noticed, and there are at most MOST_PAGES.
    """

    def __init__(
        self, table: str, schema: Schema, partition_key_name: str, sort_key_name: str | None, key: str | None
    ) -> None:
        self.place = Place(table, schema, partition_key_name, key or "", sort_key_name, None)
        self._names = (partition_key_name, sort_key_name)
        self._request: dict[str, Any] | None = {"TableName": table, "ConsistentRead": True}
        self._operation = "Scan"
        self._count = 0
        self._mark: object = None  # where a page began: the last one whose number was a power of two
        if key is not None:
            self._operation = "Query"
            self._request |= {
                "KeyConditionExpression": "#k = :k",
                "ExpressionAttributeNames": {"#k": partition_key_name},
                "ExpressionAttributeValues": {":k": {"S": key}},
            }

    def request(self) -> Request | None:
        return None if self._request is None else (self._operation, self._request)

    def take(self, reply: Reply) -> Iterator[LockRecord]:
        page: dict[str, Any] = reply.item or {}
        self._request = self._next(self._request or {}, page.get("LastEvaluatedKey"))
        for item in page.get("Items", []):
            partition_key_name, sort_key_name = self._names
            key = self._key_of(item, partition_key_name)
            sort_key = None if sort_key_name is None else self._key_of(item, sort_key_name)
            row = Row(item, self.place.schema)
            if row.version is None:  # not a lock's row, or written in another schema
                continue
            place = Place(self.place.table, self.place.schema, partition_key_name, key, sort_key_name, sort_key)
            yield LockRecord(row, place, reply.date)

    def _next(self, request: dict[str, Any], last: Any) -> dict[str, Any] | None:
        """Return the request for the next page, or None after the last.

        An answer that does not lead to a new page is refused: the same pages would be requested for ever. A circle is
        found by comparing with one page alone, after at most three times its length (Brent's algorithm).
        """
        if last is None:
            return None
        names = {name for name in self._names if name is not None}
        if not isinstance(last, dict) or names - last.keys() or last == self._mark:
            raise unusable("a page of a Scan or Query does not say where the next page begins")
        self._count += 1
        if self._count >= MOST_PAGES:
            raise unusable(f"a Scan or Query has more than {MOST_PAGES} pages")
        if self._count & (self._count - 1) == 0:
            self._mark = last
        return {**request, "ExclusiveStartKey": last}

    def _key_of(self, item: Item, name: str) -> str:
        key = item.get(name, {}).get("S")
        if key is None:
            raise LockConfigurationError(
                f"table {self.place.table!r} does not have the key {name!r} (string). Set partition_key_name= and "
                "sort_key_name= (or LAMBDA_LOCK_PARTITION_KEY, LAMBDA_LOCK_SORT_KEY) to the table's own names"
            )
        text: str = key
        return text


def get(session: Session, key: str, sort_key: str | None) -> Operation[LockRecord | None]:
    """The operation of `LockClient.get`."""
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
