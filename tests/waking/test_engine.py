"""The waker under the unmodified awslambdaric, beside the engine's own streams, queues and state machines."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from lambda_lock import LockClient, LockNotGrantedError
from rig.engine import Ministack, client_environment
from rig.lambda_runtime import FunctionError, LambdaEnvironment
from rig.wire import Wire
from tests.simulation.waking.filtering import passes

pytestmark = pytest.mark.ministack_only
_ROLE = "arn:aws:iam::000000000000:role/any"
_LONG = 120.0  # seconds after which a test gives up
_TARGET = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"


@pytest.fixture(scope="module")
def engine() -> Iterator[Ministack]:
    with Ministack(services=("dynamodb", "dynamodbstreams", "sqs", "states")) as running:
        yield running


class Account:
    """A table with its stream, the waker's queue and function, and a state machine that waits for its token.

    The waker is reached by the stream's records that pass the filter, and by its queue: `turn` delivers what is there.
    """

    def __init__(self, engine: Ministack, table: str, wire: Wire, folder: Path) -> None:
        self.wire = wire
        self._engine = engine
        self.client = LockClient(table)
        self._sqs, self._states = self._boto3("sqs"), self._boto3("stepfunctions")
        described = self._boto3("dynamodb").update_table(
            TableName=table, StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        )
        self._streams, arn = self._boto3("dynamodbstreams"), described["TableDescription"]["LatestStreamArn"]
        shard = self._streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]["ShardId"]
        self._iterator = self._streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        self._queue = self._sqs.create_queue(QueueName=f"wake-{table}")["QueueUrl"]
        self._tokens = self._sqs.create_queue(QueueName=f"tokens-{table}")["QueueUrl"]
        message = {"QueueUrl": self._tokens, "MessageBody": {"token.$": "$$.Task.Token"}}
        sleep = {"Type": "Task", "Resource": _TARGET, "Parameters": message, "End": True}
        definition = json.dumps({"StartAt": "Sleep", "States": {"Sleep": sleep}})
        made = self._states.create_state_machine(name=f"m-{table}", roleArn=_ROLE, definition=definition)
        self._machine = made["stateMachineArn"]
        variables = {"LAMBDA_LOCK_TABLE": table, "LAMBDA_LOCK_WAKE_QUEUE": self._queue}
        self.waker = LambdaEnvironment(
            "lambda_lock.waker.handler", folder, environment=client_environment(wire.url) | variables
        )
        self._left: list[dict[str, Any]] = []  # records that are to come again

    def _boto3(self, service: str) -> Any:
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        return boto3.client(service, endpoint_url=self._engine.url, region_name="us-east-1", **keys)

    def execution(self, **weight: Any) -> str:
        """Start an execution, and let it sleep until the lock is free. Returns its ARN, which is its holder."""
        arn: str = self._states.start_execution(stateMachineArn=self._machine, input="{}")["executionArn"]
        messages: list[Any] = []
        until = time.monotonic() + _LONG
        while not messages:
            assert time.monotonic() < until
            messages = self._sqs.receive_message(QueueUrl=self._tokens, WaitTimeSeconds=1).get("Messages", [])
        self._sqs.delete_message(QueueUrl=self._tokens, ReceiptHandle=messages[0]["ReceiptHandle"])
        self.client.sleep("k", holder=arn, task_token=json.loads(messages[0]["Body"])["token"], **weight)
        return arn

    def status(self, execution: str) -> str:
        found: str = self._states.describe_execution(executionArn=execution)["status"]
        return found

    def turn(self) -> None:
        """Deliver the records and messages that are there. What the waker fails at is delivered again, later."""
        answer = self._streams.get_records(ShardIterator=self._iterator)
        self._iterator = answer["NextShardIterator"]
        found = json.loads(json.dumps(answer["Records"], default=str))
        self._left += [record for record in found if passes(record["dynamodb"].get("NewImage"))]
        if self._left and self._is_done(self._left):
            self._left = []
        for message in self._sqs.receive_message(QueueUrl=self._queue, VisibilityTimeout=1).get("Messages", []):
            if self._is_done([{"messageId": message["MessageId"], "body": message["Body"]}]):
                self._sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"])
        time.sleep(0.05)  # who takes turns until something has happened does not keep a core busy

    def _is_done(self, records: list[Any]) -> bool:
        try:
            return not self.waker.invoke({"Records": records}, 60.0).result()["batchItemFailures"]
        except FunctionError:
            return False

    def wake(self, execution: str) -> None:
        """Deliver what comes until this execution was called."""
        until = time.monotonic() + _LONG
        while self.status(execution) != "SUCCEEDED":
            assert time.monotonic() < until, "nobody was woken"
            self.turn()


@pytest.fixture
def account(
    engine: Ministack, table: str, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Account]:
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    made = Account(engine, table, wire, tmp_path)
    yield made
    made.waker.close()
    made.client.close()


def test_state_machines_that_sleep_get_the_lock_in_order_and_resume_what_was_claimed(account):
    held = account.client.acquire("k", wait=0)
    executions = [account.execution() for _ in range(3)]
    account.turn()
    assert account.client.get("k").sleepers == 3
    held.release()
    for number, execution in enumerate(executions):
        account.wake(execution)
        assert [account.status(later) for later in executions[number + 1 :]] == ["RUNNING"] * (2 - number)
        with pytest.raises(LockNotGrantedError):
            account.client.acquire("k", holder="a newcomer", wait=0)
        with account.client.acquire("k", holder=execution, wait=0) as lock:
            assert lock.owner.startswith(f"{execution}#")
    account.turn()
    assert account.client.acquire("k", wait=0).release()


@pytest.mark.long
def test_state_machines_that_sleep_for_several_permits_are_woken_with_what_they_take(account):
    held = account.client.acquire("k", permits=5, take=4, wait=0)
    heavy, light = account.execution(permits=5, take=3), account.execution(permits=5, take=2)
    account.turn()
    assert account.client.try_acquire("k", permits=5, take=1) is None
    held.release()
    for execution, take in ((heavy, 3), (light, 2)):
        account.wake(execution)
        with account.client.acquire("k", permits=5, take=take, holder=execution, wait=0) as lock:
            assert lock.take == take
