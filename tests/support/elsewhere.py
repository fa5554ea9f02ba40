"""Runs functions on another thread or in another process, and programs."""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from rig.engine import ROOT

from .waiting import DEADLINE

Outcome = tuple[Any, BaseException | None]


def _outcome(function: Callable[[], Any]) -> Outcome:
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - raised again by result()
        return None, error


def _opened(outcome: Outcome) -> Any:
    value, error = outcome
    if error is not None:
        raise error
    return value


def in_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``function`` on a thread. Returns a function that waits for its result or raises its error."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(_outcome(function)), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(DEADLINE)
        assert outcomes, "the thread did not end"
        return _opened(outcomes[0])

    return result


class ChildDied(AssertionError):
    """A forked child ended without an outcome."""


def in_child(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``function`` in a forked child. Returns a function that waits for its result or raises its error."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(_outcome(function), pipe)
        finally:
            os._exit(0)
    os.close(writer)

    def result() -> Any:
        with os.fdopen(reader, "rb") as pipe:
            raw = pipe.read()
        os.waitpid(pid, 0)
        if not raw:
            raise ChildDied("the child died")
        return _opened(pickle.loads(raw))

    return result


Start: TypeAlias = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python with these arguments, and pipes to its input and output. Kills it at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        command, environment = [sys.executable, *map(str, arguments)], os.environ | {"PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
    for process in started:
        process.communicate()


def ran(code: str, *arguments: str, within: tuple[str, ...] = ()) -> str:
    """Run Python code in a process of its own. Returns what it printed. within: a command that runs it."""
    command, environment = [*within, sys.executable, "-c", code, *arguments], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
