"""`lambda-lock acquire` and `release STRING`: a lock that is taken by one command and released by another."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from lambda_lock import LockClient
from rig.engine import ROOT
from rig.wire import Request, Wire
from tests.support.waiting import wait_until

from .conftest import PROGRAM, check_ended, environment, parsed, through_shell


def test_a_lock_is_taken_by_one_command_and_released_by_another(run, run_apart, rows):
    taken = run_apart("acquire", "deploy", "--lease", "900")
    assert taken.returncode == 0
    assert re.fullmatch(r"\S+\n", taken.stdout)
    assert re.fullmatch(r"lambda-lock: lock 'deploy' is held for 15 min, under token \d+\n", taken.stderr)
    shown = parsed(run("get", "deploy", "--json"))
    assert (shown["state"], shown["lease_duration"]) == ("held", 900)
    check_ended(run("acquire", "deploy", "--wait", "0"), 75)
    for _ in range(2):  # again, as a trap does
        released = run("release", taken.stdout.strip())
        assert (released.returncode, released.stderr) == (0, "lambda-lock: released the lock\n")
    assert not rows.is_held("deploy")


def test_as_json_it_names_the_token_and_the_string(run, rows):
    found = parsed(run("acquire", "deploy", "--json"))
    assert found.keys() == {"string", "key", "fencing_token", "owner", "lease"}
    shown = parsed(run("get", "deploy", "--json"))
    assert [found[name] for name in ("fencing_token", "owner")] == [shown[name] for name in ("fencing_token", "owner")]
    assert parsed(run("release", found["string"], "--json")) == {"released": True}


def test_a_lock_that_somebody_else_has_since_is_not_released(run, rows):
    string = run("acquire", "deploy").stdout.strip()
    assert run("release", "deploy", "--force", "--yes").returncode == 0
    with LockClient() as client, client.acquire("deploy"):
        check_ended(run("release", string), 76, "not held under this string any more")
        assert rows.is_held("deploy")


def test_the_next_acquire_of_the_same_holder_goes_on_with_a_lock_whose_string_was_lost(run):
    lost, again = (run("acquire", "deploy", "--holder", "job-7", "--wait", "0") for _ in range(2))
    assert (lost.returncode, again.returncode) == (0, 0)
    assert re.findall(r"token (\d+)", lost.stderr) == re.findall(r"token (\d+)", again.stderr)
    assert run("release", again.stdout.strip()).returncode == 0


def test_a_lock_whose_string_cannot_be_printed_is_released(rows):
    reader, writer = os.pipe()
    os.close(reader)
    command = [*PROGRAM, "acquire", "deploy"]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment(), timeout=60)
    finally:
        os.close(writer)
    assert done.returncode == 74
    assert "lock 'deploy' is not held, because its string cannot be printed" in done.stderr
    assert rows["deploy"]["isReleased"]


def test_nothing_is_taken_if_the_string_could_not_be_printed_at_all(rows):
    check_ended(through_shell('exec "$@" >&-', "acquire", "deploy"), 74, "its output is closed")
    assert rows.get("deploy") is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("permits", "before"),
    [((), 0), ((), 1), (("--permits", "2"), 1)],
    ids=["a lock", "a lock it went on with", "a permit"],
)
def test_an_acquire_that_fails_late_leaves_what_the_next_one_of_its_holder_goes_on_with(
    permits, before, table, run_apart, run, wire
):
    asked = ("acquire", "deploy", "--holder", "job-7", *permits)
    for _ in range(before):
        assert run_apart(*asked).returncode == 0
    wire.clear()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b" " * 4096)
    os.set_blocking(writer, True)
    stuck = subprocess.Popen([*PROGRAM, *asked], stdout=writer, stderr=subprocess.PIPE, text=True, env=environment())
    os.close(writer)
    wait_until(lambda: len(_renewals(wire)) == before + 1)  # it is handed over
    again = run_apart(*asked, "--wait", "0")
    os.close(reader)
    stuck.communicate(timeout=60)
    assert (stuck.returncode, again.returncode) == (74, 0)
    assert parsed(run("get", "deploy", "--json"))["holders"]
    assert run("release", again.stdout.strip()).returncode == 0


def _renewals(wire: Wire) -> list[Request]:
    """Those that were answered. They go on with a lock, or hand it over, and leave its token as it is."""
    sent = [each for each in wire.requests if each.operation == "UpdateItem" and each.status == 200]
    return [each for each in sent if "token" not in each.body["UpdateExpression"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_and_nothing_is_held(start, rows, number):
    rows.put_lock("deploy")
    waiting = start("acquire", "deploy", "--wait", "60")
    wait_until(lambda: "waiters" in rows["deploy"])
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (128 + number, "")
    assert "a signal arrived: lock 'deploy' is not held" in err


def test_a_signal_that_is_ignored_as_by_nohup_ends_no_wait(run, rows):
    rows.put_lock("deploy")
    command = ["sh", "-c", 'trap "" HUP; exec "$0" "$@"', *PROGRAM, "acquire", "deploy", "--wait", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as waiting:
        wait_until(lambda: "waiters" in rows["deploy"])
        waiting.send_signal(signal.SIGHUP)
        assert run("release", "deploy", "--force", "--yes").returncode == 0
        out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, bool(out)) == (0, True)
    assert rows.is_held("deploy")


def test_ctrl_c_while_the_lock_is_granted_releases_it(terminal, wire, rows):
    granted = wire.delay_reply("UpdateItem", when=lambda request: "deploy" in str(request.body))
    shown = terminal("acquire", "deploy")
    assert granted.reached.wait(60)
    shown.type("\x03")
    shown.wait_for("^C")
    granted.release()
    assert shown.wait() == 130
    assert not rows.is_held("deploy")


def test_what_is_not_a_string_of_acquire_is_refused_with_what_to_do(run, rows):
    string = run("acquire", "deploy").stdout.strip()
    check_ended(run("release", string[:-3]), 2, "is not a string that `acquire` printed", "use --force")
    check_ended(run("release", string, "--table", "another-table"), 78, "handed over in table")
    check_ended(run("release", string, "--yes"), 2)
    assert rows.is_held("deploy")


_PAGE = (ROOT / "docs" / "command-line.md").read_text().partition("## Hold a lock over several steps")[2]


@pytest.fixture
def commands(table: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds `lambda-lock`, and what the examples call in its folder."""
    for name, does in (
        ("lambda-lock", f'exec {" ".join(PROGRAM)} "$@"'),
        ("build.sh", "echo built"),
        ("deploy.sh", 'lambda-lock get deploy --json | grep -q \'"state": "held"\' && echo deployed'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    return environment(PATH=f"{tmp_path}:{os.environ['PATH']}")


def _shell(script: str, folder: Path, variables: dict[str, str]) -> str:
    # Without a time limit of its own: it starts programs, of which each takes seconds on a busy machine.
    done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_script_of_the_page_works_under_the_lock(commands, tmp_path, rows):
    (script,) = re.findall(r"^```sh\n(.*?)^```$", _PAGE.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert _shell(script, tmp_path, commands) == "built\ndeployed\n"
    assert not rows.is_held("deploy")


@pytest.mark.long
def test_the_steps_of_the_page_pass_the_lock_on_and_a_run_again_goes_on_with_it(commands, tmp_path, rows):
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", _PAGE.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    first, work, last = (step["run"] for step in yaml.safe_load(text)["steps"])
    variables = commands | {"GITHUB_RUN_ID": "run-7", "GITHUB_OUTPUT": str(tmp_path / "output")}
    _shell(first, tmp_path, variables)  # the runner dies
    (tmp_path / "output").write_text("")
    _shell(first, tmp_path, variables)
    string = (tmp_path / "output").read_text().removeprefix("string=").strip()
    assert _shell(work, tmp_path, variables) == "deployed\n"
    _shell(last.replace("${{ steps.lock.outputs.string }}", string), tmp_path, variables)
    assert not rows.is_held("deploy")
