"""Drives the flow of a decorated call, for plain and for async functions."""

from __future__ import annotations

from ..errors import LockAlreadyReleasedError
from ..observe.log import NOT_RELEASED, logger, tell_not_released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeAlias, TypeVar

    from ..client.async_lock import AsyncLock
    from ..client.lock import Lock

    T = TypeVar("T")
    #: Yields what is to be called, and receives the result or error: one flow for plain and async functions.
    Calls: TypeAlias = Generator[Callable[[], Any], Any, T]
    Resume: TypeAlias = Callable[[Any], Callable[[], Any]]

NOT_COMPLETED = "event %r may not be marked as done, and its next delivery may run again: %s"


def end_quietly(lock: Lock | AsyncLock, end: Callable[[], Any], failure: str = NOT_RELEASED) -> Calls[bool]:
    """Release or complete at the end of a call. Returns False if the lock turns out to have been lost.

    An error is logged as ``failure``. It must not hide the call's result or error.
    """
    try:
        kept: bool = yield end
        return kept
    except LockAlreadyReleasedError:
        return True  # by the function itself
    except Exception as error:  # noqa: BLE001 - the call has to end as it did, whatever this is
        tell_not_released(logger, error, message=failure, key=key_of(lock), owner=lock.owner)
        return True


def key_of(lock: Any) -> str:
    """The key of a lock, or the keys of several, for the log."""
    key: str | None = getattr(lock, "key", None)
    return ", ".join(lock.keys) if key is None else key


def run(calls: Calls[T], resume: Resume | None = None, value: Any = None) -> T:
    """Make the calls that ``calls`` yields, pass their results and errors back to it, and return what it returns.

    resume, value: for this function itself. After an error it goes on within the handler of that error, so that what
    is called then (on_not_granted, a release) finds it as the error being handled.
    """
    resume = resume or calls.send
    try:
        while True:  # inside the try: an interrupt may come between any two steps of this loop
            value = resume(value)()
            resume = calls.send
    except BaseException as error:
        if calls.gi_frame is None:  # type: ignore[attr-defined]  # they have ended
            if isinstance(error, StopIteration):
                result: T = error.value
                return result
            raise
        try:
            return run(calls, calls.throw, error)
        except RuntimeError as ended:
            if not isinstance(error, StopIteration) or ended.__cause__ is not error:
                raise
        raise  # the application's StopIteration: no generator can let it through (PEP 479)
    finally:
        del value  # an error's traceback has this frame


async def run_async(calls: Calls[T], resume: Resume | None = None, value: Any = None) -> T:
    """As run(), awaiting what can be awaited."""
    resume = resume or calls.send
    try:
        while True:
            value = resume(value)()
            if hasattr(value, "__await__"):
                value = await value
            resume = calls.send
    except BaseException as error:
        if calls.gi_frame is None:  # type: ignore[attr-defined]
            if isinstance(error, StopIteration):
                result: T = error.value
                return result
            raise
        return await run_async(calls, calls.throw, error)
    finally:
        del value
