"""Queues, rules and functions on an engine: what stands around a function on AWS, made with boto3.

    with Ministack(services=SERVICES) as engine, Cloud(engine) as cloud:
        queue = cloud.queue("orders", visibility=2, dead_letter_after=5)
        function = cloud.function("orders.handler", folder, environment={"LAMBDA_LOCK_TABLE": table})
        cloud.subscribe(queue, function, batch_size=10)
        queue.send({"id": 1}, {"id": 2})
        cloud.wait_until(queue.is_empty)

Functions run under the unmodified awslambdaric of this Python; the engine is their Runtime API. It ends a process that
has not answered at the timeout, and starts a new one for the next event. Names of queues are the caller's: take other
ones for each test that shares an engine.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

from .engine import REGION, ROOT, EngineError, Ministack
from .lambda_runtime import FunctionError

ACCOUNT = "000000000000"
#: What an engine needs for queues, rules and functions (``Ministack(services=…)``).
SERVICES = ("dynamodb", "dynamodbstreams", "lambda", "sqs", "events", "logs", "iam", "sts")
_BOOTSTRAP = '#!/bin/sh\nexec "$PYBIN" -m awslambdaric "$_HANDLER"\n'
_POLL_SECONDS = 0.05
_REPORTED_LINES = 20
# A request is sent once: one sent again could put a message in a queue twice.
_CONFIG = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=60)

# The caller may have chosen a profile and have settings in a file: neither is meant for the engine.
_NO_PROFILE = {"profile": (None, None, None, None), "config_file": (None, None, os.devnull, None)}


class Counts(NamedTuple):
    """How many messages of a queue can be received, are out with a consumer, or are held back by a delay."""

    visible: int
    in_flight: int
    delayed: int


class Cloud:
    """What is made through it is removed at its end, last first; the log groups of functions stay, as on AWS.

    The engine has SERVICES. It may enforce IAM (``Ministack(auth=True, …)``): functions then have the rights of their
    role and no other.
    """

    def __init__(self, engine: Ministack) -> None:
        self.engine = engine
        self._session = boto3.Session(
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - the local engine takes any
            region_name=REGION,
            botocore_session=botocore.session.Session(session_vars=_NO_PROFILE),
        )
        self._clients: dict[str, Any] = {}
        self._undo = contextlib.ExitStack()
        self._queues: list[Queue] = []
        self._functions: list[Function] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()
        for client in self._clients.values():
            client.close()

    def client(self, service: str) -> Any:
        """A boto3 client for this engine with the root key, closed at the end; the same one each time."""
        if service not in self._clients:
            self._clients[service] = self._session.client(service, endpoint_url=self.engine.url, config=_CONFIG)
        return self._clients[service]

    def queue(self, name: str, *, visibility: int = 30, dead_letter_after: int | None = None) -> Queue:
        """Make a queue; one whose name ends in ``.fifo`` is a FIFO queue.

        visibility: the visibility time-out in seconds; 0 to 43200. dead_letter_after: the maxReceiveCount; a message
        received so often, and not deleted, is moved to ``queue.dead_letters``. None: there is no such queue.

        Here the move happens as the queue is next looked at for messages: by a receive, or a mapping, which looks
        each second.
        """
        attributes = {"VisibilityTimeout": str(visibility)} | ({"FifoQueue": "true"} if name.endswith(".fifo") else {})
        dead_letters = None
        if dead_letter_after is not None:
            stem = name.removesuffix(".fifo")
            dead_letters = self.queue(name.replace(stem, f"{stem}-dead", 1))
            policy = {"deadLetterTargetArn": dead_letters.arn, "maxReceiveCount": dead_letter_after}
            attributes["RedrivePolicy"] = json.dumps(policy)
        sqs = self.client("sqs")
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self._undo.callback(sqs.delete_queue, QueueUrl=url)
        self._queues.append(Queue(sqs, name, url, dead_letters))
        return self._queues[-1]

    def function(
        self,
        handler: str,
        folder: Path | str,
        *,
        environment: Mapping[str, str] | None = None,
        timeout: int = 3,
        memory_mb: int = 128,
        concurrency: int | None = None,
        allow: Sequence[Mapping[str, Any]] = (),
        name: str | None = None,
        python: str = sys.executable,
    ) -> Function:
        """Make a function of the modules in ``folder``, and return when it is active (about a second).

        handler: "module.function". environment: its variables; AWS_ENDPOINT_URL leads to the engine unless it is
        given here (a wire's, say). timeout: whole seconds, 1 to 900. concurrency: its reserved concurrency; None: as
        many at once as come. allow: the statements of its role, each ``{"Action": …, "Resource": …}``; they count
        where the engine enforces IAM (an SQS batch operation needs its own name here, sqs:ChangeMessageVisibilityBatch
        say; on AWS that of the single one covers it). python: an interpreter that has awslambdaric.

        The modules are copied now, as on AWS; ``lambda_lock`` and ``rig`` are this checkout's. Unlike on AWS nothing
        freezes the process between invocations, and memory is not limited. Raises ValueError where ``folder`` has no
        such module.
        """
        package = _package(handler, Path(folder))
        name = name or f"{handler.replace('.', '-')}-{uuid.uuid4().hex[:8]}"
        variables = {"AWS_ENDPOINT_URL": self.engine.url, "AWS_EC2_METADATA_DISABLED": "true"}
        variables |= {"PYBIN": python, "PYTHONPATH": str(ROOT)} | dict(environment or {})
        client = self.client("lambda")
        arn = client.create_function(
            FunctionName=name,
            Runtime="provided.al2023",
            Handler=handler,
            Role=self._role(name, allow),
            Code={"ZipFile": package},
            Timeout=timeout,
            MemorySize=memory_mb,
            Environment={"Variables": variables},
        )["FunctionArn"]
        self._undo.callback(client.delete_function, FunctionName=name)
        client.get_waiter("function_active_v2").wait(
            FunctionName=name, WaiterConfig={"Delay": _POLL_SECONDS, "MaxAttempts": 600}
        )
        if concurrency is not None:
            client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=concurrency)
        self._functions.append(Function(client, self.client("logs"), name, arn))
        return self._functions[-1]

    def subscribe(
        self, queue: Queue, function: Function, *, batch_size: int = 10, maximum_concurrency: int | None = None
    ) -> None:
        """Let the queue feed the function: an event source mapping with ReportBatchItemFailures.

        batch_size: messages in an invocation at most, 1 to 10. maximum_concurrency: batches under way at once, 2 or
        more; None: five, here. Messages that are in the queue already come in full batches; those sent later come in
        such batches as the engine happens to find.

        It differs from AWS in this:

        - A FIFO queue has one batch under way at a time; on AWS one for each group.
        - A visibility time-out shorter than the function's timeout is accepted (AWS refuses the mapping): a handler
          slower than it is run a second time beside the first. A first run that then ends well deletes the message
          under the second; on AWS its receipt handle is out of date, and the message may stay.
        - After a batch that failed as a whole the mapping rests for a second.
        - ``batchItemFailures`` with an identifier that is empty or not in the batch, and an answer of another
          form, are successes; on AWS they fail the whole batch (a null or empty answer is a success there too).
        - The role needs no right to the queue, there is no batching window, and nothing is delivered twice by itself.

        As on AWS, what is not named in ``batchItemFailures`` is deleted, also in a FIFO group after one that is named:
        the handler has to name the rest of the group.
        """
        scaling = {"ScalingConfig": {"MaximumConcurrency": maximum_concurrency}} if maximum_concurrency else {}
        client = self.client("lambda")
        mapping = client.create_event_source_mapping(
            EventSourceArn=queue.arn,
            FunctionName=function.name,
            BatchSize=batch_size,
            FunctionResponseTypes=["ReportBatchItemFailures"],
            **scaling,
        )
        self._undo.callback(client.delete_event_source_mapping, UUID=mapping["UUID"])

    def rule(self, pattern: Mapping[str, Any], function: Function) -> None:
        """Send the events of the default bus that match the pattern to the function, asynchronously.

        Unlike on AWS an event whose invocation fails is not sent again, and none comes twice: for a duplicate, send
        the event itself with ``function.invoke``.
        """
        name = f"rule-{uuid.uuid4().hex[:8]}"
        events, client = self.client("events"), self.client("lambda")
        arn = events.put_rule(Name=name, EventPattern=json.dumps(pattern))["RuleArn"]
        self._undo.callback(events.delete_rule, Name=name)
        client.add_permission(
            FunctionName=function.name,
            StatementId=name,
            Action="lambda:InvokeFunction",
            Principal="events.amazonaws.com",
            SourceArn=arn,
        )
        self._undo.callback(client.remove_permission, FunctionName=function.name, StatementId=name)
        events.put_targets(Rule=name, Targets=[{"Id": "function", "Arn": function.arn}])
        self._undo.callback(events.remove_targets, Rule=name, Ids=["function"])

    def put_event(self, source: str, detail_type: str, detail: Mapping[str, Any]) -> str:
        """Put an event on the default bus, and return its id."""
        entry = {"Source": source, "DetailType": detail_type, "Detail": json.dumps(detail)}
        reply = self.client("events").put_events(Entries=[entry])
        if reply["FailedEntryCount"]:
            raise EngineError(f"PutEvents: {reply['Entries']}")
        event_id: str = reply["Entries"][0]["EventId"]
        return event_id

    def wait_until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until the condition holds. TimeoutError, with the report, if it does not within so many seconds."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"it did not happen within {seconds} s\n{self.report()}")
            time.sleep(_POLL_SECONDS)

    def report(self) -> str:
        """What there is to see: the counts of each queue, and each function's last lines."""
        queues = [f"{queue.name}: {queue.counts()}" for queue in self._queues]
        functions = [
            line for function in self._functions for line in (f"{function.name}:", *function.lines[-_REPORTED_LINES:])
        ]
        return "\n".join(queues + functions)

    def _role(self, name: str, allow: Sequence[Mapping[str, Any]]) -> str:
        iam = self.client("iam")
        trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_policy([trust]))
        self._undo.callback(iam.delete_role, RoleName=name)
        if allow:
            statements = [{"Effect": "Allow", **statement} for statement in allow]
            iam.put_role_policy(RoleName=name, PolicyName="allow", PolicyDocument=_policy(statements))
            self._undo.callback(iam.delete_role_policy, RoleName=name, PolicyName="allow")
        arn: str = role["Role"]["Arn"]
        return arn


