"""How the block of a durable lock is left, and what that means for the lock.

The types are those of the SDK's ``execution.py``: what it answers PENDING or FAILED to, and what it lets Lambda retry.
"""

from __future__ import annotations

from enum import Enum

from aws_durable_execution_sdk_python.exceptions import (
    BackgroundThreadError,
    ExecutionError,
    InvocationError,
    OrphanedChildException,
)


class Ending(Enum):
    """What becomes of the lock."""

    FINISHED = "the execution goes on behind the block: released in a step"
    SUSPENDED = "the block is entered again in another invocation: renewed, no operation"
    CUT_OFF = "the execution has failed for good, or the branch is an orphan: released, no operation"


def ending_of(error: BaseException | None) -> Ending:
    """Tell how a block ended that ``error`` left. None: by its end, return, break or continue."""
    if isinstance(error, BackgroundThreadError):
        error = error.source_exception
        if not isinstance(error, InvocationError):
            return Ending.SUSPENDED  # raised in the handler, so Lambda runs the invocation again
    if isinstance(error, (OrphanedChildException, ExecutionError)):
        return Ending.CUT_OFF
    if isinstance(error, InvocationError):
        return Ending.SUSPENDED if error.is_retryable() else Ending.CUT_OFF
    if error is None or isinstance(error, Exception):
        return Ending.FINISHED
    return Ending.SUSPENDED  # SuspendExecution, and what ends the process
