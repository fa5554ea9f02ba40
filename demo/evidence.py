"""What a run leaves behind to be judged and drawn. All times are seconds since the story began."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Change:
    """One write to a lock's row, in the order of the lock table's stream.

    kind: "granted" to another owner than before, "renewed" by the same, "released". took_over: granted although the
    row was not released. ``at`` is when the demo read it, within a few hundredths of a second.
    """

    at: float
    kind: Literal["granted", "renewed", "released"]
    key: str
    owner: str
    token: int
    took_over: bool = False

    @property
    def request(self) -> str:
        """The request id of the invocation: owners are ``function/request id#nonce``."""
        return self.owner.partition("#")[0].rpartition("/")[2]


@dataclass(frozen=True)
class Entry:
    """A line of the journal: a handler "entered", "left", was "refused" the lock, found it "lost" and stopped, or was
    given a "duplicate"."""

    at: float
    what: str
    event: str
    lock: str
    request: str
    token: int


@dataclass(frozen=True)
class Delivery:
    """One invocation. outcome: what Lambda tells the source. again: the events that it sends once more."""

    environment: str
    request: str
    events: tuple[str, ...]
    started: float
    ended: float
    outcome: Literal["done", "duplicate", "skipped", "returned", "killed", "failed"]
    again: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Freeze:
    environment: str
    started: float
    ended: float


@dataclass
class Evidence:
    """The engine's data (changes, journal, ledger, rows) beside what was sent and done to the environments.

    events: everything sent, by id: its name for a reader. ledger: for each lock's key the events done, in order.
    held: keys whose row is not released at the end.
    """

    environments: tuple[str, ...]
    events: dict[str, str]
    deliveries: list[Delivery] = field(default_factory=list)
    freezes: list[Freeze] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    journal: list[Entry] = field(default_factory=list)
    ledger: dict[str, list[str]] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)

    def delivery(self, request: str) -> Delivery | None:
        return next((delivery for delivery in self.deliveries if delivery.request == request), None)


def entry(item: dict[str, Any], began: float) -> Entry:
    """A journal item, as DynamoDB's JSON has it."""
    texts = {name: item[name]["S"] for name in ("what", "event", "lock", "request")}
    return Entry(at=float(item["at"]["N"]) - began, token=int(item["token"]["N"]), **texts)
