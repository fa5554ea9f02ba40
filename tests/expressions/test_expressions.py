"""The tables that the simulator runs on do what the engine does, request by request (LAMBDA_LOCK_ENGINE says which)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.engine import DynamoDBLocal, Engine
from tests.expressions.compare import Comparison, Difference
from tests.expressions.databases import Case, Real
from tests.expressions.known import LOCAL, MINISTACK
from tests.expressions.mistakes import MISTAKES, planted
from tests.expressions.search import find, search


@pytest.fixture(scope="module")
def real(engine: Engine) -> Iterator[Real]:
    database = Real(LOCAL if isinstance(engine, DynamoDBLocal) else MINISTACK, engine)
    yield database
    database.close()


@pytest.mark.parametrize(("source", "cases"), [("shipped", 50), ("grammar", 50)])
def test_random_requests_have_the_same_outcome_in_memory_and_on_an_engine(real: Real, source: str, cases: int) -> None:
    comparison = Comparison([real])
    difference = search(comparison, source, 1, cases)
    assert difference is None, str(difference)
    assert comparison.inputs > cases
    assert {"done", "ConditionalCheckFailedException"} <= comparison.counts.keys()


def test_a_mistake_in_the_evaluator_is_found_and_the_request_is_named(real: Real) -> None:
    key = {"TableName": "locks", "Key": {"key": {"S": "k"}}}
    values = {"ExpressionAttributeValues": {":one": {"N": "1"}, ":two": {"N": "2"}}}
    case = Case([("UpdateItem", {**key, "UpdateExpression": "SET x = :one - :two", **values})])
    Comparison([real]).run(case)
    with planted("a difference is a sum"), pytest.raises(Difference, match=r"SET x = :one - :two[^!]*-1[^!]*3"):
        Comparison([real]).run(case)


@pytest.mark.prove
@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_in_the_evaluator_is_found(real: Real, name: str) -> None:
    assert find(name, [real], 1, 1500) is not None
