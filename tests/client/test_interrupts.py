"""An interrupt at any point of acquire, release and close: nothing stays held that no call can give back."""

from __future__ import annotations

import dis
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lambda_lock
from lambda_lock import Lock, LockClient
from lambda_lock.errors import LockAlreadyReleasedError, LockLostError, TransportError
from lambda_lock.testing import in_memory
from lambda_lock.testing.memory import Memory
from tests.support.clients import Make, drop
from tests.support.clocks import LeapingClock
from tests.support.elsewhere import ChildDied, in_child, in_thread
from tests.support.rows import Rows

PACKAGE = str(Path(lambda_lock.__file__).parent)
# Where a delegating generator passes a value on. No signal is handled there, and the inner generator could not know.
PASSES_ON = (dis.opmap["JUMP_BACKWARD_NO_INTERRUPT"], dis.opmap["SEND"])
OURS_NOT = (str(Path(PACKAGE) / "testing"),)  # the table in memory stands for DynamoDB, which no interrupt reaches

_CRASHES = 20  # of the interpreter in one sweep
_point = mmap.mmap(-1, 8)  # which a sweep has reached: a child shares it


class Interrupter:
    """Raises KeyboardInterrupt at the n-th event of the package on this thread: a call, a line or an opcode.

    Calls are where Python itself looks for signals. In the middle of an expression CPython 3.11 may lose its stack.
    An opcode at which Python handles no signal is left for the next one.
    """

    def __init__(self, at: int, *, event: str) -> None:
        self.left = at
        self.event = event

    def __enter__(self) -> Interrupter:
        sys._getframe().f_trace_opcodes = self.event == "opcode"  # CPython 3.12 asks for it before settrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    @property
    def struck(self) -> bool:
        return self.left < 0

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) or name.startswith(OURS_NOT):
            return None
        frame.f_trace_opcodes = self.event == "opcode"
        if event == self.event:
            self.left -= 1
            if self.struck and frame.f_code.co_code[frame.f_lasti] not in PASSES_ON:
                raise KeyboardInterrupt  # which ends the tracing
        return self.trace


def sweep(act: Callable[[], object], *, event: str = "call", step: int = 1) -> Iterator[int]:
    """Interrupt ``act`` at every point, one after the other, until it runs through; yields their number."""
    at = int.from_bytes(_point[:], "big")
    while True:
        _point[:] = at.to_bytes(len(_point), "big")
        interrupter = Interrupter(at, event=event)
        try:
            with interrupter:
                act()
        except KeyboardInterrupt:
            pass
        yield at // step + 1
        if not interrupter.struck:
            return
        at += step


def apart(test: Callable[[Memory], None]) -> None:
    """Run a sweep in a forked child: CPython 3.11 itself may crash where a trace function raises that often.

    Then another child goes on after the point at which it crashed.
    """
    try:
        for _ in range(_CRASHES):
            try:
                return in_child(lambda: _on_memory(test))()
            except (ChildDied, TypeError) as error:  # TypeError: 'traceback' object is not callable
                if not isinstance(error, ChildDied) and "is not callable" not in str(error):
                    raise
                _point[:] = (int.from_bytes(_point[:], "big") + 1).to_bytes(len(_point), "big")
        pytest.fail(f"the interpreter crashed {_CRASHES} times under its trace function")
    finally:
        _point[:] = bytes(len(_point))


def _on_memory(test: Callable[[Memory], None]) -> None:
    os.environ["LAMBDA_LOCK_TRACING"] = "off"  # other tests of this worker may have loaded a tracer
    with in_memory() as memory:
        test(memory)


def held(memory: Memory) -> list[str]:
    return [row.key for row in memory.rows() if not row.is_released]


def kept(client: LockClient) -> list[Lock]:
    return [client.acquire("a")]


def test_a_sweep_whose_process_dies_goes_on_after_the_point_of_its_death() -> None:
    def dies_twice(memory: Memory) -> None:
        client = LockClient()
        for points in sweep(lambda: client.try_acquire("a")):
            if points in (3, 5):
                os._exit(1)
        assert points > 5

    apart(dies_twice)


@pytest.mark.parametrize("opcodes", [False, True], ids=["lines", "instructions"])
def test_an_interrupted_acquire_leaves_nothing_that_closing_the_client_does_not_release(opcodes: bool) -> None:
    apart(lambda memory: _interrupted_acquire(memory, opcodes))


