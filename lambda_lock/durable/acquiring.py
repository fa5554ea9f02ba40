"""The first operations of a durable lock: a name for its holder, and the acquire of each key.

The name is checkpointed before a lock is asked for. So an acquire that was killed before its checkpoint is run again
under the same name, and goes on with what it had taken (core/resume.py, rule 6).

An acquire is one operation of the kind ``wait_for_condition``, however often it is tried. Between tries the execution
is suspended. What one try found is the state with which the next begins, so the outcome is the same in every replay.
Several keys share one wait: the first try of a key begins with the time that was waited for those before it.

**Asleep.** Where the table has a waker, the try that is refused ends its operation, with a state that says so. This
state checkpoints the decision to sleep, and costs no operation. A replay without it makes none of the operations that
follow, whatever the environment says by then. They are a callback, an operation that writes it into the table
(`lie_down`), and, once it was called or has timed out, another acquire: three operations for each sleep. The execution
never asks what woke it: only an acquire grants. Where there is no room among the sleepers, the operation that
should write the entry polls until the callback times out, each time with another attempt to lie down.

Operations are counted (``spent``). Once there are MOST_SPENT, the execution polls only. Since a wait of a year has less
than 1,600 polls, it has less than 3,000 operations in all, whoever wakes it, however often, and however full it is.
While other locks are held, it may have more: their leases bound its pauses.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Any, TypedDict

from aws_durable_execution_sdk_python.config import CallbackConfig, Duration
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.exceptions import CallbackError, CallbackTimeoutError, WaitForConditionError
from aws_durable_execution_sdk_python.types import WaitForConditionCheckContext
from aws_durable_execution_sdk_python.waits import WaitForConditionConfig, WaitForConditionDecision

from .. import errors
from ..errors import LockError, LockNotGrantedError, LockTimeoutError, TransportError
from .holds import DurableHold, Holds

_GROWTH = 0.01  # a pause is a hundredth of the time waited so far: a year takes 1,100 tries of 3,000. With a tenth,
# the longest waiter would try least often
_LONGEST_PAUSE = 86_400  # seconds
_SHORTEST_SLEEP = 3_600  # seconds until a callback times out; then as long as was waited, at most _LONGEST_PAUSE
MOST_SPENT = 1_400  # operations of one wait after which it polls; 370 sleeps, a year of them, have 1,110
_LONGEST_ARN = 400  # characters; a holder may have 512 bytes
_LABEL = 200  # characters of the keys in an operation's name, which may have 256
LATE = 5.0  # seconds by which a suspended execution may go on too late; a lease must cover them


class State(TypedDict, total=False):
    """The state after a try. A dict, which the SDK writes as JSON."""

    owner: str  # granted, with token
    token: int
    since: float  # epoch seconds of the first try, of the first key
    waited: float  # seconds, the pause that follows included
    pause: int  # seconds until the next try; 0: there is none
    refusal: str  # the last try's error
    outage: bool  # whether that was an outage, not contention
    holder: str | None
    spent: int  # operations so far: tries, callbacks, entries
    sleep: int  # refused, and the table has a waker: seconds until the next callback times out
    asleep: bool  # the entry is written: wait for the callback
    entry: bool  # an entry of ours may be among the sleepers


class Polling:
    """How long to wait for the lock, and how often to try, in seconds. wait: None waits without a limit."""

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

    def sleep(self, waited: float) -> int:
        """Return the whole seconds until the callback of a sleep times out."""
        left = self.wait - waited
        return max(1, math.ceil(min(max(_SHORTEST_SLEEP, waited), self.longest, left)))


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
    """Take one lock. Returns what was waited and spent so far."""
    state = _try(context, hold, holder, polling, before)
    while "sleep" in state:
        until = state["waited"] + state["sleep"]
        config = CallbackConfig(timeout=Duration(state["sleep"]))
        callback = context.create_callback(name=label("sleep for", [hold.key]), config=config)
        state = {"since": state["since"], "waited": state["waited"], "spent": state["spent"] + 1, "entry": True}
        state = _try(context, hold, holder, polling, state, callback.callback_id, until)
        if not state.get("asleep"):
            continue
        try:
            callback.result()
            state["entry"] = False  # the waker removes it
        except CallbackTimeoutError:
            state["waited"] = max(state["waited"], until)
        except CallbackError:  # somebody failed it by hand. Only an acquire grants, so try again
            pass
        state = _try(context, hold, holder, polling, state)
    if "owner" not in state:
        raise _refused(state, hold, polling)
    hold.begin(state["owner"], state["token"])
    return {"since": state["since"], "waited": state["waited"], "spent": state.get("spent", 0)}


def _try(
    context: DurableContext,
    hold: DurableHold,
    holder: str,
    polling: Polling,
    before: State,
    callback: str = "",
    until: float = 0.0,
) -> State:
    """Try until the lock is granted, the wait is over, or it is time to sleep. One operation, which polls.

    callback, until: first write this callback among the sleepers, unless ``until`` was waited already. If there is
        room, that ends the operation.
    """

    def try_once(found: State, check: WaitForConditionCheckContext) -> State:
        now = time.time()
        since = found.get("since", now)
        waited = max(found.get("waited", 0.0), now - since)
        spent = before.get("spent", 0) + check.attempt
        so_far: State = {"since": since, "waited": waited, "spent": spent, "entry": found.get("entry", False)}

        def may_sleep() -> bool:
            return spent < MOST_SPENT and hold.has_waker

        if waited < until and may_sleep() and hold.lie_down(holder, callback):
            return {**so_far, "asleep": True, "entry": True}
        pause = polling.pause(waited)
        if so_far["entry"] and not (pause and may_sleep()):
            hold.get_up(holder)  # before the last try, or before the first of many
            so_far["entry"] = False
        try:
            hold.acquire(holder)
        except (LockNotGrantedError, TransportError) as error:
            outage = isinstance(error, TransportError)
            if waited < until:
                pause = min(pause, math.ceil(until - waited))
            elif pause and not outage and may_sleep():
                return {**so_far, "sleep": polling.sleep(waited)}
            return {
                **so_far,
                "waited": waited + pause,
                "pause": pause,
                "refusal": str(error),
                "outage": outage,
                "holder": getattr(error, "holder", None),
            }
        if so_far["entry"]:
            hold.get_up(holder)  # otherwise the waker would claim for nobody, after the release
        return {**so_far, "owner": hold.owner, "token": hold.token}

    config: WaitForConditionConfig[Any] = WaitForConditionConfig(wait_strategy=_next, initial_state=before)
    act = "lie down for" if callback else "acquire"
    try:
        state: State = context.wait_for_condition(try_once, config=config, name=label(act, [hold.key]))
    except WaitForConditionError as error:
        # The SDK keeps the name of the type of the error that ended the acquire, and its message.
        module, _, name = error.error_type.rpartition(".")
        kind = getattr(errors, name, None) if module == errors.__name__ else None
        if not isinstance(kind, type) or not issubclass(kind, LockError):
            raise
        raise kind(error.message or "", key=hold.key) from error
    return state


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
        held = f"semaphore {key!r} had no {f'{hold.take} free permits' if (hold.take or 1) > 1 else 'free permit'}"
    return LockTimeoutError(
        f"{held}, even after {waited:.0f} s of waiting. Pass durable_lock a longer wait=, or let the caller try again",
        key=key,
        holder=holder,
        waited=waited,
    )
