"""Credentials that need no boto3: passed directly, from the environment, or from a container endpoint.

Each source has two methods. ``get(now, deadline)`` returns the Credentials to sign with. ``expire()`` is called when
DynamoDB says that they have expired, and returns whether the next ``get`` may find new ones.
"""

from __future__ import annotations

import json  # the Lambda runtime has it loaded
import os
import re  # the Lambda runtime has it loaded
import threading  # the Lambda runtime has it loaded, through logging
import time

from ..core.outcome import expected
from ..errors import LockConfigurationError, TransportError
from .answers import epoch
from .endpoint import Endpoint
from .http1 import WHOLE, Connection, Trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from logging import Logger
    from typing import Protocol

    class CredentialSource(Protocol):
        def get(self, now: float, deadline: float) -> Credentials: ...
        def expire(self) -> bool: ...


_EARLY = 600.0  # seconds before their expiry at which new credentials are fetched
_PAUSE = 30.0  # seconds between two tries while the old credentials are still valid
_RELATIVE_HOST = "http://169.254.170.2"  # the ECS agent
_PLAIN_HOSTS = ("localhost", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23")  # need no TLS

# RFC 3339, as credential endpoints write it ("2026-11-21T04:49:13Z", "2026-11-21T04:49:13.250+00:00").
_ISO = r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):?(\d\d))"


class Credentials:
    """An access key as it was passed. It is its own credential source: it does not change or expire.

    access_key, secret_key: the two parts of the key.
    token: the session token of temporary credentials; None for a permanent key.

    Raises LockConfigurationError if one of them is empty, or contains a space or a line break (badly copied).

    Example::

        Credentials("AKIA…", "secret")
    """

    __slots__ = ("access_key", "secret_key", "token")

    def __init__(self, access_key: str, secret_key: str, token: str | None = None) -> None:
        for name, value in (("access key", access_key), ("secret key", secret_key), ("session token", token or "-")):
            if not value or not (value.isascii() and value.isprintable()) or " " in value:
                raise LockConfigurationError(
                    f"the {name} is empty, or contains a space, a line break or the like: correct it"
                )
        self.access_key = access_key
        self.secret_key = secret_key
        self.token = token or None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, …)"

    def get(self, now: float, deadline: float) -> Credentials:
        """Return the credentials to sign with. The arguments ``now`` and ``deadline`` are for other sources."""
        return self

    def expire(self) -> bool:
        """Return False: there are no newer credentials than these."""
        return False


