"""Queues, rules and functions as the tests of event sources use them: what they allow, say, count and leave behind."""

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.cdk import DEPLOYED
from rig.cloud import ACCOUNT, Cloud, Function
from rig.engine import REGION, Ministack
from rig.lambda_runtime import FunctionError
from rig.sample import left

pytestmark = pytest.mark.ministack_only("queues, rules and functions")

HANDLERS = Path(__file__).parent / "handlers"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Ministack(auth=True, services=DEPLOYED) as engine, Cloud(engine) as running:
        yield running


@pytest.fixture(scope="module")
def consumer(cloud: Cloud) -> Function:
    """A function with a timeout that is long enough for all tests. It is warm: no test waits for its process."""
    function = cloud.function("consumer.handler", HANDLERS, environment={"SOME_VARIABLE": "x"}, timeout=30)
    function.invoke({"id": "warm"})
    return function


def test_a_function_runs_under_the_unmodified_awslambdaric(cloud, consumer):
    answer = consumer.invoke({"id": "direct"})
    runtime = importlib.metadata.distribution("awslambdaric").locate_file("awslambdaric/__init__.py")
    assert 3_000 < answer.pop("remaining") <= 30_000
    assert answer == {
        "id": "direct",
        "command": ["-m", "awslambdaric", "consumer.handler"],
        "file": str(runtime),
        "context": "awslambdaric.lambda_context",
        "function": consumer.name,
        "variable": "x",
        "endpoint": cloud.engine.url,
    }


def test_an_error_of_the_handler_reaches_the_caller_and_its_lines_the_log(cloud, consumer):
    with pytest.raises(FunctionError, match="KeyError: 'id'"):
        consumer.invoke({})
    cloud.wait_until(lambda: any("KeyError" in line for line in consumer.lines))
    assert any(line.startswith("handling ") for line in consumer.lines)
    assert "KeyError" in cloud.report()


def test_a_role_grants_what_it_allows_and_nothing_else(cloud):
    cloud.engine.create_table("allowed")
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/allowed"
    function = cloud.function(
        "reader.handler", HANDLERS, timeout=30, allow=[{"Action": ["dynamodb:GetItem"], "Resource": arn}]
    )
    assert function.invoke({"table": "allowed"}) == {"item": None}
    with pytest.raises(FunctionError, match="AccessDenied"):
        function.invoke({"table": "another"})


def test_a_cloud_removes_what_it_made(cloud):
    before = left(cloud)
    with Cloud(cloud.engine) as another:
        function = another.function("consumer.handler", HANDLERS, concurrency=1)
        another.subscribe(another.queue("removed", dead_letter_after=1), function, maximum_concurrency=2)
        another.rule({"source": ["x"]}, function)
        made = {kind: len(names) - len(before.get(kind, [])) for kind, names in left(cloud).items()}
        assert made.items() >= {"queues": 2, "functions": 1, "mappings": 1, "rules": 1, "roles": 1}.items()
    assert left(cloud) | {"log groups": []} == before | {"log groups": []}
