"""Semaphores: at most N holders of one key. Loaded only by those who pass ``permits=N``.

A semaphore is one row with two maps. ``permits`` has an entry for each holder, by the nonce of its owner:
``<version>:<lease ms>:<owner prefix>``. ``permitTokens`` has the fencing token of each. The version, owner and lease of
the row itself are the SEAL: held, with a lease that no client can read. So every client that takes locks refuses it.

| request | condition                                                                      | effect                    |
|---------|--------------------------------------------------------------------------------|---------------------------|
| first   | no version (of any schema), no token, no map                                   | seals, maps with my entry |
| claim   | sealed; no entry of mine; the dead entries as observed; size < N + their count | they go, mine comes       |
| correct | my entry has the version sent                                                  | new version and token     |
| renew   | my token; my entry < the new one                                               | new version               |
| release | my token (to give up: my entry has the version sent)                           | mine goes                 |

Why there are never more than N valid holders, if all callers pass the same N
------------------------------------------------------------------------------
1. **Each valid holder has an entry.** Only its own release removes it, or a claim that found it dead, by the same rules
   as for a lock: its holder's validity is over. The claim requires the dead entry as observed, and each renewal changes
   it.
2. **There are never more than N entries.** Only a claim adds one. It requires that fewer than N are left, and DynamoDB
   evaluates condition and write as one step. The size counts also when dead entries are replaced, because others may
   have let in more meanwhile.
3. **An entry is added once for each claim that lands while there is no entry of mine.** Without this, a late copy of a
   claim could turn a renewed entry back to its old expiry, and the holder would be replaced while it is valid.
4. **Rules 3 to 10 of protocol.py hold entry by entry**, because owner and token identify one holder for ever. A copy of
   a claim that lands after its holder's release brings another token. It is an entry without a holder until its expiry.
5. **The end of validity is lost**, also with hold_on_unavailable: the entry may have been replaced meanwhile.
6. **The maps are never removed while they are empty**, and a row without maps is claimed by "first" alone.
7. **The row outlives its entries.** Claims and renewals set the ttl at least KEPT past their expiry, and a permit's
   lease is at most a day. So DynamoDB never deletes an entry that is valid. A release leaves the ttl as it is, because
   it may come late.

A row with a version that is not the SEAL is a lock's, and a semaphore never touches it.
"""

from __future__ import annotations

from ..errors import LockFormatError
from . import lease
from .acquire import DAY, HANDOVER, Acquisition, Held, Take
from .lease import Holder
from .requests import Place, Update, exists
from .row import LONGEST_PERMIT, MOST_PERMITS, SEAL, TOKEN_DIGITS, Row, expiry_of, read_row, text_of, whole_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .acquire import Next
    from .lease import ClockReading, Observation, Observations
    from .outcome import Item
    from .requests import Content, Grant, Line, Request
    from .row import Schema

KEPT = 2 * 86_400  # seconds that a row is kept past an expiry: the longest lease, and a day for copies that come late
_VERSION_LENGTH = 49
_NAMED = 5  # holders that an error names


class Entry:
    """One holder's entry in ``permits``, with its token."""

    __slots__ = ("expiry_ms", "lease_ms", "prefix", "text", "token", "version")

    def __init__(self, text: str, version: str, expiry_ms: int, lease_ms: int, prefix: str, token: int | None) -> None:
        self.text = text
        self.version = version
        self.expiry_ms = expiry_ms
        self.lease_ms = lease_ms
        self.prefix = prefix
        self.token = token


def write_entry(version: str, lease_ms: int, prefix: str) -> dict[str, Any]:
    """Return an entry in DynamoDB's JSON. Entries sort by expiry, as versions do."""
    return {"S": f"{version}:{lease_ms}:{prefix}"}


def read_entry(value: Any, token: int | None = None) -> Entry | None:
    """Return an entry, or None if we did not write it."""
    text = value.get("S") if isinstance(value, dict) else None
    if not isinstance(text, str) or text[_VERSION_LENGTH : _VERSION_LENGTH + 1] != ":":
        return None
    version = text[:_VERSION_LENGTH]
    lease, colon, prefix = text[_VERSION_LENGTH + 1 :].partition(":")
    expiry_ms = expiry_of(version)
    if expiry_ms is None or not colon or not (lease.isascii() and lease.isdigit()) or len(lease) > 8:
        return None
    lease_ms = int(lease)
    if not 0 < lease_ms <= LONGEST_PERMIT * 1000:
        return None
    return Entry(text, version, expiry_ms, lease_ms, prefix, token)


