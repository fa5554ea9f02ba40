"""Tells a host that does not exist, a mistake in the configuration, from one whose address cannot be had right now.

A name look-up can fail in two ways, and getaddrinfo says which:

- EAI_NONAME: a name server answered that there is no such name (NXDOMAIN). A Region or an endpoint is written wrongly,
  or the name cannot be looked up from here. Trying again would not help, so it is a LockConfigurationError.
- Everything else is an outage: EAI_AGAIN (no name server answered, or it had trouble), EAI_FAIL, and EAI_NODATA. The
  last one is a name that exists without an address, as in the outage of DynamoDB in us-east-1 in October 2025.

A transport asks here only before its first answer. A host that has answered this process does exist: whatever happens
to its name afterwards is an outage.
"""

from __future__ import annotations

import os
import socket

from ..errors import LockConfigurationError
from .endpoint import without_password

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_URLS = ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL")


def refuse_unknown_host(error: BaseException | None, host: str) -> None:
    """Raise LockConfigurationError if a request could not be sent because ``host`` does not exist.

    error: why nothing was sent, as the layer below raised it. host: the endpoint's or the proxy's. The text names the
        variable that it comes from.
    """
    while error is not None and not isinstance(error, OSError):  # no further: the rest may be the application's errors
        error = error.__cause__ or error.__context__
    if not isinstance(error, socket.gaierror) or error.errno != socket.EAI_NONAME:
        return
    named = [f"{name}={value}" for name in _REGIONS if (value := os.environ.get(name, "").lower()) and value in host]
    urls = [*_URLS, *(name for name in os.environ if name.lower().endswith("_proxy"))]
    named += [name for name in urls if host in os.environ.get(name, "").lower()]  # without its value: a password
    written = [*named, "region_name or endpoint_url, the boto3 session or the profile"][0]
    raise LockConfigurationError(
        f"there is no host {without_password(host)!r}, so nothing was sent: correct the Region or the endpoint in "
        f"{written}. If it is right, its name cannot be looked up from here: check the name servers"
    ) from error
