"""LAMBDA_LOCK_SCOPE: stages on one table do not share what is done. And the recipes that do share it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambda_lock import LockArgumentError, LockClient, deduplicate, with_lock
from lambda_lock.client.settings import SCOPE_VARIABLE
from lambda_lock.observe.metrics import METRICS_VARIABLE

from .conftest import told

pytestmark = pytest.mark.usefixtures("table")


def _booking(runs: list[str], stage: str, **options: Any) -> Any:
    @deduplicate("{id}", result="json", **options)
    def book(event: dict[str, str]) -> str:
        runs.append(stage)
        return f"by {stage}"

    return book


def test_each_stage_of_one_function_has_its_own_results(rows, monkeypatch):
    runs: list[str] = []
    for stage in ("dev", "prod", "prod"):
        monkeypatch.setenv(SCOPE_VARIABLE, stage)
        assert _booking(runs, stage)({"id": "7"}) == f"by {stage}"
    assert runs == ["dev", "prod"]
    name = f"{__name__}._booking.<locals>.book"
    assert "completedUntil" in rows[f"prod#{name}#7"]
    assert rows.get(f"{name}#7") is None


def test_the_variable_is_a_scope_of_its_own_before_the_default_one(monkeypatch):
    runs: list[str] = []
    monkeypatch.setenv(SCOPE_VARIABLE, "eu#1")
    handler = _booking(runs, "eu")
    handler({"id": "7"})
    name = f"{__name__}._booking.<locals>.book"
    with LockClient() as client:
        assert client.forget(f"{name}#7", scope="eu#1") is True
    assert handler.forget({"id": "7"}) is False
    handler({"id": "7"})
    assert runs == ["eu", "eu"]


@pytest.mark.parametrize("scope", ["", "bookings"])
def test_a_scope_of_ones_own_and_an_empty_variable_change_nothing(scope, rows, monkeypatch):
    monkeypatch.setenv(SCOPE_VARIABLE, "prod")
    _booking([], "prod", scope=scope)({"id": "7"})
    assert "completedUntil" in rows["7" if not scope else "bookings#7"]
    monkeypatch.setenv(SCOPE_VARIABLE, "")
    _booking([], "prod")({"id": "7"})
    assert "completedUntil" in rows[f"{__name__}._booking.<locals>.book#7"]


@pytest.mark.parametrize(
    ("value", "said"), [("x" * 2049, "LAMBDA_LOCK_SCOPE .* has 2049 bytes"), ("\udcff", "LAMBDA_LOCK_SCOPE .* Unicode")]
)
def test_a_variable_that_no_scope_can_be_is_refused_before_anything_is_sent(value, said, rows, monkeypatch):
    monkeypatch.setenv(SCOPE_VARIABLE, value)
    runs: list[str] = []
    with pytest.raises(LockArgumentError, match=said):
        _booking(runs, "prod")({"id": "7"})
    assert runs == []


def test_a_renamed_function_keeps_its_events_done_under_the_scope_of_its_old_name():
    """The recipe of docs/changes.md: `scope=` is what the default one was."""
    runs: list[str] = []
    _booking(runs, "old")({"id": "7"})

    @deduplicate("{id}", result="json", scope=f"{__name__}._booking.<locals>.book")
    def renamed(event: dict[str, str]) -> str:
        raise AssertionError("it was done before")

    assert renamed({"id": "7"}) == "by old"


def test_disabled_locks_are_counted_and_nothing_about_locks_keeps_a_call_from_running(
    table, monkeypatch, capsys, caplog
):
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")
    monkeypatch.setenv(METRICS_VARIABLE, "shop")
    monkeypatch.setenv(SCOPE_VARIABLE, "x" * 3000)
    runs: list[str] = []
    _booking(runs, "prod")({"id": "7"})
    with_lock("a-{id}")(lambda event: runs.append("locked"))({"id": "7"})
    assert runs == ["prod", "locked"]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["LockDisabled"], line["Table"]) for line in lines] == [(1, table)] * 2
    monkeypatch.delenv("LAMBDA_LOCK_TABLE")
    with_lock("a-{id}")(lambda event: runs.append("without a table"))({"id": "7"})
    assert runs[2:] == ["without a table"]
    assert len(told(caplog, "disabled")) == 3
