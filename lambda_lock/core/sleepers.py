"""The sleepers of a lock: suspended executions that a waker calls when the lock is theirs. Loaded when one lies down.

They have a row of their own, ``<key>~sleepers``, so that their callbacks, which are long, do not make each request for
the lock dearer. It has no version, so it is not a lock's, and no request for a lock touches its attributes:

| attribute | type      | meaning                                                                              |
|-----------|-----------|--------------------------------------------------------------------------------------|
| `asleep`  | L of S    | an entry for each sleeper, oldest first                                              |
| `newest`  | S         | random: set by each registration, removed by each removal. The filter asks for it    |
| `ttl`     | N         | two days past the newest registration                                                |

1. **A registration requires that no version is there**, of any schema. A lock whose own key ends like this would get
   its time to live otherwise, and be deleted while it is held.
2. **It replaces the holder's own entry**, under that entry, or appends one. So a step that runs twice lies down once.
3. **A removal requires the entry at its index.** The row is never deleted but by its time to live.
"""

from __future__ import annotations

import json  # the Lambda runtime has it loaded

from ..errors import LockConfigurationError, TransportError
from . import requests
from .outcome import ConditionFailed, Reply
from .protocol import DECISION, STEPS, exchange
from .requests import Place, Update
from .row import MOST_PERMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from .lease import ClockReading
    from .outcome import Item
    from .protocol import Entropy, Recall, Steps
    from .requests import Request

    Entry: TypeAlias = dict[str, Any]  # a value in DynamoDB's JSON: a string, unless somebody else wrote it

SUFFIX = "~sleepers"
MOST_SLEEPERS = 256
_MOST_BYTES = 380_000  # of all entries: a row has up to 400 KB
_KEPT = 2 * 86_400  # seconds that the row is kept past the newest registration: nobody sleeps for longer than a day
_ASLEEP, _NEWEST = "asleep", "newest"
KINDS = ("task", "durable")


class Sleeper:
    """One entry: who sleeps, and how to call it.

    kind: "task" (Step Functions) or "durable" (a durable function). callback: its token or id.
    permits: N of a semaphore; None for a lock.
    ttl: seconds for the time to live of the lock's row, as its client writes it; None for none.
    text: the entry as it is stored.
    """

    __slots__ = ("callback", "holder", "kind", "permits", "text", "ttl")

    def __init__(
        self, holder: str, kind: str, callback: str, permits: int | None, ttl: int | None, text: str | None = None
    ) -> None:
        self.holder = holder
        self.kind = kind
        self.callback = callback
        self.permits = permits
        self.ttl = ttl
        fields = [holder, kind, callback, permits, ttl]
        self.text = text or json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def read_sleeper(entry: Entry) -> Sleeper | None:
    """Return the sleeper of an entry. None if we did not write it."""
    text = entry.get("S")
    try:
        fields = json.loads(text or "")
    except (TypeError, ValueError, RecursionError):
        return None
    kinds: tuple[tuple[type, ...], ...] = ((str,), (str,), (str,), (int, type(None)), (int, type(None)))
    if not isinstance(fields, list) or len(fields) != len(kinds):
        return None
    if not all(type(field) in kind for field, kind in zip(fields, kinds, strict=True)):
        return None
    holder, kind, callback, permits, ttl = fields
    in_range = (permits is None or 1 <= permits <= MOST_PERMITS) and (ttl is None or 0 <= ttl < 10**10)
    if not (holder and callback and kind in KINDS and in_range):
        return None
    return Sleeper(holder, kind, callback, permits, ttl, text)


def place_of_sleepers(place: Place) -> Place:
    """Return where the sleepers of a lock are."""
    partition, *sort = place.key_names
    return Place(place.table, place.schema, partition, place.key + SUFFIX, sort[0] if sort else None, place.sort_key)


def entries_of(item: Item | None) -> list[Entry]:
    """Return the entries of the sleepers' row, oldest first, as they are stored."""
    line = (item or {}).get(_ASLEEP, {}).get("L")
    return line if isinstance(line, list) else []


