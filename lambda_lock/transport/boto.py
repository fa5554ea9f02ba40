"""DynamoDB through boto3: for profiles, SSO, instance roles and proxies, and for a client that the user already has.

A transport's items are DynamoDB JSON as on the wire, where binary values are base64 text. botocore uses bytes instead.
Everything else is the same, except that botocore returns the times in answers to table operations as datetimes.

A test that uses moto's mock_aws() must never reach AWS. moto answers clients of boto3 that were made after it was
imported. So while it is active every lock goes through boto3, and a client that moto cannot answer is refused
(`transport_to_moto`). Nothing here imports moto.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from binascii import crc32
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as failures
from botocore.awsrequest import AWSRequest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.parsers import ResponseParserError

from .. import __version__
from ..core.outcome import Reply, ServiceError, TransportError, expected, interrupt_within, unusable
from ..core.requests import decode_data, encode_data
from ..errors import LockConfigurationError, LockError
from .answers import http_date, is_skewed, refusal, result, short
from .endpoint import empty_region
from .http1 import UNTRUSTED
from .signing import Way, cause, text, unsent, watch
from .unresolved import refuse_unknown_host

if TYPE_CHECKING:
    from typing import Any

    from ..core.protocol import Hold

T = TypeVar("T")

_MOTO = "moto's mock_aws() is active"
_ANYWHERE = "https://lambda-lock.amazonaws.com/"  # moto has an answer for every host of AWS, known or not
#: Raised before a byte of the request was sent.
_NOT_SENT = (
    failures.ConnectTimeoutError,
    failures.EndpointConnectionError,
    failures.ProxyConnectionError,
)
#: What botocore's parser raises, also for JSON of an unexpected form or nested too deep, and for times out of range.
_UNREADABLE = (ResponseParserError, AttributeError, TypeError, ValueError, KeyError, OverflowError, RuntimeError)


class BotoTransport:
    """Sends through a boto3 DynamoDB client. Any number of threads may use it at the same time.

    client: a low-level client, ``boto3.client("dynamodb")``.
    reason: why this transport was chosen, for the log.

    If lambda_lock made the client, a send is one request, with 2 s to connect and 1 s for each read of the answer. So a
    server that sends one byte after another is waited for, and an answer of any size is read. A body that is
    not JSON, or an error inside a 200, is not a usable answer then; botocore reads both as an empty one.

    A client that the user passed keeps its own timeouts and retries. With ``read_timeout=60``, a send may take that
    long, and a lock is not renewed meanwhile. A refusal after a retry inside the client is ambiguous, because an
    earlier try may have been carried out and caused it.

    Raises TypeError for anything but such a client.

    Example::

        BotoTransport(boto3.client("dynamodb", region_name="eu-west-1"))
    """

    name = "boto3"

    def __init__(self, client: Any, *, reason: str = "it was passed by the caller") -> None:
        remedy = "pass boto3.client('dynamodb')"
        if not isinstance(client, BaseClient):
            kind = "resource" if hasattr(getattr(client, "meta", None), "client") else "object"
            raise TypeError(
                f"boto3_client is a {kind} of type {type(client).__name__}, not a low-level client: {remedy}"
            )
        if _is_asynchronous(client):
            raise TypeError(f"boto3_client is an asynchronous client of aiobotocore: {remedy}")
        service = client.meta.service_model.service_name
        if service != "dynamodb":
            raise TypeError(f"boto3_client is a client for {service}: {remedy}")
        # The client of a resource converts every value to DynamoDB JSON, even values that are DynamoDB JSON already.
        probe: dict[str, Any] = {"Key": {"key": {"S": "probe"}}}
        model = client.meta.service_model.operation_model("GetItem")
        client.meta.events.emit("before-parameter-build.dynamodb.GetItem", params=probe, model=model, context={})
        if probe["Key"] != {"key": {"S": "probe"}}:
            raise TypeError(f"boto3_client belongs to a resource, which rewrites the values it sends: {remedy}")
        self.reason = reason
        self.signed_with = "those that boto3 finds for this client, in the profile, the role or the environment"
        self.client = client
        self.region = client.meta.region_name
        watch(client)
        self._methods = {api: method for method, api in client.meta.method_to_api_mapping.items()}
        retries = client.meta.config.retries or {}
        self._sends_once = retries.get("total_max_attempts") == 1
        self._pid = os.getpid()
        self._answered = False
        self._calls: dict[int, tuple[BaseException | None]] = {}  # by thread: what was handled when it began
        client.meta.events.register_first("needs-retry.dynamodb", self._end_retries)

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        """Send one request. As `Transport.send`, but ``timeout`` is ignored: the client's own apply (see above).

        Also raises LockConfigurationError if boto3 does not accept the request or cannot send it because of
        credentials, profile or settings (signing.py), if the endpoint's certificate is not trusted, and if its host or
        the proxy's does not exist and never answered (unresolved.py).
        """
        if self._pid != os.getpid():  # a forked child must not use the parent's connections
            self.client.close()
            self._pid = os.getpid()
        with Way() as way:
            try:
                answer = self._call(operation, request)
            except expected(Exception) as error:
                failed = self._failed(error, way)
                if failed is error:
                    raise
                if isinstance(failed, LockConfigurationError):  # made here: of each try that it may end
                    failed.is_unsent = self._sends_once or not way.was_sent
                raise failed from failed.__cause__
        self._answered = True
        metadata = answer.pop("ResponseMetadata", {})
        if not _is_dynamodbs(metadata):
            raise unusable("it did not come from DynamoDB")
        return Reply(result(operation, _from_boto(answer)), _date(metadata))

    def _failed(self, error: Exception, way: Way) -> Exception:
        """Return the outcome of a request whose call raised ``error``, with its cause. Others' errors stay as they are.

        What may quote the answer or the request is not a cause.
        """
        if isinstance(error, LockError):
            return error
        if isinstance(error, failures.ParamValidationError):
            # Cut before the first value: the values of an item must not reach a log.
            what = str(error).partition(", value:")[0]
            return LockConfigurationError(f"boto3 does not accept the request: {what}")
        if not self._answered and isinstance(error, failures.BotoCoreError):
            url = error.kwargs.get("proxy_url") or error.kwargs.get("endpoint_url")
            if url:
                refuse_unknown_host(error.kwargs.get("error"), urlsplit(url).hostname or url)
        if way.is_unsent:
            return unsent(error, was_sent=way.was_sent)
        if isinstance(error, failures.ClientError):
            self._answered = True
            return _refusal(error)  # botocore takes any page as the message, and carries all headers of the answer
        if isinstance(error, _UNREADABLE):
            return unusable(f"botocore cannot read it ({type(error).__name__})")
        if not isinstance(error, failures.BotoCoreError):
            return error
        made: LockError
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            made = LockConfigurationError(f"the endpoint's certificate is not trusted: {text(error)}. {UNTRUSTED}")
        # If the client retries by itself, an earlier try may have been sent, even if the last one was not.
        elif isinstance(error, _NOT_SENT) and self._sends_once:
            made = TransportError(False, f"nothing was sent: {text(error)}")
        else:
            made = unusable(text(error))
        made.__cause__ = cause(error)
        return made

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Call the client. What a signal handler raises meanwhile is raised as it is: botocore wraps it in its own."""
        thread, handled = threading.get_ident(), sys.exception()
        outer, interrupt = self._calls.get(thread), None  # outer: of the code that a signal handler has interrupted
        self._calls[thread] = (handled,)
        try:
            answer: dict[str, Any] = getattr(self.client, self._methods[operation])(**_to_boto(request))
            return answer
        except Exception as error:
            interrupt = interrupt_within(error, handled)
            if interrupt is None:
                raise
        finally:
            self._calls.pop(thread, None)
            if outer is not None:
                self._calls[thread] = outer
            del handled, outer
        try:
            raise interrupt  # out of the block above, so that it does not refer to the error that wraps it
        finally:
            del interrupt

    def _end_retries(self, caught_exception: Exception | None, **_: Any) -> None:
        """Keep a client that retries by itself from taking an interrupt for a failed try."""
        call = self._calls.get(threading.get_ident())
        interrupt = None if call is None else interrupt_within(caught_exception, *call)
        if interrupt is not None:
            raise interrupt

    def prepare(self) -> None:
        """There is nothing to do: the client has loaded what it needs."""

    def close(self) -> None:
        """Close the idle connections. Sending still works afterwards."""
        self.client.close()


