"""The tables that the simulator runs on do what the engine does, request by request (LAMBDA_LOCK_ENGINE says which)."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from rig.engine import DynamoDBLocal, Engine
from tests.expressions.compare import Comparison, Difference, known
from tests.expressions.databases import Case, InMemory, Item, Outcome, Real, Request
from tests.expressions.known import LOCAL, MINISTACK, hidden_by
from tests.expressions.mistakes import MISTAKES, planted
from tests.expressions.search import find, search

NINES, HUGE = "9" * 38, "1" + "0" * 37
KEY: dict[str, Any] = {"TableName": "locks", "Key": {"key": {"S": "k"}}}


@pytest.fixture(scope="module")
def real(engine: Engine) -> Iterator[Real]:
    database = Real(LOCAL if isinstance(engine, DynamoDBLocal) else MINISTACK, engine)
    yield database
    database.close()


@pytest.mark.parametrize(("source", "cases"), [("shipped", 20), ("grammar", 60), ("themes", 20)])
def test_random_requests_have_the_same_outcome_in_memory_and_on_an_engine(real, source, cases):
    comparison = Comparison([real])
    difference = search(comparison, source, 1, cases)
    assert difference is None, str(difference)
    assert comparison.inputs > cases
    assert {"done", "ConditionalCheckFailedException"} <= comparison.counts.keys()


def test_a_mistake_in_the_evaluator_is_found_and_the_request_is_named(real):
    values = {"ExpressionAttributeValues": {":one": {"N": "1"}, ":two": {"N": "2"}}}
    case = Case([("UpdateItem", {**KEY, "UpdateExpression": "SET x = :one - :two", **values})])
    Comparison([real]).run(case)
    with planted("a difference is a sum"), pytest.raises(Difference, match=r"SET x = :one - :two[^!]*-1[^!]*3"):
        Comparison([real]).run(case)


class Told(InMemory):
    """Answers to GetItem as it is told."""

    def __init__(self, name: str, shown: Item | None) -> None:
        super().__init__()
        self.name, self._shown = name, shown

    def apply(self, request: Request) -> Outcome:
        return Outcome("", self._shown)


@pytest.mark.parametrize(("local", "agrees"), [(None, True), ({"key": {"S": "k"}}, False)])
def test_dynamodb_local_decides_whether_ministack_alone_is_wrong(local, agrees):
    case = Case([("GetItem", KEY)])
    ministack = Told(MINISTACK, {"key": {"S": "k"}})
    comparison = Comparison([ministack, Told(LOCAL, local)])
    with contextlib.nullcontext() if agrees else pytest.raises(Difference, match=MINISTACK):
        comparison.run(case)
    assert comparison.counts["ministack alone"] == len(comparison.alone) == agrees
    with pytest.raises(Difference, match=MINISTACK):
        Comparison([ministack]).run(case)


def test_a_sum_that_ministack_rounds_and_writes_otherwise_in_a_transaction_is_known():
    add = {"UpdateExpression": "ADD x :v", "ExpressionAttributeValues": {":v": {"N": NINES}}}
    case = Case([("TransactWriteItems", {"TransactItems": [{"Update": KEY | add}]})])
    found = InMemory().apply(case.requests[0])
    rounded = {"locks": [{"key": {"S": "k"}, "x": {"N": "1.000000000000000000000000000E+38"}}]}
    assert known(MINISTACK, case, 0, Outcome(found.error, found.shown, rounded), found) == "sums"
    other = {"locks": [{"key": {"S": "k"}, "x": {"N": "1.000000000000000000000000001E+38"}}]}
    assert known(MINISTACK, case, 0, Outcome(found.error, found.shown, other), found) is None


def compared(real: Real, *requests: Request) -> Comparison:
    """Requests that the tables must support, carried out in memory and on the engine."""
    comparison = Comparison([real])
    comparison.run(Case([*requests]), supported=True)
    return comparison


@pytest.mark.parametrize(
    ("text", "one", "other", "left"),
    [
        ("SET x = :one + :other", NINES, f"-{NINES}", "0"),
        ("SET x = :one - :other", f"-{NINES}", f"-{NINES}", "0"),
        ("SET x = :one + :other", f"-{NINES}", "9", f"-{NINES[:-1]}0"),
        ("SET x = :one - :other", HUGE, "1", NINES[:-1]),
        ("SET x = :one + :other", "-75", f"1{'0' * 28}1", f"{'9' * 27}26"),
    ],
)
def test_a_sum_of_38_digits_is_exact_also_below_zero(real, text, one, other, left):
    values = {":one": {"N": one}, ":other": {"N": other}}
    update = ("UpdateItem", {**KEY, "UpdateExpression": text, "ExpressionAttributeValues": values})
    (row,) = compared(real, update).memory.rows("locks")
    assert row["x"] == {"N": left}


@pytest.mark.parametrize(("text", "size"), [("", 0), ("a", 1), ("é", 1), ("\uffff", 1), ("\U0001f512", 2), ("a☃", 2)])
def test_the_size_of_a_text_counts_its_utf16_units_as_engines_do(real, text, size):
    put = ("PutItem", {"TableName": "locks", "Item": {"key": {"S": "k"}, "y": {"S": text}}})
    for number, refused in ((size, 0), (size + 1, 1)):
        values = {"ExpressionAttributeValues": {":size": {"N": str(number)}}}
        delete = ("DeleteItem", {**KEY, "ConditionExpression": "size(y) = :size", **values})
        assert compared(real, put, delete).counts["ConditionalCheckFailedException"] == refused


@pytest.mark.parametrize("kind", [{":v": {"S": "X"}}, {":v": {"N": "1"}}, {}])
def test_what_is_no_type_is_refused_whatever_the_item_is(real, kind):
    request = {**KEY, "ConditionExpression": f"attribute_exists(absent) AND attribute_type(x, {':v' if kind else 'y'})"}
    if kind:
        request["ExpressionAttributeValues"] = kind
    assert compared(real, ("DeleteItem", request)).counts["ValidationException"] == 1


@pytest.mark.prove
@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_in_the_evaluator_is_found(real, name):
    if name in hidden_by(real.name):
        pytest.skip(f"{real.name} makes this mistake itself")
    assert find(name, [real], 1, 3000) is not None
