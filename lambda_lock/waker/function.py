"""The Lambda function of the waker: which keys an event names, a look at each, and what becomes of one that fails.

Besides DynamoDB it calls sleepers, and puts messages into its queue, by the runtime's boto3. Each call is made once:
boto3's own retries would turn an answer that was lost into "closed".
"""

from __future__ import annotations

import json
import os

from ..client.lock_client import LockClient
from ..client.session import Operation
from ..core.protocol import Resumption
from ..core.row import OF_SLEEPERS
from ..core.schema import ASLEEP
from ..core.sleepers import NEWEST
from ..errors import LockConfigurationError, LockError
from ..observe.observer import package
from .look import LONGEST_LOOK, Call, ClosedError, Look, Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.protocol import Conversation, Steps
    from ..core.requests import Place
    from ..observe.observer import Observer

QUEUE_VARIABLE = "LAMBDA_LOCK_WAKE_QUEUE"
#: Error codes: nobody waits for the call any more, or such a call is impossible (API references of SendTaskSuccess and
#: SendDurableExecutionCallbackSuccess).
_CLOSED = (
    *("TaskTimedOut", "TaskDoesNotExist", "InvalidToken", "CallbackTimeoutException", "ResourceNotFoundException"),
    *("ValidationException", "InvalidParameterValueException", "KmsInvalidStateException"),
)
_DENIED = "AccessDenied"  # is part of the error codes for a missing permission
_RETRIED = 5  # seconds after which a look of the stream that failed is repeated
_ENDING = LONGEST_LOOK + 10.0  # seconds that must be left for another look to begin
_EXISTS = [{"exists": True}]

#: Filter patterns of the stream's event source mapping. A record that matches any of them causes a look at one key:
#: somebody has lain down; a lock on which somebody sleeps is free; a semaphore on which somebody sleeps was written: a
#: pattern cannot see which of its writes frees a permit.
FILTERS = [
    {"dynamodb": {"NewImage": {"newest": {"S": _EXISTS}}}},
    {"dynamodb": {"NewImage": {"sleepers": {"N": _EXISTS}, "isReleased": {"S": ["1"]}}}},
    {"dynamodb": {"NewImage": {"sleepers": {"N": _EXISTS}, "ownerName": {"S": ["semaphore"]}}}},
]


class DeniedError(ClosedError):
    """The waker cannot make this call: a permission is missing, or boto3 is too old."""


class Calls:
    """The calls of one process. clients: by service; those that are missing are made by boto3."""

    def __init__(self, **clients: Any) -> None:
        self._clients: dict[str, Any] = clients

    def call(self, kind: str, callback: str) -> Exception | None:
        """Call a sleeper. Returns None if it was called, a ClosedError if it cannot be, another error if unknown.

        Raises an error which shows that no call was made: look again later.
        """
        from botocore import exceptions

        try:
            if kind == "task":
                self._client("stepfunctions").send_task_success(taskToken=callback, output="{}")
            elif not hasattr(self._client("lambda"), "send_durable_execution_callback_success"):
                return DeniedError("this boto3 cannot call durable functions: run the waker on Python 3.13 or newer")
            else:
                self._client("lambda").send_durable_execution_callback_success(CallbackId=callback)
        except exceptions.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _CLOSED:
                return ClosedError(str(error))
            if _DENIED in code:
                return DeniedError(str(error))
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500) < 500:
                raise  # it was throttled, say, or the keys had expired
            return RuntimeError(str(error))
        except (exceptions.ReadTimeoutError, exceptions.ConnectionClosedError) as error:
            return RuntimeError(str(error))
        return None

    def put(self, place: Place, seconds: int) -> None:
        """Put a message for a key into the queue, to be received in so many seconds."""
        queue = os.environ.get(QUEUE_VARIABLE)
        if not queue:
            raise LockConfigurationError(
                f"the waker has no queue: set {QUEUE_VARIABLE} to its URL (LockTable(wake=...) does)", key=place.key
            )
        body = {"key": place.key} if place.sort_key is None else {"key": place.key, "sort_key": place.sort_key}
        self._client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(body), DelaySeconds=seconds)

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            import boto3
            from botocore.config import Config

            config = Config(retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=5)
            self._clients[service] = boto3.client(service, config=config)
        return self._clients[service]


