"""The sleepers of a lock: suspended executions that a waker calls when the lock is theirs. Loaded when one registers.

They have a row of their own, ``<key>~sleepers``, so that their callbacks, which are long, do not make each request for
the lock dearer. It has no version, so it is not a lock's, and no request for a lock touches its attributes:

| attribute | type      | meaning                                                                              |
|-----------|-----------|--------------------------------------------------------------------------------------|
| `asleep`  | L of S    | an entry for each sleeper, oldest first                                              |
| `newest`  | S         | random: a registration sets it, a removal removes it. The waker's filter requires it |
| `ttl`     | N         | two days past the newest registration                                                |

1. **A registration requires that the row has no version**, of any schema. No lock of ours has such a key (row.py), but
   one of another client or an older version may. It would get the sleepers' time to live, and be deleted while held.
2. **It replaces the holder's own entry**, as observed, or appends one. So a step that runs twice registers once. If the
   holder is woken before its write has an answer, the repeated write may replace the entry of its next sleep. It then
   goes on at its time-out.
3. **A removal requires the entry at its index.** Only its time to live deletes the row.
4. **What no registration wrote goes in one write**, before anybody is called, or where a registration finds no room:
   entries that cannot be read, all of a list that is longer than MOST_SLEEPERS, and what is not a list. The write
   requires what was read, so no registration is lost.
"""

from __future__ import annotations

import json  # the Lambda runtime has it loaded

from ..errors import LockConfigurationError, TransportError
from . import requests
from .outcome import ConditionFailed, Reply
from .protocol import DECISION, STEPS
from .requests import Place, Update
from .row import MOST_PERMITS, OF_SLEEPERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from .outcome import Item
    from .protocol import Conversation, Steps
    from .requests import Request

    Entry: TypeAlias = dict[str, Any]  # a value in DynamoDB's JSON: a string, unless somebody else wrote it

MOST_SLEEPERS = 256
_MOST_BYTES = 380_000  # of all entries: a row has up to 400 KB
_LONGEST_TEXT = 2048  # bytes of a holder or a callback: more than is ever needed. A longer one counts as not ours
_KEPT = 2 * 86_400  # seconds that the row is kept past the newest registration: nobody sleeps for longer than a day
_ASLEEP, NEWEST = "asleep", "newest"


class Sleeper:
    """A suspended execution, and how to call it.

    kind: "task" (Step Functions) or "durable" (a durable function). callback: its token or id.
    permits: N of a semaphore; None for a lock. take: how many of them it acquires; None: as in PermitPlace.
    ttl: seconds for the time to live of the lock's row, as its client writes it; None for none.
    """

    def __init__(
        self,
        holder: str,
        kind: str,
        callback: str,
        permits: int | None = None,
        ttl: int | None = None,
        take: int | None = None,
    ) -> None:
        self.holder = holder
        self.kind = kind
        self.callback = callback
        self.permits = permits
        self.ttl = ttl
        self.take = take

    def entry(self) -> Entry:
        parts = list(vars(self).values())[: 5 if self.take is None else 6]  # six are strangers to an older waker
        return {"S": json.dumps(parts, separators=(",", ":"), ensure_ascii=False)}


def read_sleeper(entry: Entry) -> Sleeper | None:
    """Return the sleeper of an entry. None if we did not write it."""
    try:
        holder, kind, callback, permits, ttl, *takes = json.loads(entry["S"])
        (take,) = takes or (None,)
        lengths = [len(text.encode()) for text in (holder, callback)]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    is_sound = all(0 < length <= _LONGEST_TEXT for length in lengths) and kind in ("task", "durable")
    for number, least, most in ((permits, 1, MOST_PERMITS), (ttl, 0, 10**10), (take, 1, permits or 0)):
        is_sound = is_sound and (number is None or (type(number) is int and least <= number <= most))
    return Sleeper(holder, kind, callback, permits, ttl, take) if is_sound else None


def place_of_sleepers(place: Place) -> Place:
    """Return where the sleepers of a lock are."""
    partition, *sort = place.key_names
    return Place(
        place.table, place.schema, partition, place.key + OF_SLEEPERS, sort[0] if sort else None, place.sort_key
    )


def entries_of(item: Item | None) -> list[Entry]:
    """Return the entries of the sleepers' row, oldest first, as they are stored."""
    line = (item or {}).get(_ASLEEP, {}).get("L")
    return line if isinstance(line, list) else []


