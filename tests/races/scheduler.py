"""Runs threads one at a time, and switches between them where a plan says: real threads of the shipped code, no model.

Each thread is traced. Before each shared access in the traced modules (an attribute or item that is read or written, a
call) it stops at a *point*, which has a number. A plan names points, and the thread that goes on there. Elsewhere a
thread runs until it ends or has to wait. A thread waits for a lock, a queue or a time, all of which are counterparts
from this module that give way. Time stands still while any thread can run. So a plan gives the same run each time, and
"waits for a lock of the other" is a fact, not a guess from a time-out.

Plans with one switch are all the ways in which a thread can be interrupted once (Musuvathi and Qadeer, "Iterative
context bounding for systematic testing of multithreaded programs", PLDI 2007).
"""

from __future__ import annotations

import _thread
import dis
import functools
import os
import sys
import threading
from _queue import Empty
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

Ready = Callable[[], bool]

#: Which thread goes on when one ends or waits: the one that was started first; the one that was started last; or first
#: those that the library has started, the newest before the others.
POLICIES = ("oldest", "newest", "helpers")

_ACCESSES = ("ATTR", "SUBSCR", "METHOD", "CONTAINS_OP", "STORE_GLOBAL")  # parts of the names of operations
_MOST_POINTS = 100_000  # of one run: more is an endless loop
_PATIENCE = 60.0  # real seconds after which a thread that does not give way counts as hanging
_STARTED = 1_000.0  # virtual seconds
_SHORTEST = 1e-6  # virtual seconds: a shorter wait would be lost in rounding, and time would stand still


class Ended(BaseException):
    """Raised where a thread waits after its run is over."""


@dataclass(frozen=True)
class Choice:
    """A point at which other threads could go on."""

    point: int
    others: tuple[int, ...]
    where: str


@dataclass
class Run:
    """What happened in one run of some functions on threads."""

    results: list[Any] = field(default_factory=list)  # of each function: what it returned, or the exception
    choices: list[Choice] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


