"""Mistakes on the command line, each with what the user reads."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_lock import LockClient, LockLostError, TransportError
from lambda_lock.cli.dashboard import Watcher
from lambda_lock.cli.exits import failure
from lambda_lock.cli.show import lock_table, print_json_array

from .conftest import check_ended, parsed

FOREVER = float("inf")


@pytest.mark.parametrize("options", [[], ["--wait", "5"], ["--lease", "30", "--no-ttl"]])
def test_run_without_a_key_runs_nothing(run, rows, options):
    said = "the key is missing: write lambda-lock run KEY -- COMMAND..."
    check_ended(run("run", *options, "--", "echo", "hi"), 2, said)
    assert rows.get("echo") is None


@pytest.mark.long
def test_run_takes_what_comes_after_the_dashes_as_it_is(run_apart):
    assert run_apart("run", "a", "--", "echo", "--", "hi").stdout == "-- hi\n"
    assert run_apart("run", "--wait", "5", "a", "echo", "--", "hi").stdout == "hi\n"


@pytest.mark.long
def test_a_key_that_begins_with_a_dash_stands_between_two_of_them(run_apart):
    command = ("sh", "-c", "echo $LAMBDA_LOCK_KEY $1", "sh", "--")
    for options in ((), ("--wait", "5")):
        assert run_apart("run", *options, "--", "-a", "--", *command).stdout == "-a --\n"


def test_run_goes_on_at_once_with_the_lock_of_an_earlier_run_that_died(run_apart, rows, table):
    with LockClient(table) as client:
        died = client.acquire("nightly", holder="build-7", lease_duration=600)
        client.close(release=False)
    command = ("--", "sh", "-c", "echo $LAMBDA_LOCK_OWNER")
    assert run_apart("run", "nightly", "--wait", "0", *command).returncode == 75
    result = run_apart("run", "nightly", "--wait", "0", "--holder", "build-7", *command)
    assert result.returncode == 0
    assert result.stdout.startswith(f"{died.owner}/")
    assert not rows.is_held("nightly")


def test_ls_watch_in_a_pipe_gives_an_array_a_line_and_survives_a_table_that_does_not_answer(start, wire, rows):
    rows.put_lock("first")
    process = start("ls", "--watch", "--interval", "0.1", "--json")
    assert [lock["key"] for lock in json.loads(process.stdout.readline())] == ["first"]
    wire.drop_request("Scan", times=FOREVER)
    assert re.fullmatch("lambda-lock: .* It is tried again\n", process.stderr.readline())
    rows.put_lock("second")
    wire.clear()
    while len(locks := json.loads(process.stdout.readline())) < 2:
        pass
    assert [lock["key"] for lock in locks] == ["first", "second"]


def test_a_list_that_breaks_off_does_not_run_into_the_next(capsys):
    def pages() -> Iterator[object]:
        yield {"key": "first"}
        raise TransportError(True, "no answer")

    with pytest.raises(TransportError):
        print_json_array(pages(), one_line=True)
    print_json_array([{"key": "second"}], one_line=True)
    broken, whole = capsys.readouterr().out.splitlines()
    assert broken.startswith("[")
    assert [lock["key"] for lock in json.loads(whole)] == ["second"]


def test_ls_watch_on_a_terminal_shows_changes_until_ctrl_c_and_survives_a_refused_scan(terminal, wire, rows):
    rows.put_lock("first")
    shown = terminal("ls", "--watch", "--interval", "0.2")
    shown.wait_for("first")
    wire.answer(400, "AccessDeniedException", "Scan")
    shown.wait_for("It is tried again")
    rows.put_lock("second")
    shown.wait_for("second")
    shown.type("\x03")
    assert shown.wait() == 0
    assert "Traceback" not in shown.text


def test_ls_watch_of_a_table_that_is_not_there_ends(run):
    check_ended(run("ls", "--watch", "--table", "no-such-table"), 78, "no-such-table")


def test_a_row_that_never_was_a_lock_is_said_to_be_none_and_can_stand_in_a_table_of_locks(run, rows, table):
    rows.put("invoice 1", total={"N": "42"})
    shown = run("get", "invoice 1")
    assert shown.returncode == 0
    assert "never a lock" in shown.stdout
    assert parsed(run("get", "invoice 1", "--json"))["state"] == "never a lock"
    assert run("ls").stdout == ""
    with LockClient(table) as client:
        record: Any = client.get("invoice 1")
    assert lock_table([record], 80).row_count == 1


def test_a_lock_and_a_semaphore_that_are_free_are_no_such_rows(run, table):
    with LockClient(table) as client:
        client.acquire("lock").release()
        client.acquire("semaphore", permits=2).release()
    assert [parsed(run("get", key, "--json"))["state"] for key in ("lock", "semaphore")] == ["free", "free"]


def test_a_command_that_lost_its_lock_exits_with_76():
    assert failure(LockLostError("lost")).exit_code == 76


def test_events_on_the_dashboard_are_in_the_order_of_their_times(table, rows):
    with LockClient(table) as client:
        watcher = Watcher(client, interval=1.0)
        watcher.read()
        for key, began in (("a", 1), ("b", 9), ("c", 5), ("d", 12)):
            rows.put_lock(key, owner=key, expires_in=20 - began, nonce=f"{began:032d}")
        watcher.read()
        events = watcher.answer({})["events"]
    times = [event["at"] for event in events]
    assert len(times) == 4
    assert times == sorted(times, reverse=True)
    assert [event["key"] for event in events] == ["a", "c", "b", "d"]


@pytest.mark.long
def test_metrics_stay_out_of_the_output_of_a_command(run_apart, table):
    with LockClient() as client, client.acquire("a"):
        held = run_apart("run", "a", "--wait", "0", "--", "true", LAMBDA_LOCK_METRICS="locks")
        shown = run_apart("get", "a", "--json", LAMBDA_LOCK_METRICS="locks", LAMBDA_LOCK_METRICS_TIMES="1")
    assert held.stdout == ""
    assert '"LockNotGranted"' in held.stderr
    assert parsed(shown)["key"] == "a"
    ran = run_apart("run", "b", "--", "echo", "said", LAMBDA_LOCK_METRICS="locks", LAMBDA_LOCK_METRICS_TIMES="1")
    assert ran.stdout == "said\n"


def test_a_semaphore_and_a_lock_are_told_in_the_words_of_the_command_line(run, run_apart):
    with LockClient() as client, client.acquire("imports", permits=2), client.acquire("report"):
        ran, forgot = run_apart("run", "imports", "--wait", "0", "--", "true"), run("forget", "imports")
        told = run("acquire", "report", "--permits", "2", "--wait", "0").stderr
    check_ended(ran, 78, "Pass --permits N, as the others do")
    check_ended(forgot, 78, "no event has this row: 'imports' is a semaphore, not a lock")
    assert "taken without --permits or --shared. Take it" in told
    assert not {"permits=", "shared="} & {*re.findall(r"\w+=", ran.stderr + forgot.stderr + told)}
