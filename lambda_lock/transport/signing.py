"""Tells what boto3 raises before a request leaves from what comes of a request that was sent.

boto3 fetches credentials when it needs them: while it makes a client, resolves the endpoint, or signs. For that it
calls STS, SSO or Cognito, reads a file, or runs a program or a function of the application. What these raise comes out
of the same call as DynamoDB's answer, often with the same class. Two hooks of the client note how far a request has
come.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from botocore import exceptions as failures
from botocore.client import BaseClient

from ..core.outcome import FOR_NOW
from ..errors import LockConfigurationError, TransportError
from .answers import CLOCK, is_skewed, without_values
from .endpoint import without_password
from .http1 import UNTRUSTED

if TYPE_CHECKING:
    from typing import Any

_progress = threading.local()
#: STS could not reach the identity provider just now.
_ALSO_FOR_NOW = FOR_NOW - CLOCK | {"IDPCommunicationError"}
#: How botocore quotes the status of a credential endpoint.
_STATUS = r"non 200 response (\d{3})"


class Way:
    """How far a request of this thread has come, in a ``with`` block around it.

    is_unsent: the request, or the next try of it within the client, has not left. was_sent: a try of it has left.
    """

    __slots__ = ("_outer", "is_unsent", "was_sent")

    def __init__(self) -> None:
        self.is_unsent = True
        self.was_sent = False

    def __enter__(self) -> Way:
        # There is an outer one in a signal handler that interrupted a request.
        self._outer: Way | None = getattr(_progress, "way", None)
        _progress.way = self
        return self

    def __exit__(self, *_: object) -> None:
        _progress.way = self._outer


def watch(client: BaseClient) -> None:
    """Let the client say how far each of its requests has come. Repeating this changes nothing."""
    client.meta.events.register_first("request-created.dynamodb", _signs, unique_id="lambda_lock-signs")
    client.meta.events.register_first("before-send.dynamodb", _sends, unique_id="lambda_lock-sends")


def _signs(**_: Any) -> None:
    if (way := getattr(_progress, "way", None)) is not None:
        way.is_unsent = True


def _sends(**_: Any) -> None:
    if (way := getattr(_progress, "way", None)) is not None:
        way.is_unsent, way.was_sent = False, True


def unsent(error: Exception, *, was_sent: bool = False) -> LockConfigurationError | TransportError:
    """Return the error for what boto3 raised before it sent a request. Its cause is set.

    error: what was raised. was_sent: whether an earlier try of the request was sent.

    It is a TransportError if another try may find credentials: there was no answer, a 5xx or throttling. For everything
    else somebody has to correct something, so it is a LockConfigurationError.
    """
    told, for_now = _told(error)
    made: LockConfigurationError | TransportError
    if was_sent:
        made = TransportError(True, f"an earlier try may have been carried out, and the next was not sent: {told}")
    elif for_now:
        made = TransportError(False, f"nothing was sent to DynamoDB: {told}")
    else:
        made = LockConfigurationError(f"nothing was sent to DynamoDB: {told}")
    made.__cause__ = cause(error)
    return made


def _told(error: Exception) -> tuple[str, bool]:
    """Return what happened, and whether it may be another way at the next try."""
    if isinstance(error, failures.ClientError):
        return _refused(error)
    told = text(error)
    if not isinstance(error, failures.BotoCoreError):
        return (
            f"boto3 could not get credentials or sign: {type(error).__name__}: {told}. Check the credentials that the "
            "boto3 session or the profile names",
            False,
        )
    if "CERTIFICATE_VERIFY_FAILED" in told:
        return f"a certificate is not trusted: {told}. {UNTRUSTED}", False
    if isinstance(error, (failures.ConnectionError, failures.HTTPClientError)):
        return f"boto3 could not get credentials: {told}", True
    if isinstance(error, (failures.CredentialRetrievalError, failures.MetadataRetrievalError)):
        status = re.search(_STATUS, told)
        if _is_for_now(int(status[1])) if status else "attempting to retrieve" in told:
            return f"boto3 could not get credentials: {told}", True
    return f"boto3 cannot send the request: {told}. Check credentials, profile and the AWS_* variables", False


def _refused(error: failures.ClientError) -> tuple[str, bool]:
    response: Any = error.response
    details, metadata = response.get("Error", {}), response.get("ResponseMetadata", {})
    code, message = str(details.get("Code", "")), without_values(without_password(str(details.get("Message", ""))))
    told = f"{_service(error)} refused {error.operation_name}, which boto3 needs for its credentials: {code}: {message}"
    if is_skewed(code, message):
        return f"{told}. The clock of this machine is wrong: correct it", False
    if _is_for_now(metadata.get("HTTPStatusCode", 0)) or code in _ALSO_FOR_NOW:
        return told, True
    return f"{told}. Check the role and its trust policy, the token, or the profile", False


def _is_for_now(status: int) -> bool:
    return status >= 500 or status == 429


def _service(error: failures.ClientError) -> str:
    """Return the name of the service that refused. The error does not have it, but the client that raised it does."""
    name, trace = "the service", error.__traceback__
    while trace is not None:
        caller = trace.tb_frame.f_locals.get("self")
        if isinstance(caller, BaseClient):
            name = str(caller.meta.service_model.service_id)  # the innermost one
        trace = trace.tb_next
    return name


def text(error: Exception) -> str:
    """Return botocore's message without passwords: it may quote the URL of an endpoint or a proxy."""
    return without_password(str(error))


def cause(error: Exception) -> Exception | None:
    """Return the error, or None if it shows or carries more than a log may have.

    That is a password, values of an item, a request with its headers, the lines of a credentials file, or the output
    of a program that prints credentials.
    """
    shown = str(error)
    if isinstance(error, failures.ConfigParseError) or any(
        getattr(error, name, None) is not None for name in ("request", "doc", "object")
    ):
        return None
    return error if without_values(without_password(shown)) == shown else None