class Scheduler:
    """The threads of one schedule, their time, and the plan.

    files: the source files whose points count.
    policy: which thread goes on when one ends or waits (`POLICIES`).
    every: stop at every access ("access") or at every line ("line").
    """

    def __init__(self, files: frozenset[str], *, policy: str = "oldest", every: str = "access") -> None:
        self.now = _STARTED
        self._pid = os.getpid()
        self.troubles: list[str] = []
        self._files = files
        self._policy = policy
        self._event = "opcode" if every == "access" else "line"
        self._threads: list[Managed] = []
        self._current: Managed | None = None
        self._mains: list[Managed] = []
        self._finished = _closed_gate()
        self._plan: Mapping[int, int] = {}
        self._run = Run()
        self._counting = False
        self._point = 0
        self._closing = False

    # -- runs -------------------------------------------------------------------------------------------------------

    def run(self, functions: Sequence[Callable[[], Any]], plan: Mapping[int, int] | None = None) -> Run:
        """Run the functions, each on a thread, until all have ended. Threads that they start stay for the next run.

        plan: the number of a point, and the number of the thread that goes on there. None: nothing is counted, and
            there are no switches.
        """
        self._run, self._plan, self._point, self._counting = Run(), plan or {}, 0, plan is not None
        self._mains = [Managed(self, target=function) for function in functions]
        for main in self._mains:
            main.start()
        self._give_to(self._next())
        if not self._finished.acquire(timeout=_PATIENCE):
            raise RuntimeError(f"a thread hangs: {self._places()}")
        self._counting = False
        self._run.results = [main.result for main in self._mains]
        return self._run

    def close(self) -> None:
        """End the threads that wait. All must have come to wait (`run` with a pause does that)."""
        self._closing = True
        for thread in [thread for thread in self._threads if not thread.has_ended]:
            self._current = thread
            thread.gate.release()
            thread.join(_PATIENCE)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Count no points in this block: it belongs to the judge."""
        counting, self._counting = self._counting, False
        try:
            yield
        finally:
            self._counting = counting

    @property
    def running(self) -> list[str]:
        """The names of the threads that have not ended."""
        return [thread.name for thread in self._threads if not thread.has_ended]

    @property
    def current(self) -> Managed:
        assert self._current is not None
        return self._current

    def forked(self) -> None:
        """In a forked child: the other threads do not exist."""
        self._threads = self._mains = [self.current]
        self._counting = False

    # -- giving way -------------------------------------------------------------------------------------------------

    def wait(self, ready: Ready, seconds: float | None = None) -> bool:
        """Let others run until ``ready()`` or for ``seconds`` (None: no limit). Returns whether it is ready."""
        if ready():
            return True
        me = self._current
        if me is None or me is not threading.current_thread():
            raise RuntimeError("a thread that is not managed would wait")
        if self._closing:
            raise Ended
        me.ready, me.until = ready, None if seconds is None else self.now + max(seconds, _SHORTEST)
        try:
            chosen = self._next()
            if chosen is not me:
                self._give_to(chosen)
                me.pause()
        finally:
            me.ready, me.until = None, None
        return ready()

    def added(self, thread: Managed) -> None:
        thread.number = len(self._threads)
        self._threads.append(thread)

    def ended(self, thread: Managed, error: BaseException | None) -> None:
        thread.has_ended = True
        if thread not in self._mains and error is not None and not isinstance(error, Ended):
            self._run.troubles.append(f"thread {thread.name} ended with {error!r}")
        if not self._closing:
            is_over = all(main.has_ended for main in self._mains)
            self._give_to(None if is_over else self._next())

    def _give_to(self, thread: Managed | None) -> None:
        """Let a thread go on. None: the run is over, and `run` goes on."""
        if thread is None:
            self._finished.release()
            return
        self._current = thread
        thread.gate.release()

    def _next(self) -> Managed | None:
        """The thread that goes on when one ends or waits. If all wait, time passes. None: none ever can."""
        while True:
            if able := self._able():
                return min(able, key=self._rank)
            times = [thread.until for thread in self._threads if not thread.has_ended and thread.until is not None]
            if not times:
                self._run.troubles.append(f"all threads wait for ever: {self._places()}")
                return None
            self.now = max(self.now, min(times))

    def _rank(self, thread: Managed) -> tuple[bool, int]:
        if self._policy == "oldest":
            return False, thread.number
        return self._policy == "helpers" and thread in self._mains, -thread.number

    def _able(self) -> list[Managed]:
        return [thread for thread in self._threads if not thread.has_ended and thread.can_go_on(self.now)]

    def _places(self) -> str:
        frames = sys._current_frames()
        return "; ".join(
            f"{thread.name} at {_place(frames.get(thread.ident or 0))}"
            for thread in self._threads
            if not thread.has_ended
        )

    # -- points -----------------------------------------------------------------------------------------------------

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """For sys.settrace."""
        if not self._counting or frame.f_code.co_filename not in self._files:
            return None
        if self._event == "opcode":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        return self._traced

    def _traced(self, frame: FrameType, event: str, argument: object) -> Any:
        if (
            event == self._event
            and self._counting
            and (event == "line" or frame.f_lasti in accesses(frame.f_code))
            and self._current is threading.current_thread()
        ):
            self._at_point(frame)
        return self._traced

    def _at_point(self, frame: FrameType) -> None:
        if os.getpid() != self._pid:  # in a forked child, before `forked`: the other threads do not exist
            return
        me = self.current
        point, self._point = self._point, self._point + 1
        if self._point > _MOST_POINTS:
            self._counting = False
            self._run.troubles.append(f"a run without an end: {self._places()}")
            raise Ended
        chosen = self._plan.get(point)
        others = [thread.number for thread in self._able() if thread is not me]
        if others:
            self._run.choices.append(Choice(point, tuple(others), _place(frame)))
        if chosen is not None and chosen in others:
            self._give_to(self._threads[chosen])
            me.pause()


class Managed(threading.Thread):
    """A thread that runs only when it is given the turn."""

    def __init__(self, scheduler: Scheduler, *, target: Callable[..., object], args: tuple[Any, ...] = ()) -> None:
        super().__init__(daemon=True)
        self._act: Callable[[], object] | None = functools.partial(target, *args)
        self.scheduler = scheduler
        self.number = 0
        self.gate = _closed_gate()
        self.has_ended = False
        self.ready: Ready | None = None
        self.until: float | None = None
        self.result: Any = None

    def start(self) -> None:
        self.scheduler.added(self)
        super().start()

    def run(self) -> None:
        error: BaseException | None = None
        self.gate.acquire()
        try:
            sys.settrace(self.scheduler.trace)
            assert self._act is not None
            self.result = self._act()
        except BaseException as raised:  # noqa: BLE001 - it is what the schedule has shown
            error = self.result = raised
        finally:
            sys.settrace(None)
            self._act = None  # it may be the last reference to a lock
            self.scheduler.ended(self, error)

    def pause(self) -> None:
        """Wait until it is given the turn again."""
        self.gate.acquire()
        if self.scheduler._closing:
            raise Ended

    def can_go_on(self, now: float) -> bool:
        return self.ready is None or self.ready() or (self.until is not None and now >= self.until)

    def is_alive(self) -> bool:
        """From its start to its end, as the others see it."""
        return self._started.is_set() and not self.has_ended  # type: ignore[attr-defined]


# -- counterparts of what the shipped code waits for -------------------------------------------------------------------


class Gate:
    """A counterpart of threading.Lock and RLock."""

    def __init__(self, scheduler: Scheduler, *, again: bool) -> None:
        self._scheduler = scheduler
        self._again = again
        self._owner: threading.Thread | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = threading.current_thread()
        if self._again and self._owner is me:
            self._count += 1
            return True
        if self._count and not blocking:
            return False
        if not self._scheduler.wait(lambda: not self._count, None if timeout < 0 else timeout):
            return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if not self._count or (self._again and self._owner is not threading.current_thread()):
            raise RuntimeError("release of a lock that is not held")
        self._count -= 1
        self._owner = self._owner if self._count else None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Queue:
    """A counterpart of queue.SimpleQueue."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()

    def put(self, item: Any, _block: object = True) -> None:
        self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._scheduler.wait(lambda: bool(self._items), timeout):
            raise Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()


