"""Powertools' decorators and processors with locks, under the unmodified awslambdaric."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig import events
from rig.engine import Ministack
from rig.lambda_runtime import FunctionError, LambdaEnvironment

HANDLERS = Path(__file__).parent / "handlers"
TIMEOUT = 8.0  # seconds: less than a client's lease
Start = Callable[[str], LambdaEnvironment]


@pytest.fixture
def start(engine: Ministack, table: str) -> Iterator[Start]:
    environments: list[LambdaEnvironment] = []

    def make(name: str) -> LambdaEnvironment:
        variables = engine.environment() | {"LAMBDA_LOCK_TABLE": table, "POWERTOOLS_TRACE_DISABLED": "true"}
        function = LambdaEnvironment(f"orders.{name}", HANDLERS, environment=variables, function_name="orders")
        environments.append(function)
        return function

    yield make
    for environment in environments:
        environment.close()


def test_a_handler_in_the_documented_order_locks_logs_and_counts_and_without_a_lock_it_fails(start, other):
    environment, event = start("handler"), events.eventbridge({"customer_id": "c-7"})
    answer = environment.invoke(event, TIMEOUT, request_id="request-1").result()
    assert answer["key"] == "c-7"
    assert answer["owner"].startswith("orders/request-1#")
    assert 1 < answer["lease"] <= TIMEOUT
    environment.wait_for_line('"Orders"')
    lines = map(json.loads, environment.lines)
    assert [line["function_request_id"] for line in lines if "message" in line] == ["request-1"]
    with other.acquire("c-7"), pytest.raises(FunctionError) as caught:
        environment.invoke(event, TIMEOUT, request_id="request-2").result()
    assert caught.value.type == "LockNotGrantedError"
    line = json.loads(environment.wait_for_line("lock_key"))
    assert (line["lock_key"], line["function_request_id"]) == ("c-7", "request-2")


def test_each_record_of_a_batch_is_done_once_within_the_invocations_time(start):
    environment, event = start("batch"), events.load("sqs")
    first = environment.invoke(event, TIMEOUT).result()
    assert first["batchItemFailures"] == []
    assert len(first["leases"]) == 2 * len(event["Records"])
    assert all(1 < lease <= TIMEOUT for lease in first["leases"])
    assert environment.invoke(event, TIMEOUT).result() == {"batchItemFailures": [], "leases": []}
