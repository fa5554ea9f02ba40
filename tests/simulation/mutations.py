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
    several,
    tickets,
    transaction,
)
from tests.prove.mistakes import Change, alter, planted, put, together, wrap

from . import application, clients, clocks, holds, network
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
        self.biases, self.runs, self.change, self.redundant = tuple(biases.split()), runs, together(*changes), redundant
        self.shows = (shows,) if isinstance(shows, str) else shows


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


def _given(*, of_permit: bool = False, **given: bool) -> Callable[..., bool]:
    """Whether a request is built with and without these arguments, and for a permit if that is asked for."""

    def when(place: Any, *_: Any, **more: Any) -> bool:
        is_so = all((more.get(name) not in (None, False)) is is_given for name, is_given in given.items())
        return is_so and (place.permits is not None or not of_permit)

    return when


_is_renewal = _given(seen=False)
_is_adoption = _given(next_token=True)
_is_resume = _given(seen=True, next_token=False)  # or a handover, which parks the hold
_is_permit = _given(of_permit=True)
_is_permit_resume = _given(of_permit=True, seen=True, next_token=False)
_is_permit_correction = _given(of_permit=True, observed=True)


def _is_release_by_string(place: Any, *, expiry_ms: Any = None, version: Any = None, **more: Any) -> bool:
    return expiry_ms is None and version is None


def _is_release(*arguments: Any, **more: Any) -> bool:
    return not _is_release_by_string(*arguments, **more)


def _is_first_permit(place: Any, *_: Any, observed: Any = None, row: Any = None, **more: Any) -> bool:
    return place.permits is not None and observed is None and row is not None and not row.is_held


def _unguarded(request: dict[str, Any]) -> dict[str, Any]:
    return _weakened(request, _any)


