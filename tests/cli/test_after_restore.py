"""`lambda-lock table after-restore`: what stays of a restored table, what goes, and what is set."""

import json
import time
from typing import Any

import pytest

from lambda_lock import LockClient, deduplicate
from lambda_lock.table import restored_to
from lambda_lock.transport import Reply

from .conftest import Rows, done_until, parsed


@pytest.fixture
def restored(rows: Rows) -> Rows:
    """A table as it was a while ago: two events that are done, and of everything else one."""
    with LockClient() as client:
        for key in ("order-1", "order-2"):
            deduplicate("{key}", scope="pay", result="json", client=client)(lambda key: {"amount": 500})(key)
        client.acquire("free").release()
        client.acquire("semaphore", permits=2).hand_over()
        client.rate_limit("rate", 1, per=60)
    rows.put_lock("dead", expires_in=-1000)
    rows.put("done-long-ago", **done_until(int(time.time()) - 10))
    rows.put("dead~sleepers", asleep={"L": []}, newest={"S": "x"})
    rows.put("another-program", price={"N": "7"})
    rows.put("damaged", recordVersionNumber={"S": "v"}, leaseDuration={"S": "x"})
    return rows


COUNTS = {"kept": 2, "dropped": 6, "unknown": 2, "held": 1, "changed": 0}


def test_done_events_stay_and_the_rest_goes_and_it_says_so_in_numbers(run, restored, table, engine):
    before = restored.keys()
    counted = run("table", "after-restore", table, "--dry-run")
    assert parsed(counted) == {"table": table, "dry_run": True, "restored_to": None, **COUNTS}
    assert restored.keys() == before
    done = run("table", "after-restore", table, "--yes", "--tag", "team=billing")
    assert parsed(done) == {"table": table, "dry_run": False, "restored_to": None, **COUNTS}
    assert restored.keys() == {"pay#order-1", "pay#order-2", "another-program", "damaged"}
    described = engine.dynamodb("DescribeTimeToLive", {"TableName": table})["TimeToLiveDescription"]
    assert (described["TimeToLiveStatus"], described["AttributeName"]) == ("ENABLED", "ttl")
    arn = engine.dynamodb("DescribeTable", {"TableName": table})["Table"]["TableArn"]
    assert engine.dynamodb("ListTagsOfResource", {"ResourceArn": arn})["Tags"] == [{"Key": "team", "Value": "billing"}]
    again = run("table", "after-restore", table, "--yes")
    assert parsed(again)["dropped"] == 0


def test_a_done_event_does_not_run_again_afterwards_and_gives_its_result(run, restored, table):
    assert run("table", "after-restore", table, "--yes").returncode == 0
    ran: list[str] = []
    again: Any = deduplicate("{key}", scope="pay", result="json", client=LockClient())(lambda key: ran.append(key))
    assert again("order-1") == {"amount": 500}
    assert ran == []


@pytest.mark.long
def test_on_a_terminal_it_says_what_it_would_do_and_asks_for_the_table(terminal, restored, table):
    before = restored.keys()
    refused = terminal("table", "after-restore", table, columns=300)
    refused.wait_for("Type the table's name")
    assert "2 done events are kept, 6 other rows would be dropped, 2 that cannot be read" in refused.text
    refused.type("locks\n")
    assert refused.wait() == 1
    assert "nothing was changed" in refused.text
    assert restored.keys() == before
    agreed = terminal("table", "after-restore", table, columns=300)
    agreed.wait_for("Type the table's name")
    agreed.type(f"{table}\n")
    assert agreed.wait() == 0
    assert "6 other rows were dropped" in agreed.text
    assert restored.get("free") is None


def test_without_an_answer_nothing_is_changed(run, restored, table):
    before = restored.keys()
    result = run("table", "after-restore", table)
    assert (result.returncode, "use --yes" in result.stderr) == (1, True)
    assert restored.keys() == before


def test_locks_that_are_held_now_are_told(run, rows, table):
    rows.put_lock("a")
    assert parsed(run("table", "after-restore", table, "--dry-run"))["held"] == 1


def test_a_row_that_changes_meanwhile_is_left_alone_and_told(run, rows, wire, table):
    rows.put_lock("a", expires_in=-1000)

    def taken(answer: Any) -> Any:
        rows.put_lock("a", owner="the-next", nonce="d" * 32)
        return answer

    wire.alter_reply(lambda answer: answer, "Scan")  # the first one, which only counts
    wire.alter_reply(taken, "Scan")
    result = run("table", "after-restore", table, "--yes")
    found = json.loads(result.stdout)
    assert (result.returncode, found["dropped"], found["changed"]) == (1, 0, 1)
    assert rows.is_held("a")


def test_the_moment_of_the_restore_is_what_dynamodb_says():
    class Described:
        def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
            return Reply({"Table": {"RestoreSummary": {"RestoreDateTime": 1795243073.0}}}, None)

    assert restored_to("locks", transport=Described()) == 1795243073.0


def test_a_table_that_is_not_there_is_refused(run):
    assert run("table", "after-restore", "no-such-table", "--yes").returncode == 78
