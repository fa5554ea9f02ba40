"""Mistakes on the command line, each with what the user reads."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lambda_lock import LockClient, TransportError, deduplicate
from lambda_lock.cli.dashboard import Watcher
from lambda_lock.cli.show import lock_table, print_json_array

from .conftest import parsed

FOREVER = float("inf")


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--wait", "5"], ["--lease", "30", "--no-ttl"]])
def test_run_without_a_key_runs_nothing(run_apart, rows, options):
    result = run_apart("run", *options, "--", "echo", "hi")
    assert result.returncode == 2
    assert "the key is missing: write lambda-lock run KEY -- COMMAND..." in result.stderr
    assert result.stdout == ""
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


def test_ls_watch_survives_a_table_that_does_not_answer(start, wire, rows):
    rows.put_held("first")
    process = start("ls", "--watch", "--interval", "0.1", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    assert [lock["key"] for lock in json.loads(process.stdout.readline())] == ["first"]
    wire.drop_request("Scan", times=FOREVER)
    said = process.stderr.readline()
    assert said.startswith("lambda-lock: ")
    assert said.endswith(" It is tried again\n")
    rows.put_held("second")
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


def test_ls_watch_on_a_terminal_survives_a_refused_scan(terminal, wire, rows):
    rows.put_held("first")
    shown = terminal("ls", "--watch", "--interval", "0.2")
    shown.wait_for("first")
    wire.answer(400, "AccessDeniedException", "Scan")
    shown.wait_for("It is tried again")
    rows.put_held("second")
    shown.wait_for("second")
    shown.type("\x03")
    assert shown.wait() == 0
    assert "Traceback" not in shown.text


def test_ls_watch_of_a_table_that_is_not_there_ends(run):
    result = run("ls", "--watch", "--table", "no-such-table")
    assert result.returncode == 78
    assert "no-such-table" in result.stderr


def test_a_table_that_exists_is_said_to_exist_and_to_fit(run, table):
    assert run("table", "create", f"{table}-new").returncode == 0
    result = run("table", "create", f"{table}-new")
    assert result.returncode == 78
    assert f"table '{table}-new' exists already: nothing is created" in result.stderr
    assert "it is suitable for locks as it is" in result.stderr


def test_a_table_that_exists_and_does_not_fit_is_told_with_all_its_faults(run, engine, table):
    name = engine.create_table(f"{table}-odd", partition_key="id")
    result = run("table", "create", name)
    assert result.returncode == 78
    assert f"table '{name}' exists already: nothing is created" in result.stderr
    assert f"table '{name}' is not suitable for locks: its partition key is 'id', not 'key'" in result.stderr


def test_a_row_that_never_was_a_lock_is_said_to_be_none(run, rows):
    rows.put("invoice 1", total={"N": "42"})
    shown = run("get", "invoice 1")
    assert shown.returncode == 0
    assert "never a lock" in shown.stdout
    assert json.loads(run("get", "invoice 1", "--json").stdout)["state"] == "never a lock"
    assert run("ls").stdout == ""


def test_a_row_that_never_was_a_lock_can_stand_in_a_table_of_locks(rows, table):
    rows.put("invoice 1", total={"N": "42"})
    with LockClient(table) as client:
        record = client.get("invoice 1")
    assert record is not None
    assert lock_table([record], 80).row_count == 1


def test_a_lock_and_a_semaphore_that_are_free_are_no_such_rows(run, table):
    with LockClient(table) as client:
        client.acquire("lock").release()
        client.acquire("semaphore", permits=2).release()
    for key in ("lock", "semaphore"):
        assert json.loads(run("get", key, "--json").stdout)["state"] == "free"


def test_events_on_the_dashboard_are_in_the_order_of_their_times(table, rows):
    with LockClient(table) as client:
        watcher = Watcher(client, interval=1.0)
        watcher.read()
        for key, began in (("a", 1), ("b", 9), ("c", 5), ("d", 12)):
            rows.put_held(key, owner=key, expires_in=20 - began, nonce=f"{began:032d}")
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


@pytest.mark.long
def test_a_semaphore_is_told_in_the_words_of_the_command_line(run_apart, table):
    with LockClient() as client, client.acquire("imports", permits=2):
        ran, forgot = run_apart("run", "imports", "--wait", "0", "--", "true"), run_apart("forget", "imports")
    assert "Pass --permits N, as the others do" in ran.stderr
    assert "no event has this row: 'imports' is a semaphore, not a lock" in forgot.stderr
    for result in (ran, forgot):
        assert result.returncode == 78
        assert "permits=" not in result.stderr


def test_a_lock_is_told_from_a_semaphore_in_the_words_of_the_command_line(run_apart, table):
    with LockClient() as client, client.acquire("report"):
        told = run_apart("run", "report", "--permits", "2", "--wait", "0", "--", "true").stderr
    assert "taken without --permits or --shared. Take it" in told
    assert "permits=" not in told
    assert "shared=" not in told


def test_release_of_an_event_that_is_done_leads_to_forget(run, table):
    with LockClient() as client:
        deduplicate("{key}", scope="prices", client=client)(lambda key: None)("sku-7")
    told = run("release", "prices#sku-7", "--force", "--yes").stderr
    assert "event 'prices#sku-7' is done" in told
    assert "lambda-lock forget" in told
