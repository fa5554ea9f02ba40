"""The recipes for work that is started from outside: once, not too often, not beside itself."""

import threading
from typing import Any

import pytest

from lambda_lock import LockClient, set_default_client
from lambda_lock.testing import ManualClock, in_memory
from rig import events
from tests.recipes.pages import program
from tests.support.context import Context
from tests.support.elsewhere import in_thread


class Work:
    """Work that a test can stop in the middle. begun, ended: how often it did."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.is_in = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, *_: Any) -> None:
        self.begun += 1
        self.is_in.set()
        assert self.go_on.wait(30)
        self.ended += 1


def beside(first: Any, second: Any, work: Work) -> Any:
    """Call the second while the first is in the middle of its work. Returns what the second returned."""
    ended = in_thread(first)
    try:
        assert work.is_in.wait(30)
        return second()
    finally:
        work.go_on.set()
        ended()


def _schedule(number: str) -> dict[str, Any]:
    return events.load("schedule") | {"id": number}


@pytest.mark.usefixtures("table")
def test_a_run_is_skipped_while_the_previous_one_is_at_work_and_not_after_it():
    app = program("cron")
    app.report = work = Work()
    beside(lambda: app.handler(_schedule("1"), Context()), lambda: app.handler(_schedule("2"), Context()), work)
    assert (work.begun, work.ended) == (1, 1)
    app.handler(_schedule("3"), Context())
    assert work.ended == 2


@pytest.mark.usefixtures("table")
def test_a_run_that_is_delivered_twice_is_done_once_and_one_that_failed_again():
    app = program("cron")
    done: list[str] = []
    app.report = lambda: done.append("a")
    app.handler(_schedule("1"), Context())
    app.handler(_schedule("1"), Context())
    assert done == ["a"]

    app.report = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        app.handler(_schedule("2"), Context())
    app.report = lambda: done.append("b")
    app.handler(_schedule("2"), Context())
    assert done == ["a", "b"]


def _digest(tenant: str, time: str = "2026-11-24T18:05:00Z") -> dict[str, Any]:
    return {"detail": {"tenant": tenant}, "time": time}


def test_a_digest_is_sent_again_an_hour_after_the_last_one_and_not_before():
    clock = ManualClock()
    sent: list[str] = []
    with in_memory(clock=clock):
        set_default_client(LockClient(clock=clock))
        app = program("once-an-hour")
        app.send_digest = sent.append
        for pause in (0, 60, 3500):
            clock.advance(pause)
            app.handler(_digest("a"), Context())
        assert sent == ["a"]
        app.handler(_digest("b"), Context())
        clock.advance(60)
        app.handler(_digest("a"), Context())
        app.handler(_digest("b"), Context())
    assert sent == ["a", "b", "a"]


@pytest.mark.usefixtures("table")
def test_a_digest_that_failed_does_not_count_and_nobody_sends_it_beside_another():
    app = program("once-an-hour")
    app.send_digest = lambda tenant: 1 / 0
    with pytest.raises(ZeroDivisionError):
        app.handler(_digest("a"), Context())
    app.send_digest = work = Work()
    beside(lambda: app.handler(_digest("a"), Context()), lambda: app.handler(_digest("a"), Context()), work)
    app.handler(_digest("a"), Context())
    assert (work.begun, work.ended) == (1, 1)


@pytest.mark.usefixtures("table")
def test_in_each_hour_of_the_clock_a_digest_is_sent_once():
    app = program("once-an-hour", 1)
    sent: list[str] = []
    app.send_digest = sent.append
    for time in ("2026-11-24T18:05:00Z", "2026-11-24T18:59:59Z", "2026-11-24T19:00:01Z", "2026-11-24T18:10:00Z"):
        app.handler(_digest("a", time), Context())
    assert sent == ["a", "a"]
