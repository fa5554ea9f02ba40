"""What others write into a sleepers' row, on an engine: how many requests it costs, and that it calls nobody."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from lambda_lock import LockClient
from lambda_lock.core.row import OF_SLEEPERS
from lambda_lock.core.sleepers import MOST_SLEEPERS, Sleeper
from lambda_lock.waker.function import WakerFunction
from rig.wire import Wire
from tests.support.rows import Rows, rows

from .support import Noted, message, record

__all__ = ["rows"]


@pytest.fixture
def client(rows: Rows) -> Iterator[LockClient]:
    with LockClient(rows.table) as made:
        yield made


@pytest.fixture
def calls() -> Noted:
    return Noted()


def look(client: LockClient, calls: Noted, event: Any = None) -> None:
    assert WakerFunction(client, calls).handle(event or message("k"), None) == {"batchItemFailures": []}


ROW = "k" + OF_SLEEPERS


def without_repeats(wire: Wire) -> list[str]:
    """The operations, without repeats of a request: a busy engine may take longer for 400 KB than a send waits."""
    return [next(same).operation for _, same in groupby(wire.requests, key=lambda request: request.raw)]


@pytest.mark.parametrize(
    "count", [MOST_SLEEPERS + 1, 5_500], ids=["one more than there can be", "as many as a row has room for"]
)
def test_a_list_that_is_longer_than_a_registration_makes_it_calls_nobody_and_goes_in_one_write(
    count, wire, rows, client, calls, monkeypatch
):
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    entries = [Sleeper(f"h{number}", "task", f"t{number}").entry() for number in range(count)]
    rows.put(ROW, asleep={"L": entries}, newest={"S": "a"})
    look(client, calls)
    assert without_repeats(wire) == ["GetItem", "GetItem", "UpdateItem", "GetItem", "GetItem"]
    assert (calls.called, calls.messages) == ([], [])
    assert rows[ROW]["asleep"] == {"L": []}
    client.sleep("k", holder="a", task_token="token-a")
    look(client, calls)
    assert calls.called == ["token-a"]


def test_entries_that_cannot_be_read_go_in_one_write_and_the_sleepers_among_them_are_served(wire, rows, client, calls):
    entries = [{"S": f"later {number}"} for number in range(MOST_SLEEPERS - 1)]
    rows.put(ROW, asleep={"L": [*entries, Sleeper("a", "task", "token-a").entry()]}, newest={"S": "a"})
    look(client, calls)
    assert (calls.called, calls.messages) == (["token-a"], [])
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
def test_who_comes_to_sleep_finds_room_where_no_registration_wrote_what_fills_it(
    forged, wire, rows, client, calls, monkeypatch
):
    """The waker has not seen the row: what was forged has nothing that its filter requires."""
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    rows.put(ROW, asleep=forged)
    client.sleep("k", holder="a", task_token="token-a")
    assert wire.operations == ["GetItem", "UpdateItem", "UpdateItem"]
    look(client, calls)
    assert calls.called == ["token-a"]


@pytest.mark.parametrize("forged", [{"S": "x"}, {"M": {}}, {"NULL": True}], ids=["a text", "a map", "null"])
def test_a_look_removes_what_is_no_list(forged, rows, client, calls):
    rows.put(ROW, asleep=forged, newest={"S": "a"})
    look(client, calls)
    assert (rows[ROW]["asleep"], "newest" in rows[ROW], calls.called) == ({"L": []}, False, [])


def test_a_mark_of_a_lock_in_a_sleepers_row_keeps_no_look_from_its_sleepers(rows, client, calls):
    """By it, the record seems to be about a lock of that key as well, and no lock may have it."""
    marks: dict[str, Any] = {"newest": {"S": "a"}, "sleepers": {"N": "1"}}
    rows.put(ROW, asleep={"L": [Sleeper("a", "task", "token-a").entry()]}, **marks)
    look(client, calls, record(ROW, **marks))
    assert calls.called == ["token-a"]
