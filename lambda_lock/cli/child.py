"""The child of `lambda-lock run`: started with stdin, stdout and stderr as they are, in our own process group.

Signals are not handled but waited for: they are blocked in all threads before the lock is asked for (threads inherit
that), so none can interrupt an acquire or get lost between two steps. The child starts with the mask that we had.

A Ctrl-C in a terminal reaches the whole process group, the child included: it is not passed on a second time. A group
of the child's own would take the terminal from it, or from the rest of a pipeline.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PASSED_ON = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2},
)
_WAITED_FOR = PASSED_ON | {signal.SIGCHLD, signal.SIGALRM}
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # which Python ignores, and a child would go on ignoring
_LOOK = 0.2  # seconds between two looks at the lock


def block_signals() -> set[int]:
    """Block what `Child.wait` waits for, in this thread and those it starts; returns the mask before."""
    for number in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, lambda *_: None)  # a signal that is ignored is not waited for either
    return signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)


def pending_signal() -> int | None:
    """A signal that asks us to end, come while we had no child to pass it on to."""
    pending = signal.sigpending() & PASSED_ON
    return int(min(pending)) if pending else None


class Child:
    """A running command. Raises OSError where it cannot be started."""

    def __init__(self, command: list[str], environment: Mapping[str, str], mask: set[int]) -> None:
        self.pid = os.posix_spawnp(command[0], command, environment, setsigmask=mask, setsigdef=_RESTORED)
        self._status: int | None = None

    def wait(self, must_end: Callable[[], bool], kill_after: float) -> int:
        """Wait for its end, passing signals on; returns its exit code, 128 + n if signal n ended it.

        must_end: asked five times a second; once it says True the child and its descendants get SIGTERM, and SIGKILL
        ``kill_after`` seconds later.
        """
        signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
        try:
            while not self._has_ended():
                if must_end():
                    self._end(kill_after)
                    break
                number, by_terminal = _next_signal()
                if number in PASSED_ON and not by_terminal:
                    _send(self.pid, number)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else 128 - code

    def _has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def _end(self, kill_after: float) -> None:
        """End it and what it started: all of them work without the lock."""
        family = _family(self.pid)
        for pid in family:
            _send(pid, signal.SIGTERM)
        until = time.monotonic() + kill_after
        while time.monotonic() < until and not (self._has_ended() and not any(map(_lives, family[1:]))):
            _next_signal()
        for pid in dict.fromkeys([*family, *_family(self.pid)]):
            if pid != self.pid or not self._has_ended():
                _send(pid, signal.SIGKILL)
        while not self._has_ended():
            _next_signal()


def _next_signal() -> tuple[int, bool]:
    """Wait for a signal: its number, and whether the terminal sent it (to the child as well)."""
    if sys.platform == "darwin":  # has no sigwaitinfo: in the foreground of a terminal it most likely was a key
        number = signal.sigwait(_WAITED_FOR)
        return number, number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()
    info = signal.sigwaitinfo(_WAITED_FOR)
    return info.si_signo, info.si_code > 0  # of the kernel's making; kill() has 0 and below


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:
        return False


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended
    except PermissionError:
        return  # it has changed its user: nothing that we could do


def _lives(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def _family(pid: int) -> list[int]:
    """The process and its descendants, as far as the system tells (Linux does)."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields:
            parents.setdefault(int(fields[1]), []).append(int(path.name))
    family = [pid]
    for member in family:  # grows while it is walked
        family += parents.get(member, [])
    return family


def _stat(pid: int) -> list[str]:
    """State, parent and so on; empty for a process that is not there."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before it may hold anything
