"""Waiting asleep: what a suspended execution leaves in the table, so that the waker calls it. Loaded when used."""

from __future__ import annotations

import os

from ..core import sleepers
from ..core.schema import JAVA
from ..errors import LockArgumentError, LockConfigurationError, LockNotGrantedError
from . import checks
from .options import check_holder
from .session import run, session_of
from .settings import TABLE_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.lease import ClockReading
    from ..core.protocol import Entropy, Recall, Steps
    from ..core.requests import Place
    from .session import Client, Operation, Session

WAKE_VARIABLE = "LAMBDA_LOCK_WAKE"
_LONGEST_CALLBACK = 2048  # characters of a task token (Step Functions API reference, SendTaskSuccess)


def has_waker(session: Session) -> bool:
    """Whether the client's table has a waker. LockTable.connect says so, of the table that it names."""
    table = session.settings.names()[0]
    return os.environ.get(WAKE_VARIABLE, "0") not in ("", "0") and os.environ.get(TABLE_VARIABLE, table) == table


def lie_down(client: Client, key: str, *, holder: str, kind: str, callback: str, permits: int | None = None) -> Any:
    """Write the entry of an execution that goes to sleep, or replace the one that it has.

    kind: "task" or "durable". callback: the token of the task, or the id of the durable function's callback.

    Returns whether there was room: if not, poll. An async client returns an awaitable of it. Raises what `sleep` does.
    """
    return run(client, _lying_down(session_of(client), key, None, holder, kind, callback, permits))


def get_up(client: Client, key: str, *, holder: str) -> Any:
    """Remove the entry of an execution that sleeps no more. Returns whether there was one, as `lie_down` does."""
    session = session_of(client)
    place = _place(session, key, None, holder, None)

    def steps(reading: ClockReading) -> Steps[bool]:
        return sleepers.remove(place, lambda entry: sleepers.is_of(entry, holder), *_shared(session, reading))

    return run(client, (place, steps))


def sleep(
    session: Session, key: str, holder: str, task_token: str, permits: int | None, sort_key: str | None
) -> Operation[None]:
    """The operation of `Client.sleep`."""
    checks.of_kind("task_token", task_token, str, "a str")
    if not 1 <= len(task_token) <= _LONGEST_CALLBACK:
        raise LockArgumentError(
            f"task_token has {len(task_token)} characters: pass $states.context.Task.Token of a state with "
            ".waitForTaskToken, which has 1 to 2,048",
            key=key,
        )
    place, lying_down = _lying_down(session, key, sort_key, holder, "task", task_token, permits)
    if not has_waker(session):
        raise LockConfigurationError(
            f"nobody would wake who sleeps until lock {key!r} is free: the table has no waker, or this function does "
            f"not know of it. Deploy LockTable(wake=...) and connect the function, which sets {WAKE_VARIABLE}=1",
            key=key,
        )

    def steps(reading: ClockReading) -> Steps[None]:
        if not (yield from lying_down(reading)):
            raise LockNotGrantedError(
                f"lock {key!r} is held, and as many sleep until it is free as can ({sleepers.MOST_SLEEPERS}). Try "
                "again later",
                key=key,
            )

    return place, steps


def _lying_down(
    session: Session, key: str, sort_key: str | None, holder: str, kind: str, callback: str, permits: int | None
) -> Operation[bool]:
    place = _place(session, key, sort_key, holder, permits)
    sleeper = sleepers.Sleeper(holder, kind, callback, permits, session.settings.ttl)
    return place, lambda reading: sleepers.lie_down(place, sleeper, *_shared(session, reading))


def _shared(session: Session, reading: ClockReading) -> tuple[Recall, Entropy, ClockReading]:
    return session.memory, session.entropy, reading


def _place(session: Session, key: str, sort_key: str | None, holder: object, permits: int | None) -> Place:
    """Where the lock is. Raises LockArgumentError, TypeError or LockConfigurationError for what cannot sleep."""
    place = session.settings.place(key, sort_key)
    check_holder(holder, key)
    if permits is not None:
        checks.permits(permits, place)
    if key.endswith(sleepers.SUFFIX):
        raise LockArgumentError(
            f"key={key!r} ends with {sleepers.SUFFIX!r}, as the row of another lock's sleepers does: give the lock "
            "another key",
            key=key,
        )
    checks.key_text("key", key + sleepers.SUFFIX)
    if place.schema != JAVA:
        raise LockConfigurationError(
            f"nobody can sleep until lock {key!r} is free: the waker reads rows of the schema JAVA as it is, and this "
            f"client has {place.schema.name}, or other names. Use a client with JAVA, or poll",
            key=key,
        )
    session.check_open()
    return place
