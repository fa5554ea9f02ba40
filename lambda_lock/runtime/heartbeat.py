"""The heartbeat: it makes held locks notice the time, and sends their renewals.

`Heartbeat` watches. There is one daemon thread per process. It is started for the first lock that needs it, and parked
when no lock is held. It sends nothing, so danger and loss are told on time, however long a request waits. All that it
knows of a lock is `tick()`, which does what is due and returns the seconds until the next call.

`Renewals` sends. Each client has its own, with threads that are started when a renewal is due. So a stalled endpoint
delays the renewals of no other client. The number of threads does not grow with the locks. If renewals have to wait for
a thread, the lock whose validity ends first comes first: a short lease, or a renewal that failed, must not wait behind
thousands that have time.

Both reference locks weakly, so a lock that the application forgets is not renewed for ever. What other threads, signal
handlers and finalizers call here takes no lock (signalsafe.py says why). Commands go through a SimpleQueue, whose put()
may be called from any of them (Python library reference, queue.SimpleQueue).

A lock or a client that is collected is noticed by that put() itself, as the callback of a weak reference. It is written
in C, so no signal handler runs within it: what that raises would be dropped, as all that a finalizer raises. And it
waits for nothing. When the interpreter ends, other threads are frozen where they are, with every lock that they have.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import threading
import time
import weakref
from _queue import Empty, SimpleQueue  # what `queue` exports, without the 3 ms that importing it takes

from ..observe.log import logger, tell
from .import_guard import ImportGuard
from .timeline import elapsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, TypeAlias

    class Beating(Protocol):
        """What a heartbeat needs of a lock."""

        def tick(self) -> float | None:
            """Do what is due now, without waiting; the seconds until the next call, None for none until `watch`."""

    class Renewed(Protocol):
        """What sending its renewals needs of a lock."""

        def renew(self) -> None:
            """Send the renewal that is due, and wait for its outcome."""

    Reference: TypeAlias = weakref.ref[Beating]


_LOOK = 1.0  # seconds: sleep no longer than this while something is held, so that a thaw is noticed soon
_MOST_STALE = 64  # entries of the plan, on top of one for each lock
_AFTER_FAULT = 0.05  # seconds: a fault that repeats must not keep the processor busy
_MOST_SENDERS = 8  # threads of one client: those of 5,000 locks on a lease of 20 s send 750 renewals a second
_SENDER_IDLE = 10.0  # seconds without work after which a sender ends; the first one of a client stays


class Heartbeat:
    """Calls ticks when they are due. Any thread, signal handler or finalizer may use it."""

    def __init__(self) -> None:
        # (when, number of the watch, lock), or (id of a lock, number) for one that is collected, or None: look again
        self._commands: SimpleQueue[tuple[float, int, Reference] | tuple[int, int] | None] = SimpleQueue()
        self._due: list[tuple[float, int, Reference]] = []  # a heap; the thread's alone
        self._live: dict[int, int] = {}  # id of a watched lock: the number of its newest watch
        self._numbers = itertools.count(1)
        self._thread: threading.Thread | None = None

    def watch(self, lock: Beating, seconds: float) -> None:
        """Call ``lock.tick()`` in ``seconds``, and again when it says so, until `forget`. This replaces earlier calls.

        Raises RuntimeError if the thread cannot be started. The lock is not watched then.
        """
        identity, number = id(lock), next(self._numbers)
        self._live[identity] = number
        # put() gets the dead reference as well. It takes that for `block`, which it does not use.
        reference = weakref.ref(lock, functools.partial(self._commands.put, (identity, number)))
        self._commands.put((elapsed() + seconds, number, reference))
        try:
            if not self._is_alive():
                self._start_unless_alive()
        except RuntimeError:
            self._gone(identity, number)
            raise

    def forget(self, lock: Beating) -> None:
        """No more ticks for ``lock``. A tick that runs at this moment ends by itself."""
        self._live.pop(id(lock), None)
        if not self._live:
            self._commands.put(None)  # so that the thread parks

    def _gone(self, identity: int, number: int) -> None:
        if self._live.get(identity) == number:
            self._live.pop(identity, None)

    def _start_unless_alive(self) -> None:
        """One caller at a time. If a signal handler comes in between, the thread started later stays (`_run`)."""
        with ImportGuard():
            if not self._is_alive():
                self._start()

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start(self) -> None:
        self._thread = thread = threading.Thread(target=self._run, name="lambda_lock-heartbeat", daemon=True)
        try:
            thread.start()
        except BaseException:
            if self._thread is thread:
                self._thread = None
            raise

    def _run(self) -> None:
        while self._thread is threading.current_thread():
            try:
                self._step()
            except BaseException:  # noqa: BLE001 - a fault of one lock must not end the heartbeat of all others
                time.sleep(_AFTER_FAULT)
        self._commands.put(None)  # this thread may have taken a command of the one that stays: let that look again

    def _step(self) -> None:
        """Wait for the next command or moment, and act on it."""
        if not self._live:
            self._due.clear()
        seconds = self._seconds_to_next()
        try:
            command = self._commands.get(timeout=seconds) if seconds != 0 else self._commands.get_nowait()
        except Empty:
            command = None
        if command is not None and len(command) == 2:
            self._gone(*command)
        elif command is not None:
            heapq.heappush(self._due, command)
            self._drop_stale()
        if self._due and self._due[0][0] <= elapsed():
            _, number, reference = heapq.heappop(self._due)
            self._tick(number, reference)

    def _drop_stale(self) -> None:
        """The plan of a released lock stays until it is due. Drop such plans when there are too many."""
        if len(self._due) > 2 * len(self._live) + _MOST_STALE:
            live = set(self._live.values())
            self._due = [entry for entry in self._due if entry[1] in live]
            heapq.heapify(self._due)

    def _seconds_to_next(self) -> float | None:
        """How long to sleep at most. None: until a command comes."""
        if not self._due:
            return None
        return min(max(self._due[0][0] - elapsed(), 0.0), _LOOK)

    def _tick(self, number: int, reference: Reference) -> None:
        lock = reference()
        if lock is None or self._live.get(id(lock)) != number:
            return  # collected, released, or watched again
        seconds: float | None = _LOOK
        try:
            seconds = lock.tick()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the heartbeat of this lock either
            tell(logger, "heartbeat", "the heartbeat of a lock failed; it is tried again", cause=error)
        finally:  # also where a logging handler raised SystemExit
            if seconds is None:
                self._gone(id(lock), number)
            else:
                heapq.heappush(self._due, (elapsed() + seconds, number, reference))


class Renewals:
    """Sends the renewals of one client, on threads of its own."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._work = _Work(self)

    def put(self, lock: Renewed, before: float) -> None:
        """Call ``lock.renew()`` soon, on a thread. If no thread can be started, it is called here and now.

        before: the end of the lock's validity, in elapsed seconds. The soonest is called first.
        """
        if self._pid != os.getpid():
            self._begin()  # a forked child: the threads are its parent's
        work = self._work
        if not work.put(weakref.ref(lock), before):
            return
        sender = object()
        work.senders.add(sender)
        # The thread gets the work, not self: a Renewals that is collected ends its threads.
        thread = threading.Thread(target=_send, args=(work, sender), name="lambda_lock-renewal", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            work.senders.discard(sender)
            if not work.senders:
                _renew(work.get_nowait())

    def close(self) -> None:
        """End the threads once they have sent what was put before."""
        if self._pid == os.getpid():
            self._work.end()

    def __repr__(self) -> str:
        return f"<Renewals on {len(self._work.senders)} threads>"


class _Work:
    """The renewals that wait to be sent, and the threads that send them.

    There is no lock, because a thread may be frozen with it. Each step is a single operation of a built-in type. A
    token in the queue entitles a sender to take one renewal, whichever is the most urgent then. Any other object there
    tells it to end. A sender passes that on.
    """

    def __init__(self, owner: Renewals) -> None:
        self.senders: set[object] = set()
        self._idle: set[object] = set()  # those of them that wait for a token
        self._waiting: list[tuple[float, int, weakref.ref[Renewed]]] = []  # a heap
        self._numbers = itertools.count()
        self._tokens: SimpleQueue[Any] = SimpleQueue()
        self._owner = weakref.ref(owner, self._tokens.put)  # once it is collected, its reference tells them to end

    def put(self, lock: weakref.ref[Renewed], before: float) -> bool:
        """Add a renewal. Returns whether another sender is to be started for it."""
        # It compares numbers alone: nothing can come in between.
        heapq.heappush(self._waiting, (before, next(self._numbers), lock))
        self._tokens.put(True)
        return len(self._idle) < len(self._waiting) and len(self.senders) < _MOST_SENDERS

    def get(self, sender: object) -> weakref.ref[Renewed] | None:
        """The lock that ``sender`` renews next. None: it is to end, and is no longer counted."""
        while True:
            self._idle.add(sender)
            token = self._next(None if len(self.senders) == 1 else _SENDER_IDLE)
            self._idle.discard(sender)  # before it takes a renewal: put() must not count on it any more
            if token is True:
                return heapq.heappop(self._waiting)[2]
            if token is not None:
                self._tokens.put(token)
            self.senders.discard(sender)
            # Looked at after that. So either put() has not counted on this sender, or its renewal is seen here.
            if not self._waiting and (token is not None or self.senders):
                return None
            self.senders.add(sender)

    def get_nowait(self) -> weakref.ref[Renewed] | None:
        return heapq.heappop(self._waiting)[2] if self._next(0) is True else None

    def end(self) -> None:
        self._tokens.put(False)

    def _next(self, seconds: float | None) -> Any:
        try:
            return self._tokens.get(timeout=seconds)
        except Empty:
            return None


def _send(work: _Work, sender: object) -> None:
    """One sender."""
    while (reference := work.get(sender)) is not None:
        _renew(reference)


def _renew(reference: weakref.ref[Renewed] | None) -> None:
    lock = reference() if reference is not None else None
    if lock is None:
        return
    try:
        lock.renew()
    except BaseException as error:  # noqa: BLE001 - the next renewal must find this thread alive
        _tell_failed(error)


def _tell_failed(error: BaseException) -> None:
    try:
        tell(logger, "heartbeat", "a renewal failed; it is tried again", cause=error)
    except BaseException:  # noqa: BLE001 - a logging handler that raises must not end it either
        return


HEARTBEAT = Heartbeat()


def _in_child() -> None:
    # A forked child never renews its parent's locks; the parent's threads do not exist here.
    HEARTBEAT.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
