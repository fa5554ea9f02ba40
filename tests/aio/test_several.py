"""Several locks at once, awaited."""

import asyncio
import time
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from lambda_lock import AsyncLockClient

from .conftest import until


class Closed:
    """Awaits a coroutine until it has taken a lock, and then closes it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], client: AsyncLockClient) -> None:
        self.coroutine = coroutine
        self.client = client

    def __await__(self) -> Generator[Any, None, None]:
        while not self.client.__session__.open_locks.holds():
            yield self.coroutine.send(None)
        self.coroutine.close()


async def test_a_coroutine_that_is_closed_in_its_wait_awaits_nothing_and_closing_the_client_releases_what_it_took(
    make, rows
):
    rows.put_held("b", expires_at=time.time() + 60, owner="another#1")
    taker = make()
    await Closed(taker.acquire_all(["a", "b"], wait=60), taker)
    await taker.close()
    assert not rows.is_held("a")


async def test_cancelling_the_wait_leaves_nothing(client, rows):
    async with await client.acquire("b") as holder:
        task = asyncio.create_task(client.acquire_all(["a", "b"], wait=60))
        await until(lambda: rows.is_held("a"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not rows.is_held("a")
        assert [lock.key for lock in client.held()] == ["b"]
        assert holder.is_held
