"""A wait of up to a year has fewer than 3,000 operations, whatever happens to it. In virtual time.

The operations of lambda_lock/durable/acquiring.py run on a model of their context: it keeps what a checkpoint keeps,
as JSON, counts what the service counts, and replays the execution once at its end. Suspensions take no replay here:
that would take minutes. test_sleeping.py has the real ones.
"""

import json
import math
import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aws_durable_execution_sdk_python.exceptions import CallbackExternalError, CallbackTimeoutError

from benchmarks.waking import world
from lambda_lock import LockTimeoutError, TransportError
from lambda_lock.durable import acquiring
from lambda_lock.durable.acquiring import MOST_SPENT, Polling
from lambda_lock.errors import LockError, LockNotGrantedError

HOUR = 3600
DAY = 24 * HOUR
YEAR = 366 * DAY
BEGIN = 1_800_000_000.0
MOST = 3000  # operations of an execution


class Table:
    """A lock that somebody else holds, and its sleepers."""

    def __init__(self, room: Callable[[], bool], waker: Callable[[], bool], outage: Callable[[], bool]) -> None:
        self.room = room
        self.waker = waker
        self.outage = outage
        self.is_held = True
        self.entry: str | None = None
        self.tries = 0

    key, permits, owner, token = "a", None, "somebody#1", 1

    @property
    def has_waker(self) -> bool:
        return self.waker()

    def acquire(self, holder: str) -> None:
        self.tries += 1
        if self.outage():
            raise TransportError(True, "no answer", key=self.key)
        if self.is_held:
            raise LockNotGrantedError("held", key=self.key, holder="somebody#1")

    def lie_down(self, holder: str, callback: str) -> bool:
        if self.entry is None and not self.room():
            return False
        self.entry = callback
        return True

    def get_up(self, holder: str) -> None:
        self.entry = None

    def begin(self, owner: str, token: int) -> None: ...


class Execution:
    """What the service keeps of an execution, and a context that replays it."""

    def __init__(self, table: Table, polling: Polling, ends: Callable[[], str]) -> None:
        self.table = table
        self.polling = polling
        self.ends = ends  # how the callback of a sleep ends: "called", "failed" or "timed out"
        self.now = BEGIN
        self.kept: list[dict[str, Any]] = []
        self.polled: dict[str, tuple[Any, int]] = {}  # states and tries of operations that began before
        self.operations = 0
        self.slept: list[float] = []
        self.polls = 0
        self._place = 0

    def run(self) -> None:
        """Run it to its end, and replay it: that comes to the same error, without another operation."""
        try:
            self._invoke()
        except LockError as error:
            before = self.operations
            with pytest.raises(type(error), match=re.escape(str(error))):
                self._invoke()
            assert self.operations == before
            assert self._place == len(self.kept)
            raise

    def _invoke(self) -> None:
        self._place = 0
        holds: Any = type("Holds", (), {"keys": ("a",), "all": [self.table], "taken": []})
        context: Any = self
        acquiring.acquire(context, holds, self.polling)

    class execution_context:  # noqa: N801
        durable_execution_arn = "arn:aws:lambda:eu-west-1:123456789012:function:orders:1/durable-execution/one"

    def _next(self, name: str) -> dict[str, Any]:
        if self._place == len(self.kept):
            assert self.operations < MOST
            self.kept.append({"name": name})
        operation = self.kept[self._place]
        assert operation["name"] == name, "another operation than before"
        self._place += 1
        return operation

    def step(self, func: Callable[[object], Any], name: str) -> Any:
        operation = self._next(name)
        if "result" not in operation:
            self.operations += 1
            operation["result"] = func(None)
        return operation["result"]

    def wait_for_condition(self, check: Callable[[Any, Any], Any], config: Any, name: str) -> Any:
        operation = self._next(name)
        if "result" in operation:
            return json.loads(operation["result"])
        state, attempt = self.polled.pop(name, (config.initial_state, 0))
        while self.operations < MOST:
            attempt += 1
            self.operations += 1
            state = json.loads(json.dumps(check(json.loads(json.dumps(state)), SimpleNamespace(attempt=attempt))))
            decision = config.wait_strategy(state, attempt)
            if not decision.should_continue:
                operation["result"] = json.dumps(state)
                return state
            self.polls += 1
            self.now += decision.delay_seconds
        raise AssertionError("too many operations")

    def create_callback(self, name: str, config: Any) -> Any:
        operation = self._next(name)
        if "timeout" not in operation:
            self.operations += 1
            operation |= {"timeout": config.timeout_seconds, "made": self.now}
        execution = self

        class Callback:
            callback_id = f"callback-{self._place}"

            def result(self) -> None:
                if "end" not in operation:
                    end = operation["end"] = execution.ends()
                    if end == "timed out":
                        execution.slept.append(operation["timeout"])
                        execution.now = max(execution.now, operation["made"] + operation["timeout"])
                    if end == "called":
                        execution.table.entry = None
                if operation["end"] == "timed out":
                    raise CallbackTimeoutError("timed out")
                if operation["end"] == "failed":
                    raise CallbackExternalError("failed by hand")

        return Callback()


