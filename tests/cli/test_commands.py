"""`lambda-lock get`, `ls`, `release` and `table`, and the messages if something is wrong."""

import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import PYTHON, LockClient
from rig.engine import ROOT
from tests.support.sampled import sampled

from .conftest import FOREIGN, FREE, check_ended, done_until, parsed, through_shell, waiting

ESCAPE = "\x1b"


# get


def test_get_shows_who_holds_the_lock_and_until_when_and_as_json_it_has_everything(run):
    attributes = {"n": 1, "half": 0.5, "tags": {"x", "y"}, "raw": b"\x00", "deep": {"a": [None, True]}}
    options: dict[str, Any] = {"data": b"half way", "attributes": attributes}
    with LockClient(owner_prefix="worker-7") as client, client.acquire("a", **options) as lock:
        said, found = run("get", "a").stdout, parsed(run("get", "a", "--json"))
    assert re.search(r"^state +held, \d+ s left$", said, re.MULTILINE)
    for name, value in (("owner", lock.owner), ("fencing token", lock.fencing_token), ("data", "half way")):
        assert re.search(rf"^{name} +{re.escape(str(value))}$", said, re.MULTILINE)
    told = tuple(found[name] for name in ("state", "owner", "fencing_token", "version"))
    assert told == ("held", lock.owner, lock.fencing_token, lock.version)
    assert 0 < found["seconds_left"] <= 23
    assert found["data"] == "aGFsZiB3YXk="
    assert found["attributes"] == {"n": 1, "half": 0.5, "tags": ["x", "y"], "raw": "AA==", "deep": {"a": [None, True]}}


def test_get_and_ls_show_how_many_wait(run, terminal, rows):
    rows.put_lock("a")
    rows.put_lock("b")
    assert "waiting" not in run("get", "a").stdout
    rows.put_lock("a", **waiting(2))
    assert re.search(r"^waiting +2$", run("get", "a").stdout, re.MULTILINE)
    found = parsed(run("get", "a", "--json"))
    assert (found["waiters"], "waiters" in found["attributes"]) == (2, False)
    assert [lock["waiters"] for lock in parsed(run("ls", "--json"))] in ([0, 2], [2, 0])
    heading, first, second, *_ = terminal("ls", NO_COLOR="1").lines()
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
        check_ended(run("release", "api", "--force", "--yes"), 1, "'api' is a semaphore, held by 2")
        assert parsed(run("get", "api", "--json"))["holders"] == found["holders"]
    assert parsed(run("get", "api", "--json"))["state"] == "free"


def test_a_semaphore_whose_holders_cannot_be_read_is_not_free_and_not_released(run, rows):
    rows.put("api", **{name: {"S": "semaphore"} for name in ("ownerName", "leaseDuration", "recordVersionNumber")})
    assert parsed(run("get", "api", "--json"))["state"] == "unreadable"
    assert re.search(r"^unreadable +permits", run("get", "api").stdout, re.MULTILINE)
    before, said = rows["api"], "'api' is a semaphore, and who holds it cannot be read"
    check_ended(run("release", "api", "--force", "--yes"), 1, said)
    assert rows["api"] == before


def test_get_and_release_of_no_lock_say_so_and_exit_with_1(run):
    for command in (("get", "none"), ("release", "none", "--force", "--yes")):
        check_ended(run(*command), 1, "no lock 'none'")
    assert run("get", "none", "--json").stdout == "null\n"


def test_states_are_told_apart(run, rows):
    rows.put_lock("expired", expires_in=-30)
    rows.put_lock("held")
    rows.put("foreign", **FOREIGN)
    rows.put("free", **FREE)
    rows.put("completed", **done_until(4102444800))
    rows.put("was completed", **done_until(1700000000))
    states = {lock["key"]: lock["state"] for lock in parsed(run("ls", "--json"))}
    same = {state: state for state in ("expired", "held", "free", "completed")}
    assert states == same | {"foreign": "held", "was completed": "free"}
    assert re.search(r"expired \d+ s ago", run("get", "expired").stdout)
    assert "held, no expiry" in run("get", "foreign").stdout
    assert "completed until  2100-01-01" in run("get", "completed").stdout
    assert "was done until  2023-11-14" in run("get", "was completed").stdout


def test_a_row_that_cannot_be_read_is_shown_as_such_and_the_others_as_ever(run, rows):
    version = {"recordVersionNumber": {"S": "v"}, "ownerName": {"S": "java"}}
    rows.put("lease", **version, leaseDuration={"S": "9" * 400})
    rows.put("token", **version, leaseDuration={"S": "20000"}, fencingToken={"S": "7"})
    rows.put("completed", **version, isReleased={"S": "1"}, completedUntil={"N": "9" * 30})
    rows.put_lock("sound")
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


