"""What an item of the table shows, and a request's versions.

What was read from the latest items is remembered. An item of the table never changes: each write makes a new one.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from lambda_lock.core.permits import Entry, PermitPlace, entries_of, hold_of
from lambda_lock.core.protocol import Send
from lambda_lock.core.requests import Place
from lambda_lock.core.row import SEAL, WEIGHED, Row, read_row
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import LockFormatError

T = TypeVar("T")
_MOST = 16
VERSION_LENGTH = 49


def remembered(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Let a function of one item read each of the latest items once. Most requests show the same item again."""
    latest: dict[int, tuple[Any, T]] = {}  # with the item itself, so that no other one gets its id

    @wraps(read)
    def wrapper(item: Any) -> T:
        known = latest.get(id(item))
        if known is not None:
            return known[1]
        value = read(item)
        if len(latest) >= _MOST:
            latest.clear()
        latest[id(item)] = item, value
        return value

    return wrapper


@remembered
def waits_cannot_be_read(item: Any) -> bool:
    """Whether an item's list of waiters cannot be read."""
    return JAVA.waiters in item and Row(item, JAVA).waiters is None


@remembered
def row_of(item: Any) -> Row | None:
    return read_row(item, JAVA, "")


def versions_in(action: Send) -> set[str]:
    """Return our versions that a request writes or compares."""
    values = [*action.request.get("ExpressionAttributeValues", {}).values(), *action.request.get("Item", {}).values()]
    values += [entry for value in values for entry in value.get("M", {}).values()]
    texts = [text for value in values if (text := value.get("S", "")).startswith("L1:")]
    return {text[:VERSION_LENGTH] for text in texts}  # an entry of a semaphore begins with its version


def place_of(key: str) -> Place:
    return Place("locks", JAVA, "key", key, None, None)


def attempt_of(owner: str) -> str:
    """The name of an owner's entry in a semaphore."""
    return owner.rpartition("#")[2]


@remembered
def by_attempt(item: Any) -> dict[str, Entry]:
    """The entries of a semaphore, by their names."""
    return {name: entry for name, entry in entries_of(item or {}, JAVA).items() if entry is not None}


def takes_in(item: Any) -> dict[str, int]:
    """How many permits each entry of a semaphore takes, by its name."""
    takes = item.get("permitTakes", {}).get("M", {}) if is_weighed(item) else {}
    return {name: int(takes.get(hold_of(name), {"N": "1"})["N"]) for name in by_attempt(item)}


def is_weighed(item: Any) -> bool:
    """Whether a semaphore's row counts weights."""
    return bool(item) and item.get(JAVA.version) == {"S": WEIGHED}


def wrong_weights(old: Any, new: Any) -> tuple[str, str] | None:
    """What is wrong with a write to a semaphore, as the kind of failure and a sentence: a row that counts weights says
    what is taken, does not stop counting, and begins while nobody else holds."""
    if not is_weighed(new):
        return ("format", "the row counts weights no more") if is_weighed(old) else None
    takes, named = takes_in(new), new.get("permitTakes", {}).get("M")
    if not is_weighed(old) and len(takes) != 1:
        return "format", f"the row began to count weights while {len(takes)} hold"
    taken, tokens = {"N": str(sum(takes.values()))}, new.get("permitTokens", {}).get("M", {})
    if named is None or named.keys() - tokens or new.get("permitsTaken") != taken:
        return "maps", f"{new.get('permitsTaken')} are taken, and the entries take {takes}: {named}"
    return None


def is_held_by(item: Any, owner: str, token: int, permits: int | None = None) -> bool:
    """Whether a lock's row is held, or a permit of a semaphore, by this owner under this token."""
    if item is None:
        return False
    if permits:
        attempt, tokens = attempt_of(owner), item.get("permitTokens", {}).get("M", {})
        return attempt in item.get("permits", {}).get("M", {}) and tokens.get(hold_of(attempt)) == {"N": str(token)}
    is_held = JAVA.released not in item and item.get(JAVA.owner) == {"S": owner}
    return is_held and item.get(JAVA.token) == {"N": str(token)}


def number_in(item: Any, name: str) -> int:
    return int(item.get(name, {"N": "0"})["N"])


def returns_ticket(action: Send) -> bool:
    update = action.request.get("UpdateExpression", "")
    return update.startswith("REMOVE") and "]" in update


class OldPlace(PermitPlace):
    """A permit's place for a version of the library that knows no weights: each request is for a row without them."""

    __slots__ = ()
    format = property(lambda self: SEAL, lambda self, value: None)

    def row(self, item: Any) -> Any:
        if is_weighed(item):
            raise LockFormatError(f"{self.key!r} is a lock, not a semaphore", key=self.key)
        return super().row(item)
