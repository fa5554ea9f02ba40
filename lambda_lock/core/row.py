"""The row: what the table stores for one lock.

The most important rule here: **the stored expiry is part of the version and is stored nowhere else.** Other client
libraries treat the version as opaque, and replace it whenever they take or renew a row. So our expiry is never left
behind on a lock that another client library holds now. A version that does not parse has no stored expiry.

A lease that cannot be read is an error that names the row. It is never a reason to take the row over.
"""

from __future__ import annotations

from functools import lru_cache  # the Lambda runtime has it loaded

from ..errors import DuplicateEventError, Holder, LockFormatError
from . import lease
from .outcome import undated
from .schema import ASLEEP, NUMERALS, RESULT_OF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .lease import ClockReading, Observation, Observations
    from .outcome import Item
    from .schema import Schema

SEAL = "semaphore"  # the version, owner and lease of a semaphore's row: held, for a time that no client can read
WEIGHED = "semaphore2"  # the version of one that counts what each holder takes. Older versions of ours refuse it
RATE = "rate"  # those of a rate limit's row (rate.py)
#: For errors, by the version of a row: what the row is if it is not a lock's, and what to do about it.
_NO_LOCKS = {
    SEAL: "a semaphore, not a lock: it was acquired with permits=. Pass permits= to acquire as well (a list of keys "
    "takes locks only)",
    RATE: "a rate limit, not a lock: it was taken by rate_limit. Leave it to that",
}
_NO_LOCKS[WEIGHED] = (
    "a semaphore, not a lock: it was acquired with take= or shared=. Pass shared=False to acquire to be the only one, "
    "or permits= and take= as the others do (a list of keys takes locks only)"
)
RELEASED = "1"  # the only value of `isReleased`: with any other, the Java client never grants and the Go client hangs
_VERSION_PREFIX = "L1:"
_HEX = "0123456789abcdef"
#: The text of a result begins with this, what RESULT_OF says and a space, wherever it is not in the row. No JSON does.
RESULT_MADE = "made:"
_NEXT_DIGITS = 18  # of a rate limit's nextAt. In microseconds, that is the year 33658
TOKEN_DIGITS = 37  # DynamoDB's numbers have 38 digits, and the next grant adds one to the token
_DAY_MS = 86_400_000
_HANDOVER = 0.05  # seconds between two holders
_MS_DIGITS = 14  # of epoch ms, and of the ms that a lock was held
MOST_WAITERS = 64
MOST_PERMITS = 100
LONGEST_LEASE = 366 * 86_400.0  # seconds; keeps expiries at 13 digits. A semaphore's time to live counts on it
_LONGEST_TICKET = 64  # characters; ours have 14 or 16
TICKET_NAME = 8  # characters of a ticket; the next 6 are its expiry, and two more what it takes if that is not 1
LONGEST_BELIEVED = 35  # seconds from now to a ticket's expiry: the longest lease of a ticket, and 5 s for wrong clocks
SLEEPERS = "~sleeper"  # the name of the ticket that the waker has for all sleepers (waker/)
OF_SLEEPERS = "~sleepers"  # the end of the key of a row of sleepers (sleepers.py). No lock may have such a key
NOT_A_KEY = (  # the end of the error
    f"ends with {OF_SLEEPERS!r}, as the row of another lock's sleepers does, and would be mixed up with it: give it "
    "another key, such as one with a field behind"
)
LONGEST_NAP_ASLEEP = 935  # seconds from now to that ticket's expiry: the waker's longest time between looks, + 35 s
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MOST_WATCHED = 1000  # rows of which the newest grant is remembered
_MOST_NOTICED = 100
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
    if not (digits.isascii() and digits.isdigit()) or nonce.strip(_HEX):  # strip() stops at any other character
        return None
    return int(digits)


