"""Runs durable functions on the SDK's testing package, in this process.

Waits of an execution are skipped; leases are not.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import Duration, StepConfig
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.retries import RetryDecision, RetryPresets
from aws_durable_execution_sdk_python_testing import DurableFunctionTestResult, DurableFunctionTestRunner

from lambda_lock import LockClient, LockLostError, LockNotGrantedError
from lambda_lock.durable import durable_lock
from tests.support.waiting import DEADLINE

Handler = Callable[[Any, DurableContext], Any]
ONCE = StepConfig(retry_strategy=RetryPresets.none())
SECOND = Duration.from_seconds(1)
SOON = StepConfig(retry_strategy=lambda _, attempts: RetryDecision.retry(SECOND))
HOUR = 3600


class Executions:
    """A durable function that has been deployed, so to say. ``invocations`` counts its invocations."""

    def __init__(self, handler: Handler, at: Mapping[int, Callable[[], object]] | None = None, **settings: Any) -> None:
        """at: what happens when the invocations with these numbers begin."""
        self.invocations = 0
        self._guard = threading.Lock()
        happenings = at or {}

        @durable_execution
        def counted(event: Any, context: DurableContext) -> Any:
            with self._guard:
                self.invocations += 1
            happenings.get(self.invocations, lambda: None)()
            return handler(event, context)

        self.runner = DurableFunctionTestRunner(counted, poll_interval=0.01, **settings)

    def start(self, event: object = None, *, timeout: int = int(DEADLINE), name: str = "execution-1") -> str:
        """Start an execution. Returns its ARN."""
        return self.runner.run_async(json.dumps(event), execution_timeout=timeout, execution_name=name)

    def end(self, arn: str) -> DurableFunctionTestResult:
        return self.runner.wait_for_result(arn, int(DEADLINE))

    def ended(self, event: object = None) -> DurableFunctionTestResult:
        """Run an execution to its end."""
        return self.end(self.start(event))

    def run(self, event: object = None) -> Any:
        """Run an execution that must succeed. Returns its result."""
        return result(self.ended(event))

    def fail(self, event: object = None) -> tuple[str, str]:
        """Run an execution that must fail. Returns the type and the message of its error."""
        return error_of(self.ended(event))


def within(client: LockClient | None, act: Callable[[DurableContext, Any], Any], **options: Any) -> Handler:
    """A durable function that acts in one block, with its context and its lock."""

    def handler(event: Any, context: DurableContext) -> Any:
        given: dict[str, Any] = {"key": "a", "lease_duration": HOUR, "client": client} | options
        with durable_lock(context, **given) as lock:
            return act(context, lock)

    return handler


def names(ended: DurableFunctionTestResult) -> list[str]:
    """The names of an execution's operations, in their order. Those of the function itself may have none."""
    return [operation.name for operation in ended.operations if operation.name]


def result(ended: DurableFunctionTestResult) -> Any:
    assert ended.error is None, ended.error
    return json.loads(ended.result or "null")


def error_of(ended: DurableFunctionTestResult) -> tuple[str, str]:
    """The type and message of the error that an execution failed with."""
    assert ended.error is not None, ended.result
    return (ended.error.type or "").rpartition(".")[2], ended.error.message or ""


def outcome(act: Callable[[], object]) -> str:
    """What came of an act in a durable function: the name of its error, or ''."""
    try:
        act()
    except (LockLostError, LockNotGrantedError) as error:
        return type(error).__name__
    return ""


@pytest.fixture
def deploy(table: str) -> Iterator[Callable[..., Executions]]:
    """Makes a durable function of a handler."""
    deployed: list[Executions] = []

    def build(handler: Handler, **settings: Any) -> Executions:
        deployed.append(Executions(handler, **settings))
        return deployed[-1]

    yield build
    for executions in deployed:
        executions.runner.close()
