"""The first operations of a durable lock: a name for its holder, and the acquire of each key.

The name is checkpointed before a lock is asked for. So an acquire that was killed before its checkpoint is run again
under the same name, and goes on with what it had taken (core/resume.py, rule 6).

An acquire is one operation of the kind ``wait_for_condition``, however often it is tried. Between tries the execution
is suspended. What one try found is the state with which the next begins, so the outcome is the same in every replay.
Several keys share one wait: the first try of a key begins with the time that was waited for those before it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Any, TypedDict

from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.exceptions import WaitForConditionError
from aws_durable_execution_sdk_python.waits import WaitForConditionConfig, WaitForConditionDecision

from .. import errors
from ..errors import LockError, LockNotGrantedError, LockTimeoutError, TransportError
from .holds import DurableHold, Holds

_GROWTH = 0.01  # a pause is a hundredth of the time waited so far: a year takes 1,100 tries of 3,000. With a tenth,
# who has waited longest would look least
_LONGEST_PAUSE = 86_400  # seconds
_LONGEST_ARN = 400  # characters; a holder may have 512 bytes
_LABEL = 200  # characters of the keys in an operation's name, which may have 256
LATE = 5.0  # seconds by which a suspended execution may go on too late; a lease must cover them


class State(TypedDict, total=False):
    """What the tries have come to. A dict, which the SDK writes as JSON."""

    owner: str  # granted, with token
    token: int
    since: float  # epoch seconds of the first try, of the first key
    waited: float  # seconds, the pause that follows included
    pause: int  # seconds until the next try; 0: there is none
    refusal: str  # the last try's error
    outage: bool  # whether that was an outage, not contention
    holder: str | None


class Polling:
    """How long to wait for the lock, and how often to try. Seconds; no wait: None."""

    def __init__(self, wait: float | None, poll: float, held: float = math.inf) -> None:
        """held: the shortest lease of what is held meanwhile, which is renewed at each try."""
        self.wait = math.inf if wait is None else wait
        self.poll = poll
        self.longest = min(_LONGEST_PAUSE, held - LATE)

    def pause(self, waited: float) -> int:
        """Return the whole seconds until the next try. 0: the wait is over."""
        left = self.wait - waited
        if left <= 0:
            return 0
        return max(1, math.ceil(min(max(self.poll, waited * _GROWTH), self.longest, left)))


def label(act: str, keys: Sequence[str]) -> str:
    """The name of an operation. The service takes printable ASCII only."""
    return f"{act} {'lock' if len(keys) == 1 else 'locks'} {', '.join(map(ascii, keys))[:_LABEL]}"


def acquire(context: DurableContext, holds: Holds, polling: Polling) -> None:
    """Take the locks one after another: one operation for the holder's name, and one for each. On a replay, only read
    what they came to.

    Raises LockNotGrantedError, LockTimeoutError, TransportError and what LockClient.acquire raises for other reasons.
    """
    execution = context.execution_context.durable_execution_arn[:_LONGEST_ARN]
    # A name of its own for each block, also for two blocks of one execution.
    holder = context.step(lambda _: f"{execution}/{os.urandom(16).hex()}", name=label("name", holds.keys))
    waited: State = {}
    for hold in holds.all:
        waited = _acquire_one(context, hold, holder, polling, waited)
        holds.taken.append(hold)


def _acquire_one(context: DurableContext, hold: DurableHold, holder: str, polling: Polling, before: State) -> State:
    """Take one lock. Returns the time that was waited so far."""

    def try_once(found: State, _: object) -> State:
        now = time.time()
        since = found.get("since", now)
        try:
            hold.acquire(holder)
        except (LockNotGrantedError, TransportError) as error:
            waited = max(found.get("waited", 0.0), now - since)
            pause = polling.pause(waited)
            return {
                "since": since,
                "waited": waited + pause,
                "pause": pause,
                "refusal": str(error),
                "outage": isinstance(error, TransportError),
                "holder": getattr(error, "holder", None),
            }
        return {"owner": hold.owner, "token": hold.token, "since": since, "waited": found.get("waited", 0.0)}

    config: WaitForConditionConfig[Any] = WaitForConditionConfig(wait_strategy=_next, initial_state=before)
    try:
        state: State = context.wait_for_condition(try_once, config=config, name=label("acquire", [hold.key]))
    except WaitForConditionError as error:
        # The SDK keeps the name of the type of the error that ended the acquire, and its message.
        module, _, name = error.error_type.rpartition(".")
        kind = getattr(errors, name, None) if module == errors.__name__ else None
        if not isinstance(kind, type) or not issubclass(kind, LockError):
            raise
        raise kind(error.message or "", key=hold.key) from error
    if "owner" not in state:
        raise _refused(state, hold, polling)
    hold.begin(state["owner"], state["token"])
    return {"since": state["since"], "waited": state["waited"]}


def _next(state: State, _: int) -> WaitForConditionDecision:
    pause = state.get("pause", 0)
    if not pause:
        return WaitForConditionDecision.stop_polling()
    return WaitForConditionDecision.continue_waiting(Duration(pause))


def _refused(state: State, hold: DurableHold, polling: Polling) -> LockError:
    key = hold.key
    if state["outage"]:
        return TransportError(True, state["refusal"], key=key)
    holder, waited, refusal = state["holder"], state["waited"], state["refusal"]
    if not polling.wait:
        return LockNotGrantedError(refusal, key=key, holder=holder, waited=waited)
    held = f"lock {key!r} {f'is held by {holder}' if holder else 'was not free'}"
    if hold.permits is not None:
        held = f"semaphore {key!r} had no free permit"
    return LockTimeoutError(
        f"{held}, even after {waited:.0f} s of waiting. Pass durable_lock a longer wait=, or let the caller try again",
        key=key,
        holder=holder,
        waited=waited,
    )
