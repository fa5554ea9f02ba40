"""`lambda-lock run`: runs a command while holding a lock. It inherits stdin, stdout, stderr and our process group.

We wait for signals instead of handling them. They are blocked before the lock is requested, and threads inherit that.
So no signal can interrupt an acquire or get lost between two steps. The child starts with our original mask.

Ctrl-C in a terminal reaches the whole process group, including the child. So it is not passed on a second time. We do
not give the child a process group of its own, because that would take the terminal away from the child, or from the
rest of a pipeline.

We fork before we ask for the lock, and the child waits to be told its command's environment. So there is no thread yet
that a fork could harm, and the child can ask Linux to be ended with us.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from ..client.lock import Lock
from ..client.lock_client import LockClient
from ..errors import LockTimeoutError
from .exits import LOST, NOT_EXECUTABLE, NOT_FOUND, SIGNALLED, Failure, end_with_parent, say

_PASSED_ON = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
_WAITED_FOR = _PASSED_ON | {signal.SIGCHLD, signal.SIGALRM}
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these, and a child would inherit that
_LOOK = 0.2  # seconds between two checks of the lock


def run_locked(client: LockClient, key: str, command: list[str], kill_after: float, **options: Any) -> int:
    """Acquire the lock with ``options``, run the command, and release the lock. Returns the exit code.

    kill_after: seconds from SIGTERM to SIGKILL, once the lock is lost.

    Raises what acquire raises, and Failure if the command cannot be started.
    """
    child = _Child(command)
    try:
        lock = client.acquire(key, cancel_check=lambda: pending_signal() is not None, **options)
    except LockTimeoutError:
        if (number := pending_signal()) is None:
            raise
        return _interrupted(number)
    try:
        if (number := pending_signal()) is not None:
            return _interrupted(number)
        child.start(lock)
        code = child.wait(lock, kill_after)
    finally:
        released = lock.release(best_effort=True)  # this also finds out whether the lock was ours to the end
    if lock.lost and code != LOST:
        say(f"lock {key!r} was lost before the command ended: somebody else may have run at the same time", "yellow")
    elif not released and code != LOST:
        say(f"lock {key!r} was not released, because DynamoDB did not answer. It ends with its lease", "yellow")
    return code


def block_signals() -> None:
    """Let signals that ask us to end wait, in this thread and those that it starts, until `pending_signal` looks."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)


def pending_signal() -> int | None:
    """A signal that asks us to end and arrived while signals are blocked. None also for one that we were started to
    ignore, as by nohup: blocked, it is pending all the same."""
    pending = {each for each in signal.sigpending() & _PASSED_ON if signal.getsignal(each) != signal.SIG_IGN}
    return int(min(pending)) if pending else None


def _interrupted(number: int) -> int:
    say(f"{signal.Signals(number).name} arrived before the command was started: the command was not run")
    return SIGNALLED + number


class _Child:
    """A process that waits for `start`, and then runs ``command``. If we end before that, it ends too.

    Make it on the main thread, while there is no other. From then on, the signals that `wait` waits for are blocked
    in this thread and the threads it starts.
    """

    def __init__(self, command: list[str]) -> None:
        for number in (signal.SIGCHLD, signal.SIGALRM):
            signal.signal(number, lambda *_: None)  # an ignored signal would never become pending
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
        self._program = command[0]
        self._status: int | None = None
        parent = os.getpid()
        variables, self._variables = os.pipe()
        self._failure, failure = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._variables)
            _wait_and_run(command, mask, parent, variables, failure)
        os.close(variables)
        os.close(failure)

    def start(self, lock: Lock) -> None:
        """Run the command, which finds the lock in its environment. Raises Failure if that is not possible."""
        variables = {
            "LAMBDA_LOCK_KEY": lock.key,
            "LAMBDA_LOCK_FENCING_TOKEN": str(lock.fencing_token),
            "LAMBDA_LOCK_OWNER": lock.owner,
        }
        try:
            with open(self._variables, "w") as to_child:
                json.dump(variables, to_child)
            with open(self._failure) as from_child:
                number = from_child.read()  # reading ends when the child executes the command, or ends
            if number:
                os.waitpid(self.pid, 0)
                raise OSError(int(number), os.strerror(int(number)))
        except FileNotFoundError:
            raise Failure(f"{self._program or repr(self._program)}: command not found", NOT_FOUND) from None
        except OSError as error:
            raise Failure(f"{self._program} cannot be run: {error.strerror}", NOT_EXECUTABLE) from None

    def wait(self, lock: Lock, kill_after: float) -> int:
        """Wait for the child to end and pass signals on to it. Returns its exit code, or 128 + n if signal n ended it.

        The lock is looked at five times a second. Once it is lost, the child and its descendants get SIGTERM, and
        ``kill_after`` seconds later SIGKILL. Then the exit code is LOST.
        """
        signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
        try:
            while not self._has_ended():
                if lock.lost:
                    say(f"lock {lock.key!r} is lost: ending the command", "red")
                    self._end(kill_after)
                    return LOST
                number, by_terminal = _next_signal()
                if number in _PASSED_ON and not by_terminal:
                    _send(self.pid, number)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else SIGNALLED - code

    def _has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def _end(self, kill_after: float) -> None:
        """End the child and its descendants. All of them would be working without the lock."""
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


def _wait_and_run(command: list[str], mask: set[int], parent: int, variables: int, failure: int) -> NoReturn:
    """What the child does. The number of the error goes to ``failure`` if the command cannot be run."""
    try:
        end_with_parent(parent, signal.SIGTERM)
        with open(variables) as from_parent:
            environment = os.environ | json.load(from_parent)  # an error if the parent ended
        for number in {*_WAITED_FOR, *_RESTORED}:
            if number in _RESTORED or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)  # what is pending must not meet a handler of Python's
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if not command[0]:
            raise OSError(errno.ENOENT, "an empty name")  # it would be looked for as a directory of the PATH
        os.execvpe(command[0], command, environment)  # noqa: S606
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(1)


def _next_signal() -> tuple[int, bool]:
    """Wait for a signal. Returns its number, and whether the terminal sent it (then the child has it too)."""
    if sys.platform == "darwin":  # no sigwaitinfo here; in the foreground of a terminal, a key is the likely source
        number = signal.sigwait(_WAITED_FOR)
        try:
            in_foreground = os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
        except OSError:
            in_foreground = False
        return number, number in (signal.SIGINT, signal.SIGQUIT) and in_foreground
    info = signal.sigwaitinfo(_WAITED_FOR)
    return info.si_signo, info.si_code > 0  # above 0: the kernel sent it; kill() has 0 or below


def _send(pid: int, number: int) -> None:
    # It may have ended. Or it runs as another user now, and there is nothing we could do.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _lives(pid: int) -> bool:
    """Whether a process is running. A zombie is not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def _family(pid: int) -> list[int]:
    """The process and its descendants. On systems without /proc, only the process itself."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields:
            parents.setdefault(int(fields[1]), []).append(int(path.name))
    family = [pid]
    for member in family:  # the list grows during the loop
        family += parents.get(member, [])
    return family


def _stat(pid: int) -> list[str]:
    """The process's state, parent and so on. Empty if the process does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name in the parentheses may contain anything
