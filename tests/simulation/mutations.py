"""The rules, each broken on its own. If the simulator does not notice, it is too tame, or the rule is not needed: then
`redundant` says why.

`broken(name)` plants a mistake in the shipped core (tests/prove/mistakes.py), which runs under the biases in which it
hurts. `python -m tests.simulation --mutations` prints what happened to how many runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

from lambda_lock.core import (
    acquire,
    forget,
    handover,
    keep,
    lease,
    permits,
    protocol,
    queue,
    rate,
    requests,
    resume,
    row,
    schema,
    several,
    tickets,
    transaction,
)
from tests.prove.mistakes import Change, edit, planted, put, together, wrap

from . import clients, clocks, holds, network
from .interrupts import THROWN
from .schedule import Settings

_UNSAFE = ("overlap", "robbed")
_NOT_ONCE = ("done again", "done twice")
_ORDER = ("out of order", "thrown out")
_TOO_MANY = (*_UNSAFE, "crowd of entries")
_OFTEN = ("too often", "far ahead", "stuck", "nothing taken")
_EVENTS = "events-passing events-late events"
_FORGETS = "forgets-late forgets forgets-given-up"


class Mutation:
    """biases: the biases under which it shows best.
    runs: the number of runs within which it must show.

    shows: the kinds of failure; one of them must be seen.
    redundant: for a rule that exclusion does not need, why no failure is expected.
    """

    def __init__(
        self, biases: str, runs: int, *changes: Change, shows: tuple[str, ...] | str = _UNSAFE, redundant: str = ""
    ) -> None:
        self.biases = tuple(biases.split())
        self.runs = runs
        self.change = together(*changes)
        self.shows = (shows,) if isinstance(shows, str) else shows
        self.redundant = redundant


def broken(name: str | None) -> AbstractContextManager[None]:
    """The core with one rule broken. None: as it is."""
    return planted(*([MUTATIONS[name].change] if name else []))


# -- requests with weaker conditions ----------------------------------------------------------------------------------


def _always(condition: str) -> str:
    """A condition that is always true, with the same placeholders."""
    return f"({condition} OR NOT {condition})"


def _weakened(request: dict[str, Any], which: Callable[[str], bool]) -> dict[str, Any]:
    """A request in which those parts of the condition that ``which`` chooses are always true."""
    parts = request["ConditionExpression"].split(" AND ")
    parts = [_always(part) if which(_named(request, part)) else part for part in parts]
    return {**request, "ConditionExpression": " AND ".join(parts)}


def _named(request: dict[str, Any], part: str) -> str:
    """Which attribute a part of a condition is about, and the part itself."""
    for placeholder, name in request.get("ExpressionAttributeNames", {}).items():
        if placeholder in part.replace(")", " ").replace("(", " ").split():
            return f"{name} {part}"
    return part


def _any(*_: Any, **more: Any) -> bool:
    return True


def _weaker(build: str, which: Callable[[str], bool], when: Callable[..., bool] = _any) -> Change:
    """Weaken (`_weakened`) the requests that ``build`` makes, if ``when`` is true of its arguments."""
    return _changed(build, lambda request: _weakened(request, which), when)


def _without(build: str, when: Callable[..., bool], *attributes: str) -> Change:
    return _weaker(build, lambda part: any(attribute in part for attribute in attributes), when)


def _changed(build: str, change: Callable[[dict[str, Any]], dict[str, Any]], when: Callable[..., bool]) -> Change:
    """Pass the requests that ``build`` makes through ``change``, if ``when`` is true of its arguments."""

    def make(original: Any) -> Any:
        def built(*arguments: Any, **more: Any) -> Any:
            operation, request = original(*arguments, **more)
            return operation, change(request) if when(*arguments, **more) else request

        return built

    return wrap(requests, build, make)


def _is_renewal(*_: Any, seen: Any = None, **more: Any) -> bool:
    return seen is None


def _is_adoption(*_: Any, next_token: bool = False, **more: Any) -> bool:
    return next_token


def _is_resume(*_: Any, seen: Any = None, next_token: bool = False, **more: Any) -> bool:
    """Whether a hold is resumed, or parked."""
    return seen is not None and not next_token


def _is_release_by_string(place: Any, *, expiry_ms: Any = None, version: Any = None, **more: Any) -> bool:
    return expiry_ms is None and version is None


def _is_release(*arguments: Any, **more: Any) -> bool:
    return not _is_release_by_string(*arguments, **more)


def _is_permit(place: Any, *_: Any, **more: Any) -> bool:
    return place.permits is not None


def _is_permit_resume(place: Any, *_: Any, **more: Any) -> bool:
    return place.permits is not None and _is_resume(**more)


def _is_permit_correction(place: Any, *_: Any, observed: Any = None, **more: Any) -> bool:
    return place.permits is not None and observed is not None


def _is_first_permit(place: Any, *_: Any, observed: Any = None, row: Any = None, **more: Any) -> bool:
    return place.permits is not None and observed is None and row is not None and not row.is_held


def _unguarded(request: dict[str, Any]) -> dict[str, Any]:
    return _weakened(request, _any)


def _last_part(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """Pass the lock's part of a commit through ``change``."""
    return wrap(
        requests,
        "commit",
        lambda original: lambda items, last, token: original(items, (last[0], change(last[1])), token),
    )


# -- steps that are disturbed -----------------------------------------------------------------------------------------


def _nothing(*_: Any, **more: Any) -> Generator[Any, Any, None]:
    """Steps that do nothing."""
    yield from ()


def _one_send(original: Any) -> Any:
    """Steps that end after their first one."""

    def steps(*arguments: Any, **more: Any) -> Generator[Any, Any, None]:
        action = next(original(*arguments, **more), None)
        if action is not None:
            yield action

    return steps


def _undone(original: Any) -> Any:
    """A last act, after which its hold counts as held if something was thrown into it."""

    def act(held: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield from original(held, *arguments, **more))
        except THROWN:
            for hold in held if isinstance(held, list) else [held]:  # a commit has a list
                hold.ended = False
            raise

    return act


def _completing_late(original: Any) -> Any:
    """A release that is followed by a request which completes the event."""

    def release(
        hold: Any, memory: Any, entropy: Any, reading: Any, *, complete: bool = False, **more: Any
    ) -> Generator[Any, Any, bool]:
        done = yield from original(hold, memory, entropy, reading, **more)
        if done and complete:
            operation, request = requests.release(
                hold.place, owner=hold.owner, token=hold.token, expiry_ms=hold.expiry_ms,
                completion=keep.completion(hold, memory, reading, None), content=requests.Content(ttl=hold.ttl),
            )  # fmt: skip
            late = operation, _weakened(request, lambda part: "isReleased" in part)
            yield from protocol.exchange(late, memory, entropy, reading, reading.elapsed + protocol.DECISION)
        return done

    return release