def test_ls_in_a_pipe_gives_a_line_a_lock_without_colour_and_leaves_out_what_is_free_if_asked(run, rows):
    assert run("ls").stdout == ""
    assert parsed(run("ls", "--json")) == []
    rows.put_lock("b", owner="x" * 100)
    rows.put_lock("c", expires_in=-30)
    rows.put("a", **FREE)
    result = run("ls")
    assert ESCAPE not in result.stdout
    first, second, _ = (line.split("\t") for line in result.stdout.splitlines())
    assert first == ["a", "", "free", "", "", ""]
    assert second[:3] == ["b", "", "held"]
    assert second[4:] == ["7", "x" * 100 + "#" + "c" * 32]
    assert [lock["key"] for lock in parsed(run("ls", "--held", "--json"))] == ["b", "c"]


def test_ls_of_one_partition_is_a_query(run, engine, wire, table):
    name = engine.create_table(f"{table}-sorted", sort_key="range")
    with LockClient(name, sort_key_name="range") as client:
        for key, value in (("a", "1"), ("a", "2"), ("b", "1")):
            client.acquire(key, sort_key=value).release()
    wire.clear()
    locks = parsed(run("ls", "--key", "a", "--table", name, "--sort-key", "range", "--json"))
    assert [(lock["key"], lock["sort_key"]) for lock in locks] == [("a", "1"), ("a", "2")]
    assert wire.operations == ["Query"]


# On a terminal


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_a_table_that_fits(terminal, rows, columns):
    rows.put_lock("invoice-4711", owner="some-function/c6af9ac6-7b61-11e6-9a41-93e8deadbeef")
    rows.put("a" * 100, **FREE)
    shown = terminal("ls", columns=columns)
    lines = shown.lines()
    assert lines[0].split() == ["KEY", "STATE", "OWNER", "TOKEN"]
    assert lines[-1].strip() == "2 locks: 1 held, 1 free"
    assert re.search(r"^a{9,}…a{9,} +free", shown.text, re.MULTILINE)
    assert "\x1b[32m" in shown.screen


@pytest.mark.parametrize("with_all", [False, True])
def test_done_events_are_counted_and_the_locks_that_are_held_come_first(terminal, run, rows, with_all):
    key = "orders.handlers.charge_customer#5a7f0c9e-7b61-11e6-9a41-93e8deadbeef-{}"
    for number in range(3):
        rows.put(key.format(number), **done_until(2**33))
    rows.put("a-free", **FREE, fencingToken={"N": "1795243073298"})
    rows.put_lock("z-" + key.format(9), owner="some-function/c6af9ac6-7b61-11e6-9a41-93e8deadbeef")
    lines = terminal("ls", *(["--all"] if with_all else []), columns=80, NO_COLOR="1").lines()
    assert re.match(r"z-orders\S+…\S*beef-9 +held", lines[1])
    assert lines[2].startswith("a-free")
    assert sum("completed" in line for line in lines[:-1]) == (3 if with_all else 0)
    assert lines[-1].strip().startswith("5 locks: 1 held, 1 free, 3 completed")
    assert lines[-1].endswith("3 completed" if with_all else ". --all lists the 3 completed")
    assert len(parsed(run("ls", "--json"))) == len(run("ls").stdout.splitlines()) == 5
    assert key.format(0) in run("ls").stdout


def test_with_waiters_and_long_owners_keys_can_still_be_told_apart_at_80_columns(terminal, rows):
    with LockClient() as client:
        for end in ("1", "2"):
            owner = "some-function/c6af9ac6-7b61-11e6"
            rows.put_lock(f"orders.handlers.charge#5a7f0c9e-{end}", owner=owner, **waiting(1))
            client.rate_limit(f"calls-of-the-application-{end}", 1, per=3600)
    lines = terminal("ls", columns=80, NO_COLOR="1").lines()
    keys = {line.split()[0] for line in lines[1:-2]}
    assert len(keys) == 4
    assert all(len(key) >= 10 for key in keys)


@pytest.mark.parametrize("options", [[], ["--json"], ["--watch", "--interval", "0.1"]], ids=str)
def test_a_list_whose_reader_has_seen_enough_ends_quietly(rows, table, options):
    for number in range(8):
        rows.put(f"{number}", recordVersionNumber={"S": "v"}, data={"B": "a" * 300_000})
    result = through_shell('"$@" | head -n 1', "ls", *options)
    assert (result.stdout.count("\n"), result.stderr) == (1, "")


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(terminal, rows, changes):
    rows.put_lock("a")
    shown = terminal("ls", **changes)
    assert shown.wait() == 0
    assert "\x1b[3" not in shown.screen
    failing = terminal("get", "none", **changes)
    assert failing.wait() == 1
    assert ESCAPE not in failing.screen


