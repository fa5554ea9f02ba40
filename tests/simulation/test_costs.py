"""How many requests a lock and an event cost hours later, and beside another run of it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from lambda_lock.core import acquire, keep, protocol
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Send, Wait
from lambda_lock.core.requests import Content
from lambda_lock.errors import DuplicateEventError
from tests.simulation.clients import place_of
from tests.simulation.schedule import Settings
from tests.simulation.world import Life, Process, Task, World

QUIET = {
    name: 0.0
    for name in vars(Settings)
    if isinstance(vars(Settings)[name], float) and name not in ("polls", "front_ends")
}


class Counted:
    """Runs one client's life in a quiet world and counts its requests."""

    def __init__(self) -> None:
        self.world = World(random.Random(1), Settings(**QUIET))
        self.process = Process(self.world, "p1")
        self.requests: Counter[str] = Counter()
        self.memory = ClientMemory(10)
        self.task: Task | None = None

    def run(self, life: Life) -> None:
        task = self.process.start(life)
        task.watcher = self
        self.world.run()
        assert task.done
        assert not self.world.judge.failures

    def sends(self, action: Send) -> None:
        self.requests[action.operation] += 1

    def woke(self, outcome: object) -> None:
        pass

    def wanted(self, **changes: object) -> AcquireRequest:
        return AcquireRequest(place_of("a"), f"p1#{self.world.entropy.nonce()}", 20_000, Content(), **changes)  # type: ignore[arg-type]

    def acquire(self, wanted: AcquireRequest) -> protocol.Steps[protocol.Hold]:
        return acquire.acquire(wanted, Conversation(self.memory, self.world.entropy, self.process.reading()))

    def release(self, hold: protocol.Hold, complete: bool = False) -> protocol.Steps[bool]:
        return keep.release(
            hold, Conversation(self.memory, self.world.entropy, self.process.reading()), complete=complete
        )


def test_a_released_row_of_long_ago_takes_one_request():
    counted = Counted()

    def life() -> Life:
        hold = yield from counted.acquire(counted.wanted())
        yield from counted.release(hold)
        yield Wait(3000)
        before = counted.requests["UpdateItem"]
        yield from counted.acquire(counted.wanted())
        assert counted.requests == {"UpdateItem": before + 1}

    counted.run(life())


def test_a_new_event_takes_two_requests_a_duplicate_one_and_one_whose_window_has_passed_three():
    counted = Counted()

    def event() -> AcquireRequest:
        return counted.wanted(window=60)

    def life() -> Life:
        hold = yield from counted.acquire(event())
        assert (yield from counted.release(hold, complete=True))
        assert counted.requests == {"UpdateItem": 2}
        with pytest.raises(DuplicateEventError):
            yield from counted.acquire(event())
        assert counted.requests == {"UpdateItem": 3}
        yield Wait(70)
        hold = yield from counted.acquire(event())
        assert (yield from counted.release(hold))
        assert counted.requests == {"UpdateItem": 6}

    counted.run(life())


def test_an_event_that_another_completes_meanwhile_takes_who_waits_no_claim_more():
    counted = Counted()
    first, second = counted.wanted(window=60), counted.wanted(window=60, waits=True, wait_until=30.0)

    def owner() -> Life:
        hold = yield from counted.acquire(first)
        yield Wait(5)
        yield from counted.release(hold, complete=True)

    def life() -> Life:
        counted.process.start(owner())
        yield Wait(1)
        with pytest.raises(DuplicateEventError):
            yield from counted.acquire(second)
        assert counted.requests["UpdateItem"] == 1

    counted.run(life())
