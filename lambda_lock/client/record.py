"""What the application stores in a row (data, attributes, the result of an event) and what a row shows: get.

Loaded when used. Values become DynamoDB JSON and back without boto3 ("Supported data types and naming rules", Amazon
DynamoDB Developer Guide)."""

from __future__ import annotations

import json  # the Lambda runtime has these loaded
from collections.abc import Mapping
from contextlib import suppress

from ..core import requests
from ..core.requests import Place, decode_data, encode_data
from ..core.row import RATE, SEAL, Row
from ..errors import LockArgumentError, LockFormatError, printable
from . import checks
from .session import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.outcome import Item, Reply
    from ..core.protocol import Conversation, Hold, Steps
    from ..core.requests import Request
    from ..errors import Holder
    from .session import Session

PREWARM_KEY = "lambda_lock#prewarm"  # of a row that is never written
_INFINITY = float("inf")
_LONGEST_NUMBER = 200  # characters; DynamoDB's numbers have up to 38 digits, and exponents up to 125
_ITEM_LIMIT = 400 * 1024  # bytes: DynamoDB's limit for an item, names and values together
_LOCK_SIZE = 1500  # bytes of an item: the attributes of a lock, with 64 tickets
#: A stored text begins with this if it has the hash of a payload before its JSON. No JSON text begins like this.
_HASH = "sha256:"
_AFTER_HASH = len(_HASH) + 64


def to_dynamodb(value: object, name: str) -> dict[str, Any]:
    """Return one value as DynamoDB JSON.

    value: a str, int, Decimal, finite float, bool, None, bytes, list, tuple, dict with str keys, or a non-empty set of
        only str, only numbers or only bytes.
    name: the attribute's name, for the error.

    Raises TypeError for anything else.
    """
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, (bytes, bytearray)):
        return {"B": encode_data(value)}
    if _is_number(value):
        return {"N": _number(value, name)}
    if isinstance(value, (list, tuple)):
        return {"L": [to_dynamodb(element, name) for element in value]}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"attribute {name!r} contains a dict with the key {key!r}: keys must be str")
        return {"M": {key: to_dynamodb(element, name) for key, element in value.items()}}
    if isinstance(value, (set, frozenset)):
        if value and all(isinstance(element, str) for element in value):
            return {"SS": sorted(value)}
        if value and all(isinstance(element, bytes) for element in value):
            return {"BS": [encode_data(element) for element in sorted(value)]}
        if value and all(_is_number(element) and not isinstance(element, bool) for element in value):
            return {"NS": [_number(element, name) for element in sorted(value)]}
        raise TypeError(
            f"attribute {name!r} is a set that DynamoDB cannot store: a set must not be empty, and must hold only str, "
            "only numbers or only bytes"
        )
    raise TypeError(
        f"attribute {name!r} is a {type(value).__name__}, which DynamoDB cannot store: "
        "use str, numbers, bool, None, bytes, lists, dicts or sets of one kind"
    )


def _is_number(value: object) -> bool:
    # Decimal is recognized by its name: importing decimal would cost 2 ms, even if no Decimal is used.
    return isinstance(value, (int, float)) or type(value).__name__ == "Decimal"


def _number(value: Any, name: str) -> str:
    if value != value or value in (_INFINITY, -_INFINITY):
        raise TypeError(f"attribute {name!r} is {value!r}: DynamoDB stores only finite numbers")
    return repr(value) if isinstance(value, float) else str(value)


def from_dynamodb(value: dict[str, Any]) -> Any:
    """Return the Python value of DynamoDB JSON. Whole numbers become int, other numbers Decimal.

    Raises ValueError for a malformed number or binary value, which DynamoDB never stores.
    """
    ((kind, content),) = value.items()
    return _READ[kind](content) if kind in _READ else content  # S, BOOL


def _from_number(text: str) -> Any:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} characters")
    if text.lstrip("-").isdecimal() and text.isascii():
        return int(text)
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number") from error


_READ: dict[str, Callable[[Any], Any]] = {
    "NULL": lambda _: None,
    "N": _from_number,
    "B": decode_data,
    "L": lambda elements: [from_dynamodb(element) for element in elements],
    "M": lambda entries: {key: from_dynamodb(entry) for key, entry in entries.items()},
    "SS": set,
    "NS": lambda elements: set(map(_from_number, elements)),
    "BS": lambda elements: set(map(decode_data, elements)),
}


