"""The evidence as a picture has it: spans and marks on lanes, and who took over from whom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .evidence import Change, Delivery, Entry, Evidence, Freeze
from .verify import predecessor

_VISIBLE = 0.25  # seconds: anything shorter is not a wait but a slow machine

State = Literal["waiting", "holding", "frozen"]
Happening = Literal["renewed", "killed", "skipped", "returned", "lost", "duplicate", "taken over"]


@dataclass(frozen=True)
class Span:
    """What an environment does for a while. ``work``: the name of the event it works on, "" while it waits."""

    lane: str
    state: State
    start: float
    end: float
    key: str
    work: str = ""


@dataclass(frozen=True)
class Mark:
    """Something that happens at a moment. ``note`` says it in words, where it needs some."""

    lane: str
    happening: Happening
    at: float
    note: str = ""


@dataclass(frozen=True)
class TakeOver:
    """A lock goes from a lane that was ``stopped`` (killed or frozen) to another, without a release."""

    stopped: Literal["killed", "frozen"]
    from_lane: str
    from_at: float
    lane: str
    at: float

    @property
    def note(self) -> str:
        after = "the kill" if self.stopped == "killed" else "the freeze"
        return f"taken over {self.at - self.from_at:.1f} s after {after}"


@dataclass(frozen=True)
class Story:
    """Times are seconds from 0 to ``seconds``. Everything is in the order of time."""

    lanes: tuple[str, ...]
    seconds: int
    keys: tuple[str, ...]
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]
    takeovers: tuple[TakeOver, ...]


def tell(evidence: Evidence) -> Story:
    takeovers = tuple(_takeovers(evidence))
    spans = sorted((*_waits(evidence), *_holds(evidence)), key=lambda span: span.start)
    marks = sorted((*_marks(evidence), *(_taken(takeover) for takeover in takeovers)), key=lambda mark: mark.at)
    ends = [span.end for span in spans] + [mark.at for mark in marks]
    keys = tuple(sorted({span.key for span in spans}))
    return Story(evidence.environments, math.ceil(max(ends, default=1.0)), keys, tuple(spans), tuple(marks), takeovers)


def short(key: str) -> str:
    """ "c-42" of "customer#c-42"."""
    return key.rpartition("#")[2]


def _waits(evidence: Evidence) -> Iterator[Span]:
    for delivery in evidence.deliveries:
        granted = next((c for c in evidence.changes if c.kind == "granted" and c.request == delivery.request), None)
        if granted and granted.at - delivery.started > _VISIBLE:
            yield Span(delivery.environment, "waiting", delivery.started, granted.at, granted.key)


def _holds(evidence: Evidence) -> Iterator[Span]:
    for grant, delivery in _grants(evidence):
        work = next((e.event for e in evidence.journal if _went_in(e) == (grant.key, grant.request, grant.token)), "")
        name = evidence.events.get(work, work)
        end = next((c.at for c in evidence.changes if c.kind == "released" and c.owner == grant.owner), delivery.ended)
        freeze = _freeze(grant, delivery, evidence)
        if freeze is not None:
            yield Span(delivery.environment, "frozen", freeze.started, freeze.ended, grant.key, name)
            end = freeze.started
        yield Span(delivery.environment, "holding", grant.at, end, grant.key, name)


def _marks(evidence: Evidence) -> Iterator[Mark]:
    lanes = {delivery.request: delivery.environment for delivery in evidence.deliveries}
    for change in evidence.changes:
        if change.kind == "renewed" and change.request in lanes:
            yield Mark(lanes[change.request], "renewed", change.at)
    for delivery in evidence.deliveries:
        if delivery.outcome == "killed":
            yield Mark(delivery.environment, "killed", delivery.ended, "killed at its timeout")
        if delivery.outcome == "skipped":
            yield Mark(delivery.environment, "skipped", delivery.ended, "skipped: one is running")
    for line in evidence.journal:
        if line.what == "refused" and line.request in lanes:
            yield Mark(lanes[line.request], "returned", line.at, "back to the queue")
        if line.what == "lost" and line.request in lanes:
            yield Mark(lanes[line.request], "lost", line.at, "wakes, sees the loss, writes nothing")
        if line.what == "duplicate" and line.request in lanes:
            yield Mark(lanes[line.request], "duplicate", line.at, "a duplicate: done before")


def _takeovers(evidence: Evidence) -> Iterator[TakeOver]:
    grants = list(_grants(evidence))
    for grant, delivery in grants:
        robbed = predecessor(grant, [other for other, _ in grants]) if grant.took_over else None
        if robbed is None:
            continue
        theirs = next(other for change, other in grants if change is robbed)
        freeze = _freeze(robbed, theirs, evidence)
        at = theirs.ended if freeze is None else freeze.started
        yield TakeOver("killed" if freeze is None else "frozen", theirs.environment, at, delivery.environment, grant.at)


def _taken(takeover: TakeOver) -> Mark:
    return Mark(takeover.lane, "taken over", takeover.at, takeover.note)


def _grants(evidence: Evidence) -> Iterator[tuple[Change, Delivery]]:
    for change in evidence.changes:
        delivery = evidence.delivery(change.request)
        if change.kind == "granted" and delivery:
            yield change, delivery


def _went_in(entry: Entry) -> tuple[str, str, int]:
    return entry.lock, entry.request, entry.token


def _freeze(grant: Change, delivery: Delivery, evidence: Evidence) -> Freeze | None:
    for freeze in evidence.freezes:
        if freeze.environment == delivery.environment and grant.at <= freeze.started <= delivery.ended:
            return freeze
    return None
