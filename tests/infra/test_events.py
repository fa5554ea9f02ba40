"""The test event of each function: what it does once, and again, and that its role allows the keys that it uses."""

import importlib
import json
from typing import Any

import pytest

from infra.stack import PREFIXES
from lambda_lock.testing import in_memory, lambda_context
from lambda_lock.testing.memory import Memory
from rig.engine import ROOT

DONE: dict[str, Any] = {
    "Invoices": (None, {"c-1": ["invoice i-1"]}),
    "Orders": ({"batchItemFailures": []}, {"c-1": ["order o-1"], "c-2": ["order o-2"]}),
    "Payments": ({"batchItemFailures": []}, {"c-1": ["payment p-1", "payment p-2"]}),
}


def _event(name: str) -> Any:
    return json.loads((ROOT / "infra" / "events" / f"{name.lower()}.json").read_text())


@pytest.fixture(autouse=True)
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_TABLE", "ledger")
    monkeypatch.setattr("infra.functions.report._WORK_SECONDS", 0.0)


def _postings(items: Any) -> dict[str, list[str]]:
    return {each["customer"]["S"]: [posting["S"] for posting in each["postings"]["L"]] for each in items}


def _check_keys(memory: Memory, name: str) -> None:
    """An engine does not enforce dynamodb:LeadingKeys, so this is where a wrong prefix shows."""
    keys = [row.key for row in memory.rows()]
    for prefix in PREFIXES[name]:
        assert any(key.startswith(prefix) for key in keys), prefix
    assert all(key.startswith(PREFIXES[name]) for key in keys)


@pytest.mark.parametrize("name", DONE)
def test_an_event_is_done_once_however_often_it_is_sent_under_keys_that_the_functions_role_allows(name):
    handler = importlib.import_module(f"infra.functions.{name.lower()}").handler
    answer, postings = DONE[name]
    with in_memory(tables={"ledger": "customer"}) as memory:
        for _ in range(2):
            assert handler(_event(name), lambda_context()) == answer
            assert _postings(memory.items("ledger")) == postings
        _check_keys(memory, name)


def test_the_report_is_written():
    handler = importlib.import_module("infra.functions.report").handler
    with in_memory(tables={"ledger": "customer"}) as memory:
        assert handler(_event("Report"), lambda_context()) == "reported"
        assert list(_postings(memory.items("ledger"))) == ["report#nightly"]
        _check_keys(memory, "Report")
