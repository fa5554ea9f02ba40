"""cache_size=: a duplicate within one environment costs no request, and "done" is never said of what is not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lambda_lock import (
    DuplicateEventError,
    LockArgumentError,
    LockClient,
    LockNotGrantedError,
    PayloadMismatchError,
    TransportError,
    deduplicate,
    default_client,
    set_default_client,
)
from lambda_lock.testing import ManualClock, in_memory
from tests.support.clocks import StandingClock
from tests.support.decorated import Boom

from .conftest import FOREVER, Calls

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}


@pytest.mark.parametrize(("cache_size", "requests"), [(10, 2), (0, 4)])
def test_a_duplicate_of_what_was_done_here_costs_no_request(cache_size, requests, once, wire):
    calls = Calls(result={"n": 1}, by=once("{id}", result="json", cache_size=cache_size))
    for _ in range(3):
        assert calls(EVENT) == {"n": 1}
    assert wire.operations == ["UpdateItem"] * requests
    assert calls.count == 1


def test_a_duplicate_of_what_was_done_elsewhere_costs_one(once, wire, rows):
    once("{id}", scope="", result="json")(lambda event: "first")(EVENT)
    before = len(wire.operations)
    handler = once("{id}", scope="", result="json", cache_size=10)(lambda event: pytest.fail("must not run"))
    assert [handler(EVENT) for _ in range(3)] == ["first"] * 3
    assert len(wire.operations) == before + 1


@pytest.mark.parametrize("cache_size", [0, 1])
def test_the_error_says_whether_it_was_remembered_and_the_log_tells_of_it(cache_size, once, caplog):
    caplog.set_level("INFO", "lambda_lock")
    handler = once("{id}", result="json", cache_size=cache_size, on_duplicate="raise")(lambda event: "x")
    handler(EVENT)
    with pytest.raises(DuplicateEventError) as duplicate:
        handler(EVENT)
    assert duplicate.value.remembered is (cache_size == 1)
    assert duplicate.value.result == "x"
    assert duplicate.value.completed_until is not None
    assert [record.__dict__["lock_event"] for record in caplog.records] == ["duplicate"]


def test_the_number_of_events_is_bounded_and_the_least_used_goes(once, wire):
    handler = once("{id}", cache_size=2)(lambda event: None)
    for name in "abac":  # b is the least used when c comes
        handler({"id": name})
    before = len(wire.operations)
    for name in "ac":
        handler({"id": name})
    assert len(wire.operations) == before
    handler({"id": "b"})
    assert len(wire.operations) == before + 1


def test_another_payload_is_seen_in_the_cache_too(once, wire):
    handler = once("{id}", validate=["n"], cache_size=1)(lambda event: None)
    handler({"id": "e", "n": 1})
    handler({"id": "e", "n": 1})
    with pytest.raises(PayloadMismatchError):
        handler({"id": "e", "n": 2})
    assert len(wire.operations) == 2


# -- never "done" for what is not


def test_an_event_that_failed_or_is_in_progress_is_not_remembered(once, other):
    calls = Calls(error=Boom(), by=once("{id}", scope="", cache_size=10))
    for _ in range(2):
        with pytest.raises(Boom):
            calls(EVENT)
    with other.acquire("e-1"), pytest.raises(LockNotGrantedError):
        calls(EVENT)
    calls.error, calls.result = None, "ran"
    assert calls(EVENT) == "ran"
    assert calls.count == 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (lambda wire: wire.drop_reply(times=FOREVER), TransportError),
        (lambda wire: wire.answer(400, "AccessDeniedException", times=1), LockNotGrantedError),  # it is in progress
    ],
    ids=["no answer", "refused"],
)
def test_an_event_whose_completion_was_not_confirmed_is_not_remembered(fault, error, once, wire, impatient):
    handler = once("{id}", cache_size=10)(lambda event: fault(wire) and None)
    handler(EVENT)
    before = len(wire.operations)
    with pytest.raises(error):
        handler(EVENT)
    assert len(wire.operations) > before


@pytest.mark.parametrize("window", [3600, lambda result: 3600], ids=["number", "function"])
@pytest.mark.parametrize("seen_elsewhere", [False, True])
@pytest.mark.parametrize("left", [-5.0, -1.0, 0.0, 1.0, 10.0])
def test_what_is_cached_ends_before_the_window_does(left, seen_elsewhere, window):
    """left: seconds of the window that are left, by DynamoDB's clock. Near its end, DynamoDB is asked."""
    clock = ManualClock(wall=1_800_000_000.9)
    with in_memory(clock=clock) as memory:
        set_default_client(LockClient(clock=clock, heartbeat_period=0))
        calls = Calls()
        if seen_elsewhere:
            deduplicate("{id}", scope="", window=window)(lambda event: None)(EVENT)
        handler = deduplicate("{id}", scope="", window=window, cache_size=10)(calls.handler)
        handler(EVENT)
        (row,) = memory.rows()
        assert row.completed_until is not None
        clock.advance(row.completed_until - left - clock.wall())
        before, ran = len(memory.requests), calls.count
        handler(EVENT)
        assert calls.count - ran == (left <= 0)
        assert (len(memory.requests) == before) is (left > 4)