class Queue:
    """An SQS queue."""

    def __init__(self, client: Any, name: str, url: str, dead_letters: Queue | None) -> None:
        self.name = name
        self.arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        self.url = url
        self._client = client
        self._dead_letters = dead_letters

    @property
    def dead_letters(self) -> Queue:
        """Where messages go that were received too often. ValueError for a queue without ``dead_letter_after``."""
        if self._dead_letters is None:
            raise ValueError(f"queue {self.name!r} has no dead-letter queue: make it with dead_letter_after")
        return self._dead_letters

    def send(self, *bodies: Any, group: str | None = None) -> list[str]:
        """Send messages in this order, ten a request, and return their ids.

        bodies: strings as they are, anything else as JSON. group: the MessageGroupId, for a FIFO queue; equal bodies
        are messages of their own there too (each has a new MessageDeduplicationId).
        """
        ids: list[str] = []
        for start in range(0, len(bodies), 10):
            entries = [_entry(number, body, group) for number, body in enumerate(bodies[start : start + 10])]
            reply = self._client.send_message_batch(QueueUrl=self.url, Entries=entries)
            if reply.get("Failed"):
                raise EngineError(f"SendMessageBatch to {self.name}: {reply['Failed']}")
            ids += [sent["MessageId"] for sent in reply["Successful"]]
        return ids

    def receive(self, maximum: int = 10, wait: int = 0) -> list[dict[str, Any]]:
        """Receive messages as boto3 gives them, with all attributes. wait: seconds to wait for the first, 0 to 20."""
        reply = self._client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=maximum,
            WaitTimeSeconds=wait,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages: list[dict[str, Any]] = reply.get("Messages", [])
        return messages

    def counts(self) -> Counts:
        """Exact here; AWS's are approximate."""
        names = ["", "NotVisible", "Delayed"]
        attributes = self._client.get_queue_attributes(
            QueueUrl=self.url, AttributeNames=[f"ApproximateNumberOfMessages{name}" for name in names]
        )["Attributes"]
        return Counts(*(int(attributes[f"ApproximateNumberOfMessages{name}"]) for name in names))

    def is_empty(self) -> bool:
        """Whether no message is left, not even in flight."""
        return not any(self.counts())


