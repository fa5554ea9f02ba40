"""`LockClient.sleep`: what a suspended execution leaves in the table, so that the waker calls it. Loaded when used."""

from __future__ import annotations

import os
from functools import partial

from ..core import sleepers
from ..core.requests import bare_name
from ..core.row import OF_SLEEPERS
from ..core.schema import JAVA
from ..errors import LockArgumentError, LockConfigurationError, LockNotGrantedError
from . import checks
from .options import LOCK, checked
from .session import Operation
from .settings import TABLE_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.protocol import Conversation, Steps
    from ..core.requests import Place
    from .session import Session

WAKE_VARIABLE = "LAMBDA_LOCK_WAKE"
_LONGEST_CALLBACK = 2048  # characters of a task token (Step Functions API reference, SendTaskSuccess)


def has_waker(session: Session) -> bool:
    """Whether the client's table has a waker. LockTable.connect sets the variables that say so."""
    table = session.settings.names()[0]
    connected = os.environ.get(TABLE_VARIABLE, table)
    is_this = connected == table or bare_name(connected) == table or connected == bare_name(table)
    return os.environ.get(WAKE_VARIABLE, "0") not in ("", "0") and is_this


def lie_down(
    session: Session,
    key: str,
    sort_key: str | None,
    holder: str,
    kind: str,
    callback: str,
    permits: int | None = None,
    take: int | None = None,
) -> Operation[bool]:
    """Write the entry of an execution that goes to sleep, or replace the one that it has.

    kind: "task" or "durable". callback: the token of the task, or the id of the durable function's callback. permits,
    take: of its acquire, checked before.

    The operation returns whether there was room: if not, poll. Raises what `sleep` does.
    """
    place = _place(session, key, sort_key, holder, permits)
    sleeper = sleepers.Sleeper(holder, kind, callback, permits, session.settings.ttl, take)
    return Operation(place, lambda talk: sleepers.lie_down(place, sleeper, talk))


def get_up(session: Session, key: str, holder: str) -> Operation[bool]:
    """Remove the entry of an execution that sleeps no more. The operation returns whether there was one."""
    place, goes = _place(session, key, None, holder, None), partial(sleepers.is_of, holder=holder)
    return Operation(place, lambda talk: sleepers.remove(place, goes, talk))


def sleep(
    session: Session, key: str, holder: str, task_token: str, sort_key: str | None, **weight: Any
) -> Operation[None]:
    """The operation of `Client.sleep`. weight: permits, take and shared."""
    weight = checked(LOCK, weight, "sleep")
    checks.of_kind("task_token", task_token, str, "a str")
    if not 1 <= len(task_token) <= _LONGEST_CALLBACK:
        raise LockArgumentError(
            f"task_token has {len(task_token)} characters: pass $states.context.Task.Token of a state with "
            ".waitForTaskToken, which has 1 to 2,048",
            key=key,
        )
    lying_down = lie_down(session, key, sort_key, holder, "task", task_token, weight["permits"], weight["take"])
    if not has_waker(session):
        raise LockConfigurationError(
            f"nobody would wake who sleeps until lock {key!r} is free: the table has no waker, or this function does "
            f"not know of it. Deploy LockTable(wake=...) and connect the function, which sets {WAKE_VARIABLE}=1",
            key=key,
        )

    def steps(talk: Conversation) -> Steps[None]:
        if not (yield from lying_down.steps(talk)):
            raise LockNotGrantedError(
                f"lock {key!r} is held, and as many sleep until it is free as can ({sleepers.MOST_SLEEPERS}). Try "
                "again later",
                key=key,
            )

    return Operation(lying_down.place, steps)


def _place(session: Session, key: str, sort_key: str | None, holder: object, permits: int | None) -> Place:
    """Where the lock is. Raises LockArgumentError, TypeError or LockConfigurationError if nobody can sleep for it."""
    place = session.settings.place(key, sort_key)
    checks.holder("holder", holder, key)
    if permits is not None:
        checks.permits(permits, place.schema, key)
    checks.key_text("key", key + OF_SLEEPERS)
    if place.schema != JAVA:
        raise LockConfigurationError(
            f"nobody can sleep until lock {key!r} is free: the waker reads rows of the schema JAVA as it is, and this "
            f"client has {place.schema.name}, or other names. Use a client with JAVA, or poll",
            key=key,
        )
    session.check_open()
    return place