def entries_of(item: Item, schema: Schema) -> dict[str, Entry | None]:
    """Return the entries of a semaphore's row by nonce, the oldest grant first. None for one that cannot be read."""
    permits, tokens = _map(item, schema.permits) or {}, _map(item, schema.permit_tokens) or {}
    found = {nonce: read_entry(value, whole_of(tokens, nonce, TOKEN_DIGITS)) for nonce, value in permits.items()}
    return dict(sorted(found.items(), key=lambda one: (one[1] and one[1].token) or 0))


def holder_of(nonce: str, entry: Entry | None) -> Holder:
    """Return who an entry says holds a permit."""
    if entry is None:
        return Holder(None, None, None)
    return Holder(f"{entry.prefix}#{nonce}", entry.expiry_ms / 1000, entry.token)


def _map(item: Item, name: str | None) -> dict[str, Any] | None:
    content = None if name is None else item.get(name, {}).get("M")
    return content if isinstance(content, dict) else None


class PermitRow(Row):
    """A semaphore's row, as one of its callers sees it: version, owner, lease, expiry and token are those of its entry.

    permits: the caller's N.
    entries: all entries by nonce, the oldest grant first. None for one that cannot be read.
    dead, seen: of the entries of others, those that may be replaced, and what was observed of each. `judge` sets them.
    is_new: whether the row belongs to nobody yet.
    """

    __slots__ = ("dead", "entries", "is_new", "permits", "seen")

    def __init__(self, item: Item, schema: Schema, nonce: str, permits: int) -> None:
        super().__init__(item, schema)
        self.is_new = self.version is None
        self.released = False
        self.permits = permits
        self.entries = entries_of(item, schema)
        self.dead: dict[str, Entry] = {}
        self.seen: dict[str, Observation] = {}
        mine = self.entries.get(nonce)
        self.version = self.owner = self.lease_ms = self.expiry_ms = self.token = None
        if mine is not None:
            self.owner = f"{mine.prefix}#{nonce}"
            self.version, self.lease_ms, self.expiry_ms = mine.version, mine.lease_ms, mine.expiry_ms
            self.token = mine.token

    def judge(self, place: PermitPlace, observations: Observations, reading: ClockReading, date: int | None) -> None:
        """Find the entries that may be replaced: by the Date, or unchanged for their lease. Never mine."""
        known = observations.of_entries((place.where, "permits"), self.entries)
        for nonce, entry in self.entries.items():
            if entry is None or nonce == place.nonce:
                continue
            seen = known.note(nonce, entry, entry.lease_ms, reading, date)
            self.seen[nonce] = seen
            if lease.may_take_over(entry, seen, reading, date):
                self.dead[nonce] = entry

    @property
    def free(self) -> int:
        """How many permits are there for the taking. Below 0: others let in more than N."""
        return self.permits - len(self.entries) + len(self.dead)

    def free_by(self, date: int | None) -> int:
        """How many permits are there for the taking as everybody sees it."""
        return self.permits - sum(not _has_passed(entry, date) for entry in self.entries.values())

    def holders(self) -> tuple[Holder, ...]:
        """Return who holds the permits: all but the dead."""
        return tuple(holder_of(nonce, entry) for nonce, entry in self.entries.items() if nonce not in self.dead)


def _has_passed(entry: Entry | None, date: int | None) -> bool:
    return entry is not None and date is not None and date * 1000 >= entry.expiry_ms


