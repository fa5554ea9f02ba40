"""`lambda-lock run`: exit codes, streams, signals, and lost locks."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import LockClient
from tests.support.sampled import sampled
from tests.support.waiting import DEADLINE, wait_until

from .conftest import PROGRAM, Run, Start, check_ended, children, environment, parsed, through_shell, wait_gone

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


LISTENING = (sys.executable, "-c", LISTENER)


def line(process: Any) -> Any:
    return process.stdout.readline().strip()


SLEEPER = ("sh", "-c", "echo ready; exec sleep 600")


def ready(start: Start, *options: str, command: Sequence[str] = SLEEPER, **changes: str) -> Any:
    """Start a command that says when it is ready, under the lock "a"."""
    process = start("run", "a", *options, "--", *command, **changes)
    assert line(process) == "ready"
    return process


# Exit codes and streams


@pytest.mark.parametrize("code", sampled(3, zip([0, 1, 7, 75, 255])))
def test_the_exit_code_is_the_commands(run_apart, rows, code):
    result = run_apart("run", "a", "--", "sh", "-c", f"exit {code}")
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")
    assert not rows.is_held("a")


@pytest.mark.parametrize("option", ["-la", "--color=auto"])
def test_an_option_of_the_command_without_the_dashes_is_told_where_they_go(run, rows, option):
    said = "put -- between the key and the command: lambda-lock run KEY -- COMMAND..."
    check_ended(run("run", "a", "ls", option), 2, said, "Usage: lambda-lock run [OPTIONS] KEY -- COMMAND...")
    assert rows.get("a") is None


def test_an_unknown_option_before_the_dashes_is_ours(run):
    result = run("run", "a", "--wiat", "5", "--", "ls", "-la")
    check_ended(result, 2, "--wiat")
    assert "between the key" not in result.stderr


def test_a_command_that_a_signal_ended_gives_128_and_its_number(run_apart):
    assert run_apart("run", "a", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_the_command_has_its_arguments_and_streams_and_learns_key_token_and_owner(run_apart, rows):
    learned = "$LAMBDA_LOCK_KEY $LAMBDA_LOCK_FENCING_TOKEN $LAMBDA_LOCK_OWNER"
    script = f'cat; echo wrong >&2; printf "%s|" "$@"; echo "{learned}"'
    arguments = ("--json", "-v", "--", "a b", "$HOME", "")
    result = run_apart("run", "a", "--wait", "5", "--", "sh", "-c", script, "sh", *arguments, stdin="one\ntwo\n")
    token, owner = rows["a"]["fencingToken"]["N"], rows["a"]["ownerName"]["S"]
    assert result.stdout == f"one\ntwo\n--json|-v|--|a b|$HOME||a {token} {owner}\n"
    assert result.stderr == "wrong\n"


@pytest.mark.parametrize(("command", "named"), [("no-such-command", "no-such-command"), ("", "''")])
def test_a_command_that_is_not_there_gives_127_and_holds_nothing(run_apart, rows, command, named):
    result = run_apart("run", "a", "--", command)
    check_ended(result, 127)
    assert result.stderr == f"lambda-lock: {named}: command not found\n"
    assert not rows.is_held("a")


def test_a_file_that_cannot_be_run_gives_126(run_apart, tmp_path):
    (tmp_path / "text").write_text("not a program")
    check_ended(run_apart("run", "a", "--", str(tmp_path / "text")), 126, "Permission denied")


@pytest.mark.parametrize("wait", ["0", "1.2"])
def test_a_lock_that_is_held_is_not_granted_and_the_holder_is_named(run_apart, rows, wait):
    rows.put_lock("a", owner="the-other")
    check_ended(run_apart("run", "a", "--wait", wait, "--", "echo", "ran"), 75, "the-other", "--wait")


@pytest.mark.long
def test_the_lock_is_renewed_while_the_command_runs(run_apart, start, rows):
    process = start("run", "a", "--lease", "2", "--", "sh", "-c", "exec sleep 600")
    rows.wait_held("a")
    for _ in range(4):  # renewals are a third of the lease apart, so this takes longer than the lease
        rows.wait_changed("a")
    assert run_apart("run", "a", "--wait", "0", "--", "true").returncode == 75
    process.terminate()
    assert process.wait(DEADLINE) == 143


@pytest.mark.long
def test_rows_without_time_to_live_can_be_had(run_apart, rows):
    for key, options in (("with", ()), ("without", ("--no-ttl",))):
        run_apart("run", key, *options, "--", "true")
    assert "ttl" in rows["with"]
    assert "ttl" not in rows["without"]


@pytest.mark.long
def test_a_lock_in_a_table_with_a_sort_key_can_be_held_seen_and_released(run_apart, engine, table):
    name = engine.create_table(f"{table}-sorted", sort_key="range")
    options = ("--table", name, "--sort-key", "range", "--sort-value", "one")
    program = f"{sys.executable} -m lambda_lock.cli"
    script = f"{program} get a {' '.join(options)} --json; {program} release a --force --yes {' '.join(options)}"
    result = run_apart("run", "a", *options, "--", "sh", "-c", script)
    assert result.returncode == 0
    assert (parsed(result)["sort_key"], parsed(result)["state"]) == ("one", "held")


def test_a_release_that_failed_is_said_and_the_exit_code_is_the_commands(run_apart, wire):
    wire.unavailable("UpdateItem", times=float("inf"), when=lambda request: "ReturnValues" not in request.body)
    check_ended(run_apart("run", "a", "--lease", "60", "--", "sh", "-c", "exit 4"), 4, "not released")


# Signals


@pytest.mark.parametrize("name", sampled(6, zip(["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])))
def test_a_signal_is_passed_on_once_and_the_lock_is_released_at_the_end(start, rows, name):
    process = ready(start, command=LISTENING)
    process.send_signal(signal.Signals[name])
    assert line(process) == name
    if name != "SIGTERM":
        assert rows.is_held("a")
        process.terminate()
        assert line(process) == "SIGTERM"
    assert process.wait(DEADLINE) == 3
    assert not rows.is_held("a")


def test_a_command_that_does_not_heed_the_signal_goes_on_under_its_lock(start, rows):
    process = ready(start, command=("sh", "-c", "trap '' TERM; echo ready; sleep 3; exit 5"))
    process.terminate()
    assert rows.is_held("a")
    assert process.wait(DEADLINE) == 5


@pytest.mark.parametrize(("send", "number"), [(os.kill, signal.SIGTERM), (os.killpg, signal.SIGINT)])
def test_a_command_ended_by_a_signal_that_was_passed_on_or_to_the_group_gives_128_and_its_number(
    start, rows, send, number
):
    process = ready(start)
    send(process.pid, number)
    assert process.wait(DEADLINE) == 128 + number
    assert not rows.is_held("a")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_waiting_ends_the_wait_and_nothing_is_run(start, rows, number):
    rows.put_lock("a", owner="the-other", expires_in=600)
    before = rows["a"]
    process = start("run", "a", "--wait", "inf", "-vv", "--", "echo", "ran")
    assert "transport" in process.stderr.readline()  # it is asking for the lock
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (128 + number, "")
    assert "was not run" in err
    assert rows["a"] == before


def test_the_command_starts_with_the_usual_signals(run_apart):
    """No signal is blocked or ignored. The ones that we block for ourselves must not affect the child."""
    status = run_apart("run", "a", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status").stdout
    masks = dict(re.findall(r"(Sig\w+):\s*([0-9a-f]+)", status))
    assert int(masks["SigBlk"], 16) == 0
    assert not int(masks["SigIgn"], 16) & 1 << signal.SIGPIPE - 1


def test_a_signal_ignored_from_the_start_stays_ignored(table):
    said = through_shell('trap "" HUP; exec "$@"', "run", "a", "--", "grep", "SigIgn", "/proc/self/status").stdout
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
    rows.put_lock("a", expires_in=600)
    process = start("run", "a", "--wait", "inf", "-vv", "--", "echo", "ran")
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
    wait_until(lambda: run("release", key, "--force", "--yes").returncode == 0)


def test_a_lost_lock_ends_the_command_and_what_it_started(run, start, rows):
    process = start("run", "a", "--lease", "1", "--", "sh", "-c", "sleep 600 & echo $!; wait")
    grandchild = int(line(process))
    take_away(run, "a")
    assert process.wait(DEADLINE) == 76
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
    process = ready(start, "--lease", "1", "--kill-after", "60", command=LISTENING)
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


@pytest.mark.long
def test_a_command_that_ended_although_its_lock_was_lost_keeps_its_exit_code(run, start, tmp_path):
    """Its work is done, and another exit code could cause it to be repeated.

    A message says that somebody else may have run at the same time.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with LockClient() as client:
        script = 'echo ready; read x < "$FIFO"; exit 4'
        process = ready(start, "--lease", "60", command=("sh", "-c", script), FIFO=str(fifo))
        take_away(run, "a")
        theirs = client.acquire("a")
        fifo.write_text("go\n")
        assert process.wait(DEADLINE) == 4
        assert theirs.is_held
    assert "lost" in process.stderr.read()
