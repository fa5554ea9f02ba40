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

    from .boto import BotoTransport

MODULE = "moto.core.models"
_REASON = "moto's mock_aws() is active"
_ANYWHERE = "https://lambda-lock.amazonaws.com/"  # moto has an answer for every host of AWS, known or not


def is_active() -> bool:
    """Whether moto's mock_aws() is active, in any of its modes: in the process, as a server or as a proxy."""
    models = sys.modules.get(MODULE)
    stubber = getattr(models, "botocore_stubber", None)
    modes = (getattr(models, f"{mode}ModeMockAWS", None) for mode in ("Server", "Proxy"))
    return bool(getattr(stubber, "enabled", False)) or any(getattr(mode, "_nested_count", 0) > 0 for mode in modes)


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
