"""Plays the scenarios of docs/row-format with the shipped code: what it sends, and what it makes of the answers.

A scenario is data, and docs/row-format.md describes it. Its clock begins at NOW and moves by its steps alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from lambda_lock.core import acquire, forget, handover, keep, lease, requests, resume, sleepers, tickets
from lambda_lock.core.other_schemas import GO, PYTHON
from lambda_lock.core.outcome import ConditionFailed, Reply
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Entropy, Hold
from lambda_lock.core.queue import Queue
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.row import make_version
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import DuplicateEventError, LockFormatError, LockLostError, LockNotGrantedError, TransportError
from lambda_lock.observe.observer import package
from lambda_lock.waker.function import Calls, performed
from lambda_lock.waker.look import Look
from rig.engine import ROOT
from tests.core.driver import Driver

FOLDER = ROOT / "docs" / "row-format"
SCHEMAS = {"JAVA": JAVA, "GO": GO, "PYTHON": PYTHON}
REFUSED = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"

Json = dict[str, Any]
#: Gives a request its ``status``, ``date`` and ``reply``. Takes the request's exchange so far, and its step.
Answerer = Callable[[Json, Json], Json]
#: What another client writes: the item, or None for no item.
Writer = Callable[[Json | None], None]


def load(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def place_of(scenario: Json) -> Place:
    schema = SCHEMAS[scenario["schema"]]
    return Place("locks", schema, schema.partition_key, scenario["key"], schema.sort_key, schema.sort_key_value)


class GivenUp(Exception):
    """The caller gives up before the same request is sent again."""


_ENDS: dict[type[Exception], str] = {GivenUp: "given up", LockLostError: "lost", LockFormatError: "unreadable"}


class _Noted(Calls):
    """What a look of the waker does besides DynamoDB. Each call is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []
        self.messages: list[int] = []

    def call(self, kind: str, callback: str) -> None:
        self.called.append(callback)

    def put(self, place: Place, seconds: int) -> None:
        self.messages.append(seconds)


