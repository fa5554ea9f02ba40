"""An interrupt at any point with several locks: nothing stays held that no call can give back."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from lambda_lock import LockClient, MultiLock
from lambda_lock.errors import TransportError
from lambda_lock.testing import in_memory
from lambda_lock.testing.memory import Memory
from tests.client.test_interrupts import apart, held, sweep
from tests.support.clocks import LeapingClock
from tests.support.signals import signals_restored

KEYS = ["a", "b"]


@pytest.mark.parametrize(
    "opcodes", [pytest.param(False, id="lines"), pytest.param(True, id="instructions", marks=pytest.mark.long)]
)
def test_an_interrupted_acquire_leaves_nothing_that_closing_the_client_does_not_release(opcodes: bool) -> None:
    apart(lambda memory: _interrupted_acquire(memory, opcodes))


def _interrupted_acquire(memory: Memory, opcodes: bool) -> None:
    client, locks = LockClient(heartbeat_period=0), list[MultiLock]()
    client.acquire_all(KEYS).release()

    def act() -> None:
        locks[:] = [client.acquire_all(KEYS, wait=0)]

    for points in sweep(act, event="opcode" if opcodes else "line", step=29 if opcodes else 1):
        client.close()
        assert held(memory) == [], f"point {points}"
        locks.clear()
        client = LockClient(heartbeat_period=0)
    assert points > 200


@pytest.mark.long
def test_an_interrupted_refusal_leaves_nothing_either() -> None:
    apart(_interrupted_refusal)


def _interrupted_refusal(memory: Memory) -> None:
    client = LockClient(heartbeat_period=0)
    memory.hold("b", lease_duration=3600)
    for points in sweep(lambda: client.try_acquire_all(KEYS), event="line"):  # noqa: B023
        client.close()
        assert held(memory) == ["b"], f"point {points}"
        client = LockClient(heartbeat_period=0)
    assert points > 50


@pytest.mark.parametrize("act", ["release", "commit", "heartbeat"])
def test_an_interrupted_act_can_be_followed_by_a_release_or_is_ended_by_close(act: str) -> None:
    apart(lambda memory: _interrupted_act(memory, act))


def _interrupted_act(memory: Memory, act: str) -> None:
    item = {"Put": {"TableName": "locks", "Item": {"key": {"S": "written"}, "isReleased": {"S": "1"}}}}
    client = LockClient(heartbeat_period=0)
    locks = client.acquire_all(KEYS)
    acts: dict[str, Callable[[], object]] = {
        "release": lambda: locks.release(),
        "commit": lambda: locks.commit([item]),
        "heartbeat": lambda: locks.heartbeat(),
    }
    past = [locks]  # kept, so that no finalizer is what is interrupted
    for points in sweep(acts[act]):
        if points % 2 and not locks.__held__.released:
            assert locks.release() in (True, False)
        else:
            client.close()
            client = LockClient(heartbeat_period=0)
        assert held(memory) == [], f"point {points}"
        locks = client.acquire_all(KEYS, wait=0)
        past.append(locks)
    assert points > 20
    client.close()


def test_what_a_signal_handler_raises_in_the_wait_is_taken_neither_for_an_outage_nor_for_contention() -> None:
    raised = TransportError(True, "no answer for another lock")

    def over(*_: object) -> None:
        raise raised

    class Ringing(LeapingClock):
        def sleep(self, seconds: float) -> None:  # type: ignore[override]
            signal.raise_signal(signal.SIGUSR1)

    with in_memory() as memory, signals_restored():
        signal.signal(signal.SIGUSR1, over)
        memory.hold("b", lease_duration=3600)
        waiter = LockClient(clock=Ringing(), heartbeat_period=0)
        with pytest.raises(TransportError) as caught:
            waiter.acquire_all(KEYS, wait=60)
        assert caught.value is raised
        assert held(memory) == ["b"]
