"""What others write into a sleepers' row, on an engine: how many requests it costs, and that it calls nobody."""

from __future__ import annotations

import pytest

from lambda_lock import LockClient
from lambda_lock.core.row import OF_SLEEPERS
from lambda_lock.core.sleepers import MOST_SLEEPERS, Sleeper
from lambda_lock.waker.function import Waker
from rig.engine import Ministack
from rig.wire import Wire
from tests.support.rows import Rows

from .support import Noted, message


@pytest.fixture
def rows(engine: Ministack, table: str) -> Rows:
    return Rows(engine, table)


@pytest.mark.parametrize(
    "count", [MOST_SLEEPERS + 1, 5_500], ids=["one more than there can be", "as many as a row has room for"]
)
def test_a_list_that_is_longer_than_a_registration_makes_it_calls_nobody_and_goes_in_one_write(
    count: int, wire: Wire, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    calls, entries = Noted(), [Sleeper(f"h{number}", "task", f"t{number}").entry() for number in range(count)]
    rows.put("k" + OF_SLEEPERS, asleep={"L": entries}, newest={"S": "a"})
    with LockClient(rows.table) as client:
        assert Waker(client, calls).handle(message("k"), None) == {"batchItemFailures": []}
    assert wire.operations == ["GetItem", "GetItem", "UpdateItem", "GetItem", "GetItem"]
    assert (calls.called, calls.messages) == ([], [])
    row = rows.get("k" + OF_SLEEPERS)
    assert row is not None
    assert row["asleep"] == {"L": []}
    with LockClient(rows.table) as client:
        client.sleep("k", holder="a", task_token="token-a")
        Waker(client, calls).handle(message("k"), None)
    assert calls.called == ["token-a"]


def test_entries_that_cannot_be_read_go_in_one_write_and_the_sleepers_among_them_are_served(
    wire: Wire, rows: Rows
) -> None:
    calls, entries = Noted(), [{"S": f"later {number}"} for number in range(MOST_SLEEPERS - 1)]
    rows.put("k" + OF_SLEEPERS, asleep={"L": [*entries, Sleeper("a", "task", "token-a").entry()]}, newest={"S": "a"})
    with LockClient(rows.table) as client:
        assert Waker(client, calls).handle(message("k"), None) == {"batchItemFailures": []}
    assert calls.called == ["token-a"]
    assert wire.operations[:3] == ["GetItem", "GetItem", "UpdateItem"]
    assert len(wire.operations) <= 12