def performed(steps: Steps[None], calls: Calls, place: Place, observer: Observer) -> Steps[None]:
    """Make and log the calls of a look, and pass its other steps on to the driver."""
    event: Any = None
    while True:
        try:
            step = steps.send(event)
        except StopIteration:
            return
        answer = None
        if isinstance(step, Call):
            answer = calls.call(step.sleeper.kind, step.sleeper.callback)
            name = "woken" if answer is None or type(answer) is ClosedError else "wake_failed"
            message, more = "lock %r: %s was called%s", f": {answer}" if answer else ""
            observer.tell(name, message, place.key, step.sleeper.holder, more, place=place)
        elif isinstance(step, Message):
            calls.put(place, step.delay)
        event = yield step
        if answer is not None:
            event = Resumption(event.reading, answer)


class WakerFunction:
    """The waker of one process. client, calls: as in Lambda, if not given."""

    def __init__(self, client: LockClient | None = None, calls: Calls | None = None) -> None:
        self._client = client or LockClient()
        self._session = self._client.__session__
        self._calls = calls or Calls()

    def handle(self, event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Look at each key that an event names. Returns the records that are to come again.

        A record that names no key is dropped: it would be the same each time. A look that fails is repeated by the
        queue, so that no key holds up the stream.
        """
        failed, looked = [], dict[object, bool]()
        for record in event.get("Records") or ():
            try:
                places = self._places(record)
            except (LookupError, TypeError, ValueError, AttributeError, LockError) as error:
                package.tell("wake_failed", "a record names no key: %r", error)
                continue
            for place in places:
                if place.where not in looked:
                    is_late = looked and context.get_remaining_time_in_millis() / 1000 < _ENDING
                    is_done = not is_late and self._done(place, self._look)
                    looked[place.where] = is_done or ("dynamodb" in record and self._done(place, self._put))
                if not looked[place.where]:
                    name = record.get("messageId") or record["dynamodb"]["SequenceNumber"]
                    failed.append({"itemIdentifier": name})
        return {"batchItemFailures": failed}

    def _places(self, record: dict[str, Any]) -> list[Place]:
        """The locks that a record of the stream or a message is about."""
        place, stream = self._session.settings.place, record.get("dynamodb")
        if stream is None:
            body = json.loads(record["body"])
            return [place(body["key"], body.get("sort_key"))]
        _, partition, sort = self._session.settings.names()
        image, key = stream.get("NewImage") or {}, stream["Keys"][partition]["S"]
        sort_key = stream["Keys"][sort]["S"] if sort else None
        mark, of = (NEWEST, key.removesuffix(OF_SLEEPERS)) if key.endswith(OF_SLEEPERS) else (ASLEEP, key)
        return [place(of, sort_key)] if mark in image else []

    def _done(self, place: Place, act: Any) -> bool:
        try:
            act(place)
        except Exception as error:  # noqa: BLE001 - no error may keep the other keys from a look
            message = "the look at lock %r is repeated: %r"
            self._session.observer.tell("wake_failed", message, place.key, error, place=place)
            return False
        return True

    def _look(self, place: Place) -> None:
        def steps(talk: Conversation) -> Steps[None]:
            return performed(Look(place, talk).run(), self._calls, place, self._session.observer)

        self._client.__runner__.run(Operation(place, steps))

    def _put(self, place: Place) -> None:
        self._calls.put(place, _RETRIED)


_waker: WakerFunction | None = None


def handler(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """The Lambda function of the waker, for its stream and its queue. It is configured by the environment."""
    global _waker
    if _waker is None:
        _waker = WakerFunction()
    return _waker.handle(event, context)
