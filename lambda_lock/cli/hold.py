"""`lambda-lock run`: runs a command while holding a lock."""

from __future__ import annotations

import signal
from typing import Any

from ..client.lock import Lock
from ..client.lock_client import LockClient
from ..errors import LockTimeoutError
from .child import Child, block_signals, pending_signal
from .exits import LOST, NOT_EXECUTABLE, NOT_FOUND, SIGNALLED, Failure, say


def run_locked(client: LockClient, key: str, command: list[str], kill_after: float, **options: Any) -> int:
    """Acquire the lock with ``options``, run the command, and release the lock. Returns the exit code.

    Raises what acquire raises, and Failure if the command cannot be started.
    """
    child = Child(command, block_signals())
    try:
        lock = client.acquire(key, cancel_check=lambda: pending_signal() is not None, **options)
    except LockTimeoutError:
        if (number := pending_signal()) is not None:
            return _interrupted(number)
        raise
    try:
        if (number := pending_signal()) is not None:
            return _interrupted(number)
        code = _run(lock, child, command[0], kill_after)
    finally:
        released = lock.release(best_effort=True)  # this also finds out whether the lock was ours to the end
    if lock.lost and code != LOST:
        say(f"lock {key!r} was lost before the command ended: somebody else may have run at the same time", "yellow")
    elif not released and code != LOST:
        say(f"lock {key!r} was not released, because DynamoDB did not answer. It ends with its lease", "yellow")
    return code


def _interrupted(number: int) -> int:
    say(f"{signal.Signals(number).name} arrived before the command was started: the command was not run")
    return SIGNALLED + number


def _run(lock: Lock, child: Child, program: str, kill_after: float) -> int:
    variables = {
        "LAMBDA_LOCK_KEY": lock.key,
        "LAMBDA_LOCK_FENCING_TOKEN": str(lock.fencing_token),
        "LAMBDA_LOCK_OWNER": lock.owner,
    }
    try:
        child.start(variables)
    except FileNotFoundError:
        raise Failure(f"{program or repr(program)}: command not found", NOT_FOUND) from None
    except OSError as error:
        raise Failure(f"{program} cannot be run: {error.strerror}", NOT_EXECUTABLE) from None
    ended_by_us = False

    def must_end() -> bool:
        nonlocal ended_by_us
        if lock.lost:
            ended_by_us = True
            say(f"lock {lock.key!r} is lost: ending the command", "red")
        return ended_by_us

    code = child.wait(must_end, kill_after)
    return LOST if ended_by_us else code
