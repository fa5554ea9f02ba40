"""What @with_lock on async def functions has of its own. What it shares with plain ones: tests/with_lock."""

import asyncio
import functools
from collections.abc import Iterator

import pytest

from lambda_lock import (
    AsyncLock,
    AsyncLockClient,
    Lock,
    LockAlreadyReleasedError,
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    current_lock,
    default_client,
    set_default_client,
    with_lock,
)
from lambda_lock.decorators.guard import default_async_client
from tests.support.context import Context
from tests.support.decorated import other

from .conftest import ended, occupied, start

__all__ = ["other"]

pytestmark = pytest.mark.usefixtures("table")


@pytest.fixture(autouse=True)
def fresh_default_client() -> Iterator[None]:
    set_default_client(None)
    yield
    default_client().close(release=False)  # the wire that its requests went over may be gone
    set_default_client(None)


# While the function runs


def test_a_plain_handler_runs_it_with_asyncio_run_call_after_call(wire):
    @with_lock("{id}")
    async def work(event: dict[str, str]) -> str:
        return current_lock(AsyncLock).key

    def handler(event: dict[str, str], context: object) -> str:
        return asyncio.run(work(event))

    assert [handler({"id": str(number)}, Context()) for number in range(3)] == ["0", "1", "2"]
    assert wire.connections == 1


async def test_nothing_is_sent_before_the_coroutine_is_awaited(wire):
    @with_lock("k")
    async def handler() -> None: ...

    coroutine = handler()
    assert wire.operations == []
    await coroutine
    assert wire.operations == ["UpdateItem", "UpdateItem"]


async def test_a_cancellation_that_the_function_raises_comes_through_unchanged_and_the_lock_is_free(rows):
    error = asyncio.CancelledError("mine")

    @with_lock("k", on_not_granted="skip")
    async def handler() -> None:
        raise error

    with pytest.raises(asyncio.CancelledError) as caught:
        await handler()
    assert caught.value is error
    assert error.__context__ is None
    assert error.__cause__ is None
    assert not rows.is_held("k")


async def test_partials_and_callable_objects_can_be_decorated():
    class Callee:
        async def __call__(self, event: dict[str, str]) -> str:
            return current_lock(AsyncLock).key

    for function in (Callee(), functools.partial(Callee())):
        assert await with_lock("{id}")(function)({"id": "a"}) == "a"


# Contention


async def answer_awaited(event: dict[str, str], *, error: LockNotGrantedError) -> tuple[str, str | None]:
    await asyncio.sleep(0)
    with pytest.raises(LookupError):
        current_lock()
    return event["id"], error.key


@pytest.mark.parametrize(
    "answer",
    [answer_awaited, functools.partial(answer_awaited), lambda event, error: answer_awaited(event, error=error)],
    ids=["async", "partial of async", "plain that gives a coroutine"],
)
async def test_an_answer_that_is_a_coroutine_is_awaited(answer, other):
    @with_lock("{id}", wait=0, on_not_granted=answer)
    async def handler(event: dict[str, str]) -> str:
        return "done"

    with other.acquire("k"):
        assert await handler({"id": "k"}) == ("k", "k")
    assert await handler({"id": "k"}) == "done"


# Nesting


async def test_current_lock_is_the_innermost_of_this_task():
    @with_lock("{key}")
    async def enter(key: str, inner: str | None = None) -> list[str]:
        found = [current_lock(AsyncLock).key]
        if inner:
            found += await enter(inner)
        return [*found, current_lock(AsyncLock).key]

    assert list(await asyncio.gather(enter("a", "b"), enter("c", "d"))) == [["a", "b", "b", "a"], ["c", "d", "d", "c"]]
    with pytest.raises(LookupError):
        current_lock()


async def test_plain_and_async_functions_nest_and_current_lock_says_which_it_is():
    @with_lock("plain")
    def plain() -> str:
        with pytest.raises(TypeError, match="the innermost lock is of type Lock, not AsyncLock"):
            current_lock(AsyncLock)
        return current_lock(Lock).key

    @with_lock("async")
    async def awaited() -> str:
        with pytest.raises(TypeError, match="AsyncLock"):
            current_lock(Lock)
        return await asyncio.to_thread(plain)

    assert await awaited() == "plain"


