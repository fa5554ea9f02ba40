"""What the answers to a call of a sleeper mean, with the errors that boto3 raises."""

from typing import Any

import pytest
from botocore import exceptions

from lambda_lock.waker.function import Calls
from lambda_lock.waker.look import ClosedError


class Service:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def send_task_success(self, **_: Any) -> None:
        raise self._error

    send_durable_execution_callback_success = send_task_success


def refusal(code: str, status: int) -> Exception:
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return exceptions.ClientError(answer, "SendTaskSuccess")


def calls(error: Exception) -> Calls:
    return Calls(stepfunctions=Service(error), **{"lambda": Service(error)})


CLOSED = ("TaskTimedOut", "InvalidToken", "ValidationException", "InvalidParameterValueException")
DENIED = {"AccessDeniedException": 403, "KmsAccessDeniedException": 400, "KMSAccessDeniedException": 502}


@pytest.mark.parametrize("kind", ["task", "durable"])
@pytest.mark.parametrize(
    ("code", "status"), [*((code, 400) for code in CLOSED), ("ResourceNotFoundException", 404), *DENIED.items()]
)
def test_who_can_not_be_called_by_anybody_is_closed(kind, code, status):
    assert isinstance(calls(refusal(code, status)).call(kind, "t"), ClosedError)


@pytest.mark.parametrize(
    "error",
    [
        refusal("ThrottlingException", 400),
        refusal("KmsThrottlingException", 400),
        refusal("TooManyRequestsException", 429),
        refusal("ExpiredTokenException", 400),
        refusal("InvalidSignatureException", 403),
        exceptions.ConnectTimeoutError(endpoint_url="https://states"),
    ],
    ids=str,
)
def test_a_call_that_was_certainly_not_made_is_left_to_a_later_look(error):
    with pytest.raises(type(error)):
        calls(error).call("task", "t")


@pytest.mark.parametrize(
    "error",
    [
        refusal("InternalFailure", 500),
        refusal("ServiceUnavailable", 503),
        exceptions.ReadTimeoutError(endpoint_url="https://states"),
    ],
    ids=str,
)
def test_a_call_that_may_have_been_made_is_neither(error):
    assert type(calls(error).call("task", "t")) is RuntimeError
