"""What others write into a sleepers' row, on an engine: how many requests it costs, and that it calls nobody."""

from __future__ import annotations

from itertools import groupby

import pytest

from lambda_lock import LockClient
from lambda_lock.core.row import OF_SLEEPERS
from lambda_lock.core.sleepers import MOST_SLEEPERS, Sleeper
from lambda_lock.waker.function import WakerFunction
from rig.engine import Ministack
from rig.wire import Wire
from tests.support.rows import Rows

from .support import Noted, message, record


@pytest.fixture
def rows(engine: Ministack, table: str) -> Rows:
    return Rows(engine, table)


def without_repeats(wire: Wire) -> list[str]:
    """The operations, without repeats of a request: a busy engine may take longer for 400 KB than a send waits."""
    return [next(same).operation for _, same in groupby(wire.requests, key=lambda request: request.raw)]


@pytest.mark.parametrize(
    "count", [MOST_SLEEPERS + 1, 5_500], ids=["one more than there can be", "as many as a row has room for"]
)
def test_a_list_that_is_longer_than_a_registration_makes_it_calls_nobody_and_goes_in_one_write(
    count, wire, rows, monkeypatch
):
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    calls, entries = Noted(), [Sleeper(f"h{number}", "task", f"t{number}").entry() for number in range(count)]
    rows.put("k" + OF_SLEEPERS, asleep={"L": entries}, newest={"S": "a"})
    with LockClient(rows.table) as client:
        assert WakerFunction(client, calls).handle(message("k"), None) == {"batchItemFailures": []}
    assert without_repeats(wire) == ["GetItem", "GetItem", "UpdateItem", "GetItem", "GetItem"]
    assert (calls.called, calls.messages) == ([], [])
    row = rows.get("k" + OF_SLEEPERS)
    assert row is not None
    assert row["asleep"] == {"L": []}
    with LockClient(rows.table) as client:
        client.sleep("k", holder="a", task_token="token-a")
        WakerFunction(client, calls).handle(message("k"), None)
    assert calls.called == ["token-a"]


def test_entries_that_cannot_be_read_go_in_one_write_and_the_sleepers_among_them_are_served(wire, rows):
    calls, entries = Noted(), [{"S": f"later {number}"} for number in range(MOST_SLEEPERS - 1)]
    rows.put("k" + OF_SLEEPERS, asleep={"L": [*entries, Sleeper("a", "task", "token-a").entry()]}, newest={"S": "a"})
    with LockClient(rows.table) as client:
        assert WakerFunction(client, calls).handle(message("k"), None) == {"batchItemFailures": []}
    assert calls.called == ["token-a"]
    assert wire.operations[:3] == ["GetItem", "GetItem", "UpdateItem"]
    assert len(wire.operations) <= 12


@pytest.mark.parametrize(
    "forged",
    [
        {"L": [{"S": "x"}] * MOST_SLEEPERS},
        {"L": [{"S": "x"}] * (MOST_SLEEPERS + 1)},
        {"S": "x"},
        {"M": {}},
        {"SS": ["x"]},
    ],
    ids=["as many as may sleep", "more than may sleep", "a text", "a map", "a set"],
)
def test_who_comes_to_sleep_finds_room_where_no_registration_wrote_what_fills_it(forged, wire, rows, monkeypatch):
    """The waker has not seen the row: what was forged has nothing that its filter requires."""
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    calls = Noted()
    rows.put("k" + OF_SLEEPERS, asleep=forged)
    with LockClient(rows.table) as client:
        client.sleep("k", holder="a", task_token="token-a")
        assert wire.operations == ["GetItem", "UpdateItem", "UpdateItem"]
        WakerFunction(client, calls).handle(message("k"), None)
    assert calls.called == ["token-a"]


@pytest.mark.parametrize("forged", [{"S": "x"}, {"M": {}}, {"NULL": True}], ids=["a text", "a map", "null"])
def test_a_look_removes_what_is_no_list(forged, rows):
    calls = Noted()
    rows.put("k" + OF_SLEEPERS, asleep=forged, newest={"S": "a"})
    with LockClient(rows.table) as client:
        assert WakerFunction(client, calls).handle(message("k"), None) == {"batchItemFailures": []}
    row = rows.get("k" + OF_SLEEPERS)
    assert row is not None
    assert (row["asleep"], "newest" in row, calls.called) == ({"L": []}, False, [])


def test_a_mark_of_a_lock_in_a_sleepers_row_keeps_no_look_from_its_sleepers(rows):
    """By it, the record seems to be about a lock of that key as well, and no lock may have it."""
    calls, entry = Noted(), Sleeper("a", "task", "token-a").entry()
    rows.put("k" + OF_SLEEPERS, asleep={"L": [entry]}, newest={"S": "a"}, sleepers={"N": "1"})
    with LockClient(rows.table) as client:
        event = record("k" + OF_SLEEPERS, newest={"S": "a"}, sleepers={"N": "1"})
        assert WakerFunction(client, calls).handle(event, None) == {"batchItemFailures": []}
    assert calls.called == ["token-a"]