def _interrupted_acquire(memory: Memory, opcodes: bool) -> None:
    client, locks = LockClient(heartbeat_period=0), list[Lock]()
    client.acquire("warm").release()

    def act() -> None:
        locks[:] = kept(client)

    for points in sweep(act, event="opcode" if opcodes else "line", step=7 if opcodes else 1):
        client.close()
        assert held(memory) == [], f"point {points}"
        locks.clear()
        client = LockClient(heartbeat_period=0)
        client.acquire("warm").release()
    assert points > 200


def test_an_interrupted_try_acquire_leaves_nothing_held() -> None:
    apart(_interrupted_try_acquire)


def _interrupted_try_acquire(memory: Memory) -> None:
    client, locks, points = LockClient(heartbeat_period=0), list[Lock | None](), 0
    client.acquire("warm").release()

    def act() -> None:
        locks[:] = [client.try_acquire("a")]

    for points in sweep(act, event="line"):
        assert held(memory) == ["a"] * len(locks), f"point {points}"
    assert points > 200


def test_an_interrupted_release_can_be_repeated_or_is_done_by_close() -> None:
    apart(_interrupted_release)


def _interrupted_release(memory: Memory) -> None:
    client = LockClient(heartbeat_period=0)
    lock = client.acquire("a")
    for points in sweep(lambda: lock.release()):  # noqa: B023
        if points % 2 and not lock.__held__.released:
            assert lock.release() in (True, False)
        else:
            client.close()
            client = LockClient(heartbeat_period=0)
        assert held(memory) == [], f"point {points}"
        lock = client.acquire("a")
    assert points > 10
    client.close()


class Closer(Interrupter):
    """Closes the client at the n-th event, as a signal handler does, and notes what is held then."""

    def __init__(self, at: int, client: LockClient, memory: Memory) -> None:
        super().__init__(at, event="line")
        self.client = client
        self.memory = memory
        self.left_held: list[str] = []

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        outer: FrameType | None = frame
        while outer is not None:
            if outer.f_code.co_filename.startswith(OURS_NOT):
                return None
            outer = outer.f_back
        try:
            return super().trace(frame, event, argument)
        except KeyboardInterrupt:
            sys.settrace(None)
            self.client.close()
            self.left_held = held(self.memory)
            return None


def test_a_signal_handler_that_closes_the_client_at_any_point_of_a_release_leaves_nothing_held() -> None:
    apart(_closed_in_the_midst_of_a_release)


def _closed_in_the_midst_of_a_release(memory: Memory) -> None:
    at, struck = 0, True
    while struck:
        client, losses = LockClient(heartbeat_period=0), list[Lock]()
        lock = client.acquire("a", on_lost=losses.append)
        closer, outcome = Closer(at, client, memory), True
        with closer, suppress(LockAlreadyReleasedError):
            outcome = lock.release()
        client.close()
        assert closer.left_held == [], f"point {at}"
        assert (outcome, losses) == (True, []), f"point {at}"
        at, struck = at + 1, closer.struck
    assert at > 100


def test_no_hand_over_returns_the_string_of_a_lock_that_a_signal_handler_released_by_closing_its_client() -> None:
    apart(_closed_in_the_midst_of_a_hand_over)


def _closed_in_the_midst_of_a_hand_over(memory: Memory) -> None:
    at, struck, strings = 0, True, 0
    with LockClient(heartbeat_period=0) as other:
        while struck:
            client = LockClient(heartbeat_period=0)
            lock = client.acquire("a")
            closer, string = Closer(at, client, memory), ""
            with closer, suppress(LockAlreadyReleasedError, LockLostError, TransportError):
                string = lock.hand_over()
            client.close()
            if string:
                assert other.adopt(string).release(), f"point {at}"
            assert held(memory) == [], f"point {at}"
            at, struck, strings = at + 1, closer.struck, strings + bool(string)
    assert at > strings > 1


def test_an_interrupted_reentrant_acquire_is_not_counted() -> None:
    apart(_interrupted_reentrance)


def _interrupted_reentrance(memory: Memory) -> None:
    client = LockClient(heartbeat_period=0)
    lock, again = client.acquire("a", reentrant=True), list[Lock]()

    def act() -> None:
        again.append(client.acquire("a", reentrant=True))

    for points in sweep(act):
        for handle in again:
            handle.release()
        again.clear()
        assert lock.release()
        assert held(memory) == [], f"point {points}"
        lock = client.acquire("a", reentrant=True)
    assert points > 20
    lock.release()


def test_an_interrupted_close_can_be_repeated() -> None:
    apart(_interrupted_close)


