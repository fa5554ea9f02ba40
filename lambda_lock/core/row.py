"""The row: what the table stores for one lock, and the schemas in which it is written.

The most important rule here: **the stored expiry is part of the version and is stored nowhere else.** Other client
libraries treat the version as opaque, and replace it whenever they take or renew a row. So our expiry is never left
behind on a lock that another client library holds now. A version that does not parse has no stored expiry.

A lease that cannot be read is an error that names the row. It is never a reason to take the row over.
"""

from __future__ import annotations

from ..errors import LockArgumentError, LockFormatError
from . import lease
from .lease import Holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .lease import ClockReading, Observation, Observations
    from .outcome import Item

SEAL = "semaphore"  # the version, owner and lease of a semaphore's row: held, for a time that no client can read
RELEASED = "1"  # `isReleased` must have no other value: the Java client grants only this one, the Go client hangs on it
_VERSION_PREFIX = "L1:"
_HEX = frozenset("0123456789abcdef")
_NUMERALS = frozenset("0123456789+-.eE")
_LONGEST_MS = 2**63 - 1  # the longest lease that a Java client can write; anything above it counts as unreadable
_LONGEST_DURATION = 64  # characters; Go writes at most "2562047h47m16.854775807s"
TOKEN_DIGITS = 37  # DynamoDB's numbers have 38 digits, and the next grant adds one to the token
_DAY_MS = 86_400_000
_MS_DIGITS = 14  # of epoch ms, and of the ms that a lock was held
MOST_WAITERS = 64
MOST_PERMITS = 100
LONGEST_PERMIT = 86_400.0  # seconds of a permit's lease: the time to live of a semaphore's row counts on it
_LONGEST_PLACE = 64  # characters; ours have 14
PLACE_NAME = 8  # characters of a place; the other 6 are its expiry
LONGEST_BELIEVED = 35  # seconds from now to a place's expiry: the longest lease of a place, and 5 s for wrong clocks
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SECONDS_DIGITS = 11  # enough for epoch seconds up to the year 5138


def make_version(expiry_ms: int, nonce: str) -> str:
    """Return a version: ``expiry_ms`` (epoch ms in 13 digits, so that versions sort by expiry) and a nonce of 32 hex
    digits."""
    return f"{_VERSION_PREFIX}{expiry_ms:013d}:{nonce}"


def expiry_of(version: str) -> int | None:
    """Return the expiry in a version, in epoch ms, or None if another client library wrote the version."""
    if len(version) != 49 or not version.startswith(_VERSION_PREFIX) or version[16] != ":":
        return None
    digits, nonce = version[3:16], version[17:]
    if not (digits.isascii() and digits.isdigit()) or not _HEX.issuperset(nonce):
        return None
    return int(digits)