class PermitPlace(Place):
    """Where a permit is: an entry of a semaphore's row, by the nonce of its owner."""

    __slots__ = ("nonce", "permits", "prefix")

    permits: int

    def __init__(self, place: Place, permits: int, owner: str) -> None:
        """place: the row. permits: N. owner: ``prefix#nonce``."""
        for name in Place.__slots__:
            setattr(self, name, getattr(place, name))
        self.permits = permits
        self.prefix, _, self.nonce = owner.rpartition("#")

    def row(self, item: Item | None) -> PermitRow:
        """Return the row of an item. Raises LockFormatError for a lock's row, and for one that is damaged."""
        schema = self.schema
        read_row(item, schema, self.key)
        item = item or {}
        if schema.version in item and text_of(item, schema.version) != SEAL:
            raise LockFormatError(
                f"{self.key!r} is a lock, not a semaphore: it was acquired without permits=. Acquire it without "
                f"permits= here as well, give the semaphore another key, or delete the row once nobody works under it",
                key=self.key,
            )
        maps = [_map(item, name) for name in (schema.permits, schema.permit_tokens)]
        if schema.version in item:
            # Beside a released one, a lock's claim would be let in.
            sound = None not in maps and schema.released not in item
            sound = sound and all(len(one or ()) <= MOST_PERMITS for one in maps)
        else:
            sound = not {schema.token, schema.permits, schema.permit_tokens} & item.keys()
        if not sound:
            raise LockFormatError(
                f"the row of semaphore {self.key!r} is damaged: {schema.version}, {schema.released}, {schema.permits}, "
                f"{schema.permit_tokens} and {schema.token} do not belong together, or have more than {MOST_PERMITS} "
                "entries. The row is left alone; delete it once nobody works under it",
                key=self.key,
            )
        return self.view(item)

    def view(self, item: Item) -> PermitRow:
        return PermitRow(item, self.schema, self.nonce, self.permits)

    def acquisition(self) -> type[Acquisition]:
        return Admission

    def renew(self, **how: Any) -> Request:
        return renew(self, **how)

    def release(self, **how: Any) -> Request:
        return release(self, **how)

    def transact_item(self, owner: str, token: int) -> dict[str, Any]:
        return transact_item(self, token=token)


class _Change(Update):
    """An update of my entry, or one that depends on it."""

    def __init__(self, place: PermitPlace) -> None:
        super().__init__(place)
        schema = place.schema
        assert schema.permits is not None, "this schema has no semaphores"
        assert schema.permit_tokens is not None
        self._maps = schema.permits, schema.permit_tokens
        self._nonce, self._prefix = place.nonce, place.prefix

    @property
    def permits(self) -> str:
        return self.name(self._maps[0])

    @property
    def tokens(self) -> str:
        return self.name(self._maps[1])

    @property
    def mine(self) -> str:
        return self.entry(self._nonce)

    @property
    def token(self) -> str:
        return f"{self.tokens}.{self.name(self._nonce)}"

    def entry(self, nonce: str) -> str:
        return f"{self.permits}.{self.name(nonce)}"

    def put(self, path: str, what: str) -> None:
        self.sets.append(f"{path} = {what}")

    def drop(self, nonce: str) -> None:
        self.removes += [self.entry(nonce), f"{self.tokens}.{self.name(nonce)}"]

    def keep_row(self, expiry_ms: int, ttl: int | None) -> None:
        """Let the row outlive every entry that it may have (rule 7)."""
        seconds = self.place.schema.ttl_seconds if ttl is None else ttl
        self.set_ttl(expiry_ms, None, None if seconds is None else max(seconds, KEPT))

    def has_token(self, token: int) -> str:
        return f"{self.token} = {self.value({'N': str(token)})}"

    def has_version(self, version: str) -> str:
        return f"begins_with({self.mine}, {self.value({'S': version + ':'})})"

    def next_token(self, seed_ms: int) -> str:
        """What the next token is: the row's and mine."""
        seed, one = self.value({"N": str(seed_ms)}), self.value({"N": "1"})
        return f"if_not_exists({self.name(self.place.schema.token)}, {seed}) + {one}"

    def grant(self, grant: Grant, content: Content) -> None:
        """Write my entry, with the next token."""
        self.put(self.mine, self.value(write_entry(grant.version, grant.lease_ms, self._prefix)))
        token = self.next_token(grant.seed_ms)
        self.put(self.token, token)
        self.put(self.name(self.place.schema.token), token)
        self.keep_row(grant.expiry_ms, content.ttl)
        self.store(content)