def is_moto_active() -> bool:
    """Whether moto's mock_aws() is active, in any of its modes: in the process, as a server or as a proxy."""
    models = sys.modules.get("moto.core.models")
    stubber = getattr(models, "botocore_stubber", None)
    modes = (getattr(models, f"{mode}ModeMockAWS", None) for mode in ("Server", "Proxy"))
    return bool(getattr(stubber, "enabled", False)) or any(getattr(mode, "_nested_count", 0) > 0 for mode in modes)


class Mocked(Generic[T]):
    """How moto answers a client.

    transport: sends to moto. before: what the client held when moto began to answer, in tables that moto does not have.
    """

    __slots__ = ("_tables", "before", "transport")

    def __init__(self, transport: T, before: frozenset[Hold]) -> None:
        self.transport = transport
        self.before = before
        self._tables = _tables()

    def has_its_tables(self) -> bool:
        """Whether moto still has the tables from which it answered. It makes them at the first request."""
        found = _tables()
        if self._tables is None:
            self._tables = found
        return found is self._tables


def _tables() -> object:
    """The object that has moto's tables: another one after a reset, as at the next mock_aws(). None: not known."""
    backends = getattr(sys.modules.get("moto.dynamodb.models"), "dynamodb_backends", None)
    return next(iter(backends.values()), None) if isinstance(backends, dict) else None


