"""Runs the command: in this process for messages and exit codes, and as a process with pipes or on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lambda_lock.cli.app import app
from rig.engine import ROOT, Item, Ministack
from tests.support.waiting import DEADLINE

PROGRAM = [sys.executable, "-m", "lambda_lock.cli"]

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


def environment(**changes: str) -> dict[str, str]:
    """This test's environment, without the variables that change how a program prints. "" removes a variable."""
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    changed = plain | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | changes
    return {name: value for name, value in changed.items() if value}


@pytest.fixture
def run(table: str) -> Run:
    """Runs the command to its end in this process. Unexpected errors are raised in the test."""

    def run_it(*arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
        variables: dict[str, str | None] = {**dict.fromkeys(os.environ), **environment(**changes)}  # None: removed
        result = CliRunner().invoke(
            app, arguments, input=stdin, env=variables, prog_name="lambda-lock", catch_exceptions=False
        )
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)

    return run_it


@pytest.fixture
def run_apart(table: str) -> Run:
    """Runs the command to its end as a process with pipes, for `lambda-lock run`: its streams are its child's."""

    def run_it(*arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *arguments], input=stdin, capture_output=True, text=True, env=environment(**changes), timeout=100
        )

    return run_it


@pytest.fixture
def start(table: str) -> Iterator[Start]:
    """Starts the command in a process group of its own, which is killed at the end of the test."""
    processes: list[subprocess.Popen[str]] = []

    def start_it(*arguments: str, **changes: str) -> subprocess.Popen[str]:
        processes.append(
            subprocess.Popen(
                [*PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(**changes),
                start_new_session=True,
            )
        )
        return processes[-1]

    yield start_it
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Terminal:
    """The command on a terminal with the given number of columns. ``screen`` is everything that it has written."""

    def __init__(self, arguments: list[str], columns: int, environment: dict[str, str]) -> None:
        self.screen = ""
        self._code: int | None = None
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, arguments, environment | {"COLUMNS": str(columns)})  # noqa: S606
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    @property
    def text(self) -> str:
        """Everything that was written, without colours and cursor movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.screen).replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + DEADLINE
        while text not in self.text:
            assert time.monotonic() < end, f"{text!r} did not appear:\n{self.text}"
            assert self._read() or text in self.text, f"it ended without {text!r}:\n{self.text}"

    def wait(self) -> int:
        """Read to the end. Returns the exit code."""
        while self._read():
            pass
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def close(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        os.close(self._file)

    def _read(self) -> bool:
        """Read the next output and wait for it if necessary. Returns False at the end."""
        if not select.select([self._file], [], [], DEADLINE)[0]:
            raise AssertionError(f"nothing more was written:\n{self.text}")
        try:
            part = os.read(self._file, 65_536)
        except OSError:  # Linux raises this at the end of a terminal
            return False
        self.screen += part.decode(errors="replace")
        return bool(part)


@pytest.fixture
def terminal(table: str) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_it(*arguments: str, columns: int = 80, **changes: str) -> Terminal:
        opened.append(Terminal([*PROGRAM, *arguments], columns, environment(**changes)))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()


class Rows:
    """The table as it is stored in the engine."""

    def __init__(self, engine: Ministack, table: str) -> None:
        self._engine = engine
        self._table = table

    def get(self, key: str) -> Item | None:
        request = {"TableName": self._table, "Key": {"key": {"S": key}}, "ConsistentRead": True}
        item: Item | None = self._engine.dynamodb("GetItem", request).get("Item")
        return item

    def keys(self) -> set[str]:
        items = self._engine.dynamodb("Scan", {"TableName": self._table})["Items"]
        return {item["key"]["S"] for item in items}

    def put(self, key: str, **attributes: dict[str, Any]) -> None:
        self._engine.dynamodb("PutItem", {"TableName": self._table, "Item": {"key": {"S": key}, **attributes}})

    def put_held(
        self,
        key: str,
        *,
        expires_in: float = 60.0,
        lease: int = 60_000,
        owner: str = "somebody",
        nonce: str = "c" * 32,
        **more: Any,
    ) -> None:
        """Store a lock of ours that is not renewed, as a dead holder leaves it."""
        expiry = int((time.time() + expires_in) * 1000)
        self.put(
            key,
            ownerName={"S": f"{owner}#{nonce}"},
            leaseDuration={"S": str(lease)},
            recordVersionNumber={"S": f"L1:{expiry:013d}:{nonce}"},
            fencingToken={"N": "7"},
            ttl={"N": "4102444800"},
            **more,
        )

    def is_held(self, key: str) -> bool:
        item = self.get(key)
        return item is not None and "isReleased" not in item

    def wait_held(self, key: str) -> None:
        end = time.monotonic() + DEADLINE
        while not self.is_held(key):
            assert time.monotonic() < end, f"{key!r} was not taken"
            time.sleep(0.02)

    def wait_changed(self, key: str) -> None:
        before, end = self.get(key), time.monotonic() + DEADLINE
        while self.get(key) == before:
            assert time.monotonic() < end, f"row {key!r} does not change"
            time.sleep(0.02)


@pytest.fixture
def rows(engine: Ministack, table: str) -> Rows:
    return Rows(engine, table)


def parsed(result: subprocess.CompletedProcess[str]) -> Any:
    """The JSON that a command printed. It printed nothing else."""
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_gone(pid: int) -> None:
    end = time.monotonic() + DEADLINE
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end, f"process {pid} is still running"
        time.sleep(0.02)
