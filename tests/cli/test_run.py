"""`lambda-lock run`: exit codes, streams, signals, and lost locks."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lambda_lock import LockClient
from tests.support.sampled import sampled
from tests.support.waiting import DEADLINE

from .conftest import PROGRAM, Run, children, environment, parsed, wait_gone

# Prints each signal that it gets, and exits with 3 on SIGTERM. They come through a pipe: a handler of Python's does not
# run if its signal comes right before a pause().
LISTENER = """
import os, signal, sys
read, write = os.pipe()
os.set_blocking(write, False)
signal.set_wakeup_fd(write)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda *_: None)
print("ready", flush=True)
while True:
    number = os.read(read, 1)[0]
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM: sys.exit(3)
"""


@pytest.fixture
def run(run_apart: Run) -> Run:
    return run_apart


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# Exit codes and streams


@pytest.mark.parametrize("code", sampled(3, zip([0, 1, 7, 75, 255])))
def test_the_exit_code_is_the_commands(run, rows, code):
    result = run("run", "a", "--", "sh", "-c", f"exit {code}")
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")
    assert not rows.is_held("a")


@pytest.mark.parametrize("option", ["-la", "--color=auto"])
def test_an_option_of_the_command_without_the_dashes_is_told_where_they_go(run, rows, option):
    result = run("run", "a", "ls", option)
    assert result.returncode == 2
    assert "put -- between the key and the command: lambda-lock run KEY -- COMMAND..." in result.stderr
    assert "Usage: lambda-lock run [OPTIONS] KEY -- COMMAND..." in result.stderr
    assert rows.get("a") is None


def test_an_unknown_option_before_the_dashes_is_ours(run):
    result = run("run", "a", "--wiat", "5", "--", "ls", "-la")
    assert result.returncode == 2
    assert "--wiat" in result.stderr
    assert "between the key" not in result.stderr


def test_a_command_that_a_signal_ended_gives_128_and_its_number(run):
    assert run("run", "a", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_stdin_stdout_and_stderr_are_the_commands(run):
    result = run("run", "a", "--", "sh", "-c", "cat; echo wrong >&2", stdin="one\ntwo\n")
    assert (result.stdout, result.stderr) == ("one\ntwo\n", "wrong\n")


def test_arguments_reach_the_command_as_they_are(run):
    result = run("run", "a", "--wait", "5", "--", "printf", "%s|", "--json", "-v", "--", "a b", "$HOME", "")
    assert result.stdout == "--json|-v|--|a b|$HOME||"


def test_the_command_learns_key_token_and_owner(run, rows):
    script = 'echo "$LAMBDA_LOCK_KEY $LAMBDA_LOCK_FENCING_TOKEN $LAMBDA_LOCK_OWNER"'
    key, token, owner = run("run", "a", "--", "sh", "-c", script).stdout.split()
    row = rows.get("a")
    assert row is not None
    assert (key, {"N": token}, {"S": owner}) == ("a", row["fencingToken"], row["ownerName"])


def test_a_command_that_is_not_there_gives_127_and_holds_nothing(run, rows):
    result = run("run", "a", "--", "no-such-command")
    assert result.returncode == 127
    assert result.stderr == "lambda-lock: no-such-command: command not found\n"
    assert not rows.is_held("a")


def test_a_command_without_a_name_gives_127_and_holds_nothing(run, rows):
    result = run("run", "a", "--", "")
    assert (result.returncode, result.stdout, result.stderr) == (127, "", "lambda-lock: '': command not found\n")
    assert not rows.is_held("a")


def test_a_file_that_cannot_be_run_gives_126(run, tmp_path):
    (tmp_path / "text").write_text("not a program")
    result = run("run", "a", "--", str(tmp_path / "text"))
    assert result.returncode == 126
    assert "Permission denied" in result.stderr


def test_a_lock_that_is_held_is_not_granted_and_the_holder_is_named(run, rows):
    rows.put_held("a", owner="the-other")
    result = run("run", "a", "--wait", "0", "--", "echo", "ran")
    assert (result.returncode, result.stdout) == (75, "")
    assert "the-other" in result.stderr
    assert "--wait" in result.stderr


def test_a_wait_that_ran_out_is_not_granted(run, rows):
    rows.put_held("a")
    assert run("run", "a", "--wait", "1.2", "--", "echo", "ran").returncode == 75


def test_the_lock_is_waited_for_and_held_while_the_command_runs(run, start):
    first = start("run", "a", "--", "sh", "-c", "echo in; sleep 1; echo out")
    assert line(first) == "in"
    second = run("run", "a", "--wait", "60", "--", "echo", "mine")
    assert (second.returncode, second.stdout) == (0, "mine\n")
    assert first.wait(DEADLINE) == 0


@pytest.mark.long
def test_the_lock_is_renewed_while_the_command_runs(run, start, rows):
    process = start("run", "a", "--lease", "2", "--", "sh", "-c", "exec sleep 600")
    rows.wait_held("a")
    for _ in range(4):  # renewals are a third of the lease apart, so this takes longer than the lease
        rows.wait_changed("a")
    assert run("run", "a", "--wait", "0", "--", "true").returncode == 75
    process.terminate()
    assert process.wait(DEADLINE) == 143


@pytest.mark.long
def test_rows_without_time_to_live_can_be_had(run, rows):
    run("run", "with", "--", "true")
    run("run", "without", "--no-ttl", "--", "true")
    assert "ttl" in (rows.get("with") or {})
    assert "ttl" not in (rows.get("without") or {})


@pytest.mark.long
def test_a_lock_in_a_table_with_a_sort_key_can_be_held_seen_and_released(run, engine, table):
    name = engine.create_table(f"{table}-sorted", sort_key="range")
    options = ("--table", name, "--sort-key", "range", "--sort-value", "one")
    program = f"{sys.executable} -m lambda_lock.cli"
    script = f"{program} get a {' '.join(options)} --json; {program} release a --force --yes {' '.join(options)}"
    result = run("run", "a", *options, "--", "sh", "-c", script)
    assert result.returncode == 0
    assert (parsed(result)["sort_key"], parsed(result)["state"]) == ("one", "held")


def test_a_release_that_failed_is_said_and_the_exit_code_is_the_commands(run, wire):
    wire.unavailable("UpdateItem", times=float("inf"), when=lambda request: "ReturnValues" not in request.body)
    result = run("run", "a", "--lease", "60", "--", "sh", "-c", "exit 4")
    assert result.returncode == 4
    assert "not released" in result.stderr


# Signals


@pytest.mark.parametrize("name", sampled(6, zip(["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])))
def test_a_signal_is_passed_on_once_and_the_lock_is_released_at_the_end(start, rows, name):
    process = start("run", "a", "--", sys.executable, "-c", LISTENER)
    assert line(process) == "ready"
    process.send_signal(signal.Signals[name])
    assert line(process) == name
    if name != "SIGTERM":
        assert rows.is_held("a")
        process.terminate()
        assert line(process) == "SIGTERM"
    assert process.wait(DEADLINE) == 3
    assert not rows.is_held("a")


def test_a_command_that_does_not_heed_the_signal_goes_on_under_its_lock(start, rows):
    process = start("run", "a", "--", "sh", "-c", "trap '' TERM; echo ready; sleep 3; exit 5")
    assert line(process) == "ready"
    process.terminate()
    assert rows.is_held("a")
    assert process.wait(DEADLINE) == 5


def test_a_command_ended_by_a_signal_that_was_passed_on_gives_128_and_its_number(start, rows):
    process = start("run", "a", "--", "sh", "-c", "echo ready; exec sleep 60")
    assert line(process) == "ready"
    process.terminate()
    assert process.wait(DEADLINE) == 143
    assert not rows.is_held("a")


def test_a_signal_to_the_process_group_ends_both_and_releases(start, rows):
    process = start("run", "a", "--", "sh", "-c", "echo ready; exec sleep 60")
    assert line(process) == "ready"
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert not rows.is_held("a")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_waiting_ends_the_wait_and_nothing_is_run(start, rows, number):
    rows.put_held("a", owner="the-other", expires_in=600)
    before = rows.get("a")
    process = start("run", "a", "--wait", "inf", "-vv", "--", "echo", "ran")
    assert process.stderr is not None
    assert "transport" in process.stderr.readline()  # it is asking for the lock
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + number
    assert out == ""
    assert "was not run" in err
    assert rows.get("a") == before


def test_the_command_starts_with_the_usual_signals(run):
    """No signal is blocked or ignored. The ones that we block for ourselves must not affect the child."""
    status = run("run", "a", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status").stdout
    masks = dict(re.findall(r"(Sig\w+):\s*([0-9a-f]+)", status))
    assert int(masks["SigBlk"], 16) == 0
    assert not int(masks["SigIgn"], 16) & 1 << signal.SIGPIPE - 1


def test_a_signal_ignored_from_the_start_stays_ignored(table):
    command = [
        "sh",
        "-c",
        'trap "" HUP; exec "$@"',
        "sh",
        *PROGRAM,
        "run",
        "a",
        "--",
        "grep",
        "SigIgn",
        "/proc/self/status",
    ]
    said = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=100).stdout
    assert int(said.split()[1], 16) & 1 << signal.SIGHUP - 1


def test_ctrl_c_on_a_terminal_reaches_the_command_once(terminal, rows):
    shown = terminal("run", "a", "--", sys.executable, "-c", LISTENER)
    shown.wait_for("ready")
    shown.type("\x03")
    shown.wait_for("SIGINT")
    assert rows.is_held("a")
    shown.type("\x1c")  # Ctrl-backslash: the output of a second SIGINT would come before this one's
    shown.wait_for("SIGQUIT")
    os.kill(shown.pid, signal.SIGTERM)
    assert shown.wait() == 3
    assert shown.text.count("SIGINT") == 1
    assert not rows.is_held("a")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a child that its parent died")
def test_the_command_is_ended_if_the_process_that_renews_its_lock_is_killed(start, rows):
    process = start("run", "a", "--", sys.executable, "-c", f"import os; print(os.getpid(), flush=True)\n{LISTENER}")
    pid = int(line(process))
    assert line(process) == "ready"
    process.kill()
    assert line(process) == "SIGTERM"
    wait_gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_what_waits_with_us_for_the_lock_ends_with_us_and_runs_nothing(start, rows):
    rows.put_held("a", expires_in=600)
    process = start("run", "a", "--wait", "inf", "-vv", "--", "echo", "ran")
    assert process.stderr is not None
    assert "transport" in process.stderr.readline()  # it is asking for the lock
    (child,) = children(process.pid)
    process.kill()
    assert process.communicate(timeout=DEADLINE)[0] == ""
    wait_gone(child)


def test_the_command_has_the_terminal(terminal):
    shown = terminal("run", "a", "--", "sh", "-c", "test -t 0 && test -t 1 && read x && echo got $x")
    shown.type("this\n")
    assert shown.wait() == 0
    assert "got this" in shown.text


# Lost


def take_away(run: Run, key: str) -> None:
    """Release a lock by force. Try again if its holder renewed it between the command's read and its write."""
    end = time.monotonic() + DEADLINE
    while run("release", key, "--force", "--yes").returncode != 0:
        assert time.monotonic() < end, "the lock was renewed each time"


