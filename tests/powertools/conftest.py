"""What Powertools is given in these tests: contexts, a logger and metrics that write where a test can read, a store."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics.provider.cold_start import reset_cold_start_flag
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer

from lambda_lock import default_client, set_default_client
from rig.engine import Ministack
from tests.support import context as lambda_context
from tests.support.decorated import other
from tests.support.fresh import forget_invocations
from tests.support.rows import rows

__all__ = ["other", "rows"]

REMAINING = 7.0  # seconds: less than a client's lease of 20, so that a lease shows whether it was known
_numbers = itertools.count(1)


class Context(lambda_context.Context):
    """What Powertools looks at, too."""

    function_version = "$LATEST"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:orders"
    log_group_name = "/aws/lambda/orders"
    log_stream_name = "stream"

    def __init__(self, remaining: float = REMAINING) -> None:
        super().__init__(remaining)
        self.aws_request_id = f"request-{next(_numbers)}"


class Written:
    """A stream whose lines are JSON; ``[0]`` is the first."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([json.loads(line) for line in self.stream.getvalue().splitlines()])

    def saying(self, text: str) -> dict[str, Any]:
        """The one line whose message contains ``text``."""
        (line,) = (line for line in self if text in line["message"])
        return line


@pytest.fixture(autouse=True)
def fresh_process(table: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outside Lambda, no invocation seen, no client made, X-Ray off."""
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "true")
    forget_invocations(monkeypatch)
    monkeypatch.setattr(Tracer, "_config", dict(Tracer._default_config))
    set_default_client(None)
    yield
    default_client().close()
    set_default_client(None)


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def logger(written: Written) -> Logger:
    return Logger(service=f"orders-{next(_numbers)}", stream=written.stream, level="INFO")


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics(namespace="orders", service="orders")
    yield made
    made.clear_metrics()
    reset_cold_start_flag()


@pytest.fixture
def store(engine: Ministack, table: str) -> DynamoDBPersistenceLayer:
    """Where idempotency keeps its records: a table of its own."""
    engine.create_table(f"{table}-idempotency", "id")
    return DynamoDBPersistenceLayer(table_name=f"{table}-idempotency", boto3_client=boto3.client("dynamodb"))
