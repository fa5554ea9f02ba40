"""`lambda-lock dev`: a DynamoDB on loopback with a table, for as long as the command runs."""

import contextlib
import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambda_lock.cli import dev
from lambda_lock.cli.guard import reason_to_refuse
from rig.engine import ROOT, inherited_environment, request_headers
from tests.support.waiting import DEADLINE

from .conftest import PROGRAM, Start, check_ended, children, started, wait_gone

ENGINE = Path(os.environ.get("LAMBDA_LOCK_ENGINE_BIN") or ROOT / ".venv-engine" / "bin" / "ministack")


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that can run `ministack` and `lambda-lock`, and knows nothing about AWS."""
    programs, scratch = tmp_path / "bin", tmp_path / "tmp"
    programs.mkdir()
    (programs / "ministack").symlink_to(ENGINE)
    scratch.mkdir()
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}
    return inherited_environment() | paths


@pytest.fixture
def start_dev(shell: dict[str, str]) -> Iterator[Start]:
    """Starts the command with pipes."""
    yield from started([*PROGRAM, "dev"], lambda **changes: shell | changes)


def printed(process: Any) -> dict[str, str]:
    """The variables that it prints once it is ready, as a shell would read them."""
    said = process.stderr.readline()
    assert "Ctrl-C stops it" in said, said + process.stderr.read()
    assert process.stdout.readline().startswith("unset ")
    found = {}
    while "LAMBDA_LOCK_TABLE" not in found:
        word, assignment = shlex.split(process.stdout.readline())
        assert word == "export"
        name, _, found[name] = assignment.partition("=")
    return found


def port_of(variables: dict[str, str]) -> int:
    return int(variables["AWS_ENDPOINT_URL"].rpartition(":")[2])


def replace_engine(shell: dict[str, str], text: str) -> None:
    """Write another program in the place of the engine's."""
    program = Path(shell["PATH"].partition(":")[0]) / "ministack"
    program.unlink()
    program.write_text(text)
    program.chmod(0o755)


def cli(shell: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], env=shell, capture_output=True, text=True, timeout=100, check=False)


def listening(pid: int) -> set[str]:
    """The addresses on which a process listens, as Linux writes them."""
    inodes = {re.sub(r"\D", "", os.readlink(link)) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path("/proc/net", file).read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


WEB_SOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
}


def strangers() -> dict[str, dict[str, str]]:
    """The headers by which an engine can tell what a browser sends."""
    return {
        "a page": {"Origin": "http://evil.example"},
        "a page of this machine": {"Origin": "http://127.0.0.1:8000"},
        "a file or a sandboxed frame": {"Origin": "null"},
        "an image of a page": {"Sec-Fetch-Site": "cross-site"},
        "a name that leads here": {"Host": "evil.example"},
        "a name that looks like ours": {"Host": "127.0.0.1.evil.example"},
        "a name behind ours": {"Host": "127.0.0.1:80@evil.example"},
    }