def item_size(item: Item) -> int:
    """Return roughly how many bytes DynamoDB counts for an item: never less than it counts for names and scalars."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def check_size(item: Item, key: str) -> None:
    """Refuse an item that DynamoDB would refuse as too large. Some bytes are reserved for the lock's own attributes."""
    total = item_size(item) + _LOCK_SIZE
    if total > _ITEM_LIMIT:
        raise LockArgumentError(
            f"data and attributes of lock {key!r} take about {total} bytes; an item may have at most {_ITEM_LIMIT}. "
            "Store the payload elsewhere, and a reference to it here",
            key=key,
        )


def _size(value: dict[str, Any]) -> int:
    ((kind, content),) = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "B":
        return len(content) * 3 // 4
    if kind == "N":
        return len(content) // 2 + 2
    if kind == "L":
        return 3 + sum(1 + _size(element) for element in content)
    if kind == "M":
        return 3 + sum(1 + len(key.encode()) + _size(element) for key, element in content.items())
    return sum(map(len, content)) if kind in ("SS", "NS", "BS") else 1


def columns_of(values: object, place: Place) -> Item:
    """Return the application's attributes as DynamoDB JSON. Names that belong to the lock are refused."""
    if not isinstance(values, Mapping):
        raise TypeError(f"attributes must be a dict of names and values, not {type(values).__name__}")
    reserved = {*place.schema.attribute_names(), *place.key_names}
    columns: Item = {}
    for name, value in values.items():
        try:
            checks.attribute_name("the name of an attribute", name)
            columns[name] = to_dynamodb(value, name)
            item_size({name: columns[name]})
        except UnicodeEncodeError as error:
            raise LockArgumentError(
                f"attributes: {name!r} has text that is not valid Unicode and cannot be sent: remove the lone surrogate"
            ) from error
        if name in reserved:
            raise LockArgumentError(f"attributes: {name!r} belongs to the lock itself. Choose another name")
    return columns


def row_data(item: Item, place: Place) -> bytes | None:
    """Return the application's bytes in a row, or None if there are none."""
    value = item.get(place.schema.data, {}).get("B")
    if value is None:
        return None
    try:
        return decode_data(value)
    except ValueError:  # not base64: DynamoDB never stores that
        return None


def row_attributes(item: Item, place: Place) -> dict[str, Any]:
    """Return the application's additional attributes in a row, except those that cannot be read (see `unreadable`)."""
    own = {*place.schema.attribute_names(), *place.key_names}
    found = {}
    for name, value in item.items():
        if name not in own:
            with suppress(ValueError):
                found[name] = from_dynamodb(value)
    return found


class Storing:
    """How one call's result is stored.

    serializer: has ``dump(value)``, which gives a JSON value, and ``load(value)``; None: the result is a JSON value. A
    fits.OfType: made from a type.
    payload: the hash of the fields to validate; None: nothing is validated.
    window_of: gives the seconds for which the event counts as done with a result; None: as many as it was begun with.
    """

    __slots__ = ("payload", "serializer", "window_of")

    def __init__(self, serializer: Any = None, payload: str | None = None, window_of: Any = None) -> None:
        self.serializer = serializer
        self.payload = payload
        self.window_of = window_of


_PLAIN = Storing()


def encode_result(result: object, hold: Hold, data: str | None = None, storing: Storing | None = None) -> str | None:
    """Return the text for a result and for the payload's hash. None if there is neither.

    data: what the row stores along with it, as base64 text; None: what the row holds now.

    Raises LockArgumentError if JSON cannot represent ``result``, if duplicates would get another value from the text,
    or if it is too large for the row.
    """
    key, schema, how = hold.place.key, hold.place.schema, storing or _PLAIN
    text = None
    if result is not None:
        text, why = _stored(result, how.serializer)
        if why is not None:
            raise LockArgumentError(f"the result of event {key!r}, of type {type(result).__name__}, {why}", key=key)
    if how.payload is not None:
        text = f"{_HASH}{how.payload} {text or ''}"
    if text is not None:
        stored = hold.item if data is None else {**hold.item, schema.data: {"B": data}}
        check_size({**stored, schema.result: {"S": text}}, key)
    return text


