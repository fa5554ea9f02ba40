"""moto's mock_aws(), which answers boto3 within the process. A test that uses it must never reach AWS.

moto answers clients of boto3 that were made after it was imported. So while it is active every lock goes through boto3,
and a client that moto cannot answer is refused. Nothing here imports moto.
"""

from __future__ import annotations

import sys

from ..errors import LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.protocol import Hold
    from .boto import BotoTransport
    from .https import HttpsTransport

MODULE = "moto.core.models"
_TABLES = "moto.dynamodb.models"
_REASON = "moto's mock_aws() is active"
_ANYWHERE = "https://lambda-lock.amazonaws.com/"  # moto has an answer for every host of AWS, known or not


def is_active() -> bool:
    """Whether moto's mock_aws() is active, in any of its modes: in the process, as a server or as a proxy."""
    models = sys.modules.get(MODULE)
    stubber = getattr(models, "botocore_stubber", None)
    modes = (getattr(models, f"{mode}ModeMockAWS", None) for mode in ("Server", "Proxy"))
    return bool(getattr(stubber, "enabled", False)) or any(getattr(mode, "_nested_count", 0) > 0 for mode in modes)


class Mocked:
    """How moto answers a client.

    transport: sends to it. before: the holds that are not of its tables.
    """

    __slots__ = ("_tables", "before", "transport")

    def __init__(self, transport: HttpsTransport | BotoTransport, before: frozenset[Hold]) -> None:
        self.transport = transport
        self.before = before
        self._tables = _tables()

    def has_its_tables(self) -> bool:
        """Whether moto has the tables from which it answered. It makes the first of them at a request."""
        found = _tables()
        if self._tables is None:
            self._tables = found
        return found is self._tables


def _tables() -> object:
    """What moto keeps its tables in: another object after a reset, as at the next mock_aws(). None: not known."""
    backends = getattr(sys.modules.get(_TABLES), "dynamodb_backends", None)
    accounts = list(backends.values()) if isinstance(backends, dict) else []
    return accounts[0] if accounts else None


def transport(client: Any, session: Any, region: str | None, url: str | None) -> BotoTransport:
    """Return a transport whose requests moto answers, or that goes to an endpoint outside AWS, such as a local engine.

    client, session, region, url: what the user passed, None for what was not passed.

    Raises LockConfigurationError if the requests would reach AWS, or if there is no Region. Raises TypeError as
    BotoTransport does.
    """
    from .boto import BotoTransport, own_transport

    if client is not None:
        made = BotoTransport(client, reason=f"{_REASON}, and boto3_client was passed")
        _refuse_if_it_reaches_aws(client, "boto3_client")
        return made
    made = own_transport(session, region, url, reason=_REASON, through_boto3=session is None)
    try:
        _refuse_if_it_reaches_aws(made.client, "the client of boto3" if session is None else "boto3_session")
    except LockConfigurationError:
        made.close()
        raise
    return made


def _refuse_if_it_reaches_aws(client: Any, what: str) -> None:
    from botocore.awsrequest import AWSRequest

    meta = client.meta
    if ".amazonaws." not in meta.endpoint_url or meta.config.proxies:
        return
    asked = meta.events.emit("before-send.dynamodb.Anything", request=AWSRequest("GET", _ANYWHERE).prepare())
    if all(answer is None for _, answer in asked):
        raise LockConfigurationError(
            f"{_REASON}, but {what} was made before moto was imported, so its requests would reach AWS: make it inside "
            "of mock_aws(), or pass the client to moto.core.patch_client() first"
        )