def yes() -> bool:
    return True


def no() -> bool:
    return False


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Execution]:
    def build(
        room: Callable[[], bool] = yes,
        waker: Callable[[], bool] = yes,
        outage: Callable[[], bool] = no,
        ends: Callable[[], str] = lambda: "timed out",
        wait: float = YEAR,
        poll: float = 60,
        held: float = math.inf,
    ) -> Execution:
        execution = Execution(Table(room, waker, outage), Polling(wait, poll, held), ends)
        monkeypatch.setattr("lambda_lock.durable.acquiring.time.time", lambda: execution.now)
        return execution

    return build


def times_out(execution: Execution) -> float:
    """Run an execution whose wait runs out. Returns how long it waited, in seconds."""
    with pytest.raises(LockTimeoutError) as caught:
        execution.run()
    assert caught.value.waited is not None
    return caught.value.waited


def test_a_year_asleep_is_370_sleeps_of_an_hour_and_then_of_as_long_as_was_waited(begin):
    execution = begin()
    assert times_out(execution) == pytest.approx(YEAR, abs=2 * DAY)
    assert execution.slept[:6] == [HOUR, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 16 * HOUR]
    assert set(execution.slept[6:-1]) == {DAY}
    assert len(execution.slept) <= 372
    assert execution.polls == 0
    assert execution.operations < 1150
    assert execution.table.entry is None, "who gives up gets up first"


@pytest.mark.parametrize("poll", [1, 60, HOUR])
def test_a_year_without_room_among_the_sleepers_is_polled(begin, poll):
    execution = begin(room=no, poll=poll)
    times_out(execution)
    assert execution.slept == []
    assert execution.operations < 1700


@pytest.mark.parametrize("poll", [1, 60])
@pytest.mark.parametrize("end", ["called", "failed"])
def test_wake_ups_for_nothing_cost_so_many_operations_and_no_more(begin, end, poll):
    execution = begin(ends=lambda: end, poll=poll)
    times_out(execution)
    assert MOST_SPENT < execution.operations < MOST
    assert execution.table.entry is None


def test_who_gets_room_after_a_while_sleeps_then(begin):
    execution: Execution = begin(room=lambda: execution.polls >= 200, wait=30 * DAY)
    times_out(execution)
    assert execution.polls == 200
    assert sum(execution.slept) > 28 * DAY


def test_an_outage_is_polled_and_no_callback_is_made_for_it_and_at_the_end_is_no_contention(begin):
    execution = begin(outage=yes, wait=DAY)
    with pytest.raises(TransportError) as outage:
        execution.run()
    assert outage.value.key == "a"
    assert {operation["name"] for operation in execution.kept} == {"name lock 'a'", "acquire lock 'a'"}


def test_without_a_waker_there_are_the_operations_of_before(begin):
    execution = begin(waker=no)
    times_out(execution)
    assert [operation["name"] for operation in execution.kept] == ["name lock 'a'", "acquire lock 'a'"]
    assert execution.operations < 1150


