"""At most N executions at once: a permit over suspensions, replays and killed attempts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python.context import DurableContext

from lambda_lock import LockArgumentError, LockConfigurationError, LockTimeoutError
from lambda_lock.durable import durable_lock
from tests.support.rows import Rows

from .executions import Executions, deploy
from .service import service

__all__ = ["deploy", "service"]
Deploy = Callable[..., Executions]
SECOND = Duration.from_seconds(1)
HOUR = 3600


def entries(rows: Rows) -> list[str]:
    return list(rows["a"]["permits"]["M"])


def test_a_block_keeps_one_permit_over_its_suspensions_and_others_have_the_rest(deploy, client, rows):
    seen: list[tuple[int, int]] = []

    def handler(event: Any, context: DurableContext) -> int:
        with durable_lock(context, "a", permits=2, lease_duration=HOUR, client=client) as lock:

            def look(_: object) -> None:
                assert lock.transact_item()
                seen.append((lock.fencing_token, len(entries(rows))))

            lock.step(look)
            lock.wait(SECOND)
            with client.acquire("a", permits=2, wait=0):
                assert client.try_acquire("a", permits=2) is None
            lock.step(look)
            return lock.fencing_token

    token = deploy(handler).run()
    assert seen == [(token, 1), (token, 1)]
    assert entries(rows) == []


def test_two_blocks_have_two_permits_and_one_more_than_there_are_would_wait_for_itself(deploy, client, rows):
    def handler(event: Any, context: DurableContext) -> int:
        block: dict[str, Any] = {"permits": 2, "lease_duration": HOUR, "client": client}
        with durable_lock(context, "a", **block), durable_lock(context, "a", **block):
            held = len(entries(rows))
            with pytest.raises(LockConfigurationError, match="has 2 of the 2 permits of 'a' already"):
                durable_lock(context, "a", **block).__enter__()
            return held

    assert deploy(handler).run() == 2
    assert entries(rows) == []


def test_a_wait_for_a_permit_that_runs_out_says_so(deploy, client):
    held = [client.acquire("a", permits=2, lease_duration=HOUR) for _ in range(2)]

    def handler(event: Any, context: DurableContext) -> str:
        try:
            with durable_lock(context, "a", permits=2, lease_duration=HOUR, wait=150, client=client):
                return "entered"
        except LockTimeoutError as error:
            return str(error)

    assert "semaphore 'a' had no free permit, even after 15" in deploy(handler).run()
    assert all(lock.release() for lock in held)


def test_permits_are_for_one_key_and_in_range(deploy, client):
    def handler(event: Any, context: DurableContext) -> None:
        with pytest.raises(LockArgumentError, match="permits=0 is out of range"):
            durable_lock(context, "a", permits=0, lease_duration=HOUR, client=client)
        keys: Any = ["a", "b"]
        with pytest.raises(TypeError, match="permits=2 is for a single key"):
            durable_lock(context, keys, permits=2, lease_duration=HOUR, client=client)

    deploy(handler).run()


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


def test_a_block_takes_several_permits_over_its_suspensions_and_gives_all_of_them_back(deploy, client):
    def handler(event: Any, context: DurableContext) -> list[int]:
        with durable_lock(context, "a", permits=5, take=3, lease_duration=HOUR, client=client) as lock:
            lock.step(lambda _: lock.raise_if_lost())
            lock.wait(SECOND)
            assert client.try_acquire("a", permits=5, take=3) is None
            with client.acquire("a", permits=5, take=2, wait=0):
                return [client.get("a").taken]

    assert deploy(handler).run() == [5]
    assert client.get("a").taken == 0


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
    def handler(event: Any, context: DurableContext) -> None:
        options: dict[str, Any] = {"lease_duration": HOUR, "client": client}
        has_it = pytest.raises(LockConfigurationError, match=r"has \d+ of the \d+ permits of 'a' already")
        with durable_lock(context, "a", **outer, **options), has_it:
            durable_lock(context, "a", **inner, **options).__enter__()

    deploy(handler).run()


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


def test_a_wait_for_several_permits_that_runs_out_says_how_many(deploy, client):
    def handler(event: Any, context: DurableContext) -> str:
        with pytest.raises(LockTimeoutError) as refused:
            durable_lock(context, "a", permits=3, take=2, lease_duration=HOUR, wait=150, client=client).__enter__()
        return str(refused.value)

    with client.acquire("a", permits=3, take=2, lease_duration=HOUR):
        assert "semaphore 'a' had no 2 free permits, even after 15" in deploy(handler).run()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"take": 2}, "take=2 needs permits="),
        ({"permits": 2, "take": 3}, "take=3 is more than permits=2"),
        ({"permits": 2, "shared": True}, "permits=2 is not possible with shared=True"),
    ],
    ids=str,
)
def test_a_weight_that_does_not_fit_is_refused(deploy, client, options, said):
    def handler(event: Any, context: DurableContext) -> None:
        with pytest.raises(LockArgumentError, match=said):
            durable_lock(context, "a", lease_duration=HOUR, client=client, **options)
        keys: Any = ["a", "b"]
        name = "permits" if "permits" in options else "take"
        with pytest.raises(TypeError, match=f"{name}={options[name]} is for a single key"):
            durable_lock(context, keys, lease_duration=HOUR, client=client, **options)

    deploy(handler).run()
