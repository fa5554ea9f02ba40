"""Semaphores: at most N holders of one key. Loaded only by those who pass ``permits=N``.

A semaphore is one row with two maps. ``permits`` has an entry for each holder: ``<version>:<lease ms>:<owner prefix>``.
``permitTokens`` has the fencing token of each. The version, owner and lease of the row itself are the SEAL: held, with
a lease that no client can read. So every client that takes locks refuses it.

A permit is a hold as resume.py has it. Its base owner is ``<prefix>#<name>``. The name is a nonce. For ``holder=h`` it
is made of h (`name_of` there), so all acquisitions of h claim under one name, and each as an attempt of its own. A
token is kept by the name of the *hold*. An entry is kept by that of the *attempt*: ``<name>``, ``<name>/<32 hex>``, or
parked ``<name>/``. So the two maps look alike until a permit is resumed.

| request      | condition                                                            | effect                         |
|--------------|----------------------------------------------------------------------|--------------------------------|
| first        | no version (of any schema), no token, no map                         | seals, maps with my entry      |
| claim        | sealed; no token of my hold; the dead entries as observed;           | they go with their holds'      |
|              | size < N + their count                                               | tokens, mine comes             |
| correct      | my entry has the version sent                                        | new version and token          |
| renew        | the token of my hold; my entry < the new one                         | new version                    |
| resume, park | the token of my hold; the entry seen < the new one                   | the entry seen goes, mine comes|
| adopt        | the same                                                             | and the next token             |
| release      | the token of my hold; my entry is there (to give up: has the version | both go                        |
|              | sent)                                                                |                                |

A row may *count weights*: how many permits each holder takes. Its version is WEIGHED. ``permitTakes`` has what a hold
takes, by its name, if that is not 1, and ``permitsTaken`` the sum of all. Where these requests differ, in such a row:

| request      | condition                                                            | effect                         |
|--------------|----------------------------------------------------------------------|--------------------------------|
| first        | the same                                                             | and both attributes            |
| claim of k   | permitsTaken <= N - k + what the dead take, instead of the size      | + k - that; permitTakes.mine   |
| change over  | SEAL, instead of WEIGHED; size = the dead entries                    | WEIGHED; both attributes       |
| release      | the same                                                             | - what the row says of mine    |

Why there are never more than N valid holders, if all callers pass the same N
------------------------------------------------------------------------------
1. **Each valid holder has an entry.** Only its own release removes it, or a claim that found it dead, by the same rules
   as for a lock: its holder's validity is over. The claim requires the dead entry as observed, and each renewal changes
   it. A resume or a handover replaces it by one with a later expiry, and ends its handle (resume.py).
2. **There are never more than N entries.** Only a claim adds one. It requires that fewer than N are left, and DynamoDB
   evaluates condition and write as one step. The size counts also when dead entries are replaced, because others may
   have let in more meanwhile. A resume replaces one entry by another: the size stays, and N is not looked at.
3. **An entry is added once for each claim that lands while there is no token of its hold.** The token stays as long as
   the hold, whatever its attempts are called. With a condition on the entry alone, a late copy of a claim could turn a
   renewed entry back to its old expiry, or add an entry without a holder beside the attempt that resumed its hold.
4. **Rules 3 to 10 of protocol.py hold entry by entry**, because owner and token identify one handle for ever. Each
   request of an earlier attempt names an entry that is gone. A copy of a claim that lands after its holder's release
   brings another token. It is an entry without a holder until its expiry, or until the next acquire of the same holder
   finds and resumes it.
5. **The end of validity is lost**, also with hold_on_unavailable: the entry may have been replaced meanwhile.
6. **The maps are never removed while they are empty**, and a row without maps is claimed by "first" alone.
7. **The row outlives its entries.** All writes but releases set the ttl at least KEPT past their own expiry, and no
   lease is as long as that. So DynamoDB never deletes a valid entry, no matter who wrote the ttl last. A release
   leaves the ttl as it is, because it may come late. A version of this library that keeps rows for a shorter time would
   endanger the entries of others. So KEPT has to rise a version before the longest lease does.
8. **One entry for each token, always.** A row with two entries of one hold was not written by us.
9. **Where weights count, permitsTaken is their sum.** Each request that adds or removes an entry changes it in the
   same write, by what that entry takes. What a dead one took was observed with its entry, and belongs to that version.
   A row whose sum is wrong was not written by us. So rule 2 holds with the sum in the place of the size.
10. **While anybody holds, a row never changes over, and never back.** Whoever knows no weights, such as older versions
    of this library, names SEAL in each claim. Its other requests name a token that is in no row that counts weights. A
    claim of 1 joins either kind. One of more waits until nobody holds, where weights do not count. In a new row, or one
    that nobody holds, weights count from then on if the caller says what it takes, even if that is 1.

A row with a version that is neither is a lock's, and a semaphore never touches it.
"""

