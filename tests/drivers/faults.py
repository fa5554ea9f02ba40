"""The faults: an interrupt, a time limit, a signal handler that uses locks, a fork."""

import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from lambda_lock import LockAlreadyReleasedError, LockError, LockTimeoutError
from lambda_lock.errors import ClientClosedError, OwnerMismatchError
from lambda_lock.runtime.drive import send
from tests.support.instants import Point, Strike

from .scenes import Operation, Scene, Stage, TimeIsUp, judge, keys_of

CHILD_SECONDS = 30  # after which a child counts as hanging


class Fault:
    """Something that happens at a point of an operation.

    spared: the modules, by how their paths begin, at whose points it does not happen. never_in: operations.
    """

    spared: tuple[str, ...] = ()
    never_in: tuple[str, ...] = ()

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def happen(self) -> None:
        """Called at the point, on the thread that carries the operation out."""
        raise NotImplementedError

    def settle(self, operation: Operation) -> None:
        """Called after the operation. Raises AssertionError for an outcome that must not be."""


def _callers() -> Iterator[FrameType]:
    """The frames of this thread, from the caller's on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


class Interrupt(Fault):
    """Ctrl-C."""

    raises: type[BaseException] = KeyboardInterrupt
    in_finalizer = False  # Python reports there what a signal handler raises, and goes on

    def happen(self) -> None:
        self.scene.reading()
        names = [frame.f_code.co_qualname.rpartition(".") for frame in _callers()]
        self.in_finalizer = any(name in ("__del__", "_gone") or (of, name) == ("Turn", "_end") for of, _, name in names)
        raise self.raises

    def settle(self, operation: Operation) -> None:
        if self.in_finalizer:
            self.scene.counts["in a finalizer"] += 1
            return
        scene = self.scene
        assert isinstance(scene.error, self.raises), f"the interrupt became {scene.error!r}"
        if operation.takes:
            operation.ended(scene)
        scene.look_at_rows()


class Limit(Interrupt):
    """A time limit, whose class is taken for a failed connection, and for all else that is caught anywhere."""

    raises = TimeIsUp


class Handler(Fault):
    """A signal handler that uses locks. ``error`` is its own, not the operation's."""

    error: LockError | None = None
    answer: Any = None

    def happen(self) -> None:
        self.scene.reading()
        try:
            self.answer = self.use()
        except LockError as error:
            self.error = error.with_traceback(None)
        self.scene.reading()

    def use(self) -> Any:
        raise NotImplementedError


class HandlerTakesAnother(Handler):
    """It takes and releases a lock of its own."""

    def use(self) -> None:
        lock = self.scene.client.try_acquire("another " + self.scene.key)
        assert lock is not None, "nobody has it"
        self.scene.extra.append(lock)
        self.scene.reading()
        assert lock.is_held
        assert lock.release() is True

    def settle(self, operation: Operation) -> None:
        if operation.name == "close":
            assert self.error is None or isinstance(self.error, ClientClosedError), repr(self.error)
            self.scene.error = None if isinstance(self.scene.error, ClientClosedError) else self.scene.error
        else:
            assert self.error is None, repr(self.error)
        operation.done(self.scene)


class HandlerEndsTheSame(Handler):
    """It releases the lock that the operation is about, or takes it where there is none yet."""

    never_in = ("acquire as holder",)  # the earlier of two attempts of a holder hears of the later when it renews

    def use(self) -> Any:
        scene = self.scene
        if scene.handles:
            return scene.handles[0].release()
        lock = scene.client.try_acquire(scene.key, **scene.options)
        if lock is not None:
            scene.handles.append(lock)
        return lock

    def settle(self, operation: Operation) -> None:
        scene = self.scene
        if operation.ends:
            self._one_wins(operation)
        elif scene.error is not None:
            scene.counts[type(scene.error).__name__] += 1
            assert isinstance(scene.error, LockError), repr(scene.error)
        else:
            scene.counts["both went on"] += 1

    def _one_wins(self, operation: Operation) -> None:
        scene = self.scene
        if self.answer is True:
            assert isinstance(scene.error, LockAlreadyReleasedError), f"released, then {scene.error or scene.given!r}"
            assert scene.rows.get(scene.key + " written") is None, "released, and then committed"
            scene.counts["the handler won"] += 1
            return
        assert isinstance(self.error, LockAlreadyReleasedError), f"{self.error!r}, {self.answer!r}"
        operation.done(scene)


class HandlerCloses(Handler):
    """It closes the client."""

    def use(self) -> None:
        self.scene.client.close()

    def settle(self, operation: Operation) -> None:
        assert self.error is None, repr(self.error)
        error = self.scene.error
        assert error is None or isinstance(error, LockError), repr(error)
        held = [keys_of(lock) for lock in self.scene.handles if lock.is_held]
        assert not held, f"{held} are held, and the client was closed"
        self.scene.counts["went on" if error is None else type(error).__name__] += 1


class Fork(Fault):
    """A fork by this thread. The child uses what it inherited, and exits. The parent goes on."""

    pid = 0

    def happen(self) -> None:
        self.scene.reading()
        self._reader, self._writer = os.pipe()
        self.pid = self.fork(lambda: tell(self._writer, lambda: meddle(self.scene)))

    def fork(self, child: Callable[[], None]) -> int:
        if (pid := os.fork()) == 0:
            child()
        return pid

    def settle(self, operation: Operation) -> None:
        os.close(self._writer)
        told = heard(self._reader, self.pid)
        assert told == "", f"in the child: {told}"
        operation.done(self.scene)