def _interrupted_close(memory: Memory) -> None:
    client = LockClient(heartbeat_period=0)
    locks = [client.acquire(key) for key in "abc"]
    past = [locks]  # kept, so that no finalizer is what is interrupted
    for points in sweep(lambda: client.close()):  # noqa: B023
        client.close()
        assert held(memory) == [], f"point {points}"
        assert not any(lock.is_held or lock.lost for lock in locks)
        client = LockClient(heartbeat_period=0)
        locks = [client.acquire(key) for key in "abc"]
        past.append(locks)
    assert points > 20
    client.close()


@pytest.mark.parametrize("act", ["commit", "hand_over"])
def test_an_interrupted_commit_or_hand_over_is_released_by_close(act: str) -> None:
    apart(lambda memory: _interrupted_last_act(memory, act))


def _interrupted_last_act(memory: Memory, act: str) -> None:
    item = {"Put": {"TableName": "locks", "Item": {"key": {"S": "written"}, "isReleased": {"S": "1"}}}}
    client = LockClient(heartbeat_period=0)
    lock = client.acquire("a")
    left = 0
    acts: dict[str, Callable[[], object]] = {
        "commit": lambda: lock.commit([item]),
        "hand_over": lambda: lock.hand_over(),
    }
    past = []
    for points in sweep(acts[act]):  # noqa: B007
        past.append(lock)
        client.close()
        # The string of the last run came. An interrupt just where the turn is given back leaves the lock to its lease.
        left += held(memory) != []
        assert held(memory) == [] or lock.__held__.released
        for key in held(memory):
            memory.expire(key)
        client = LockClient(heartbeat_period=0)
        lock = client.acquire("a", wait=0)
    assert points > 10
    assert left < (4 if act == "hand_over" else 1)
    client.close()


# Handles that are dropped, and what close() does with them


def test_a_handle_that_is_dropped_is_told_and_its_row_released_with_the_client(
    make: Make, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    client = make(keeping=False)
    with client:
        with pytest.warns(ResourceWarning, match="handle of lock 'a' was dropped while the lock is held"):
            drop(lambda: client.try_acquire("a"))
        assert rows.is_held("a")  # without a holder, but the work under it may still be running
        (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
        assert record.__dict__["lock_event"] == "forgotten"
        assert record.__dict__["lock_key"] == "a"
        assert client.held() == ()
    assert not rows.is_held("a")


def test_a_dropped_handle_is_left_to_its_lease_where_close_releases_nothing(make: Make, rows: Rows) -> None:
    client = make(keeping=False)
    with pytest.warns(ResourceWarning):
        drop(lambda: client.acquire("a"))
    client.close(release=False)
    assert rows.is_held("a")


def test_a_dropped_handle_of_a_lock_that_was_released_lost_or_handed_over_is_nothing_to_tell(
    make: Make, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    client = make(heartbeat_period=0, keeping=False)
    client.acquire("released").release()
    client.acquire("handed over").hand_over()
    lock = client.acquire("lost", lease_duration=1)
    assert lock.wait_lost(10)
    del lock
    assert "dropped" not in caplog.text


def test_locks_may_be_taken_and_dropped_while_others_ask_for_those_held(client: LockClient) -> None:
    done: list[None] = []

    def work(number: int) -> None:
        for turn in range(40):
            with client.acquire(f"{number}-{turn}"):
                pass
        done.append(None)

    workers = [in_thread(lambda number=number: work(number)) for number in range(4)]  # type: ignore[misc]
    while len(done) < 4:
        for lock in client.held():
            assert lock.key
    for worker in workers:
        worker()
    client.close()


def test_closing_in_an_outage_is_bounded_however_many_locks_are_held(
    make: Make, rows: Rows, wire: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = make(heartbeat_period=0, clock=LeapingClock())
    locks = [client.acquire(f"a{number}") for number in range(12)]
    wire.clear()
    outage = wire.unavailable("UpdateItem", times=float("inf"))
    client.close()
    assert outage.reached.is_set()
    asked = {request.body["Key"]["key"]["S"] for request in wire.requests}
    assert len(asked) == 2  # after two in a row without an answer the others are left to their lease
    assert len([record for record in caplog.records if "was not released" in record.getMessage()]) == 12
    assert not any(lock.is_held for lock in locks)


def test_an_error_that_is_an_answer_does_not_end_the_releases_of_close(make: Make, rows: Rows, wire: Any) -> None:
    client = make(heartbeat_period=0)
    locks = [client.acquire(f"a{number}") for number in range(5)]
    wire.answer(400, "AccessDeniedException", "UpdateItem", times=4)
    client.close()
    assert sum(rows.is_held(lock.key) for lock in locks) == 4
