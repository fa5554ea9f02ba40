"""Drives the core's generators on the calling thread: sends what they yield, sleeps when they wait."""

from __future__ import annotations

import os
import time

from ..core.outcome import (
    ConditionFailed,
    Interrupted,
    ServiceError,
    TransactionCanceled,
    another_answer,
    expected,
    is_interrupt,
)
from ..core.protocol import Resumption, Send, Wait
from ..errors import OwnerMismatchError, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..core.outcome import Outcome
    from ..core.protocol import Steps
    from ..transport import Transport
    from .timeline import Timeline

    T = TypeVar("T")


class Pause(Wait):
    """Yielded: sleep by the machine's clock, whatever clock the client has, because another thread is waited for."""

    __slots__ = ()


def drive(steps: Steps[T], transport: Transport, timeline: Timeline, sleep: Callable[[float], None]) -> T:
    """Run ``steps`` to their end and return their result.

    An exception while they wait (KeyboardInterrupt, a closed client, a bug of a transport) is thrown into them. They
    may still send, to release what may have been taken, before it is raised here. From then on they wait by the clock
    alone, without ``sleep``. What a signal handler raises is thrown in as Interrupted, whatever its class is: no step
    takes that for an outcome.

    If the process is forked meanwhile, as by a signal handler, nothing is sent in the child: the steps and their locks
    are the parent's, which goes on with them. In the child, OwnerMismatchError is raised, or the exception by which it
    leaves the call, such as SystemExit.
    """
    pid = os.getpid()
    resume: Callable[[Any], Send | Wait] = steps.send
    value: Resumption | BaseException | None = None
    outcome: Outcome | None = None
    interrupt: Exception | None = None
    try:
        while interrupt is None:
            try:
                while True:  # inside the try: an interrupt may come between any two steps of this loop
                    step = resume(value)
                    outcome = None
                    if isinstance(step, Send):
                        if pid != os.getpid():
                            check_process(pid)
                        outcome = send(step, transport)
                    else:
                        (time.sleep if isinstance(step, Pause) else sleep)(step.seconds)
                    resume, value = steps.send, Resumption(timeline.reading(), outcome)
            except BaseException as error:
                if steps.gi_frame is None:  # type: ignore[attr-defined]  # they have ended
                    if isinstance(error, StopIteration):  # the steps' own: one of the application's does not end them
                        result: T = error.value
                        if pid != os.getpid():
                            check_process(pid)
                        return result
                    if not isinstance(error, Interrupted):
                        raise
                    interrupt = error.error  # raised below, so that it does not refer to what carried it
                    continue
                if pid != os.getpid():
                    steps.close()
                    raise
                resume, value, sleep = steps.throw, carried(error), timeline.clock.sleep
        raise interrupt
    finally:
        # An error's traceback refers to this frame. If the frame referred to the error, the two would keep each other
        # alive, and with them a lock that the application has dropped.
        del value, outcome, interrupt


def carried(error: BaseException) -> BaseException:
    """The error to throw into steps: an Interrupted for an interrupt that they could take for an outcome."""
    return Interrupted(error) if isinstance(error, Exception) and is_interrupt(error) else error


def check_process(pid: int) -> None:
    """Raise OwnerMismatchError in a process that was forked from process ``pid`` in the middle of an operation."""
    if pid != os.getpid():
        raise OwnerMismatchError(
            f"process {pid} was forked in the middle of an operation on a lock, which is its own: nothing is sent "
            "here. Leave the child by os._exit, or begin operations of its own"
        ) from None


def send(step: Send, transport: Transport) -> Outcome:
    """The outcome of a Send: the transport's reply, or the error that it raised.

    Every outcome enters the protocol here, with every transport. An outcome that shows another row than the one asked
    for is not a usable answer.
    """
    try:
        reply = transport.send(step.operation, step.request, timeout=step.timeout)
        return reply if _answers(step.operation, step.request, reply) else another_answer(step.operation)
    except expected(ServiceError) as error:
        of, signed_with = getattr(transport, "region", None), getattr(transport, "signed_with", "")
        return error.answers(step.operation, of, signed_with)
    except expected(TransportError) as error:
        return error
    except expected(ConditionFailed, TransactionCanceled) as refused:  # no other variable keeps it: see `drive`'s end
        return refused if _answers(step.operation, step.request, refused) else another_answer(step.operation)


def _answers(operation: str, request: dict[str, Any], outcome: Any) -> bool:
    """Whether an outcome can belong to the request: it shows the row that was asked for, in the form of an item."""
    if isinstance(outcome, TransactionCanceled):
        if operation != "TransactWriteItems":
            return False
        writes = [write for entry in request.get("TransactItems", []) for write in entry.values()]
        return len(writes) == len(outcome.reasons) == len(outcome.items) and all(map(_shows, writes, outcome.items))
    if isinstance(outcome, ConditionFailed):
        return "ConditionExpression" in request and _shows(request, outcome.item)
    if operation in ("Scan", "Query"):
        page = outcome.item
        return isinstance(page, dict) and isinstance(page.get("Items"), list) and all(map(is_item, page["Items"]))
    if outcome.item is None:
        return request.get("ReturnValues") != "ALL_NEW"
    return operation == "TransactWriteItems" or _shows(request, outcome.item)


def _shows(write: dict[str, Any], item: Any) -> bool:
    """Whether this is the item of a request, or of a write in a transaction. None: there was no item.

    Keys are compared if they are strings, as those of locks are. One number can be written in many ways.
    """
    if item is None:
        return True
    keys = {name: key for name, key in write.get("Key", {}).items() if "S" in key}
    return is_item(item) and keys.items() <= item.items()


_SCALARS = {"S": str, "N": str, "B": str, "BOOL": bool, "NULL": bool}
_MOST_NESTED = 32  # DynamoDB nests no deeper (Developer Guide, "Quotas")


def is_item(item: Any, depth: int = 0) -> bool:
    """Whether this is an item in DynamoDB's JSON, or the content of a map. Texts and numbers are not parsed."""
    if not isinstance(item, dict) or (item and depth > _MOST_NESTED):
        return False
    for value in item.values():
        if not isinstance(value, dict) or len(value) != 1:
            return False
        [(kind, content)] = value.items()
        if isinstance(content, _SCALARS.get(kind, ())):
            continue
        if kind == "M":
            is_right = is_item(content, depth + 1)
        elif not isinstance(content, list):
            is_right = False
        elif kind == "L":
            is_right = is_item(dict(enumerate(content)), depth + 1)
        else:
            is_right = kind in ("SS", "NS", "BS") and all(isinstance(inner, str) for inner in content)
        if not is_right:
            return False
    return True
