"""What the waker does besides DynamoDB: it calls sleepers, and puts messages into its queue. By the runtime's boto3.

Each call is made once: boto3's own retries would turn an answer that was lost into "closed".
"""

from __future__ import annotations

import json
import os

from ..core.protocol import Resumption, Wait
from ..errors import LockConfigurationError
from .look import Call, ClosedError, DeniedError, Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.protocol import Steps
    from ..core.requests import Place
    from .look import Looking

QUEUE_VARIABLE = "LAMBDA_LOCK_WAKE_QUEUE"
CONNECT, ANSWER = 3.0, 5.0  # seconds of one call
#: Nobody waits for the call any more (API references of SendTaskSuccess and SendDurableExecutionCallbackSuccess).
_CLOSED = {
    *("TaskTimedOut", "TaskDoesNotExist", "InvalidToken"),
    *("CallbackTimeoutException", "ResourceNotFoundException"),
}
_DENIED = {"AccessDenied", "AccessDeniedException"}
#: Certainly not made, and worth making later.
_NOT_NOW = {"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded", "ExpiredToken"}


class Calls:
    """The calls of one process. clients: made by ``boto3.client``, if not given."""

    def __init__(self, **clients: Any) -> None:
        self._clients: dict[str, Any] = clients

    def call(self, step: Call) -> Exception | None:
        """Call a sleeper. Returns None if that was answered, and otherwise why not.

        Raises what shows that no call was made: look again later.
        """
        from botocore import exceptions

        sleeper, certain = step.sleeper, (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError)
        try:
            if sleeper.kind == "task":
                self._client("stepfunctions").send_task_success(taskToken=sleeper.callback, output="{}")
            else:
                self._client("lambda").send_durable_execution_callback_success(CallbackId=sleeper.callback)
        except exceptions.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _NOT_NOW:
                raise
            if code in _CLOSED:
                return ClosedError(str(error))
            return DeniedError(str(error)) if code in _DENIED else RuntimeError(str(error))
        except certain:
            raise
        except (exceptions.HTTPClientError, exceptions.BotoCoreError) as error:
            if not isinstance(error, exceptions.HTTPClientError):  # no credentials, or arguments that it refuses
                raise
            return RuntimeError(repr(error))
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

            config = Config(retries={"total_max_attempts": 1}, connect_timeout=CONNECT, read_timeout=ANSWER)
            self._clients[service] = boto3.client(service, config=config)
        return self._clients[service]


def performed(steps: Looking[None], calls: Calls, place: Place) -> Steps[None]:
    """Make the calls of a look, and pass on the rest to who drives it."""
    event: Resumption | None = None
    try:
        step = next(steps)
        while True:
            if isinstance(step, (Call, Message)):
                answer = None
                if isinstance(step, Call):
                    answer = calls.call(step)
                else:
                    calls.put(place, step.seconds)
                event = Resumption((yield Wait(0)).reading, answer)
            else:
                event = yield step
            step = steps.send(event)
    except StopIteration:
        return
    finally:
        steps.close()
