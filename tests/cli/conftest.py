"""Runs the command: in this process for messages and exit codes, and as a process with pipes or on a terminal."""

import contextlib
import fcntl
import functools
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
from lambda_lock.core.tickets import make_ticket
from rig.engine import ROOT, Ministack
from tests.support.rows import Rows as TableRows
from tests.support.signals import signals_restored
from tests.support.waiting import DEADLINE, wait_until

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
        with signals_restored():  # `acquire` blocks those that ask it to end
            result = CliRunner().invoke(
                app, arguments, input=stdin, env=variables, prog_name="lambda-lock", catch_exceptions=False
            )
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)

    return run_it


@pytest.fixture
def run_apart(table: str) -> Run:
    """Runs the command to its end as a process with pipes, for `lambda-lock run`: its streams are its child's."""
    return functools.partial(through_shell, 'exec "$@"')


def through_shell(script: str, *arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs a script to its end, in which "$@" is the command with these arguments."""
    command = ["sh", "-c", script, "sh", *PROGRAM, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment(**changes), timeout=100)


@pytest.fixture
def start(table: str) -> Iterator[Start]:
    """Starts the command in a process group of its own, which is killed at the end of the test."""
    yield from started(PROGRAM, environment)


def started(command: list[str], variables: Callable[..., dict[str, str]]) -> Iterator[Start]:
    """For fixtures that start a command as `start` does. variables: its environment, of changes."""
    processes: list[subprocess.Popen[str]] = []
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def start_it(*arguments: str, **changes: str) -> subprocess.Popen[str]:
        options = pipes | {"env": variables(**changes), "start_new_session": True}
        processes.append(subprocess.Popen([*command, *arguments], text=True, **options))
        return processes[-1]

    yield start_it
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Terminal:
    """The command on a terminal with the given number of columns. ``screen`` is everything that it has written."""

    def __init__(self, arguments: list[str], columns: int, environment: dict[str, str]) -> None:
        self.screen, self.columns = "", columns
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

    def lines(self) -> list[str]:
        """Read to the end, which is a good one. Returns what was written, none of it wider than the terminal."""
        assert self.wait() == 0, self.text
        found = self.text.splitlines()
        assert max(map(len, found)) <= self.columns
        return found

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
    with contextlib.ExitStack() as opened:

        def open_it(*arguments: str, columns: int = 80, **changes: str) -> Terminal:
            one = Terminal([*PROGRAM, *arguments], columns, environment(**changes))
            return opened.enter_context(contextlib.closing(one))

        yield open_it


class Rows(TableRows):
    """The table as it is stored in the engine."""

    def keys(self) -> set[str]:
        items = self.engine.dynamodb("Scan", {"TableName": self.table})["Items"]
        return {item["key"]["S"] for item in items}

    def put_lock(
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

    def wait_held(self, key: str) -> None:
        wait_until(lambda: self.is_held(key))

    def wait_changed(self, key: str) -> None:
        before = self.get(key)
        wait_until(lambda: self.get(key) != before)


FREE = {"recordVersionNumber": {"S": "v"}, "isReleased": {"S": "1"}}
FOREIGN = {"ownerName": {"S": "java"}, "leaseDuration": {"S": "20000"}, "recordVersionNumber": {"S": "a-b-c"}}


def done_until(seconds: int | str) -> dict[str, Any]:
    """The row of an event that is done."""
    return {**FREE, "fencingToken": {"N": "7"}, "completedUntil": {"N": str(seconds)}}


def waiting(count: int) -> dict[str, Any]:
    """The attribute of a row for so many who wait."""
    until = int(time.time()) + 20
    return {"waiters": {"L": [{"S": make_ticket(f"place--{number}", until)} for number in range(count)]}}


@pytest.fixture
def rows(engine: Ministack, table: str) -> Rows:
    return Rows(engine, table)


def parsed(result: subprocess.CompletedProcess[str]) -> Any:
    """The JSON that a command printed. It printed nothing else."""
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def check_ended(result: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    """A command ended with this exit code, printed nothing, and said each of these texts on stderr."""
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    for text in said:
        assert text in result.stderr


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_gone(pid: int) -> None:
    """Wait until a process has ended. It may be a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")
