"""`lambda-lock get`, `ls`, `release` and `table`, and the messages if something is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import LockClient
from lambda_lock.core.tickets import make_ticket
from rig.engine import ROOT
from tests.support.sampled import sampled

from .conftest import PROGRAM, environment, parsed

ESCAPE = "\x1b"


# get


def test_get_shows_who_holds_the_lock_and_until_when(run):
    with LockClient(owner_prefix="worker-7") as client, client.acquire("a", data=b"half way") as lock:
        said = run("get", "a").stdout
        assert re.search(r"^state +held, \d+ s left$", said, re.MULTILINE)
        assert re.search(rf"^owner +{re.escape(lock.owner)}$", said, re.MULTILINE)
        assert re.search(rf"^fencing token +{lock.fencing_token}$", said, re.MULTILINE)
        assert re.search(r"^data +half way$", said, re.MULTILINE)


def test_get_as_json_has_everything(run):
    attributes = {"n": 1, "half": 0.5, "tags": {"x", "y"}, "raw": b"\x00", "deep": {"a": [None, True]}}
    with LockClient() as client, client.acquire("a", data=b"\x00\xff", attributes=attributes) as lock:
        found = parsed(run("get", "a", "--json"))
    assert found["state"] == "held"
    assert found["owner"] == lock.owner
    assert found["fencing_token"] == lock.fencing_token
    assert found["version"] == lock.version
    assert 0 < found["seconds_left"] <= 23
    assert found["data"] == "AP8="
    assert found["attributes"] == {"n": 1, "half": 0.5, "tags": ["x", "y"], "raw": "AA==", "deep": {"a": [None, True]}}


def test_get_and_ls_show_how_many_wait(run, terminal, rows):
    rows.put_held("a")
    rows.put_held("b")
    assert "waiting" not in run("get", "a").stdout
    rows.put_held(
        "a",
        waiters={
            "L": [
                {"S": make_ticket("place--1", int(time.time()) + 20)},
                {"S": make_ticket("place--2", int(time.time()) + 20)},
            ]
        },
    )
    assert re.search(r"^waiting +2$", run("get", "a").stdout, re.MULTILINE)
    assert parsed(run("get", "a", "--json"))["waiters"] == 2
    assert "waiters" not in parsed(run("get", "a", "--json"))["attributes"]
    assert [lock["waiters"] for lock in parsed(run("ls", "--json"))] in ([0, 2], [2, 0])
    shown = terminal("ls", NO_COLOR="1")
    assert shown.wait() == 0
    heading, first, second = shown.text.splitlines()[:3]
    assert heading.split()[-1] == "WAITING"
    assert (first.split()[-1], second.split()[-1]) == ("2", "7")  # b has none


def test_get_and_ls_show_the_holders_of_a_semaphore_and_release_leaves_them_alone(run):
    with LockClient(owner_prefix="worker") as client:
        held = [client.acquire("api", permits=3) for _ in range(2)]
        found = parsed(run("get", "api", "--json"))
        assert [holder["owner"] for holder in found["holders"]] == [lock.owner for lock in held]
        assert (found["state"], found["owner"], found["attributes"]) == ("held", None, {})
        shown = run("get", "api").stdout
        assert re.search(r"^state +held by 2$", shown, re.MULTILINE)
        first, second = (line for line in shown.splitlines() if " until " in line)  # one on each line, aligned
        assert re.fullmatch(f"holders +{held[0].owner} until .* UTC, token {held[0].fencing_token}", first)
        assert re.fullmatch(f" +{held[1].owner} until .* UTC, token {held[1].fencing_token}", second)
        assert first.index(" until ") == second.index(" until ")
        assert run("ls", "--held").stdout.split("\t")[-1].strip() == ",".join(lock.owner for lock in held)
        refused = run("release", "api", "--force", "--yes")
        assert refused.returncode == 1
        assert "'api' is a semaphore, held by 2" in refused.stderr
        assert parsed(run("get", "api", "--json"))["holders"] == found["holders"]
    assert parsed(run("get", "api", "--json"))["state"] == "free"


def test_a_semaphore_whose_holders_cannot_be_read_is_not_free_and_not_released(run, rows):
    rows.put("api", **{name: {"S": "semaphore"} for name in ("ownerName", "leaseDuration", "recordVersionNumber")})
    assert parsed(run("get", "api", "--json"))["state"] == "unreadable"
    assert re.search(r"^unreadable +permits", run("get", "api").stdout, re.MULTILINE)
    before = rows.get("api")
    refused = run("release", "api", "--force", "--yes")
    assert refused.returncode == 1
    assert "'api' is a semaphore, and who holds it cannot be read" in refused.stderr
    assert rows.get("api") == before


def test_get_of_no_lock_says_so_and_exits_with_1(run):
    result = run("get", "none")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no lock 'none'" in result.stderr
    assert run("get", "none", "--json").stdout == "null\n"


def test_states_are_told_apart(run, rows):
    rows.put_held("expired", expires_in=-30)
    rows.put_held("held")
    rows.put("foreign", ownerName={"S": "java"}, leaseDuration={"S": "20000"}, recordVersionNumber={"S": "a-b-c"})
    rows.put_held("free")
    version, done = (
        {"recordVersionNumber": {"S": "v"}, "isReleased": {"S": "1"}},
        {"completedUntil": {"N": "4102444800"}},
    )
    rows.put("free", **version)
    rows.put("completed", **version, **done)
    states = {lock["key"]: lock["state"] for lock in parsed(run("ls", "--json"))}
    expected = {"expired": "expired", "held": "held", "foreign": "held", "free": "free", "completed": "completed"}
    assert states == expected
    assert re.search(r"expired \d+ s ago", run("get", "expired").stdout)
    assert "held, no expiry" in run("get", "foreign").stdout


def test_a_row_that_cannot_be_read_is_shown_as_such_and_the_others_as_ever(run, rows):
    version = {"recordVersionNumber": {"S": "v"}, "ownerName": {"S": "java"}}
    rows.put("lease", **version, leaseDuration={"S": "9" * 400})
    rows.put("token", **version, leaseDuration={"S": "20000"}, fencingToken={"S": "7"})
    rows.put("completed", **version, isReleased={"S": "1"}, completedUntil={"N": "9" * 30})
    rows.put_held("sound")
    found = {lock["key"]: (lock["state"], lock["unreadable"]) for lock in parsed(run("ls", "--json"))}
    assert found == {
        "lease": ("unreadable", ["leaseDuration"]),
        "token": ("unreadable", ["fencingToken"]),
        "completed": ("unreadable", ["completedUntil"]),
        "sound": ("held", []),
    }
    assert {line.split("\t")[0] for line in run("ls").stdout.splitlines()} == found.keys()
    shown = run("get", "lease")
    assert shown.returncode == 0
    assert re.search(r"^state +unreadable$", shown.stdout, re.MULTILINE)
    assert re.search(r"^unreadable +leaseDuration$", shown.stdout, re.MULTILINE)


# ls


def test_ls_in_a_pipe_gives_a_line_a_lock_without_colour(run, rows):
    rows.put_held("b", owner="x" * 100)
    rows.put("a", recordVersionNumber={"S": "v"}, isReleased={"S": "1"})
    result = run("ls")
    assert ESCAPE not in result.stdout
    first, second = (line.split("\t") for line in result.stdout.splitlines())
    assert first == ["a", "", "free", "", "", ""]
    assert second[:3] == ["b", "", "held"]
    assert second[4:] == ["7", "x" * 100 + "#" + "c" * 32]


def test_ls_of_an_empty_table_is_an_empty_list(run):
    assert run("ls").stdout == ""
    assert parsed(run("ls", "--json")) == []


def test_ls_held_leaves_out_what_is_free(run, rows):
    rows.put_held("held")
    rows.put_held("expired", expires_in=-30)
    rows.put("free", recordVersionNumber={"S": "v"}, isReleased={"S": "1"})
    assert [lock["key"] for lock in parsed(run("ls", "--held", "--json"))] == ["expired", "held"]


def test_ls_reads_all_pages(run, wire, rows):
    """50 rows of 30 KB exceed the megabyte that fits in one page."""
    for number in range(50):
        rows.put_held(f"lock-{number:02d}")
        row = rows.get(f"lock-{number:02d}") or {}
        del row["key"]
        rows.put(f"lock-{number:02d}", **row, padding={"S": "x" * 30_000})
    keys = [line.partition("\t")[0] for line in run("ls").stdout.splitlines()]
    assert sorted(keys) == [f"lock-{number:02d}" for number in range(50)]  # as the table has them
    assert wire.count("Scan") >= 2


def test_ls_of_one_partition_is_a_query(run, engine, wire, table):
    name = engine.create_table(f"{table}-sorted", sort_key="range")
    with LockClient(name, sort_key_name="range") as client:
        for key, value in (("a", "1"), ("a", "2"), ("b", "1")):
            client.acquire(key, sort_key=value).release()
    wire.clear()
    locks = parsed(run("ls", "--key", "a", "--table", name, "--sort-key", "range", "--json"))
    assert [(lock["key"], lock["sort_key"]) for lock in locks] == [("a", "1"), ("a", "2")]
    assert wire.operations == ["Query"]


def test_ls_watch_shows_changes_until_ctrl_c(terminal, rows):
    rows.put_held("first")
    shown = terminal("ls", "--watch", "--interval", "0.2")
    shown.wait_for("first")
    rows.put_held("second")
    shown.wait_for("second")
    shown.type("\x03")
    assert shown.wait() == 0
    assert "Traceback" not in shown.text


def test_ls_watch_in_a_pipe_gives_an_array_a_line(start, rows):
    rows.put_held("a")
    process = start("ls", "--watch", "--interval", "0.1", "--json")
    assert process.stdout is not None
    for _ in range(3):
        assert [lock["key"] for lock in json.loads(process.stdout.readline())] == ["a"]


def test_a_reader_that_goes_away_is_no_traceback(rows, table):
    for number in range(5):
        rows.put_held(f"lock-{number}")
    command = f"{sys.executable} -m lambda_lock.cli ls --watch --interval 0.1 | head -n 1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment(), timeout=60)
    assert result.stdout.startswith("lock-0\t")
    assert "Traceback" not in result.stderr


# On a terminal


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_a_table_that_fits(terminal, rows, columns):
    rows.put_held("invoice-4711", owner="some-function/c6af9ac6-7b61-11e6-9a41-93e8deadbeef")
    rows.put("a" * 100, recordVersionNumber={"S": "v"}, isReleased={"S": "1"})
    shown = terminal("ls", columns=columns)
    assert shown.wait() == 0
    lines = shown.text.splitlines()
    assert lines[0].split() == ["KEY", "STATE", "OWNER", "TOKEN"]
    assert max(map(len, lines)) <= columns
    assert lines[-1].strip() == "2 locks: 1 held, 1 free"
    assert re.search(r"^a{9,}…a{9,} +free", shown.text, re.MULTILINE)
    assert "\x1b[32m" in shown.screen


@pytest.mark.parametrize("with_all", [False, True])
def test_done_events_are_counted_and_the_locks_that_are_held_come_first(terminal, run, rows, with_all):
    key = "orders.handlers.charge_customer#5a7f0c9e-7b61-11e6-9a41-93e8deadbeef-{}"
    for number in range(3):
        done = {"recordVersionNumber": {"S": "v"}, "isReleased": {"S": "1"}, "completedUntil": {"N": str(2**33)}}
        rows.put(key.format(number), **done)
    rows.put("a-free", recordVersionNumber={"S": "v"}, isReleased={"S": "1"}, fencingToken={"N": "1795243073298"})
    rows.put_held("z-" + key.format(9), owner="some-function/c6af9ac6-7b61-11e6-9a41-93e8deadbeef")
    shown = terminal("ls", *(["--all"] if with_all else []), columns=80, NO_COLOR="1")
    assert shown.wait() == 0
    lines = shown.text.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.match(r"z-orders\S+…\S*beef-9 +held", lines[1])
    assert lines[2].startswith("a-free")
    assert sum("completed" in line for line in lines[:-1]) == (3 if with_all else 0)
    assert lines[-1].strip().startswith("5 locks: 1 held, 1 free, 3 completed")
    assert lines[-1].endswith("3 completed" if with_all else ". --all lists the 3 completed")
    assert len(parsed(run("ls", "--json"))) == len(run("ls").stdout.splitlines()) == 5
    assert key.format(0) in run("ls").stdout


def test_with_waiters_and_long_owners_keys_can_still_be_told_apart_at_80_columns(terminal, rows):
    waiters = {"L": [{"S": make_ticket("place--1", int(time.time()) + 200)}]}
    for end in ("1", "2"):
        owner = "some-function/c6af9ac6-7b61-11e6"
        rows.put_held(f"orders.handlers.charge#5a7f0c9e-{end}", owner=owner, waiters=waiters)
        with LockClient() as client:
            client.rate_limit(f"calls-of-the-application-{end}", 1, per=3600)
    shown = terminal("ls", columns=80, NO_COLOR="1")
    assert shown.wait() == 0
    lines = shown.text.splitlines()
    assert max(map(len, lines)) <= 80
    keys = {line.split()[0] for line in lines[1:-2]}
    assert len(keys) == 4
    assert all(len(key) >= 10 for key in keys)


def test_get_says_of_an_event_of_the_past_that_it_was_done(run, rows):
    row = {"recordVersionNumber": {"S": "v"}, "isReleased": {"S": "1"}, "fencingToken": {"N": "7"}}
    rows.put("past", **row, completedUntil={"N": "1700000000"})
    rows.put("done", **row, completedUntil={"N": str(2**33)})
    assert "was done until  2023-11-14" in run("get", "past").stdout
    assert "completed until  2242-03-16" in run("get", "done").stdout


@pytest.mark.parametrize("option", ["", "--json"])
def test_a_list_whose_reader_has_seen_enough_ends_quietly(rows, table, option):
    for number in range(8):
        rows.put(f"{number}", recordVersionNumber={"S": "v"}, data={"B": "a" * 300_000})
    command = f"{sys.executable} -m lambda_lock.cli ls {option} | head -n 1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment(), timeout=60)
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(terminal, rows, changes):
    rows.put_held("a")
    shown = terminal("ls", **changes)
    assert shown.wait() == 0
    assert "\x1b[3" not in shown.screen
    failing = terminal("get", "none", **changes)
    assert failing.wait() == 1
    assert ESCAPE not in failing.screen


def test_a_key_cannot_move_the_cursor_forge_a_line_or_reorder_one(run, terminal, rows):
    key = "a\x1b[2Jb\nfree\tx\u202e"
    rows.put_held(key, owner="o\x1b]0;title\x07\u202e")
    for said in (run("ls").stdout, run("get", key).stdout, run("ls", "--json").stdout):
        assert ESCAPE not in said
        assert "\u202e" not in said
    assert len(run("ls").stdout.splitlines()) == 1
    assert parsed(run("get", key, "--json"))["key"] == key
    shown = terminal("ls", NO_COLOR="1")
    assert shown.wait() == 0
    assert "\x1b[2J" not in shown.screen
    assert "\x1b]" not in shown.screen
    assert "\u202e" not in shown.screen


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
@pytest.mark.parametrize(
    "arguments", sampled(4, zip([["ls"], ["ls", "--json"], ["ls", "--watch"], ["get", "a"], ["--version"]]))
)
def test_output_that_cannot_be_written_is_one_message_and_an_exit_code(table, rows, arguments):
    rows.put_held("a")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=100
        )
    assert done.returncode == 74
    assert re.fullmatch(r"lambda-lock: input or output failed: .*No space left on device\n", done.stderr)


@pytest.mark.parametrize("arguments", sampled(3, zip([["ls"], ["ls", "--json"], ["get", "a"]])))
def test_a_command_whose_output_is_closed_ends_without_one(table, rows, arguments):
    rows.put_held("a")
    closing = ["sh", "-c", 'exec "$@" >&-', "sh"]
    done = subprocess.run(
        [*closing, *PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, env=environment(), timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")


# release


def test_release_needs_force(run, rows):
    rows.put_held("a")
    result = run("release", "a")
    assert result.returncode == 2
    assert "--force" in result.stderr
    assert rows.is_held("a")


def test_release_shows_the_holder_and_asks_for_the_key(terminal, rows):
    rows.put_held("a-lock", owner="who-holds-it")
    shown = terminal("release", "a-lock", "--force")
    shown.wait_for("Type the key")
    assert "who-holds-it" in shown.text
    assert "left" in shown.text
    assert rows.is_held("a-lock")
    shown.type("a-lock\n")
    assert shown.wait() == 0
    assert not rows.is_held("a-lock")


@pytest.mark.parametrize("typed", ["y\n", "A-LOCK\n", ""])
def test_anything_but_the_key_releases_nothing(run, rows, typed):
    rows.put_held("a-lock")
    result = run("release", "a-lock", "--force", stdin=typed)
    assert result.returncode == 1
    assert "not released" in result.stderr
    assert rows.is_held("a-lock")


def test_release_for_scripts_does_not_ask(run, rows):
    rows.put_held("a")
    result = run("release", "a", "--force", "--yes", "--json")
    assert parsed(result)["released"] is True
    assert parsed(result)["lock"]["owner"] == "somebody#" + "c" * 32
    assert not rows.is_held("a")
    assert parsed(run("release", "a", "--force", "--yes", "--json"))["released"] is False


def test_a_forced_release_leaves_all_else_in_the_row(run, rows):
    rows.put_held("a")
    before = rows.get("a")
    run("release", "a", "--force", "--yes")
    assert before is not None
    assert rows.get("a") == {**before, "isReleased": {"S": "1"}}


def test_a_lock_released_by_force_can_be_taken_at_once_and_its_token_rises(run, rows):
    rows.put_held("a", expires_in=600)
    run("release", "a", "--force", "--yes")
    with LockClient() as client, client.acquire("a", wait=0) as lock:
        assert lock.fencing_token == 8


@pytest.mark.parametrize(
    ("nonce", "owner", "said"),
    [("d" * 32, "the-next", "held by the-next"), ("c" * 32, "somebody", "renewed")],
    ids=["a newer holder", "a renewal"],
)
def test_what_changed_since_it_was_shown_is_not_released(terminal, rows, nonce, owner, said):
    rows.put_held("a")
    shown = terminal("release", "a", "--force", columns=300)
    shown.wait_for("Type the key")
    rows.put_held("a", expires_in=90, owner=owner, nonce=nonce)
    before = rows.get("a")
    shown.type("a\n")
    assert shown.wait() == 1
    assert said in shown.text
    assert "nothing was done" in shown.text
    assert rows.get("a") == before


def test_a_forced_release_whose_reply_was_lost_is_known_to_be_done(run, wire, rows):
    rows.put_held("a")
    wire.drop_reply("UpdateItem")
    assert parsed(run("release", "a", "--force", "--yes", "--json"))["released"] is True
    assert wire.count("UpdateItem") == 2


def test_a_foreign_clients_row_can_be_released(run, rows):
    rows.put("a", ownerName={"S": "java"}, leaseDuration={"S": "20000"}, recordVersionNumber={"S": "a-b-c"})
    assert run("release", "a", "--force", "--yes").returncode == 0
    assert rows.get("a") is not None
    assert not rows.is_held("a")


def test_a_row_of_the_python_schema_is_deleted(run, engine, table):
    name = engine.create_table(f"{table}-python", partition_key="lock_key", sort_key="sort_key")
    options = ("--table", name, "--schema", "python")
    from lambda_lock import PYTHON

    with LockClient(name, schema=PYTHON) as client:
        lock = client.acquire("a")
        assert run("release", "a", "--force", "--yes", *options).returncode == 0
        assert engine.scan(name) == []
        assert lock.release() is False


def test_releasing_no_lock_is_an_error(run):
    result = run("release", "none", "--force", "--yes")
    assert result.returncode == 1
    assert "no lock 'none'" in result.stderr


# table


def test_a_table_is_made_and_fits(run, run_apart, table):
    name = f"{table}-new"
    assert parsed(run("table", "create", name, "--json", "--tag", "team=x")) == {"table": name, "created": True}
    assert parsed(run("table", "check", name, "--json")) == {"table": name, "fits": True}
    assert run_apart("run", "a", "--table", name, "--", "true").returncode == 0


def test_a_table_that_exists_is_not_made_again(run, table):
    result = run("table", "create", table)
    assert result.returncode == 78
    assert table in result.stderr


def test_all_that_does_not_fit_is_said(run, engine, table):
    name = engine.create_table(f"{table}-odd", partition_key="id", sort_key="range")
    result = run("table", "check", name)
    assert result.returncode == 78
    for part in ("partition key", "sort key", "time to live"):
        assert part in result.stderr
    assert run("table", "check", name, "--partition-key", "id", "--sort-key", "range", "--no-ttl").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("schema", ["java", "go", "python"])
def test_each_schemas_table_can_be_made_checked_and_used(run, run_apart, table, schema):
    name = f"{table}-{schema}"
    assert run("table", "create", name, "--schema", schema).returncode == 0
    assert run("table", "check", name, "--schema", schema).returncode == 0
    script = f"{sys.executable} -m lambda_lock.cli get a --table {name} --schema {schema} --json"
    result = run_apart("run", "a", "--table", name, "--schema", schema, "--", "sh", "-c", script)
    assert parsed(result)["state"] == "held"


# Errors


def test_the_shared_options_stand_before_or_behind_the_command(run, rows, table):
    rows.put_held("a")
    before = run("--table", table, "--json", "ls", LAMBDA_LOCK_TABLE="")
    behind = run("ls", "--table", table, "--json", LAMBDA_LOCK_TABLE="")
    both = run("--table", "another", "ls", "--table", table, "--json", LAMBDA_LOCK_TABLE="")
    assert [lock["key"] for lock in parsed(before)] == ["a"]
    assert len({result.stdout and json.loads(result.stdout)[0]["version"] for result in (before, behind, both)}) == 1


@pytest.mark.parametrize(
    "command",
    [
        ("run", "a", "--wait", "0", "--", "true"),
        ("get", "a"),
        ("ls",),
        ("release", "a", "--force", "--yes"),
        ("forget", "a"),
        ("erase", "a"),
    ],
)
@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"LAMBDA_LOCK_TABLE": ""}, 78, "--table"),
        ({"LAMBDA_LOCK_TABLE": "missing"}, 78, "missing"),
        ({"LAMBDA_LOCK_TABLE": "no table"}, 2, "no table"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": ""}, 78, "Region"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, 78, "credentials"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, 69, "127.0.0.1:1"),
    ],
    ids=["no table", "missing table", "bad table", "no region", "no credentials", "no engine"],
)
def test_an_expected_error_is_one_message_and_an_exit_code(run, run_apart, tmp_path, command, changes, code, said):
    begin = run_apart if command[0] == "run" else run
    result = begin(*command, **{"HOME": str(tmp_path)} | changes)
    assert result.returncode == code
    assert result.stdout == ""
    assert said in result.stderr
    assert result.stderr.startswith("lambda-lock: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("get", ""), ("run", "a"), ("run", "a", "--wait", "-1", "--", "true"), ("ls", "--colour"), ("lock",)]
)
def test_wrong_arguments_exit_with_2(run, arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        "",
        "run",
        "acquire",
        "get",
        "ls",
        "release",
        "forget",
        "erase",
        "table",
        "table create",
        "table check",
        "table after-restore",
    ],
    ids=lambda name: name or "all",
)
def test_each_command_explains_itself_with_an_example(run, command):
    said = run(*command.split(), "--help").stdout
    assert "Usage: lambda-lock" in said
    assert f"lambda-lock {command}".strip() in said.partition("Options:")[0] or command == "table"
    assert command == "table" or "Example" in said


def test_verbose_logs_to_stderr_only(run_apart):
    result = run_apart("run", "a", "-vv", "--", "echo", "out")
    assert result.stdout == "out\n"
    assert "transport" in result.stderr


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_which_to_install(missing, table):
    code = f"import sys; sys.modules[{missing!r}] = None; from lambda_lock.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "ls"], capture_output=True, text=True, env=environment(), cwd=ROOT
    )
    assert result.returncode == 2
    assert result.stderr == f"lambda-lock: {missing} is missing. Install the extra: pip install 'lambda-lock[cli]'\n"


def test_the_installed_command_is_this_one():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"lambda-lock": "lambda_lock.cli:main"}


# rate limits


def test_a_rate_limit_is_shown_and_listed_and_nobody_holds_it(run):
    with LockClient() as client:
        client.rate_limit("api", 7, per=3600)
    shown = run("get", "api")
    assert "7 per 1 h, burst 1" in shown.stdout
    assert re.search(r"next start +20\d\d-.* UTC, in \d", shown.stdout)
    assert "until" not in shown.stdout
    assert parsed(run("get", "api", "--json"))["state"] == "rate"
    (listed,) = parsed(run("ls", "--json"))
    assert (listed["state"], listed["rate"], listed["holders"]) == ("rate", "7/3600/1", [])
    assert parsed(run("ls", "--held", "--json")) == []
    assert [row["key"] for row in parsed(run("ls", "--state", "rate", "--json"))] == ["api"]


def test_a_rate_limit_shows_its_next_start_and_how_many_wait(run, rows):
    def of(rate: str, ahead: float) -> tuple[str, Any]:
        rows.put("api", **row | {"rate": {"S": rate}, "nextAt": {"N": str(int((time.time() + ahead) * 1e6))}})
        return run("get", "api").stdout, parsed(run("get", "api", "--json"))

    with LockClient() as client:
        client.rate_limit("api", 1, per=3600)
    row = {name: value for name, value in (rows.get("api") or {}).items() if name != "key"}
    text, found = of("1/3600/1", 3 * 3600 - 100)
    assert found["waiters"] == 2
    assert 2.9 * 3600 < found["next_start"] - found["read_at"] < 3 * 3600
    assert re.search(r"waiting +2\n", text)
    assert re.search(r"state +rate, next in 3 h\n", text)
    text, found = of("1/3600/5", 3 * 3600)
    assert (found["waiters"], found["next_start"]) == (0, found["read_at"])
    assert re.search(r"next start +now\n", text)
    text, _ = of("1/3600/1", -86_400)
    assert re.search(r"next start +now\n", text)
    assert "until" not in text
    for odd in ("1/inf/1", "nan/1/1", "0/1/1", "x"):
        assert "next start" not in of(odd, 10)[0]


def test_a_forced_release_deletes_the_row_of_a_rate_limit(run, rows):
    with LockClient() as client:
        client.rate_limit("api", 1, per=86_400)
    refused = run("release", "api", "--force", stdin="no\n")
    assert refused.returncode == 1
    assert "the limit begins anew" in refused.stderr
    assert rows.get("api") is not None
    done = run("release", "api", "--force", "--yes")
    assert (done.returncode, rows.get("api")) == (0, None)
    assert "deleted the row of rate limit 'api'" in done.stderr + done.stdout


def test_no_command_runs_under_a_key_that_is_a_rate_limit(run_apart):
    with LockClient() as client:
        client.rate_limit("api", 1)
    refused = run_apart("run", "api", "--", "true")
    assert refused.returncode == 78
    assert "'api' is a rate limit, not a lock" in refused.stderr


def test_a_damaged_rate_limit_is_shown_as_such_and_begins_anew_when_released_by_force(run, rows):
    with LockClient() as client:
        client.rate_limit("api", 1, per=3600)
    row = rows.get("api")
    assert row is not None
    rows.put(**{name: value for name, value in row.items() if name != "key"} | {"nextAt": {"S": "x"}}, key="api")
    assert parsed(run("get", "api", "--json"))["state"] == "unreadable"
    assert run("release", "api", "--force", "--yes").returncode == 0
    assert rows.get("api") is None
