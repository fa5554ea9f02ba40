"""What the waker does besides DynamoDB: it calls sleepers, and puts messages into its queue. By the runtime's boto3.

Each call is made once: boto3's own retries would turn an answer that was lost into "closed".
"""

from __future__ import annotations

import json
import os

from ..core.protocol import Resumption, Wait
from ..errors import LockConfigurationError
from .look import ClosedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.protocol import Steps
    from ..core.requests import Place

QUEUE_VARIABLE = "LAMBDA_LOCK_WAKE_QUEUE"
#: Nobody waits for the call any more, or nobody ever could be called so (API references of SendTaskSuccess and
#: SendDurableExecutionCallbackSuccess).
_CLOSED = (
    *("TaskTimedOut", "TaskDoesNotExist", "InvalidToken", "CallbackTimeoutException", "ResourceNotFoundException"),
    *("ValidationException", "InvalidParameterValueException", "KmsInvalidStateException"),
)
_DENIED = "AccessDenied"  # is part of the codes


class DeniedError(ClosedError):
    """The waker cannot make this call: a permission is missing, or boto3 is too old."""


class Calls:
    """The calls of one process. clients: by service; those that are missing are made by boto3."""

    def __init__(self, **clients: Any) -> None:
        self._clients: dict[str, Any] = clients

    def call(self, kind: str, callback: str) -> Exception | None:
        """Call a sleeper. Returns None if that was answered, and otherwise why not.

        Raises what shows that no call was made: look again later.
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


def performed(steps: Steps[None], calls: Calls, place: Place, tell: Callable[..., None]) -> Steps[None]:
    """Make the calls of a look, tell of them, and pass on the rest to who drives it."""
    event: Any = None
    while True:
        try:
            step = steps.send(event)
        except StopIteration:
            return
        asked, answer = getattr(step, "request", {}), None
        match getattr(step, "operation", None):
            case "Call":
                answer = calls.call(asked["kind"], asked["callback"])
                name = "woken" if answer is None or type(answer) is ClosedError else "wake_failed"
                tell(place, name, "lock %r: %s was called%s", asked["holder"], f": {answer}" if answer else "")
            case "Message":
                calls.put(place, asked["seconds"])
            case _:
                event = yield step
                continue
        event = Resumption((yield Wait(0)).reading, answer)