def _tidying(original: Any) -> Any:
    """A release of a permit that also removes maps which are empty then."""

    def release(hold: Any, memory: Any, entropy: Any, reading: Any, **more: Any) -> Generator[Any, Any, bool]:
        done = yield from original(hold, memory, entropy, reading, **more)
        empty = {
            "TableName": hold.place.table,
            "Key": hold.place.item_key,
            "UpdateExpression": "REMOVE permits, permitTokens",
            "ConditionExpression": "size(permits) < :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        until = reading.elapsed + protocol.DECISION
        yield from protocol.exchange(("UpdateItem", empty), memory, entropy, reading, until)
        return done

    return release


def _given_back(original: Any) -> Any:
    """A resume that is released if it is given up."""

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

    return resumed


# -- faults outside the assumptions -----------------------------------------------------------------------------------


def _jumping(original: Any) -> Any:
    """A monotonic clock that jumps ahead now and then."""

    def read(self: Any, now: float) -> tuple[float, float, float]:
        if vars(self).setdefault("moves", random.Random(now)).random() < 0.01:
            self._values[clocks.MONOTONIC] += 60.0
        return original(self, now)

    return read


def _before_each_request(change: Callable[[Any, Any], None]) -> Change:
    """Let something happen to the table before each request. ``change`` is given the world and the task."""

    def make(original: Any) -> Any:
        def execute(self: Any, task: Any, action: Any) -> Any:
            change(self.world, task)
            return original(self, task, action)

        return execute

    return wrap(network.Network, "_execute", make)


def _now_and_then(world: Any) -> bool:
    return bool(world.rng.random() < 0.02)


def _rows(table: Any) -> dict[tuple[str], Any]:
    return {(item["key"]["S"],): item for item in table.items()}


def _step_ahead(world: Any, task: Any) -> None:
    world.ahead = vars(world).get("ahead", 0) + (3 if _now_and_then(world) else 0)


def _date_ahead(original: Any) -> Any:
    def date(self: Any) -> int | None:
        true = original(self)
        return true if true is None else true + vars(self.world).get("ahead", 0)

    return date


def _delete(world: Any, task: Any) -> None:
    for key in _rows(world.table) if _now_and_then(world) else ():
        world.table.store(key, None)


def _restore(world: Any, task: Any) -> None:
    if _now_and_then(world):
        now, before = _rows(world.table), vars(world).get("backup", {})
        world.backup = now
        for key in now | before:
            world.table.store(key, before.get(key))


def _copy(world: Any, task: Any) -> None:
    copies = vars(world).setdefault("copies", (world.table, type(world.table)()))
    world.table = copies[sum(map(ord, task.process.name)) % 2]


# -- the mistakes -----------------------------------------------------------------------------------------------------

_STEPS_ASIDE = """\
wanted, elapsed = self.wanted → if step.version in self.sent:
        self.sent[step.version].struck = False
        yield from self.exchange(self.give_back(step.version))
        step = Take()
    wanted, elapsed = self.wanted"""
_OVER_ANYBODY = "if grant is None or grant != self._grant: → {}if grant is None or grant != self._grant:"
_BLIND = edit(queue.Patience.note, _OVER_ANYBODY.format('grant = None if grant is None else "any"\n    '))
_A_QUARTER_MORE = edit(queue.Patience.left, "PATIENCE * ahead → PATIENCE + min(0.25 * (ahead - 1), 2.0)")
_NEVER_PASSED = put(queue.Patience, "left", lambda self, ahead: 1.0)
_FROM_ANY_PLACE = edit(
    queue.Queue.condition, "free = 1 if → return self.condition_from(self.index, waiters, living)\n    free = 1 if"
)
_OVER_OLD = 'update.require(f"#waiters[{index}] = :old", old={"S": old}) → update.require('
_THERE_OR_NOT = """\
if value is None: → if field == "completed_until" and value is not None:
            self.condition.append("attribute_exists(#completed_until)")
        elif value is None:"""
_OWN_NAME = edit(resume.resume, "place, owner, until = → wanted.owner = base_of(wanted.owner); place, owner, until =")
_ANY_ROW = edit(
    resume.resume,
    "if row.owner != owner or row.version not in sent: → row.owner, row.version = owner, next(iter(sent))\n"
    "        if False:",
)
_FIRST_NAME = "seen = row.owner\n        if reading → return False\n        if reading"
_UNGUARDED_COMMIT = _last_part(_unguarded)
_NO_RELEASE = edit(
    transaction.commit,
    "outcome, doubtful, reading = yield from exchange(plain, memory, entropy, reading, reading.elapsed + DECISION) → "
    "outcome = Reply(None, None)",
)
_NEW_TOKEN = 'exchange((request[0], {**request[1], "ClientRequestToken": entropy.nonce()}),'
_TOKEN_FOR_EVER = put(transaction, "_TOKEN_KNOWN", float("inf"))
_NO_COMPLETION_IN_TTL = edit(requests.Update.ttl, ", completed_until or 0) → , 0)")
_ADOPTS_ATTEMPT = """\
place = self.wanted.place → place = self.wanted.place
    if item and base_of(item["ownerName"]["S"]) == self.base and self.wanted.owner != item["ownerName"]["S"]:
        self.base = item["ownerName"]["S"]"""


class _Anchored(lease.ClockReading):
    """A look at the clocks that compares with the first one, and not with the last one."""

    __slots__ = ("first",)
    first: lease.ClockReading

    def after(self, monotonic: float, boottime: float, wall: float) -> _Anchored:
        first = getattr(self, "first", self)
        since = max(monotonic - first.monotonic, boottime - first.boottime, wall - first.wall)
        reading = _Anchored(max(self.elapsed, since), monotonic, wall, boottime)
        reading.first = first
        return reading


def _at_least(request: dict[str, Any]) -> dict[str, Any]:
    """The token of the request, or a higher one."""
    token = next(name for name, attribute in request["ExpressionAttributeNames"].items() if attribute == "fencingToken")
    condition = request["ConditionExpression"].replace(f"{token} = ", f"{token} >= ")
    return {**request, "ConditionExpression": condition}


def _whatever_token(request: dict[str, Any]) -> dict[str, Any]:
    condition = request["ConditionExpression"]
    kept = f"attribute_exists({condition.split(' = ')[0]}) AND {_always(condition)}"
    return {**request, "ConditionExpression": kept}


def _left_held(request: dict[str, Any]) -> dict[str, Any]:
    names = request["ExpressionAttributeNames"].items()
    names = {name: "held" if attribute == "isReleased" else attribute for name, attribute in names}
    return {**request, "ExpressionAttributeNames": names}


def _of_one(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a commit writes, with weaker conditions for the other locks."""
    return [
        {"Update": _unguarded(item["Update"])} if item["Update"]["TableName"] == "locks" else item for item in items
    ]


MUTATIONS: dict[str, Mutation] = {
    # The waiter
    "expiry judged by the waiter's clock": Mutation(
        "mixed stormy", 20, edit(lease.may_take_over, "date is not None and date * 1000 → received.wall * 1000"),
    ),
    "an observation counted by elapsed time, which may run ahead": Mutation(
        "freezes no-heartbeat", 200, edit(lease.may_take_over, "received.monotonic → received.elapsed"),
        edit(lease.Observations.note, "received.monotonic → received.elapsed"),
    ),
    "an observation not restarted when the version changes": Mutation(
        "mixed calm foreign", 60,
        edit(lease.Observations.note, " and seen.version == row.version and seen.lease_ms == lease_ms → "),
    ),
    "an observation by Dates without allowance": Mutation(
        "foreign-dates", 600, edit(lease.Observation.is_over, " + max(2000, MARGIN * 1000 + self.lease_ms * DRIFT) → "),
    ),
    "a take-over without the version observed": Mutation(
        "mixed stormy", 40, edit(requests.Update.take, 'self.expect(version={"S": observed}) → '
        'self.require("(#version = :observed OR NOT #version = :observed)", observed={"S": observed})'),
    ),
    "a row taken over whose lease cannot be read": Mutation(
        "unreadable", 40, put(row.Row, "require_lease", lambda self, key: self.lease_ms or 0),
    ),
    "a lease of zero counted as one that is over": Mutation(
        "unreadable", 100,
        edit(schema.Schema.read_lease, "return lease_ms if → return lease_ms if lease_ms is None or lease_ms < 1 or"),
    ),
    # The holder's time
    "validity by the lease alone": Mutation(
        "slow-clocks mixed", 100, edit(lease.validity, ", expiry_ms / 1000 - date - MARGIN) → , lease_ms)"),
    ),
    "validity by the stored expiry alone": Mutation(
        "foreign shortened fast", 300, edit(lease.validity, "lease_ms / 1000, → float('inf'),"),
    ),
    "validity counted from the reply": Mutation(
        "slow-replies", 300,
        edit(acquire.Acquisition.own, "row.require_token( → sent.started = self.reading.elapsed; row.require_token("),
        edit(keep._extended, "sent.elapsed → reading.elapsed"),
    ),
    "no margin between two Dates": Mutation("slow-clocks", 400, put(lease, "MARGIN", 0.0)),
    "no grace": Mutation(
        "calm mixed", 60, put(lease, "GRACE", 0.0), shows=("refused", "starved", "lost for nothing", *_UNSAFE),
    ),
    "no allowance for drift": Mutation("long", 400, put(lease, "DRIFT", 0.0)),
    "half the allowance for drift": Mutation("drift", 100, put(lease, "DRIFT", lease.DRIFT / 2)),
    "commits without the lock's condition, beyond all drift": Mutation(
        "beyond-drift", 100, _UNGUARDED_COMMIT, shows="late write",
    ),
    "elapsed time anchored once": Mutation("freezes no-heartbeat", 1500, put(lease, "ClockReading", _Anchored)),
    "elapsed time by the monotonic clock alone": Mutation(
        "freezes no-heartbeat", 60, edit(lease.ClockReading.after, "boottime - self.boottime, wall - self.wall, → "),
    ),
    "elapsed time by the wall clock alone": Mutation(
        "freezes no-heartbeat", 100,
        edit(lease.ClockReading.after, "monotonic - self.monotonic, boottime - self.boottime, → "),
    ),
    "no heartbeat, though validity ends before the deadline": Mutation(
        "calm deadlines", 60, put(lease, "needs_heartbeat", lambda valid_until, deadline, lease_ms: deadline is None),
        shows="lost for nothing",
    ),
    "the first heartbeat only at a third of the lease": Mutation(
        "calm-slow", 400, put(lease, "first_heartbeat", lambda now, valid_until, lease_ms: now + lease_ms / 3000),
        shows="lost for nothing",
    ),
    # Renewals
    "a renewal without the owner": Mutation("foreign foreign-late", 4000, _without("renew", _is_renewal, "ownerName")),
    "a renewal without owner and token": Mutation(
        "renewals shortened stormy", 600, _without("renew", _is_renewal, "ownerName", "fencingToken"),
    ),
    "a renewal of what is released": Mutation(
        "renewals delete stormy", 150, _without("renew", _is_renewal, "isReleased"),
        redundant="a late renewal leaves isReleased where it is, so the row stays free; where rows are deleted, "
        "owner and token are gone. It saves others a refused take-over, no more",
    ),
    "a renewal that may turn the expiry back": Mutation("renewals", 400, _without("renew", _is_renewal, "<")),
    "renewals whose versions do not rise": Mutation(
        "renewals shortened", 150,
        edit(keep.renew, "for _ in range(STEPS): → hold.expiry_ms = 0\n    for _ in range(STEPS):"),
        redundant="'version < the new one' refuses what does not rise, and the answer says what to go above: one "
        "more request. A late renewal that is above has a later expiry, and then a lease at least as long",
    ),
    "a shortened lease not cut before it is sent": Mutation(
        "shortened", 600, edit(keep.renew, "hold.shorten(new_lease, sent.elapsed) → "),
    ),
    "a release without owner and token": Mutation(
        "stormy fast", 200, _without("release", _is_release, "ownerName", "fencingToken"),
    ),
    "a handle that counts as held while it is released": Mutation(
        "renewals stormy", 4000, edit(keep.release, "hold.end() → hold.ended = False",
        "if isinstance(outcome, Reply): → hold.end()\n    if isinstance(outcome, Reply):"),
    ),
    "a handle that counts as held after its last act is interrupted": Mutation(
        "interrupted interrupted-calm", 60, wrap(keep, "release", _undone), wrap(handover, "hand_over", _undone),
        wrap(transaction, "commit", _undone), shows="says held",
    ),
    "a last act that is interrupted counted as not sent": Mutation(
        "interrupted interrupted-calm", 100, edit(keep.release, "hold.settle(unclear=True) → pass"),
        edit(transaction.commit, "hold.settle(unclear=True) → pass"), shows="false loss",
    ),
    "what an interrupted handover parked left there": Mutation(
        "interrupted-adopted", 600, edit(keep.release, "parked = hold.handed_over → parked = False"),
        shows="held for nobody",
    ),
    "two renewals of one handle under way at once": Mutation(
        "at-once", 100, put(clients.Client, "turn", _nothing), shows=("expiry", "false renewal", *_UNSAFE),
    ),
    "a renewal that counts before its answer": Mutation(
        "interrupted interrupted-calm", 20,
        edit(keep.renew, "event = yield → hold.extend(sent.elapsed, int(memory.server.now(sent))); event = yield"),
        shows="false renewal",
    ),
    # Claims, corrections, giving up
    "a grant of a fast clock not corrected": Mutation(
        "fast mixed", 60, put(lease, "clock_was_fast", lambda *_: False), shows="expiry",
    ),
    "released and claimed again instead of corrected": Mutation(
        "given-back-late corrections", 20_000, edit(acquire.Acquisition.write, _STEPS_ASIDE),
    ),
    "a corrected version counted when it is seen again": Mutation(
        "given-back-late corrections", 20_000,
        edit(acquire.Acquisition.own, "if no_good or sent.struck: → if no_good:"),
    ),
    "a claim given up and not released": Mutation(
        "given-up stormy", 40, put(acquire.Acquisition, "abandon", _nothing), shows="left behind",
    ),
    "a claim given up and released by a single send": Mutation(
        "given-up stormy", 400, wrap(acquire.Acquisition, "abandon", _one_send), shows="left behind",
    ),
    "a claim given up at the second interrupt": Mutation(
        "interrupted-late interrupted", 400, edit(protocol.undone, "yield from undo(None) → pass"),
        shows="left behind",
    ),
    "an owner that is not unique for each acquisition": Mutation(
        "stormy", 1300, put(clients, "owner_name", lambda process: "function"),
    ),
    "a late copy of the claim that release leaves": Mutation(
        "stormy fast", 4000, edit(keep.release, "copied or parked → parked"), shows="copy left",
    ),
    "a late copy that lands where release freed what is not answered for": Mutation(
        "interrupted-permit-holds-claims", 600,
        edit(keep.release, "for _ in range(STEPS): → for _ in range(1):"), shows="copy left",
    ),
    "whatever a refused release shows released as a late copy": Mutation(
        "stormy fast", 200, edit(keep.release, "row.version in hold.claims and → "),
    ),
    "a lost row counted as released": Mutation(
        "stormy renewals", 1000, edit(keep.release,
        "raise _unknown(hold, outcome) if hold.unclear else outcome → return True",
        "raise _unknown(hold, outcome) → return True"), shows="release",
    ),
    # Handing over, commits, replacing
    "an adoption under any token": Mutation(
        "handing-over handing-over-late", 60, _without("renew", _is_adoption, "fencingToken"),
        edit(handover.Adoption.see, " and row.token == self.token → "), shows=(*_UNSAFE, "adopted twice"),
    ),
    "an adoption that does not raise the token": Mutation(
        "handing-over handing-over-late", 60, edit(requests.renew, "if next_token: → if False:"),
        shows=(*_UNSAFE, "adopted twice"),
    ),
    "an adoption of what is released": Mutation(
        "handing-over handing-over-late", 100, _without("renew", _is_adoption, "isReleased"),
        redundant="it leaves isReleased where it is, so the row stays free and is not counted as adopted",
    ),
    "a lock handed over that deletes its row": Mutation(
        "handing-over-deleted", 1000, put(clients, "may_hand_over", lambda hold: True), shows="adopted twice",
    ),
    "a handle that counts as held while it is handed over": Mutation(
        "handing-over calm-handing-over", 60,
        edit(handover.hand_over, "hold.hand_over() → hold.ended, hold.handed_over = False, True"),
    ),
    "an adoption given up and not released": Mutation(
        "handing-over-late", 400, put(handover.Adoption, "abandon", _nothing), shows="left behind",
    ),
    "a commit without the lock's condition": Mutation(
        "commits commits-late", 40, _UNGUARDED_COMMIT, shows="late write",
    ),
    "a commit that leaves the lock held": Mutation(
        "commits commits-late", 100, _last_part(_left_held),
        shows=("late write", "written twice", "left behind", "false refusal"),
    ),
    "a commit under a new client token at each decision": Mutation(
        "commits-late commits", 2000, edit(transaction._send, f"exchange(request, → {_NEW_TOKEN}"),
        edit(transaction.commit,
        f"refused, _, reading = yield from exchange(request, → refused, _, reading = yield from {_NEW_TOKEN}",
        f"again, _, reading = yield from exchange(request, → again, _, reading = yield from {_NEW_TOKEN}"),
        shows="false refusal",
    ),
    "a refused commit not followed by a release": Mutation(
        "commits-late commits-lost", 400, _NO_RELEASE, shows="false refusal",
    ),
    "a refusal counted as final, no matter how the release ended": Mutation(
        "commits-lost commits-late", 4000,
        edit(transaction.commit, "final, doubtful, unanswered = False → final, doubtful, unanswered = True"),
        shows="false refusal",
    ),
    "a second refusal by the application's conditions counted as final": Mutation(
        "commits-lost", 4000, edit(transaction.commit,
        "if not _lost_among(holds, again) or → if not isinstance(again, TransactionCanceled) or"),
        shows="false refusal",
    ),
    "a client token counted as known for ever": Mutation("commits-frozen", 400, _TOKEN_FOR_EVER, shows="false refusal"),
    "a client token counted as known for ever, under several locks": Mutation(
        "several-commits-frozen", 400, _TOKEN_FOR_EVER, shows="false refusal",
    ),
    # Several locks
    "several locks taken in the order given": Mutation(
        "several several-calm", 20, put(several, "ordered", lambda keys: list(dict.fromkeys(keys))), shows="deadlock",
    ),
    "several locks not released after a failure": Mutation(
        "several", 20,
        edit(several.Several.release_all, "while self.holds: → self.holds.clear()\n    while self.holds:"),
        shows="left behind",
    ),
    "several locks returned while one is lost": Mutation(
        "several-lost several", 60, put(several.Several, "lost", lambda self: None),
        put(several.Several, "check_held", lambda self: None), shows="returned lost",
    ),
    "no last look at several locks before they are returned": Mutation(
        "several-lost", 1000, put(several.Several, "check_held", lambda self: None), shows="returned lost",
    ),
    "several locks returned with what is left of their leases": Mutation(
        "several-calm", 60, put(several.Several, "freshen", _nothing), shows="stale",
    ),
    "several locks that begin anew without a release": Mutation(
        "several-lost", 60, edit(several.Several.run, "yield from self.release_all() → self.holds.clear()"),
        shows="left behind",
    ),
    "a commit under several locks with the condition of one": Mutation(
        "several-commits", 100,
        wrap(requests, "commit", lambda real: lambda items, last, token: real(_of_one(items), last, token)),
        shows="late write",
    ),
    "a refused commit under several locks not followed by releases": Mutation(
        "several-commits", 400, _NO_RELEASE, shows="false refusal",
    ),
    "a row replaced regardless of its version": Mutation(
        "replacing-foreign", 300, _without("replace", _any, "recordVersionNumber"),
    ),
    "a row replaced regardless of its token": Mutation(
        "replacing", 200, _without("replace", _any, "fencingToken"),
        redundant="the version alone tells one grant or renewal from another; the token is what grants raise, and a "
        "late copy of a claim brings an old version back only with another token, and then there is no " "holder",
    ),
    # Events
    "an event claimed and taken over regardless of its completion": Mutation(
        _EVENTS, 20, edit(requests.claim, "if event: → if False:"), shows=_NOT_ONCE,
    ),
    "an event taken over regardless of its completion": Mutation(
        _EVENTS, 400, edit(requests.claim, "if event: → if event and observed is None:"), shows=_NOT_ONCE,
    ),
    "a completion observed as there or not there alone": Mutation(
        "events-passing", 400, edit(requests.Update.expect, _THERE_OR_NOT), shows=_NOT_ONCE,
    ),
    "a result removed while a front end may say done": Mutation(
        "events-ends", 100,
        edit(acquire.Acquisition.request, "date < until + lease.MARGIN → date < until"), shows="false result",
    ),
    "a completion that has passed counted as none": Mutation(
        "events-passing", 40, edit(requests.claim,
        "update = place.update_type(place) → update, completed_until = place.update_type(place), None"),
        shows=("refused", "starved", "stuck"),
    ),
    "an event's end judged by the client's clock": Mutation(
        _EVENTS, 100, edit(acquire.Acquisition.see, "refuse_done(place.key, date) → "
        "refuse_done(place.key, int(self.reading.wall))"), shows=(*_NOT_ONCE, "false done", "starved"),
    ),
    "an event that another holds not looked at": Mutation(
        _EVENTS, 100,
        edit(acquire.Acquisition.see, "if wanted.window is not None: → if wanted.window is not None and row.is_free:"),
        shows=_NOT_ONCE,
    ),
    "a completion by a second request after the release": Mutation(
        _EVENTS, 200, wrap(keep, "release", _completing_late), shows=("false success", *_NOT_ONCE),
    ),
    "a completion without owner and token": Mutation(
        _EVENTS, 60,
        _without("release", lambda *_, completion=None, **more: completion is not None, "ownerName", "fencingToken"),
        shows=("late release", *_UNSAFE),
    ),
    "a failed handler that completes its event": Mutation(
        _EVENTS, 20, edit(keep.release, "if complete else None → if hold.window is not None else None"),
        shows="false completion",
    ),
    "a release after a refused commit that completes": Mutation(
        "events-commits", 40,
        edit(transaction.commit, "plain = last_write(hold, data, None, → plain = last_write(hold, data, done,"),
        shows="no effects",
    ),
    "a commit that does not complete its event": Mutation(
        "events-commits", 40,
        edit(transaction.commit, "last = last_write(holds[-1], data, done, → last = last_write(holds[-1], data, None,"),
        shows="false success",
    ),
    "a window reckoned by the monotonic clock": Mutation(
        _EVENTS, 60, put(lease.ServerTime, "after_freezes", lease.ServerTime.now), shows="window",
    ),
    "a time to live that is over before the lease": Mutation(
        "reaped-at-once", 60, edit(requests.Update.ttl, "-(-expiry_ms // 1000) → expiry_ms // 1000 - 5"),
    ),
    "an event kept no longer than its lock": Mutation(
        "reaped-events", 60, _NO_COMPLETION_IN_TTL, shows=("erased", "done again"),
    ),
    "a time to live that does not count the completion": Mutation(_EVENTS, 20, _NO_COMPLETION_IN_TTL, shows="ttl"),
    # Events that are forgotten
    "a completion forgotten without its grant's token": Mutation(
        _FORGETS, 400, edit(forget.erasure, "token=item.get(schema.token), → "), shows="forgot a later one",
    ),
    "a completion forgotten without its time": Mutation(
        _FORGETS, 60, edit(forget.erasure, ", completed_until=done → "), shows="forgot nothing",
    ),
    "a completion forgotten by its key": Mutation(
        _FORGETS, 60, edit(forget.erasure, "expect(token=item.get(schema.token), completed_until=done) → "
        'require("attribute_exists(#key)")'), shows=("forgot a later one", "forgot a holder"),
    ),
    "an event in progress counted as not done": Mutation(
        _FORGETS, 60, edit(forget.Forgetting.run, "yield from self.pause(step) → return False"), shows="stale",
    ),
    "a dead holder counted as not done": Mutation(
        _FORGETS, 1500,
        edit(forget.Forgetting.run, "step = self.judge((yield from self.write(step))) → return False"), shows="stale",
    ),
    "a dead holder taken over by forget regardless of its completion": Mutation(
        "forgets-take-over", 400, edit(forget.Forgetting.run, "self.of_event = True → pass"), shows="ttl",
    ),
    "a row replaced regardless of its completion": Mutation(
        "forgets-calm forgets", 400, _without("replace", _any, "completedUntil"), shows="stale",
    ),
    # The queue
    "a first claim that does not ask whether somebody waits": Mutation(
        "queue-calm queue", 100, put(requests, "NOBODY_WAITS", None), shows=_ORDER,
    ),
    "a claim from any place": Mutation("queue-calm queue", 60, _FROM_ANY_PLACE, shows=_ORDER),
    "a claim from the first place that leaves it there": Mutation(
        "queue-calm", 20, edit(requests.QueueCondition.write, 'update.removes.append(f"#waiters[{index}]") → pass'),
        edit(acquire.Acquisition.run, "self.queue.leave(granted=True) → ()"), shows=("extra leave", "place left"),
    ),
    "expired places ahead that a claim leaves": Mutation(
        "queue-dying queue-idle", 40, edit(queue.Queue.condition_from, "if at not in left} → "
        "if at not in left and (at == index or counts(ticket, self.acquisition.date))}"), shows="dead kept",
    ),
    "a place given up that is not removed": Mutation(
        "queue-calm queue-leaving", 60, edit(acquire.Acquisition.abandon, "self.queue.leave() → ()"),
        shows="place left",
    ),
    "a place given up by a single send": Mutation(
        "queue-calm queue-leaving", 200, wrap(queue.Queue, "leave", _one_send), shows="place left",
    ),
    "a place left in the row of a grant": Mutation(
        "queue-late queue-calm queue-beside", 120, edit(acquire.Acquisition.run, "self.queue.leave(granted=True) → ()"),
        shows="place left",
        redundant="a claim removes the place it comes from, so only a lost or late request leaves one, and such a "
        "place expires like that of any who died",
    ),
    "a place taken at the front": Mutation(
        "queue-calm queue", 60,
        edit(tickets.take_ticket, "(if_not_exists(#waiters, :none), :new) → (:new, if_not_exists(#waiters, :none))"),
        shows=_ORDER,
    ),
    "a place taken without a limit": Mutation(
        "queue-full queue-idle", 60, put(queue, "MOST_WAITERS", 10**6), put(tickets, "MOST_WAITERS", 10**6),
        shows="crowd",
    ),
    "a place taken again by a copy of its append": Mutation(
        "queue-late", 400,
        edit(tickets.take_ticket, 'update.require("NOT contains(#waiters, :mine)", mine={"S": mine}) → '),
        shows="crowd",
    ),
    "no patience with those ahead": Mutation("queue-calm queue", 60, put(queue, "PATIENCE", 0.0), shows="thrown out"),
    "patience for a second": Mutation("queue-calm queue-beside", 400, put(queue, "PATIENCE", 1.0), shows="thrown out"),
    "patience of a quarter of a second more for each further one ahead": Mutation(
        "queue-dying", 400, _A_QUARTER_MORE, shows=_ORDER,
    ),
    "the dead never passed": Mutation("queue-idle queue-dying", 60, _NEVER_PASSED, shows=("starved", "stuck")),
    "patience that goes on over other grants": Mutation(
        "queue-pollers-many", 60,
        edit(queue.Patience.note, _OVER_ANYBODY.format('if grant is None:\n        return\n    grant = "any"\n    ')),
        shows=_ORDER, redundant="whoever is first and alive takes the lock before the next one has often seen it free. "
        "tests/core/test_queue.py shows it",
    ),
    "patience that goes on though fewer are ahead": Mutation(
        "queue-expiring", 200, edit(queue.Patience.note, _OVER_ANYBODY.format("ahead = 0\n    ")), shows=_ORDER,
    ),
    "patience that goes on over looks without an answer": Mutation(
        "queue-throttled queue-slow", 100, put(queue.Queue, "_look_once", lambda self: self.acquisition.read()),
        shows=("impatient", "thrown out"),
    ),
    "all those ahead removed once the first one is dead": Mutation(
        "queue-freezes queue-deaths queue-throttled", 400,
        edit(queue.Queue.condition_from, "at not in left → at not in (left if self._is_last() else ())"),
        shows="thrown out",
    ),
    "a last try that removes whoever is ahead": Mutation(
        "queue-calm queue-brief", 100,
        edit(queue.Queue.condition_from, "at not in left → at not in (() if self._is_last() else left)"),
        shows="thrown out",
    ),
    "places that are never renewed": Mutation(
        "queue-calm queue", 100, put(queue.Queue, "_renew", lambda self, mine, living: None), shows=_ORDER,
    ),
    "places renewed when hardly anything is left": Mutation(
        "queue-calm queue", 200, put(queue, "RENEWED", 0.0), shows=_ORDER,
    ),
    "a renewal by index, over whoever is there": Mutation(
        "queue-late queue queue-leaving", 400, edit(tickets.renew_ticket,
        _OVER_OLD + 'f"attribute_exists(#waiters[{index}])")', 'update.require("NOT contains(#waiters, :new)") → '),
        shows=("thrown out", "moved", "came back to wait"),
    ),
    "a late copy of a renewal that brings a place back": Mutation(
        "queue-late", 400, edit(tickets.renew_ticket, _OVER_OLD + '"attribute_exists(#waiters)")'),
        shows="came back to wait",
    ),
    "places that expire by the waiter's own clock": Mutation(
        "queue queue-calm", 100,
        edit(queue.Queue._living, "date = self.acquisition.date → date = int(self.acquisition.reading.wall)"),
        shows=_ORDER,
    ),
    "places dated by the waiter's own clock": Mutation(
        "queue queue-calm", 200,
        put(queue.Queue, "_expiry", lambda self, living: int(self.acquisition.reading.wall) + 20), shows=_ORDER,
    ),
    "a place that counts however far ahead it is dated": Mutation(
        "queue-idle", 200,
        put(queue, "counts", lambda place, date: date is None or date <= (row.ticket_expiry(place) or 0)),
        _NEVER_PASSED, shows=("starved", "stuck"),
    ),
    "a place written over one that counts": Mutation(
        "queue-full", 200,
        edit(queue.Queue._take_ticket, "while index > 0 and not counts(waiters[index - 1], date): → if index:"),
        shows="thrown out",
    ),
    "no last try": Mutation(
        "queue-idle", 100, edit(queue.Queue._write, "acquisition = self.acquisition → "
        "acquisition = self.acquisition\n    if self._is_last():\n        return None"), shows="refused",
    ),
    "a try like the last one at each look": Mutation(
        "queue-calm queue", 60, edit(queue.Queue.condition, "if not self._is_last(): → if False:"), shows=_ORDER,
    ),
    "naps longer than others have patience": Mutation(
        "queue-calm queue", 400, put(queue.Pace, "nap", lambda *_: 6.0), shows=("thrown out", "starved"),
    ),
    "errors slept off for longer than others have patience": Mutation(
        "queue-late queue-slow", 120,
        edit(queue.Queue._pause, "backoff(acquisition.polls, longest, → backoff(acquisition.polls, 60.0,"),
        shows=("thrown out", "starved"),
        redundant="a nap of its own refresh_period follows only a decision that failed, which is a fault",
    ),
    "an append whose answer was lost forgotten": Mutation(
        "queue-late queue-slow", 120, edit(queue.Queue._ask, "acquisition = self.acquisition → "
        "acquisition = self.acquisition\n    self._name = self._asked = self._names.clear()"),
        shows=("place left", "crowd"),
        redundant="the place that landed is that of one who died: 3 s for those behind it",
    ),
    "a correction that waits in the queue": Mutation(
        "queue-late queue", 120, edit(queue.Queue._write, "self._claim(step) → "
        "self._claim(Take(step.version, step.row, requests.NOBODY_WAITS if waiters else None))"),
        redundant="a version that waits for its correction is nobody's: the row is locked until its expiry, no longer",
    ),
    "a queue that goes on though waiters cannot be read": Mutation(
        "queue-forged", 100, wrap(queue.Queue, "_waiters", lambda original: lambda self: original(self) or ()),
        shows=("escaped", "starved", "refused", "stuck"),
    ),
    "a row made by taking a place": Mutation(
        "queue-foreign", 1200, edit(tickets.take_ticket, 'update.require("attribute_exists(#version)") → '),
        shows="no version",
    ),
    # Semaphores
    "a permit claimed though there is an entry of mine": Mutation(
        "permits-late permits-corrections", 400,
        edit(permits.PermitUpdate.take, 'self.require("attribute_not_exists(#t.#mine)") → '),
        shows=(*_TOO_MANY, "token", "left behind", "release"),
    ),
    "a size that counts for nothing if dead permits are replaced": Mutation(
        "permits-mixed", 2000,
        edit(permits.PermitUpdate.take, 'self.require("size( → if not dead: self.require("size('), shows=_TOO_MANY,
    ),
    "a size that does not count at all": Mutation(
        "permits-calm permits", 40,
        edit(permits.PermitUpdate.take, "most = place.permits - → most = 1 + place.permits -"), shows=_TOO_MANY,
    ),
    "dead permits replaced whether or not they are as observed": Mutation(
        "permits-dying permits-freezes permits-late", 400, edit(permits.PermitUpdate.take,
        'self.require(f"#p.{name} = :{name[1:]}", **{name[1:]: {"S": entry.text}}) → pass'), shows=_TOO_MANY,
    ),
    "a permit's expiry judged by the caller's clock": Mutation(
        "permits permits-slow", 40, edit(lease.may_take_over, "date is not None and date * 1000 → received.wall * 1000",
        "return seen.is_over(received.monotonic, date) → return False"),
    ),
    "a permit committed and released without its token": Mutation(
        "permits-zombies permits-commits", 2000, _changed("release", _whatever_token,
        lambda place, *_, token=None, **more: (place.permits and token) is not None),
        shows=("late write", "release", *_TOO_MANY),
    ),
    "a permit renewed without its token": Mutation(
        "permits-late permits-outages", 400, _weaker("renew", lambda part: " = " in part, _is_permit),
        redundant="while my validity lasts, the entry under my nonce is the one that I was granted. After that the "
        "handle is lost, and a renewal that lands late keeps an entry of nobody until its expiry",
    ),
    "a permit's renewal that may turn the expiry back": Mutation(
        "permits-late permits-shortened", 400, _weaker("renew", lambda part: " < " in part, _is_permit),
        shows=_TOO_MANY,
    ),
    "a permit corrected whatever its version": Mutation(
        "permits-corrections", 2000, _weaker("claim", _any, _is_permit_correction),
        shows=(*_TOO_MANY, "token", "left behind", "maps"),
    ),
    "a semaphore begun over one that is there": Mutation(
        "permits permits-late", 40, _weaker("claim", _any, _is_first_permit), shows=(*_TOO_MANY, "token"),
    ),
    "maps removed once they are empty": Mutation(
        "permits-calm permits", 40, wrap(keep, "release", _tidying), shows=("escaped", "maps", "stuck", "token"),
    ),
    "a permit held on through an outage": Mutation(
        "permits-outages", 400,
        edit(protocol.Hold.__init__, "wanted.hold_on_unavailable and keeps → wanted.hold_on_unavailable"),
        shows=(*_TOO_MANY, "came back"),
        redundant="a copy of the claim that lands after the entry was replaced has another token, and the renewal "
        "requires mine. Only a row that was deleted could bring the token back",
    ),
    "a row that is kept no longer than its last writer's permit": Mutation(
        "permits permits-calm", 40,
        edit(permits.PermitUpdate.ttl, "None if seconds is None else max(seconds, KEPT) → 0"), shows="ttl",
    ),
    "a free permit taken from any place": Mutation(
        "permits-queue-calm permits-queue", 100, _FROM_ANY_PLACE, shows=_ORDER,
    ),
    "a claim from a place that leaves nothing to those ahead": Mutation(
        "permits-queue-beside permits-queue", 1000, edit(queue.Queue.condition_from, "behind=behind → behind=0"),
        shows=_ORDER,
    ),
    "the dead that wait for a semaphore never passed": Mutation(
        "permits-queue-idle", 100, _NEVER_PASSED, shows=("starved", "stuck"),
    ),
    "patience with those who wait for a semaphore that goes on over other grants": Mutation(
        "permits-queue-dying permits-queue-pollers", 60, _BLIND, shows=_ORDER,
        redundant="whoever is alive ahead passes the dead first one long before, and the patience begins anew. "
        "tests/core/test_permits.py shows it",
    ),
    "little patience with those who wait for a semaphore, over other grants": Mutation(
        "permits-queue-dying permits-queue-pollers", 200, _BLIND, _A_QUARTER_MORE, shows=_ORDER,
    ),
    # The assumptions of docs/safety-assumptions.md: breaking them shows
    "front ends further apart than half a second": Mutation("slow-clocks", 200, put(Settings, "front_ends", 1.5)),
    "clocks that drift more than DRIFT": Mutation("long", 100, put(Settings, "drift", 3e6 * lease.DRIFT)),
    "a step back and a freeze of the other clocks between two looks": Mutation(
        "freezes no-heartbeat", 1500, put(Settings, "unwatched", True),
    ),
    "a freeze that stops every clock": Mutation(
        "freezes no-heartbeat", 100,
        edit(clocks.Clocks.stop, "if len(self._spoiled → which = set(ALL)\n    if False and len(self._spoiled"),
    ),
    "a monotonic clock that jumps ahead": Mutation("mixed no-heartbeat", 40, wrap(clocks.Clocks, "read", _jumping)),
    "a time of DynamoDB that jumps ahead": Mutation(
        "mixed no-heartbeat", 60, _before_each_request(_step_ahead), wrap(network.Network, "_date", _date_ahead),
    ),
    "rows deleted while they are held": Mutation("mixed calm", 40, _before_each_request(_delete)),
    "a table set back to an earlier state": Mutation("mixed calm", 40, _before_each_request(_restore)),
    "a table with a copy in another Region": Mutation("mixed calm", 20, _before_each_request(_copy)),
    # Holds that outlive an invocation
    "attempts that all bear the owner of the hold": Mutation("holds-zombies-calm holds-zombies-late", 400, _OWN_NAME),
    "attempts under one owner, and a token that rises": Mutation(
        "holds-zombies-calm", 40, _OWN_NAME,
        edit(requests.renew, 'if next_token: → if next_token or (seen is not None and not grant.owner.endswith("/")):'),
        edit(resume._is_of_hold, "row.token == token → row.token in (token, token + 1)"), shows="revived",
    ),
    "what an attempt hands over parked under the first handle's name": Mutation(
        "holds-zombies holds-zombies-late", 400, put(handover, "parked", row.base_of), shows=("zombie", *_UNSAFE),
    ),
    "a hold known by its token or a higher one": Mutation(
        "holds-claims", 400, _changed("renew", _at_least, _is_resume),
        _changed("release", _at_least, _is_release_by_string),
        edit(resume._is_of_hold, "row.token == token → (row.token or 0) >= token"), shows=("revived", *_UNSAFE),
    ),
    "a resume without the owner seen": Mutation(
        "holds-zombies-late holds-late", 600, _without("renew", _is_resume, "ownerName"),
    ),
    "a resume without the token": Mutation(
        "holds-adopted", 400, _without("renew", _is_resume, "fencingToken"), shows=("revived", *_UNSAFE),
    ),
    "a resume of what is released": Mutation(
        "holds-late holds-zombies-late", 150, _without("renew", _is_resume, "isReleased"),
        redundant="isReleased stays where it is, so the row stays free, and the reply shows that: nobody is granted "
        "anything",
    ),
    "a resume that may turn the expiry back": Mutation(
        "holds-late holds-zombies-late", 600, _without("renew", _is_resume, "<"), shows=("expiry", *_UNSAFE),
    ),
    "any row of the hold counted as a grant": Mutation(
        "holds-zombies holds-twice", 400, _ANY_ROW,
    ),
    "the validity of a resume counted from its reply": Mutation(
        "holds-slow", 1500, edit(resume.resume, "valid_until = grant.started + → valid_until = reading.elapsed +"),
    ),
    "a resume by a wall clock that may be fast": Mutation(
        "holds-clocks", 60,
        edit(resume.resume, "place.permits is not None or not memory.server.is_known → False",
        "if not memory.server.is_known: → if False:"), shows="expiry",
    ),
    "a resume that is given up and released": Mutation(
        "holds-late holds", 60, wrap(resume, "resume", _given_back), shows="gave back",
    ),
    "a resume that gives up at the first other name": Mutation(
        "holds holds-calm", 60, put(resume, "STEPS", 1), shows="refused",
    ),
    "who took a hold counted as seen since before its resume": Mutation(
        "holds-slow", 1500, edit(resume.HolderAcquisition.note_instead, "self.reading = reading → pass"),
    ),
    "a resumed handle valid beyond its invocation": Mutation(
        "holds-calm", 60, edit(resume.resume, "valid_until = min(valid_until, wanted.lease_end) → pass"),
        shows="deadline",
    ),
    "an unclear release read as done beside another attempt": Mutation(
        "holds-zombies-late holds-twice", 1500, put(keep, "base_of", lambda owner: owner), shows="release",
    ),
    "a release by string that asks for the first name only": Mutation(
        "holds holds-calm", 60, edit(resume.release, _FIRST_NAME), shows="release",
    ),
    "a release by string without the token": Mutation(
        "holds-adopted holds-claims", 1500, _without("release", _is_release_by_string, "fencingToken"),
    ),
    "a release by string without the owner": Mutation(
        "holds-foreign", 1500, _without("release", _is_release_by_string, "ownerName"),
    ),
    "an adopter of a parked hold under the first handle's name": Mutation(
        "holds-zombies-adopted", 1500, edit(handover.Adoption.see,
        "if row.owner != self.base and not is_attempt(self.wanted.owner): → "
        "self.wanted.owner = self.base\n    if False:"),
        redundant="whatever the first handle still sends has the old token, or the version of a claim of its own. "
        "The rule keeps a name for each handle",
    ),
    "an adoption of what an attempt has": Mutation(
        "holds-zombies holds-adopted", 150, edit(handover.Adoption.see, _ADOPTS_ATTEMPT),
        redundant="it would fence the attempt as a resume does. The rule keeps a string that comes twice from ending "
        "the attempt that has it",
    ),
    # Rate limits (core/rate.py)
    "a start by the wall clock alone": Mutation(
        "rates-clocks", 40,
        edit(rate.Start.now, "low if high - low > _APART else min(max(self.reading.wall, low), high) → "
        "self.reading.wall"), shows=_OFTEN,
    ),
    "a time of DynamoDB taken as known after a freeze": Mutation(
        "rates-freezes rates-clocks", 200, edit(rate.Start.is_time_known, "found[1] - found[0] <= _APART → True"),
        shows=_OFTEN,
    ),
    "a time that may be far ahead after a read": Mutation(
        "rates-stepped rates-clocks", 150, edit(rate.Start.now, "low if high - low > _APART else → "), shows=_OFTEN,
    ),
    "an old Date trusted": Mutation(
        "rates-one-a-day rates-clocks", 100, edit(rate.Start.is_time_known, "found[2] <= _OLD → True"), shows=_OFTEN,
        redundant="clocks drift by 0.9 ms in a second here, which patience covers while Dates come with each start",
    ),
    "an idle take while another start is due": Mutation(
        "rates-calm", 20,
        edit(rate.Start.request, "AND #next_at <= :now → AND (#next_at <= :now OR #next_at > :now)"), shows=_OFTEN,
    ),
    "a busy take of the unused past": Mutation(
        "rates-calm", 40, edit(rate.Start.request, '"#next_at > :now" → "(#next_at > :now OR #next_at <= :now)"'),
        shows=_OFTEN,
    ),
    "a busy take however long it has to wait": Mutation(
        "rates-late rates-clocks", 40,
        edit(rate.Start.request, '"#next_at <= :latest" → "(#next_at <= :latest OR #next_at > :latest)"'),
        shows=("far ahead", "ttl"),
    ),
    "a start before it is due": Mutation(
        "rates-calm", 20, edit(rate.Start.is_in_time, "if left < 1e-6: → if True:"), shows=_OFTEN,
    ),
    "a start that is due by elapsed time": Mutation(
        "rates-stepped rates-late", 400,
        edit(rate.Start.is_in_time, "due - (self.reading.monotonic - sent.monotonic) → "
        "due - (self.reading.elapsed - sent.elapsed)"), shows=_OFTEN,
    ),
    "a start that is due by the time since its answer": Mutation(
        "rates-slow rates-rare", 200, edit(rate.Start.slot, "return sent, → return self.reading,"), shows=_OFTEN,
    ),
    "a start however late it is": Mutation(
        "rates-freezes rates-rare", 100,
        edit(rate.Start.is_in_time, "- due <= self.limit.patience → - due <= 1e9"), shows=_OFTEN,
    ),
    "lateness from the send, though now is of a read before a freeze": Mutation(
        "rates-first-read", 100, edit(rate.Start.take, "self.reading.elapsed - self.behind() → self.reading.elapsed"),
        shows=_OFTEN,
    ),
    "lateness by the monotonic clock": Mutation(
        "rates-freezes", 200,
        edit(rate.Start.is_in_time, "while self.reading.elapsed - since → "
        "while self.reading.monotonic - sent.monotonic"), shows=_OFTEN,
    ),
    "a start given back without its name": Mutation(
        "rates-rare rates-late", 60,
        edit(rate.Start.give_back, "released=None, last_take={\"S\": name}) → "
        "released=None)"), shows=_OFTEN,
    ),
    "a start given back by the number that it left": Mutation(
        "rates-rare rates-late", 300,
        edit(rate.Start.give_back, 'last_take={"S": name} → '
        'next_at={"N": str(self.memory.rates[self.place.where][0])}'), shows=_OFTEN,
    ),
    "a give-back that leaves the name of the last take": Mutation(
        "rates-rare", 300,
        edit(rate.Start.give_back, 'update.removes.append("#last_take") → pass'), shows=_OFTEN,
    ),
    "a take that was given back counted as a grant": Mutation(
        "rates-rare", 150, edit(rate.Start.give_back, "self.sent = {} → "), shows=_OFTEN,
        redundant="it takes a copy of the take that lands after its give-back, a refusal that shows it before others "
        "come, and after the start a copy of the give-back, too",
    ),
    "takes of one name": Mutation(
        "rates-late rates-rare", 300,
        edit(rate.Start.take, "name = self.entropy.nonce()[:_NAME] → name = 'the same'"), shows=_OFTEN,
    ),
    "several starts rounded down to whole microseconds each": Mutation(
        "rates-large", 20, edit(rate.Limit.__init__, "-(-n * micros // limit) → n * (micros // limit)"), shows=_OFTEN,
    ),
    "a burst beyond what nextAt may run ahead": Mutation(
        "rates-calm rates", 60, edit(rate.Limit.__init__, "burst * micros // limit → (burst + 2) * micros // limit"),
        shows=_OFTEN,
    ),
    "a row that goes while it is needed": Mutation(
        "rates-calm", 20, put(rate, "KEPT", 60), shows="ttl",
    ),
    # Permits that outlive an invocation
    "a permit claimed though its hold has a token": Mutation(
        "permit-holds-claims permit-holds-late", 150, edit(permits.PermitUpdate.take,
        'self.require("attribute_not_exists(#t.#mine)") → '
        'self.require(f"attribute_not_exists({self.entry(grant.owner)})")'), shows=("maps", "zombie", *_TOO_MANY),
    ),
    "a permit released under its token alone": Mutation(
        "permit-holds-zombies-calm permit-holds-zombies-late", 60, edit(permits.PermitUpdate.mine,
        'self.require(f"attribute_exists({self.entry(owner)})") → self.entry(owner)'), shows=("maps", "zombie"),
    ),
    "a permit resumed without the entry seen": Mutation(
        "permit-holds-zombies permit-holds-twice", 60, _weaker("renew", lambda part: "#p." in part, _is_permit_resume),
        shows=("maps", *_TOO_MANY),
    ),
    "a permit resumed without the token of its hold": Mutation(
        "permit-holds-twice permit-holds-zombies-calm", 200,
        _weaker("renew", lambda part: "#t." in part, _is_permit_resume),
        shows=("expiry", "revived", "maps", *_TOO_MANY),
    ),
    "a permit's resume or renewal that may turn the expiry back": Mutation(
        "permit-holds-late permit-holds-zombies-late", 400,
        edit(permits.PermitUpdate.rise, 'self.require(f"{self.entry(seen)} < :entry") → '),
        shows=("expiry", *_TOO_MANY),
    ),
    "attempts of a permit that all bear the name of its hold": Mutation(
        "permit-holds-zombies-calm permit-holds-zombies-late", 400, _OWN_NAME, shows=("zombie", *_TOO_MANY),
    ),
    "a permit that an attempt hands over parked under the first handle's name": Mutation(
        "permit-holds-zombies permit-holds-zombies-late", 400, put(handover, "parked", row.base_of),
        shows=("zombie", *_TOO_MANY),
    ),
    "a holder that claims under another name each time": Mutation(
        "permit-holds-twice permit-holds-dying", 150,
        put(holds, "name_of", lambda _: f"{random.getrandbits(128):032x}"), shows="two permits",
    ),
    "any entry of the hold counted as a grant": Mutation(
        "permit-holds-zombies permit-holds-twice", 400, _ANY_ROW, shows=_TOO_MANY,
    ),
    "a permit adopted without a new token": Mutation(
        "permit-holds-adopted permit-holds-zombies-adopted", 150, edit(requests.renew, "if next_token: → if False:"),
        shows=("revived", "adopted twice", *_TOO_MANY),
    ),
    "the token of a dead permit left in its map": Mutation(
        "permit-holds-dying", 40, edit(permits.PermitUpdate.take,
        'self.removes += [f"#p.{name}", → self.removes += [f"#p.{name}"] or ['), shows="maps",
    ),
    "a dead entry that takes the token of its attempt along": Mutation(
        "permit-holds-dying", 40,
        edit(permits.PermitUpdate.take, "hold_of(attempt) → attempt"), shows="maps",
    ),
    "the token of a released permit left in its map": Mutation(
        "permit-holds", 40, edit(permits.PermitUpdate.end, ', "#t.#mine"] → ]'), shows="maps",
    ),
    "the entry seen left beside that of the attempt that resumes it": Mutation(
        "permit-holds", 40, edit(permits.PermitUpdate.hold, "if seen != grant.owner: → if False:"), shows="maps",
    ),
    "a permit released by string that its call does not count as its own": Mutation(
        "permit-holds-late permit-holds-zombies-released", 400,
        edit(resume.release, "return unclear and place.permits is not None → return False"), shows="release",
    ),
    "the validity of a permit's resume counted from its reply": Mutation(
        "permit-holds-slow", 1500,
        edit(resume.resume, "valid_until = grant.started + → valid_until = reading.elapsed +"),
    ),
    "a permit's row kept for two days beside leases of weeks": Mutation(
        "permit-holds-weeks", 40, put(permits, "KEPT", 2 * 86_400), shows=("ttl", *_UNSAFE),
    ),
}  # fmt: skip
