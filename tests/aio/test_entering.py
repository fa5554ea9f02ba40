"""async with client.acquire(...), without an await in between; and everything else that a coroutine can do."""

import asyncio

import pytest

from lambda_lock import AsyncLock, AsyncLockClient, LockClient, LockNotGrantedError, set_default_client, with_lock
from lambda_lock.testing import in_memory
from tests.support.decorated import Boom


def test_a_lock_is_entered_without_an_await_and_released_at_the_end():
    async def main() -> None:
        async with AsyncLockClient() as client:
            async with client.acquire("a") as lock:
                assert isinstance(lock, AsyncLock)
                assert lock.remaining > 0
            assert not lock.is_held
            async with client.acquire_all(["a", "b"]) as several:
                assert several.keys == ("a", "b")
            assert not several.is_held
            string = await (await client.acquire("a")).hand_over()
            async with client.adopt(string) as adopted:
                assert adopted.remaining > 0
            assert not adopted.is_held

    with in_memory() as memory:
        asyncio.run(main())
        assert all(row.is_released for row in memory.rows())


def test_an_error_in_the_block_releases_and_propagates():
    async def main() -> None:
        client = AsyncLockClient()
        with pytest.raises(Boom):
            async with client.acquire("a"):
                raise Boom
        async with client.acquire("a", wait=0), client.acquire("b", wait=0):
            with pytest.raises(LockNotGrantedError):
                async with client.acquire("a", wait=0):
                    pytest.fail("it is held")

    with in_memory():
        asyncio.run(main())


@pytest.mark.parametrize("before", [True, False], ids=["before its first request", "in its first request"])
def test_a_cancelled_task_hears_of_it_however_fast_the_answer_comes(before):
    async def work(client: AsyncLockClient, key: str) -> AsyncLock:
        me = asyncio.current_task()
        assert me is not None
        if before:
            me.cancel()
        return await client.acquire(key)

    async def main() -> None:
        async with AsyncLockClient() as client:
            for key in map(str, range(50)):  # some of the answers are there before the task waits for them
                task = asyncio.create_task(work(client, key))
                await asyncio.sleep(0)
                assert task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert client.held() == ()

    with in_memory() as memory:
        asyncio.run(main())
        assert all(row.is_released for row in memory.rows())


def test_an_acquire_is_awaited_gathered_and_run_as_a_task_as_a_coroutine_is():
    async def main() -> None:
        client = AsyncLockClient()
        one = await client.acquire("a")
        two, three = await asyncio.gather(client.acquire("b"), client.acquire("c"))
        four = await asyncio.create_task(client.acquire("d"))
        async with asyncio.TaskGroup() as group:
            five = group.create_task(client.acquire("e"))
        six = await asyncio.wait_for(client.acquire("f"), 5)
        for lock in (one, two, three, four, five.result(), six):
            assert await lock.release()
        async with client.acquire("a"):
            waiting = asyncio.create_task(client.acquire("a", wait=60))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting, 0.3)
            assert waiting.cancelled()

    with in_memory():
        asyncio.run(main())


def test_an_acquire_that_is_never_awaited_is_warned_about():
    async def main() -> None:
        with pytest.warns(RuntimeWarning, match=r"acquire' was never awaited"):
            AsyncLockClient().acquire("a")

    asyncio.run(main())


def test_an_acquire_that_is_closed_unawaited_sends_nothing():
    with in_memory() as memory:
        AsyncLockClient().acquire("a").close()
        assert memory.requests == ()


def test_decorators_still_tell_the_kinds_of_client_apart():
    @with_lock("a")
    async def handler() -> str:
        return "done"

    with in_memory():
        set_default_client(AsyncLockClient())
        assert asyncio.run(handler()) == "done"
        with pytest.raises(TypeError, match="needs a LockClient"):
            with_lock("a", client=AsyncLockClient())(lambda: None)
        with pytest.raises(TypeError, match="needs an AsyncLockClient"):
            with_lock("a", client=LockClient())(handler)
        set_default_client(None)
