"""Queues, rules and functions as the tests of event sources use them: what they allow, say, count and leave behind."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.cdk import DEPLOYED
from rig.cloud import ACCOUNT, Cloud, Function
from rig.engine import REGION, Ministack
from rig.lambda_runtime import FunctionError
from rig.sample import left

pytestmark = pytest.mark.ministack_only("queues, rules and functions")

HANDLERS = Path(__file__).parent / "handlers"
Notes = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cloud") / "record"
    path.touch()
    return path


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Ministack(auth=True, services=DEPLOYED) as engine, Cloud(engine) as running:
        yield running


@pytest.fixture(scope="module")
def consumer(cloud: Cloud, record: Path) -> Function:
    """A function with a timeout that is long enough for all tests. It is warm: no test waits for its process."""
    function = cloud.function(
        "consumer.handler", HANDLERS, environment={"RECORD": str(record), "SOME_VARIABLE": "x"}, timeout=30
    )
    function.invoke({"id": "warm"})
    return function


@pytest.fixture
def notes(record: Path) -> Notes:
    """Reads the notes about the named messages or events, in the order in which they were written."""

    def read(*names: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        return [line for line in lines if line["id"] in names]

    return read


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


@pytest.mark.parametrize(
    ("concurrency", "maximum_concurrency", "most"), [(None, 2, 2), (1, None, 1)], ids=["of the mapping", "reserved"]
)
def test_no_more_batches_are_under_way_at_once_than_were_allowed(
    cloud, record, notes, concurrency, maximum_concurrency, most
):
    function = cloud.function(
        "consumer.handler", HANDLERS, environment={"RECORD": str(record)}, timeout=30, concurrency=concurrency
    )
    queue = cloud.queue(f"crowd-{most}")
    names = [f"crowd-{most}-{number}" for number in range(4)]
    queue.send(*({"id": name} for name in names))
    cloud.subscribe(queue, function, batch_size=1, maximum_concurrency=maximum_concurrency)
    cloud.wait_until(lambda: len(notes(*names)) == 8 and queue.is_empty())
    under_way = itertools.accumulate(1 if note["what"] == "start" else -1 for note in notes(*names))
    assert max(under_way) <= most


def test_a_role_grants_what_it_allows_and_nothing_else(cloud, record):
    cloud.engine.create_table("allowed")
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/allowed"
    function = cloud.function(
        "reader.handler", HANDLERS, timeout=30, allow=[{"Action": ["dynamodb:GetItem"], "Resource": arn}]
    )
    assert function.invoke({"table": "allowed"}) == {"item": None}
    with pytest.raises(FunctionError, match="AccessDenied"):
        function.invoke({"table": "another"})


def test_a_cloud_removes_what_it_made(cloud, record):
    before = left(cloud)
    with Cloud(cloud.engine) as another:
        function = another.function("consumer.handler", HANDLERS, environment={"RECORD": str(record)}, concurrency=1)
        another.subscribe(another.queue("removed", dead_letter_after=1), function, maximum_concurrency=2)
        another.rule({"source": ["x"]}, function)
        made = {kind: len(names) - len(before.get(kind, [])) for kind, names in left(cloud).items()}
        assert made.items() >= {"queues": 2, "functions": 1, "mappings": 1, "rules": 1, "roles": 1}.items()
    assert left(cloud) | {"log groups": []} == before | {"log groups": []}