def test_a_lost_lock_ends_the_command_and_what_it_started(run, start, rows):
    process = start("run", "a", "--lease", "1", "--", "sh", "-c", "sleep 600 & echo $!; wait")
    grandchild = int(line(process))
    take_away(run, "a")
    assert process.wait(DEADLINE) == 76
    assert process.stderr is not None
    assert "lost" in process.stderr.read()
    wait_gone(grandchild)


@pytest.mark.long
def test_a_command_that_does_not_heed_sigterm_is_killed(run, start):
    script = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    process = start("run", "a", "--lease", "1", "--kill-after", "0.3", "--", "sh", "-c", script)
    pid = int(line(process))
    take_away(run, "a")
    assert process.wait(DEADLINE) == 76
    wait_gone(pid)


@pytest.mark.long
def test_a_command_that_ends_by_itself_on_sigterm_may_clean_up(run, start):
    process = start("run", "a", "--lease", "1", "--kill-after", "60", "--", sys.executable, "-c", LISTENER)
    assert line(process) == "ready"
    take_away(run, "a")
    assert line(process) == "SIGTERM"
    assert process.wait(DEADLINE) == 76


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_a_message_that_cannot_be_written_keeps_no_command_alive(run, tmp_path, stderr):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = shlex.join([*PROGRAM, "run", "a", "--lease", "1", "--", "sh", "-c", 'echo $$ > "$FIFO"; exec sleep 600'])
    process = subprocess.Popen(["sh", "-c", f"exec {command} {stderr}"], env=environment(FIFO=str(fifo)))
    pid = int(fifo.read_text())
    take_away(run, "a")
    assert process.wait(DEADLINE) == 76
    wait_gone(pid)


