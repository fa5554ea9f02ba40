"""A claim that Step Functions makes without a function: it takes free locks only, and the functions go on with it."""

from __future__ import annotations

from typing import Any

import pytest

from . import page
from .conftest import Shop

REFUSED = "DynamoDB.ConditionalCheckFailedException"


@pytest.fixture(scope="module")
def definition(shop: Shop) -> dict[str, Any]:
    return page.definition('"Claim":', shop.arns)


@pytest.fixture(scope="module")
def machine(shop: Shop, definition: dict[str, Any]) -> str:
    return shop.machine(definition)


@pytest.fixture(scope="module")
def claim_alone(shop: Shop, definition: dict[str, Any]) -> str:
    """A state machine that ends after the claim of the page, whatever becomes of it."""
    state = definition["States"]["Claim"]
    alone = {name: value for name, value in state.items() if name not in ("Next", "Catch")} | {"End": True}
    return shop.machine(definition | {"States": {"Claim": alone}})


def test_a_free_lock_is_claimed_without_a_function_and_the_functions_go_on_with_it(shop, machine, is_free):
    order = shop.new_order(reserve=["kill", "raise"], reserve_parts_answers=["kill"], release_parts_answers=["kill"])
    execution = shop.start(machine, order)
    assert execution.has_succeeded()
    assert execution.states() == ["Claim", "Reserve", "Release"]
    attempts = shop.notes(order, "reserve")
    assert len(attempts) == 4
    assert len({note["token"] for note in attempts}) == 1
    assert {note["owner"].rpartition("#")[0] for note in attempts} == {execution.arn}
    assert is_free(order)


def test_the_client_reads_and_respects_what_the_claim_wrote(shop, claim_alone, locks):
    order = shop.new_order()
    key = f"order#{order}"
    locks.acquire(key, wait=0).release()
    before = locks.get(key).fencing_token
    execution = shop.start(claim_alone, order)
    assert execution.has_succeeded()
    claimed = locks.get(key)
    assert claimed.is_held
    assert claimed.owner.startswith(f"{execution.arn}#")
    assert (claimed.fencing_token, claimed.lease_duration) == (before + 1, 600)
    assert 500 < claimed.expires_at - claimed.read_at <= 601
    assert claimed.unreadable == ()
    assert locks.try_acquire(key) is None
    lock = locks.resume(key=key, owner=claimed.owner, fencing_token=claimed.fencing_token, lease_duration=600)
    assert lock.fencing_token == claimed.fencing_token
    lock.release()
    locks.acquire(key, wait=0).release()


def test_the_lock_of_a_dead_holder_is_not_claimed_but_taken_over_by_the_function(shop, machine, claim_alone, locks):
    order = shop.new_order()
    dead = locks.acquire(f"order#{order}", wait=0, lease_duration=1)
    dead.hand_over(lease_duration=1)
    token = dead.fencing_token

    shop.cloud.wait_until(lambda: locks.get(f"order#{order}").is_expired)
    assert shop.start(claim_alone, order).end()[1] == REFUSED
    execution = shop.start(machine, order)
    assert execution.has_succeeded()
    assert execution.states() == ["Claim", "Acquire", "Reserve", "Release"]
    assert execution.errors()[0] == REFUSED
    assert {note["token"] for note in shop.notes(order, "reserve")} == {token + 1}


def test_a_claim_whose_answer_was_lost_is_found_by_the_function(shop, machine, locks):
    order = shop.new_order()
    name = f"lost-{order}"
    arn = f"{machine.replace(':stateMachine:', ':execution:')}:{name}"
    earlier = locks.acquire(f"order#{order}", holder=arn, wait=0)
    earlier.hand_over(lease_duration=600)
    execution = shop.start(machine, order, name)
    assert execution.arn == arn
    assert execution.has_succeeded()
    assert execution.errors() == [REFUSED]
    assert {note["token"] for note in shop.notes(order, "reserve")} == {earlier.fencing_token}