def test_what_is_cached_ends_though_the_monotonic_clock_stood_still_in_a_freeze():
    class Frozen(ManualClock):
        stopped = 0.0

        def monotonic(self) -> float:
            return super().monotonic() - self.stopped

    clock = Frozen()
    with in_memory(clock=clock):
        set_default_client(LockClient(clock=clock, heartbeat_period=0))
        calls = Calls()
        handler = deduplicate("{id}", window=60, cache_size=10)(calls.handler)
        handler(EVENT)
        handler(EVENT)
        assert calls.count == 1
        clock.advance(3600)
        clock.stopped += 3600
        handler(EVENT)
        assert calls.count == 2


def test_a_wall_clock_that_is_set_back_does_not_lengthen_it():
    clock = ManualClock()
    with in_memory(clock=clock) as memory:
        set_default_client(LockClient(clock=StandingClock(), heartbeat_period=0))
        local = default_client().__session__.timeline.clock
        handler = deduplicate("{id}", window=60, cache_size=10)(lambda event: None)
        handler(EVENT)
        clock.advance(100)
        local.sleep(100)
        before = len(memory.requests)
        handler(EVENT)
        assert len(memory.requests) > before


def test_what_one_table_knows_another_does_not():
    calls = Calls(by=deduplicate("{id}", cache_size=10))
    for _ in range(2):  # neither the engine's table, nor that of an earlier block
        with in_memory():
            calls(EVENT)
            calls(EVENT)
    assert calls.count == 2
    calls(EVENT)
    assert calls.count == 3
    with in_memory():
        calls(EVENT)
    assert calls.count == 4
    default_client().close()
    set_default_client(LockClient("other-table"))
    with in_memory():
        calls(EVENT)
    assert calls.count == 5


def test_a_switched_off_lock_is_not_answered_from_memory(once, monkeypatch):
    calls = Calls(by=once("{id}", cache_size=10))
    calls(EVENT)
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")
    calls(EVENT)
    assert calls.count == 2


def test_threads_may_share_it():
    calls: list[str] = []
    handler = deduplicate("{id}", cache_size=3, wait=20)(lambda event: calls.append(event["id"]))
    with in_memory(), ThreadPoolExecutor(4) as pool:
        for delivered in [pool.submit(handler, {"id": str(number % 6)}) for number in range(240)]:
            delivered.result()
    assert sorted(calls) == list("012345")


@pytest.mark.parametrize(("wrong", "error"), [(-1, LockArgumentError), (True, TypeError), ("10", TypeError)])
def test_the_size_of_a_cache_is_a_whole_number(wrong, error):
    with pytest.raises(error, match="cache_size"):
        deduplicate("{id}", cache_size=wrong)