def first(place: PermitPlace, grant: Grant, content: Content, *, only_if_exists: bool = False) -> Request:
    """Make the row a semaphore's, with my entry."""
    schema = place.schema
    update = _Change(place)
    for name in (schema.owner, schema.version, schema.lease):
        update.set(name, {"S": SEAL})
    token = {"N": str(grant.seed_ms + 1)}
    entry = write_entry(grant.version, grant.lease_ms, place.prefix)
    update.put(update.permits, update.value({"M": {place.nonce: entry}}))
    update.put(update.tokens, update.value({"M": {place.nonce: token}}))
    update.set(schema.token, token)
    update.keep_row(grant.expiry_ms, content.ttl)
    update.store(content)
    if schema.released is not None:
        update.remove(schema.released)
    absent = (schema.version, *schema.foreign_versions, schema.token)
    condition = [f"attribute_not_exists({name})" for name in (*map(update.name, absent), update.permits, update.tokens)]
    if only_if_exists:
        condition.append(exists(update))
    return update.request(condition, ReturnValues="ALL_NEW")


def claim(
    place: PermitPlace, grant: Grant, content: Content, *, dead: dict[str, Entry], line: Line | None = None
) -> Request:
    """Add my entry while a permit is free. The dead entries must be as observed, and go.

    line: what is required of those who wait; None for nothing.
    """
    schema = place.schema
    update = _Change(place)
    update.grant(grant, content)
    condition = [f"{update.name(schema.version)} = {update.value({'S': SEAL})}", f"attribute_not_exists({update.mine})"]
    for nonce, entry in dead.items():
        condition.append(f"{update.entry(nonce)} = {update.value({'S': entry.text})}")
        update.drop(nonce)
    most = place.permits - (0 if line is None else line.behind) + len(dead)
    condition.append(f"size({update.permits}) < {update.value({'N': str(most)})}")
    if line is not None and schema.waiters is not None:
        condition.append(line.stand(update, schema.waiters))
    return update.request(condition, ReturnValues="ALL_NEW")


def correct(place: PermitPlace, grant: Grant, content: Content, *, observed: str) -> Request:
    """Write my entry again, under its own version (rule 4 of protocol.py)."""
    update = _Change(place)
    update.grant(grant, content)
    return update.request([update.has_version(observed)], ReturnValues="ALL_NEW")


def renew(
    place: PermitPlace,
    *,
    owner: str,
    token: int,
    version: str,
    lease_ms: int,
    expiry_ms: int,
    completed_until: int | None,
    content: Content,
    delete_data: bool = False,
) -> Request:
    update = _Change(place)
    new = update.value(write_entry(version, lease_ms, place.prefix))
    update.put(update.mine, new)
    update.keep_row(expiry_ms, content.ttl)
    if delete_data:
        update.remove(place.schema.data)
    else:
        update.store(content)
    return update.request([update.has_token(token), f"{update.mine} < {new}"])


def release(
    place: PermitPlace,
    *,
    owner: str,
    token: int | None = None,
    version: str | None = None,
    delete: bool = False,
    expiry_ms: int,
    completed_until: int | None = None,
    completion: object = None,
    content: Content,
    held_ms: int | None = None,
) -> Request:
    """Remove my entry, under its token or its version. The row stays, and its ttl stays as it is (rule 7)."""
    assert not delete, "a semaphore's row is everybody's"
    assert completion is None, "an event is no semaphore"
    update = _Change(place)
    update.drop(place.nonce)
    update.store(content)
    update.tell_waiters(held_ms)
    mine = ([] if token is None else [update.has_token(token)]) + (
        [] if version is None else [update.has_version(version)]
    )
    return update.request(mine)


def transact_item(place: PermitPlace, *, token: int) -> dict[str, Any]:
    """Return an Update for the application's own transaction. It changes nothing, while the permit is held."""
    update = _Change(place)
    update.set(place.schema.owner, {"S": SEAL})
    _, request = update.request([update.has_token(token)])
    return {"Update": request}


