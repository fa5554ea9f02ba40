"""The specification of the row format: its vectors are what the shipped code does, and what a real engine answers."""

import itertools
import json
import re
from typing import Any

import pytest

from lambda_lock.core import lease, queue, row
from lambda_lock.core.schema import JAVA
from rig.engine import ROOT, Engine, request_headers

from . import record
from .play import SCHEMAS, Json, load, place_of

PAGE = (ROOT / "docs" / "row-format.md").read_text()
SCENARIOS = [pytest.param(one, id=f"{name}: {one['name']}") for name in record.FILES for one in load(name)["scenarios"]]
_numbers = itertools.count(1)
scenarios = pytest.mark.parametrize("scenario", SCENARIOS)


@scenarios
def test_the_shipped_code_sends_what_the_scenario_says_and_comes_to_its_outcome(scenario):
    """Otherwise `python -m tests.row_format.record` would write another one."""
    assert json.loads(record.text_of(record.recorded(scenario))) == scenario


class Table:
    """A table of an engine, and its answers to requests as they stand, refusals included."""

    def __init__(self, engine: Engine, scenario: Json) -> None:
        self.engine = engine
        self.place = place_of(scenario)
        self.name = engine.create_table(f"vectors-{next(_numbers)}", *self.place.key_names)

    def post(self, operation: str, request: Json) -> tuple[int, Json]:
        body = json.dumps(request | {"TableName": self.name})
        status, reply = self.engine._http("POST", "/", body, request_headers(operation), timeout=30)
        return status, json.loads(reply)

    def write(self, item: Json | None) -> None:
        self.post(*(("PutItem", {"Item": item}) if item else ("DeleteItem", {"Key": self.place.item_key})))

    def row(self) -> Any:
        return self.post("GetItem", {"Key": self.place.item_key, "ConsistentRead": True})[1].get("Item")


@scenarios
def test_a_real_engine_answers_as_the_scenario_says_and_leaves_its_rows(scenario, engine):
    table = Table(engine, scenario)
    try:
        if scenario["before"] is not None:
            table.write(scenario["before"])
        for step in scenario["steps"]:
            if step["act"] == "another writes":
                table.write(step["item"])
            for exchange in step["exchanges"]:
                status, reply = table.post(exchange["operation"], exchange["request"])
                if exchange["status"] is None:  # carried out, but its answer is lost
                    assert status == 200
                    continue
                assert status == exchange["status"]
                assert {name: reply.get(name) for name in ("Attributes", "Item")} == {
                    name: exchange["reply"].get(name) for name in ("Attributes", "Item")
                }
                if status != 200:
                    assert reply["__type"].endswith("ConditionalCheckFailedException")
            assert table.row() == step["row"]
    finally:
        engine.delete_table(table.name)


def test_the_values_mean_what_the_shipped_code_makes_of_them():
    assert load("values") == json.loads(record.text_of({"format": record.FORMAT, **record.values()}))


def test_the_page_is_of_the_format_of_the_vectors():
    assert f"This is version {record.FORMAT}" in PAGE
    assert {load(name)["format"] for name in record.FILES} == {record.FORMAT}


@pytest.mark.parametrize("field", [field for field in JAVA.__slots__ if getattr(JAVA, field) in JAVA.attribute_names()])
def test_the_page_has_each_attribute_in_each_schema(field):
    names = [getattr(schema, field) for schema in SCHEMAS.values()]
    if names[0] is None or field == "name":
        return
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{names[0]}` |")]
    assert [re.sub(r"[`*]", "", cell).strip() for cell in line.split("|")[1:4]] == [name or "none" for name in names]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("GRACE", lease.GRACE), ("MARGIN", lease.MARGIN), ("DRIFT", lease.DRIFT), ("PATIENCE", queue.PATIENCE)),
        *(("most permits", row.MOST_PERMITS), ("most tickets", row.MOST_WAITERS), ("longest nap", queue.LONGEST_NAP)),
        *(("shortest lease", lease.MIN_LEASE), ("longest lease of a permit", row.LONGEST_LEASE)),
        *(("longest lease of a ticket", queue.LONGEST_LEASE), ("furthest expiry of a ticket", row.LONGEST_BELIEVED)),
    ],
)
def test_the_page_has_the_constants_of_the_shipped_code(name, value):
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {name} |")]
    assert float(line.split("|")[2].split()[0].replace(",", "")) == value