class ForkBeside(Fork):
    """A fork by another thread, while this one stands still: the child has no thread that goes on from here."""

    def fork(self, child: Callable[[], None]) -> int:
        forked: list[int] = []

        def run() -> None:
            pid = os.fork()
            if pid == 0:
                child()
            forked.append(pid)

        # A fork waits for the first use of a module (runtime/first_use.py). This thread may be in the middle of one.
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(0.2)
        self._forked, self._forking = forked, thread
        return 0

    def settle(self, operation: Operation) -> None:
        self._forking.join(CHILD_SECONDS)
        (self.pid,) = self._forked
        super().settle(operation)


class ForkAndLeave(Fork):
    """A fork by a signal handler whose child leaves by an exception, through the operation that was interrupted."""

    def fork(self, child: Callable[[], None]) -> int:
        if (pid := os.fork()) == 0:
            raise SystemExit
        return pid

    def tell(self) -> None:
        """In the child, which has left the operation."""
        tell(self._writer, lambda: meddle(self.scene))


class ForkAndGoOn(ForkAndLeave):
    """A fork by a signal handler that returns in both processes: both go on with the operation.

    A request that is under way may then be sent twice, as a transport may do. So a release may find that its copy has
    released the lock.
    """

    # transport/: both would write to one connection. client/: until KeepOptions notes the process, two acts begin.
    spared = ("transport/", "client/")
    # A string would have two callers, or a holder two attempts (tests/client/test_processes.py has the instants after).
    # Permits and several locks load modules before the process is noted.
    never_in = ("adopt", "resume", "acquire as holder", "acquire a permit", "acquire all")
    sending = False

    def fork(self, child: Callable[[], None]) -> int:
        self.sending = any(frame.f_code is send.__code__ for frame in _callers())
        return os.fork()

    def settle(self, operation: Operation) -> None:
        if self.sending and self.scene.given is False:
            self.scene.counts["sent twice"] += 1
            self.scene.given = True
        super().settle(operation)

    def tell(self) -> None:
        tell(self._writer, self._go_on)

    def _go_on(self) -> None:
        error = self.scene.error
        assert isinstance(error, OwnerMismatchError | LockTimeoutError | None), repr(error)
        meddle(self.scene)


def play(stage: Stage, operation: Operation, kind: type[Fault], point: Point) -> Scene:
    """Carry an operation out with a fault at a point, and judge what is left."""
    scene = stage.play(operation)
    fault = kind(scene)
    strike = Strike(point, fault.happen)
    try:
        with strike:
            scene.run(operation.act)
    except SystemExit:
        if not isinstance(fault, ForkAndLeave):
            raise
    except (KeyboardInterrupt, TimeIsUp) as error:
        # At the return of the outermost call: Python runs the handler after it.
        scene.counts["after the operation"] += 1
        scene.keep_given()  # the interrupt may have come before
        if error.__context__ is None:  # otherwise the operation had raised that
            operation.done(scene)
        judge(scene, operation)
        return scene
    if isinstance(fault, ForkAndLeave) and strike.struck and not fault.pid:
        fault.tell()
    if strike.struck:
        fault.settle(operation)
    else:
        scene.counts["not reached"] += 1
    judge(scene, operation)
    return scene


def meddle(scene: Scene) -> None:
    """What a child does with the handles and the client of its parent."""
    for lock in scene.handles:
        assert not lock.is_held
        try:
            lock.release()
        except OwnerMismatchError:
            continue
        raise AssertionError("a child released its parent's lock")
    assert scene.client.held() == ()
    try:
        lock = scene.client.acquire(f"child {os.getpid()} {scene.key}", wait=0)
        assert lock.is_held
        assert scene.rows.owner(lock.key) == lock.owner
        assert lock.release() is True
        assert scene.rows.owner(lock.key) is None
    except ClientClosedError:
        pass
    scene.client.close()


def tell(writer: int, act: Callable[[], None]) -> None:
    """Run what a child does, tell its parent what was wrong, and end. Does not return."""
    signal.alarm(CHILD_SECONDS)
    wrong = "it was ended by an error that could not be told"
    try:
        act()
        wrong = ""
    except BaseException as error:  # noqa: BLE001 - told to the parent
        wrong = "".join(traceback.format_exception(error))
    finally:
        os.write(writer, b"." + wrong.encode())
        os._exit(0)


def heard(reader: int, pid: int) -> str:
    """What a child has told: "" if all is well."""
    select.select([reader], [], [], 2 * CHILD_SECONDS)
    raw = os.read(reader, 65536) if select.select([reader], [], [], 0)[0] else b""
    os.close(reader)
    if not raw:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return raw[1:].decode() if raw else f"it ended with {status} and told nothing"


FAULTS: dict[str, type[Fault]] = {
    "interrupt": Interrupt,
    "time limit": Limit,
    "handler takes another": HandlerTakesAnother,
    "handler ends the same": HandlerEndsTheSame,
    "handler closes": HandlerCloses,
    "fork": Fork,
    "fork beside": ForkBeside,
    "fork and leave": ForkAndLeave,
    "fork and go on": ForkAndGoOn,
}
