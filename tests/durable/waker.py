"""The shipped waker, in the loop of a test: on the engine's own stream, through the shipped filters.

Its calls go to the service of durable executions that the test runs. Its queue is a list, whose messages are due when
they are.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from aws_durable_execution_sdk_python_testing.exceptions import ResourceNotFoundException
from botocore.exceptions import ClientError

from lambda_lock import LockClient
from lambda_lock.testing import lambda_context
from lambda_lock.waker.function import Calls, WakerFunction
from rig.engine import REGION, Engine
from tests.simulation.waking.filtering import passes

from .executions import Executions

Call = Callable[[str], object]  # with the id of a callback. Raises ClientError


class Lambda:
    """Lambda's client, as far as the waker uses it."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def send_durable_execution_callback_success(self, **request: str) -> None:
        self._call(request["CallbackId"])


class Queue:
    """The waker's queue."""

    def __init__(self) -> None:
        self._messages: list[tuple[float, str]] = []

    def send_message(self, **message: Any) -> None:
        self._messages.append((time.monotonic() + message["DelaySeconds"], message["MessageBody"]))

    def take(self) -> list[str]:
        due = [message for message in self._messages if message[0] <= time.monotonic()]
        self._messages = [message for message in self._messages if message not in due]
        return [body for _, body in due]


class RunningWaker:
    """Looks at what the stream of a table and the queue bring. ``looks`` counts, ``called`` has the callbacks."""

    def __init__(self, engine: Engine, table: str, call: Call) -> None:
        specification = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        engine.dynamodb("UpdateTable", {"TableName": table, "StreamSpecification": specification})
        self.looks = 0
        self.called: list[str] = []
        self.failed: list[object] = []
        self._streams: Any = boto3.client("dynamodbstreams", endpoint_url=engine.url, region_name=REGION)
        self._queue = Queue()
        self._client = LockClient(table, endpoint_url=engine.url)

        def noting(callback: str) -> None:
            call(callback)
            self.called.append(callback)

        self._waker = WakerFunction(self._client, Calls(**{"lambda": Lambda(noting), "sqs": self._queue}))
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._start(table),))
        self._thread.start()

    def _start(self, table: str) -> str:
        (stream,) = self._streams.list_streams(TableName=table)["Streams"]
        (shard,) = self._streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
        first: str = self._streams.get_shard_iterator(
            StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        return first

    def _run(self, iterator: str) -> None:
        while not self._end.wait(0.02):
            answer = self._streams.get_records(ShardIterator=iterator)
            iterator = answer["NextShardIterator"]
            for record in answer["Records"]:
                if passes(record["dynamodb"].get("NewImage")):
                    self._handle({"Records": [record]})
            for body in self._queue.take():
                self._handle({"Records": [{"messageId": "one", "body": body}]})

    def _handle(self, event: dict[str, Any]) -> None:
        self.looks += 1
        answer = self._waker.handle(json.loads(json.dumps(event, default=str)), lambda_context(60))
        self.failed += answer["batchItemFailures"]

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
        self._client.close(release=False)


@pytest.fixture
def wake(engine: Engine, table: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningWaker]]:
    """Gives the table a waker, which calls the executions of these durable functions."""
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    monkeypatch.setenv("LAMBDA_LOCK_WAKE_QUEUE", "https://sqs/queue")
    running: list[RunningWaker] = []

    def start(*deployed: Executions, call: Call | None = None) -> RunningWaker:
        def sent(callback: str) -> None:
            for executions in deployed:
                try:
                    executions.runner.send_callback_success(callback)
                except ResourceNotFoundException as error:
                    refusal = str(error)
                else:
                    return
            answer: Any = {"Error": {"Code": "ResourceNotFoundException", "Message": refusal}}
            raise ClientError(answer, "SendDurableExecutionCallbackSuccess")

        running.append(RunningWaker(engine, table, call or sent))
        return running[-1]

    yield start
    for waker in running:
        waker.stop()
        assert waker.failed == []
