"""The heartbeat: it makes held locks notice the time, and sends their renewals.

`Heartbeat` watches. There is one daemon thread per process. It is started for the first lock that needs it, and parked
when no lock is held. It sends nothing, so danger and loss are told on time, however long a request waits. All that it
knows of a lock is `tick()`, which does what is due and returns the seconds until the next call.

`Renewals` sends. Each client has its own, with threads that are started when a renewal is due. So a stalled endpoint
delays the renewals of no other client. The number of threads does not grow with the locks. If renewals have to wait for
a thread, the lock whose validity ends first comes first: a short lease, or a renewal that failed, must not wait behind
thousands that have time. But one whose validity would end before the answer comes must not take the time of those that
can still be kept: where there are more locks than renewals can be sent, each would come too late. It comes last.

Both reference locks weakly, so a lock that the application forgets is not renewed for ever. Methods that other threads,
signal handlers and finalizers call take no lock (signalsafe.py says why). Commands go through a SimpleQueue, whose
put() may be called from any of them (Python library reference, queue.SimpleQueue).

A lock or a client that is collected is noticed by that put() itself, as the callback of a weak reference. It is written
in C, so no signal handler runs within it, whose exception would be dropped, like any from a finalizer. And it never
blocks. When the interpreter ends, other threads are frozen where they are, with every lock that they have.
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
from contextlib import suppress

from ..core.outcome import expected
from ..observe.observer import package
from .first_use import FirstUse
from .signalsafe import start
from .timeline import elapsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, TypeAlias

    class Beating(Protocol):
        """What a heartbeat needs of a lock."""

        def tick(self) -> float | None:
            """Do what is due now, without waiting; the seconds until the next call, None for none until `watch`."""

    class Renewed(Protocol):
        """What `Renewals` needs of a lock."""

        def renew(self) -> bool:
            """Send the renewal that is due, and wait for its outcome. Returns whether one was sent."""

    Reference: TypeAlias = weakref.ref[Beating]


_LOOK = 1.0  # seconds: sleep no longer than this while something is held, so that a thaw is noticed soon
_MOST_STALE = 64  # entries of the plan, on top of one for each lock
_AFTER_FAULT = 0.05  # seconds: a fault that repeats must not keep the processor busy
_MOST_SENDERS = 8  # threads of one client: those of 5,000 locks on a lease of 20 s send 750 renewals a second
_LEARNS = 0.2  # how much the newest renewal counts in how long one takes
_MARGIN = 1.5  # a renewal may take so many times as long as usual
_SENDER_IDLE = 10.0  # seconds without work after which a sender ends; the first one of a client stays


class Heartbeat:
    """Calls ticks when they are due. Any thread, signal handler or finalizer may use it."""

    def __init__(self) -> None:
        # (when, number of the watch, lock), or (id of a lock, number) for one that is collected, or None: look again
        self._commands: SimpleQueue[tuple[float, int, Reference] | tuple[int, int] | None] = SimpleQueue()
        self._due: list[tuple[float, int, Reference]] = []  # a heap that only the thread uses
        self._live: dict[int, int] = {}  # id of a watched lock: the number of its newest watch
        self._numbers = itertools.count(1)
        self._thread: threading.Thread | None = None

    def watch(self, lock: Beating, seconds: float) -> None:
        """Call ``lock.tick()`` in ``seconds``, and again when it says so, until `forget`. This replaces earlier calls.

        Raises RuntimeError if the thread cannot be started. The lock is not watched then.
        """
        identity, number = id(lock), next(self._numbers)
        self._live[identity] = number
        # Called when the lock is collected, as put((identity, number), reference). The second is put()'s `block`, which
        # has no effect. It is no function of ours: in one, a signal handler could raise, and the entry would stay.
        reference = weakref.ref(lock, functools.partial(self._commands.put, (identity, number)))
        self._commands.put((elapsed() + seconds, number, reference))
        try:
            if self._thread is None or not self._thread.is_alive():
                self._start()
        except RuntimeError:
            self._gone(identity, number)
            raise

    def forget(self, lock: Beating) -> None:
        """End the ticks for ``lock``. A tick that runs at this moment is not interrupted."""
        self._live.pop(id(lock), None)
        if not self._live:
            self._commands.put(None)  # so that the thread parks

    def _gone(self, identity: int, number: int) -> None:
        if self._live.get(identity) == number:
            self._live.pop(identity, None)

    def _start(self) -> None:
        """Start the thread, for one caller at a time. If a signal handler starts one, too, the later one stays."""
        with FirstUse():
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = thread = threading.Thread(target=self._run, name="lambda_lock-heartbeat", daemon=True)
            try:
                start(thread)
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
        self._commands.put(None)  # wake the thread that stays: this one may have taken a command that was for it

    def _step(self) -> None:
        """Wait for the next command or moment, and act on it."""
        if not self._live:
            self._due.clear()
        # Without a plan it sleeps until a command comes.
        seconds = min(max(self._due[0][0] - elapsed(), 0.0), _LOOK) if self._due else None
        try:
            command = self._commands.get(timeout=seconds) if seconds != 0 else self._commands.get_nowait()
        except Empty:
            command = None
        if command is not None and len(command) == 2:
            self._gone(*command)
        elif command is not None:
            heapq.heappush(self._due, command)
            # The plan of a released lock stays until it is due. Such plans are dropped when there are too many.
            if len(self._due) > 2 * len(self._live) + _MOST_STALE:
                live = set(self._live.values())
                self._due = [entry for entry in self._due if entry[1] in live]
                heapq.heapify(self._due)
        if self._due and self._due[0][0] <= elapsed():
            _, number, reference = heapq.heappop(self._due)
            self._tick(number, reference)

    def _tick(self, number: int, reference: Reference) -> None:
        lock = reference()
        if lock is None or self._live.get(id(lock)) != number:
            return  # collected, released, or watched again
        seconds: float | None = _LOOK
        try:
            seconds = lock.tick()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the heartbeat of this lock either
            package.tell("heartbeat", "the heartbeat of a lock failed; it is tried again", cause=error)
        finally:  # also where a logging handler raised SystemExit
            if seconds is None:
                self._gone(id(lock), number)
            else:
                heapq.heappush(self._due, (elapsed() + seconds, number, reference))


class Renewals:
    """Sends the renewals of one client, on threads of its own, which end when the client is closed or collected.

    It uses no lock: a thread may be frozen while it has one. Each step is a single operation of a built-in type.
    A token in the queue entitles a sender to take one renewal, whichever is the most urgent then. Any other object
    there tells it to end. A sender passes that on.

    client: when it is collected, the threads end. pid: the process that has the threads. senders: one for each thread.
    """

    def __init__(self, client: object) -> None:
        self.pid = os.getpid()
        self.senders: set[object] = set()
        self._idle: set[object] = set()  # those of them that wait for a token
        # A heap: whether it comes last, the end of validity, its number, and the lock.
        self._waiting: list[tuple[bool, float, int, weakref.ref[Renewed]]] = []
        self._takes = 0.0  # seconds, from sending a renewal to its outcome
        self._numbers = itertools.count()
        self._tokens: SimpleQueue[Any] = SimpleQueue()
        self._client = weakref.ref(client, self._tokens.put)  # once it is collected, its reference tells them to end

    def put(self, lock: Renewed, left: float) -> None:
        """Call ``lock.renew()`` soon, on a thread. If no thread can be started, it is called here and now.

        left: until the end of the lock's validity, in seconds. The soonest is called first, if it can be kept.
        """
        before = elapsed() + left
        # Entries are compared by their numbers alone, so no other code can run within the push.
        heapq.heappush(self._waiting, (False, before, next(self._numbers), weakref.ref(lock)))
        self._tokens.put(True)
        if len(self._idle) >= len(self._waiting) or len(self.senders) >= _MOST_SENDERS:
            return
        sender = object()
        self.senders.add(sender)
        thread = threading.Thread(target=self._send, args=(sender,), name="lambda_lock-renewal", daemon=True)
        try:
            thread.start()
        except expected(RuntimeError):
            self.senders.discard(sender)
            if not self.senders and self._token(0) is True:
                self._renew()

    def close(self) -> None:
        """End the threads once they have sent what was put before."""
        if self.pid == os.getpid():
            self._tokens.put(False)

    def _send(self, sender: object) -> None:
        """Run one sender."""
        while True:
            self._idle.add(sender)
            token = self._token(None if len(self.senders) == 1 else _SENDER_IDLE)
            self._idle.discard(sender)  # before it takes a renewal: put() must not count on it any more
            if token is True:
                self._renew()
                continue
            if token is not None:
                self._tokens.put(token)
            self.senders.discard(sender)
            # Looked at after the discards. So either put() has not counted on this sender, or its renewal is seen here.
            if not self._waiting and (token is not None or self.senders):
                return
            self.senders.add(sender)

    def _renew(self) -> None:
        """Renew the lock whose validity ends first, of those that can be kept; if there are none, of the others."""
        is_last, before, number, reference = heapq.heappop(self._waiting)
        while not is_last and before - elapsed() < self._takes * _MARGIN:  # at most once for each
            entry = heapq.heappushpop(self._waiting, (True, before, number, reference))
            is_last, before, number, reference = entry
        lock, began = reference(), elapsed()
        try:
            if lock is not None and lock.renew():
                self._takes += (elapsed() - began - self._takes) * _LEARNS
        except BaseException as error:  # noqa: BLE001 - the next renewal must find this thread alive
            with suppress(BaseException):  # a logging handler that raises must not end it either
                package.tell("heartbeat", "a renewal failed; it is tried again", cause=error)

    def _token(self, seconds: float | None) -> Any:
        try:
            return self._tokens.get(timeout=seconds)
        except Empty:
            return None


HEARTBEAT = Heartbeat()


def _in_child() -> None:
    # A forked child never renews its parent's locks; the parent's threads do not exist here.
    HEARTBEAT.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
