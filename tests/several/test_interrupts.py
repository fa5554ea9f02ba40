"""An interrupt at any point with several locks: nothing stays held that no call can give back."""

import signal

import pytest

from lambda_lock import LockClient, MultiLock
from lambda_lock.errors import TransportError
from tests.client.test_interrupts import held, memory
from tests.support.clocks import LeapingClock
from tests.support.instants import at_every_instant
from tests.support.signals import signals_restored

__all__ = ["memory"]

KEYS = ["a", "b"]


@pytest.mark.long
@pytest.mark.parametrize("others", [[], ["b"]], ids=["free", "held by another"])
def test_an_interrupted_acquire_leaves_nothing_that_closing_the_client_does_not_release(others, memory):
    client, locks = LockClient(heartbeat_period=0), list[MultiLock | None]()
    client.acquire_all(KEYS).release()
    for key in others:
        memory.hold(key, lease_duration=3600)

    def act() -> None:
        locks[:] = [client.try_acquire_all(KEYS) if others else client.acquire_all(KEYS, wait=0)]

    for instant in at_every_instant(act):
        client.close()
        assert held(memory) == others, instant
        locks.clear()
        client = LockClient(heartbeat_period=0)


def test_what_a_signal_handler_raises_in_the_wait_is_taken_neither_for_an_outage_nor_for_contention(memory):
    raised = TransportError(True, "no answer for another lock")

    def over(*_: object) -> None:
        raise raised

    class Ringing(LeapingClock):
        def sleep(self, seconds: float) -> None:  # type: ignore[override]
            signal.raise_signal(signal.SIGUSR1)

    with signals_restored():
        signal.signal(signal.SIGUSR1, over)
        memory.hold("b", lease_duration=3600)
        waiter = LockClient(clock=Ringing(), heartbeat_period=0)
        with pytest.raises(TransportError) as caught:
            waiter.acquire_all(KEYS, wait=60)
        assert caught.value is raised
        assert held(memory) == ["b"]