class Row:
    """One item of the table, read in one schema, and what it shows of a lock. A semaphore has PermitRow (permits.py).

    item: the whole item as DynamoDB JSON.
    version: None for a free lock.
    lease_ms, token, completed_until: None if absent or unreadable. `unreadable` says which; `require_lease` and
        `require_token` raise an error.
    waiters: the tickets of those who wait, oldest first. None if they cannot be read: then nobody counts as waiting.
    is_free: whether the slot is free: it was released, or never taken.
    is_held: whether there may be a holder.
    taken_over: the version that a take-over requires. None: a claim is due.
    seen: what `may_take_over` has observed of the holder.
    """

    permits = 1  # how many may hold at once
    free = 1  # how many permits can be taken now, if the row can be claimed
    take = 1  # how many the caller takes
    own_take = 1  # how many the hold has that the caller asks for
    at_once = 1  # how many holders the caller expects at once
    format: str | None = None  # of a semaphore's row: its version

    seen: Observation

    def __init__(self, item: Item, schema: Schema) -> None:
        self.item = item
        self.schema = schema
        self.version = text_of(item, schema.version)
        self.owner = text_of(item, schema.owner)
        self.released = schema.released is not None and item.get(schema.released) == {"S": RELEASED}
        self.lease_ms = schema.read_lease(item.get(schema.lease))
        self.token = whole_of(item, schema.token, TOKEN_DIGITS)
        self.completed_until = whole_of(item, schema.completed_until, _SECONDS_DIGITS)
        self.expiry_ms = expiry_of(self.version) if self.version is not None else None
        self.is_free = self.released or self.version is None
        self.is_held = not self.is_free
        self.taken_over = None if self.is_free else self.version
        self.waiters: tuple[str, ...] | None = ()
        line = None if schema.waiters is None else item.get(schema.waiters)
        if line is not None:
            entries = line.get("L")
            tickets: list[Any] = [entry.get("S") for entry in entries] if isinstance(entries, list) else [None]
            readable = all(isinstance(ticket, str) and len(ticket) <= _LONGEST_TICKET for ticket in tickets)
            self.waiters = tuple(tickets) if readable and len(tickets) <= MOST_WAITERS else None

    # -- the holders, for a caller that wants the lock

    def holders(self) -> tuple[Holder, ...]:
        """Return who holds the lock: nobody, if it is free."""
        if self.is_free or self.version == RATE:
            return ()
        return (Holder(self.owner, None if self.expiry_ms is None else self.expiry_ms / 1000, self.token),)

    def may_take_over(
        self, where: tuple[str, str | None], observations: Observations, reading: ClockReading, date: int | None
    ) -> bool:
        """Note what is observed of the holder. Return whether its validity is over, by the rules of lease.py.

        Raises LockFormatError if its lease cannot be read.
        """
        self.seen = observations.note(where, self, self.require_lease(where[0]), reading, date)
        return lease.may_take_over(self, self.seen, reading, date)

    def need(self, ticket: str) -> int:
        """Return how many permits have to be free for the owner of a ticket."""
        return 1

    def is_awaited(self, date: int | None) -> bool:
        """Whether all that is free is left to those who wait, also by callers that do not queue. Never for a lock."""
        return False

    def is_free_for_all(self, date: int | None, ticket: str | None = None) -> bool:
        """Whether every caller sees that the owner of a ticket may take the lock: it is released, or past its expiry by
        the Date, and not just unchanged for its lease since I first saw it."""
        return self.is_free or (self.expiry_ms is not None and date is not None and date * 1000 >= self.expiry_ms)

    def ends(self, now: float, reading: ClockReading) -> list[float]:
        """Return in how many seconds the lock may become free without a release. now: DynamoDB's time."""
        ends = [self.seen.seconds_left(reading.monotonic)]
        if self.expiry_ms is not None:
            # A Date is truncated to whole seconds, so it reaches the expiry at the next full second.
            ends.append(-(-self.expiry_ms // 1000) - now)
        return ends

    def lease_left(self, now: float, reading: ClockReading, date: int | None) -> float | None:
        """Return how many seconds the holder's lease has left. (None only for a semaphore: permits.py.)"""
        if lease.may_take_over(self, self.seen, reading, date):
            return 0.0
        left = self.seen.seconds_left(reading.monotonic)
        if self.expiry_ms is not None:
            left = min(left, self.expiry_ms / 1000 - now)
        return max(left, 0.0)

    def turn(self, ahead: int, lease_left: float | None) -> float | None:
        """Return an estimate of the seconds until a waiter with ``ahead`` others ahead gets the lock.

        It assumes that each holds the lock for as long as the last holder did, and the present one at most until its
        lease ends. The sum is at most a day. If the last holder's time is not known, it is ``lease_left``, or None.
        """
        held_ms = self.held_ms()
        if held_ms is None:
            return lease_left
        hold = held_ms / 1000 / self.at_once  # with N holders at once, one of N releases N times as often
        first = hold if lease_left is None else min(hold, lease_left)
        return min(first + ahead * hold + (ahead + 1) * _HANDOVER, _DAY_MS / 1000)

    def refuse_done(self, key: str, date: int | None) -> None:
        """Raise DuplicateEventError if the event is done, judged by DynamoDB's time (rule 11 of protocol.py)."""
        schema = self.schema
        stored, until = self.item.get(schema.completed_until), self.completed_until
        if stored is None:
            return
        if until is None or stored != {"N": str(until)}:  # a claim that expects another number would never be granted
            raise LockFormatError(
                f"the row of event {key!r} has a {schema.completed_until} that cannot be read as epoch seconds: "
                f"{stored!r}. The row is left alone; remove that attribute, or the row",
                key=key,
            )
        if date is None:
            raise undated(key)
        if until > date:
            raise DuplicateEventError(
                f"event {key!r} was completed before, and counts as done for another {until - date} s",
                key=key,
                result=self._result_made(until),
                completed_until=until,
            )

    def _result_made(self, until: int) -> str | None:
        """The result of the completion ``until``, with what RESULT_OF says of it."""
        text = text_of(self.item, self.schema.result)
        of, _, made = (text_of(self.item, RESULT_OF) or "").partition(":")
        is_of_it = text is not None and of == str(until) and made.replace(":", "").isalnum()
        return f"{RESULT_MADE}{made} {text}" if is_of_it else text

    # for errors: "lock 'a' is held by b"

    def state(self) -> str:
        return f"is held by {self.owner or 'somebody else'}"

    @property
    def vacancy(self) -> str | None:
        return "is free" if self.is_free else None

    def check_token(self, key: str) -> None:
        """Raise LockFormatError if the next grant cannot add to the row's token. With none, tokens start again."""
        if self.schema.token in self.item and whole_of(self.item, self.schema.token, TOKEN_DIGITS) is None:
            raise self._bad_token(key)

    def require_lease(self, key: str) -> int:
        """Return the lease in ms. Raises LockFormatError if it cannot be read: such a row is never taken over."""
        self.require_lock(key)
        if self.lease_ms is None:
            schema = self.schema
            raise LockFormatError(
                f"the row of lock {key!r}, held by {self.owner!r}, has a {schema.lease} that the schema {schema.name} "
                f"cannot read: {self.item.get(schema.lease)!r}. The row is left alone; pass the client the schema that "
                "the row was written in, or delete the row once no work is done under the lock",
                key=key,
            )
        return self.lease_ms

    def require_lock(self, key: str) -> None:
        """Raise LockFormatError if this is a semaphore's row, or a rate limit's, read as that of a lock."""
        if self.version in _NO_LOCKS:
            advice = "or give the lock another key, or erase the row once nobody uses it (lambda-lock erase)"
            raise LockFormatError(f"{key!r} is {_NO_LOCKS[self.version]}, {advice}", key=key)

    def require_token(self, key: str) -> int:
        """Return the fencing token. Raises LockFormatError if it cannot be read: the next grant could not add to it."""
        if self.token is None:
            raise self._bad_token(key)
        return self.token

    def _bad_token(self, key: str) -> LockFormatError:
        name = self.schema.token
        return LockFormatError(
            f"the row of lock {key!r} has a {name} that is not a whole number of up to {TOKEN_DIGITS} digits: "
            f"{self.item.get(name)!r}. Set it to a number above all tokens that were used, or delete the row once no "
            "work is done under the lock: tokens then start again",
            key=key,
        )

    @property
    def rate(self) -> str | None:
        """The rate of a rate limit: ``limit/per/burst``, "?" if it cannot be read. None if the row is not one's."""
        return (text_of(self.item, self.schema.rate or "") or "?") if self.version == RATE else None

    @property
    def next_at(self) -> int | None:
        """The nextAt of a rate limit, in microseconds (rate.py). None if it cannot be read, or is absent."""
        return whole_of(self.item, self.schema.next_at or "", _NEXT_DIGITS)

    def held_ms(self) -> int | None:
        """Return how long the last holder held the lock, in ms. None if that is not known, or is over a day."""
        name = self.schema.held_ms
        held_ms = None if name is None else whole_of(self.item, name, _MS_DIGITS)
        return None if held_ms is None or held_ms > _DAY_MS else held_ms

    @property
    def sleepers(self) -> int:
        """How many sleep until the lock is free, as the waker has noted it."""
        return whole_of(self.item, ASLEEP, 4) or 0 if self.schema.waiters is not None else 0

    def sleepers_come(self, date: int | None) -> bool:
        """Return whether the sleepers have a ticket that counts."""
        return any(is_of_sleepers(ticket) and counts(ticket, date) for ticket in self.waiters or ())

    def waiting(self, date: int | None) -> int:
        """Return how many of the tickets count by a Date."""
        return sum(counts(ticket, date) for ticket in self.waiters or ())

    def unreadable(self) -> tuple[str, ...]:
        """Return the names of attributes that are present but cannot be read, and of a held row's missing lease."""
        schema = self.schema
        values = {schema.token: self.token, schema.completed_until: self.completed_until}
        names = [name for name, value in values.items() if value is None and name in self.item]
        if not self.is_free and self.lease_ms is None and self.version not in _NO_LOCKS:
            names.insert(0, schema.lease)
        if self.rate is not None and self.next_at is None:
            names.insert(0, schema.next_at or "")
        return tuple(names)


def kind_of(version: str | None) -> str:
    """Return what a row with this version is, for errors: "a lock", "a semaphore" or "a rate limit"."""
    return _NO_LOCKS.get(version or "", "a lock").partition(",")[0]


def read_row(item: Item | None, schema: Schema, key: str) -> Row | None:
    """Return the row of an item, or None if there is no item.

    Raises LockFormatError if the row was written in another schema, or if its version is not a string.
    """
    if not item:
        return None
    row = Row(item, schema)
    if row.version is not None:
        return row
    others = [name for name in schema.foreign_versions if name in item]
    if schema.version not in item and others:
        raise LockFormatError(
            f"the row of lock {key!r} was written in another schema than {schema.name}: it has no {schema.version}, "
            f"but a {others[0]}. The row is left alone; pass the client the schema that the row was written in",
            key=key,
        )
    if schema.version in item:
        raise LockFormatError(
            f"the row of lock {key!r} has a {schema.version} that is not a string: {item[schema.version]!r}. "
            "The row is left alone; check that the table holds locks and that the attribute names are right",
            key=key,
        )
    return row


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
    """Return whether an owner is an attempt's, ``prefix#nonce/<hex>``, or the parked one, ``prefix#nonce/``."""
    return base_of(owner) != owner


def text_of(item: Item, name: str) -> str | None:
    value = item.get(name, {}).get("S")
    return value if isinstance(value, str) else None


def map_of(item: Item, name: str | None) -> dict[str, Any] | None:
    content = None if name is None else item.get(name, {}).get("M")
    return content if isinstance(content, dict) else None


def split_result(text: str | None) -> tuple[str | None, str | None]:
    """Return by what settings a result is made, and its text in the row. None for what is not there."""
    if text is None or not text.startswith(RESULT_MADE):
        return None, text
    made, _, stored = text[len(RESULT_MADE) :].partition(" ")
    return made, stored


def ticket_expiry(ticket: str) -> int | None:
    """Return when a ticket expires, in epoch seconds. None if we did not write it."""
    digits = ticket[TICKET_NAME:]
    return int(digits[:6], 36) if len(digits) in (6, 8) and set(DIGITS).issuperset(digits) else None


def ticket_take(ticket: str) -> int:
    """Return how many permits the owner of a ticket wants. 1 also for one that does not count."""
    digits = ticket[TICKET_NAME + 6 :]
    return int(digits, 36) if digits and ticket_expiry(ticket) is not None else 1


def counts(ticket: str, date: int | None) -> bool:
    """Return whether a ticket is neither expired nor dated too far ahead, by a Date. Without, each of ours counts."""
    expiry = ticket_expiry(ticket)
    believed = LONGEST_NAP_ASLEEP if is_of_sleepers(ticket) else LONGEST_BELIEVED
    return expiry is not None and (date is None or date <= expiry <= date + believed)


def is_of_sleepers(ticket: str) -> bool:
    """Return whether a ticket is the one that the waker has for all sleepers."""
    return ticket.startswith(SLEEPERS)


def whole_of(item: Item, name: str, digits: int) -> int | None:
    """Return the exact value of a whole number, 0 or more, with at most ``digits`` digits. None for anything else."""
    text = item.get(name, {}).get("N")
    if not isinstance(text, str) or len(text) > 64:
        return None
    if not (text.isascii() and text.isdigit()):
        if text.strip(NUMERALS):  # strip() stops at any other character
            return None
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


class Watch:
    """What is to be told of rows that changed under a client. It decides nothing.

    noticed: by event and row, its Place (requests.py), and what its message says.
    """

    def __init__(self) -> None:
        self.noticed: dict[object, tuple[str, Any, tuple[int, ...]]] = {}
        # The newest grant that rows have shown: its token, expiry and owner, and when it was seen, in elapsed seconds.
        self._newest: dict[object, tuple[int, int, str | None, float]] = {}

    def notice(self, event: str, place: Any, *about: int) -> None:
        if len(self.noticed) < _MOST_NOTICED:
            self.noticed[event, place.where] = event, place, about

    def look(self, place: Any, row: Row, began: float, now: float) -> None:
        """Note the newest grant that a row shows. Notice one that is of the past: "token_fell".

        Tokens rise with grants, versions with the renewals of one, and no two grants have one token. So an older one
        than was seen before this acquisition began means that the row was restored, or deleted and made anew.
        began, now: elapsed seconds. What was seen since may have been the answer to a later request.
        """
        token, expiry_ms, owner = row.token, row.expiry_ms, row.owner
        if place.permits is not None:  # the row's own token; its version tells nothing
            token, expiry_ms, owner = whole_of(row.item, row.schema.token, TOKEN_DIGITS), 0, None
        if token is None or expiry_ms is None:  # of another client library
            return
        last = self._newest.get(place.where)
        if last is not None and token <= last[0]:
            is_same = token == last[0] and base_of(owner) == base_of(last[2])
            if not is_same or expiry_ms < last[1]:
                if began < last[3]:
                    return
                self.notice("token_fell", place, token, last[0])
        elif len(self._newest) >= _MOST_WATCHED:
            self._newest.clear()
        self._newest[place.where] = token, expiry_ms, owner, now


@lru_cache(maxsize=64)  # a client sends the same few texts again and again
def names_used(fields: tuple[str, ...], schema: Schema, text: str) -> dict[str, str]:
    """Return the placeholders of a schema's fields that an expression has, with their names. Not to be changed."""
    return {f"#{field}": getattr(schema, field) for field in fields if f"#{field}" in text}