def test_a_key_cannot_move_the_cursor_forge_a_line_or_reorder_one(run, terminal, rows):
    key = "a\x1b[2Jb\nfree\tx\u202e"
    rows.put_lock(key, owner="o\x1b]0;title\x07\u202e")
    for said in (run("ls").stdout, run("get", key).stdout, run("ls", "--json").stdout):
        assert not {ESCAPE, "\u202e"} & {*said}
    assert len(run("ls").stdout.splitlines()) == 1
    assert parsed(run("get", key, "--json"))["key"] == key
    shown = terminal("ls", NO_COLOR="1")
    assert shown.wait() == 0
    for hostile in ("\x1b[2J", "\x1b]", "\u202e"):
        assert hostile not in shown.screen


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
@pytest.mark.parametrize(
    "arguments", sampled(4, zip([["ls"], ["ls", "--json"], ["ls", "--watch"], ["get", "a"], ["--version"]]))
)
def test_output_that_cannot_be_written_is_one_message_and_an_exit_code(table, rows, arguments):
    rows.put_lock("a")
    done = through_shell('exec "$@" >/dev/full', *arguments)
    assert done.returncode == 74
    assert re.fullmatch(r"lambda-lock: input or output failed: .*No space left on device\n", done.stderr)


@pytest.mark.parametrize("arguments", sampled(3, zip([["ls"], ["ls", "--json"], ["get", "a"]])))
def test_a_command_whose_output_is_closed_ends_without_one(table, rows, arguments):
    rows.put_lock("a")
    done = through_shell('exec "$@" >&-', *arguments)
    assert (done.returncode, done.stderr) == (0, "")


# release


def test_release_needs_force(run, rows):
    rows.put_lock("a")
    check_ended(run("release", "a"), 2, "--force")
    assert rows.is_held("a")


def test_release_shows_the_holder_and_asks_for_the_key(terminal, rows):
    rows.put_lock("a-lock", owner="who-holds-it")
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
    rows.put_lock("a-lock")
    result = run("release", "a-lock", "--force", stdin=typed)
    assert (result.returncode, "not released" in result.stderr) == (1, True)
    assert rows.is_held("a-lock")


def test_release_for_scripts_does_not_ask_and_leaves_all_else_in_the_row(run, rows):
    rows.put_lock("a", expires_in=600)
    before = rows["a"]
    result = parsed(run("release", "a", "--force", "--yes", "--json"))
    assert (result["released"], result["lock"]["owner"]) == (True, "somebody#" + "c" * 32)
    assert rows["a"] == {**before, "isReleased": {"S": "1"}}
    assert parsed(run("release", "a", "--force", "--yes", "--json"))["released"] is False
    with LockClient() as client, client.acquire("a", wait=0) as lock:
        assert lock.fencing_token == 8


@pytest.mark.parametrize(
    ("act", "nonce", "owner", "said"),
    [
        ("release", "d" * 32, "the-next", "held by the-next.*nothing was done"),
        ("release", "c" * 32, "somebody", "renewed.*nothing was done"),
        ("erase", "d" * 32, "the-next", "not erased: somebody took or renewed it meanwhile"),
    ],
    ids=["a newer holder", "a renewal", "erased"],
)
def test_what_changed_since_it_was_shown_is_not_released_or_erased(terminal, rows, act, nonce, owner, said):
    rows.put_lock("a")
    shown = terminal(act, "a", "--force", columns=300)
    shown.wait_for("Type the key")
    rows.put_lock("a", expires_in=90, owner=owner, nonce=nonce)
    before = rows["a"]
    shown.type("a\n")
    assert shown.wait() == 1
    assert re.search(said, shown.text)
    assert rows["a"] == before


def test_a_forced_release_whose_reply_was_lost_is_known_to_be_done(run, wire, rows):
    rows.put_lock("a")
    wire.drop_reply("UpdateItem")
    assert parsed(run("release", "a", "--force", "--yes", "--json"))["released"] is True
    assert wire.count("UpdateItem") == 2


def test_a_foreign_clients_row_can_be_released(run, rows):
    rows.put("a", **FOREIGN)
    assert run("release", "a", "--force", "--yes").returncode == 0
    assert rows["a"]["isReleased"]


def test_a_row_of_the_python_schema_is_deleted(run, engine, table):
    name = engine.create_table(f"{table}-python", partition_key="lock_key", sort_key="sort_key")
    with LockClient(name, schema=PYTHON) as client:
        lock = client.acquire("a")
        options = ("--table", name, "--schema", "python")
        assert run("release", "a", "--force", "--yes", *options).returncode == 0
        assert engine.scan(name) == []
        assert lock.release() is False


