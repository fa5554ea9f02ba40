"""The rules, each broken on its own. If the simulator does not notice, it is too tame, or the rule is not needed. Both
must be said.

Every mutation patches the shipped core inside `with broken(name):` and runs under the biases in which it hurts.
`python -m tests.simulation --mutations` prints what happened to how many runs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from lambda_lock.core import (
    acquire,
    handover,
    keep,
    lease,
    permits,
    protocol,
    queue,
    requests,
    resume,
    row,
    schema,
    several,
    tickets,
    transaction,
)
from lambda_lock.core.outcome import Reply, ServiceError, TransactionCanceled, TransportError

from . import clients, clocks, network
from .interrupts import THROWN
from .schedule import Settings

_Patch = Callable[[Any, str, Any], None]


class Mutation:
    """biases: the biases under which it shows best.
    runs: the number of runs within which it must show.

    shows: the kinds of failure; one of them must be seen.
    redundant: for a rule that exclusion does not need, why no failure is expected.
    """

    def __init__(
        self,
        name: str,
        patch: Callable[[_Patch], None],
        biases: tuple[str, ...],
        runs: int,
        shows: tuple[str, ...],
        redundant: str,
    ) -> None:
        self.name = name
        self.patch = patch
        self.biases = biases
        self.runs = runs
        self.shows = shows
        self.redundant = redundant


MUTATIONS: dict[str, Mutation] = {}
_UNSAFE = ("overlap", "robbed")


def mutation(
    name: str, *biases: str, runs: int, shows: tuple[str, ...] = _UNSAFE, redundant: str = ""
) -> Callable[[Any], Any]:
    def add(patch: Callable[[_Patch], None]) -> Callable[[_Patch], None]:
        MUTATIONS[name] = Mutation(name, patch, biases, runs, shows, redundant)
        return patch

    return add


def broken(name: str) -> AbstractContextManager[None]:
    """The core with one rule broken."""
    return patched(MUTATIONS[name].patch)


@contextmanager
def patched(change: Callable[[_Patch], None]) -> Iterator[None]:
    """The core with what ``change`` patches."""
    undo: list[tuple[Any, str, Any]] = []

    def patch(target: Any, attribute: str, value: Any) -> None:
        undo.append((target, attribute, getattr(target, attribute)))
        setattr(target, attribute, value)

    change(patch)
    try:
        yield
    finally:
        for target, attribute, value in reversed(undo):
            setattr(target, attribute, value)


# -- the waiter -------------------------------------------------------------------------------------------------------


@mutation("expiry judged by the waiter's clock", "mixed", "stormy", runs=20)
def _(patch: _Patch) -> None:
    def may_take_over(row: Any, seen: Any, received: Any, date: int | None) -> bool:
        return (row.expiry_ms is not None and received.wall * 1000 >= row.expiry_ms) or seen.is_over(
            received.monotonic, date
        )

    patch(lease, "may_take_over", may_take_over)


@mutation("an observation counted by elapsed time, which may run ahead", "freezes", "no-heartbeat", runs=200)
def _(patch: _Patch) -> None:
    original = lease.may_take_over
    note = lease.Observations.note

    def reading(received: Any) -> Any:
        return lease.ClockReading(received.elapsed, received.elapsed, received.wall)

    patch(lease, "may_take_over", lambda row, seen, received, date: original(row, seen, reading(received), date))
    patch(
        lease.Observations,
        "note",
        lambda self, where, row, lease_ms, received, date: note(self, where, row, lease_ms, reading(received), date),
    )


@mutation("an observation not restarted when the version changes", "mixed", "calm", "foreign", runs=60)
def _(patch: _Patch) -> None:
    def note(self: Any, where: object, row: Any, lease_ms: int, received: Any, date: int | None) -> Any:
        return self._seen.setdefault(where, lease.Observation(row.version, lease_ms, received.monotonic, date))

    patch(lease.Observations, "note", note)


@mutation("an observation by Dates without allowance", "foreign-dates", runs=600)
def _(patch: _Patch) -> None:
    def is_over(self: Any, monotonic: float, date: int | None) -> bool:
        if (monotonic - self.monotonic) * 1000 >= self.lease_ms * (1 + lease.DRIFT):
            return True
        return date is not None and self.date is not None and (date - self.date) * 1000 >= self.lease_ms

    patch(lease.Observation, "is_over", is_over)


@mutation("a take-over without the version observed", "mixed", "stormy", runs=40)
def _(patch: _Patch) -> None:
    original = requests.claim

    def claim(*arguments: Any, observed: str | None = None, **more: Any) -> Any:
        operation, request = original(*arguments, observed=observed, **more)
        if observed is not None:
            unused = next(
                name for name, value in request["ExpressionAttributeValues"].items() if value == {"S": observed}
            )
            request["ConditionExpression"] = request["ConditionExpression"].replace(
                f"= {unused}", f"<> {unused} OR #version = {unused}"
            )
        return operation, request

    patch(requests, "claim", claim)


@mutation("a row taken over whose lease cannot be read", "unreadable", runs=40)
def _(patch: _Patch) -> None:
    patch(row.Row, "require_lease", lambda self, schema, key: self.lease_ms or 0)


@mutation("a lease of zero counted as one that is over", "unreadable", runs=100)
def _(patch: _Patch) -> None:
    def read_lease(self: Any, value: Any) -> int | None:
        return None if value is None else schema._LEASE_FORMATS[self.lease_format](value)

    patch(schema.Schema, "read_lease", read_lease)


# -- the holder's time ------------------------------------------------------------------------------------------------


@mutation("validity by the lease alone", "slow-clocks", "mixed", runs=100)
def _(patch: _Patch) -> None:
    patch(lease, "validity", lambda lease_ms, expiry_ms, date: lease_ms / 1000 * (1 - lease.DRIFT))


@mutation("validity by the stored expiry alone", "foreign", "shortened", "fast", runs=300)
def _(patch: _Patch) -> None:
    patch(
        lease,
        "validity",
        lambda lease_ms, expiry_ms, date: (expiry_ms / 1000 - date - lease.MARGIN) * (1 - lease.DRIFT),
    )


@mutation("validity counted from the reply", "slow-replies", runs=300)
def _(patch: _Patch) -> None:
    own, extended = acquire.Acquisition.own, keep._extended

    def counted_from_reply(self: Any, row: Any, version: str, date: int | None) -> Any:
        self.sent[version].started = self.reading.elapsed
        return own(self, row, version, date)

    patch(acquire.Acquisition, "own", counted_from_reply)
    patch(keep, "_extended", lambda hold, sent, reading, date: extended(hold, reading, reading, date))


@mutation("no margin between two Dates", "slow-clocks", runs=400)
def _(patch: _Patch) -> None:
    patch(lease, "MARGIN", 0.0)


@mutation("no grace", "calm", "mixed", runs=60, shows=("refused", "starved", "lost for nothing", *_UNSAFE))
def _(patch: _Patch) -> None:
    patch(lease, "GRACE", 0.0)


@mutation("no allowance for drift", "long", runs=400)
def _(patch: _Patch) -> None:
    patch(lease, "DRIFT", 0.0)


@mutation("half the allowance for drift", "drift", runs=100)
def _(patch: _Patch) -> None:
    patch(lease, "DRIFT", lease.DRIFT / 2)


@mutation("commits without the lock's condition, beyond all drift", "beyond-drift", runs=100, shows=("late write",))
def _(patch: _Patch) -> None:
    MUTATIONS["a commit without the lock's condition"].patch(patch)


@mutation("elapsed time anchored once", "freezes", "no-heartbeat", runs=1500)
def _(patch: _Patch) -> None:
    class Anchored(lease.ClockReading):
        __slots__ = ("first",)
        first: lease.ClockReading

        def after(self, monotonic: float, boottime: float, wall: float) -> Anchored:
            first = getattr(self, "first", self)
            since = max(monotonic - first.monotonic, boottime - first.boottime, wall - first.wall)
            reading = Anchored(max(self.elapsed, since), monotonic, wall, boottime)
            reading.first = first
            return reading

    patch(lease, "ClockReading", Anchored)


@mutation("elapsed time by the monotonic clock alone", "freezes", "no-heartbeat", runs=60)
def _(patch: _Patch) -> None:
    def after(self: Any, monotonic: float, boottime: float, wall: float) -> Any:
        advance = max(monotonic - self.monotonic, 0.0)
        return lease.ClockReading(self.elapsed + advance, monotonic, wall, boottime)

    patch(lease.ClockReading, "after", after)


@mutation("elapsed time by the wall clock alone", "freezes", "no-heartbeat", runs=100)
def _(patch: _Patch) -> None:
    def after(self: Any, monotonic: float, boottime: float, wall: float) -> Any:
        return lease.ClockReading(self.elapsed + max(wall - self.wall, 0.0), monotonic, wall, boottime)

    patch(lease.ClockReading, "after", after)


@mutation(
    "no heartbeat, though validity ends before the deadline", "calm", "deadlines", runs=60, shows=("lost for nothing",)
)
def _(patch: _Patch) -> None:
    patch(lease, "needs_heartbeat", lambda valid_until, deadline, lease_ms: deadline is None)


@mutation("the first heartbeat only at a third of the lease", "calm-slow", runs=400, shows=("lost for nothing",))
def _(patch: _Patch) -> None:
    patch(lease, "first_heartbeat", lambda now, valid_until, lease_ms: now + lease_ms / 3000)


# -- renewals ---------------------------------------------------------------------------------------------------------


def _without(kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a request without the part of its condition about ``kind``, which is part of "attribute condition"."""

    def build(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        parts = request["ConditionExpression"].split(" AND ")
        request["ConditionExpression"] = " AND ".join(
            _always(part) if kind in _kinds(request, part) else part for part in parts
        )
        return operation, request

    return build


def _only(
    which: Callable[..., bool], broken_one: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a request that is broken where ``which`` says so of its arguments."""

    def build(*arguments: Any, **more: Any) -> Any:
        return (broken_one if which(*arguments, **more) else original)(*arguments, **more)

    return build


def _is_renewal(*arguments: Any, seen: Any = None, **more: Any) -> bool:
    return seen is None


def _is_adoption(*arguments: Any, next_token: bool = False, **more: Any) -> bool:
    return next_token


def _is_resume(*arguments: Any, seen: Any = None, next_token: bool = False, **more: Any) -> bool:
    """Whether a hold is resumed, or parked."""
    return seen is not None and not next_token


def _is_release_by_string(place: Any, *, expiry_ms: Any = None, version: Any = None, **more: Any) -> bool:
    return expiry_ms is None and version is None


def _is_release(*arguments: Any, **more: Any) -> bool:
    return not _is_release_by_string(*arguments, **more)


def _is_permit(place: Any, *arguments: Any, **more: Any) -> bool:
    return place.permits is not None


def _is_permit_claim(place: Any, *arguments: Any, observed: Any = None, row: Any = None, **more: Any) -> bool:
    return place.permits is not None and observed is None and (row is None or row.is_held)


def _is_permit_correction(place: Any, *arguments: Any, observed: Any = None, **more: Any) -> bool:
    return place.permits is not None and observed is not None


def _is_first_permit(place: Any, *arguments: Any, observed: Any = None, row: Any = None, **more: Any) -> bool:
    return place.permits is not None and observed is None and row is not None and not row.is_held


def _kinds(request: dict[str, Any], part: str) -> str:
    """Return which attribute a part of a condition is about, and the part itself."""
    for placeholder, name in request["ExpressionAttributeNames"].items():
        if placeholder in part.replace(")", " ").replace("(", " ").split():
            return f"{name} {part}"
    return part


def _always(part: str) -> str:
    """Return a condition that is always true, with the same placeholders."""
    return f"({part} OR NOT {part})"


@mutation("a renewal without the owner", "foreign", "foreign-late", runs=4000)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_renewal, _without("ownerName", requests.renew), requests.renew))


@mutation("a renewal without owner and token", "renewals", "shortened", "stormy", runs=600)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_renewal, _without("ownerName", requests.renew), requests.renew))
    patch(requests, "renew", _only(_is_renewal, _without("fencingToken", requests.renew), requests.renew))


@mutation(
    "a renewal of what is released",
    "renewals",
    "delete",
    "stormy",
    runs=150,
    redundant="a late renewal leaves isReleased where it is, so the row stays free; where rows are deleted, "
    "owner and token are gone. It saves others a refused take-over, no more",
)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_renewal, _without("isReleased", requests.renew), requests.renew))


@mutation("a renewal that may turn the expiry back", "renewals", runs=400)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_renewal, _without("<", requests.renew), requests.renew))


@mutation(
    "renewals whose versions do not rise",
    "renewals",
    "shortened",
    runs=150,
    redundant="'version < the new one' refuses what does not rise, and the answer says what to go above: one "
    "more request. A late renewal that is above has a later expiry, and then a lease at least as long",
)
def _(patch: _Patch) -> None:
    original = keep.renew

    def renew(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        hold.expiry_ms = 0  # forgotten: the next version is computed from the time and the lease alone
        return (yield from original(hold, *arguments, **more))

    patch(keep, "renew", renew)


@mutation("a shortened lease not cut before it is sent", "shortened", runs=600)
def _(patch: _Patch) -> None:
    original = keep.renew

    def renew(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        before = hold.valid_until
        steps = original(hold, *arguments, **more)
        try:
            action = next(steps)
            hold.valid_until = max(hold.valid_until, before)
            while True:
                action = steps.send((yield action))
        except StopIteration as end:
            return end.value

    patch(keep, "renew", renew)


@mutation("a release without owner and token", "stormy", "fast", runs=200)
def _(patch: _Patch) -> None:
    blind = _without("ownerName", _without("fencingToken", requests.release))
    patch(requests, "release", _only(_is_release, blind, requests.release))


@mutation("a handle that counts as held while it is released", "renewals", "stormy", runs=4000)
def _(patch: _Patch) -> None:
    original = keep.release

    def release(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        steps = original(hold, *arguments, **more)
        try:
            action = next(steps)
            while True:
                hold.ended = False
                action = steps.send((yield action))
        except StopIteration as end:
            hold.ended = True
            return end.value

    patch(keep, "release", release)


@mutation(
    "a handle that counts as held after its last act is interrupted", "interrupted", "interrupted-calm", runs=60,
    shows=("says held",),
)  # fmt: skip
def _(patch: _Patch) -> None:
    def undone(original: Any) -> Any:
        def act(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
            try:
                return (yield from original(hold, *arguments, **more))
            except THROWN:
                hold.ended = False
                raise

        return act

    patch(keep, "release", undone(keep.release))
    patch(handover, "hand_over", undone(handover.hand_over))
    patch(transaction, "commit", undone(transaction.commit))


@mutation(
    "a last act that is interrupted counted as not sent", "interrupted", "interrupted-calm", runs=100,
    shows=("false loss",),
)  # fmt: skip
def _(patch: _Patch) -> None:
    patch(protocol.Hold, "doubt", lambda self: None)


@mutation("what an interrupted handover parked left there", "interrupted-adopted", runs=600, shows=("held for nobody",))
def _(patch: _Patch) -> None:
    original = protocol.row_of

    def row_of(outcome: Any, place: Any) -> Any:
        shown = original(outcome, place)
        return None if shown is not None and (shown.owner or "").endswith("/") else shown

    patch(keep, "row_of", row_of)


@mutation(
    "two renewals of one handle under way at once", "at-once", runs=100, shows=("expiry", "false renewal", *_UNSAFE)
)
def _(patch: _Patch) -> None:
    def turn(self: Any, holding: Any) -> Generator[Any, Any, None]:
        yield from ()

    patch(clients.Client, "turn", turn)


@mutation("a renewal that counts before its answer", "interrupted", "interrupted-calm", runs=20,
          shows=("false renewal",))  # fmt: skip
def _(patch: _Patch) -> None:
    original = keep.renew

    def renew(hold: Any, memory: Any, entropy: Any, reading: Any, **more: Any) -> Generator[Any, Any, Any]:
        steps = original(hold, memory, entropy, reading, **more)
        try:
            action = next(steps)
            hold.extend(reading.elapsed, int(memory.server.now(reading)))
            while True:
                action = steps.send((yield action))
        except StopIteration as end:
            return end.value

    patch(keep, "renew", renew)


# -- claims, corrections, giving up -----------------------------------------------------------------------------------


@mutation("a grant of a fast clock not corrected", "fast", "mixed", runs=60, shows=("expiry",))
def _(patch: _Patch) -> None:
    patch(lease, "clock_was_fast", lambda lease_ms, expiry_ms, date: False)


@mutation("released and claimed again instead of corrected", "given-back-late", "corrections", runs=20_000)
def _(patch: _Patch) -> None:
    original = acquire.Acquisition.write

    def write(self: Any, step: Any) -> Generator[Any, Any, Any]:
        observed = step.version
        if observed in self.sent:
            self.sent[observed].struck = False
            yield from self.exchange(
                requests.release(
                    self.wanted.place,
                    owner=self.wanted.owner,
                    version=observed,
                    delete=self.wanted.delete_on_release,
                    content=requests.Content(),
                )
            )
            step = acquire.Take()
        return (yield from original(self, step))

    patch(acquire.Acquisition, "write", write)


@mutation("a corrected version counted when it is seen again", "given-back-late", "corrections", runs=20_000)
def _(patch: _Patch) -> None:
    original = acquire.Acquisition.own

    def own(self: Any, row: Any, version: str, date: int | None) -> Any:
        self.sent[version].struck = False
        return original(self, row, version, date)

    patch(acquire.Acquisition, "own", own)


@mutation("a claim given up and not released", "given-up", "stormy", runs=40, shows=("left behind",))
def _(patch: _Patch) -> None:
    def abandon(self: Any, **how: Any) -> Generator[Any, Any, None]:
        yield from ()

    patch(acquire.Acquisition, "abandon", abandon)


@mutation("a claim given up and released by a single send", "given-up", "stormy", runs=400, shows=("left behind",))
def _(patch: _Patch) -> None:
    original = acquire.Acquisition.abandon

    def abandon(self: Any, **how: Any) -> Generator[Any, Any, None]:
        steps = original(self, **how)
        action = next(steps, None)
        if action is not None:
            yield action

    patch(acquire.Acquisition, "abandon", abandon)


@mutation(
    "a claim given up at the second interrupt", "interrupted-late", "interrupted", runs=400, shows=("left behind",)
)  # fmt: skip
def _(patch: _Patch) -> None:
    original = acquire.Acquisition.abandon

    def abandon(self: Any, **more: Any) -> Generator[Any, Any, None]:
        if not getattr(self, "was_given_up", False):
            self.was_given_up = True
            yield from original(self, **more)

    patch(acquire.Acquisition, "abandon", abandon)


@mutation("an owner that is not unique for each acquisition", "stormy", runs=1300)
def _(patch: _Patch) -> None:
    patch(clients, "owner_name", lambda process: "function")


@mutation("a late copy of the claim that release leaves", "stormy", "fast", runs=4000, shows=("copy left",))
def _(patch: _Patch) -> None:
    original = keep.release

    def release(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        steps = original(hold, *arguments, **more)
        first = None
        try:
            action = next(steps)
            while True:
                if isinstance(action, protocol.Send):
                    first = first or action.request
                    if action.request is not first:  # the release of the copy is not sent
                        error = ServiceError("AccessDeniedException", "")
                        action = steps.send(protocol.Event(arguments[2], error))
                        continue
                action = steps.send((yield action))
        except StopIteration as end:
            return end.value

    patch(keep, "release", release)


@mutation("whatever a refused release shows released as a late copy", "stormy", "fast", runs=200)
def _(patch: _Patch) -> None:
    class Every:
        def __contains__(self, version: object) -> bool:
            return True

    original = acquire.Acquisition.own

    def own(self: Any, *arguments: Any) -> Any:
        found = original(self, *arguments)
        if isinstance(found, protocol.Hold):
            found.claims = Every()  # type: ignore[assignment]
        return found

    patch(acquire.Acquisition, "own", own)


@mutation("a lost row counted as released", "stormy", "renewals", runs=1000, shows=("release",))
def _(patch: _Patch) -> None:
    original = keep.release

    def release(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield from original(hold, *arguments, **more))
        except TransportError:
            return True

    patch(keep, "release", release)


# -- handing over, commits, replacing ----------------------------------------------------------------------------------


@mutation(
    "an adoption under any token", "handing-over", "handing-over-late", runs=60, shows=(*_UNSAFE, "adopted twice")
)
def _(patch: _Patch) -> None:
    see = handover.Adoption.see

    def blind(self: Any, item: Any, date: int | None) -> Any:
        mine = item is not None and item["ownerName"] == {"S": self.wanted.owner}
        if item is not None and mine and "fencingToken" in item:
            self.token = int(item["fencingToken"]["N"])
        return see(self, item, date)

    patch(requests, "renew", _only(_is_adoption, _without("fencingToken", requests.renew), requests.renew))
    patch(handover.Adoption, "see", blind)


@mutation(
    "an adoption that does not raise the token", "handing-over", "handing-over-late", runs=60,
    shows=(*_UNSAFE, "adopted twice"),
)  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.renew

    def adopt(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        values = request["ExpressionAttributeValues"]
        request["ExpressionAttributeValues"] = {
            name: {"N": "0"} if value == {"N": "1"} else value for name, value in values.items()
        }
        return operation, request

    patch(requests, "renew", _only(_is_adoption, adopt, original))


@mutation(
    "an adoption of what is released",
    "handing-over",
    "handing-over-late",
    runs=100,
    redundant="it leaves isReleased where it is, so the row stays free and is not counted as adopted",
)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_adoption, _without("isReleased", requests.renew), requests.renew))


@mutation("a lock handed over that deletes its row", "handing-over-deleted", runs=1000, shows=("adopted twice",))
def _(patch: _Patch) -> None:
    patch(clients, "may_hand_over", lambda hold: True)


@mutation("a handle that counts as held while it is handed over", "handing-over", "calm-handing-over", runs=60)
def _(patch: _Patch) -> None:
    original = handover.hand_over

    def hand_over(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        steps = original(hold, *arguments, **more)
        try:
            action = next(steps)
            while True:
                hold.ended = False
                action = steps.send((yield action))
        except StopIteration as end:
            hold.ended = False
            return end.value

    patch(handover, "hand_over", hand_over)


@mutation("an adoption given up and not released", "handing-over-late", runs=400, shows=("left behind",))
def _(patch: _Patch) -> None:
    def abandon(self: Any, **how: Any) -> Generator[Any, Any, None]:
        yield from ()

    patch(handover.Adoption, "abandon", abandon)


@mutation("a commit without the lock's condition", "commits", "commits-late", runs=40, shows=("late write",))
def _(patch: _Patch) -> None:
    original = requests.commit

    def commit(items: Any, last: Any, client_token: str) -> Any:
        operation, request = last
        parts = request["ConditionExpression"].split(" AND ")
        condition = " AND ".join(_always(part) for part in parts)
        return original(items, (operation, {**request, "ConditionExpression": condition}), client_token)

    patch(requests, "commit", commit)


@mutation(
    "a commit that leaves the lock held",
    "commits",
    "commits-late",
    runs=100,
    shows=("late write", "written twice", "left behind", "false refusal"),
)
def _(patch: _Patch) -> None:
    original = requests.commit
    patch(requests, "commit", lambda items, last, token: original(items, _renewing(last), token))


def _renewing(last: Any) -> Any:
    """The lock's part of a commit that leaves the lock held."""
    operation, request = last
    names = {name: "held" if old == "isReleased" else old for name, old in request["ExpressionAttributeNames"].items()}
    return operation, {**request, "ExpressionAttributeNames": names}


@mutation(
    "a commit under a new client token at each decision",
    "commits-late",
    "commits",
    runs=2000,
    shows=("false refusal",),
)
def _(patch: _Patch) -> None:
    def exchange(request: Any, memory: Any, entropy: Any, *more: Any) -> Generator[Any, Any, Any]:
        operation, body = request
        if operation == "TransactWriteItems":
            request = operation, {**body, "ClientRequestToken": entropy.nonce()}
        return (yield from protocol.exchange(request, memory, entropy, *more))

    patch(transaction, "exchange", exchange)


@mutation(
    "a refused commit not followed by a release", "commits-late", "commits-lost", runs=400, shows=("false refusal",)
)
def _(patch: _Patch) -> None:
    def exchange(request: Any, memory: Any, entropy: Any, reading: Any, until: float) -> Generator[Any, Any, Any]:
        if request[0] == "UpdateItem":
            return Reply(None, None), False, reading
        return (yield from protocol.exchange(request, memory, entropy, reading, until))

    patch(transaction, "exchange", exchange)


@mutation(
    "a refusal counted as final, no matter how the release ended",
    "commits-lost",
    "commits-late",
    runs=4000,
    shows=("false refusal",),
)
def _(patch: _Patch) -> None:
    def exchange(request: Any, memory: Any, entropy: Any, reading: Any, until: float) -> Generator[Any, Any, Any]:
        outcome, unclear, reading = yield from protocol.exchange(request, memory, entropy, reading, until)
        return (Reply(None, None) if request[0] == "UpdateItem" else outcome), unclear, reading

    patch(transaction, "exchange", exchange)


@mutation(
    "a second refusal by the application's conditions counted as final",
    "commits-lost",
    runs=4000,
    shows=("false refusal",),
)
def _(patch: _Patch) -> None:
    def lost_among(holds: Any, outcome: Any) -> Any:
        return [(holds[0], None)] if isinstance(outcome, TransactionCanceled) else []

    patch(transaction, "_lost_among", lost_among)


@mutation("a client token counted as known for ever", "commits-frozen", runs=400, shows=("false refusal",))
def _(patch: _Patch) -> None:
    patch(transaction, "_TOKEN_KNOWN", float("inf"))


@mutation(
    "a client token counted as known for ever, under several locks", "several-commits-frozen", runs=400,
    shows=("false refusal",),
)  # fmt: skip
def _(patch: _Patch) -> None:
    patch(transaction, "_TOKEN_KNOWN", float("inf"))


# -- several locks ----------------------------------------------------------------------------------------------------


@mutation("several locks taken in the order given", "several", "several-calm", runs=20, shows=("deadlock",))
def _(patch: _Patch) -> None:
    patch(several, "ordered", lambda keys: list(dict.fromkeys(keys)))


@mutation("several locks not released after a failure", "several", runs=20, shows=("left behind",))
def _(patch: _Patch) -> None:
    def release_all(self: Any) -> Generator[Any, Any, None]:
        self.holds.clear()
        yield from ()

    patch(several.Several, "release_all", release_all)


@mutation("several locks returned while one is lost", "several-lost", "several", runs=60, shows=("returned lost",))
def _(patch: _Patch) -> None:
    patch(several.Several, "check_lost", lambda self: None)
    patch(several.Several, "check_held", lambda self: None)


@mutation("no last look at several locks before they are returned", "several-lost", runs=1000, shows=("returned lost",))
def _(patch: _Patch) -> None:
    patch(several.Several, "check_held", lambda self: None)


@mutation("several locks returned with what is left of their leases", "several-calm", runs=60, shows=("stale",))
def _(patch: _Patch) -> None:
    def freshen(self: Any, hold: Any) -> Generator[Any, Any, None]:
        yield from ()

    patch(several.Several, "freshen", freshen)


@mutation("several locks that begin anew without a release", "several-lost", runs=60, shows=("left behind",))
def _(patch: _Patch) -> None:
    release_all = several.Several.release_all

    def forgetting(self: Any) -> Generator[Any, Any, None]:
        if sys.exc_info()[0] is None:  # not on the way out with an error
            self.holds.clear()
        yield from release_all(self)

    patch(several.Several, "release_all", forgetting)


@mutation("a commit under several locks with the condition of one", "several-commits", runs=100, shows=("late write",))
def _(patch: _Patch) -> None:
    original = requests.commit

    def commit(items: Any, last: Any, client_token: str) -> Any:
        for item in items:
            update = item["Update"]
            if update["TableName"] == "locks":
                parts = update["ConditionExpression"].split(" AND ")
                update["ConditionExpression"] = " AND ".join(_always(part) for part in parts)
        return original(items, last, client_token)

    patch(requests, "commit", commit)


@mutation(
    "a refused commit under several locks not followed by releases", "several-commits", runs=400,
    shows=("false refusal",),
)  # fmt: skip
def _(patch: _Patch) -> None:
    def exchange(request: Any, memory: Any, entropy: Any, reading: Any, until: float) -> Generator[Any, Any, Any]:
        if request[0] == "UpdateItem":
            return Reply(None, None), False, reading
        return (yield from protocol.exchange(request, memory, entropy, reading, until))

    patch(transaction, "exchange", exchange)


@mutation("a row replaced regardless of its version", "replacing-foreign", runs=300)
def _(patch: _Patch) -> None:
    patch(requests, "replace", _without("recordVersionNumber", requests.replace))


@mutation(
    "a row replaced regardless of its token", "replacing", runs=200,
    redundant="the version alone tells one grant or renewal from another; the token is what grants raise, and a late "
    "copy of a claim brings an old version back only with another token, and then there is no holder",
)  # fmt: skip
def _(patch: _Patch) -> None:
    patch(requests, "replace", _without("fencingToken", requests.replace))


# -- events -----------------------------------------------------------------------------------------------------------

_EVENTS = ("events-passing", "events-late", "events")
_NOT_ONCE = ("done again", "done twice")


@mutation("an event claimed and taken over regardless of its completion", *_EVENTS, runs=20, shows=_NOT_ONCE)
def _(patch: _Patch) -> None:
    original = requests.claim
    patch(requests, "claim", lambda *arguments, event, **more: original(*arguments, **more))


@mutation("an event taken over regardless of its completion", *_EVENTS, runs=400, shows=_NOT_ONCE)
def _(patch: _Patch) -> None:
    original = requests.claim

    def claim(*arguments: Any, observed: str | None, event: bool, **more: Any) -> Any:
        return original(*arguments, observed=observed, event=event and observed is None, **more)

    patch(requests, "claim", claim)


@mutation("a completion observed as there or not there alone", "events-passing", runs=400, shows=_NOT_ONCE)
def _(patch: _Patch) -> None:
    original = requests.Update.expect

    def expect(self: Any, **fields: Any) -> None:
        if fields.get("completed_until") is None:
            original(self, **fields)
        else:
            self.require("attribute_exists(#completed_until)")

    patch(requests.Update, "expect", expect)


@mutation(
    "a completion that has passed counted as none", "events-passing", runs=40, shows=("refused", "starved", "stuck")
)
def _(patch: _Patch) -> None:
    original = requests.claim

    def claim(*arguments: Any, completed_until: int | None, **more: Any) -> Any:
        return original(*arguments, completed_until=None, **more)

    patch(requests, "claim", claim)


@mutation(
    "an event's end judged by the client's clock", *_EVENTS, runs=100, shows=(*_NOT_ONCE, "false done", "starved")
)
def _(patch: _Patch) -> None:
    original = row.Row.refuse_done

    def refuse_done(self: Any, schema: Any, key: str, date: int | None) -> None:
        acquisition = sys._getframe(1).f_locals["self"]
        original(self, schema, key, int(acquisition.reading.wall))

    patch(row.Row, "refuse_done", refuse_done)


@mutation("an event that another holds not looked at", *_EVENTS, runs=100, shows=_NOT_ONCE)
def _(patch: _Patch) -> None:
    original = row.Row.refuse_done

    def refuse_done(self: Any, schema: Any, key: str, date: int | None) -> None:
        if self.is_free:
            original(self, schema, key, date)

    patch(row.Row, "refuse_done", refuse_done)


@mutation("a completion by a second request after the release", *_EVENTS, runs=200, shows=("false success", *_NOT_ONCE))
def _(patch: _Patch) -> None:
    original = keep.release

    def release(
        hold: Any, memory: Any, entropy: Any, reading: Any, *, complete: bool = False, **more: Any
    ) -> Generator[Any, Any, bool]:
        done = yield from original(hold, memory, entropy, reading, **more)
        if done and complete:
            request = _completing(hold, keep.completion(hold, memory, reading, None))
            yield from protocol.exchange(request, memory, entropy, reading, reading.elapsed + protocol.DECISION)
        return done

    patch(keep, "release", release)


def _completing(hold: Any, completion: Any) -> Any:
    """Only the completion, in a row that its owner has released."""
    operation, request = requests.release(
        hold.place, owner=hold.owner, token=hold.token, delete=False, expiry_ms=hold.expiry_ms, completion=completion,
        content=requests.Content(ttl=hold.ttl),
    )  # fmt: skip
    parts = request["ConditionExpression"].split(" AND ")
    mine = [_always(part) if "isReleased" in _kinds(request, part) else part for part in parts]
    return operation, {**request, "ConditionExpression": " AND ".join(mine)}


@mutation("a completion without owner and token", *_EVENTS, runs=60, shows=("late release", *_UNSAFE))
def _(patch: _Patch) -> None:
    original = requests.release
    blind = _without("ownerName", _without("fencingToken", original))

    def release(*arguments: Any, completion: Any = None, **more: Any) -> Any:
        return (original if completion is None else blind)(*arguments, completion=completion, **more)

    patch(requests, "release", release)


@mutation("a failed handler that completes its event", *_EVENTS, runs=20, shows=("false completion",))
def _(patch: _Patch) -> None:
    original = keep.release

    def release(hold: Any, *arguments: Any, complete: bool = False, **more: Any) -> Generator[Any, Any, Any]:
        return (yield from original(hold, *arguments, complete=hold.window is not None, **more))

    patch(keep, "release", release)


@mutation("a release after a refused commit that completes", "events-commits", runs=40, shows=("no effects",))
def _(patch: _Patch) -> None:
    original = transaction._release
    completions: dict[str, Any] = {}

    def release(hold: Any, data: Any, completion: Any, *more: Any) -> Any:
        completion = completions.setdefault(hold.owner, completion)
        return original(hold, data, completion, *more)

    patch(transaction, "_release", release)


@mutation("a commit that does not complete its event", "events-commits", runs=40, shows=("false success",))
def _(patch: _Patch) -> None:
    original = transaction._release
    patch(transaction, "_release", lambda hold, data, completion, *more: original(hold, data, None, *more))


@mutation("a window reckoned by the monotonic clock", *_EVENTS, runs=60, shows=("window",))
def _(patch: _Patch) -> None:
    patch(lease.ServerTime, "after_freezes", lease.ServerTime.now)


@mutation("a time to live that is over before the lease", "reaped-at-once", runs=60)
def _(patch: _Patch) -> None:
    def ttl(self: Any, expiry_ms: int, completed_until: int | None, ttl: int | None) -> Any:
        return None if ttl is None else {"N": str(max(expiry_ms // 1000 - 5, completed_until or 0) + ttl)}

    patch(requests.Update, "ttl", ttl)


@mutation("an event kept no longer than its lock", "reaped-events", runs=60, shows=("erased", "done again"))
def _(patch: _Patch) -> None:
    original = requests.Update.ttl

    def ttl(self: Any, expiry_ms: int, completed_until: int | None, ttl: int | None) -> Any:
        return original(self, expiry_ms, None, ttl)

    patch(requests.Update, "ttl", ttl)


@mutation("a time to live that does not count the completion", *_EVENTS, runs=20, shows=("ttl",))
def _(patch: _Patch) -> None:
    original = requests.Update.ttl
    patch(requests.Update, "ttl", lambda self, expiry_ms, completed_until, ttl: original(self, expiry_ms, None, ttl))


# -- the queue --------------------------------------------------------------------------------------------------------

_ORDER = ("out of order", "thrown out")


@mutation("a first claim that does not ask whether somebody waits", "queue-calm", "queue", runs=100, shows=_ORDER)
def _(patch: _Patch) -> None:
    patch(requests, "NOBODY_WAITS", None)


@mutation("a claim from any place", "queue-calm", "queue", runs=60, shows=_ORDER)
def _(patch: _Patch) -> None:
    original = queue.Queue.condition

    def condition(self: Any, step: Any, waiters: Any, living: Any) -> Any:
        if self.index is not None:
            return self.condition_from(self.index, waiters, living)
        return original(self, step, waiters, living)

    patch(queue.Queue, "condition", condition)


@mutation(
    "a claim from the first place that leaves it there", "queue-calm", runs=20, shows=("extra leave", "place left")
)
def _(patch: _Patch) -> None:
    original = requests.QueueCondition.write

    def write(self: Any, update: Any) -> None:
        before = list(update.removes)
        original(self, update)
        update.removes[:] = before

    patch(requests.QueueCondition, "write", write)
    patch(queue.Queue, "leave", _without_leave(queue.Queue.leave, granted=True))


def _without_leave(original: Any, granted: bool) -> Any:
    def leave(self: Any, **how: Any) -> Generator[Any, Any, None]:
        if how.get("granted", False) is not granted:
            yield from original(self, **how)

    return leave


@mutation("a place given up that is not removed", "queue-calm", "queue-leaving", runs=60, shows=("place left",))
def _(patch: _Patch) -> None:
    patch(queue.Queue, "leave", _without_leave(queue.Queue.leave, granted=False))


@mutation("a place given up by a single send", "queue-calm", "queue-leaving", runs=200, shows=("place left",))
def _(patch: _Patch) -> None:
    original = queue.Queue.leave

    def leave(self: Any, **how: Any) -> Generator[Any, Any, None]:
        steps = original(self, **how)
        action = next(steps, None)
        if action is not None:
            yield action

    patch(queue.Queue, "leave", leave)


@mutation("a place left in the row of a grant", "queue-late", "queue-calm", "queue-beside", runs=120,
          shows=("place left",), redundant="a claim removes the place it comes from, so only a lost or late request "
          "leaves one, and such a place expires like that of any who died")  # fmt: skip
def _(patch: _Patch) -> None:
    patch(queue.Queue, "leave", _without_leave(queue.Queue.leave, granted=True))


@mutation("a place taken at the front", "queue-calm", "queue", runs=60, shows=_ORDER)
def _(patch: _Patch) -> None:
    original = tickets.take_ticket

    def take_ticket(place: Any, name: str) -> Any:
        operation, request = original(place, name)
        update = request["UpdateExpression"]
        assert update == "SET #waiters = list_append(if_not_exists(#waiters, :none), :new)", update
        front = "SET #waiters = list_append(:new, if_not_exists(#waiters, :none))"
        return operation, {**request, "UpdateExpression": front}

    patch(tickets, "take_ticket", take_ticket)


@mutation("a place taken without a limit", "queue-full", "queue-idle", runs=60, shows=("crowd",))
def _(patch: _Patch) -> None:
    patch(queue, "MOST_WAITERS", 10**6)
    patch(tickets, "MOST_WAITERS", 10**6)


@mutation("a place taken again by a copy of its append", "queue-late", runs=400, shows=("crowd",))
def _(patch: _Patch) -> None:
    original = tickets.take_ticket

    def take_ticket(place: Any, name: str) -> Any:
        operation, request = original(place, name)
        parts = request["ConditionExpression"].split(" AND ")
        parts = [_always(part) if part.startswith("NOT contains") else part for part in parts]
        return operation, {**request, "ConditionExpression": " AND ".join(parts)}

    patch(tickets, "take_ticket", take_ticket)


@mutation("no patience with those ahead", "queue-calm", "queue", runs=60, shows=("thrown out",))
def _(patch: _Patch) -> None:
    patch(queue, "PATIENCE", 0.0)


@mutation("patience for a second", "queue-calm", "queue-beside", runs=400, shows=("thrown out",))
def _(patch: _Patch) -> None:
    patch(queue, "PATIENCE", 1.0)


def _a_quarter_more(self: Any, ahead: int) -> float:
    return float(queue.PATIENCE + min(0.25 * (ahead - 1), 2.0) - self.seconds)


@mutation("patience of a quarter of a second more for each further one ahead", "queue-dying", runs=400, shows=_ORDER)
def _(patch: _Patch) -> None:
    patch(queue.Patience, "left", _a_quarter_more)


@mutation("the dead never passed", "queue-idle", "queue-dying", runs=60, shows=("starved", "stuck"))
def _(patch: _Patch) -> None:
    patch(queue.Patience, "left", lambda self, ahead: 1.0)


def _blind(patch: _Patch) -> None:
    original = queue.Patience.note
    patch(queue.Patience, "note", lambda self, grant, first, ahead, now: original(
        self, None if grant is None else "any", first, ahead, now
    ))  # fmt: skip


@mutation("patience that goes on over other grants", "queue-pollers-many", runs=60, shows=_ORDER,
          redundant="whoever is first and alive takes the lock before the next one has often seen it free. "
          "tests/core/test_queue.py shows it")  # fmt: skip
def _(patch: _Patch) -> None:
    _blind(patch)
    original = queue.Patience.note

    def note(self: Any, grant: Any, first: Any, ahead: int, now: float) -> None:
        if grant is not None:  # and while others hold the lock
            original(self, grant, first, ahead, now)

    patch(queue.Patience, "note", note)


@mutation("patience that goes on though fewer are ahead", "queue-expiring", runs=200, shows=_ORDER)
def _(patch: _Patch) -> None:
    original = queue.Patience.note
    patch(queue.Patience, "note", lambda self, grant, first, ahead, now: original(self, grant, first, 0, now))


@mutation("patience that goes on over looks without an answer", "queue-throttled", "queue-slow", runs=100,
          shows=("impatient", "thrown out"))  # fmt: skip
def _(patch: _Patch) -> None:
    patch(queue.Queue, "_look_once", lambda self: self.acquisition.read())


@mutation("all those ahead removed once the first one is dead", "queue-freezes", "queue-deaths", "queue-throttled",
          runs=400, shows=("thrown out",))  # fmt: skip
def _(patch: _Patch) -> None:
    original = queue.Queue.condition_from

    def condition_from(self: Any, index: int, waiters: Any, left: Any, behind: int = 0) -> Any:
        return original(self, index, waiters, left if self._is_last() else (), behind)

    patch(queue.Queue, "condition_from", condition_from)


@mutation("a last try that removes whoever is ahead", "queue-calm", "queue-brief", runs=100, shows=("thrown out",))
def _(patch: _Patch) -> None:
    original = queue.Queue.condition_from

    def condition_from(self: Any, index: int, waiters: Any, left: Any, behind: int = 0) -> Any:
        return original(self, index, waiters, () if self._is_last() else left, behind)

    patch(queue.Queue, "condition_from", condition_from)


@mutation("places that are never renewed", "queue-calm", "queue", runs=100, shows=_ORDER)
def _(patch: _Patch) -> None:
    patch(queue.Queue, "_renew", lambda self, mine, living: None)


@mutation("places renewed when hardly anything is left", "queue-calm", "queue", runs=200, shows=_ORDER)
def _(patch: _Patch) -> None:
    patch(queue, "RENEWED", 0.0)


def _renewal_under(patch: _Patch, condition: str) -> None:
    original = tickets.renew_ticket

    def renew_ticket(place: Any, index: int, old: str, mine: str) -> Any:
        operation, request = original(place, index, old, mine)
        values = {name: value for name, value in request["ExpressionAttributeValues"].items() if name == ":new"}
        kept = condition.format(index=index)
        return operation, {**request, "ConditionExpression": kept, "ExpressionAttributeValues": values}

    patch(tickets, "renew_ticket", renew_ticket)


@mutation("a renewal by index, over whoever is there", "queue-late", "queue", "queue-leaving", runs=400,
          shows=("thrown out", "moved", "came back to wait"))  # fmt: skip
def _(patch: _Patch) -> None:
    _renewal_under(patch, "attribute_exists(#waiters[{index}])")


@mutation("a late copy of a renewal that brings a place back", "queue-late", runs=400, shows=("came back to wait",))
def _(patch: _Patch) -> None:
    _renewal_under(patch, "attribute_exists(#waiters) AND NOT contains(#waiters, :new)")


def _by_local_clock(self: Any, waiters: Any) -> Any:
    now = int(self.acquisition.reading.wall)
    return tuple(index for index, place in enumerate(waiters[: self.index]) if row.counts(place, now))


@mutation("places that expire by the waiter's own clock", "queue", "queue-calm", runs=100, shows=_ORDER)
def _(patch: _Patch) -> None:
    patch(queue.Queue, "_living", _by_local_clock)


@mutation("places dated by the waiter's own clock", "queue", "queue-calm", runs=200, shows=_ORDER)
def _(patch: _Patch) -> None:
    def expiry(self: Any, living: int) -> int:
        return int(self.acquisition.reading.wall) + 20

    patch(queue.Queue, "_expiry", expiry)


@mutation("a place that counts however far ahead it is dated", "queue-idle", runs=200, shows=("starved", "stuck"))
def _(patch: _Patch) -> None:
    def counts(place: str, date: int | None) -> bool:
        expiry = row.ticket_expiry(place)
        return expiry is not None and (date is None or date <= expiry)

    patch(queue, "counts", counts)
    patch(queue.Patience, "left", lambda self, ahead: 1.0)  # by which it would be passed


@mutation("a place written over one that counts", "queue-full", runs=200, shows=("thrown out",))
def _(patch: _Patch) -> None:
    original = queue.Queue._take_ticket

    def take_ticket(self: Any, waiters: Any) -> Any:
        return self._ask(waiters, len(waiters) - 1) if len(waiters) >= 64 else original(self, waiters)

    patch(queue.Queue, "_take_ticket", take_ticket)


@mutation("no last try", "queue-idle", runs=100, shows=("refused",))
def _(patch: _Patch) -> None:
    original = queue.Queue._write

    def write(self: Any, step: Any, waiters: Any) -> Any:
        return (
            None if self.acquisition.reading.elapsed >= self.acquisition.wait_until else original(self, step, waiters)
        )

    patch(queue.Queue, "_write", write)


@mutation("a try like the last one at each look", "queue-calm", "queue", runs=60, shows=_ORDER)
def _(patch: _Patch) -> None:
    original = queue.Queue.condition

    def condition(self: Any, step: Any, waiters: Any, living: Any) -> Any:
        until = self.acquisition.wait_until
        self.acquisition.wait_until = 0.0
        try:
            return original(self, step, waiters, living)
        finally:
            self.acquisition.wait_until = until

    patch(queue.Queue, "condition", condition)


@mutation("naps longer than others have patience", "queue-calm", "queue", runs=400, shows=("thrown out", "starved"))
def _(patch: _Patch) -> None:
    patch(queue.Pace, "nap", lambda self, ahead, reading, free: 6.0)


@mutation(
    "errors slept off for longer than others have patience",
    "queue-late",
    "queue-slow",
    runs=120,
    shows=("thrown out", "starved"),
    redundant="a nap of its own refresh_period follows only a decision that failed, which is a fault",
)
def _(patch: _Patch) -> None:
    class Lease:
        def __getattr__(self, name: str) -> Any:
            return getattr(lease, name)

        def backoff(self, tries: int, longest: float, jitter: float) -> float:
            return lease.backoff(tries, 60.0, jitter)

    patch(queue, "lease", Lease())


@mutation(
    "an append whose answer was lost forgotten",
    "queue-late",
    "queue-slow",
    runs=120,
    shows=("place left", "crowd"),
    redundant="the place that landed is that of one who died: 3 s for those behind it",
)
def _(patch: _Patch) -> None:
    original = queue.Queue._ask

    def ask(self: Any, waiters: Any, index: int) -> Any:
        self._name = self._asked = None
        self._names.clear()
        return original(self, waiters, index)

    patch(queue.Queue, "_ask", ask)


@mutation(
    "a correction that waits in the queue",
    "queue-late",
    "queue",
    runs=120,
    redundant="a version that waits for its correction is nobody's: the row is locked until its expiry, no longer",
)
def _(patch: _Patch) -> None:
    original = queue.Queue._write

    def write(self: Any, step: Any, waiters: Any) -> Any:
        sent = self.acquisition.sent
        if isinstance(step, acquire.Take) and step.version in sent:
            return self._claim(acquire.Take(step.version, step.row, requests.NOBODY_WAITS if waiters else None))
        return original(self, step, waiters)

    patch(queue.Queue, "_write", write)


@mutation("a queue that goes on though waiters cannot be read", "queue-forged", runs=100,
          shows=("escaped", "starved", "refused", "stuck"))  # fmt: skip
def _(patch: _Patch) -> None:
    original = queue.Queue._waiters
    patch(queue.Queue, "_waiters", lambda self: original(self) or ())


@mutation(
    "a row made by taking a place",
    "queue-foreign",
    runs=1200,
    shows=("no version",),
)
def _(patch: _Patch) -> None:
    original = tickets.take_ticket

    def take_ticket(place: Any, name: str) -> Any:
        operation, request = original(place, name)
        parts = request["ConditionExpression"].split(" AND ")
        return operation, {**request, "ConditionExpression": " AND ".join([_always(parts[0]), *parts[1:]])}

    patch(tickets, "take_ticket", take_ticket)


# -- semaphores -------------------------------------------------------------------------------------------------------

_TOO_MANY = (*_UNSAFE, "crowd of entries")


@mutation(
    "a permit claimed though there is an entry of mine", "permits-late", "permits-corrections", runs=400,
    shows=(*_TOO_MANY, "token", "left behind", "release"),
)  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.claim

    def claim(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        parts = request["ConditionExpression"].split(" AND ")
        parts = [_always(part) if part.startswith("attribute_not_exists(#") and "." in part else part for part in parts]
        return operation, {**request, "ConditionExpression": " AND ".join(parts)}

    patch(requests, "claim", _only(_is_permit_claim, claim, original))


@mutation("a size that counts for nothing if dead permits are replaced", "permits-mixed", runs=2000,
          shows=_TOO_MANY)  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.claim

    def claim(*arguments: Any, row: Any, **more: Any) -> Any:
        operation, request = original(*arguments, row=row, **more)
        parts = request["ConditionExpression"].split(" AND ")
        dead = row is not None and row.dead
        parts = [_always(part) if part.startswith("size(") and dead else part for part in parts]
        return operation, {**request, "ConditionExpression": " AND ".join(parts)}

    patch(requests, "claim", _only(_is_permit_claim, claim, original))


@mutation("a size that does not count at all", "permits-calm", "permits", runs=40, shows=_TOO_MANY)
def _(patch: _Patch) -> None:
    patch(requests, "claim", _only(_is_permit_claim, _more_permits(requests.claim, 1), requests.claim))


def _more_permits(original: Any, more_permits: int) -> Any:
    def claim(place: Any, *arguments: Any, **more: Any) -> Any:
        behind = requests.QueueCondition({}, behind=-more_permits) if more.get("queue") is None else None
        return original(place, *arguments, **{**more, "queue": behind or more["queue"]})

    return claim


@mutation("dead permits replaced whether or not they are as observed", "permits-dying", "permits-freezes",
          "permits-late", runs=400, shows=_TOO_MANY)  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.claim

    def claim(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        parts = request["ConditionExpression"].split(" AND ")
        parts = [_always(part) if " = " in part and "." in part else part for part in parts]
        return operation, {**request, "ConditionExpression": " AND ".join(parts)}

    patch(requests, "claim", _only(_is_permit_claim, claim, original))


@mutation("a permit's expiry judged by the caller's clock", "permits", "permits-slow", runs=40)
def _(patch: _Patch) -> None:
    patch(
        lease,
        "may_take_over",
        lambda row, seen, received, date: row.expiry_ms is not None and received.wall * 1000 >= row.expiry_ms,
    )


@mutation("a permit committed and released without its token", "permits-zombies", "permits-commits", runs=2000,
          shows=("late write", "release", *_TOO_MANY))  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.release

    def release(place: Any, *, token: int | None = None, **more: Any) -> Any:
        operation, request = original(place, token=token, **more)
        if token is None:
            return operation, request
        path = request["ConditionExpression"].split(" = ")[0]
        condition = f"attribute_exists({path}) AND {_always(request['ConditionExpression'])}"
        return operation, {**request, "ConditionExpression": condition}

    patch(requests, "release", _only(_is_permit, release, original))


@mutation("a permit renewed without its token", "permits-late", "permits-outages", runs=400,
          redundant="while my validity lasts, the entry under my nonce is the one that I was granted. After that the "
          "handle is lost, and a renewal that lands late keeps an entry of nobody until its expiry")  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.renew

    def renew(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        parts = request["ConditionExpression"].split(" AND ")
        parts = [_always(part) if " = " in part else part for part in parts]
        return operation, {**request, "ConditionExpression": " AND ".join(parts)}

    patch(requests, "renew", _only(_is_permit, renew, original))


@mutation("a permit's renewal that may turn the expiry back", "permits-late", "permits-shortened", runs=400,
          shows=_TOO_MANY)  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.renew

    def renew(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        parts = request["ConditionExpression"].split(" AND ")
        parts = [_always(part) if " < " in part else part for part in parts]
        return operation, {**request, "ConditionExpression": " AND ".join(parts)}

    patch(requests, "renew", _only(_is_permit, renew, original))


@mutation("a permit corrected whatever its version", "permits-corrections", runs=2000,
          shows=(*_TOO_MANY, "token", "left behind", "maps"))  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.claim

    def correct(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        return operation, {**request, "ConditionExpression": _always(request["ConditionExpression"])}

    patch(requests, "claim", _only(_is_permit_correction, correct, original))


@mutation("a semaphore begun over one that is there", "permits", "permits-late", runs=40,
          shows=(*_TOO_MANY, "token"))  # fmt: skip
def _(patch: _Patch) -> None:
    original = requests.claim

    def first(*arguments: Any, **more: Any) -> Any:
        operation, request = original(*arguments, **more)
        parts = request["ConditionExpression"].split(" AND ")
        return operation, {**request, "ConditionExpression": " AND ".join(map(_always, parts))}

    patch(requests, "claim", _only(_is_first_permit, first, original))


@mutation("maps removed once they are empty", "permits-calm", "permits", runs=40,
          shows=("escaped", "maps", "stuck", "token"))  # fmt: skip
def _(patch: _Patch) -> None:
    original = keep.release

    def release(hold: Any, memory: Any, entropy: Any, reading: Any, **more: Any) -> Generator[Any, Any, bool]:
        done = yield from original(hold, memory, entropy, reading, **more)
        place = hold.place
        empty = {
            "TableName": place.table,
            "Key": place.item_key,
            "UpdateExpression": "REMOVE permits, permitTokens",
            "ConditionExpression": "size(permits) < :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        yield from protocol.exchange(
            ("UpdateItem", empty), memory, entropy, reading, reading.elapsed + protocol.DECISION
        )
        return done

    patch(keep, "release", release)


@mutation("a permit held on through an outage", "permits-outages", runs=400, shows=(*_TOO_MANY, "came back"),
          redundant="a copy of the claim that lands after the entry was replaced has another token, and the renewal "
          "requires mine. Only a row that was deleted could bring the token back")  # fmt: skip
def _(patch: _Patch) -> None:
    original = protocol.Hold.__init__

    def init(self: Any, wanted: Any, *arguments: Any, **more: Any) -> None:
        original(self, wanted, *arguments, **more)
        self.hold_on_unavailable = wanted.hold_on_unavailable

    patch(protocol.Hold, "__init__", init)


@mutation("a row that is kept no longer than its last writer's permit", "permits", "permits-calm", runs=40,
          shows=("ttl",))  # fmt: skip
def _(patch: _Patch) -> None:
    ttl = requests.Update.ttl
    patch(permits.PermitUpdate, "ttl", lambda self, expiry_ms, completed_until, seconds: ttl(self, expiry_ms, None, 0))


@mutation("a free permit taken from any place", "permits-queue-calm", "permits-queue", runs=100, shows=_ORDER)
def _(patch: _Patch) -> None:
    MUTATIONS["a claim from any place"].patch(patch)


@mutation("a claim from a place that leaves nothing to those ahead", "permits-queue-beside", "permits-queue", runs=1000,
          shows=_ORDER)  # fmt: skip
def _(patch: _Patch) -> None:
    original = queue.Queue.condition_from

    def condition_from(self: Any, index: int, waiters: Any, left: Any, behind: int = 0) -> Any:
        return original(self, index, waiters, left)

    patch(queue.Queue, "condition_from", condition_from)


@mutation("the dead that wait for a semaphore never passed", "permits-queue-idle", runs=100,
          shows=("starved", "stuck"))  # fmt: skip
def _(patch: _Patch) -> None:
    patch(queue.Patience, "left", lambda self, ahead: 1.0)


@mutation("patience with those who wait for a semaphore that goes on over other grants", "permits-queue-dying",
          "permits-queue-pollers", runs=60, shows=_ORDER,
          redundant="whoever is alive ahead passes the dead first one long before, and the patience begins anew. "
          "tests/core/test_permits.py shows it")  # fmt: skip
def _(patch: _Patch) -> None:
    _blind(patch)


@mutation("little patience with those who wait for a semaphore, over other grants", "permits-queue-dying",
          "permits-queue-pollers", runs=200, shows=_ORDER)  # fmt: skip
def _(patch: _Patch) -> None:
    _blind(patch)
    patch(queue.Patience, "left", _a_quarter_more)


# -- the assumptions of docs/safety.md: breaking them shows -----------------------------------------------------------


@mutation("front ends further apart than half a second", "slow-clocks", runs=200)
def _(patch: _Patch) -> None:
    patch(Settings, "front_ends", 1.5)


@mutation("clocks that drift more than DRIFT", "long", runs=100)
def _(patch: _Patch) -> None:
    patch(Settings, "drift", 3e6 * lease.DRIFT)


@mutation("a step back and a freeze of the other clocks between two looks", "freezes", "no-heartbeat", runs=1500)
def _(patch: _Patch) -> None:
    patch(Settings, "unwatched", True)


@mutation("a freeze that stops every clock", "freezes", "no-heartbeat", runs=100)
def _(patch: _Patch) -> None:
    def stop(self: Any, now: float, which: set[int]) -> set[int]:
        self._advance(now)
        self._stopped = set(clocks.ALL)
        return self._stopped

    patch(clocks.Clocks, "stop", stop)


@mutation("a monotonic clock that jumps ahead", "mixed", "no-heartbeat", runs=40)
def _(patch: _Patch) -> None:
    original = clocks.Clocks.read

    def read(self: Any, now: float) -> tuple[float, float, float]:
        moves = vars(self).setdefault("moves", random.Random(now))
        if moves.random() < 0.01:
            self._values[clocks.MONOTONIC] += 60.0
        return original(self, now)

    patch(clocks.Clocks, "read", read)


def _before_each_request(patch: _Patch, change: Callable[[Any, Any], None]) -> None:
    """Let something happen to the table before each request. ``change`` is given the world and the task."""
    original = network.Network._execute

    def execute(self: Any, task: Any, action: Any) -> Any:
        change(self.world, task)
        return original(self, task, action)

    patch(network.Network, "_execute", execute)


def _now_and_then(world: Any) -> bool:
    return bool(world.rng.random() < 0.02)


def _rows(table: Any) -> dict[tuple[str], Any]:
    return {(item["key"]["S"],): item for item in table.items()}


@mutation("a time of DynamoDB that jumps ahead", "mixed", "no-heartbeat", runs=60)
def _(patch: _Patch) -> None:
    def change(world: Any, task: Any) -> None:
        world.ahead = vars(world).get("ahead", 0) + (3 if _now_and_then(world) else 0)

    original = network.Network._date

    def date(self: Any) -> int | None:
        true = original(self)
        return true if true is None else true + vars(self.world).get("ahead", 0)

    _before_each_request(patch, change)
    patch(network.Network, "_date", date)


@mutation("rows deleted while they are held", "mixed", "calm", runs=40)
def _(patch: _Patch) -> None:
    def change(world: Any, task: Any) -> None:
        if _now_and_then(world):
            for key in _rows(world.table):
                world.table.store(key, None)

    _before_each_request(patch, change)


@mutation("a table set back to an earlier state", "mixed", "calm", runs=40)
def _(patch: _Patch) -> None:
    def change(world: Any, task: Any) -> None:
        if _now_and_then(world):
            now, before = _rows(world.table), vars(world).get("backup", {})
            world.backup = now
            for key in now | before:
                world.table.store(key, before.get(key))

    _before_each_request(patch, change)


@mutation("a table with a copy in another Region", "mixed", "calm", runs=20)
def _(patch: _Patch) -> None:
    def change(world: Any, task: Any) -> None:
        copies = vars(world).setdefault("copies", (world.table, type(world.table)()))
        world.table = copies[sum(map(ord, task.process.name)) % 2]

    _before_each_request(patch, change)


# -- holds that outlive an invocation ---------------------------------------------------------------------------------


def _as_seen(patch: _Patch, change: Callable[[Any, int], None]) -> None:
    """Let each resume change its wish first. ``change`` is given the wish and the token."""
    original = resume.resume

    def changed(wanted: Any, token: int, *arguments: Any, **more: Any) -> Any:
        change(wanted, token)
        return original(wanted, token, *arguments, **more)

    patch(resume, "resume", changed)


@mutation("attempts that all bear the owner of the hold", "holds-zombies-calm", "holds-zombies-late", runs=400)
def _(patch: _Patch) -> None:
    def change(wanted: Any, token: int) -> None:
        wanted.owner = row.base_of(wanted.owner)

    _as_seen(patch, change)


@mutation("attempts under one owner, and a token that rises", "holds-zombies-calm", runs=40, shows=("revived",))
def _(patch: _Patch) -> None:
    def change(wanted: Any, token: int) -> None:
        wanted.owner = row.base_of(wanted.owner)

    original, is_of_hold = requests.renew, resume._is_of_hold

    def pass_on(place: Any, *, owner: str, **more: Any) -> Any:
        operation, request = original(place, owner=owner, **more)
        if not owner.endswith("/"):
            names = request["ExpressionAttributeNames"]
            token = next(name for name, attribute in names.items() if attribute == place.schema.token)
            request["UpdateExpression"] = request["UpdateExpression"].replace("SET ", f"SET {token} = {token} + :one, ")
            request["ExpressionAttributeValues"][":one"] = {"N": "1"}
        return operation, request

    _as_seen(patch, change)
    patch(requests, "renew", _only(_is_resume, pass_on, original))
    patch(
        resume,
        "_is_of_hold",
        lambda row, owner, token: is_of_hold(row, owner, token) or is_of_hold(row, owner, token + 1),
    )


@mutation(
    "what an attempt hands over parked under the first handle's name",
    "holds-zombies",
    "holds-zombies-late",
    runs=400,
    shows=("zombie", *_UNSAFE),
)
def _(patch: _Patch) -> None:
    patch(handover, "parked", row.base_of)


@mutation("a hold known by its token or a higher one", "holds-claims", runs=400, shows=("revived", *_UNSAFE))
def _(patch: _Patch) -> None:
    """As _is_of_hold, and the condition of each write, with ">=" for the token."""
    for name, which in (("renew", _is_resume), ("release", _is_release_by_string)):
        original = getattr(requests, name)

        def at_least(*arguments: Any, original: Any = original, **more: Any) -> Any:
            operation, request = original(*arguments, **more)
            names = request["ExpressionAttributeNames"]
            token = next(name for name, attribute in names.items() if attribute == "fencingToken")
            request["ConditionExpression"] = request["ConditionExpression"].replace(f"{token} = ", f"{token} >= ")
            return operation, request

        patch(requests, name, _only(which, at_least, original))

    def is_of_hold(shown: Any, owner: str, token: int) -> bool:
        return row.base_of(shown.owner) == row.base_of(owner) and (shown.token or 0) >= token

    patch(resume, "_is_of_hold", is_of_hold)


@mutation("a resume without the owner seen", "holds-zombies-late", "holds-late", runs=600)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_resume, _without("ownerName", requests.renew), requests.renew))


@mutation("a resume without the token", "holds-adopted", runs=400, shows=("revived", *_UNSAFE))
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_resume, _without("fencingToken", requests.renew), requests.renew))


@mutation(
    "a resume of what is released",
    "holds-late",
    "holds-zombies-late",
    runs=150,
    redundant="isReleased stays where it is, so the row stays free, and the reply shows that: nobody is granted "
    "anything",
)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_resume, _without("isReleased", requests.renew), requests.renew))


@mutation(
    "a resume that may turn the expiry back", "holds-late", "holds-zombies-late", runs=600, shows=("expiry", *_UNSAFE)
)
def _(patch: _Patch) -> None:
    patch(requests, "renew", _only(_is_resume, _without("<", requests.renew), requests.renew))


@mutation("any row of the hold counted as a grant", "holds-zombies", "holds-twice", runs=400)
def _(patch: _Patch) -> None:
    original = resume._row_of_hold

    def row_of_hold(place: Any, item: Any, owner: str, token: int) -> Any:
        found = original(place, item, owner, token)
        if sys._getframe(1).f_locals.get("sent"):  # a write was answered
            found.owner, found.version = owner, next(iter(sys._getframe(1).f_locals["sent"]))
        return found

    patch(resume, "_row_of_hold", row_of_hold)


@mutation("the validity of a resume counted from its reply", "holds-slow", runs=1500)
def _(patch: _Patch) -> None:
    original = lease.validity

    def validity(lease_ms: int, expiry_ms: int, date: int) -> float:
        frame = sys._getframe(1)
        late = 0.0
        if frame.f_code is resume.resume.__code__:
            late = frame.f_locals["reading"].elapsed - frame.f_locals["started"]
        return original(lease_ms, expiry_ms, date) + late

    patch(lease, "validity", validity)


@mutation("a resume by a wall clock that may be fast", "holds-clocks", runs=60, shows=("expiry",))
def _(patch: _Patch) -> None:
    original = resume.resume

    def unread(wanted: Any, token: int, memory: Any, *arguments: Any, **more: Any) -> Any:
        known = type(memory.server)
        steps = original(wanted, token, memory, *arguments, **more)
        is_known = known.is_known
        try:
            known.is_known = True
            action = next(steps)
        finally:
            known.is_known = is_known
        return _continued(steps, action)

    patch(resume, "resume", unread)


def _continued(steps: Any, action: Any) -> Generator[Any, Any, Any]:
    try:
        while True:
            try:
                event = yield action
            except BaseException as error:  # noqa: BLE001 - whatever the driver throws in
                action = steps.throw(error)
            else:
                action = steps.send(event)
    except StopIteration as end:
        return end.value


@mutation("a resume that is given up and released", "holds-late", "holds", runs=60, shows=("gave back",))
def _(patch: _Patch) -> None:
    original = resume.resume

    def resumed(wanted: Any, token: int, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield from original(wanted, token, *arguments, **more))
        except GeneratorExit:
            raise
        except BaseException:
            request = requests.release(
                wanted.place, owner=wanted.owner, token=token, expiry_ms=0, content=requests.Content(ttl=60)
            )
            yield protocol.Send(*request, protocol.SEND)
            raise

    patch(resume, "resume", resumed)


@mutation("a resume that gives up at the first other name", "holds", "holds-calm", runs=60, shows=("refused",))
def _(patch: _Patch) -> None:
    patch(resume, "STEPS", 1)


@mutation("who took a hold counted as seen since before its resume", "holds-slow", runs=1500)
def _(patch: _Patch) -> None:
    original = resume.HolderAcquisition.note_instead

    def note_instead(acquisition: Any, item: Any, date: Any, reading: Any) -> None:
        original(acquisition, item, date, acquisition.reading)

    patch(resume.HolderAcquisition, "note_instead", note_instead)


@mutation("a resumed handle valid beyond its invocation", "holds-calm", runs=60, shows=("deadline",))
def _(patch: _Patch) -> None:
    original = resume.resume

    def resumed(wanted: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        end, wanted.lease_end = wanted.lease_end, None
        hold = yield from original(wanted, *arguments, **more)
        hold.lease_end = end
        return hold

    patch(resume, "resume", resumed)


@mutation(
    "an unclear release read as done beside another attempt",
    "holds-zombies-late",
    "holds-twice",
    runs=1500,
    shows=("release",),
)
def _(patch: _Patch) -> None:
    patch(keep, "base_of", lambda owner: owner)


@mutation("a release by string that asks for the first name only", "holds", "holds-calm", runs=60, shows=("release",))
def _(patch: _Patch) -> None:
    original = resume.release

    def release(*arguments: Any) -> Generator[Any, Any, Any]:
        steps, first = original(*arguments), None
        try:
            action = next(steps)
            while True:
                if isinstance(action, protocol.Send):
                    first = first or action.request
                    if action.request is not first:
                        return False
                action = steps.send((yield action))
        except StopIteration as end:
            return end.value

    patch(resume, "release", release)


@mutation("a release by string without the token", "holds-adopted", "holds-claims", runs=1500)
def _(patch: _Patch) -> None:
    patch(
        requests, "release", _only(_is_release_by_string, _without("fencingToken", requests.release), requests.release)
    )


@mutation("a release by string without the owner", "holds-foreign", runs=1500)
def _(patch: _Patch) -> None:
    patch(requests, "release", _only(_is_release_by_string, _without("ownerName", requests.release), requests.release))


@mutation(
    "a holder's own claims not given up before it resumes",
    "holds-late",
    "holds-twice",
    runs=150,
    shows=("left behind", *_UNSAFE),
    redundant="the row has just shown another's name, so the claim is not there. It can land only after the release of "
    "the hold, and leaves a lock that nobody holds until its expiry, as one that comes after its release by rule 5",
)
def _(patch: _Patch) -> None:
    original = resume.HolderAcquisition.abandon

    def abandon(self: Any, **how: Any) -> Generator[Any, Any, None]:
        if isinstance(sys.exc_info()[1], resume._FoundError):
            return
        yield from original(self, **how)

    patch(resume.HolderAcquisition, "abandon", abandon)


@mutation(
    "an adopter of a parked hold under the first handle's name",
    "holds-zombies-adopted",
    runs=1500,
    redundant="whatever the first handle still sends has the old token, or the version of a claim of its own. The "
    "rule keeps a name for each handle",
)
def _(patch: _Patch) -> None:
    original = handover.Adoption.see

    def see(self: Any, item: Any, date: Any) -> Any:
        step = original(self, item, date)
        self.wanted.owner = self.base
        return step

    patch(handover.Adoption, "see", see)


@mutation(
    "an adoption of what an attempt has",
    "holds-zombies",
    "holds-adopted",
    runs=150,
    redundant="it would fence the attempt as a resume does. The rule keeps a string that comes twice from ending the "
    "attempt that has it",
)
def _(patch: _Patch) -> None:
    original = handover.Adoption.see

    def see(self: Any, item: Any, date: Any) -> Any:
        if item and row.base_of(item["ownerName"]["S"]) == self.base and self.wanted.owner != item["ownerName"]["S"]:
            self.base = item["ownerName"]["S"]
        return original(self, item, date)

    patch(handover.Adoption, "see", see)