class Admission(Acquisition):
    """The acquisition of a permit: it claims, corrects, polls and gives up as for a lock."""

    noun = "semaphore"

    @property
    def place(self) -> PermitPlace:
        place = self.wanted.place
        assert isinstance(place, PermitPlace)
        return place

    def request(self, step: Take, grant: Grant) -> Request:
        place, content = self.place, self.wanted.content
        if step.version is not None:
            return correct(place, grant, content, observed=step.version)
        row = step.row
        if isinstance(row, PermitRow) and row.is_new:
            return first(place, grant, content, only_if_exists=self.wanted.only_if_exists)
        return claim(place, grant, content, dead=row.dead if isinstance(row, PermitRow) else {}, line=step.line)

    def see(self, item: Item | None, date: int | None) -> Next:
        place = self.place
        self.row = row = place.row(item)
        self.date = date
        if row.version in self.sent:
            return self.own(row, row.version, date)
        if row.is_new:
            self.last = Held(missing=not item and self.wanted.only_if_exists)
            return self.last if self.last.missing else Take(row=row)
        row.judge(place, self.memory.observations, self.reading, date)
        self.last = Held(row)
        if row.free <= 0:
            self.check_entries(row)
            return self.last
        self.check_token(row)
        return Take(row=row)

    def check_entries(self, row: PermitRow) -> None:
        """Raise LockFormatError if an entry cannot be read: it is never replaced, so its permit would never be free."""
        for nonce, entry in row.entries.items():
            if entry is None:
                place = self.place
                raise LockFormatError(
                    f"the row of semaphore {place.key!r} has an entry in {place.schema.permits} that cannot be read: "
                    f"{nonce!r}. Remove it from {place.schema.permits} and {place.schema.permit_tokens} once nobody "
                    "works under it",
                    key=place.key,
                )

    def check_token(self, row: Row | None) -> None:
        """Raise LockFormatError if the row has a token that the next grant cannot add to."""
        if row is not None:
            super().check_token(Row(row.item, self.place.schema))

    def holders(self) -> tuple[Holder, ...]:
        row = self.last.row
        return row.holders() if isinstance(row, PermitRow) else ()

    def state(self, holder: str | None, ahead: int) -> str:
        row = self.last.row
        if not isinstance(row, PermitRow):
            return super().state(holder, ahead)
        waiting = "1 waits" if ahead == 1 else f"{ahead} wait"
        if row.free > 0 and ahead:
            return f"has a free permit, but {waiting} before this one"
        owners = [holder.owner or "somebody" for holder in self.holders()]
        more = f" and {len(owners) - _NAMED} more" if len(owners) > _NAMED else ""
        said = f"has no free permit: {len(owners)} of {row.permits} are held, by {', '.join(owners[:_NAMED])}{more}"
        return said + (f", and {waiting} before this one" if ahead else "")

    def turn(self, ahead: int) -> float | None:
        """As for a lock. With N holders at once, one of N releases N times as often."""
        row, lease_left = self.row, self.lease_left()
        if not isinstance(row, PermitRow):
            return None
        held_ms = row.held_ms(self.place.schema)
        if held_ms is None:
            return lease_left
        hold = held_ms / 1000 / row.permits
        first = hold if lease_left is None else min(hold, lease_left)
        return min(first + ahead * hold + (ahead + 1) * HANDOVER, DAY)

    def lease_left(self) -> float | None:
        """Return how many seconds the lease that ends first has left. None if the newest row shows a free permit."""
        row = self.row
        if not isinstance(row, PermitRow) or row is not self.last.row or row.free > 0:
            return None
        ends = self._ends(row)
        return max(min(ends), 0.0) if ends else None

    def _ends(self, row: PermitRow) -> list[float]:
        """In how many seconds each permit is there for the taking without its holder."""
        now, ends = self.memory.server.now(self.reading), []
        for nonce, entry in row.entries.items():
            if entry is not None and nonce in row.seen and nonce not in row.dead:
                seconds = row.seen[nonce].seconds_left(self.reading.monotonic)
                # A Date is truncated to whole seconds, so it reaches the expiry at the next full second.
                ends.append(min(seconds, -(-entry.expiry_ms // 1000) - now))
        return ends

    def soonest(self, held: Held) -> list[float]:
        row = held.row
        if not isinstance(row, PermitRow):
            return []
        return [max(end, lease.FIRST_BACKOFF) for end in self._ends(row) if end > 0]
