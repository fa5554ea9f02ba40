"""The programs with readers and a writer, and with limits inside limits."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import LockClient, LockTimeoutError
from rig import events
from tests.recipes.pages import program, program_of
from tests.recipes.test_jobs import Work
from tests.support.context import Context
from tests.support.elsewhere import in_thread
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("table")
PAGE = "shared-locks.md"


@pytest.fixture
def started() -> Any:
    """Starts functions on threads. At the end, all have returned."""
    ends: list[Callable[[], Any]] = []

    def start(function: Callable[[], Any]) -> Callable[[], Any]:
        ends.append(in_thread(function))
        return ends[-1]

    yield start
    for end in ends:
        end()


def number(key: str, of: str) -> int:
    """How many wait for a lock, or how many permits are taken."""
    with LockClient() as client:
        return getattr(client.get(key), of, 0)


waiters, taken = functools.partial(number, of="waiters"), functools.partial(number, of="taken")


def test_a_migration_waits_for_the_handlers_at_work_and_keeps_new_ones_waiting(started):
    app, did = program_of(PAGE, "## A migration that pauses all handlers"), []
    at_work, migrating = Work(), Work()

    def work(event: dict[str, Any]) -> None:
        if event["id"] == "old":
            at_work(event)
        did.append(event["id"])

    def change_schema() -> None:
        migrating()
        did.append("migrated")

    app.work, app.change_schema = work, change_schema
    event = events.load("schedule")
    for _ in range(3):
        started(lambda: app.handler(event | {"id": "old"}, Context()))
    wait_until(lambda: at_work.begun == 3)
    started(lambda: app.migrate(event, Context()))
    wait_until(lambda: waiters("schema") == 1)
    started(lambda: app.handler(event | {"id": "new"}, Context()))
    wait_until(lambda: waiters("schema") == 2)
    assert migrating.begun == 0
    at_work.go_on.set()
    assert migrating.is_in.wait(30)
    assert did == ["old"] * 3
    migrating.go_on.set()
    wait_until(lambda: "new" in did)
    assert did == ["old", "old", "old", "migrated", "new"]


def test_a_migration_that_dies_lets_the_handlers_go_on():
    app = program_of(PAGE, "## A migration that pauses all handlers")
    app.change_schema = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        app.migrate(events.load("schedule"), Context())
    app.work = lambda event: "done"
    assert app.handler(events.load("schedule"), Context()) == "done"


def test_nobody_reads_from_a_cache_that_is_half_rebuilt(started):
    app, half = program_of(PAGE, "## A cache that is rebuilt"), Work()
    app.rebuild()
    assert app.read("answer") == 42

    def load() -> Any:
        half()
        yield "answer", 43

    app.load = load
    started(app.rebuild)
    assert half.is_in.wait(30)
    assert app.cache == {}
    readers = [started(lambda: app.read("answer")) for _ in range(3)]
    wait_until(lambda: waiters("cache") == 3)
    half.go_on.set()
    assert [reader() for reader in readers] == [43] * 3
    app.client.close()


def test_readers_of_a_configuration_see_both_parts_of_one_version(started):
    app, half = program_of(PAGE, "## A configuration that is read by many"), Work()

    class Slow(dict[str, int]):
        """A configuration whose parts do not change at once: others ask in between."""

        def __setitem__(self, name: str, value: int) -> None:
            super().__setitem__(name, value)
            half()

    assert app.read("reader") == (1, 1)
    app.config = Slow(app.config)
    started(lambda: app.change(2))
    assert half.is_in.wait(30)
    readers = [started(lambda number=number: app.read(f"reader {number}")) for number in range(3)]
    wait_until(lambda: sum(waiters(f"config#{stripe}") for stripe in range(app.STRIPES)) == 3)
    half.go_on.set()
    assert [reader() for reader in readers] == [(2, 2)] * 3
    app.client.close()


def test_a_system_drains_pauses_and_goes_on(started):
    app, at_work, alone = program("maintenance"), Work(), Work()
    app.work, app.maintain = at_work, alone
    started(lambda: app.handler({}, None))
    assert at_work.is_in.wait(30)
    started(lambda: app.pause(60))
    wait_until(lambda: waiters("maintenance") == 1)
    answer = app.handler({}, None)  # one that is under way has not ended, and nobody new begins
    assert answer["statusCode"] == 503
    assert int(answer["headers"]["Retry-After"]) >= 1
    assert alone.begun == 0
    at_work.go_on.set()
    assert alone.is_in.wait(30)
    assert app.handler({}, None)["statusCode"] == 503
    alone.go_on.set()
    wait_until(lambda: taken("maintenance") == 0)
    assert app.handler({}, None) == {"statusCode": 200}
    app.client.close()


def test_a_tenant_that_waits_for_its_own_limit_takes_nothing_of_what_all_share(started):
    app, made = program("tenants"), Work()
    app.make = made
    small = {"pages": 3}
    for _ in range(4):
        started(lambda: app.export("a", small))
    wait_until(lambda: made.begun == 2 and waiters("exports#a") == 2)
    assert taken("exports") == 2
    started(lambda: app.export("b", {"pages": 5000}))
    wait_until(lambda: made.begun == 3)
    assert taken("exports") == 7
    started(lambda: app.export("c", {"pages": 5000}))
    wait_until(lambda: waiters("exports") == 1)  # 3 are free
    with pytest.raises(LockTimeoutError), app.client.acquire("exports", permits=10, wait=0.3):
        pass  # a small one that comes later does not pass it
    made.go_on.set()
    wait_until(lambda: made.ended == 6)
    app.client.close()
