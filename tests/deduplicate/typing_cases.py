"""What type checkers know through @deduplicate. Not run: `make check` has mypy read it, and report unused ignores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn, assert_type

from lambda_lock import (
    AsyncLock,
    AsyncLockClient,
    DuplicateEventError,
    Lock,
    LockClient,
    current_dedup,
    deduplicate,
    payload_hash,
    with_lock,
)

MYPY = False  # mypy takes it for True

# --- functions that are decorated below, and answers for their calls


def plain(order_id: str) -> bytes:
    return b""


async def awaited(order_id: str) -> bytes:
    return b""


def answer(order_id: str, *, error: Exception) -> int:
    return 409


async def answer_async(order_id: str, *, error: DuplicateEventError) -> int:
    return 409


def other_answer(order_id: str, *, error: Exception) -> str:
    return ""


async def other_answer_async(order_id: str, *, error: Exception) -> str:
    return ""


def bad(order_id: str, *, error: Exception) -> float:
    return 400.0


async def bad_async(order_id: str, *, error: Exception) -> float:
    return 400.0


# --- plain functions


@deduplicate("{order_id}")
def charge(order_id: str, *, cents: int = 0) -> bytes:
    return order_id.encode() * cents


assert_type(charge("o", cents=1), bytes | None)
charge(1)  # type: ignore[arg-type]
charge("o", 1)  # type: ignore[call-arg]
charge("o", euros=1)  # type: ignore[call-arg]


@deduplicate("{order_id}")
def nothing(order_id: str) -> None: ...


raising_or_answering = deduplicate("{order_id}", on_duplicate="raise", on_not_granted=answer)(plain)

nothing("o")
assert_type(deduplicate("{order_id}", result="json", window=60, scope="", wait=None)(plain)("o"), bytes | None)
assert_type(deduplicate("{order_id}", on_duplicate="raise")(plain)("o"), bytes)
assert_type(deduplicate("{order_id}", on_duplicate="raise", on_not_granted="skip")(plain)("o"), bytes | None)
assert_type(deduplicate("{order_id}", on_duplicate=answer)(plain)("o"), bytes | int)
assert_type(deduplicate("{order_id}", on_duplicate=answer, on_not_granted="skip")(plain)("o"), bytes | int | None)
assert_type(deduplicate("{order_id}", on_not_granted=answer)(plain)("o"), bytes | int | None)
assert_type(raising_or_answering("o"), bytes | int)
assert_type(deduplicate("{order_id}", on_duplicate=answer, on_not_granted=other_answer)(plain)("o"), bytes | int | str)


class Service:
    @deduplicate("{order_id}", on_duplicate="raise")
    def method(self, order_id: str) -> int:
        return 1

    @classmethod
    @deduplicate("{order_id}")
    def of_class(cls, order_id: str) -> int:
        return 1

    @staticmethod
    @deduplicate("{order_id}")
    def static(order_id: str) -> int:
        return 1

    @deduplicate("{order_id}")
    async def awaited(self, order_id: str) -> int:
        return 1


assert_type(Service.static("o"), int | None)
assert_type(Service.static.forget("o", wait=5), bool)
assert_type(Service.of_class.forget(Service, "o"), bool)
assert_type(Service().method("o"), int)
assert_type(Service.of_class("o"), int | None)
Service().method()  # type: ignore[call-arg]


@deduplicate(payload_hash("order", "detail[amount]"), client=LockClient("locks"))
def hashed(event: dict[str, Any], context: object) -> None: ...


@deduplicate(key_jmespath="detail.id", reserve=1.5, on_lost=lambda lock: lock.key)
@with_lock("customer#{customer}")
def locked(event: dict[str, Any], context: object) -> int:
    return 1


assert_type(locked({}, None), int | None)
locked([], None)  # type: ignore[arg-type]

# --- async def functions


@deduplicate("{order_id}")
async def charge_async(order_id: str, *, cents: int = 0) -> bytes:
    return order_id.encode() * cents


raising_async = deduplicate("{order_id}", on_duplicate="raise", client=AsyncLockClient("locks"))(awaited)
answering_plainly = deduplicate("{order_id}", on_duplicate=answer)(awaited)
answering_async = deduplicate("{order_id}", on_duplicate=answer_async)(awaited)
deduplicate("{order_id}", on_duplicate=answer_async, on_not_granted=other_answer_async, on_bad_key=answer_async)(
    awaited
)
deduplicate("{order_id}", on_duplicate=answer_async)(plain)  # type: ignore[arg-type]

# --- answers with Any in their parameters: mypy asks which overloads they could match


def plain_event(event: dict[str, Any], context: Any) -> bytes:
    return b""


async def awaited_event(event: dict[str, Any], context: Any) -> bytes:
    return b""


def answer_event(event: dict[str, Any], context: Any, *, error: Exception) -> int:
    return 409


async def answer_event_async(event: dict[str, Any], context: Any, *, error: Exception) -> int:
    return 409


of_event = deduplicate("{event[id]}", on_duplicate=answer_event)
skipping = deduplicate("{event[id]}", on_duplicate=answer_event, on_not_granted="skip", on_bad_key=answer_event)
raising = deduplicate("{event[id]}", on_duplicate="raise", on_not_granted=answer_event)
of_event_async = deduplicate("{event[id]}", on_duplicate=answer_event_async, on_not_granted=answer_event_async)

assert_type(of_event(plain_event)({}, None), bytes | int)
assert_type(skipping(plain_event)({}, None), bytes | int | None)
assert_type(raising(plain_event)({}, None), bytes | int)

COROUTINES = (  # type checkers miss an await where they stand alone
    assert_type(charge_async("o", cents=1), Coroutine[Any, Any, bytes | None]),
    assert_type(asyncio.run(raising_async("o")), bytes),  # it stays what it was, CoroutineType to pyright
    assert_type(answering_plainly("o"), Coroutine[Any, Any, bytes | int]),
    assert_type(answering_async("o"), Coroutine[Any, Any, bytes | int]),
    assert_type(of_event_async(awaited_event)({}, None), Coroutine[Any, Any, bytes | int]),
    assert_type(Service().awaited("o"), Coroutine[Any, Any, int | None]),
    charge_async(1),  # type: ignore[arg-type]
    answering_async(),  # type: ignore[call-arg]
)

# --- functions that return Any, or never


def anything(order_id: str) -> Any: ...


async def anything_async(order_id: str) -> Any: ...


def never(order_id: str) -> NoReturn:
    raise ValueError(order_id)


anything_or_none, anything_or_error = (
    deduplicate("{order_id}")(anything),
    deduplicate("{order_id}", on_duplicate="raise")(anything),
)
if not MYPY:  # to mypy it is Any, to others no coroutine
    assert_type(anything_or_none("o"), Any | None)
    anything_or_none(1)  # type: ignore[arg-type]
assert_type(anything_or_error("o"), Any)
assert_type(deduplicate("{order_id}")(never), Callable[[str], None])  # type: ignore[assert-type]  # the names are kept too
assert_type(deduplicate("{order_id}", on_duplicate=answer)(never)("o"), int)
anything_or_error(1)  # type: ignore[arg-type]


async def use() -> None:
    assert_type(await deduplicate("{order_id}")(anything_async)("o"), Any | None)
    assert_type(await charge_async("o"), bytes | None)
    assert_type(await answering_async("o"), bytes | int)
    await current_dedup(AsyncLock).commit([], result={"n": 1})


deduplicate(5)  # type: ignore[call-overload]
deduplicate("k", on_duplicate="skip")  # type: ignore[call-overload]
deduplicate("k", on_not_granted="return")  # type: ignore[call-overload]
deduplicate("k", window="1")  # type: ignore[call-overload]
deduplicate("k", scope=5)  # type: ignore[call-overload]
deduplicate("k", result="yaml")  # type: ignore[call-overload]
payload_hash(5)  # type: ignore[arg-type]

assert_type(current_dedup(), Lock)
assert_type(current_dedup(Lock), Lock)
assert_type(current_dedup(AsyncLock), AsyncLock)
current_dedup(bytes)  # type: ignore[type-var]
current_dedup().commit([], result=[1])


@dataclass
class Receipt:
    number: str


class Strokes:
    def dump(self, value: int) -> str:
        return "I" * value

    def load(self, value: str) -> int:
        return len(value)


@deduplicate("{order_id}", result="json", validate=["order_id"], cache_size=100)
def with_receipt(order_id: str) -> Receipt:
    return Receipt(order_id)


assert_type(with_receipt("o"), Receipt | None)
deduplicate("k", result=Receipt)
deduplicate("k", result=list[Receipt])
deduplicate("k", result=Receipt | None)
deduplicate("k", result=Strokes())
deduplicate("k", result=5)  # type: ignore[call-overload]
deduplicate("k", validate=5)  # type: ignore[call-overload]
deduplicate("k", cache_size="1")  # type: ignore[call-overload]


# --- forget, windows and predicates of the result, and answers to a bad key and to a mismatch

assert_type(charge.forget("o", cents=1, wait=None), bool)
assert_type(raising_or_answering.forget("o"), bool)
charge.forget("o", wait="1")  # type: ignore[arg-type]
assert_type(LockClient("locks").forget("k", scope="s", sort_key=None, wait=0, context=None), bool)
LockClient("locks").forget("k", timeout=5)  # type: ignore[call-arg]


async def forget() -> None:
    assert_type(await charge_async.forget("o"), bool)
    assert_type(await Service.awaited.forget(Service(), "o"), bool)
    assert_type(await answering_async.forget("o", wait=5), bool)
    assert_type(await AsyncLockClient("locks").forget("k", scope="s"), bool)


@deduplicate("{order_id}", window=lambda receipt: receipt["expires_in"] - 60, done_if=lambda receipt: receipt["ok"])
def for_a_while(order_id: str) -> dict[str, int]:
    return {}


assert_type(for_a_while("o"), dict[str, int] | None)
deduplicate("k", window=5, done_if=True)  # type: ignore[call-overload]

bad_keys = deduplicate("{order_id}", on_bad_key=bad)
bad_keys_and_contention = deduplicate("{order_id}", on_bad_key=bad, on_not_granted=answer)
bad_keys_async = deduplicate("{order_id}", on_bad_key=bad_async)
both_async = deduplicate("{order_id}", on_bad_key=bad_async, on_not_granted=other_answer_async)
mismatches = deduplicate("{order_id}", validate=["order_id"], on_mismatch=bad, on_bad_key=answer)
mismatches_async = deduplicate("{order_id}", validate=["order_id"], on_mismatch=bad_async)


async def all_are_answered() -> None:
    assert_type(await bad_keys_async(awaited)("o"), bytes | float | None)
    assert_type(await both_async(awaited)("o"), bytes | float | str | None)
    assert_type(await mismatches_async(awaited)("o"), bytes | float | None)


assert_type(bad_keys(plain)("o"), bytes | float | None)
assert_type(bad_keys_and_contention(plain)("o"), bytes | float | int | None)
assert_type(mismatches(plain)("o"), bytes | float | int | None)
deduplicate("k", on_bad_key="skip")  # type: ignore[call-overload]
deduplicate("k", on_mismatch="skip")  # type: ignore[call-overload]