def _last_part(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """Pass the lock's part of a commit through ``change``."""
    return wrap(
        transaction,
        "all_or_none",
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

    def release(hold: Any, talk: Any, *, complete: bool = False, **more: Any) -> Generator[Any, Any, bool]:
        done = yield from original(hold, talk, **more)
        if done and complete:
            operation, request = requests.release(
                hold.place, owner=hold.owner, token=hold.token, expiry_ms=hold.expiry_ms,
                completion=keep.completion(hold, talk, None), content=requests.Content(ttl=hold.ttl),
            )  # fmt: skip
            late = operation, _weakened(request, lambda part: "isReleased" in part)
            yield from talk.exchange(late)
        return done

    return release


def _tidying(original: Any) -> Any:
    """A release of a permit that also removes maps which are empty then."""

    def release(hold: Any, talk: Any, **more: Any) -> Generator[Any, Any, bool]:
        done = yield from original(hold, talk, **more)
        empty = {
            "TableName": hold.place.table, "Key": hold.place.item_key,
            "UpdateExpression": "REMOVE permits, permitTokens", "ConditionExpression": "size(permits) < :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}}, "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }  # fmt: skip
        yield from talk.exchange(("UpdateItem", empty))
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
            content = requests.Content(ttl=60)
            request = requests.release(wanted.place, owner=wanted.owner, token=token, expiry_ms=0, content=content)
            yield protocol.Send(*request, protocol.SEND)
            raise

    return resumed


def _under_new_token(original: Any) -> Any:
    """An exchange that sends a commit under a client token of its own."""

    def exchange(self: Any, request: Any, *more: Any, **options: Any) -> Any:
        operation, body = request
        if "ClientRequestToken" in body:
            body = {**body, "ClientRequestToken": self.entropy.nonce()}
        return original(self, (operation, body), *more, **options)

    return exchange


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
if step.version in self.sent:
    self.sent[step.version].struck = False
    yield from self.exchange(self.release_of(step.version))
    step = Take()"""
_BLIND = alter("Patience.note", "start", 'grant = None if grant is None else "any"')
_A_QUARTER_MORE = alter("Patience.left", "operand PATIENCE ahead", "PATIENCE + min(0.25 * (ahead - 1), 2.0)")
_NEVER_PASSED = put(queue.Patience, "left", lambda self, ahead: 1.0)
_FROM_ANY_TICKET = alter(
    "Queue.condition", "line spare free", "return self.condition_from(self.index, waiters, living)\n..."
)
_OWN_NAME = alter("resume.resume", "start", "wanted.owner = base_of(wanted.owner)")
_ANY_ROW = alter("resume.resume", "line shown add", "...\nrow.owner, row.version = owner, next(iter(sent))")
_ASIDE = alter(
    "HolderAcquisition.resume",
    "argument talk -nonce",
    "type(self.talk)(self.talk.memory, self.talk.entropy, self.talk.reading)",
)
_UNGUARDED_COMMIT = _last_part(_unguarded)
_NO_RELEASE = alter("transaction.commit", "line exchange plain", "outcome = Reply(None, None)")
_TOKEN_FOR_EVER = put(transaction, "_TOKEN_KNOWN", float("inf"))
_NO_COMPLETION_IN_TTL = alter("Update.ttl", "argument completed_until", "0")
_ADOPTS_ATTEMPT = """\
...
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
    updates = [item["Update"] for item in items]
    return [{"Update": _unguarded(one) if one["TableName"] == "locks" else one} for one in updates]


MUTATIONS: dict[str, Mutation] = {
    # The waiter
    "expiry judged by the waiter's clock": Mutation(
        "mixed stormy", 20, alter("may_take_over", "term date None", ""),
        alter("may_take_over", "operand date 1000", "received.wall * 1000")),
    "an observation counted by elapsed time, which may run ahead": Mutation(
        "freezes no-heartbeat", 200, alter("may_take_over", "argument monotonic", "received.elapsed"),
        alter("Observations.note", "argument monotonic", "received.elapsed")),
    "an observation not restarted when the version changes": Mutation(
        "mixed calm foreign", 60, alter("Observations.note", "term version", ""),
        alter("Observations.note", "term lease_ms", "")),
    "an observation by Dates without allowance": Mutation(
        "foreign-dates", 600, alter("Observation.is_over", "operand max", "")),
    "a take-over without the version observed": Mutation(
        "mixed stormy", 40, alter("Update.take", "call expect observed",
        'self.require("(#version = :observed OR NOT #version = :observed)", observed={"S": observed})')),
    "a row taken over whose lease cannot be read": Mutation(
        "unreadable", 40, put(row.Row, "require_lease", lambda self, key: self.lease_ms or 0)),
    "a lease of zero counted as one that is over": Mutation(
        "unreadable", 100, alter("Schema.read_lease", "if _LONGEST_MS", "lease_ms is None or lease_ms < 1 or ...")),
    # The holder's time
    "validity by the lease alone": Mutation(
        "slow-clocks mixed", 100, alter("validity", "argument expiry_ms", "lease_ms")),
    "validity by the stored expiry alone": Mutation(
        "foreign shortened fast", 300, alter("validity", "argument lease_ms", "float('inf')")),
    "validity counted from the reply": Mutation(
        "slow-replies", 300, alter("Acquisition.own", "line require_token", "sent.started = self.talk.elapsed\n..."),
        alter("_extended", "argument sent", "now")),
    "no margin between two Dates": Mutation("slow-clocks", 400, put(lease, "MARGIN", 0.0)),
    "no grace": Mutation(
        "calm mixed", 60, put(lease, "GRACE", 0.0), shows=("refused", "starved", "lost for nothing", *_UNSAFE)),
    "no allowance for drift": Mutation("long", 400, put(lease, "DRIFT", 0.0)),
    "half the allowance for drift": Mutation("drift", 100, put(lease, "DRIFT", lease.DRIFT / 2)),
    "commits without the lock's condition, beyond all drift": Mutation(
        "beyond-drift", 100, _UNGUARDED_COMMIT, shows="late write"),
    "elapsed time anchored once": Mutation("freezes no-heartbeat", 1500, put(lease, "ClockReading", _Anchored)),
    "elapsed time by the monotonic clock alone": Mutation(
        "freezes no-heartbeat", 60, alter("ClockReading.after", "argument self boottime", ""),
        alter("ClockReading.after", "argument self wall", "")),
    "elapsed time by the wall clock alone": Mutation(
        "freezes no-heartbeat", 100, alter("ClockReading.after", "argument self monotonic", ""),
        alter("ClockReading.after", "argument self boottime", "")),
    "no heartbeat, though validity ends before the deadline": Mutation(
        "calm deadlines", 60, put(keep, "needs_heartbeat", lambda valid_until, deadline, lease_ms: deadline is None),
        shows="lost for nothing"),
    "the first heartbeat only at a third of the lease": Mutation(
        "calm-slow", 400, put(keep, "first_heartbeat", lambda now, valid_until, lease_ms: now + lease_ms / 3000),
        shows="lost for nothing"),
    # Renewals
    "a renewal without the owner": Mutation("foreign foreign-late", 4000, _without("renew", _is_renewal, "ownerName")),
    "a renewal without owner and token": Mutation(
        "renewals shortened stormy", 600, _without("renew", _is_renewal, "ownerName", "fencingToken")),
    "a renewal of what is released": Mutation(
        "renewals delete stormy", 150, _without("renew", _is_renewal, "isReleased"),
        redundant="a late renewal leaves isReleased where it is, so the row stays free; where rows are deleted, owner "
        "and token are gone. It saves others a refused take-over, no more"),
    "a renewal that may turn the expiry back": Mutation("renewals", 400, _without("renew", _is_renewal, "<")),
    "renewals whose versions do not rise": Mutation(
        "renewals shortened", 150, alter("keep.renew", "start", "hold.expiry_ms = 0"),
        redundant="'version < the new one' refuses what does not rise, and the answer says what to go above: one more "
        "request. A late renewal that is above has a later expiry, and then a lease at least as long"),
    "a shortened lease not cut before it is sent": Mutation("shortened", 600, alter("keep.renew", "line shorten", "")),
    "a release without owner and token": Mutation(
        "stormy fast", 200, _without("release", _is_release, "ownerName", "fencingToken")),
    "a handle that counts as held while it is released": Mutation(
        "renewals stormy", 4000, alter("keep.release", "line end", "hold.ended = False"),
        alter("keep.release", "line exchange request", "...\nhold.end()")),
    "a handle that counts as held after its last act is interrupted": Mutation(
        "interrupted interrupted-calm", 60, wrap(keep, "release", _undone), wrap(handover, "hand_over", _undone),
        wrap(transaction, "commit", _undone), shows="says held"),
    "a last act that is interrupted counted as not sent": Mutation(
        "interrupted interrupted-calm", 100, alter("keep.release", "line settle True", ""),
        alter("transaction.commit", "line settle", ""), shows="false loss"),
    "what an interrupted handover parked left there": Mutation(
        "interrupted-adopted", 600, alter("_end_late", "set parked", "False"), shows="held for nobody"),
    "two renewals of one handle under way at once": Mutation(
        "at-once", 100, put(clients.Client, "turn", _nothing), shows=("expiry", "false renewal", *_UNSAFE)),
    "a renewal that counts before its answer": Mutation(
        "interrupted interrupted-calm", 20,
        alter("keep.renew", "line send", "hold.extend(sent.elapsed, int(talk.now()))\n..."), shows="false renewal"),
    # Claims, corrections, giving up
    "a grant of a fast clock not corrected": Mutation(
        "fast mixed", 60, put(lease, "clock_was_fast", lambda *_: False), shows="expiry"),
    "released and claimed again instead of corrected": Mutation(
        "given-back-late corrections", 20_000, alter("Acquisition.write", "start", _STEPS_ASIDE)),
    "a corrected version counted when it is seen again": Mutation(
        "given-back-late corrections", 20_000, alter("Acquisition.own", "term struck", "")),
    "a claim given up and not released": Mutation(
        "given-up stormy", 40, put(acquire.Acquisition, "abandon", _nothing), shows="left behind"),
    "a claim given up and released by a single send": Mutation(
        "given-up stormy", 400, wrap(acquire.Acquisition, "abandon", _one_send), shows="left behind"),
    "a claim given up at the second interrupt": Mutation(
        "interrupted-late interrupted", 400, alter("undone", "line undo None", ""), shows="left behind"),
    "an owner that is not unique for each acquisition": Mutation(
        "stormy", 1300, put(application, "owner_name", lambda name, entropy: "function")),
    "a late copy of the claim that release leaves": Mutation(
        "stormy fast", 4000, alter("_end_late", "term copied", ""), shows="copy left"),
    "a late copy that lands where release freed what is not answered for": Mutation(
        "interrupted-permit-holds-claims", 4000, alter("_end_late", "argument STEPS", "1"), shows="copy left"),
    "whatever a refused release shows released as a late copy": Mutation(
        "stormy fast", 200, alter("_end_late", "term claims", "")),
    "a lost row counted as released": Mutation(
        "stormy renewals", 1000, alter("keep._judged", "line raise outcome unclear", "return True"),
        alter("keep._judged", "line raise outcome", "return True"), shows="release"),
    # Handing over, commits, replacing
    "an adoption under any token": Mutation(
        "handing-over handing-over-late", 60, _without("renew", _is_adoption, "fencingToken"),
        alter("Adoption.see", "term token", ""), shows=(*_UNSAFE, "adopted twice")),
    "an adoption that does not raise the token": Mutation(
        "handing-over handing-over-late", 60, alter("requests.renew", "if next_token", "False"),
        shows=(*_UNSAFE, "adopted twice")),
    "an adoption of what is released": Mutation(
        "handing-over handing-over-late", 100, _without("renew", _is_adoption, "isReleased"),
        redundant="it leaves isReleased where it is, so the row stays free and is not counted as adopted"),
    "a lock handed over that deletes its row": Mutation(
        "handing-over-deleted", 1000, put(clients, "may_hand_over", lambda hold: True), shows="adopted twice"),
    "a handle that counts as held while it is handed over": Mutation(
        "handing-over calm-handing-over", 60,
        alter("handover.hand_over", "line hand_over", "hold.ended, hold.handed_over = False, True")),
    "an adoption given up and not released": Mutation(
        "handing-over-late", 400, put(handover.Adoption, "abandon", _nothing), shows="left behind"),
    "a commit without the lock's condition": Mutation(
        "commits commits-late", 40, _UNGUARDED_COMMIT, shows="late write"),
    "a commit that leaves the lock held": Mutation(
        "commits commits-late", 100, _last_part(_left_held),
        shows=("late write", "written twice", "left behind", "false refusal")),
    "a commit under a new client token at each decision": Mutation(
        "commits-late commits", 2000, wrap(protocol.Conversation, "exchange", _under_new_token), shows="false refusal"),
    "a refused commit not followed by a release": Mutation(
        "commits-late commits-lost", 400, _NO_RELEASE, shows="false refusal"),
    "a refusal counted as final, no matter how the release ended": Mutation(
        "commits-lost commits-late", 4000, alter("transaction.commit", "set final False", "True"),
        shows="false refusal"),
    "a second refusal by the application's conditions counted as final": Mutation(
        "commits-lost", 4000,
        alter("transaction.commit", "call _lost_among again", "isinstance(again, TransactionCanceled)"),
        shows="false refusal"),
    "a client token counted as known for ever": Mutation("commits-frozen", 400, _TOKEN_FOR_EVER, shows="false refusal"),
    "a client token counted as known for ever, under several locks": Mutation(
        "several-commits-frozen", 400, _TOKEN_FOR_EVER, shows="false refusal"),
    # Several locks
    "several locks taken in the order given": Mutation(
        "several several-calm", 20, put(several, "ordered", lambda keys: list(dict.fromkeys(keys))), shows="deadlock"),
    "several locks not released after a failure": Mutation(
        "several", 20, alter("SeveralAcquisition.release_all", "start", "self.holds.clear()"), shows="left behind"),
    "several locks returned while one is lost": Mutation(
        "several-lost several", 60, put(several.SeveralAcquisition, "lost", lambda self: None),
        put(several.SeveralAcquisition, "check_held", lambda self: None), shows="returned lost"),
    "no last look at several locks before they are returned": Mutation(
        "several-lost", 1000, put(several.SeveralAcquisition, "check_held", lambda self: None), shows="returned lost"),
    "several locks returned with what is left of their leases": Mutation(
        "several-calm", 60, put(several.SeveralAcquisition, "freshen", _nothing), shows="stale"),
    "several locks that begin anew without a release": Mutation(
        "several-lost", 60, alter("SeveralAcquisition.run", "line release_all", "self.holds.clear()"),
        shows="left behind"),
    "a commit under several locks with the condition of one": Mutation(
        "several-commits", 250,
        wrap(transaction, "all_or_none", lambda real: lambda items, last, token: real(_of_one(items), last, token)),
        shows="late write"),
    "a refused commit under several locks not followed by releases": Mutation(
        "several-commits", 400, _NO_RELEASE, shows="false refusal"),
    "a row replaced regardless of its version": Mutation(
        "replacing-foreign", 300, _without("replace", _any, "recordVersionNumber")),
    "a row replaced regardless of its token": Mutation(
        "replacing", 200, _without("replace", _any, "fencingToken"), redundant="the version alone tells one grant or "
        "renewal from another; the token is what grants raise, and a late copy of a claim brings an old version back "
        "only with another token, and then there is no holder"),
    # Events
    "an event claimed and taken over regardless of its completion": Mutation(
        _EVENTS, 20, alter("requests.claim", "if event", "False"), shows=_NOT_ONCE),
    "an event taken over regardless of its completion": Mutation(
        _EVENTS, 400, alter("requests.claim", "if event", "... and observed is None"), shows=_NOT_ONCE),
    "a completion observed as there or not there alone": Mutation(
        "events-passing", 400, alter("Update.expect", "argument is_",
        '"attribute_exists(#completed_until)" if field == "completed_until" else ...'),
        alter("Update.expect", "line values", 'if field != "completed_until":\n    ...'), shows=_NOT_ONCE),
    "a result removed while a front end may say done": Mutation(
        "events-ends", 100, alter("Acquisition.request", "operand MARGIN", ""), shows="false result"),
    "a completion that has passed counted as none": Mutation(
        "events-passing", 40, alter("requests.claim", "start", "completed_until = None"),
        shows=("refused", "starved", "stuck")),
    "an event's end judged by the client's clock": Mutation(
        _EVENTS, 100,
        alter("Acquisition.see", "call refuse_done", "row.refuse_done(place.key, int(self.talk.reading.wall))"),
        shows=(*_NOT_ONCE, "false done", "starved")),
    "an event that another holds not looked at": Mutation(
        _EVENTS, 100, alter("Acquisition.see", "if window", "... and row.is_free"), shows=_NOT_ONCE),
    "a completion by a second request after the release": Mutation(
        _EVENTS, 200, wrap(keep, "release", _completing_late), shows=("false success", *_NOT_ONCE)),
    "a completion without owner and token": Mutation(
        _EVENTS, 60,
        _without("release", lambda *_, completion=None, **more: completion is not None, "ownerName", "fencingToken"),
        shows=("late release", *_UNSAFE)),
    "a failed handler that completes its event": Mutation(
        _EVENTS, 20, alter("keep.release", "if complete", "hold.window is not None"), shows="false completion"),
    "a release after a refused commit that completes": Mutation(
        "events-commits", 40, alter("transaction.commit", "set plain", "last_write(hold, data, done, talk.elapsed)"),
        shows="no effects"),
    "a commit that does not complete its event": Mutation(
        "events-commits", 40,
        alter("transaction.commit", "set last", "last_write(holds[-1], data, None, talk.elapsed)"),
        shows="false success"),
    "a window reckoned by the monotonic clock": Mutation(
        _EVENTS, 60, put(lease.ServerTime, "after_freezes", lease.ServerTime.now), shows="window"),
    "a time to live that is over before the lease": Mutation(
        "reaped-at-once", 60, alter("Update.ttl", "argument expiry_ms", "expiry_ms // 1000 - 5")),
    "an event kept no longer than its lock": Mutation(
        "reaped-events", 60, _NO_COMPLETION_IN_TTL, shows=("erased", "done again")),
    "a time to live that does not count the completion": Mutation(_EVENTS, 20, _NO_COMPLETION_IN_TTL, shows="ttl"),
    # Rows that are erased, and settings that change
    "a row erased whether or not it is as it was read": Mutation(
        "erased erased-events erased-permits", 300, alter("erase.delete", "set own", '["absent"]'),
        shows=("erased a holder", "robbed")),
    "a row that is held counted as nobody's": Mutation(
        "erased erased-permits", 60, alter("refuse_used", "if is_released", "False"),
        shows=("erased a holder", "robbed")),
    "what an older result was stored by, believed of a newer one": Mutation(
        "events-versions", 100, alter("Row._result_made", "term until", "True"), shows="false result"),
    "a replacement that leaves out by what a result was stored": Mutation(
        "events-versions", 200, alter("requests.replace", "argument RESULT_OF", "schema.data"), shows="false result"),
    "more permits taken than one's own number, not noticed": Mutation(
        "permits-mixed", 60, alter("Acquisition.see", "if free", "False"), shows="silent"),
    # Events that are forgotten
    "a completion forgotten without its grant's token": Mutation(
        _FORGETS, 400, alter("erasure", "set token", ""), shows="forgot a later one"),
    "a completion forgotten without its time": Mutation(
        _FORGETS, 60, alter("erasure", "set completed_until", ""), shows="forgot nothing"),
    "a completion forgotten by its key": Mutation(
        _FORGETS, 60, alter("erasure", "call expect token", 'update.require("attribute_exists(#key)")'),
        shows=("forgot a later one", "forgot a holder")),
    "any result forgotten for one": Mutation(
        "forgets-result", 60, alter("Forgetting.is_of_meant", "line return stored", "return stored is not None"),
        shows="forgot another result"),
    "a result forgotten without its condition": Mutation(
        "forgets-result", 60, alter("erasure", "if of_result", "False"), shows="forgot another result",
        redundant="the token and the completion's time are those of the row that was compared. The condition says what "
        "is meant, also for a row that another program wrote"),
    "one result forgotten by its key": Mutation(
        "forgets-result", 200, alter("erasure", "call expect token", 'update.require("attribute_exists(#key)")'),
        alter("erasure", "if of_result", "False"), shows=("forgot another result", "forgot a holder")),
    "an event in progress counted as not done": Mutation(
        _FORGETS, 60, alter("Forgetting.run", "line pause", "return False"), shows="stale"),
    "a dead holder counted as not done": Mutation(
        _FORGETS, 1500, alter("Forgetting.run", "line judge", "return False"), shows="stale"),
    "a dead holder taken over by forget regardless of its completion": Mutation(
        "forgets-take-over", 400, alter("Forgetting.run", "set of_event", ""), shows="ttl"),
    "a row replaced regardless of its completion": Mutation(
        "forgets-calm forgets", 400, _without("replace", _any, "completedUntil"), shows="stale"),
    # The queue
    "a first claim that does not ask whether somebody waits": Mutation(
        "queue-calm queue", 100, put(requests, "NOBODY_WAITS", None), shows=_ORDER),
    "a claim from any ticket": Mutation("queue-calm queue", 60, _FROM_ANY_TICKET, shows=_ORDER),
    "a claim from the first ticket that leaves it there": Mutation(
        "queue-calm", 20, alter("QueueCondition.write", "line removes", ""),
        alter("Acquisition.run", "call leave", "()"), shows=("extra leave", "ticket left")),
    "expired tickets ahead that a claim leaves": Mutation(
        "queue-dying queue-idle", 40, alter("Queue.condition_from", "operand left", "[*left, *(number for number, each "
        "in enumerate(waiters[:index]) if not counts(each, self.acquisition.date))]"), shows="dead kept",
    ),
    "a ticket given up that is not removed": Mutation(
        "queue-calm queue-leaving", 60, alter("Acquisition.abandon", "call leave", "()"), shows="ticket left"),
    "a ticket given up by a single send": Mutation(
        "queue-calm queue-leaving", 200, wrap(queue.Queue, "leave", _one_send), shows="ticket left"),
    "a ticket left in the row of a grant": Mutation(
        "queue-late queue-calm queue-beside", 120, alter("Acquisition.run", "call leave", "()"), shows="ticket left",
        redundant="a claim removes the ticket it comes from, so only a lost or late request leaves one, and such a "
        "ticket expires like that of any who died"),
    "a ticket taken at the front": Mutation(
        "queue-calm queue", 60,
        alter("take_ticket", "argument list_append", '"#waiters = list_append(:new, if_not_exists(#waiters, :none))"'),
        shows=_ORDER),
    "a ticket taken without a limit": Mutation(
        "queue-full queue-idle", 60, put(queue, "MOST_WAITERS", 10**6), put(tickets, "MOST_WAITERS", 10**6),
        shows="crowd"),
    "a ticket taken again by a copy of its append": Mutation(
        "queue-late", 400, alter("take_ticket", "line contains", ""), shows="crowd"),
    "no patience with those ahead": Mutation("queue-calm queue", 60, put(queue, "PATIENCE", 0.0), shows="thrown out"),
    "patience for a second": Mutation("queue-calm queue-beside", 400, put(queue, "PATIENCE", 1.0), shows="thrown out"),
    "patience of a quarter of a second more for each further one ahead": Mutation(
        "queue-dying", 400, _A_QUARTER_MORE, shows=_ORDER),
    "the dead never passed": Mutation("queue-idle queue-dying", 60, _NEVER_PASSED, shows=("starved", "stuck")),
    "patience that goes on over other grants": Mutation(
        "queue-pollers-many", 60, alter("Patience.note", "start", 'if grant is None:\n    return\ngrant = "any"'),
        shows=_ORDER, redundant="whoever is first and alive takes the lock before the next one has often seen it free. "
        "tests/core/test_queue.py shows it"),
    "patience that goes on though fewer are ahead": Mutation(
        "queue-expiring", 200, alter("Patience.note", "start", "ahead = 0"), shows=_ORDER),
    "patience that goes on over looks without an answer": Mutation(
        "queue-throttled queue-slow", 100, put(queue.Queue, "_look_once", lambda self: self.acquisition.read()),
        shows=("impatient", "thrown out")),
    "all those ahead removed once the first one is dead": Mutation(
        "queue-freezes queue-deaths queue-throttled", 400,
        alter("Queue.condition_from", "operand left", "left if self._is_last() else ()"), shows="thrown out"),
    "a last try that removes whoever is ahead": Mutation(
        "queue-calm queue-brief", 100, alter("Queue.condition_from", "operand left", "() if self._is_last() else left"),
        shows="thrown out"),
    "tickets that are never renewed": Mutation(
        "queue-calm queue", 100, put(queue.Queue, "_renew", lambda self, mine, living: None), shows=_ORDER),
    "tickets renewed when hardly anything is left": Mutation(
        "queue-calm queue", 200, put(queue, "RENEWED", 0.0), shows=_ORDER),
    "a renewal by index, over whoever is there": Mutation(
        "queue-late queue queue-leaving", 400,
        alter("renew_ticket", "call require old", 'update.require(f"attribute_exists(#waiters[{index}])")'),
        alter("renew_ticket", "line contains", ""), shows=("thrown out", "moved", "came back to wait")),
    "a late copy of a renewal that brings a ticket back": Mutation(
        "queue-late", 400, alter("renew_ticket", "call require old", 'update.require("attribute_exists(#waiters)")'),
        shows="came back to wait"),
    "tickets that expire by the waiter's own clock": Mutation(
        "queue queue-calm", 100, alter("Queue._living", "set date", "int(self.acquisition.talk.reading.wall)"),
        shows=_ORDER),
    "tickets dated by the waiter's own clock": Mutation(
        "queue queue-calm", 200,
        put(queue.Queue, "_expiry", lambda self, living: int(self.acquisition.talk.reading.wall) + 20), shows=_ORDER),
    "a ticket that counts however far ahead it is dated": Mutation(
        "queue-idle", 200,
        put(queue, "counts", lambda place, date: date is None or date <= (row.ticket_expiry(place) or 0)),
        _NEVER_PASSED, shows=("starved", "stuck")),
    "a ticket written over one that counts": Mutation(
        "queue-full", 200, alter("Queue._take_ticket", "line counts", "if index:\n    index -= 1"), shows="thrown out"),
    "no last try": Mutation(
        "queue-idle", 100, alter("Queue._write", "start", "if self._is_last():\n    return None"), shows="refused"),
    "a try like the last one at each look": Mutation(
        "queue-calm queue", 60, alter("Queue.condition", "if _is_last", "False"), shows=_ORDER),
    "naps longer than others have patience": Mutation(
        "queue-calm queue", 400, put(queue.Pace, "nap", lambda *_: 6.0), shows=("thrown out", "starved")),
    "errors slept off for longer than others have patience": Mutation(
        "queue-late queue-slow", 120, alter("Queue._pause", "argument longest", "60.0"),
        shows=("thrown out", "starved"),
        redundant="a nap of its own refresh_period follows only a decision that failed, which is a fault"),
    "a throttled waiter with a ticket that sleeps like those outside": Mutation(
        "queue-throttled queue-throttled-full", 100, alter("Queue._pause", "set outside throttled", "throttled or ..."),
        shows=("thrown out", "starved"),
        redundant="whoever had no answer to its last look may be passed. tests/core/test_queue.py shows the nap"),
    "a throttled claim that certainly did not land, though an earlier send of it may": Mutation(
        "queue-throttled-full", 400,
        alter("Conversation.exchange", "line is_ambiguous", "unclear = is_ambiguous(outcome)"),
        shows=("left behind", "starved", "stuck", "refused")),
    "a last try that is not sent again when it is throttled": Mutation(
        "queue-throttled queue-throttled-full", 100,
        alter("Acquisition.exchange", "set retry has_failed", "self.has_failed"), shows=("refused", "starved", "stuck"),
        redundant="a wait may end without an answer to its last try. tests/core/test_queue.py shows it sent again"),
    "an append whose answer was lost forgotten": Mutation(
        "queue-late queue-slow", 120, alter("Queue._ask", "start", "self._name = self._asked = self._names.clear()"),
        shows=("ticket left", "crowd"),
        redundant="the ticket that landed is that of one who died: 3 s for those behind it"),
    "a correction that waits in the queue": Mutation(
        "queue-late queue", 120, alter("Queue._write", "call _claim -condition",
        "self._claim(Take(step.version, step.row, requests.NOBODY_WAITS if waiters else None))"),
        redundant="a version that waits for its correction is nobody's: the row is locked until its expiry, no longer"),
    "a queue that goes on though waiters cannot be read": Mutation(
        "queue-forged", 100, wrap(queue.Queue, "_waiters", lambda original: lambda self: original(self) or ()),
        shows=("escaped", "starved", "refused", "stuck")),
    "a row made by taking a ticket": Mutation(
        "queue-foreign", 1200, alter("take_ticket", "line attribute_exists", ""), shows="no version"),
    # Semaphores
    "a permit claimed though there is an entry of mine": Mutation(
        "permits-late permits-corrections", 400, alter("PermitUpdate.take", "line mine attribute_not_exists", ""),
        shows=(*_TOO_MANY, "token", "left behind", "release")),
    "a size that counts for nothing if dead permits are replaced": Mutation(
        "permits-mixed", 2000, alter("PermitUpdate.take", "line size -dead", "if not dead:\n    ..."),
        alter("PermitUpdate.take", "line require taken", "if not dead:\n    ..."), shows=_TOO_MANY),
    "a size that does not count at all": Mutation(
        "permits-calm permits", 40, alter("PermitUpdate.take", "operand permits", "1 + ..."), shows=_TOO_MANY),
    "dead permits replaced whether or not they are as observed": Mutation(
        "permits-dying permits-freezes permits-late", 400, alter("PermitUpdate.take", "line require entry", ""),
        shows=_TOO_MANY),
    "a permit's expiry judged by the caller's clock": Mutation(
        "permits permits-slow", 40, alter("may_take_over", "term date None", ""),
        alter("may_take_over", "operand date 1000", "received.wall * 1000"),
        alter("may_take_over", "return is_over", "False")),
    "a permit committed and released without its token": Mutation(
        "permits-zombies permits-commits", 2000, _changed("release", _whatever_token, lambda place, *_, token=None,
        **more: (place.permits and token) is not None), shows=("late write", "release", *_TOO_MANY)),
    "a permit renewed without its token": Mutation(
        "permits-late permits-outages", 400, _weaker("renew", lambda part: " = " in part, _is_permit),
        redundant="while my validity lasts, the entry under my nonce is the one that I was granted. After that the "
        "handle is lost, and a renewal that lands late keeps an entry of nobody until its expiry"),
    "a permit's renewal that may turn the expiry back": Mutation(
        "permits-late permits-shortened", 400, _weaker("renew", lambda part: " < " in part, _is_permit),
        shows=_TOO_MANY),
    "a permit corrected whatever its version": Mutation(
        "permits-corrections", 2000, _weaker("claim", _any, _is_permit_correction),
        shows=(*_TOO_MANY, "token", "left behind", "maps")),
    "a semaphore begun over one that is there": Mutation(
        "permits permits-late", 40, _weaker("claim", _any, _is_first_permit), shows=(*_TOO_MANY, "token")),
    "maps removed once they are empty": Mutation(
        "permits-calm permits", 40, wrap(keep, "release", _tidying), shows=("escaped", "maps", "stuck", "token")),
    "a permit held on through an outage": Mutation(
        "permits-outages", 400, alter("Hold.__init__", "term keeps", ""), shows=(*_TOO_MANY, "came back"),
        redundant="a copy of the claim that lands after the entry was replaced has another token, and the renewal "
        "requires mine. Only a row that was deleted could bring the token back"),
    "a row that is kept no longer than its last writer's permit": Mutation(
        "permits permits-calm", 40, alter("PermitUpdate.ttl", "argument KEPT None", "0"), shows="ttl"),
    "a free permit taken from any ticket": Mutation(
        "permits-queue-calm permits-queue", 100, _FROM_ANY_TICKET, shows=_ORDER),
    "a claim from a ticket that leaves nothing to those ahead": Mutation(
        "permits-queue-beside permits-queue", 1000, alter("Queue.condition_from", "set behind", "0"), shows=_ORDER),
    "the dead that wait for a semaphore never passed": Mutation(
        "permits-queue-idle", 100, _NEVER_PASSED, shows=("starved", "stuck")),
    "patience with those who wait for a semaphore that goes on over other grants": Mutation(
        "permits-queue-dying permits-queue-pollers", 60, _BLIND, shows=_ORDER,
        redundant="whoever is alive ahead passes the dead first one long before, and the patience begins anew. "
        "tests/core/test_permits.py shows it"),
    "little patience with those who wait for a semaphore, over other grants": Mutation(
        "permits-queue-dying permits-queue-pollers", 200, _BLIND, _A_QUARTER_MORE, shows=_ORDER),
    # Permits of more than one
    "a release that takes off one permit, whatever it had": Mutation(
        "permits-heavy permits-calm", 40,
        alter("PermitUpdate.end", "line taken", "self.sets.append('#taken = #taken - :one')"), shows="maps"),
    "a release that leaves what it takes in its map": Mutation(
        "permits-heavy permits-calm", 40, alter("PermitUpdate.end", "line x removes", ""), shows="maps"),
    "a claim that does not count what it takes": Mutation(
        "permits-heavy permits-calm", 40, alter("PermitUpdate.take", "argument take freed", "0"), shows="maps"),
    "a claim that does not say what it takes": Mutation(
        "permits-heavy permits-calm", 40, alter("PermitUpdate.take", "line if take 1 -row -format", ""), shows="maps"),
    "a claim that asks for one permit, whatever it takes": Mutation(
        "permits-heavy permits-calm", 40, alter("PermitRow.free", "operand sum", "... - self.take + 1"),
        alter("PermitUpdate.take", "operand permits", "... + place.take - 1"), shows=_TOO_MANY),
    "a sum that does not count at all": Mutation(
        "permits-heavy permits-calm", 60, _without("claim", _is_permit, "permitsTaken"), shows=_TOO_MANY),
    "what the dead had not given back": Mutation(
        "permits-dying permits-heavy", 40, alter("PermitUpdate.take", "set freed", "0"), shows=("maps", "starved")),
    "each of the dead counted as one permit": Mutation(
        "permits-dying permits-heavy", 60, alter("PermitUpdate.take", "set freed", "len(dead)"), shows="maps"),
    "what a dead hold took left in its map": Mutation(
        "permits-dying permits-heavy", 60, alter("PermitUpdate.take", "line x of_hold", "pass"), shows="maps"),
    "a row that changes over while others hold": Mutation(
        "permits-beside-old permits-late", 400, alter("PermitUpdate.take", "line size dead", ""),
        shows=("format", *_TOO_MANY)),
    "one who takes more let into a row that does not count weights": Mutation(
        "permits-beside-old permits-heavy", 60, alter("PermitRow.free", "if weighed", "False"),
        alter("PermitUpdate.take", "set format take", "place.format or SEAL"), shows=("maps", "format", *_TOO_MANY)),
    "a claim without weights in whatever row": Mutation(
        "permits-beside-old", 100,
        _weaker("claim", lambda part: ":is_version" in part, lambda place, grant, *_, **more: grant.format == row.SEAL),
        shows=("maps", *_TOO_MANY)),
    "a release that does not look whether the row counts weights": Mutation(
        "permit-holds permit-holds-zombies-released", 60, alter("PermitUpdate.end", "if format", "False"),
        shows="maps"),
    "a claim given up as if in the row that was seen last": Mutation(
        "permits-beside-given-up", 400, alter("Acquisition.release_of", "set format sent", "None"),
        shows=("maps", "left behind")),
    "a holder that resumes a hold of less than it asks for": Mutation(
        "permit-holds permit-holds-zombies-released", 100, alter("HolderAcquisition.see", "if own_take", "False"),
        shows=_TOO_MANY),
    "those ahead counted, whatever they take": Mutation(
        "permits-heavy permits-queue-calm", 200, alter("Queue.condition", "set needs need", "[1 for _ in living]"),
        shows=(*_ORDER, "passed")),
    "a ticket that does not say what its owner takes": Mutation(
        "permits-heavy permits-queue-calm", 200, alter("make_ticket", "if take", "False"), shows=(*_ORDER, "passed")),
    "patience with one who waits for five while one is free": Mutation(
        "permits-queue-calm permits-heavy", 200, alter("PermitRow.is_free_for_all", "operand need", "1"), shows=_ORDER),
    "who passes the dead leaves nothing to the others ahead": Mutation(
        "permits-queue-dying permits-queue-pollers", 600, alter("Queue.condition", "set behind max", "0"),
        shows=(*_ORDER, "passed")),
    "a caller without a ticket that passes one who waits for more": Mutation(
        "permits-pollers", 60, alter("PermitRow.is_awaited", "return max", "False"), shows="passed"),
    "one who takes more that passes those who wait for one": Mutation(
        "permits-pollers permits-heavy", 200, alter("PermitRow.is_awaited", "argument take", "1"), shows="passed"),
    "a first claim that does not ask whether one waits for more": Mutation(
        "permits-pollers", 60, alter("Acquisition.first", "set queue", "None"), shows="passed"),
    "a last try that passes one who waits for more": Mutation(
        "permits-pollers permits-heavy", 200, alter("Queue._write", "term is_awaited last", "last"), shows="passed"),
    "one who takes more let in beside others where weights do not count": Mutation(
        "permits-beside-old permits-pollers permits-heavy", 300, alter("PermitRow.need", "if weighed", "True"),
        shows=(*_ORDER, "passed", "starved")),
    # The assumptions of docs/safety-assumptions.md: breaking them shows
    "front ends further apart than half a second": Mutation("slow-clocks", 200, put(Settings, "front_ends", 1.5)),
    "clocks that drift more than DRIFT": Mutation("long", 100, put(Settings, "drift", 3e6 * lease.DRIFT)),
    "a step back and a freeze of the other clocks between two looks": Mutation(
        "freezes no-heartbeat", 1500, put(Settings, "unwatched", True)),
    "a freeze that stops every clock": Mutation(
        "freezes no-heartbeat", 100, alter(clocks.Clocks.stop, "start", "which = set(ALL)"),
        alter(clocks.Clocks.stop, "if _spoiled", "False")),
    "a monotonic clock that jumps ahead": Mutation("mixed no-heartbeat", 40, wrap(clocks.Clocks, "read", _jumping)),
    "a time of DynamoDB that jumps ahead": Mutation(
        "mixed no-heartbeat", 60, _before_each_request(_step_ahead), wrap(network.Network, "_date", _date_ahead)),
    "rows deleted while they are held": Mutation("mixed calm", 40, _before_each_request(_delete)),
    "a table set back to an earlier state": Mutation("mixed calm", 40, _before_each_request(_restore)),
    "a table with a copy in another Region": Mutation("mixed calm", 20, _before_each_request(_copy)),
    # Holds that outlive an invocation
    "attempts that all bear the owner of the hold": Mutation("holds-zombies-calm holds-zombies-late", 400, _OWN_NAME),
    "attempts under one owner, and a token that rises": Mutation(
        "holds-zombies-calm", 40, _OWN_NAME,
        alter("requests.renew", "if next_token", '... or (seen is not None and not grant.owner.endswith("/"))'),
        alter("_is_of_hold", "term token", "row.token in (token, token + 1)"), shows="revived"),
    "what an attempt hands over parked under the first handle's name": Mutation(
        "holds-zombies holds-zombies-late", 400, put(handover, "parked", row.base_of), shows=("zombie", *_UNSAFE)),
    "a hold known by its token or a higher one": Mutation(
        "holds-claims", 400, _changed("renew", _at_least, _is_resume),
        _changed("release", _at_least, _is_release_by_string),
        alter("_is_of_hold", "term token", "(row.token or 0) >= token"), shows=("revived", *_UNSAFE)),
    "a resume without the owner seen": Mutation(
        "holds-zombies-late holds-late", 600, _without("renew", _is_resume, "ownerName")),
    "a resume without the token": Mutation(
        "holds-adopted", 400, _without("renew", _is_resume, "fencingToken"), shows=("revived", *_UNSAFE)),
    "a resume of what is released": Mutation(
        "holds-late holds-zombies-late", 150, _without("renew", _is_resume, "isReleased"),
        redundant="isReleased stays where it is, so the row stays free, and the reply shows that: nobody is granted "
        "anything"),
    "a resume that may turn the expiry back": Mutation(
        "holds-late holds-zombies-late", 600, _without("renew", _is_resume, "<"), shows=("expiry", *_UNSAFE)),
    "any row of the hold counted as a grant": Mutation("holds-zombies holds-twice", 400, _ANY_ROW),
    "the validity of a resume counted from its reply": Mutation(
        "holds-slow", 1500, alter("resume._granted", "operand started", "now")),
    "a resume by a wall clock that may be fast": Mutation(
        "holds-clocks", 60, alter("resume.resume", "term permits is_known", "False"),
        alter("resume.resume", "if is_known", "False"), shows="expiry"),
    "a resume that is given up and released": Mutation(
        "holds-late holds", 60, wrap(resume, "resume", _given_back), shows="gave back"),
    "a resume that gives up at the first other name": Mutation(
        "holds holds-calm", 60, put(resume, "STEPS", 1), shows="refused"),
    "who took a hold counted as seen since before its resume": Mutation("holds-slow", 1500, _ASIDE),
    "a resumed handle valid beyond its invocation": Mutation(
        "holds-calm", 60, alter("resume._granted", "line valid_until lease_end", ""), shows="deadline"),
    "an unclear release read as done beside another attempt": Mutation(
        "holds-zombies-late holds-twice", 1500, put(keep, "base_of", lambda owner: owner), shows="release"),
    "a release by string that asks for the first name only": Mutation(
        "holds holds-calm", 60, alter("resume.release", "if elapsed until", "True"),
        alter("resume.release", "line break", "return False"), shows="release"),
    "a release by string without the token": Mutation(
        "holds-adopted holds-claims", 1500, _without("release", _is_release_by_string, "fencingToken")),
    "a release by string without the owner": Mutation(
        "holds-foreign", 1500, _without("release", _is_release_by_string, "ownerName")),
    "an adopter of a parked hold under the first handle's name": Mutation(
        "holds-zombies-adopted", 1500, alter("Adoption.see", "line seen", "...\nself.wanted.owner = self.base"),
        alter("Adoption.see", "if is_attempt", "False"), redundant="whatever the first handle still sends has the old "
        "token, or the version of a claim of its own. The rule keeps a name for each handle"),
    "an adoption of what an attempt has": Mutation(
        "holds-zombies holds-adopted", 150, alter("Adoption.see", "line place wanted", _ADOPTS_ATTEMPT),
        redundant="it would fence the attempt as a resume does. The rule keeps a string that comes twice from ending "
        "the attempt that has it"),
    # Rate limits (core/rate.py)
    "a start by the wall clock alone": Mutation(
        "rates-clocks", 40, alter("Start.now", "operand wall _APART", "self.talk.reading.wall"), shows=_OFTEN),
    "a time of DynamoDB taken as known after a freeze": Mutation(
        "rates-freezes rates-clocks", 200, alter("Start.is_time_known", "term _APART", "True"), shows=_OFTEN,
        redundant="now is the low bound then, and lateness counts from before the request that brought it (rule 4): "
        "the slot is given back. The rule saves that round"),
    "a time that may be far ahead after a read": Mutation(
        "rates-stepped rates-clocks", 150, alter("Start.now", "if _APART", "False"), shows=_OFTEN),
    "an old Date trusted": Mutation(
        "rates-one-a-day rates-clocks", 100, alter("Start.is_time_known", "term _OLD", "True"), shows=_OFTEN,
        redundant="clocks drift by 0.9 ms in a second here, which patience covers while Dates come with each start"),
    "an idle take while another start is due": Mutation(
        "rates-calm", 20, alter("Start.request", "argument free sealed",
        'f"({free} OR {sealed} AND (#next_at <= :now OR #next_at > :now))"'), shows=_OFTEN),
    "a busy take of the unused past": Mutation(
        "rates-calm", 40,
        alter("Start.request", "argument next_at now -free", '"(#next_at > :now OR #next_at <= :now)"'), shows=_OFTEN),
    "a busy take however long it has to wait": Mutation(
        "rates-late rates-clocks", 40,
        alter("Start.request", "argument next_at latest", '"(#next_at <= :latest OR #next_at > :latest)"'),
        shows=("far ahead", "ttl")),
    "a start before it is due": Mutation("rates-calm", 20, alter("Start.is_in_time", "if left", "True"), shows=_OFTEN),
    "a start that is due by elapsed time": Mutation(
        "rates-stepped rates-late", 400,
        alter("Start.is_in_time", "operand reading sent", "self.talk.elapsed - sent.elapsed"), shows=_OFTEN),
    "a start that is due by the time since its answer": Mutation(
        "rates-slow rates-rare", 200, alter("Start.slot", "line return", "sent = self.talk.reading\n..."), shows=_OFTEN,
        redundant="lateness counts from the send or before it (rule 4), so a start that waits for too long gives its "
        "slot back and takes another one"),
    "a start however late it is": Mutation(
        "rates-freezes rates-rare", 100, alter("Start.is_in_time", "operand patience", "1e9"), shows=_OFTEN),
    "lateness from the send, though now is of a read before a freeze": Mutation(
        "rates-first-read", 100, alter("Start.take_start", "operand behind", ""), shows=_OFTEN),
    "lateness by the monotonic clock": Mutation(
        "rates-freezes", 200,
        alter("Start.is_in_time", "operand elapsed since", "self.talk.reading.monotonic - sent.monotonic"),
        shows=_OFTEN),
    "a start given back without its name": Mutation(
        "rates-rare rates-late rates-stacked", 60, alter("Start.give_back", "set last_take", ""), shows=_OFTEN),
    "a start given back by the number that it left": Mutation(
        "rates-rare rates-late", 300,
        alter("Start.give_back", "call expect",
        'update.expect(version={"S": RATE}, released=None, '
        'next_at={"N": str(self.talk.memory.rates[self.place.where][0])})'),
        shows=_OFTEN,
    ),
    "a give-back that leaves the name of the last take": Mutation(
        "rates-rare", 300, alter("Start.give_back", "line removes", ""), shows=_OFTEN),
    "a take that was given back counted as a grant": Mutation(
        "rates-rare", 150, alter("Start.give_back", "set sent", ""), shows=_OFTEN,
        redundant="it takes a copy of the take that lands after its give-back, a refusal that shows it before others "
        "come, and after the start a copy of the give-back, too"),
    "takes of one name": Mutation(
        "rates-late rates-rare", 300, alter("Start.take_start", "set name", "'the same'"), shows=_OFTEN),
    "several starts rounded down to whole microseconds each": Mutation(
        "rates-large", 20, alter("Limit.__init__", "set cost", "n * (micros // limit)"), shows=_OFTEN),
    "a burst beyond what nextAt may run ahead": Mutation(
        "rates-calm rates", 60, alter("Limit.__init__", "set room", "(burst + 2) * micros // limit"), shows=_OFTEN),
    "a row that goes while it is needed": Mutation("rates-calm", 20, put(rate, "KEPT", 60), shows="ttl"),
    # Permits that outlive an invocation
    "a permit claimed though its hold has a token": Mutation(
        "permit-holds-claims permit-holds-late", 150, alter("PermitUpdate.take", "line mine attribute_not_exists",
        'self.require(f"attribute_not_exists({self.entry(grant.owner)})")'), shows=("maps", "zombie", *_TOO_MANY)),
    "a permit released under its token alone": Mutation(
        "permit-holds-zombies-calm permit-holds-zombies-late", 60,
        alter("PermitUpdate.mine", "call require attribute_exists", "self.entry(owner)"), shows=("maps", "zombie")),
    "a permit resumed without the entry seen": Mutation(
        "permit-holds-zombies permit-holds-twice", 60, _weaker("renew", lambda part: "#p." in part, _is_permit_resume),
        shows=("maps", *_TOO_MANY)),
    "a permit resumed without the token of its hold": Mutation(
        "permit-holds-twice permit-holds-zombies-calm", 200,
        _weaker("renew", lambda part: "#t." in part, _is_permit_resume),
        shows=("expiry", "revived", "maps", *_TOO_MANY)),
    "a permit's resume or renewal that may turn the expiry back": Mutation(
        "permit-holds-late permit-holds-zombies-late", 400, alter("PermitUpdate.rise", "line require", ""),
        shows=("expiry", *_TOO_MANY)),
    "attempts of a permit that all bear the name of its hold": Mutation(
        "permit-holds-zombies-calm permit-holds-zombies-late", 400, _OWN_NAME, shows=("zombie", *_TOO_MANY)),
    "a permit that an attempt hands over parked under the first handle's name": Mutation(
        "permit-holds-zombies permit-holds-zombies-late", 400, put(handover, "parked", row.base_of),
        shows=("zombie", *_TOO_MANY)),
    "a holder that claims under another name each time": Mutation(
        "permit-holds-twice permit-holds-dying", 150,
        put(holds, "name_of", lambda _: f"{random.getrandbits(128):032x}"), shows="two permits"),
    "any entry of the hold counted as a grant": Mutation(
        "permit-holds-zombies permit-holds-twice", 400, _ANY_ROW, shows=_TOO_MANY),
    "a permit adopted without a new token": Mutation(
        "permit-holds-adopted permit-holds-zombies-adopted", 150, alter("requests.renew", "if next_token", "False"),
        shows=("revived", "adopted twice", *_TOO_MANY)),
    "the token of a dead permit left in its map": Mutation(
        "permit-holds-dying", 40, alter("PermitUpdate.take", "argument t of_hold", ""), shows="maps"),
    "a dead entry that takes the token of its attempt along": Mutation(
        "permit-holds-dying", 40, alter("PermitUpdate.take", "call hold_of", "attempt"), shows="maps"),
    "the token of a released permit left in its map": Mutation(
        "permit-holds", 40, alter("PermitUpdate.end", "argument t mine", ""), shows="maps"),
    "the entry seen left beside that of the attempt that resumes it": Mutation(
        "permit-holds", 40, alter("PermitUpdate.hold", "if seen", "False"), shows="maps"),
    "a permit released by string that its call does not count as its own": Mutation(
        "permit-holds-late permit-holds-zombies-released", 400, alter("resume.release", "if elapsed until", "True"),
        alter("resume.release", "line break", "return False"), shows="release"),
    "the validity of a permit's resume counted from its reply": Mutation(
        "permit-holds-slow", 1500, alter("resume._granted", "operand started", "now")),
    "a permit's row kept for two days beside leases of weeks": Mutation(
        "permit-holds-weeks", 40, put(permits, "KEPT", 2 * 86_400), shows=("ttl", *_UNSAFE)),
}  # fmt: skip
