"""Drives the core's generators for asyncio: requests are sent on threads, and waits are awaited."""

from __future__ import annotations

import asyncio
import os

from ..core.outcome import Interrupted
from ..core.protocol import Resumption, Send
from ..errors import TransportError
from .drive import Pause, carried, check_process, send
from .signalsafe import Caller
from .threads import LIMIT, Busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    from ..core.outcome import Outcome
    from ..core.protocol import Steps, Wait
    from ..transport import Transport
    from .signalsafe import UnderWay
    from .threads import Threads
    from .timeline import Timeline

    T = TypeVar("T")


async def drive_async(
    steps: Steps[T],
    transport: Transport,
    timeline: Timeline,
    sleep: Callable[[float], Awaitable[None]],
    asking: Threads,
    giving_back: Threads,
    patience: float,
    under_way: UnderWay,
) -> T:
    """`drive` for asyncio. Requests are sent on the threads ``asking``, and noted as ``under_way`` there.

    An exception meanwhile is thrown into the steps. All that they still send then, to release what may have been taken,
    is sent on a thread of ``giving_back``: cancelling again does not keep anything from being released. If no thread is
    free for that within ``patience`` seconds, what may be held is left to its lease.

    A forked child sends nothing, as with `drive`. It has no running loop, so it mostly leaves by asyncio's error.

    If the coroutine is closed in the midst of the steps, they are left as they are: nothing can be awaited then.
    """
    pid = os.getpid()

    def send_in(step: Send) -> Outcome:
        """Send a request, on a thread."""
        check_process(pid)  # a child may have started a thread of its own for the request
        request = Caller()
        under_way.begin(request)
        try:
            if not under_way.may_send(steps):  # asked after it was noted, so that close() sees it or has stopped it
                return TransportError(False, "nothing was sent: the client was closed")
            return send(step, transport)
        finally:
            under_way.end(request)

    async def outcome_of(step: Send) -> Outcome:
        try:
            return await asking.settle(send_in, step, patience=step.timeout, needed=False)
        except Busy as error:
            return unsent(step.timeout, error)

    def finish(step: Send | Wait) -> Any:
        """Drive the steps from ``step`` to their end, on a thread, unless closing the client does."""
        work = Caller()
        under_way.begin(work)
        try:
            while under_way.may_send(steps):
                outcome = None
                try:
                    if isinstance(step, Send):
                        outcome = send(step, transport)
                    else:
                        timeline.clock.sleep(step.seconds)
                except Exception as error:  # noqa: BLE001 - as in `drive`: the steps raise it, or what came before it
                    step = steps.throw(error)
                else:
                    step = steps.send(Resumption(timeline.reading(), outcome))
        except StopIteration as end:
            return end.value
        finally:
            under_way.end(work)

    event: Any = None
    try:
        while True:  # inside the try: an interrupt may come between any two steps of this loop
            step = steps.send(event)
            outcome = None
            if isinstance(step, Send):
                outcome = await outcome_of(step)
            else:
                await (asyncio.sleep if isinstance(step, Pause) else sleep)(step.seconds)
            event = Resumption(timeline.reading(), outcome)
    except GeneratorExit:
        raise
    except BaseException as error:
        if steps.gi_frame is None:  # type: ignore[attr-defined]  # they have ended
            if isinstance(error, StopIteration):  # the steps' own: one of the application's does not end them
                result: T = error.value
                check_process(pid)
                return result
            raise
        if pid != os.getpid():
            steps.close()
            raise
        try:
            step = steps.throw(carried(error))
            return await giving_back.settle(finish, step, patience=patience)
        except Busy:
            steps.close()
            raise error from None
        except Interrupted as interrupted:
            raise interrupted.error from None


def unsent(seconds: float, cause: Busy) -> TransportError:
    """The error for a request for which no thread was free."""
    error = TransportError(
        False,
        f"nothing was sent: {LIMIT} requests were under way, and no thread was free for this one within {seconds:g} s. "
        "Check the connection, or begin fewer at a time",
    )
    error.__cause__ = cause
    return error