def lie_down(place: Place, sleeper: Sleeper, memory: Recall, entropy: Entropy, reading: ClockReading) -> Steps[bool]:
    """Write the entry of one who goes to sleep. Return whether there was room.

    Raises LockConfigurationError if the sleepers' row is a lock's, and the transport's error if the outcome is unknown
    or DynamoDB refused: lie down again.
    """
    there, until = place_of_sleepers(place), reading.elapsed + DECISION
    outcome, _, reading = yield from exchange(requests.read(there), memory, entropy, reading, until)
    for _ in range(STEPS):
        if not isinstance(outcome, (Reply, ConditionFailed)):
            raise outcome
        item = outcome.item or {}
        if any(name in item for name in (place.schema.version, *place.schema.foreign_versions)):
            raise LockConfigurationError(
                f"nobody can sleep until lock {place.key!r} is free: {there.key!r}, where its sleepers would be, is a "
                "lock of its own. Give that one another key",
                key=place.key,
            )
        entries = entries_of(item)
        mine = next((at for at, entry in enumerate(entries) if _holder_of(entry) == sleeper.holder), None)
        is_full = len(entries) >= MOST_SLEEPERS or len(repr(entries).encode()) > _MOST_BYTES
        if mine is None and is_full:
            return False
        old = None if mine is None else (mine, entries[mine])
        now = memory.server.now(reading)
        request = _registration(there, sleeper.text, old, entropy.nonce(), int(now) + _KEPT)
        outcome, _, reading = yield from exchange(request, memory, entropy, reading, until)
        if isinstance(outcome, Reply):
            return True
    raise contended(place.key)


def get_up(place: Place, holder: str, memory: Recall, entropy: Entropy, reading: ClockReading) -> Steps[bool]:
    """Remove the entry of one who sleeps no more. Return whether there was one."""
    there, found = place_of_sleepers(place), False
    until = reading.elapsed + DECISION
    outcome, _, reading = yield from exchange(requests.read(there), memory, entropy, reading, until)
    for _ in range(STEPS):
        if not isinstance(outcome, (Reply, ConditionFailed)):
            raise outcome
        entries = entries_of(outcome.item)
        mine = next((entry for entry in entries if _holder_of(entry) == holder), None)
        if mine is None:
            return found
        found = True
        outcome, _, reading = yield from exchange(_removal(there, entries, mine), memory, entropy, reading, until)
    raise contended(place.key)


def remove(
    place: Place, entries: list[Entry], entry: Entry, memory: Recall, entropy: Entropy, reading: ClockReading
) -> Steps[ClockReading]:
    """Remove one entry, wherever it is by now. entries: as they were seen. Return the newest reading."""
    there, until = place_of_sleepers(place), reading.elapsed + DECISION
    for _ in range(STEPS):
        if entry not in entries:
            return reading
        outcome, _, reading = yield from exchange(_removal(there, entries, entry), memory, entropy, reading, until)
        if isinstance(outcome, Reply):
            return reading
        if not isinstance(outcome, ConditionFailed):
            raise outcome
        entries = entries_of(outcome.item)
    raise contended(place.key)


def _removal(there: Place, entries: list[Entry], entry: Entry) -> Request:
    """Remove an entry: only while it is where it was seen."""
    update = Update(there)
    asleep, newest, index = update.name(_ASLEEP), update.name(_NEWEST), entries.index(entry)
    update.removes += [f"{asleep}[{index}]", newest]
    update.require(f"{asleep}[{index}] = :entry", entry=entry)
    return update.request(ReturnValues="ALL_NEW")


def _registration(there: Place, text: str, old: tuple[int, Entry] | None, nonce: str, ttl: int) -> Request:
    update = Update(there)
    asleep, newest = update.name(_ASLEEP), update.name(_NEWEST)
    update.require(f"attribute_not_exists(#version) AND {update.no_foreign_version()}")
    update.set(ttl={"N": str(ttl)})
    update.sets.append(f"{newest} = :newest")
    update.values[":newest"] = {"S": nonce}
    if old is None:
        update.sets.append(f"{asleep} = list_append(if_not_exists({asleep}, :none), :new)")
        update.values |= {":none": {"L": []}, ":new": {"L": [{"S": text}]}}
        update.require(f"NOT contains({asleep}, :entry)", entry={"S": text})
        most = {"N": str(MOST_SLEEPERS)}
        update.require(f"(attribute_not_exists({asleep}) OR size({asleep}) < :most)", most=most)
    else:
        update.sets.append(f"{asleep}[{old[0]}] = :new")
        update.values[":new"] = {"S": text}
        update.require(f"{asleep}[{old[0]}] = :old", old=old[1])
    return update.request()


def _holder_of(entry: Entry) -> str | None:
    sleeper = read_sleeper(entry)
    return None if sleeper is None else sleeper.holder


def contended(key: str) -> TransportError:
    """Return the error for a row of sleepers that changed at every look."""
    return TransportError(True, f"the sleepers of lock {key!r} changed at each of {STEPS} looks: try again", key=key)
