"""What a function finds as its lock while LAMBDA_LOCK_DISABLED is set."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import (
    AsyncLock,
    AsyncMultiLock,
    Lock,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    MultiLock,
)
from lambda_lock.decorators.disabled import AsyncStandIn, StandIn
from lambda_lock.runtime.invocation import Invocation
from lambda_lock.runtime.timeline import elapsed
from tests.support.elsewhere import in_thread
from tests.support.stand_ins import made

from .conftest import put


def stands_in(client: LockClient | None = None, found: Invocation | None = None, **options: Any) -> StandIn:
    return made(StandIn, client=client, found=found, **options)


@pytest.fixture
def stand_in() -> StandIn:
    return stands_in()


def parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("real", "kind"), [(Lock, StandIn), (MultiLock, StandIn), (AsyncLock, AsyncStandIn), (AsyncMultiLock, AsyncStandIn)]
)
def test_a_stand_in_has_every_public_name_of_a_lock_and_its_parameters(real, kind):
    stand_in = made(kind, ("b", "a"))
    assert "'a', 'b'" in repr(stand_in)
    for name, member in vars(real).items():
        if name.startswith("_") or name == "tick":  # which is the heartbeat's
            continue
        assert hasattr(stand_in, name), name
        if inspect.isfunction(member) and real in (Lock, AsyncLock):
            assert parameters(getattr(kind, name)) == parameters(member), name
            assert inspect.iscoroutinefunction(getattr(kind, name)) == inspect.iscoroutinefunction(member), name


@pytest.mark.parametrize("kind", [StandIn, AsyncStandIn])
def test_a_stand_in_is_held_until_its_block_ends(kind):
    stand_in = made(kind)

    async def use() -> None:
        async with stand_in:
            assert stand_in.is_held

    if kind is StandIn:
        with stand_in:
            assert stand_in.is_held
    else:
        asyncio.run(use())
    assert not stand_in.is_held


def test_a_stand_in_is_held_until_it_is_released(stand_in):
    stand_in.raise_if_lost()
    stand_in.ensure(3600)
    assert stand_in.is_held
    assert not any([stand_in.lost, stand_in.is_expired, stand_in.is_almost_expired])
    assert stand_in.remaining == 20
    assert stand_in.release()
    assert (stand_in.is_held, stand_in.lost, stand_in.remaining) == (False, False, 0)
    for act in (stand_in.release, stand_in.heartbeat, lambda: stand_in.ensure(1), stand_in.transact_item):
        with pytest.raises(LockAlreadyReleasedError):
            act()


def test_a_stand_in_has_the_invocations_time_and_the_options_of_the_call():
    assert 4 < stands_in(found=Invocation(None, elapsed() + 5)).remaining <= 5
    assert stands_in(found=Invocation(None, elapsed())).remaining == 20
    stand_in = stands_in(sort_key="s", lease_duration=7.0)
    assert (stand_in.sort_key, stand_in.lease_duration, stand_in.remaining) == ("s", 7.0, 7.0)


def test_a_stand_in_is_renewed_with_data_and_lease(stand_in):
    stand_in.heartbeat(data=b"x", lease_duration=30.0)
    assert (stand_in.data, stand_in.lease_duration) == (b"x", 30)
    stand_in.heartbeat(delete_data=True)
    assert stand_in.data is None


def test_a_stand_in_commits_in_a_transaction_that_no_lock_guards(engine, table, wire):
    with LockClient() as client:
        stand_in = stands_in(client)
        wire.drop_reply("TransactWriteItems")  # sent again, under the same client token: written once
        stand_in.commit([put(table, "order")], data=b"x")
        assert not stand_in.is_held
        with pytest.raises(LockAlreadyReleasedError):
            stand_in.commit([put(table, "order")])
    assert wire.operations == ["TransactWriteItems"] * 2
    assert [item["key"]["S"] for item in engine.scan(table)] == ["order"]


def test_a_stand_in_whose_commit_fails_is_held_on(table, wire):
    wire.answer(400, "AccessDeniedException")
    with LockClient() as client:
        stand_in = stands_in(client)
        with pytest.raises(LockConfigurationError):
            stand_in.commit([put(table, "order")])
        with pytest.raises((LockArgumentError, TypeError)):
            stand_in.commit([])
        assert stand_in.is_held
        stand_in.commit([put(table, "order")])


def test_the_transact_item_of_a_stand_in_refuses_nothing(engine, table):
    with LockClient() as client:
        stand_in = stands_in(client)
        engine.dynamodb("TransactWriteItems", {"TransactItems": [stand_in.transact_item(), put(table, "order")]})
        assert stand_in.is_held
        lock = client.try_acquire("k")
        assert lock is not None  # nor does it leave a lock


def test_a_stand_in_is_never_lost_and_wakes_who_waits_for_that(stand_in):
    assert stand_in.wait_lost(0) is False
    answer = in_thread(stand_in.wait_lost)
    stand_in.release()
    assert answer() is False


def test_a_stand_in_says_what_it_is_and_cannot_be_handed_over(stand_in):
    assert "LAMBDA_LOCK_DISABLED" in repr(stand_in)
    assert (stand_in.fencing_token, stand_in.owner, stand_in.attributes) == (0, "disabled", {})
    with pytest.raises(LockConfigurationError, match="LAMBDA_LOCK_DISABLED"):
        stand_in.hand_over()