def own_transport(
    session: Any, region: str | None, endpoint_url: str | None, *, reason: str, through_boto3: bool = False
) -> BotoTransport:
    """Return a BotoTransport with a client of its own, made from a boto3 session.

    session: a boto3.Session; None for a new one, as boto3 configures it.
    region, endpoint_url: for the client; None leaves them to boto3.
    reason: why this transport was chosen, for the log.
    through_boto3: whether boto3.client() makes the client, which moto replaces when it runs as a server or a proxy.

    Raises TypeError if ``session`` is not a boto3.Session. Raises LockConfigurationError if boto3 finds no Region or
    cannot use what is configured, and TransportError(ambiguous=False) if the service that has its credentials does not
    answer.
    """
    if session is not None and not isinstance(session, boto3.session.Session):
        raise TypeError(f"boto3_session must be a boto3.Session, not {type(session).__name__}")
    if _is_asynchronous(session):
        raise TypeError("boto3_session is an asynchronous session of aioboto3: pass boto3.Session()")
    config = Config(
        retries={"total_max_attempts": 1},  # the core itself sends again, and accounts for it
        connect_timeout=2,
        read_timeout=1,
        tcp_keepalive=True,
        user_agent_extra=f"lambda-lock/{__version__}",
    )
    try:
        session = session or boto3.session.Session()
        if not (region or session.region_name):  # boto3 takes an empty AWS_DEFAULT_REGION as a name
            raise failures.NoRegionError
        given = {"region_name": region, "endpoint_url": endpoint_url}  # moto's own boto3.client() takes None as a URL
        make = boto3.client if through_boto3 else session.client
        client = make("dynamodb", config=config, **{name: value for name, value in given.items() if value is not None})
    except failures.NoRegionError as error:
        raise LockConfigurationError(
            "no Region is configured: pass region_name, or set AWS_REGION or the region of the profile"
            + empty_region(os.environ)
        ) from error
    except TypeError:
        raise
    except Exception as error:  # noqa: BLE001 - boto3 may look for credentials already now, by any function
        made = unsent(error)
        raise made from made.__cause__
    client.meta.events.register("before-parse.dynamodb", _check_answer)
    return BotoTransport(client, reason=reason)


