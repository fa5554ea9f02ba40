"""A claim that Step Functions makes without a function: it takes free locks only, and the functions go on with it."""

import re
import time
from typing import Any

import pytest

from rig.engine import Engine, EngineError
from tests.support.rows import rows

from . import page
from .conftest import Shop

__all__ = ["rows"]

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


# What the claim asks of DynamoDB, with each expression of ASL replaced by a value

OWNER = f"arn:aws:states:us-east-1:000000000000:execution:m:e#{'0' * 32}"


def claim(engine: Engine, table: str, key: str) -> dict[str, Any]:
    """Send the UpdateItem of the page, and return the row that it wrote."""
    names = dict.fromkeys(page.HANDLERS_OF_PARTS, "") | {"locks": table}
    arguments = page.definition('"Claim":', names)["States"]["Claim"]["Arguments"]
    now = int(time.time() * 1000)
    version = f"L1:{now + 600_000:013d}:{'0' * 32}"
    values = {":owner": {"S": OWNER}, ":version": {"S": version}, ":now": {"N": str(now)}}
    arguments["ExpressionAttributeValues"] |= values
    arguments["Key"] = {"key": {"S": key}}
    written: dict[str, Any] = engine.dynamodb("UpdateItem", arguments)["Attributes"]
    return written


def test_the_expression_of_a_version_has_its_expiry_in_ms_and_32_hex_digits():
    names = dict.fromkeys((*page.HANDLERS_OF_PARTS, "locks"), "")
    state = page.definition('"Claim":', names)["States"]["Claim"]
    values, lease = state["Arguments"]["ExpressionAttributeValues"], state["Assign"]["hold"]["lease_duration"]
    assert values[":lease"] == {"S": str(lease * 1000)}
    assert f"$millis() + {lease * 1000})" in values[":version"]["S"]
    assert re.search(r"LEASE = (\d+)", page.code("def acquire_parts"))[1] == str(lease)  # type: ignore[index]


HELD = {"ownerName": {"S": "java"}, "leaseDuration": {"S": "1000"}}


@pytest.mark.parametrize(
    "row",
    [
        HELD | {"recordVersionNumber": {"S": "3b1f-java"}},
        HELD | {"recordVersionNumber": {"S": f"L1:{1:013d}:{'0' * 32}"}},
        {"record_version_number": {"S": "python"}},
        HELD | {"recordVersionNumber": {"S": "semaphore"}},
        HELD | {"recordVersionNumber": {"S": "x"}, "isReleased": {"S": "1"}, "waiters": {"L": [{"S": "w"}]}},
    ],
    ids=["of a Java client", "expired long ago", "of a Python client", "a semaphore", "others wait"],
)
def test_what_is_not_free_is_left_alone(engine, table, rows, row):
    rows.put("a", **row)
    before = rows["a"]
    with pytest.raises(EngineError) as refused:
        claim(engine, table, "a")
    assert refused.value.code == "ConditionalCheckFailedException"
    assert rows["a"] == before