async def test_a_nested_call_for_the_same_key_raises_at_once(wire):
    @with_lock("k", on_not_granted="skip")
    async def inner() -> None:
        pytest.fail("must not run")

    @with_lock("k")
    async def outer() -> None:
        await inner()

    with pytest.raises(LockConfigurationError, match="reentrant=True"):
        await outer()
    assert wire.operations == ["UpdateItem"] * 2


async def test_a_reentrant_call_enters_again_and_a_child_task_contends(wire):
    @with_lock("k", wait=0, reentrant=True, on_not_granted="skip")
    async def depth(levels: int) -> int:
        below = await depth(levels - 1) or 0 if levels else 0
        if not levels:
            assert await start(depth(0)) is None
        return below + 1

    assert await depth(3) == 4
    assert wire.operations == ["UpdateItem"] * 3


# The client


async def test_the_default_async_client_shares_settings_and_connections_with_the_default_client(wire):
    client = default_async_client()
    assert client is default_async_client()
    assert client.transport is default_client().transport
    held: list[Lock] = []

    @with_lock("k")
    async def handler() -> None:
        held.extend(default_client().held())

    await handler()
    assert [lock.key for lock in held] == ["k"]
    assert wire.connections == 1


@with_lock("k")
async def owner_awaited() -> str:
    return current_lock(AsyncLock).owner


@with_lock("k")
def owner() -> str:
    return current_lock().owner


async def test_a_plain_default_client_serves_async_functions_too(other):
    set_default_client(other)
    assert (await owner_awaited()).startswith("other#")
    with LockClient(owner_prefix="third") as third:
        set_default_client(third)
        assert (await owner_awaited()).startswith("third#")


@pytest.mark.parametrize("async_first", [True, False])
async def test_a_default_client_of_each_kind_can_be_set_in_either_order(async_first, other):
    async with AsyncLockClient(owner_prefix="async") as client:
        for given in (client, other) if async_first else (other, client):
            set_default_client(given)
        assert default_async_client() is client
        assert default_client() is other
        assert (await owner_awaited()).startswith("async#")
        assert owner().startswith("other#")


async def test_a_client_that_is_given_beats_the_default_one(monkeypatch, table):
    monkeypatch.delenv("LAMBDA_LOCK_TABLE")
    async with AsyncLockClient(table, owner_prefix="given") as client:

        @with_lock("k", client=client)
        async def handler() -> str:
            return current_lock(AsyncLock).owner

        assert (await handler()).startswith("given#")


# The kill switch


@pytest.fixture
def disabled(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch is on, in the environment that ``table`` makes."""
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")


@pytest.mark.usefixtures("disabled")
async def test_with_the_switch_on_a_commit_writes_unguarded_and_ends_the_stand_in(wire, table, rows):
    @with_lock("k")
    async def handler() -> None:
        lock = current_lock(AsyncLock)
        await lock.commit([{"Put": {"TableName": table, "Item": {"key": {"S": "order"}}}}])
        assert not lock.is_held
        with pytest.raises(LockAlreadyReleasedError):
            await lock.release()

    async with occupied() as work:
        assert await ended(start(handler())) is None
        assert not work.done()
    assert wire.operations == ["TransactWriteItems"]
    assert rows.get("order") is not None
    assert rows.get("k") is None


@pytest.mark.usefixtures("disabled")
async def test_with_the_switch_on_watchers_take_no_thread_from_those_who_commit(table):
    all_watch = asyncio.Barrier(60)  # more than a loop has threads

    @with_lock("{number}")
    async def handler(number: int) -> bool:
        lock = current_lock(AsyncLock)
        watcher = start(lock.wait_lost())
        await all_watch.wait()
        await lock.commit([{"Put": {"TableName": table, "Item": {"key": {"S": f"order-{number}"}}}}])
        return await watcher

    assert await asyncio.gather(*(handler(number) for number in range(60))) == [False] * 60
