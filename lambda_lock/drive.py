"""Drives the core's generators on the calling thread: sends what they yield, sleeps when they wait."""

from __future__ import annotations

from .core.outcome import ConditionFailed, ServiceError, TransactionCanceled
from .core.protocol import Event, Send
from .errors import TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from .core.outcome import Reply
    from .core.protocol import Steps, Wait
    from .timeline import Timeline
    from .transport import Transport

    T = TypeVar("T")


def drive(steps: Steps[T], transport: Transport, timeline: Timeline, sleep: Callable[[float], None]) -> T:
    """Run ``steps`` to their end and return what they return.

    What is raised while they wait (KeyboardInterrupt, a closed client, a bug of a transport) is thrown into them: they
    may still send, to release what may have been taken, before it comes out here.
    """
    resume: Callable[[Any], Send | Wait] = steps.send
    value: Event | BaseException | None = None
    while True:
        try:
            while True:  # inside the try: an interrupt may come up between any two steps of this loop
                step = resume(value)
                outcome = None
                if isinstance(step, Send):
                    outcome = send(step, transport)
                else:
                    sleep(step.seconds)
                resume, value = steps.send, Event(timeline.look(), outcome)
        except StopIteration as end:
            result: T = end.value
            return result
        except BaseException as error:
            if steps.gi_frame is None:  # type: ignore[attr-defined]  # they have ended with it
                raise
            resume, value = steps.throw, error


def send(step: Send, transport: Transport) -> Reply | Exception:
    """What came of a Send: the transport's reply, or the error that it raised."""
    try:
        return transport.send(step.operation, step.request, timeout=step.timeout)
    except ServiceError as error:
        error.operation = step.operation
        return error
    except (ConditionFailed, TransportError, TransactionCanceled) as outcome:
        return outcome