class Player(Driver):
    """Plays one scenario. Each of its clients has a memory of its own, and at most one lock."""

    def __init__(self, scenario: Json, answerer: Answerer, write: Writer) -> None:
        super().__init__(self.answered, trip=0.0)
        self.scenario = scenario
        self.answerer = answerer
        self.write = write
        nonces = iter(scenario["nonces"])
        self.entropy = Entropy(lambda: next(nonces), lambda: 0.5)
        self.memories: dict[str, ClientMemory] = {}
        self.holds: dict[str, Hold] = {}
        self.strings: dict[str, str] = {}
        self.step: Json = {}
        self.exchanges: list[Json] = []

    def play(self) -> list[Json]:
        """The exchanges and the outcome of each step."""
        return [self.played(step) for step in self.scenario["steps"]]

    def played(self, step: Json) -> Json:
        self.step, self.exchanges = step, []
        self.now, self.clock_ahead = max(self.now, step.get("at", 0.0)), step.get("clock_ahead", 0.0)
        if step["act"] == "another writes":
            self.write(step["item"])
            return {"exchanges": [], "outcome": {}}
        self.memory = self.memories.setdefault(step.get("client", ""), ClientMemory(10))
        act: Callable[[Json], Json] = getattr(self, step["act"].replace(" ", "_"))
        try:
            outcome = act(step)
        except LockNotGrantedError as error:
            outcome = {"not granted": {"holder": error.holder}}
        except DuplicateEventError as error:
            outcome = {"done": {"until": error.completed_until, "result": error.result}}
        except (GivenUp, LockLostError, LockFormatError) as error:
            outcome = {_ENDS[type(error)]: True}
        return {"exchanges": self.exchanges, "outcome": outcome}

    def answered(self, operation: str, request: Json) -> Any:
        now_ms = int(self.memory.server.now(self.reading()) * 1000)
        exchange = self.answerer({"now_ms": now_ms, "operation": operation, "request": request}, self.step)
        self.exchanges.append(exchange)
        if exchange["status"] is None:
            return TransportError(True, "no answer came")
        if exchange["status"] == 200:
            return Reply(exchange["reply"].get("Attributes") or exchange["reply"].get("Item"), exchange["date"])
        assert exchange["reply"]["__type"] == REFUSED
        return ConditionFailed(exchange["reply"].get("Item"), exchange["date"])

    # -- acts

    def place_wanted(self, step: Json, owner: str) -> Place:
        place = place_of(self.scenario)
        return PermitPlace(place, step["permits"], owner, step.get("take")) if "permits" in step else place

    def wanted_of(self, step: Json, owner: str) -> AcquireRequest:
        place = self.place_wanted(step, owner)
        return AcquireRequest(
            place,
            owner,
            step["lease_ms"],
            Content(step.get("data"), attributes=step.get("attributes"), ttl=step.get("ttl", 86_400)),
            window=step.get("window"),
            waits="wait" in step,
            wait_until=self.now + step.get("wait", 0.0),
            queue=Queue if "wait" in step else None,
            delete_on_release=step.get("delete_on_release", False) or place.schema.released is None,
        )

    def given(self, step: Json) -> handover.Handover:
        return handover.read_handover(self.strings[step["string"]], "locks")

    def held(self, step: Json) -> Hold:
        return self.holds[step.get("client", "")]

    def granted(self, step: Json, hold: Hold) -> Json:
        self.holds[step.get("client", "")] = hold
        valid_for = round(hold.valid_until - hold.since, 3)
        return {"granted": {"owner": hold.owner, "fencing_token": hold.token, "valid_for": valid_for}}

    def acquire(self, step: Json) -> Json:  # type: ignore[override]
        wanted = self.wanted_of(step, step["owner"])
        if step.get("given_up"):
            self.thrown[self.steps + 2] = GivenUp()  # the first step sends, the second waits
        return self.granted(step, self.run(acquire.acquire(wanted, self.talk())))

    def renew(self, step: Json) -> Json:  # type: ignore[override]
        hold, sent = self.held(step), self.now
        steps = keep.renew(hold, self.talk(), lease_ms=step.get("lease_ms"))
        if self.run(steps).renewed:
            return {"renewed": {"valid_for": round(hold.valid_until - sent, 3)}}
        return {"lost": hold.lost}

    def release(self, step: Json) -> Json:  # type: ignore[override]
        complete, result = "completed" in step, step.get("completed", {}).get("result")
        hold, data = self.held(step), step.get("data")
        return {"released": self.run(keep.release(hold, self.talk(), data=data, complete=complete, result=result))}

    def forget(self, step: Json) -> Json:
        return {"forgotten": self.run(forget.forget(self.wanted_of(step, step["owner"]), self.talk()))}

    def hand_over(self, step: Json) -> Json:
        string = self.run(handover.hand_over(self.held(step), self.talk(), lease_ms=step["lease_ms"]))
        self.strings[step["string"]] = string
        return {"handed over": string}

    def adopt(self, step: Json) -> Json:
        given = self.given(step)
        wanted = self.wanted_of(step | {"lease_ms": given.lease_ms}, given.owner)
        return self.granted(step, self.run(handover.adopt(wanted, given.token, self.talk())))

    def resume(self, step: Json) -> Json:
        given = self.given(step)
        wanted = self.wanted_of(step | {"lease_ms": given.lease_ms}, f"{given.owner}/{self.entropy.nonce()}")
        return self.granted(step, self.run(resume.resume(wanted, given.token, self.talk())))

    def release_by_string(self, step: Json) -> Json:
        given = self.given(step)
        place = self.place_wanted(step, given.owner)
        return {"released": self.run(resume.release(place, given.owner, given.token, self.talk()))}

    def read(self, step: Json) -> Json:
        return self.sent_alone(requests.read(place_of(self.scenario)))

    def take_a_ticket(self, step: Json) -> Json:
        return self.sent_alone(tickets.take_ticket(place_of(self.scenario), step["ticket"]))

    def renew_a_ticket(self, step: Json) -> Json:
        place = place_of(self.scenario)
        return self.sent_alone(tickets.renew_ticket(place, step["index"], step["ticket"], step["renewed"]))

    def return_a_ticket(self, step: Json) -> Json:
        return self.sent_alone(tickets.return_ticket(place_of(self.scenario), step["index"], step["ticket"]))

    def lie_down(self, step: Json) -> Json:
        permits, take = step.get("permits"), step.get("take")
        sleeper = sleepers.Sleeper(step["holder"], "task", step["callback"], permits, 86_400, take)
        return {"asleep": self.run(sleepers.lie_down(place_of(self.scenario), sleeper, self.talk()))}

    def get_up(self, step: Json) -> Json:
        goes, place = partial(sleepers.is_of, holder=step["holder"]), place_of(self.scenario)
        return {"was asleep": self.run(sleepers.remove(place, goes, self.talk()))}

    def look(self, step: Json) -> Json:
        noted, place = _Noted(), place_of(self.scenario)
        self.run(performed(Look(place, self.talk()).run(), noted, place, package))
        return {"called": noted.called, "looks again in": noted.messages}

    def sent_alone(self, request: requests.Request) -> Json:
        outcome = self.answered(*request)
        self.memory.server.note(outcome.date, self.reading(), self.reading())
        return {"carried out": isinstance(outcome, Reply)}

    def claim_with_tickets(self, step: Json) -> Json:
        wanted, now = self.wanted_of(step, step["owner"]), self.memory.server.now(self.reading())
        expiry_ms = lease.expiry_ms(now, step["lease_ms"])
        version = make_version(expiry_ms, self.entropy.nonce())
        grant = requests.Grant(step["owner"], version, step["lease_ms"], expiry_ms, int(now * 1000))
        condition = requests.QueueCondition(dict(enumerate(step["tickets"])))
        return self.sent_alone(requests.claim(wanted.place, grant, wanted.content, queue=condition))