def transport_to_moto(client: Any, session: Any, region: str | None, url: str | None) -> BotoTransport:
    """Return a transport whose requests moto answers, or that goes to an endpoint outside AWS, such as a local engine.

    client, session, region, url: what the user passed, None for what was not passed.

    Raises LockConfigurationError if the requests would reach AWS, or if there is no Region. Raises TypeError as
    BotoTransport does.
    """
    if client is not None:
        made, what = BotoTransport(client, reason=f"{_MOTO}, and boto3_client was passed"), "boto3_client"
    else:
        made = own_transport(session, region, url, reason=_MOTO, through_boto3=session is None)
        what = "the client of boto3" if session is None else "boto3_session"
    meta = made.client.meta
    if ".amazonaws." in meta.endpoint_url and not meta.config.proxies:
        asked = meta.events.emit("before-send.dynamodb.Anything", request=AWSRequest("GET", _ANYWHERE).prepare())
        if all(answer is None for _, answer in asked):
            if client is None:
                made.close()
            raise LockConfigurationError(
                f"{_MOTO}, but {what} was made before moto was imported, so its requests would reach AWS: make it "
                "inside of mock_aws(), or pass the client to moto.core.patch_client() first"
            )
    return made


def _refusal(error: failures.ClientError) -> Exception:
    response: Any = error.response
    metadata = response.get("ResponseMetadata", {})
    details = response.get("Error", {})
    status, retries = metadata.get("HTTPStatusCode", 0), metadata.get("RetryAttempts", 0)
    try:
        code, message = short(str(details.get("Code", ""))), str(details.get("Message", ""))
        fields = _from_boto(response)
    except RecursionError:
        return unusable(f"HTTP {status} with JSON that is nested too deep")
    if not 400 <= status < 500 or not _is_dynamodbs(metadata):
        return unusable(f"HTTP {status} {code[:80]!r}")
    if retries:
        return TransportError(
            True, f"refused after {retries} retries within boto3, one of which may have been carried out: {code}"
        )
    refused = refusal(code, message, fields, _date(metadata))
    if isinstance(refused, ServiceError) and is_skewed(code, refused.message):
        refused.retryable = False  # boto3 signs the next request with the same clock
    return refused


def _is_asynchronous(made: object) -> bool:
    return any(base.__module__.startswith(("aioboto3", "aiobotocore")) for base in type(made).__mro__)


def _check_answer(response_dict: dict[str, Any], **_: Any) -> None:
    # botocore compares checksums only if it may send again.
    expected = response_dict["headers"].get("x-amz-crc32")
    if expected is not None and expected != str(crc32(response_dict["body"])):
        raise unusable(f"x-amz-crc32 {expected} does not match its body")
    # botocore reads a body that is not JSON, or an error inside a 200, as an empty answer.
    status = response_dict["status_code"]
    try:
        fields = json.loads(response_dict["body"])
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or (status < 300 and "__type" in fields):
        raise unusable(f"HTTP {status} without readable JSON, or with an error inside")


def _is_dynamodbs(metadata: dict[str, Any]) -> bool:
    # botocore reads a proxy's welcome page as an empty answer, and a proxy's refusal as an error from DynamoDB.
    kind: str = metadata.get("HTTPHeaders", {}).get("content-type", "")
    if kind.startswith("application/x-amz-json"):
        return True
    return (not kind or kind.startswith("application/json")) and is_moto_active()  # moto before 5.2 names no type


def _date(metadata: dict[str, Any]) -> int | None:
    return http_date(metadata.get("HTTPHeaders", {}).get("date"))


def _to_boto(value: Any) -> Any:
    """Return the same request with bytes instead of base64 text. {"B": text} can only be a binary value, because
    attribute names map to dicts."""
    if isinstance(value, dict):
        if len(value) == 1:
            if isinstance(text := value.get("B"), str):
                return {"B": decode_data(text)}
            if isinstance(texts := value.get("BS"), list):
                return {"BS": [decode_data(text) for text in texts]}
        return {name: _to_boto(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_to_boto(inner) for inner in value]
    return value


def _from_boto(value: Any) -> Any:
    """Return the same answer as on the wire: base64 text instead of bytes, epoch seconds instead of datetimes."""
    if isinstance(value, dict):
        return {name: _from_boto(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_from_boto(inner) for inner in value]
    if isinstance(value, bytes):
        return encode_data(value)
    if isinstance(value, datetime):
        return value.timestamp()
    return value