def test_a_wait_of_a_year_has_less_than_1600_polls(begin):
    """This bounds what is left to do after MOST_SPENT."""
    execution = begin(waker=no, poll=1)
    times_out(execution)
    assert execution.polls < 1600
    assert MOST_SPENT + 1600 <= MOST


@pytest.mark.parametrize(
    ("held", "asleep", "polling"), [(60, 31 * HOUR, 45 * HOUR), (HOUR, 85 * DAY, 107 * DAY), (DAY, YEAR, YEAR)]
)
def test_while_other_locks_are_held_operations_last_for_so_long(begin, held, asleep, polling):
    """Each pause, and each sleep, ends before their leases do."""
    for waker, least in ((yes, asleep), (no, polling)):
        execution = begin(waker=waker, held=held)
        with pytest.raises((LockTimeoutError, AssertionError)):
            execution.run()
        assert execution.operations <= MOST
        assert least - 1 <= execution.now - BEGIN < 1.05 * least


@pytest.mark.parametrize("seed", range(60))
def test_no_mixture_of_these_reaches_3000_operations(begin, seed):
    """Room comes and goes, wakers come and go, outages too; callbacks end in each way. The lock is never free."""
    rng = random.Random(seed)
    often = {what: rng.choice((0.0, 0.02, 0.5, 0.98, 1.0)) for what in ("room", "waker", "outage", "called", "failed")}

    def chance(what: str) -> Callable[[], bool]:
        return lambda: rng.random() < often[what]

    def ends() -> str:
        return "called" if chance("called")() else "failed" if chance("failed")() else "timed out"

    execution = begin(
        chance("room"), chance("waker"), chance("outage"), ends, poll=rng.choice((1, 5, 60, 600)), wait=YEAR
    )
    with pytest.raises((LockTimeoutError, TransportError)):
        execution.run()
    assert execution.now - BEGIN >= YEAR - 1
    assert execution.operations < MOST
    assert execution.table.tries <= execution.operations


def test_what_a_version_without_sleep_has_checkpointed_is_replayed_as_it_was(begin):
    """Of a grant and of a refusal. Those states say nothing about sleep."""
    granted = {"owner": "x#1", "token": 7, "since": BEGIN, "waited": 60.0}
    refused = {"since": BEGIN, "waited": 60.0, "pause": 0, "refusal": "held", "outage": False, "holder": "somebody#1"}
    for state in (granted, refused):
        execution: Execution = begin(wait=60)
        execution.kept = [
            {"name": "name lock 'a'", "result": "holder"},
            {"name": "acquire lock 'a'", "result": json.dumps(state)},
        ]
        if state is granted:
            execution.run()
        else:
            assert times_out(execution) == 60
        assert execution.operations == 0
        assert execution.table.tries == 0


def test_what_polled_under_a_version_without_sleep_goes_on_with_its_state(begin):
    execution: Execution = begin(wait=DAY)
    old = {"since": execution.now - HOUR, "waited": HOUR + 60.0, "pause": 60, "refusal": "held", "outage": False}
    execution.kept = [{"name": "name lock 'a'", "result": "holder"}]
    execution.polled["acquire lock 'a'"] = old, 61
    times_out(execution)
    assert execution.slept[0] == pytest.approx(HOUR, abs=61)
    assert sum(execution.slept) == pytest.approx(DAY - HOUR, abs=61)


def test_the_benchmark_sleeps_and_polls_as_this_does():
    """It cannot load this module, because the SDK is not installed where it runs."""
    polling = Polling(None, world.POLL)
    for waited in (0.0, 100.0, 5_000.0, 7_000.0, 90_000.0, 1e7):
        pause = min(max(world.POLL, waited * world.GROWTH), world.LONGEST_PAUSE)
        assert polling.pause(waited) == pytest.approx(pause, abs=1)
        sleep = min(max(world.SHORTEST_SLEEP, waited), world.LONGEST_PAUSE)
        assert polling.sleep(waited) == pytest.approx(sleep, abs=1)
