"""What a row shows: LockRecord. Loaded when used."""

from __future__ import annotations

from ..core.row import RATE, SEAL, WEIGHED, Row, text_of, whole_of
from ..errors import printable
from .event_results import result_parts
from .values import row_attributes, row_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.outcome import Item
    from ..core.requests import Place
    from ..core.schema import Schema
    from ..errors import Holder


def _of_semaphore(item: Item, schema: Schema) -> tuple[tuple[Holder, ...], list[str]]:
    """Who holds permits in a semaphore's row, and the names of its attributes that cannot be read."""
    from ..core.permits import entries_of, hold_of, holder_of, read_entry, takes_of

    entries = entries_of(item, schema)
    takes = takes_of(item, schema, entries)
    holders = tuple(holder_of(name, entry, takes[name]) for name, entry in entries.items())
    permits, tokens = (item.get(name or "", {}).get("M") for name in (schema.permits, schema.permit_tokens))
    unreadable = []
    if schema.permits is not None and (permits is None or not all(map(read_entry, permits.values()))):
        unreadable.append(schema.permits)
    if schema.permit_tokens is not None and (
        tokens is None or sorted(tokens) != sorted(map(hold_of, tokens if permits is None else permits))
    ):
        unreadable.append(schema.permit_tokens)
    counted = schema.permits_taken if text_of(item, schema.version) == WEIGHED else None
    if counted is not None and whole_of(item, counted, 6) != sum(takes.values()):
        unreadable.append(counted)
    return holders, unreadable


class LockRecord:
    """A lock's row, read without acquiring the lock. It is frozen: it describes the lock at ``read_at``.

    A semaphore has ``holders``, and a rate limit ``rate``: their owner, version, lease and expiry are None.

    key: the lock's key.
    sort_key: its sort key; None if the table has none.
    owner: the owner that holds the lock, or held it last; None if the row names none.
    holders: who holds the lock now, or permits of a semaphore, the oldest grant first: a tuple of Holder (owner,
        expires_at, fencing_token, take). () if the lock is free or its stored expiry has passed.
    taken: how many permits the ``holders`` have taken together; 1 for a lock that is held, 0 if nobody holds.
    data, attributes: the application's bytes (None: none), and its additional attributes as plain Python values.
    version: the version in the row; None if no client has ever held the lock.
    lease_duration: the lease in seconds; None if it is absent or cannot be read.
    expires_at: the stored expiry in epoch seconds; None for a row that another client library wrote.
    read_at: the Date of the reply in epoch seconds; None if the reply had none.
    fencing_token: that of the last grant; None if it is absent or cannot be read.
    is_held: whether anybody holds the lock now, or any permit of the semaphore: whether there are ``holders``. A permit
        may be free all the same: a semaphore has N of them, and only its callers know N.
    is_released: whether the lock is free. For a semaphore: whether nobody holds a permit, as far as they can be read.
    is_expired: whether the lock is held but its stored expiry has passed by DynamoDB's clock.
    completed_until: the time until which a completed event counts as done, in epoch seconds; None if there is none.
    result: the JSON text that it stored; None if there is none.
    waiters: the number of acquires that wait in the queue, without those whose tickets have expired by ``read_at``.
        Those who sleep have one ticket together.
    sleepers: the number of suspended executions that sleep until the lock is free, when the waker counted them last.
    rate, next_at: of a rate limit: ``limit/per/burst``, and until when it is taken, in epoch seconds; otherwise None.
    unreadable: the names of the attributes that cannot be read, such as a lease of another schema or of zero; () if all
        can be read. They are None here, or absent from ``attributes``, and an acquire may raise LockFormatError.

    Example::

        record = client.get("nightly-report")
        if record is not None and record.is_held:
            print("held by", ", ".join(str(holder.owner) for holder in record.holders))
    """

    def __init__(self, row: Row, place: Place, read_at: int | None) -> None:
        item, schema = row.item, place.schema
        is_semaphore, is_shared = row.version in (SEAL, WEIGHED), row.version in (SEAL, WEIGHED, RATE)
        data, attributes = row_data(item, place), row_attributes(item, place)
        own = {*schema.attribute_names(), *place.key_names}
        unreadable = [*row.unreadable(), *(name for name in item if name not in own and name not in attributes)]
        if data is None and "B" in item.get(schema.data, {}):
            unreadable.append(schema.data)
        holders, expires_at = row.holders(), None if row.expiry_ms is None else row.expiry_ms / 1000
        if is_semaphore:
            holders, more = _of_semaphore(item, schema)
            unreadable += more
        if read_at is not None:
            holders = tuple(each for each in holders if each.expires_at is None or read_at < each.expires_at)
        is_free = not holders and schema.permits not in (None, *unreadable) if is_semaphore else row.is_free
        self.key: str = place.key
        self.sort_key: str | None = place.sort_key
        self.owner: str | None = None if is_shared else row.owner
        self.data: bytes | None = data
        self.attributes: dict[str, Any] = attributes
        self.version: str | None = None if is_shared else row.version
        self.lease_duration: float | None = None if row.lease_ms is None else row.lease_ms / 1000
        self.expires_at: float | None = expires_at
        self.read_at: int | None = read_at
        self.fencing_token: int | None = row.token
        self.holders: tuple[Holder, ...] = holders
        self.taken: int = sum(holder.take for holder in holders)
        self.is_released: bool = is_free or row.version == RATE
        self.is_expired: bool = (
            not row.is_free and read_at is not None and expires_at is not None and read_at >= expires_at
        )
        self.completed_until: int | None = row.completed_until
        self.result: str | None = result_parts(item.get(schema.result, {}).get("S"))[0]
        self.waiters: int = row.waiting(read_at)
        self.sleepers: int = row.sleepers
        self.rate: str | None = row.rate
        self.next_at: float | None = None if row.next_at is None else row.next_at / 1e6
        self.unreadable: tuple[str, ...] = tuple(unreadable)

    @property
    def is_held(self) -> bool:
        return bool(self.holders)

    def __setattr__(self, name: str, value: object) -> None:
        if "unreadable" in vars(self):  # the last one that __init__ sets
            raise AttributeError(f"a LockRecord is frozen: {name} cannot be set")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, LockRecord) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # attributes is a dict

    def __repr__(self) -> str:
        owners = [holder.owner for holder in self.holders] or [self.owner]
        state = "released" if self.is_released else f"held by {printable(', '.join(map(str, owners)))}"
        return f"LockRecord({self.key!r}, {state}, token {self.fencing_token})"