def without_strangers(place: Place, item: Item | None) -> Request | None:
    """Return the request that removes what no registration wrote, also where it is not a list. None if there is none.

    The answer has the row.
    """
    found, entries = (item or {}).get(_ASLEEP), entries_of(item)
    ours = [] if len(entries) > MOST_SLEEPERS else [entry for entry in entries if read_sleeper(entry) is not None]
    if found is None or ("L" in found and len(ours) == len(entries)):
        return None
    update = Update(place_of_sleepers(place))
    asleep = update.name(_ASLEEP)
    update.sets.append(f"{asleep} = :ours")
    update.values[":ours"] = {"L": ours}
    update.removes.append(update.name(NEWEST))
    update.require(f"{asleep} = :read", read=found)
    return update.request(ReturnValues="ALL_NEW")


def lie_down(place: Place, sleeper: Sleeper, talk: Conversation) -> Steps[bool]:
    """Write the entry of an execution that goes to sleep. Return whether there was room.

    Raises LockConfigurationError if the sleepers' row is a lock's, and the transport's error if the outcome is unknown
    or DynamoDB refused: then call it again.
    """
    there, until = place_of_sleepers(place), talk.elapsed + DECISION
    answer: Reply | ConditionFailed = yield from talk.ask(requests.read(there), until)
    for _ in range(STEPS):
        item = answer.item or {}
        if {place.schema.version, *place.schema.foreign_versions} & item.keys():
            raise LockConfigurationError(
                f"nobody can sleep until lock {place.key!r} is free: {there.key!r}, where its sleepers would be, is a "
                "lock of its own. Give that one another key",
                key=place.key,
            )
        entries = entries_of(item)
        mine = next((at for at, entry in enumerate(entries) if is_of(entry, sleeper.holder)), None)
        is_full = mine is None and (len(entries) >= MOST_SLEEPERS or len(repr(entries).encode()) > _MOST_BYTES)
        strangers_go = without_strangers(place, item) if is_full or not entries else None
        if strangers_go is not None:
            answer = yield from talk.write(strangers_go, until)
            continue
        if is_full:
            return False
        ttl = {"N": str(int(talk.now()) + _KEPT)}
        request = _registration(there, sleeper.entry(), entries, mine, {"S": talk.entropy.nonce()}, ttl)
        answer = yield from talk.write(request, until)
        if isinstance(answer, Reply):
            return True
    raise contended(place.key)


def remove(place: Place, goes: Callable[[Entry], bool], talk: Conversation) -> Steps[bool]:
    """Remove the entries for which ``goes`` is true. Return whether there were any."""
    there, until, removed = place_of_sleepers(place), talk.elapsed + DECISION, False
    answer: Reply | ConditionFailed = yield from talk.ask(requests.read(there), until)
    for _ in range(STEPS):
        found = next(((at, entry) for at, entry in enumerate(entries_of(answer.item)) if goes(entry)), None)
        if found is None:
            return removed
        update = Update(there)
        asleep, removed = update.name(_ASLEEP), True
        update.removes += [f"{asleep}[{found[0]}]", update.name(NEWEST)]
        update.require(f"{asleep}[{found[0]}] = :entry", entry=found[1])
        request = update.request(ReturnValues="ALL_NEW")
        answer = yield from talk.write(request, until)
    raise contended(place.key)


def _registration(there: Place, entry: Entry, entries: list[Entry], mine: int | None, newest: Any, ttl: Any) -> Request:
    update = Update(there)
    asleep = update.name(_ASLEEP)
    update.require(f"attribute_not_exists(#version) AND {update.no_foreign_version()}")
    update.set(ttl=ttl)
    update.sets.append(f"{update.name(NEWEST)} = :newest")
    update.values[":newest"] = newest
    if mine is None:
        update.sets.append(f"{asleep} = list_append(if_not_exists({asleep}, :none), :new)")
        update.values |= {":none": {"L": []}, ":new": {"L": [entry]}}
        update.require(f"NOT contains({asleep}, :entry)", entry=entry)
        most = {"N": str(MOST_SLEEPERS)}
        update.require(f"(attribute_not_exists({asleep}) OR size({asleep}) < :most)", most=most)
    else:
        update.sets.append(f"{asleep}[{mine}] = :new")
        update.values[":new"] = entry
        update.require(f"{asleep}[{mine}] = :old", old=entries[mine])
    return update.request()


def is_of(entry: Entry, holder: str) -> bool:
    """Return whether an entry is this holder's."""
    sleeper = read_sleeper(entry)
    return sleeper is not None and sleeper.holder == holder


def contended(key: str) -> TransportError:
    """Return the error for a row of sleepers that changed before each of our writes."""
    return TransportError(True, f"the sleepers of lock {key!r} changed at each of {STEPS} looks: try again", key=key)
