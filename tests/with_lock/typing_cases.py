"""What type checkers know through @with_lock. Not run: `make check` has mypy read it, which reports unused ignores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, assert_type

from lambda_lock.client.async_client import AsyncLockClient
from lambda_lock.client.async_lock import AsyncLock, AsyncMultiLock
from lambda_lock.client.lock import Lock
from lambda_lock.client.lock_client import LockClient
from lambda_lock.client.multi_lock import MultiLock
from lambda_lock.client.record import LockRecord
from lambda_lock.decorators.guard import default_client, set_default_client
from lambda_lock.decorators.with_lock import current_lock, with_lock
from lambda_lock.errors import LockNotGrantedError

MYPY = False  # mypy takes it for True


def plain(order_id: str) -> bytes:
    return b""


async def awaited(order_id: str) -> bytes:
    return b""


def answer(order_id: str, *, error: Exception) -> int:
    return 409


async def answer_async(order_id: str, *, error: Exception) -> int:
    return 409


@with_lock("order#{order_id}")
def charge(order_id: str, *, cents: int = 0) -> bytes:
    return order_id.encode() * cents


assert_type(charge("o", cents=1), bytes)
charge(1)  # type: ignore[arg-type]
charge("o", 1)  # type: ignore[call-arg]
charge("o", euros=1)  # type: ignore[call-arg]


@with_lock("order#{order_id}", on_not_granted=answer)
def answering_alike(order_id: str) -> int:
    return 200


assert_type(with_lock("order#{order_id}", on_not_granted="raise")(plain)("o"), bytes)
assert_type(with_lock("order#{order_id}", wait=0, on_not_granted="skip")(plain)("o"), bytes | None)
assert_type(with_lock("order#{order_id}", on_not_granted=answer)(plain)("o"), bytes | int)
assert_type(answering_alike("o"), int)


class Service:
    @with_lock("{order_id}")
    def method(self, order_id: str) -> int:
        return 1

    @classmethod
    @with_lock("{order_id}")
    def of_class(cls, order_id: str) -> int:
        return 1

    @staticmethod
    @with_lock("{order_id}")
    def static(order_id: str) -> int:
        return 1


assert_type(Service().method("o"), int)
assert_type(Service.of_class("o"), int)
assert_type(Service.static("o"), int)
Service().method()  # type: ignore[call-arg]


@with_lock(lambda event, context: str(event["id"]))
def handler(event: dict[str, Any], context: object) -> None: ...


@with_lock(key_jmespath="detail.id", client=LockClient("locks"), wait=5, reserve=1.5, on_lost=lambda lock: lock.key)
def searched(event: dict[str, Any], context: object) -> None: ...


handler({"id": "a"}, None)
handler([], None)  # type: ignore[arg-type]
assert_type(searched, Callable[[dict[str, Any], object], None])  # type: ignore[assert-type]  # the names are kept too

# --- async def functions


@with_lock("order#{order_id}")
async def charge_async(order_id: str, *, cents: int = 0) -> bytes:
    return order_id.encode() * cents


async def nothing(order_id: str) -> None: ...


async def awaited_event(event: dict[str, Any], context: Any) -> bytes:
    return b""


async def answer_event(event: dict[str, Any], context: Any, *, error: Exception) -> int:
    return 409


raising_async = with_lock("order#{order_id}", on_not_granted="raise", client=AsyncLockClient("locks"))(awaited)
skipping_async = with_lock("order#{order_id}", wait=0, on_not_granted="skip")(awaited)
skipping_nothing = with_lock("order#{order_id}", wait=0, on_not_granted="skip")(nothing)
answering_plainly = with_lock("order#{order_id}", on_not_granted=answer)(awaited)
answering_async = with_lock("order#{order_id}", on_not_granted=answer_async)(awaited)
answering_none = with_lock("order#{order_id}", on_not_granted=lambda order_id, error: None)(awaited)
# mypy asks what Any in the parameters of the answer could match
answering_event = with_lock("order#{event[id]}", on_not_granted=answer_event)(awaited_event)
answering_event_for_several = with_lock(["order#{event[id]}"], on_not_granted=answer_event)(awaited_event)
with_lock("order#{order_id}", on_not_granted=answer_async)(plain)  # type: ignore[arg-type]

COROUTINES = (  # type checkers miss an await where they stand alone
    assert_type(asyncio.run(charge_async("o", cents=1)), bytes),
    assert_type(asyncio.run(raising_async("o")), bytes),  # it stays what it was, CoroutineType to pyright
    assert_type(skipping_async("o"), Coroutine[Any, Any, bytes | None]),
    assert_type(skipping_nothing("o"), Coroutine[Any, Any, None]),
    assert_type(answering_plainly("o"), Coroutine[Any, Any, bytes | int]),
    assert_type(answering_async("o"), Coroutine[Any, Any, bytes | int]),
    assert_type(answering_none("o"), Coroutine[Any, Any, bytes | None]),
    assert_type(answering_event({}, None), Coroutine[Any, Any, bytes | int]),
    assert_type(answering_event_for_several({}, None), Coroutine[Any, Any, bytes | int]),
    charge_async(1),  # type: ignore[arg-type]
    charge_async("o", 1),  # type: ignore[call-arg]
    skipping_async("o", euros=1),  # type: ignore[call-arg]
    answering_async(),  # type: ignore[call-arg]
)


class AsyncService:
    @with_lock("{order_id}")
    async def method(self, order_id: str) -> int:
        return 1

    @classmethod
    @with_lock("{order_id}", on_not_granted="skip")
    async def of_class(cls, order_id: str) -> int:
        return 1


# --- functions that return Any, or never


def anything(order_id: str) -> Any: ...


async def anything_async(order_id: str) -> Any: ...


def never(order_id: str) -> NoReturn:
    raise ValueError(order_id)


skipped = with_lock("order#{order_id}", on_not_granted="skip")
anything_or_none, anything_or_error = skipped(anything), with_lock("order#{order_id}")(anything)
if not MYPY:  # to mypy it is Any, to others no coroutine
    assert_type(anything_or_none("o"), Any | None)
    anything_or_none(1)  # type: ignore[arg-type]
assert_type(anything_or_error("o"), Any)
assert_type(skipped(never), Callable[[str], None])  # type: ignore[assert-type]  # the names are kept too
assert_type(with_lock("order#{order_id}", on_not_granted=answer)(never)("o"), int)
anything_or_error(1)  # type: ignore[arg-type]


async def use() -> None:
    assert_type(await skipped(anything_async)("o"), Any | None)
    assert_type(await charge_async("o"), bytes)
    assert_type(await skipping_async("o"), bytes | None)
    assert_type(await answering_async("o"), bytes | int)
    assert_type(await AsyncService().method("o"), int)
    assert_type(await AsyncService.of_class("o"), int | None)
    AsyncService().method()  # type: ignore[call-arg, unused-coroutine]


@with_lock(["account#{source}", lambda source, target: f"account#{target}"], on_lost=lambda locks: print(locks.keys))
def transfer(source: str, target: str) -> bytes:
    assert_type(current_lock(MultiLock), MultiLock)
    assert_type(current_lock(AsyncMultiLock), AsyncMultiLock)
    return b""


assert_type(transfer("1", "2"), bytes)
assert_type(asyncio.run(with_lock(("a", "b"), on_not_granted="skip", wait=0)(awaited)("1")), bytes | None)
transfer("1")  # type: ignore[call-arg]
with_lock(["a"], reentrant=True)  # type: ignore[call-overload]
with_lock("k", permits=5)
with_lock("k", permits="5")  # type: ignore[call-overload]
with_lock(["a"], permits=5)  # type: ignore[call-overload]


def refused(error: LockNotGrantedError, record: LockRecord) -> None:
    for owner, expires_at, fencing_token in error.holders + record.holders:
        assert_type(owner, str | None)
        assert_type(expires_at, float | None)
        assert_type(fencing_token, int | None)


with_lock(5)  # type: ignore[call-overload]
with_lock("k", on_not_granted="ignore")  # type: ignore[call-overload]
with_lock("k", wait="5")  # type: ignore[call-overload]
with_lock("k", lease=5)  # type: ignore[call-overload]

assert_type(current_lock(), Lock)
assert_type(current_lock(Lock), Lock)
assert_type(current_lock(AsyncLock), AsyncLock)
current_lock(bytes)  # type: ignore[type-var]
assert_type(default_client(), LockClient)
set_default_client(None)
set_default_client(AsyncLockClient("locks"))
set_default_client("locks")  # type: ignore[arg-type]


assert_type(with_lock("gpus", permits=8, take=lambda order_id: len(order_id))(plain)("o"), bytes)
assert_type(asyncio.run(with_lock("config", shared=True, on_not_granted="skip")(awaited)("o")), bytes | None)
with_lock("gpus", permits=8, take=3)
with_lock("gpus", permits=8, take="3")  # type: ignore[call-overload]
with_lock("config", shared="yes")  # type: ignore[call-overload]
with_lock(["a", "b"], permits=8, take=3)  # type: ignore[call-overload]


def of_client(client: LockClient, tasks: AsyncLockClient) -> None:
    assert_type(client.acquire("gpus", permits=8, take=3).take, int)
    client.acquire("gpus", permits=8, take=len)  # type: ignore[arg-type]
    client.sleep("gpus", holder="h", task_token="t", permits=8, take=3)
    client.sleep("config", holder="h", task_token="t", shared=False)
    client.sleep("gpus", holder="h", task_token="t", permits=8, take="3")  # type: ignore[arg-type]
    _ = assert_type(tasks.sleep("config", holder="h", task_token="t", shared=True), Coroutine[Any, Any, None])
    client.acquire_all(["a"], take=3)  # type: ignore[call-arg]