class Function:
    """A Lambda function."""

    def __init__(self, client: Any, logs: Any, name: str, arn: str) -> None:
        self.name = name
        self.arn = arn
        self._client = client
        self._logs = logs

    @property
    def lines(self) -> list[str]:
        """What its invocations have logged so far, START, END and REPORT included.

        An invocation's lines come all at once when it has ended.
        """
        pages = self._logs.get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/{self.name}")
        try:
            return [event["message"] for page in pages for event in page["events"]]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            return []  # not invoked yet

    def invoke(self, event: Any) -> Any:
        """Invoke it, and return the handler's answer. Raises FunctionError for an error, a time-out or an exit."""
        reply = self._client.invoke(FunctionName=self.name, Payload=json.dumps(event).encode())
        answer = json.loads(reply["Payload"].read())
        if "FunctionError" in reply:
            raise FunctionError(answer.get("errorType", ""), answer.get("errorMessage", ""), answer.get("stackTrace"))
        return answer


def _policy(statements: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def _entry(number: int, body: Any, group: str | None) -> dict[str, str]:
    text = body if isinstance(body, str) else json.dumps(body)
    place = {"MessageGroupId": group, "MessageDeduplicationId": str(uuid.uuid4())} if group is not None else {}
    return {"Id": str(number), "MessageBody": text} | place


def _package(handler: str, folder: Path) -> bytes:
    """The folder's modules as a deployment package with a bootstrap."""
    module = folder / f"{handler.rpartition('.')[0].replace('.', '/')}.py"
    if not module.is_file():
        raise ValueError(f"handler {handler!r} is not in {str(folder)!r}: there is no {str(module)!r}")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as package:
        bootstrap = zipfile.ZipInfo("bootstrap")
        bootstrap.external_attr = 0o755 << 16  # executable
        package.writestr(bootstrap, _BOOTSTRAP)
        for path in sorted(folder.rglob("*.py")):
            package.write(path, path.relative_to(folder))
    return archive.getvalue()