# table


def test_a_table_is_made_and_fits(run, table):
    name = f"{table}-new"
    assert parsed(run("table", "create", name, "--json", "--tag", "team=x")) == {"table": name, "created": True}
    assert parsed(run("table", "check", name, "--json")) == {"table": name, "fits": True}
    assert run("acquire", "a", "--table", name).returncode == 0
    said = (f"table '{name}' exists already: nothing is created", "it is suitable for locks as it is")
    check_ended(run("table", "create", name), 78, *said)


def test_all_that_does_not_fit_is_said(run, engine, table):
    name = engine.create_table(f"{table}-odd", partition_key="id", sort_key="range")
    faults = ("partition key is 'id', not 'key'", "sort key", "time to live")
    check_ended(run("table", "check", name), 78, *faults)
    exists, unfit = (f"table '{name}' {said}" for said in ("exists already: nothing is created", "is not suitable"))
    check_ended(run("table", "create", name), 78, exists, unfit, *faults)
    assert run("table", "check", name, "--partition-key", "id", "--sort-key", "range", "--no-ttl").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("schema", ["java", "go", "python"])
def test_each_schemas_table_can_be_made_and_checked(run, table, schema):
    name = f"{table}-{schema}"
    assert run("table", "create", name, "--schema", schema).returncode == 0
    assert run("table", "check", name, "--schema", schema).returncode == 0


# Errors


def test_the_shared_options_stand_before_or_behind_the_command(run, rows, table):
    rows.put_lock("a")
    before = run("--table", table, "--json", "ls", LAMBDA_LOCK_TABLE="")
    behind = run("ls", "--table", table, "--json", LAMBDA_LOCK_TABLE="")
    both = run("--table", "another", "ls", "--table", table, "--json", LAMBDA_LOCK_TABLE="")
    assert [lock["key"] for lock in parsed(before)] == ["a"]
    assert len({result.stdout and json.loads(result.stdout)[0]["version"] for result in (before, behind, both)}) == 1


@pytest.mark.parametrize(
    "command", ["run a --wait 0 -- true", "get a", "ls", "release a --force --yes", "forget a", "erase a"]
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
    begin = run_apart if command.startswith("run") else run
    result = begin(*command.split(), **{"HOME": str(tmp_path)} | changes)
    check_ended(result, code, said)
    assert result.stderr.startswith("lambda-lock: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("get", ""), ("run", "a"), ("run", "a", "--wait", "-1", "--", "true"), ("ls", "--colour"), ("lock",)]
)
def test_wrong_arguments_exit_with_2(run, arguments):
    result = run(*arguments)
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)


COMMANDS = ["run", "acquire", "get", "ls", "release", "forget", "erase", "table"]
OF_TABLES = [f"table {name}" for name in ("create", "check", "after-restore")]


@pytest.mark.parametrize("command", ["", *COMMANDS, *OF_TABLES], ids=lambda name: name or "all")
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
    result = through_shell(f'"$1" -c "{code}" ls')
    said = f"lambda-lock: {missing} is missing. Install the extra: pip install 'lambda-lock[cli]'\n"
    assert (result.returncode, result.stderr) == (2, said)


def test_the_installed_command_is_this_one():
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


@pytest.fixture
def limit(table: str) -> None:
    """A rate limit ``api`` of one start an hour, which has just been used."""
    with LockClient() as client:
        client.rate_limit("api", 1, per=3600)


@pytest.mark.usefixtures("limit")
def test_a_rate_limit_shows_its_next_start_and_how_many_wait(run, rows):
    def of(rate: str, ahead: float) -> tuple[str, Any]:
        rows.change("api", rate={"S": rate}, nextAt={"N": str(int((time.time() + ahead) * 1e6))})
        return run("get", "api").stdout, parsed(run("get", "api", "--json"))

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


@pytest.mark.usefixtures("limit")
def test_a_forced_release_deletes_the_row_of_a_rate_limit_also_of_a_damaged_one(run, rows):
    damaged = rows["api"] | {"nextAt": {"S": "x"}}
    refused = run("release", "api", "--force", stdin="no\n")
    assert (refused.returncode, "the limit begins anew" in refused.stderr) == (1, True)
    assert rows["api"]
    done = run("release", "api", "--force", "--yes")
    assert (done.returncode, rows.get("api")) == (0, None)
    assert "deleted the row of rate limit 'api'" in done.stderr + done.stdout
    rows.put(damaged.pop("key")["S"], **damaged)
    assert parsed(run("get", "api", "--json"))["state"] == "unreadable"
    assert run("release", "api", "--force", "--yes").returncode == 0
    assert rows.get("api") is None
