"""The schemas: the names and formats in which a row is written, so that it can be shared with other clients."""

from __future__ import annotations

from ..errors import LockArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NUMERALS = "0123456789+-.eE"
_LONGEST_MS = 2**63 - 1  # the longest lease that a Java client can write; anything above it counts as unreadable
#: The names of a version in JAVA and GO, and in PYTHON, each with the other one.
_OTHER_VERSION = {"recordVersionNumber": ("record_version_number",), "record_version_number": ("recordVersionNumber",)}
_LONGEST_DURATION = 64  # characters; Go writes at most "2562047h47m16.854775807s"
ASLEEP, WAKE_AT = "sleepers", "wakeAt"  # how many sleep until the lock is free, and when the waker looks next (waker/)
#: By what settings a result was stored: ``<completedUntil>:<fields of validate>:<type>``. With another completedUntil
#: than the row's, it is of an older result, which a client without it has replaced, and means nothing.
RESULT_OF = "resultOf"
#: Fields of a Schema that do not name an attribute of the lock's own.
_NO_ATTRIBUTES = ("lease_format", "name", "partition_key", "sort_key", "sort_key_value", "ttl_seconds")


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
    waiters: the attribute with the tickets of those who wait, oldest first; None if this schema has no queue.
    held_ms: the attribute with the time that the last holder held the lock; None if there is no queue.
    permits: the attribute with the holders of a semaphore; None if this schema has no semaphores.
    permit_tokens: the attribute with their fencing tokens; None if this schema has no semaphores.
    permit_takes: the attribute with how many permits they take; None if this schema has no semaphores.
    permits_taken: the attribute with the sum of those; None if this schema has no semaphores.
    next_at: the attribute with the time from which a rate limit's next start is free; None if this schema has no rate
        limits.
    last_take: the attribute with the name of the newest take of a start; None if this schema has no rate limits.
    rate: the attribute that says how often; None if this schema has no rate limits.

    Raises LockArgumentError for an unknown field, an unknown lease_format, or two fields with the same attribute name.

    Example::

        client = LockClient("locks", schema=JAVA.replace(data="payload"))
    """

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
    permit_takes: str | None
    permits_taken: str | None
    next_at: str | None
    last_take: str | None
    rate: str | None

    __slots__ = tuple(sorted(__annotations__))

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
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _schema, (self._fields(),)

    def attribute_names(self) -> tuple[str | None, ...]:
        """Return the names that belong to the lock. The application's own attributes must not use them."""
        own = [getattr(self, field) for field in self.__slots__ if field not in _NO_ATTRIBUTES]
        return (*own, RESULT_OF, *((ASLEEP, WAKE_AT) if self.waiters is not None else ()))

    @property
    def foreign_versions(self) -> tuple[str, ...]:
        """The other schemas' names for a version. A row with one of these, and without ours, is not a free lock."""
        return _OTHER_VERSION.get(self.version, tuple(_OTHER_VERSION))

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
    if not isinstance(text, str) or text.strip(NUMERALS):  # strip() stops at any other character
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
        unit = _leading(rest[len(number) :], "hmnsu\u00b5\u03bc")
        if unit not in _GO_UNITS_MS or not number.strip(".") or number.count(".") > 1:
            return None
        total += float(number) * _GO_UNITS_MS[unit]
        start += len(number) + len(unit)
    return _up(total)


def _up(milliseconds: float) -> int | None:
    """Round up: a lease read too long makes us wait, one read too short makes us steal. None if it is not finite."""
    return -int(-milliseconds // 1) if abs(milliseconds) <= _LONGEST_MS else None


def _leading(text: str, allowed: str) -> str:
    return text[: len(text) - len(text.lstrip(allowed))]


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
    permit_takes="permitTakes",
    permits_taken="permitsTaken",
    next_at="nextAt",
    last_take="lastTake",
    rate="rate",
)
