"""At most N executions at once: a permit over suspensions, replays and killed attempts."""

import re
import signal
from typing import Any

import pytest
from aws_durable_execution_sdk_python.context import DurableContext

from lambda_lock import LockConfigurationError
from lambda_lock.durable import DurableLock, durable_lock
from tests.support.rows import Rows

from .executions import HOUR, SECOND, within


def entries(rows: Rows) -> list[str]:
    return list(rows["a"]["permits"]["M"])


@pytest.mark.parametrize(
    ("weight", "rest"), [({"permits": 2}, {"permits": 2}), ({"permits": 5, "take": 3}, {"permits": 5, "take": 2})]
)
def test_a_block_keeps_its_permits_over_its_suspensions_and_others_have_the_rest(deploy, client, rows, weight, rest):
    seen: list[tuple[int, int]] = []

    def act(_: DurableContext, lock: DurableLock) -> int:
        def look(_: object) -> None:
            assert lock.transact_item()
            seen.append((lock.fencing_token, client.get("a").taken))

        lock.step(look)
        lock.wait(SECOND)
        with client.acquire("a", **rest, wait=0):
            assert client.try_acquire("a", **rest) is None
        lock.step(look)
        lock.wait(SECOND)  # nothing resumes it after this: what is released is what was checkpointed
        return lock.fencing_token

    token = deploy(within(client, act, **weight)).run()
    assert seen == [(token, weight.get("take", 1))] * 2
    assert entries(rows) == []


def test_two_blocks_have_two_permits_and_one_more_than_there_are_would_wait_for_itself(deploy, client, rows):
    def handler(event: Any, context: DurableContext) -> int:
        block: dict[str, Any] = {"permits": 2, "lease_duration": HOUR, "client": client}
        with durable_lock(context, "a", **block), durable_lock(context, "a", **block):
            with pytest.raises(LockConfigurationError, match="has 2 of the 2 permits of 'a' already"):
                durable_lock(context, "a", **block).__enter__()
            return len(entries(rows))

    assert deploy(handler).run() == 2
    assert entries(rows) == []


@pytest.mark.parametrize(
    ("weight", "holders", "said"),
    [({"permits": 2}, 2, "no free permit"), ({"permits": 3, "take": 2}, 1, "no 2 free permits")],
    ids=str,
)
def test_a_wait_for_permits_that_runs_out_says_so_and_how_many(deploy, client, weight, holders, said):
    held = [client.acquire("a", **weight, lease_duration=HOUR) for _ in range(holders)]
    kind, told = deploy(within(client, lambda *_: "entered", **weight, wait=150)).fail()
    assert kind == "LockTimeoutError"
    assert f"semaphore 'a' had {said}, even after 15" in told
    assert all(lock.release() for lock in held)


@pytest.mark.parametrize(
    ("kill", "weight"),
    [
        *((kill, {"permits": 2}) for kill in ("acquire a", "one", "renew_and_end a", "two", "release a")),
        *((kill, {"permits": 4, "take": 3}) for kill in ("acquire a", "release a")),
    ],
    ids=str,
)
def test_an_execution_goes_on_with_its_permit_in_another_process(service, client, rows, kill, weight):
    other = client.acquire("a", **weight | ({"take": 1} if "take" in weight else {}), lease_duration=HOUR)
    first, last = service.end(service.start({"kill": kill, **weight}))
    assert first == last
    assert service.exits.count(-signal.SIGKILL) == 1
    assert entries(rows) == [other.owner.rpartition("#")[2]]
    assert client.get("a").taken == 1
    assert other.release()


def test_blocks_are_readers_and_a_writer(deploy, client):
    def handler(event: Any, context: DurableContext) -> list[bool]:
        with durable_lock(context, "a", shared=True, lease_duration=HOUR, client=client):
            read = [client.try_acquire("a", shared=False) is None, bool(client.acquire("a", shared=True).release())]
        with durable_lock(context, "a", shared=False, lease_duration=HOUR, client=client):
            return [*read, client.try_acquire("a", shared=True) is None]

    assert deploy(handler).run() == [True] * 3


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ({"permits": 5, "take": 3}, {"permits": 5, "take": 3}),
        ({"shared": True}, {"shared": False}),
        ({"shared": False}, {"shared": True}),
    ],
    ids=str,
)
def test_an_inner_block_that_takes_what_the_outer_one_has_would_wait_for_itself(deploy, client, outer, inner):
    nested = within(client, lambda *_: None, **inner)
    kind, told = deploy(within(client, lambda context, _: nested(None, context), **outer)).fail()
    assert kind == "LockConfigurationError"
    assert re.search(r"has \d+ of the \d+ permits of 'a' already", told)


def test_an_inner_block_that_takes_several_would_wait_for_an_outer_one_without_take(deploy, client):
    def handler(event: Any, context: DurableContext) -> None:
        options: dict[str, Any] = {"permits": 10, "lease_duration": HOUR, "client": client}
        would_wait = pytest.raises(LockConfigurationError, match=r"take=2 would wait for .*: pass take=1 there")
        with durable_lock(context, "a", **options):
            with would_wait:
                durable_lock(context, "a", take=2, **options).__enter__()
            with durable_lock(context, "a", take=1, **options):
                pass
        with durable_lock(context, "a", take=1, **options), durable_lock(context, "a", take=2, **options):
            assert client.get("a").taken == 3

    deploy(handler).run()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"permits": 0}, "permits=0 is out of range"),
        ({"take": 2}, "take=2 needs permits="),
        ({"permits": 2, "take": 3}, "take=3 is more than permits=2"),
        ({"permits": 2, "shared": True}, "permits=2 is not possible with shared=True"),
    ],
    ids=str,
)
def test_a_weight_that_does_not_fit_is_refused_and_any_with_several_keys(deploy, client, options, said):
    kind, told = deploy(within(client, lambda *_: None, **options)).fail()
    assert (kind, said in told) == ("LockArgumentError", True)
    (name, value), *_ = options.items()
    kind, told = deploy(within(client, lambda *_: None, key=["a", "b"], **options)).fail()
    assert (kind, f"{name}={value} is for a single key" in told) == ("TypeError", True)