class Threading:
    """A counterpart of the module ``threading``, with what the shipped modules use of it."""

    current_thread = staticmethod(threading.current_thread)
    get_ident = staticmethod(threading.get_ident)

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def Thread(  # noqa: N802 - the name in threading
        self, *, target: Callable[..., object], name: str, daemon: bool = True, args: tuple[Any, ...] = ()
    ) -> Managed:
        thread = Managed(self._scheduler, target=target, args=args)
        thread.name = name
        return thread

    def Lock(self) -> Gate:  # noqa: N802
        return Gate(self._scheduler, again=False)

    def RLock(self) -> Gate:  # noqa: N802
        return Gate(self._scheduler, again=True)


class Clock:
    """The clocks of a machine on which time passes only while all threads wait."""

    def __init__(self, scheduler: Scheduler, wall: float) -> None:
        self._scheduler = scheduler
        self._wall = wall - scheduler.now

    def monotonic(self) -> float:
        return self._scheduler.now

    boottime = monotonic

    def wall(self) -> float:
        return self._wall + self._scheduler.now

    def sleep(self, seconds: float) -> None:
        self._scheduler.wait(lambda: False, seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass at once, while nobody runs."""
        self._scheduler.now += seconds


@functools.cache
def accesses(code: CodeType) -> frozenset[int]:
    """The offsets of the operations of a code object before which another thread is let in."""
    return frozenset(
        operation.offset
        for operation in dis.get_instructions(code)  # a CALL, but no PRECALL, which comes right before it
        if any(part in operation.opname for part in _ACCESSES) or operation.opname.startswith("CALL")
    )


def _closed_gate() -> _thread.LockType:
    """What one thread waits for and another one opens: a lock, the fastest way from thread to thread."""
    gate = _thread.allocate_lock()
    gate.acquire()
    return gate


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "?"
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, threading.__file__):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_qualname}"
