"""The few threads on which an async client sends.

The loop's default executor belongs to the application. If it were full of work that waits for a lock, the release of
that lock would wait as well. And at its exit the interpreter waits for every thread and every queued call of an
executor. The threads here are daemons. One is started for a call that finds no free thread, and ends when no call is
left.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import threading
import weakref
from collections import deque

from ..core.outcome import expected
from .signalsafe import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

LIMIT = 8  # threads at once: at 5 ms a request they send 1,600 a second


class Busy(Exception):
    """No thread was free in time. The call was not begun, and will not be."""


class Threads:
    """Runs blocking calls for coroutines, first come, first served. Safe from any thread, and bound to no loop."""

    def __init__(self) -> None:
        self.forget_all()
        _ALL.add(self)

    def forget_all(self) -> None:
        """In a forked child: the threads and their calls are the parent's."""
        self._guard = threading.Lock()
        self._waiting: deque[_Call] = deque()
        self._workers: set[threading.Thread] = set()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return or raise what ``function`` does. If the task is cancelled, a call that has begun is left to run."""
        call = self._begin(function, arguments)
        if call.interrupt is not None:
            raise call.interrupt
        try:
            await asyncio.wait([call.ended])
        except asyncio.CancelledError:
            self._take_back(call)
            raise
        result: T = call.result()
        return result

    async def settle(
        self, function: Callable[..., T], *arguments: Any, patience: float | None = None, needed: bool = True
    ) -> T:
        """As `run`, but if this task is cancelled or interrupted, the call ends before that propagates.

        It always waits at least once, even for a call that ends at once. So a task that was cancelled before hears of
        it here, and not after it was given a lock that nobody would release.

        patience: seconds within which a thread must begin the call. Otherwise Busy is raised. None: no limit.
        needed: False: cancelling the task takes the call back if no thread has begun it.
        """
        now = asyncio.get_running_loop().time
        call = self._begin(function, arguments)
        end = None if patience is None else now() + patience
        cancelled: BaseException | None = call.interrupt
        waited = False
        while not (call.over and waited):
            waited = True
            try:
                # A future, not a task: a loop that ends cancels all tasks, and then a request could outlive the release
                # after it.
                timeout = 0 if call.over else None if end is None else max(end - now(), 0)
                await asyncio.wait([call.ended], timeout=timeout)
                late = end is not None and now() >= end
            except expected(Exception, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001 - of a task or a signal handler, raised below
                cancelled, late = error, False
            if (late or (cancelled and not needed)) and self._take_back(call):
                raise cancelled or Busy
            if late:
                end = None  # a thread has begun it
        if cancelled is not None:
            raise cancelled
        result: T = call.result()
        return result

    def _begin(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Call:
        call = _Call(functools.partial(contextvars.copy_context().run, function, *arguments))
        try:
            self._put(call)
        except BaseException as error:  # an interrupt, mostly while a thread is started
            if self._take_back(call) or not call.begun:
                raise
            call.interrupt = error  # `settle` first waits for its end: a claim must not arrive after it was given up
        return call

    def _put(self, call: _Call) -> None:
        with self._guard:
            self._waiting.append(call)
            if len(self._workers) >= LIMIT:
                return
            worker = threading.Thread(target=self._work, name="lambda_lock-asyncio", daemon=True)
            self._workers.add(worker)
        try:
            start(worker)
        except BaseException as error:
            with self._guard:
                self._workers.discard(worker)
            if not isinstance(error, expected(RuntimeError)):
                raise
            # No thread can be started: a limit is reached, or the interpreter ends.
            if not self._workers:
                self._work()  # blocks the loop, but a lock that is not released blocks others for longer

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._workers.discard(threading.current_thread())
                    return
                call = self._waiting.popleft()
                call.begun = True
            call.run()

    def _take_back(self, call: _Call) -> bool:
        """Withdraw a call that no thread has begun. Return whether it was one."""
        with self._guard:
            if call not in self._waiting:
                return False
            self._waiting.remove(call)
            return True


class _Call:
    """A call, and the loop that waits for its end.

    ``begun`` is True once a thread has taken it, and ``over`` once it has ended. ``ended`` tells the loop so, unless an
    interrupt (Ctrl-C) comes in between. ``interrupt``: the one that came while the call was handed to its thread.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._value: Any = None
        self._error: BaseException | None = None
        self.interrupt: BaseException | None = None
        self.begun = False
        self.over = False
        self.ended: asyncio.Future[None] = self._loop.create_future()  # given to asyncio.wait, which never cancels it

    def run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # noqa: BLE001 - raised to the caller, and no reason for this thread to end
            self._error = error
        self.over = True
        with contextlib.suppress(RuntimeError):  # the loop was closed, so nothing is waiting
            self._loop.call_soon_threadsafe(self.ended.set_result, None)

    def result(self) -> Any:
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None  # its traceback refers to this frame, which refers to it: a circle that is not freed


_ALL: weakref.WeakSet[Threads] = weakref.WeakSet()


def _in_child() -> None:
    for threads in _ALL:
        threads.forget_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
