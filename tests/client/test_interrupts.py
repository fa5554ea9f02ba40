"""An interrupt at any point of acquire, release and close: nothing stays held that no call can give back."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from lambda_lock import Lock, LockClient
from lambda_lock.errors import LockAlreadyReleasedError, LockLostError, TransportError
from lambda_lock.testing import in_memory
from lambda_lock.testing.memory import Memory
from tests.support.clients import drop
from tests.support.clocks import LeapingClock
from tests.support.instants import at_every_instant


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setenv("LAMBDA_LOCK_TRACING", "off")  # other tests of this worker may have loaded a tracer
    with in_memory() as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of handles that an interrupt took away
        yield memory


def held(memory: Memory) -> list[str]:
    return [row.key for row in memory.rows() if not row.is_released]


def fresh() -> LockClient:
    """A client that has loaded what it needs."""
    client = LockClient(heartbeat_period=0)
    client.acquire("warm").release()
    return client


@pytest.mark.long
@pytest.mark.parametrize("method", ["acquire", "try_acquire"])
def test_an_interrupted_acquire_leaves_nothing_held_unless_the_lock_is_on_its_way_to_the_caller(method, memory):
    client, locks, on_the_way = fresh(), list[Lock | None](), 0

    def act() -> None:
        locks[:] = [getattr(client, method)("a")]

    for instant in at_every_instant(act):
        if held(memory) != ["a"] * len(locks):
            assert " at its return in " in instant
            on_the_way += 1
        client.close()
        assert held(memory) == [], instant
        locks.clear()
        client = fresh()
    assert on_the_way < 10


@pytest.mark.parametrize("act", ["release", pytest.param("close", marks=pytest.mark.long)])
def test_an_interrupted_release_or_close_can_be_repeated_or_is_done_by_close(act, memory):
    client = fresh()
    locks = [client.acquire(key) for key in "abc"]
    past = [locks]  # kept, so that no finalizer is what is interrupted
    acts: dict[str, Callable[[], object]] = {"release": lambda: locks[0].release(), "close": lambda: client.close()}
    for number, instant in enumerate(at_every_instant(acts[act])):
        if act == "release" and number % 2 and not locks[0].__held__.released:
            assert locks[0].release() in (True, False)
            assert "a" not in held(memory), instant
        client.close()
        assert held(memory) == [], instant
        assert not any(lock.is_held or lock.lost for lock in locks)
        client = fresh()
        locks = [client.acquire(key) for key in "abc"]
        past.append(locks)
    client.close()


@pytest.mark.long
def test_a_signal_handler_that_closes_the_client_at_any_instant_of_a_release_leaves_nothing_held(memory):
    client, losses, outcomes, left_held = fresh(), list[Lock](), list[bool](), list[str]()
    lock = client.acquire("a", on_lost=losses.append)

    def act() -> None:
        with suppress(LockAlreadyReleasedError):
            outcomes.append(lock.release())

    def close() -> None:
        client.close()
        left_held.extend(held(memory))

    for instant in at_every_instant(act, close):
        client.close()
        assert (left_held, losses, outcomes) in (([], [], [True]), ([], [], [])), instant
        outcomes.clear()
        client = fresh()
        lock = client.acquire("a", on_lost=losses.append)
    client.close()


@pytest.mark.long
def test_no_hand_over_returns_the_string_of_a_lock_that_a_signal_handler_released_by_closing_its_client(memory):
    client, strings, adopted = fresh(), list[str](), 0
    lock = client.acquire("a")

    def act() -> None:
        with suppress(LockAlreadyReleasedError, LockLostError, TransportError):
            strings.append(lock.hand_over())

    with LockClient(heartbeat_period=0) as other:
        for number, instant in enumerate(at_every_instant(act, lambda: client.close())):  # noqa: B007, B023
            client.close()
            for string in strings:
                assert other.adopt(string).release(), instant
            adopted += len(strings)
            strings.clear()
            assert held(memory) == [], instant
            client = fresh()
            lock = client.acquire("a")
    client.close()
    assert number > adopted > 1


def test_an_interrupted_reentrant_acquire_is_not_counted(memory):
    client = fresh()
    lock, again = client.acquire("a", reentrant=True), list[Lock]()

    def act() -> None:
        again.append(client.acquire("a", reentrant=True))

    for instant in at_every_instant(act):
        for handle in again:
            handle.release()
        again.clear()
        assert lock.release()
        assert held(memory) == [], instant
        lock = client.acquire("a", reentrant=True)
    lock.release()


@pytest.mark.long
def test_an_interrupted_hand_over_is_released_by_close(memory):
    client = fresh()
    lock, left, past = client.acquire("a"), 0, list[Lock]()
    for instant in at_every_instant(lambda: lock.hand_over()):  # noqa: B023
        past.append(lock)
        client.close()
        # The string of the last run came. An interrupt just where the turn is given back leaves the lock to its lease.
        left += held(memory) != []
        assert held(memory) == [] or lock.__held__.released, instant
        for key in held(memory):
            memory.expire(key)
        client = fresh()
        lock = client.acquire("a", wait=0)
    assert left < 16
    client.close()


# Handles that are dropped, and what close() does with them


@pytest.mark.parametrize("release", [True, False])
def test_a_handle_that_is_dropped_is_told_and_its_row_released_with_the_client(release, make, rows, caplog):
    client = make(keeping=False)
    drop(lambda: client.try_acquire("a"))
    assert rows.is_held("a")  # without a holder, but the work under it may still be running
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.__dict__["lock_event"] == "forgotten"
    assert record.__dict__["lock_key"] == "a"
    assert client.held() == ()
    client.close(release=release)
    assert rows.is_held("a") is not release


def test_a_dropped_handle_of_a_lock_that_was_released_lost_or_handed_over_is_nothing_to_tell(make, rows, caplog):
    client = make(heartbeat_period=0, keeping=False)
    client.acquire("released").release()
    client.acquire("handed over").hand_over()
    lock = client.acquire("lost", lease_duration=1)
    assert lock.wait_lost(10)
    del lock
    assert "dropped" not in caplog.text


def test_closing_in_an_outage_is_bounded_however_many_locks_are_held(make, rows, wire, caplog):
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


def test_an_error_that_is_an_answer_does_not_end_the_releases_of_close(make, rows, wire):
    client = make(heartbeat_period=0)
    locks = [client.acquire(f"a{number}") for number in range(4)]
    wire.answer(400, "AccessDeniedException", "UpdateItem", times=3)
    client.close()
    assert sum(rows.is_held(lock.key) for lock in locks) == 3