def _stored(result: object, serializer: Any) -> tuple[str | None, str | None]:
    """The text of a result, and why it does not fit. One of them is None."""
    remedy = (
        "return dicts with str keys, lists, strs, numbers, bools or None, pass result= a type or a serializer, or pass "
        "result=None to store none"
    )
    if serializer is None:
        try:
            text = json.dumps(result, separators=(",", ":"))
            loaded = json.loads(text)
            if loaded == result:  # the usual case
                return text, None
        except Exception as error:  # noqa: BLE001 - JSON's own texts name types, not values
            return None, f"cannot be written as JSON ({error}): {remedy}"
    from . import fits

    if serializer is not None:
        try:
            return fits.stored(result, serializer), None
        except fits.Unfit as unfit:
            return None, str(unfit)
    try:
        found = fits.difference(result, loaded)
    except Exception as error:  # noqa: BLE001 - it is nested too deeply, or an application's type fails
        return None, f"cannot be compared with what comes back: {fits.said(error)}"
    return (text, None) if found is None else (None, f"does not come back from JSON as it was{found}: {remedy}")


def result_parts(text: object) -> tuple[str | None, str | None]:
    """Return the JSON text of a result, and the hash of the payload. None for what was not stored."""
    if not isinstance(text, str):
        return None, None
    if not text.startswith(_HASH):
        return text, None
    return text[_AFTER_HASH + 1 :] or None, text[len(_HASH) : _AFTER_HASH]


def decode_result(text: object, key: str | None, serializer: Any = None) -> object:
    """Return the result from a stored text, or None if none was stored.

    Raises LockFormatError if the text is not JSON, or if the serializer cannot load it.
    """
    written, _ = result_parts(text)
    if written is None:
        return None
    try:
        value = json.loads(written)
    except ValueError as error:
        raise LockFormatError(
            f"the result stored with event {key!r} is not JSON: something else stored it. Use another scope=", key=key
        ) from error
    try:
        return value if serializer is None else serializer.load(value)
    except Exception as error:
        from .fits import said

        raise LockFormatError(
            f"the result stored with event {key!r} cannot be loaded ({said(error)}). The result's type may have "
            "changed since: let it read what older versions stored, or use another scope=",
            key=key,
        ) from error


class LockRecord:
    """A lock's row, read without acquiring the lock. It is frozen: it describes the lock at ``read_at``.

    A semaphore has ``holders``, and a rate limit ``rate``: their owner, version, lease and expiry are None.

    key: the lock's key.
    sort_key: its sort key; None if the table has none.
    owner: the owner that holds the lock, or held it last; None if the row names none.
    holders: who holds the lock now, or permits of a semaphore, the oldest grant first: a tuple of Holder (owner,
        expires_at, fencing_token). () if the lock is free or its stored expiry has passed.
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
        is_semaphore, is_shared = row.version == SEAL, row.version in (SEAL, RATE)
        data, attributes = row_data(item, place), row_attributes(item, place)
        own = {*schema.attribute_names(), *place.key_names}
        unreadable = [*row.unreadable(), *(name for name in item if name not in own and name not in attributes)]
        if data is None and "B" in item.get(schema.data, {}):
            unreadable.append(schema.data)
        holders, expires_at = row.holders(), None if row.expiry_ms is None else row.expiry_ms / 1000
        if is_semaphore:
            from ..core.permits import entries_of, hold_of, holder_of, read_entry

            holders = tuple(holder_of(name, entry) for name, entry in entries_of(item, schema).items())
            permits, tokens = (item.get(name or "", {}).get("M") for name in (schema.permits, schema.permit_tokens))
            if schema.permits is not None and (permits is None or not all(map(read_entry, permits.values()))):
                unreadable.append(schema.permits)
            if schema.permit_tokens is not None and (
                tokens is None or sorted(tokens) != sorted(map(hold_of, tokens if permits is None else permits))
            ):
                unreadable.append(schema.permit_tokens)
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


def get(session: Session, key: str, sort_key: str | None) -> Operation[LockRecord | None]:
    """The operation of `LockClient.get`."""
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
