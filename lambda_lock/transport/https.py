"""DynamoDB over HTTPS, with the standard library alone: the fast way if credentials are available without boto3."""

from __future__ import annotations

import hashlib  # 2.3 ms, nearly all of it for OpenSSL's libcrypto, which TLS needs as well
import hmac  # 0.2 ms on top of hashlib
import json  # the Lambda runtime has it loaded
import time
import zlib  # built in
from functools import lru_cache  # the Lambda runtime has it loaded

from .. import __version__
from ..core.outcome import EXPIRED, Reply, ServiceError, TransportError, expected, unusable
from ..errors import LockConfigurationError
from . import endpoint as endpoints
from .answers import http_date, refusal, result, short
from .http1 import ANSWER_TIMEOUT, Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .credentials import Credentials, CredentialSource
    from .http1 import Answer

#: The operations of locks. Pages of a Scan and operations on tables may take longer than ANSWER_TIMEOUT.
_QUICK = ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")
_JSON = "application/x-amz-json-1.0"  # the type of every request to DynamoDB, and of every answer
# json.dumps would make an encoder for each request. No request contains itself: what an application gives is copied.
_to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_from_json = json.JSONDecoder().decode  # json.loads would look for options and a byte order mark first
# The signing key depends on the day, the Region and the secret. One entry is enough, because a process uses one of each
# at a time. The entry is replaced as a whole, so threads need no lock.
_last_key: tuple[tuple[str, str, str], bytes] = ("", "", ""), b""


class HttpsTransport:
    """Sends one signed request at a time for each thread, over connections that are kept open.

    region: the Region to sign for.
    endpoint: ``https://host[:port]``, or http for a local engine.
    credentials: a Credentials, or another source from transport.credentials.
    now: returns the time to sign with, in epoch seconds. A caller that knows DynamoDB's time better than the local
        clock does can pass that.
    reason: why this transport was chosen, for the log.

    Nothing is sent or opened before the first ``send``. Certificates are loaded then, or by ``prepare``.

    Raises LockConfigurationError if the Region or the endpoint cannot be used.

    Example::

        credentials = Credentials("AKIA…", "secret")
        HttpsTransport("eu-west-1", "https://dynamodb.eu-west-1.amazonaws.com", credentials)
    """

    name = "https"

    def __init__(
        self,
        region: str,
        endpoint: str,
        credentials: CredentialSource,
        now: Callable[[], float] = time.time,
        *,
        reason: str = "it was passed by the caller",
    ) -> None:
        self.reason = reason
        self.region = endpoints.region(region, {}) or ""
        self.endpoint = endpoints.Endpoint(endpoint)
        if not self.region:
            raise LockConfigurationError("no Region was passed: pass one such as 'eu-west-1'")
        if self.endpoint.path != "/":
            raise LockConfigurationError(
                f"the endpoint at {self.endpoint.authority} has a path, which only boto3 supports: pass boto3_client"
            )
        self.signed_with = getattr(credentials, "origin", "")
        self._credentials = credentials
        self._now = now
        self._pool = Pool(self.endpoint)
        self._answered = False

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        """Send one request, once.

        operation: DynamoDB's name for the operation, such as "UpdateItem".
        request: the parameters as DynamoDB JSON.
        timeout: the time for everything, in seconds, including connecting. On a connection that is open already, the
            answer to an operation on items (not Scan or Query) may take at most ANSWER_TIMEOUT (1 s).

        Returns a Reply. Its ``item`` is the item of a GetItem, or the attributes that a PutItem, UpdateItem or
        DeleteItem returned. For every other operation it is the whole answer.

        Raises ConditionFailed, TransactionCanceled or ServiceError if DynamoDB refuses the request. Raises
        TransportError if there is no usable answer; it is ``ambiguous`` unless no byte was sent. Raises
        LockConfigurationError if there are no credentials, if the endpoint's certificate is not trusted, and if its
        host does not exist and never answered (unresolved.py).
        """
        try:
            return self._send(operation, request, timeout)
        except expected(LockConfigurationError) as error:
            error.is_unsent = True  # no answer leads to one
            raise

    def _send(self, operation: str, request: dict[str, Any], timeout: float) -> Reply:
        deadline = time.monotonic() + timeout
        body = _to_json(request).encode()
        now = self._now()
        headers = (
            ("Host", self.endpoint.authority),
            ("Content-Type", _JSON),
            ("X-Amz-Target", f"DynamoDB_20120810.{operation}"),
        )
        credentials = self._credentials.get(now, deadline)
        lines = signed(headers, body, credentials=credentials, region=self.region, now=now)
        head = f"POST / HTTP/1.1\r\n{lines}User-Agent: lambda-lock/{__version__}\r\nContent-Length: {len(body)}\r\n\r\n"
        answer_timeout = min(timeout, ANSWER_TIMEOUT) if operation in _QUICK else timeout
        try:
            answer = self._pool.exchange(head.encode("ascii") + body, deadline, answer_timeout)
        except expected(TransportError) as error:
            if not self._answered:
                from .unresolved import refuse_unknown_host

                refuse_unknown_host(error, self.endpoint.host)
            raise
        self._answered = True
        try:
            return _read(operation, answer)
        except ServiceError as error:
            if error.code in EXPIRED and self._credentials.expire():  # the next send uses new credentials
                raise ServiceError(error.code, error.message, True, error.date) from None
            raise

    def prepare(self) -> None:
        """Load the certificates, which the first connection needs. Nothing is sent or opened.

        Raises LockConfigurationError if the bundle that the environment names cannot be read.
        """
        self._pool.prepare()

    def close(self) -> None:
        """Close the idle connections. Sending still works afterwards, over a connection that is not kept."""
        self._pool.close()