from __future__ import annotations

from ..errors import Holder, LockFormatError
from . import lease
from .requests import Place, Update
from .row import (
    LONGEST_LEASE,
    MOST_PERMITS,
    RATE,
    SEAL,
    TOKEN_DIGITS,
    WEIGHED,
    Row,
    counts,
    expiry_of,
    kind_of,
    map_of,
    read_row,
    text_of,
    ticket_take,
    whole_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .lease import ClockReading, Observation, Observations
    from .outcome import Item
    from .requests import Grant, QueueCondition
    from .schema import Schema

KEPT = int(LONGEST_LEASE) + 86_400  # seconds that a row is kept past an expiry: the longest lease, and a day for clocks
_VERSION_LENGTH = 49
_NAMED = 5  # holders that an error names
_TAKE_DIGITS = 4  # of what all holders take


def hold_of(attempt: str) -> str:
    """Return the name of the hold that an entry belongs to."""
    return attempt.partition("/")[0]


class Entry:
    """One holder's entry in ``permits``, with its token."""

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
    length, colon, prefix = text[_VERSION_LENGTH + 1 :].partition(":")
    expiry_ms = expiry_of(version)
    if expiry_ms is None or not colon or not (length.isascii() and length.isdigit()) or len(length) > 11:
        return None
    lease_ms = int(length)
    if not 0 < lease_ms <= LONGEST_LEASE * 1000:
        return None
    return Entry(text, version, expiry_ms, lease_ms, prefix, token)


def entries_of(item: Item, schema: Schema) -> dict[str, Entry | None]:
    """Return the entries of a semaphore's row by attempt, the oldest grant first. None for one that cannot be read."""
    permits, tokens = map_of(item, schema.permits) or {}, map_of(item, schema.permit_tokens) or {}
    found = {name: read_entry(value, whole_of(tokens, hold_of(name), TOKEN_DIGITS)) for name, value in permits.items()}
    return dict(sorted(found.items(), key=lambda one: (one[1] and one[1].token) or 0))


def holder_of(attempt: str, entry: Entry | None, take: int = 1) -> Holder:
    """Return who an entry says holds a permit."""
    if entry is None:
        return Holder(None, None, None, take)
    return Holder(f"{entry.prefix}#{attempt}", entry.expiry_ms / 1000, entry.token, take)


def takes_of(item: Item, schema: Schema, attempts: Iterable[str]) -> dict[str, int]:
    """Return how many permits attempts take. Where the row does not count weights, each takes 1."""
    takes = (map_of(item, schema.permit_takes) if text_of(item, schema.version) == WEIGHED else None) or {}
    return {name: whole_of(takes, hold_of(name), _TAKE_DIGITS) or 1 for name in attempts}


class PermitRow(Row):
    """A semaphore's row, as one hold sees it: version, owner, lease, expiry and token are those of its entry, whichever
    attempt has it.

    permits: the caller's N. take: how many of them it takes.
    weighed: whether the row counts weights. takes: how many permits each attempt takes.
    name: the hold's. own: the names of the attempts that have an entry of it: one at most, unless the row is damaged.
    entries: all entries by attempt, the oldest grant first. None for one that cannot be read.
    is_held: whether the row is a semaphore's. If not, it belongs to nobody yet.
    seen, dead: of the entries of others, what was observed of each, and those that may be replaced. `may_take_over`
        sets them.
    """

    seen: dict[str, Observation]  # type: ignore[assignment]

    def __init__(self, item: Item, schema: Schema, name: str, permits: int, take: int = 1) -> None:
        super().__init__(item, schema)
        self.take, self.format, self.weighed = take, self.version, self.version == WEIGHED
        self.is_held, self.released, self.taken_over = self.version is not None, False, None
        self.permits, self.name = permits, name
        self.entries = entries_of(item, schema)
        self.own = [attempt for attempt in self.entries if hold_of(attempt) == name]
        self.dead: dict[str, Entry] = {}
        self.takes = takes_of(item, schema, self.entries)
        self.at_once = permits if not self.weighed else max(min(permits // take, len(self.entries)), 1)
        self.seen = {}
        attempt = self.own[0] if self.own else name
        mine = self.entries.get(attempt)
        self.own_take = self.takes.get(attempt, 1)
        self.is_free = mine is None
        self.version = self.owner = self.lease_ms = self.expiry_ms = self.token = None
        if mine is not None:
            self.owner = f"{mine.prefix}#{attempt}"
            self.version, self.lease_ms, self.expiry_ms = mine.version, mine.lease_ms, mine.expiry_ms
            self.token = mine.token

    @property
    def free(self) -> int:  # type: ignore[override]
        """How many permits can be taken. Below 0: others let in more than N."""
        left = self.permits - sum(take for name, take in self.takes.items() if name not in self.dead)
        if self.take > 1 and not self.weighed and len(self.dead) < len(self.entries):
            return min(left, 0)  # rule 10
        return left

    def holders(self) -> tuple[Holder, ...]:
        """Return who holds the permits: all but the dead."""
        return tuple(holder_of(n, one, self.takes[n]) for n, one in self.entries.items() if n not in self.dead)

    def may_take_over(
        self, where: tuple[str, str | None], observations: Observations, reading: ClockReading, date: int | None
    ) -> bool:
        """Find the entries that may be replaced: past their expiry by the Date, or unchanged for their lease. That of
        my hold is never among them: another attempt of it may have it.

        Return whether a permit is free and my hold has no entry. Raises LockFormatError if no permit is free and an
        entry cannot be read: it is never replaced, so its permit would never be free.
        """
        known = observations.of_entries((where, "permits"), self.entries)
        for name, entry in self.entries.items():
            if entry is None or name in self.own:
                continue
            seen = self.seen[name] = known.note(name, entry, entry.lease_ms, reading, date)
            if lease.may_take_over(entry, seen, reading, date):
                self.dead[name] = entry
        if self.own or self.free >= self.take:
            return not self.own
        for name, entry in self.entries.items():
            if entry is None:
                raise self.bad_entries(where[0], "an entry", "that cannot be read", name)
        return False

    def bad_entries(self, key: str, what: str, why: str, *names: str) -> LockFormatError:
        """Return the error for entries that we did not write."""
        permits, tokens = self.schema.permits, self.schema.permit_tokens
        return LockFormatError(
            f"the row of semaphore {key!r} has {what} in {permits} {why}: {', '.join(map(repr, names))}. Remove what "
            f"is wrong from {permits} and {tokens} once nobody works under it",
            key=key,
        )

    def need(self, ticket: str) -> int:
        take = ticket_take(ticket)
        return min(take, self.permits) if take == 1 or self.weighed else self.permits

    def is_awaited(self, date: int | None) -> bool:
        needs = [self.need(ticket) for ticket in self.waiters or () if counts(ticket, date)]
        return bool(needs) and max(*needs, self.take) > 1 and sum(needs) + self.take > self.free

    def is_free_for_all(self, date: int | None, ticket: str | None = None) -> bool:
        """Whether every caller sees as many free permits as the owner of a ticket needs, judged by the Date alone."""
        over = [name for name, one in self.entries.items() if one and date is not None and date * 1000 >= one.expiry_ms]
        left = sum(take for name, take in self.takes.items() if name not in over)
        return left + (1 if ticket is None else self.need(ticket)) <= self.permits

    def ends(self, now: float, reading: ClockReading) -> list[float]:
        """Return in how many seconds each permit may become free without a release."""
        ends = []
        for name, entry in self.entries.items():
            if entry is not None and name in self.seen and name not in self.dead:
                # As for a lock's: a Date reaches the expiry at the next full second.
                ends.append(min(self.seen[name].seconds_left(reading.monotonic), -(-entry.expiry_ms // 1000) - now))
        return ends

    def lease_left(self, now: float, reading: ClockReading, date: int | None) -> float | None:
        """Return how many seconds the lease that ends first has left. None if enough is free, or no end is known."""
        ends = [] if self.free >= self.take else self.ends(now, reading)
        return max(min(ends), 0.0) if ends else None

    @property
    def vacancy(self) -> str | None:
        return "has a free permit" if self.free >= self.take and not self.own else None

    def state(self) -> str:
        if self.own:
            return f"has a permit of this hold already, under {self.owner}"
        owners = [holder.owner or "somebody" for holder in self.holders()]
        by = ", ".join(owners[:_NAMED]) + (f" and {len(owners) - _NAMED} more" if len(owners) > _NAMED else "")
        takes = [take for name, take in self.takes.items() if name not in self.dead]
        if self.weighed and self.permits == MOST_PERMITS and {1, MOST_PERMITS}.issuperset(takes):
            readers = "a writer" if MOST_PERMITS in takes else f"{len(takes)} reader{'s' * (len(takes) > 1)}"
            return f"is held by {readers}: {by}"
        said = f"{sum(takes)} of {self.permits} are held, by {by}"
        if self.take == 1:
            return f"has no free permit: {said}"
        why = "" if self.weighed else ", without take=, and must be released before any call takes more than 1"
        return f"has no {self.take} free permits: {said}{why}"


class PermitUpdate(Update):
    """Builds an update of my entry, or one that depends on it.

    ``#p`` and ``#t`` are the maps, and ``#mine`` the name of my hold. They are short, because an expression of 4 KB may
    name a hundred entries.
    """

    place: PermitPlace

    def __init__(self, place: PermitPlace) -> None:
        super().__init__(place)
        schema = place.schema
        assert schema.permits is not None, "this schema has no semaphores"
        assert schema.permit_tokens is not None
        self.names |= {"#p": schema.permits, "#t": schema.permit_tokens, "#mine": place.name}

    def entry(self, owner: str) -> str:
        """Return the path of an attempt's entry."""
        attempt = owner.rpartition("#")[2]
        for placeholder, name in self.names.items():
            if name == attempt:
                return f"#p.{placeholder}"
        return f"#p.{self.name(attempt)}"

    def take(self, grant: Grant, row: Row | None, observed: str | None, queue: QueueCondition | None) -> None:
        """Write my entry, with the next token: the row's and mine. The dead entries must be as observed, and go.

        In a new row, make the maps and seal it. If nobody holds, the row may change over (rule 10). A correction
        requires my entry: nobody takes over another's under its version (rule 4 of protocol.py).
        """
        place, schema = self.place, self.place.schema
        if isinstance(row, PermitRow) and not row.is_held:
            grant.format = WEIGHED if place.weighs else SEAL
            seal, token = {"S": SEAL}, {"N": str(grant.seed_ms + 1)}
            self.set(owner=seal, version={"S": grant.format}, lease=seal)
            self.sets += ["#p = :entries", "#t = :tokens"]
            if place.weighs:
                self._weigh()
            mine = {grant.owner.rpartition("#")[2]: write_entry(grant.version, grant.lease_ms, place.prefix)}
            self.values |= {":entries": {"M": mine}, ":tokens": {"M": {place.name: token}}}
            self.set(token=token)
            if schema.released is not None:
                self.removes.append("#released")
            self.expect(version=None)
            self.require(self.no_foreign_version())
            self.expect(token=None)
            self.condition += ["attribute_not_exists(#p)", "attribute_not_exists(#t)"]
            return
        self.hold(grant, grant.owner)
        self.values[":seed"] = {"N": str(grant.seed_ms)}
        self.next_token("if_not_exists(#token, :seed)")
        grant.format = place.format
        if observed is not None:
            self._expect_version(grant.owner, observed)
            return
        dead = row.dead if isinstance(row, PermitRow) else {}
        changes = place.weighs and isinstance(row, PermitRow) and not row.weighed and len(dead) == len(row.entries)
        # Rule 10, also for a claim from no row: a holder's hold is gone, and was in the other kind.
        grant.format = WEIGHED if place.take > 1 else place.format or SEAL
        self.expect(version={"S": SEAL if changes else grant.format})
        self.require("attribute_not_exists(#t.#mine)")
        for attempt, entry in dead.items():
            name, hold = self.name(attempt), hold_of(attempt)
            self.require(f"#p.{name} = :{name[1:]}", **{name[1:]: {"S": entry.text}})
            of_hold = name if hold == attempt else self.name(hold)
            self.removes += [f"#p.{name}", f"#t.{of_hold}"]
            if isinstance(row, PermitRow) and row.takes[attempt] > 1:
                self.removes.append(f"#x.{of_hold}")
        if changes:
            grant.format = WEIGHED
            self.set(version={"S": WEIGHED})
            self.require("size(#p) = :most", most={"N": str(len(dead))})
            self._weigh()
            return
        freed = sum(row.takes[name] for name in dead) if isinstance(row, PermitRow) else 0
        most = place.permits - place.take - (0 if queue is None else queue.behind) + freed
        if grant.format == SEAL:
            self.require("size(#p) < :most", most={"N": str(most + 1)})
        else:
            self._name_weights()
            self.require("#taken <= :most", most={"N": str(most)})
            self.sets.append("#taken = #taken + :more")
            self.values[":more"] = {"N": str(place.take - freed)}
            if place.take > 1:
                self.sets.append("#x.#mine = :take")
                self.values[":take"] = {"N": str(place.take)}

    def _weigh(self) -> None:
        """Begin to count weights, with mine."""
        place, take = self.place, {"N": str(self.place.take)}
        self._name_weights()
        self.sets += ["#x = :takes", "#taken = :take"]
        self.values |= {":takes": {"M": {place.name: take} if place.take > 1 else {}}, ":take": take}

    def _name_weights(self) -> None:
        self.names |= {"#x": self.place.schema.permit_takes or "", "#taken": self.place.schema.permits_taken or ""}

    def hold(self, grant: Grant, seen: str | None) -> None:
        """Write the grant's entry, which has version and lease in one, in the place of the one seen."""
        assert seen is not None
        self.sets.append(f"{self.entry(grant.owner)} = :entry")
        self.values[":entry"] = write_entry(grant.version, grant.lease_ms, self.place.prefix)
        if seen != grant.owner:  # one path cannot be set and removed in one request
            self.removes.append(self.entry(seen))

    def rise(self, grant: Grant, seen: str) -> None:
        self.hold(grant, seen)
        self.require(f"{self.entry(seen)} < :entry")

    def next_token(self, last: str) -> None:
        """Write the next token: that of my hold, and of the row."""
        self.sets.append(f"#t.#mine = {last} + :one")
        super().next_token(last)

    def mine(self, owner: str, token: int | None, version: str | None = None) -> None:
        """Require the token of my hold, and that the owner's entry is there, or has this version."""
        if token is not None:
            self.require("#t.#mine = :is_token", is_token={"N": str(token)})
        if version is None:
            self.require(f"attribute_exists({self.entry(owner)})")
        else:
            self._expect_version(owner, version)

    def _expect_version(self, owner: str, version: str) -> None:
        self.require(f"begins_with({self.entry(owner)}, :is_version)", is_version={"S": f"{version}:"})

    def end(self, owner: str, format: str | None) -> None:
        self.removes += [self.entry(owner), "#t.#mine"]
        if format == WEIGHED:
            self._name_weights()
            self.removes.append("#x.#mine")
            self.sets.append("#taken = #taken - if_not_exists(#x.#mine, :one)")
            self.values[":one"] = {"N": "1"}

    def ttl(self, expiry_ms: int, completed_until: int | None, ttl: int | None) -> dict[str, Any] | None:
        """Return a time to live with which the row outlives every entry that it may have (rule 7)."""
        seconds = self.place.schema.ttl_seconds if ttl is None else ttl
        return super().ttl(expiry_ms, None, None if seconds is None else max(seconds, KEPT))


class PermitPlace(Place):
    """Where a permit is: a hold's entry in a semaphore's row, under the name of whichever attempt has it."""

    __slots__ = ("name", "permits", "prefix", "take", "weighs")

    noun = "semaphore"
    permits: int
    seal = SEAL
    update_type = PermitUpdate  # type: ignore[assignment]

    def __init__(self, place: Place, permits: int, owner: str, take: int | None = None) -> None:
        """permits: N. owner: of any attempt of the hold. take: of a claim. None: 1, and weights need not count."""
        for name in Place.__slots__:
            setattr(self, name, getattr(place, name))
        self.permits = permits
        self.take, self.weighs = take or 1, take is not None
        self.format = WEIGHED if self.weighs else SEAL
        self.prefix, _, attempt = owner.rpartition("#")
        self.name = hold_of(attempt)

    def row(self, item: Item | None) -> PermitRow:
        """Return the row of an item. Raises LockFormatError for a lock's row, and for one that is damaged: also if two
        entries are of one hold, or if that of this hold cannot be read, or is missing beside its token."""
        schema = self.schema
        read_row(item, schema, self.key)
        item = item or {}
        version = text_of(item, schema.version)
        if schema.version in item and version not in (SEAL, WEIGHED):
            advice = (
                "it was taken by rate_limit. Leave it to that, or give the semaphore another key"
                if version == RATE
                else "it was taken without permits= or shared=. Take it without these here as well, give the semaphore "
                "another key, or erase the row once nobody uses it (lambda-lock erase)"
            )
            raise LockFormatError(f"{self.key!r} is {kind_of(version)}, not a semaphore: {advice}", key=self.key)
        maps = [map_of(item, name) for name in (schema.permits, schema.permit_tokens)]
        if schema.version in item:
            # With the mark of a release in it, the row would be free for the claim of a lock.
            sound = None not in maps and schema.released not in item
            sound = sound and all(len(one or ()) <= MOST_PERMITS for one in maps)
            if version == WEIGHED:
                takes, holds = map_of(item, schema.permit_takes), maps[1] or {}
                taken = sum(takes_of(item, schema, holds).values())
                sound = sound and takes is not None and takes.keys() <= holds.keys()
                sound = sound and set(map(hold_of, maps[0] or ())) == holds.keys()
                sound = sound and all(whole_of(takes or {}, name, _TAKE_DIGITS) for name in takes or ())
                sound = sound and whole_of(item, schema.permits_taken or "", _TAKE_DIGITS + 2) == taken
            self.format = version
        else:
            sound = not {schema.token, schema.permits, schema.permit_tokens} & item.keys()
        if not sound:
            raise LockFormatError(
                f"the row of semaphore {self.key!r} is damaged: {schema.version}, {schema.released}, {schema.permits}, "
                f"{schema.permit_tokens}, {schema.permit_takes}, {schema.permits_taken} and {schema.token} do not "
                f"belong together, or have more than {MOST_PERMITS} entries. The row is left alone; delete it once "
                "nobody works under it",
                key=self.key,
            )
        row = self.view(item)
        first: dict[str, str] = {}  # attempts, by hold
        for attempt in row.entries:
            if first.setdefault(hold_of(attempt), attempt) != attempt:
                raise row.bad_entries(self.key, "two entries", "of one hold", first[hold_of(attempt)], attempt)
        if row.own and row.token is None:
            raise row.bad_entries(self.key, "an entry of this holder", "that cannot be read, or has no token", *row.own)
        if not row.own and self.name in (maps[1] or ()):  # every claim of this hold would be refused
            raise row.bad_entries(self.key, "no entry", "for a token of this holder", self.name)
        return row

    def view(self, item: Item) -> PermitRow:
        return PermitRow(item, self.schema, self.name, self.permits, self.take)
