"""The judgement: what must hold in the engine's own data after the story. Nothing here reads a clock or a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .evidence import Change, Entry, Evidence, Freeze


@dataclass(frozen=True)
class Check:
    """claim: what must hold, with figures. wrong: each way in which it does not."""

    claim: str
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.wrong


@dataclass(frozen=True)
class Stay:
    """A handler inside: from its entry in the journal to where it left, found its lock lost, or was stopped."""

    lock: str
    event: str
    started: float
    ended: float
    token: int


def verify(evidence: Evidence) -> list[Check]:
    inside = stays(evidence)
    grants = [change for change in evidence.changes if change.kind == "granted"]
    overtaken = sum(change.took_over for change in grants)
    done = sum(map(len, evidence.ledger.values()))
    refused = len(evidence.events) - done
    duplicates = sum(line.what == "duplicate" for line in evidence.journal)
    return [
        Check(f"never two inside for one key ({len(inside)} stays)", tuple(_overlaps(inside, evidence))),
        Check(
            f"every event done once ({done}) or refused ({refused}), duplicates dropped ({duplicates})",
            tuple(_not_once(evidence, duplicates)),
        ),
        Check(f"fencing tokens in order ({len(grants)} grants)", tuple(_disorder(evidence, grants))),
        Check(
            f"taken over only from the killed and the frozen ({overtaken})", tuple(_unjust(evidence, grants, overtaken))
        ),
        Check(f"nobody left holding ({len({change.key for change in grants})} locks)", tuple(_left_held(evidence))),
    ]


def stays(evidence: Evidence) -> list[Stay]:
    """Who was inside when, by the journal. A frozen handler that stopped on waking was inside until it was frozen."""
    return [
        Stay(line.lock, line.event, line.at, _end(line, evidence), line.token)
        for line in evidence.journal
        if line.what == "entered"
    ]


def _end(entered: Entry, evidence: Evidence) -> float:
    for line in evidence.journal:
        if (line.request, line.event) != (entered.request, entered.event) or line.what not in ("left", "lost"):
            continue
        if line.what == "left":
            return line.at
        return min((frozen.started for frozen in _freezes(entered.request, entered.at, evidence)), default=line.at)
    delivery = evidence.delivery(entered.request)
    return delivery.ended if delivery else float("inf")


def _freezes(request: str, since: float, evidence: Evidence) -> Iterator[Freeze]:
    delivery = evidence.delivery(request)
    for freeze in evidence.freezes:
        if delivery and freeze.environment == delivery.environment and since <= freeze.started <= delivery.ended:
            yield freeze


def _overlaps(inside: list[Stay], evidence: Evidence) -> Iterator[str]:
    for lock in sorted({stay.lock for stay in inside}):
        in_order = sorted((stay for stay in inside if stay.lock == lock), key=lambda stay: stay.started)
        for first, second in pairwise(in_order):
            if second.started < first.ended:
                names = f"{_name(first.event, evidence)} and {_name(second.event, evidence)}"
                yield f"{lock}: {names} were inside at once, {second.started:.2f} s to {first.ended:.2f} s"


def _not_once(evidence: Evidence, duplicates: int) -> Iterator[str]:
    if not duplicates:
        yield "the story was to have a duplicate dropped, and has not"
    done = Counter(event for events in evidence.ledger.values() for event in events)
    left = Counter(line.event for line in evidence.journal if line.what == "left")
    skipped = {event for delivery in evidence.deliveries if delivery.outcome == "skipped" for event in delivery.events}
    for event, name in evidence.events.items():
        if done[event] > 1:
            yield f"{name} is in the ledger {done[event]} times"
        if left[event] != done[event]:
            yield f"{name} was finished {left[event]} times, the ledger has it {done[event]} times"
        if not done[event] and event not in skipped:
            yield f"{name} was neither done nor refused for good"
        if done[event] and event in skipped:
            yield f"{name} was done although it was refused for good"
    for event in done.keys() - evidence.events.keys():
        yield f"{event} is in the ledger, but was never sent"


def _disorder(evidence: Evidence, grants: list[Change]) -> Iterator[str]:
    for key in sorted({change.key for change in grants}):
        tokens = [change.token for change in grants if change.key == key]
        for before, after in pairwise(tokens):
            if after <= before:
                yield f"{key}: token {after} was granted after {before}"
    granted = {(change.key, change.request, change.token) for change in grants}
    for line in evidence.journal:
        if line.what == "entered" and (line.lock, line.request, line.token) not in granted:
            name = _name(line.event, evidence)
            yield f"{line.lock}: {name} went in with token {line.token}, which the table did not grant it"


def _unjust(evidence: Evidence, grants: list[Change], overtaken: int) -> Iterator[str]:
    if overtaken < 2 or not evidence.freezes or all(delivery.outcome != "killed" for delivery in evidence.deliveries):
        yield "the story was to have a killed and a frozen holder replaced, and has not"
    for change in grants:
        if not change.took_over:
            continue
        robbed = predecessor(change, grants)
        if robbed is None or not _was_stopped(robbed, change.at, evidence):
            yield f"{change.key}: token {change.token} was taken from a holder that was alive, at {change.at:.2f} s"


def predecessor(change: Change, grants: list[Change]) -> Change | None:
    """The grant of the same key before this one."""
    before = [grant for grant in grants if grant.key == change.key and grant.token < change.token]
    return max(before, key=lambda grant: grant.token, default=None)


def _was_stopped(holder: Change, at: float, evidence: Evidence) -> bool:
    delivery = evidence.delivery(holder.request)
    if delivery is None:
        return False
    killed = delivery.outcome == "killed" and delivery.ended <= at
    return killed or any(freeze.started <= at for freeze in _freezes(holder.request, holder.at, evidence))


def _left_held(evidence: Evidence) -> Iterator[str]:
    for key in evidence.held:
        yield f"{key} is still held"


def _name(event: str, evidence: Evidence) -> str:
    return evidence.events.get(event, event)
