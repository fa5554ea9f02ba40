"""What the command line, the dashboard and http.client's debug output show of credentials and of what rows contain."""

import http.client
import json
import logging
import subprocess
import sys

import pytest
from click.testing import CliRunner

from lambda_lock import Lock, LockClient
from lambda_lock.cli.app import app
from lambda_lock.cli.dashboard import serving
from rig.wire import Wire
from tests.support.fresh import fresh_process
from tests.support.waiting import wait_until

from .hunt import CONTENTS, CREDENTIALS, Heap
from .test_canaries import KINDS

__all__ = ["fresh_process"]

SHOW_ROWS = ("get a", "get a --json", "ls --json")  # their purpose
COMMANDS = [
    *(*SHOW_ROWS, "ls", "release --force --yes a", "table check locks"),
    *("run --wait 0 a -- true", "run --wait 0 b -- true"),
]


def give_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIALS["secret-key"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", CREDENTIALS["session-token"])


@pytest.fixture
def secrets(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    give_secrets(monkeypatch)


def hold(client: LockClient) -> Lock:
    return client.acquire("a", data=CONTENTS["data"].encode(), attributes={"note": CONTENTS["attribute"]})


def show_here(command: str, heap: Heap) -> None:
    result = CliRunner().invoke(app, command.split(), prog_name="lambda-lock")
    heap.show(command, result.output, result.stderr)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        heap.show_error(command, result.exception)


def show_apart(command: str, heap: Heap) -> None:
    """In a process of its own: `lambda-lock run` blocks the signals of its process."""
    program = [sys.executable, "-m", "lambda_lock.cli", *command.split()]
    result = subprocess.run(program, capture_output=True, text=True, timeout=100)
    heap.show(command, result.stdout, result.stderr)


@pytest.mark.long
@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("kind", ["success", "denied", "invalid signature"])
def test_no_command_prints_credentials_and_only_those_for_rows_print_what_is_in_them(kind, wire):
    with LockClient() as client:
        kept = hold(client)
        for command in COMMANDS:
            KINDS[kind](wire)
            heap = Heap()
            (show_apart if command.startswith("run") else show_here)(command, heap)
            wire.clear()
            contents = () if command in SHOW_ROWS else CONTENTS.values()
            assert heap.leaks(CREDENTIALS.values(), contents) == []
            assert any(text for _, text in heap.shown) or command.startswith("run")
        assert kept.key == "a"  # held until here


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("kind", ["success", "invalid signature"])
def test_the_dashboard_shows_neither_credentials_nor_what_is_in_rows(kind, wire, table):
    with LockClient() as client, LockClient() as watching:
        kept = hold(client)
        KINDS[kind](wire)
        with serving(watching, table, port=None, interval=0.1) as server:
            heap, said = Heap(), dict[str, object]()
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)

            def ask(path: str) -> str:
                connection.request("GET", path)
                text = connection.getresponse().read().decode()
                heap.show(path, text)
                return text

            def has_read() -> bool:
                said.update(json.loads(ask("/locks")))
                return bool(said["error"] if kind != "success" else said["locks"])

            wait_until(has_read)
            ask("/")
            ask("/locks?states=held&seconds=60")
            ask("/nothing")
            connection.close()
        wire.clear()
        kept.release()
    assert heap.leaks(CREDENTIALS.values(), CONTENTS.values()) == []


@pytest.mark.usefixtures("table")
def test_debug_output_of_the_standard_library_shows_nothing_of_the_usual_transport(monkeypatch, capfd, caplog):
    give_secrets(monkeypatch)
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 5)
    with caplog.at_level(logging.DEBUG), LockClient() as client:
        hold(client).release()
    heap = Heap()
    heap.show("output", *capfd.readouterr(), caplog.text)
    assert heap.leaks(CREDENTIALS.values(), CONTENTS.values()) == []