def test_another_holders_row_is_left_alone_after_the_loss(start, rows):
    process = start("run", "a", "--lease", "1", "--", "sh", "-c", "echo ready; exec sleep 600")
    assert line(process) == "ready"
    rows.put_held("a", owner="the-other")
    theirs = rows.get("a")
    assert process.wait(DEADLINE) == 76
    assert rows.get("a") == theirs


@pytest.mark.long
def test_a_lock_that_cannot_be_renewed_is_lost_with_its_validity(wire, start):
    process = start("run", "a", "--lease", "2", "--", "sh", "-c", "echo ready; exec sleep 600")
    assert line(process) == "ready"
    wire.unavailable("UpdateItem", times=float("inf"))
    assert process.wait(DEADLINE) == 76


@pytest.mark.long
def test_a_command_that_ended_although_its_lock_was_lost_keeps_its_exit_code(run, start, tmp_path):
    """Its work is done, and another exit code could cause it to be repeated.

    A message says that somebody else may have run at the same time.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with LockClient() as client:
        script = 'echo ready; read x < "$FIFO"; exit 4'
        process = start("run", "a", "--lease", "60", "--", "sh", "-c", script, FIFO=str(fifo))
        assert line(process) == "ready"
        take_away(run, "a")
        theirs = client.acquire("a")
        fifo.write_text("go\n")
        assert process.wait(DEADLINE) == 4
        assert theirs.is_held
    assert process.stderr is not None
    assert "lost" in process.stderr.read()
