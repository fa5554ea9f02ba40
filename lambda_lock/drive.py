"""Drives the core's generators on the calling thread: sends what they yield, sleeps when they wait."""

from __future__ import annotations

from .core.outcome import ConditionFailed, ServiceError, TransactionCanceled
from .core.protocol import Event, Send
from .errors import TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from .core.outcome import Reply
    from .core.protocol import Steps
    from .timeline import Timeline
    from .transport import Transport

    T = TypeVar("T")


def drive(steps: Steps[T], transport: Transport, timeline: Timeline, sleep: Callable[[float], None]) -> T:
    """Run ``steps`` to their end and return what they return.

    What is raised while they wait (KeyboardInterrupt, a closed client, a bug of a transport) is thrown into them: they
    may still send, to release what may have been taken, before it comes out here.
    """
    try:
        step = next(steps)
        while True:
            try:
                outcome: Reply | Exception | None = None
                if isinstance(step, Send):
                    outcome = _send(step, transport)
                else:
                    sleep(step.seconds)
                event = Event(timeline.look(), outcome)
            except BaseException as error:  # noqa: BLE001 - thrown on into the steps, which raise it when they have cleaned up
                step = steps.throw(error)
            else:
                step = steps.send(event)
    except StopIteration as end:
        result: T = end.value
        return result


def _send(step: Send, transport: Transport) -> Reply | Exception:
    try:
        return transport.send(step.operation, step.request, timeout=step.timeout)
    except ServiceError as error:
        error.operation = step.operation
        return error
    except (ConditionFailed, TransportError, TransactionCanceled) as outcome:
        return outcome