class Schema:
    """The names and formats of a row's attributes. It is immutable; ``replace`` returns a changed copy.

    name: the schema's name, for errors.
    partition_key, sort_key: the names of the keys, unless the client is given others. sort_key None: no sort key.
    sort_key_value: the value of the sort key if the caller passes none; None if the caller must pass one.
    owner: the attribute with the owner's name.
    lease: the attribute with the length of the lease.
    lease_format: how the lease is written: ``"ms"`` (whole milliseconds in a string), ``"go"`` (a Go duration such as
        "1m30s" in a string) or ``"seconds"`` (a number).
    version: the attribute with the version.
    released: the attribute that marks a released row; None if rows are deleted on release.
    data: the attribute with the application's bytes.
    token: the attribute with the fencing token.
    ttl: the attribute for DynamoDB's time to live.
    ttl_seconds: how long after its expiry a row of this schema is kept, in seconds; None: the client's setting decides.
    completed_until: the attribute with the time until which an event counts as done.
    result: the attribute with an event's result.
    waiters: the attribute with the places of those who wait, oldest first; None if this schema has no queue.
    held_ms: the attribute with the time that the last holder held the lock; None if there is no queue.
    permits: the attribute with the holders of a semaphore; None if this schema has no semaphores.
    permit_tokens: the attribute with their fencing tokens; None if this schema has no semaphores.

    Raises LockArgumentError for an unknown field, an unknown lease_format, or two fields with the same attribute name.

    Example::

        client = LockClient("locks", schema=JAVA.replace(data="payload"))
    """

    __slots__ = (
        "completed_until",
        "data",
        "held_ms",
        "lease",
        "lease_format",
        "name",
        "owner",
        "partition_key",
        "permit_tokens",
        "permits",
        "released",
        "result",
        "sort_key",
        "sort_key_value",
        "token",
        "ttl",
        "ttl_seconds",
        "version",
        "waiters",
    )

    name: str
    partition_key: str
    sort_key: str | None
    sort_key_value: str | None
    owner: str
    lease: str
    lease_format: str
    version: str
    released: str | None
    data: str
    token: str
    ttl: str
    ttl_seconds: int | None
    completed_until: str
    result: str
    waiters: str | None
    held_ms: str | None
    permits: str | None
    permit_tokens: str | None

    def __init__(self, **fields: Any) -> None:
        unknown = fields.keys() - set(self.__slots__)
        if unknown:
            raise LockArgumentError(
                f"a Schema has no field {', '.join(sorted(unknown))}: its fields are {', '.join(self.__slots__)}"
            )
        if fields["lease_format"] not in _LEASE_FORMATS:
            raise LockArgumentError(
                f"lease_format={fields['lease_format']!r} is unknown: use one of {', '.join(_LEASE_FORMATS)}"
            )
        for field in self.__slots__:
            object.__setattr__(self, field, fields[field])
        names = [name for name in self.attribute_names() if name is not None]
        if len(set(names)) < len(names):
            raise LockArgumentError(
                f"two fields of the schema have the same attribute name: {sorted(names)}. Give each its own"
            )

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a Schema is immutable: use replace({field}={value!r})")

    def __delattr__(self, field: str) -> None:
        raise AttributeError("a Schema is immutable")

    def replace(self, **changes: Any) -> Schema:
        """Return a copy with the given fields changed.

        changes: new values by field, as listed for the class.

        Raises LockArgumentError for an unknown field, an unknown lease_format, or two fields with the same name.

        Example::

            JAVA.replace(token="fence")
        """
        return _schema({**self._fields(), **changes})

    def _fields(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._fields().values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _schema, (self._fields(),)

    def attribute_names(self) -> tuple[str | None, ...]:
        """Return the names that belong to the lock. The application's own attributes must not use them."""
        return (
            self.owner,
            self.lease,
            self.version,
            self.released,
            self.data,
            self.token,
            self.ttl,
            self.completed_until,
            self.result,
            self.waiters,
            self.held_ms,
            self.permits,
            self.permit_tokens,
        )

    @property
    def foreign_versions(self) -> tuple[str, ...]:
        """The other schemas' names for a version. A row with one of these, and without ours, is not a free lock."""
        return tuple(name for name in _VERSION_NAMES if name != self.version)

    def round_lease(self, lease_ms: int) -> int:
        """Return ``lease_ms`` rounded down to the unit that this schema can write."""
        return lease_ms - lease_ms % 1000 if self.lease_format == "seconds" else lease_ms

    def write_lease(self, lease_ms: int) -> dict[str, str]:
        """Return a lease of ``lease_ms`` as this schema stores it, in DynamoDB JSON."""
        if self.lease_format == "ms":
            return {"S": str(lease_ms)}
        if self.lease_format == "go":
            return {"S": f"{lease_ms}ms" if lease_ms % 1000 else f"{lease_ms // 1000}s"}
        return {"N": str(lease_ms // 1000)}

    def read_lease(self, value: dict[str, Any] | None) -> int | None:
        """Return the lease in ms, or None if this schema cannot read it. Zero or less counts as unreadable.

        value: the attribute as DynamoDB's JSON has it.
        """
        lease_ms = None if value is None else _LEASE_FORMATS[self.lease_format](value)
        return lease_ms if lease_ms is not None and 0 < lease_ms <= _LONGEST_MS else None

    def __repr__(self) -> str:
        return f"Schema({self.name})"


def _schema(fields: dict[str, Any]) -> Schema:
    return Schema(**fields)


def _read_ms(value: dict[str, Any]) -> int | None:
    text = value.get("S")
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    return int(text)


def _read_seconds(value: dict[str, Any]) -> int | None:
    text = value.get("N")
    if not isinstance(text, str) or not _NUMERALS.issuperset(text):
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return _up(seconds * 1000) if seconds < 1e12 else None


_GO_UNITS_MS = {"ns": 1e-6, "us": 1e-3, "\u00b5s": 1e-3, "\u03bcs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}


def _read_go(value: dict[str, Any]) -> int | None:
    """A Go duration such as "1m30s"."""
    text = value.get("S")
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_DURATION:
        return None
    total, start = 0.0, 0
    while start < len(text):
        rest = text[start:]
        number = _leading(rest, "0123456789.")
        unit = _leading_unit(rest[len(number) :])
        if unit is None or not number.strip(".") or number.count(".") > 1:
            return None
        total += float(number) * _GO_UNITS_MS[unit]
        start += len(number) + len(unit)
    return _up(total)


def _up(milliseconds: float) -> int | None:
    """Round up: a lease read too long makes us wait, one read too short makes us steal. None if it is not finite."""
    return -int(-milliseconds // 1) if abs(milliseconds) <= _LONGEST_MS else None


def _leading(text: str, allowed: str) -> str:
    end = 0
    while end < len(text) and text[end] in allowed:
        end += 1
    return text[:end]


def _leading_unit(text: str) -> str | None:
    end = 0
    while end < len(text) and text[end] not in "0123456789.":
        end += 1
    return text[:end] if text[:end] in _GO_UNITS_MS else None


_LEASE_FORMATS = {"ms": _read_ms, "go": _read_go, "seconds": _read_seconds}

#: The schema of the Java client (amazon-dynamodb-lock-client); the default.
JAVA = Schema(
    name="JAVA",
    partition_key="key",
    sort_key=None,
    sort_key_value=None,
    owner="ownerName",
    lease="leaseDuration",
    lease_format="ms",
    version="recordVersionNumber",
    released="isReleased",
    data="data",
    token="fencingToken",  # noqa: S106 - the name of an attribute
    ttl="ttl",
    ttl_seconds=None,
    completed_until="completedUntil",
    result="result",
    waiters="waiters",
    held_ms="heldMs",
    permits="permits",
    permit_tokens="permitTokens",
)
#: The schema of the Go client, cirello.io/dynamolock. It has no queue: a Go client that waits writes the columns of its
#: first poll back.
GO = JAVA.replace(name="GO", lease_format="go", waiters=None, held_ms=None)
#: The schema of python-dynamodb-lock, which deletes a row on release and always gives it an expiry_time.
PYTHON = Schema(
    name="PYTHON",
    partition_key="lock_key",
    sort_key="sort_key",
    sort_key_value="-",
    owner="owner_name",
    lease="lease_duration",
    lease_format="seconds",
    version="record_version_number",
    released=None,
    data="data",
    token="fencing_token",  # noqa: S106 - the name of an attribute
    ttl="expiry_time",
    ttl_seconds=3600,
    completed_until="completed_until",
    result="result",
    waiters=None,
    held_ms=None,
    permits=None,
    permit_tokens=None,
)
_VERSION_NAMES = (JAVA.version, PYTHON.version)


class Row:
    """One item of the table, read in one schema, and what it shows of a lock. permits.py has that of a semaphore.

    item: the whole item as DynamoDB JSON.
    version: None for a free lock.
    lease_ms, token, completed_until: None if absent or unreadable. `unreadable` says which; `require_lease` and
        `require_token` raise an error.
    waiters: the places of those who wait, oldest first. None if they cannot be read: then nobody counts as waiting.
    seen: what `may_take_over` has observed of the holder.
    """

    __slots__ = (
        "completed_until",
        "expiry_ms",
        "item",
        "lease_ms",
        "owner",
        "released",
        "seen",
        "token",
        "version",
        "waiters",
    )

    permits = 1  # how many may hold at once
    free = 1  # how many more may hold, if anybody may

    seen: Observation

    def __init__(self, item: Item, schema: Schema) -> None:
        self.item = item
        self.version = text_of(item, schema.version)
        self.owner = text_of(item, schema.owner)
        self.released = schema.released is not None and text_of(item, schema.released) == RELEASED
        self.lease_ms = schema.read_lease(item.get(schema.lease))
        self.token = whole_of(item, schema.token, TOKEN_DIGITS)
        self.completed_until = whole_of(item, schema.completed_until, _SECONDS_DIGITS)
        self.expiry_ms = expiry_of(self.version) if self.version is not None else None
        self.waiters = _places(item, schema.waiters)

    @property
    def is_free(self) -> bool:
        """Whether the slot is free: it was released, or never taken."""
        return self.released or self.version is None

    # -- of the holders, for who wants to take the lock

    @property
    def is_held(self) -> bool:
        """Whether there may be a holder."""
        return not self.is_free

    @property
    def taken_over(self) -> str | None:
        """The version that a take-over requires. None if a claim does."""
        return None if self.is_free else self.version

    def holders(self) -> tuple[Holder, ...]:
        """Return who holds the lock: nobody, if it is free."""
        if self.is_free:
            return ()
        return (Holder(self.owner, None if self.expiry_ms is None else self.expiry_ms / 1000, self.token),)

    def may_take_over(
        self,
        schema: Schema,
        where: tuple[str, str | None],
        observations: Observations,
        reading: ClockReading,
        date: int | None,
    ) -> bool:
        """Note what is observed of the holder. Return whether its validity is over, by the rules of lease.py.

        Raises LockFormatError if its lease cannot be read.
        """
        self.seen = observations.note(where, self, self.require_lease(schema, where[0]), reading, date)
        return lease.may_take_over(self, self.seen, reading, date)

    def is_free_for_all(self, date: int | None) -> bool:
        """Whether the lock is there for the taking as everybody sees it: released, or past its expiry by the Date, and
        not just unchanged for its lease since I first saw it."""
        return self.is_free or (self.expiry_ms is not None and date is not None and date * 1000 >= self.expiry_ms)

    def ends(self, now: float, reading: ClockReading) -> list[float]:
        """Return in how many seconds the lock may become free without its holder. now: DynamoDB's time."""
        ends = [self.seen.seconds_left(reading.monotonic)]
        if self.expiry_ms is not None:
            # A Date is truncated to whole seconds, so it reaches the expiry at the next full second.
            ends.append(-(-self.expiry_ms // 1000) - now)
        return ends

    def lease_left(self, now: float, reading: ClockReading, date: int | None) -> float | None:
        """Return how many seconds the holder's lease has left. None if nobody must wait for that."""
        if lease.may_take_over(self, self.seen, reading, date):
            return 0.0
        left = self.seen.seconds_left(reading.monotonic)
        if self.expiry_ms is not None:
            left = min(left, self.expiry_ms / 1000 - now)
        return max(left, 0.0)

    # for errors: "lock 'a' is held by b"

    def state(self) -> str:
        return f"is held by {self.owner or 'somebody else'}"

    @property
    def vacancy(self) -> str | None:
        return "is free" if self.is_free else None

    def check_token(self, schema: Schema, key: str) -> None:
        """Raise LockFormatError if the next grant cannot add to the row's token. With none, tokens start again."""
        if schema.token in self.item and whole_of(self.item, schema.token, TOKEN_DIGITS) is None:
            raise _bad_token(self.item, schema, key)

    def require_lease(self, schema: Schema, key: str) -> int:
        """Return the lease in ms. Raises LockFormatError if it cannot be read: such a row is never taken over."""
        if self.version == SEAL:
            raise LockFormatError(
                f"{key!r} is a semaphore, not a lock: it was acquired with permits=. Pass permits= to acquire as well "
                "(a list of keys takes locks only), or give the lock another key",
                key=key,
            )
        if self.lease_ms is None:
            raise LockFormatError(
                f"the row of lock {key!r}, held by {self.owner!r}, has a {schema.lease} that the schema {schema.name} "
                f"cannot read: {self.item.get(schema.lease)!r}. The row is left alone; pass the client the schema that "
                "the row was written in, or delete the row once no work is done under the lock",
                key=key,
            )
        return self.lease_ms

    def require_token(self, schema: Schema, key: str) -> int:
        """Return the fencing token. Raises LockFormatError if it cannot be read: the next grant could not add to it."""
        if self.token is None:
            raise _bad_token(self.item, schema, key)
        return self.token

    def held_ms(self, schema: Schema) -> int | None:
        """Return how long the last holder held the lock, in ms. None if that is not known, or is over a day."""
        held_ms = None if schema.held_ms is None else whole_of(self.item, schema.held_ms, _MS_DIGITS)
        return None if held_ms is None or held_ms > _DAY_MS else held_ms

    def waiting(self, date: int | None) -> int:
        """Return how many of the places count by a Date."""
        return sum(counts(place, date) for place in self.waiters or ())

    def unreadable(self, schema: Schema) -> tuple[str, ...]:
        """Return the names of attributes that are present but cannot be read, and of a held row's missing lease."""
        values = {schema.token: self.token, schema.completed_until: self.completed_until}
        names = [name for name, value in values.items() if value is None and name in self.item]
        if not self.is_free and self.lease_ms is None and self.version != SEAL:
            names.insert(0, schema.lease)
        return tuple(names)


def _bad_token(item: Item, schema: Schema, key: str) -> LockFormatError:
    return LockFormatError(
        f"the row of lock {key!r} has a {schema.token} that is not a whole number of up to {TOKEN_DIGITS} digits: "
        f"{item.get(schema.token)!r}. Set it to a number above all tokens that were used, or delete the row once no "
        "work is done under the lock: tokens then start again",
        key=key,
    )


def read_row(item: Item | None, schema: Schema, key: str) -> Row | None:
    """Return the row of an item, or None if there is no item.

    Raises LockFormatError if the row was written in another schema, or if its version is not a string.
    """
    if not item:
        return None
    if schema.version not in item and (others := [name for name in schema.foreign_versions if name in item]):
        raise LockFormatError(
            f"the row of lock {key!r} was written in another schema than {schema.name}: it has no {schema.version}, "
            f"but a {others[0]}. The row is left alone; pass the client the schema that the row was written in",
            key=key,
        )
    if schema.version in item and text_of(item, schema.version) is None:
        raise LockFormatError(
            f"the row of lock {key!r} has a {schema.version} that is not a string: {item[schema.version]!r}. "
            "The row is left alone; check that the table holds locks and that the attribute names are right",
            key=key,
        )
    return Row(item, schema)


def base_of(owner: str | None) -> str | None:
    """Return the part of an owner that names the hold: ``prefix#nonce``, without the attempt's ``/…``.

    A prefix may contain "/" and "#". So the base ends at the first "/" after the last "#". An owner without "#" is not
    ours, and is its own base.
    """
    if owner is None or "#" not in owner:
        return owner
    prefix, _, rest = owner.rpartition("#")
    return f"{prefix}#{rest.partition('/')[0]}"


def is_attempt(owner: str) -> bool:
    """Return whether an owner names a resumed handle, or nobody after one: ``prefix#nonce/…``."""
    return base_of(owner) != owner


def text_of(item: Item, name: str) -> str | None:
    value = item.get(name, {}).get("S")
    return value if isinstance(value, str) else None


def _places(item: Item, name: str | None) -> tuple[str, ...] | None:
    value = None if name is None else item.get(name)
    if value is None:
        return ()
    entries = value.get("L")
    if not isinstance(entries, list) or len(entries) > MOST_WAITERS:
        return None
    places = [entry.get("S") for entry in entries]
    return tuple(places) if all(isinstance(place, str) and len(place) <= _LONGEST_PLACE for place in places) else None


def make_place(name: str, expiry: int) -> str:
    """Return a place in the queue: its name, and its expiry in epoch seconds, to the base 36 (until 2038-12-23)."""
    digits = ""
    for _ in range(6):
        expiry, digit = divmod(expiry, 36)
        digits = _DIGITS[digit] + digits
    return name + digits


def place_expiry(place: str) -> int | None:
    """Return when a place expires, in epoch seconds. None if we did not write it."""
    digits = place[PLACE_NAME:]
    return int(digits, 36) if len(digits) == 6 and set(_DIGITS).issuperset(digits) else None


def counts(place: str, date: int | None) -> bool:
    """Return whether somebody is expected to wait in a place, by a Date. Without one, every place of ours counts."""
    expiry = place_expiry(place)
    return expiry is not None and (date is None or date <= expiry <= date + LONGEST_BELIEVED)


def whole_of(item: Item, name: str, digits: int) -> int | None:
    """Return the exact value of a whole number, 0 or more, with at most ``digits`` digits. None for anything else."""
    text = item.get(name, {}).get("N")
    if not isinstance(text, str) or len(text) > 64 or not _NUMERALS.issuperset(text):
        return None
    if not text.isdigit():
        from decimal import Decimal, InvalidOperation  # rarely needed, and importing it takes 2 ms

        try:
            number = Decimal(text)
        except InvalidOperation:
            return None
        if number < 0 or number.adjusted() >= digits or number != number.to_integral_value():
            return None
        return int(number)
    value = int(text)
    return value if value < 10**digits else None