class EnvironmentCredentials:
    """AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, read again for each request. They are checked
    when they have changed.

    As in botocore, the token's old name AWS_SECURITY_TOKEN takes precedence.
    """

    __slots__ = ("_environ", "_last")
    origin = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._last: tuple[tuple[str, str, str | None], Credentials] | None = None  # what was read, and what it made

    def get(self, now: float, deadline: float) -> Credentials:
        """Return the credentials. Raises LockConfigurationError if one of the two keys is missing by now."""
        get = self._environ.get
        access_key, secret_key = get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")
        if not access_key or not secret_key:
            missing = "AWS_SECRET_ACCESS_KEY" if access_key else "AWS_ACCESS_KEY_ID"
            raise LockConfigurationError(f"{missing} is not set: set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        read = access_key, secret_key, get("AWS_SECURITY_TOKEN") or get("AWS_SESSION_TOKEN")
        last = self._last  # replaced as a whole, so threads need no lock
        if last is None or last[0] != read:
            self._last = last = read, Credentials(*read)
        return last[1]

    def expire(self) -> bool:
        return False


class ContainerCredentials:
    """The endpoint of ECS, EKS Pod Identity, Greengrass and SnapStart. New credentials are fetched ten minutes before
    the old ones expire.

    The endpoint's address and authorization are read from the environment at each fetch. Only one thread fetches. The
    others use the old credentials while these are valid.
    """

    origin = "the role of the container or task, whose credentials the container endpoint provides"

    def __init__(self, environ: Mapping[str, str] = os.environ, logger: Logger | None = None) -> None:
        self._environ = environ
        self._logger = logger
        self._current: tuple[Credentials, float] | None = None  # with their expiry in epoch seconds
        self._asked = 0.0  # monotonic
        self._pid = os.getpid()
        self._asking = threading.Lock()

    def get(self, now: float, deadline: float) -> Credentials:
        """Return the credentials.

        now: the time in epoch seconds.
        deadline: when to stop waiting, on time.monotonic().

        If the old credentials have expired, raises LockConfigurationError if the endpoint refuses or its settings
        cannot be used, and TransportError(ambiguous=False) if it cannot be reached.
        """
        current = self._current
        if current and now < current[1] - _EARLY:
            return current[0]
        good = current if current and now < current[1] else None  # still valid
        if good and time.monotonic() < self._asked + _PAUSE:
            return good[0]
        if self._pid != os.getpid():  # the lock may have been held when this process was forked
            self._pid, self._asking = os.getpid(), threading.Lock()
        if not self._asking.acquire(timeout=0 if good else max(0.0, deadline - time.monotonic())):
            if good:
                return good[0]
            raise TransportError(False, "another thread was still fetching the credentials: nothing was sent")
        try:
            if self._current is not current and self._current:  # fetched while this thread waited
                return self._current[0]
            self._asked = time.monotonic()
            fetched = self._fetch(deadline)
            if fetched[1] <= now:
                raise LockConfigurationError("the credentials that the container endpoint returned have expired")
            self._current = fetched
            return fetched[0]
        except expected(LockConfigurationError, TransportError) as error:
            if not good:
                raise
            if self._logger:
                self._logger.warning(
                    "credentials could not be refreshed; the current ones expire in %d s: %s", good[1] - now, error
                )
            return good[0]
        finally:
            self._asking.release()

    def expire(self) -> bool:
        self._current = None
        return True

    def _fetch(self, deadline: float) -> tuple[Credentials, float]:
        environ = self._environ
        relative = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = _RELATIVE_HOST + relative if relative else environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
        endpoint = Endpoint(url)
        where = endpoint.url.partition("?")[0]
        octets = endpoint.host.split(".")
        is_loopback = octets[0] == "127" and len(octets) == 4 and all(octet.isdigit() for octet in octets)
        if not (endpoint.tls or is_loopback or endpoint.host in _PLAIN_HOSTS):
            raise LockConfigurationError(
                f"AWS_CONTAINER_CREDENTIALS_FULL_URI is {where}: use https, or http to this machine or an address of "
                f"ECS or EKS ({', '.join(_PLAIN_HOSTS)})"
            )
        head = f"GET {endpoint.path} HTTP/1.1\r\nHost: {endpoint.authority}\r\n"
        head += "Accept: application/json\r\nConnection: close\r\n"
        token = _authorization(environ)
        if token:
            head += f"Authorization: {token}\r\n"
        unsent = f"no credentials from {where}, nothing was sent to DynamoDB"
        context = Trust(environ, WHOLE).context if endpoint.tls else None
        try:
            connection = Connection(endpoint, context, deadline)
            try:
                status, _, body = connection.exchange(f"{head}\r\n".encode("ascii"), deadline)
            finally:
                connection.close()
        except expected(TransportError) as error:
            raise TransportError(False, f"{unsent}: {error}") from error
        if status >= 500 or status == 429:
            raise TransportError(False, f"{unsent}: HTTP {status}")
        if status != 200:
            raise LockConfigurationError(f"{where} refused to provide credentials: HTTP {status}")
        try:
            fields = json.loads(body)
            ends = iso_date(fields["Expiration"])
            if ends is None:
                raise ValueError("Expiration is not a date")
            return Credentials(fields["AccessKeyId"], fields["SecretAccessKey"], fields.get("Token")), ends
        except expected(ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # Neither the error nor its text is passed on: they contain the answer, which may be secret.
            raise LockConfigurationError(
                f"the answer of {where} is not JSON with AccessKeyId, SecretAccessKey and Expiration "
                f"({type(error).__name__}): check AWS_CONTAINER_CREDENTIALS_FULL_URI"
            ) from None


def _authorization(environ: Mapping[str, str]) -> str:
    """Return the container's authorization token, or "" if there is none."""
    path = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if path is not None:  # an empty one is no file, and not the leave to use the other variable
        try:
            with open(path, encoding="utf-8") as file:
                token = file.read()
        except expected(OSError) as error:
            raise LockConfigurationError(f"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read: {error}") from error
        except expected(UnicodeError):  # it is not passed on: it contains the token
            raise LockConfigurationError("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is not UTF-8: correct it") from None
    else:
        token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if token and not (token.isascii() and token.isprintable()):
        raise LockConfigurationError("the container's authorization token contains a line break or such: correct it")
    return token


def iso_date(text: str) -> int | None:
    """Return the epoch seconds of an RFC 3339 time without fractions, or None if it cannot be read."""
    match = re.fullmatch(_ISO, text, re.ASCII)
    if not match:
        return None
    seconds = epoch(*(int(match[group]) for group in range(1, 7)))
    if seconds is None or not match[7]:
        return seconds
    offset = int(match[8]) * 3600 + int(match[9]) * 60
    return seconds - offset if match[7] == "+" else seconds + offset