def _read(operation: str, answer: Answer) -> Reply:
    status, headers, content = answer
    date, kind = http_date(headers.get("date")), headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != _JSON:  # a gateway, a proxy's page, another service
        raise unusable(f"HTTP {status} did not come from DynamoDB: its Content-Type is {kind[:80]!r}")
    checksum = headers.get("x-amz-crc32")
    if checksum is not None and checksum != str(zlib.crc32(content)):
        raise unusable(f"HTTP {status} with an x-amz-crc32 that does not match its body")
    try:
        body = _from_json(content.decode())
    except expected(ValueError, RecursionError):  # RecursionError: nested too deep
        raise unusable(f"HTTP {status} without readable JSON") from None  # the error contains the answer
    if not isinstance(body, dict):
        raise unusable(f"HTTP {status} with JSON that is not an object")
    code = short(str(body.get("__type") or headers.get("x-amzn-errortype") or ""))
    if status == 200 and not code:
        return Reply(result(operation, body), date)
    if not 400 <= status < 500 or not code:  # an error inside a 200 does not come from DynamoDB either
        raise unusable(f"HTTP {status} {code[:80]!r}")
    # DynamoDB Local names the text of some errors "Message".
    raise refusal(code, str(body.get("message") or body.get("Message") or ""), body, date)


def signed(
    headers: tuple[tuple[str, str], ...], body: bytes, *, credentials: Credentials, region: str, now: float
) -> str:
    """Return the lines of ``headers``, and of those that sign a POST to "/": X-Amz-Date, X-Amz-Security-Token if there
    is a token, Authorization.

    This is AWS Signature Version 4 for a path without a query. DynamoDB's protocol needs no more. Source:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html

    headers: all headers to sign, including Host.
    now: the time of the signature, in epoch seconds.
    """
    global _last_key
    moment = _moment(int(now))
    lines, token_line, before, after, names = _around_time(headers, credentials.token)
    canonical = f"{before}{moment}{after}{hashlib.sha256(body).hexdigest()}"
    day = moment[:8]
    scope = f"{day}/{region}/dynamodb/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    derived_from, key = _last_key
    if derived_from != (credentials.secret_key, day, region):
        derived_from, key = (credentials.secret_key, day, region), f"AWS4{credentials.secret_key}".encode()
        for part in (day, region, "dynamodb", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        _last_key = derived_from, key
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return (
        f"{lines}X-Amz-Date: {moment}\r\n{token_line}Authorization: AWS4-HMAC-SHA256 "
        f"Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}\r\n"
    )


@lru_cache(maxsize=1)  # a lock is often taken and released within a second
def _moment(second: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))


@lru_cache(maxsize=8)  # a client sends few operations, and each with the same headers until its token changes
def _around_time(headers: tuple[tuple[str, str], ...], token: str | None) -> tuple[str, str, str, str, str]:
    """Return what is the same in each request with these headers: their lines, and that of the token; what stands
    before the time in a canonical request, and between it and the body's hash; the names of the signed headers."""
    of_token = (("X-Amz-Security-Token", token),) if token else ()
    lines, token_line = ("".join([f"{name}: {value}\r\n" for name, value in part]) for part in (headers, of_token))
    every = (*headers, ("X-Amz-Date", ""), *of_token)
    canonical = sorted([(name.lower(), " ".join(value.split())) for name, value in every])
    names = ";".join([name for name, _ in canonical])
    at = [name for name, _ in canonical].index("x-amz-date")
    parts = canonical[:at], canonical[at + 1 :]
    before, after = ("".join([f"{name}:{value}\n" for name, value in part]) for part in parts)
    return lines, token_line, f"POST\n/\n\n{before}x-amz-date:", f"\n{after}\n{names}\n", names
