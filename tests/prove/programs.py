"""Programs that end: by themselves, at their limit, or with the proof."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Self

from rig.engine import ROOT

PATIENCE = 20.0  # seconds in which a program may clean up after an interrupt
_ALL = Path("/proc")


class Programs:
    """The programs under way. Leaving the block ends them, and all that they started."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._is_over = True
            left = list(self._running)
        _end(left)

    def run(self, command: list[str], limit: float, output: IO[bytes] | None = None) -> str:
        """Run a program. Returns what was wrong with its end. "" if nothing.

        limit: seconds after which it is ended.
        output: where it writes, if not where this process does.
        """
        try:
            process = self._start(command, output)
        except OSError as error:
            return f"it could not be started: {error}"
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"it was ended after {limit / 60:g} minutes, its limit"
        finally:
            _end([process])
            with self._guard:
                self._running.discard(process)
        if status < 0:
            return f"it was killed by {signal.Signals(-status).name}"
        return f"it ended with status {status}" if status else ""

    def _start(self, command: list[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        with self._guard:
            if self._is_over:
                raise OSError("the proof is over")
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},  # so a killed program's output is not lost
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a group of its own, which can be ended as a whole
            )
            self._running.add(process)
            return process


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End them and all that they started. They are interrupted first, so that they can end their engines."""
    alive = [process for process in processes if process.poll() is None]
    started = _descendants({process.pid for process in alive})
    try:
        for process in alive:
            os.killpg(process.pid, signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        for process in alive:
            process.wait(max(deadline - time.monotonic(), 0))
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    finally:
        now = _processes()
        _kill(pid for pid in started if pid in now and now[pid][1] == started[pid])
        for process in processes:
            _kill_group(process.pid)
        for process in alive:
            process.wait()


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        os.killpg(group, signal.SIGKILL)


def _descendants(roots: set[int]) -> dict[int, str]:
    """The descendants of these processes, with the time of each start. Some have sessions of their own."""
    found: dict[int, str] = {}
    processes, parents = _processes() if roots else {}, roots
    while parents:
        parents = {pid for pid, (parent, _) in processes.items() if parent in parents and pid not in found}
        found |= {pid: processes[pid][1] for pid in parents}
    return found


def _processes() -> dict[int, tuple[int, str]]:
    """The parent and the time of the start of each process. Empty where there is no /proc."""
    found = {}
    for folder in _ALL.glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(folder.name)] = (int(fields[1]), fields[19])
    return found
