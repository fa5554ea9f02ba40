"""The lines as they leave the unmodified awslambdaric."""

import json
import time
from pathlib import Path

import pytest

from lambda_lock.observe.metrics import DUPLICATE, METRICS_VARIABLE, NOT_GRANTED
from rig.lambda_runtime import LambdaEnvironment

from .conftest import metric

HANDLERS = Path(__file__).parent / "handlers"


@pytest.mark.parametrize("log_format", ["Text", "JSON"])
def test_metrics_leave_the_runtime_as_bare_lines_before_the_answer(log_format, engine, table, rows):
    rows.put_held("order-1", expires_at=time.time() + 60)
    variables = engine.environment() | {"LAMBDA_LOCK_TABLE": table, METRICS_VARIABLE: "lambda_lock"}
    variables |= {"AWS_LAMBDA_LOG_FORMAT": log_format, "AWS_LAMBDA_LOG_LEVEL": "INFO"}
    with LambdaEnvironment(
        "contended.handler", HANDLERS, environment=variables, function_name="orders", freeze_between=True
    ) as environment:
        assert environment.invoke({"id": "1"}, timeout_seconds=30).result() == "answered"
        environment.wait_for_line(DUPLICATE)
        lines = environment.lines
    mine = [line for line in lines if '"_aws"' in line]
    assert [metric(line) for line in mine] == [NOT_GRANTED, DUPLICATE]
    for line in mine:
        root = json.loads(line)
        assert (root["Table"], root["FunctionName"]) == (table, "orders")
        assert root["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["Table"], ["Table", "FunctionName"]]
    told = [line for line in lines if line not in mine and "done" in line]
    assert len(told) == 2, "the event's own line, and the log's about its duplicate"