def ask(port: int, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """Status, headers in lower case, and body of the answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read().decode()


@pytest.mark.long
def test_what_it_prints_leads_to_a_table_that_suits_locks(start_dev, shell):
    variables = printed(start_dev())
    assert variables["LAMBDA_LOCK_TABLE"] == "locks"
    assert cli(shell | variables, "table", "check", "locks").returncode == 0
    run = cli(shell | variables, "run", "nightly", "--", "sh", "-c", "echo under $LAMBDA_LOCK_FENCING_TOKEN")
    assert re.fullmatch(r"under \d+\n", run.stdout), run.stderr
    assert cli(shell | variables, "ls").stdout.startswith("nightly\t\tfree")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_secret_of_the_shell_reaches_the_engine(start_dev, shell):
    process = start_dev(DATABASE_PASSWORD="hunter2", AWS_SECRET_ACCESS_KEY="hunter2", GITHUB_TOKEN="hunter2")
    printed(process)
    (engine,) = children(process.pid)
    pairs = Path(f"/proc/{engine}/environ").read_text().rstrip("\0").split("\0")
    variables = dict(pair.split("=", 1) for pair in pairs)
    assert "hunter2" not in str(variables)
    inherited = {name: value for name, value in variables.items() if shell.get(name) == value}
    assert inherited.keys() <= {"PATH", "HOME", "LD_LIBRARY_PATH"}


def test_a_request_with_two_hosts_is_refused():
    host = (b"Host", b"127.0.0.1")
    for hosts, refused in ([host], False), ([host, host], True), ([], True):
        scope = {"headers": [*hosts, (b"X-Amz-Target", b"DynamoDB_20120810.ListTables")], "method": "POST", "path": "/"}
        assert (reason_to_refuse(scope, ["dynamodb"]) is not None) is refused, hosts


@pytest.mark.long
def test_dev_answers_nothing_but_requests_to_dynamodb_that_no_page_sent(start_dev):
    port = port_of(printed(start_dev()))
    for name, headers in strangers().items():
        status, answered, said = ask(port, "POST", "/", request_headers("ListTables") | headers)
        assert (status, answered.keys() & {"access-control-allow-origin"}) == (403, set()), name
        assert "request refused" in said, name
    for method, path, headers in (
        ("OPTIONS", "/", {}),
        ("POST", "/_ministack/reset", {}),
        ("POST", "//_ministack/reset", {}),
        ("POST", "/_ministack/config", {}),
        ("GET", "/_ministack/ready", {}),
        ("POST", "/2015-03-31/functions", {}),
        ("POST", "/?Action=CreateFunction", request_headers("ListTables")),
        ("PUT", "/bucket", {}),
        ("POST", "/", {}),
        ("POST", "/", request_headers("ListTables") | {"X-Amz-Target": "AmazonSQS.CreateQueue"}),
        ("GET", "/", WEB_SOCKET),
    ):
        status, _, _ = ask(port, method, path, headers)
        assert status == 403, (method, path)
    status, _, said = ask(port, "POST", "/", request_headers("ListTables"))
    assert (status, said) == (200, '{"TableNames": ["locks"]}')
    status, _, said = ask(port, "GET", "/_ministack/health", {})
    assert (status, json.loads(said)["services"].keys()) == (200, {"dynamodb"})


@pytest.mark.long
def test_an_engine_that_would_answer_web_pages_does_not_run(shell):
    interpreter = ENGINE.resolve().parent / "python"
    replace_engine(shell, f"#!{interpreter} -E\nfrom ministack.app import main\nmain()\n")  # -E: without PYTHONPATH
    check_ended(cli(shell, "dev"), 78, "would answer any web page")
    assert list(Path(shell["TMPDIR"]).iterdir()) == []


def test_the_answer_of_another_engine_on_the_port_is_not_taken_for_its_own(engine, monkeypatch):
    find, ports = dev.usable_port, iter([engine.port])
    monkeypatch.setattr(dev, "usable_port", lambda port: next(ports, None) or find(port))
    monkeypatch.setattr(dev, "engine_command", lambda: [str(ENGINE)])
    with dev.running(None) as ours:
        assert ours.port != engine.port


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_dev_listens_on_loopback_only_and_each_way_of_stopping_it_is_quiet_and_leaves_nothing_behind(
    start_dev, shell, number
):
    process = start_dev()
    port = port_of(printed(process))
    (engine,) = children(process.pid)
    assert listening(engine) == {"0100007F"}
    process.send_signal(number)
    process.send_signal(number)  # an impatient second one changes nothing
    _, said = process.communicate(timeout=DEADLINE)
    assert (process.returncode, said) == (0, "")
    assert not Path(f"/proc/{engine}").exists()
    assert list(Path(shell["TMPDIR"]).iterdir()) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.long
def test_the_environment_as_json_and_names_of_the_tables_own(start_dev, shell):
    keys = ("--partition-key", "id", "--sort-key", "range")
    process = start_dev("--format", "json", "--table", "my-locks", *keys)
    text = ""
    while not text.endswith("}\n"):
        text += process.stdout.readline()
    variables: dict[str, Any] = json.loads(text)
    expected = {"TABLE": "my-locks", "PARTITION_KEY": "id", "SORT_KEY": "range"}
    assert {name: variables[f"LAMBDA_LOCK_{name}"] for name in expected} == expected
    checked = cli(shell | variables, "table", "check", "my-locks", *keys)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.long
def test_nothing_in_the_environment_of_either_terminal_leads_elsewhere(start_dev, shell):
    elsewhere = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:9",
        "AWS_PROFILE": "production",
        "AWS_REGION": "eu-west-1",
        "MINISTACK_REGION": "eu-west-1",
        "BIND_HOST": "0.0.0.0",
    }
    process = start_dev(**elsewhere)
    lines: list[str] = []
    while not lines or "LAMBDA_LOCK_TABLE" not in lines[-1]:
        lines.append(process.stdout.readline())
    script = "".join(lines) + f"{shlex.join(PROGRAM)} table check locks"
    done = subprocess.run(["sh", "-c", script], env=shell | elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_port_that_is_taken_is_an_error_that_says_so(shell):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_ended(cli(shell, "dev", "--port", str(port)), 69, f"port {port} is taken", "--port")


def test_without_the_extra_it_says_what_to_install(shell):
    said = ("pip install 'lambda-lock[local,cli]'", "beside the extra 'durable' or another botocore, install it apart")
    check_ended(cli(shell | {"PATH": "/nonexistent"}, "dev"), 78, *said)


def test_an_engine_that_cannot_start_is_quoted_and_is_found_where_pythonpath_leads(shell):
    replace_engine(shell, '#!/bin/sh\necho "the disk is full, modules: $PYTHONPATH"\nexit 3\n')
    result = cli(shell, "dev")
    check_ended(result, 69)
    assert re.search(f"the disk is full, modules: \\S+/guard:{ROOT}\n", result.stderr)
    assert list(Path(shell["TMPDIR"]).iterdir()) == []


@pytest.mark.long
def test_an_engine_that_dies_ends_the_command(start_dev):
    process = start_dev()
    printed(process)
    (engine,) = children(process.pid)
    os.kill(engine, signal.SIGKILL)
    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 69
    assert "ended by itself" in said


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a child that its parent died")
def test_the_engine_does_not_outlive_a_command_that_is_killed(start_dev):
    process = start_dev()
    printed(process)
    (engine,) = children(process.pid)
    process.kill()
    wait_gone(engine)


def test_a_table_name_that_cannot_be_one_starts_nothing(shell):
    check_ended(cli(shell, "dev", "--table", "a b"), 2, "a b")


def test_the_engine_of_this_environment_comes_before_one_on_the_path(monkeypatch):
    monkeypatch.setattr(dev, "find_spec", lambda name: object())
    assert dev.engine_command() == [sys.executable, "-m", "ministack"]
