"""Writes the files of docs/row-format anew: `python -m tests.row_format.record`.

What is asked for stands in the files themselves: the steps of a scenario, and the texts and times of values.json. What
is sent is the shipped code's, and the answers are those of the table in memory; tests compare them with a real engine.
A new scenario is written into its file without `nonces`, and its steps without `exchanges`, `outcome` and `row`.
Whoever runs this after a change of the protocol reads the difference: it is what clients in other languages have to
follow.
"""

import json
from types import SimpleNamespace
from typing import Any

from lambda_lock.client.event_results import result_parts
from lambda_lock.core.lease import ClockReading, Observation, may_take_over, validity
from lambda_lock.core.outcome import ConditionFailed
from lambda_lock.core.permits import read_entry
from lambda_lock.core.row import counts, expiry_of, ticket_expiry, ticket_take
from lambda_lock.core.sleepers import read_sleeper
from lambda_lock.keys.arguments import scoped
from lambda_lock.testing.table import Table
from tests.core.driver import NOW

from .play import FOLDER, REFUSED, SCHEMAS, Json, Player, load, place_of

FORMAT = "1.1"
FILES = ("locks", "events", "permits", "weights", "waiting", "holds", "sleeping")  # of scenarios
_WIDTH = 120
_NONCES = [f"{digit:x}" * 32 for digit in range(1, 10)]
_ENTRY, _RESULT = ("version", "expiry_ms", "lease_ms", "prefix"), ("result", "payload_hash")
_RECORDED = {"exchanges", "outcome", "row"}  # of a step


def recorded(scenario: Json) -> Json:
    """The scenario with its exchanges, outcomes and the row that is left, whatever it had of these."""
    asked = {**scenario, "nonces": _NONCES}
    schema = SCHEMAS[asked["schema"]]
    table = Table(schema.partition_key, schema.sort_key)
    key = table.key(place_of(asked).item_key, False)

    def write(item: Json | None) -> None:
        table.store(key, item)

    def answer(exchange: Json, step: Json) -> Json:
        date = int(NOW + player.now)
        try:
            item = table.apply(exchange["operation"], exchange["request"])
        except ConditionFailed as refused:
            shown = {} if refused.item is None else {"Item": refused.item}
            reply = {"__type": REFUSED, "message": "The conditional request failed", **shown}
            return exchange | {"status": 400, "date": date, "reply": reply}
        if len(player.exchanges) < step.get("lost", 0):
            return exchange | {"status": None, "date": None, "reply": None}
        name = "Item" if exchange["operation"] == "GetItem" else "Attributes"
        return exchange | {"status": 200, "date": date, "reply": {} if item is None else {name: item}}

    if asked["before"] is not None:
        write(asked["before"])
    player = Player(asked, answer, write)
    steps = []
    for step in scenario["steps"]:
        step = {name: value for name, value in step.items() if name not in _RECORDED}
        steps.append(step | player.played(step) | {"row": next(iter(table.items()), None)})
    written = json.dumps(steps)
    draws_in_vain = any(step["act"] == "look" for step in steps)  # for a claim that it does not send
    nonces = [nonce for nonce in _NONCES if draws_in_vain or nonce in written]
    return asked | {"nonces": nonces, "steps": steps}


def values() -> Json:
    """Texts and times, and what they mean."""
    given = load("values")
    return {
        "versions": [one | {"expiry_ms": expiry_of(one["version"])} for one in given["versions"]],
        "leases": [one | {"ms": SCHEMAS[one["schema"]].read_lease(one["value"])} for one in given["leases"]],
        "entries": [one | {"reads": _fields(read_entry({"S": one["entry"]}), *_ENTRY)} for one in given["entries"]],
        "tickets": [one | _ticket(one["ticket"], one["date"]) for one in given["tickets"]],
        "validity": [
            one | {"seconds": round(validity(one["lease_ms"], one["expiry_ms"], one["date"]), 6)}
            for one in given["validity"]
        ],
        "take_over": [one | {"allowed": _allowed(one)} for one in given["take_over"]],
        "event_keys": [one | {"stored": _stored(**one)} for one in given["event_keys"]],
        "sleepers": [one | {"reads": _sleeper(one["entry"])} for one in given["sleepers"]],
        "results": [one | dict(zip(_RESULT, result_parts(one["stored"]), strict=False)) for one in given["results"]],
    }


def _ticket(text: str, date: int) -> Json:
    return {"expires": ticket_expiry(text), "takes": ticket_take(text), "counts": counts(text, date)}


def _stored(scope: str, key: str, **_: str) -> str:
    return scoped(scope, key) if scope else key


def _sleeper(text: str) -> Json | None:
    sleeper = read_sleeper({"S": text})
    return None if sleeper is None else vars(sleeper)


def _fields(found: Any, *names: str) -> Json | None:
    return None if found is None else {name: getattr(found, name) for name in names}


def _allowed(look: Json) -> bool:
    row: Any = SimpleNamespace(version="v", expiry_ms=look["expiry_ms"])
    seen = Observation("v", look["lease_ms"], look["first_seen"]["monotonic"], look["first_seen"]["date"])
    now = look["now"]["monotonic"]
    return may_take_over(row, seen, ClockReading(now, now, 0.0), look["now"]["date"])


def files() -> dict[str, Json]:
    """What docs/row-format has to have, by the name of the file."""
    made = {name: {"format": FORMAT, "scenarios": list(map(recorded, load(name)["scenarios"]))} for name in FILES}
    return made | {"values": {"format": FORMAT, **values()}}


def text_of(value: Any, indent: int = 0) -> str:
    """JSON in which what fits into a line is on one."""
    text = json.dumps(value)
    if indent + len(text) <= _WIDTH or not isinstance(value, (dict, list)):
        return text
    pad, inner = " " * indent, " " * (indent + 1)
    if isinstance(value, list):
        parts = [text_of(entry, indent + 1) for entry in value]
    else:
        parts = [f"{json.dumps(name)}: {text_of(entry, indent + 1)}" for name, entry in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{pad}{closing}"


if __name__ == "__main__":
    for name, content in files().items():
        (FOLDER / f"{name}.json").write_text(text_of(content) + "\n")
