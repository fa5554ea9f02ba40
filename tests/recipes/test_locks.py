"""The recipes with locks of one's own: two accounts, two states, a worker, caches, a warm start."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import LockClient, LockLostError, LockNotGrantedError
from rig.engine import Engine
from tests.recipes.pages import program
from tests.support.context import Context
from tests.support.elsewhere import in_thread


def at_once(count: int, function: Callable[[], Any]) -> list[Any]:
    """What so many calls return, each on a thread."""
    return [result() for result in [in_thread(function) for _ in range(count)]]


@pytest.fixture
def bank(engine: Engine, table: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("BANK_TABLE", engine.create_table("bank", "id"))
    for account, cents in (("a", 100), ("b", 0)):
        item = {"id": {"S": f"account#{account}"}, "balance": {"N": str(cents)}}
        engine.dynamodb("PutItem", {"TableName": "bank", "Item": item})
    app = program("transfer")
    with app.client:
        yield app
    engine.delete_table("bank")


def _balances(engine: Engine) -> dict[str, int]:
    rows = {row["id"]["S"]: row for row in engine.scan("bank")}
    return {account: int(rows[f"account#{account}"]["balance"]["N"]) for account in ("a", "b")}


def test_money_is_moved_once_for_each_number_and_never_more_than_there_is(engine, bank):
    assert bank.transfer("t1", "a", "b", 60) == "moved"
    assert bank.transfer("t1", "a", "b", 60) == "moved before"
    assert bank.transfer("t2", "a", "b", 60) == "refused"
    assert bank.transfer("t3", "a", "nobody", 10) == "refused"
    assert _balances(engine) == {"a": 40, "b": 60}
    for source, target, cents in (("a", "a", 1), ("a", "b", -5), ("a", "b", 0)):
        with pytest.raises(ValueError, match="is no transfer"):
            bank.transfer("t4", source, target, cents)
    bank.is_allowed = lambda *_: False  # such as a rule on what must be left
    assert bank.transfer("t5", "a", "b", 1) == "refused"
    assert bank.transfer("t1", "a", "b", 60) == "moved before"  # the answer was lost, so it is asked for again
    assert _balances(engine) == {"a": 40, "b": 60}


def test_many_who_ask_for_one_transfer_at_once_move_it_once(engine, bank):
    answers = at_once(4, lambda: bank.transfer("t1", "a", "b", 60))
    assert sorted(answers) == ["moved"] + ["moved before"] * 3
    assert _balances(engine) == {"a": 40, "b": 60}


def test_while_the_rules_look_nobody_else_has_either_account(engine, bank):
    seen: list[object] = []

    def is_allowed(*_: Any) -> bool:
        with LockClient() as other:
            seen.extend(other.try_acquire(f"account#{account}") for account in ("a", "b"))
        return True

    bank.is_allowed = is_allowed
    assert bank.transfer("t1", "a", "b", 10) == "moved"
    assert bank.transfer("t2", "b", "a", 5) == "moved"
    assert seen == [None] * 4
    assert _balances(engine) == {"a": 95, "b": 5}


def test_a_transfer_that_lost_its_locks_while_it_looked_writes_nothing(engine, bank):
    def is_allowed(*_: Any) -> bool:
        (lock, _) = bank.client.held()
        with LockClient() as other:
            other.release(key=lock.key, owner=lock.owner, fencing_token=lock.fencing_token)
        return True

    bank.is_allowed = is_allowed
    with pytest.raises(LockLostError):
        bank.transfer("t1", "a", "b", 60)
    assert _balances(engine) == {"a": 100, "b": 0}


@pytest.fixture
def states(table: str) -> Iterator[Any]:
    app = program("two-states")
    app.sent = []
    app.send_parcel = lambda order, token: app.sent.append(token)
    with app.client:
        yield app


def test_two_states_share_one_lock_over_failures_and_killed_attempts(states):
    begun = {"order": "7", "execution": "e-1"}
    good, states.reserve_stock = states.reserve_stock, lambda order: 1 / 0
    with pytest.raises(ZeroDivisionError):
        states.reserve(begun, Context())
    states.reserve_stock = good
    states.reserve(begun, Context())  # its answer never reached Step Functions
    after = states.reserve(begun, Context())
    with pytest.raises(LockNotGrantedError):
        states.reserve(begun | {"execution": "e-2"}, Context())

    with LockClient() as killed:
        attempt = killed.resume(after["lock"], context=Context())
        killed.close(release=False)  # as a process that was killed
    good, states.send_parcel = states.send_parcel, lambda order, token: 1 / 0
    with pytest.raises(ZeroDivisionError):
        states.ship(after, Context())
    states.send_parcel = good
    states.ship(after, Context())
    assert states.ship(after, Context()) == after
    assert set(states.sent) == {attempt.fencing_token}

    for _ in range(2):
        states.release(after, Context())
    with pytest.raises(LockLostError):
        states.ship(after, Context())
    another = states.reserve(begun | {"execution": "e-2"}, Context())
    states.release(begun, Context())  # a late one of the first execution
    states.ship(another, Context())
    assert len(set(states.sent)) == 2


def test_a_state_that_never_got_its_string_out_is_released_by_the_name_of_its_execution(states):
    states.reserve_stock = lambda order: 1 / 0
    with pytest.raises(ZeroDivisionError):
        states.reserve({"order": "7", "execution": "e-1"}, Context())
    states.release({"order": "7", "execution": "e-1"}, Context())
    states.reserve_stock = lambda order: None
    assert states.reserve({"order": "7", "execution": "e-2"}, Context())["lock"]


@pytest.mark.parametrize("kind", ["provisioned-concurrency", "on-demand"])
def test_only_provisioned_concurrency_connects_before_the_first_call(wire, monkeypatch, kind):
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", kind)
    app = program("provisioned")
    assert wire.operations == ["GetItem"] * (kind == "provisioned-concurrency")
    answered: list[str] = []
    app.answer = answered.append
    assert app.handler({"pathParameters": {"customer_id": "c-1"}}, Context()) == {"statusCode": 204}
    assert answered == ["c-1"]
