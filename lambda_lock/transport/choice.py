"""Which transport a client gets: HTTPS if the arguments and the environment say all that it needs, otherwise boto3.

In a test in which moto is active, boto3 sends everything (boto.py). Otherwise these are checked in order:

1. a boto3 client or session that was passed;
2. settings that only boto3 understands: a profile, a proxy, an endpoint with a path, or what the default profile says
   about endpoints and certificates;
3. the Region;
4. credentials in the environment, then those of a container, as in the SDKs.

A program's locks must be in the same place as its boto3 clients. So every setting that boto3 reads has the same meaning
here, or leads to boto3. One difference is deliberate: AWS_REGION comes before AWS_DEFAULT_REGION. Lambda sets the
first, and the other SDKs read it, but boto3 reads only the second.
"""

from __future__ import annotations

import logging  # the Lambda runtime has it loaded
import os
import sys

from ..errors import LockArgumentError, LockConfigurationError
from . import endpoint as endpoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .boto import BotoTransport
    from .credentials import CredentialSource
    from .https import HttpsTransport

_CONTAINER = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
#: The settings in the default profile that say where DynamoDB is, and which certificates to trust.
_SETTINGS = frozenset(
    {
        "account_id_endpoint_mode",
        "ca_bundle",
        "endpoint_url",
        "ignore_configured_endpoint_urls",
        "services",
        "use_dualstack_endpoint",
        "use_fips_endpoint",
    }
)
#: The SDKs' files.
_FILES = (("AWS_CONFIG_FILE", "~/.aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
#: Variables that only boto3 understands. Also an empty profile is one, which does not exist.
_VARIABLES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_DATA_PATH", "BOTOCORE_EXPERIMENTAL__PLUGINS")


def choose(
    *,
    region_name: str | None = None,
    endpoint_url: str | None = None,
    boto3_client: Any = None,
    boto3_session: Any = None,
    now: Callable[[], float],
    logger: logging.Logger | None = None,
) -> HttpsTransport | BotoTransport:
    """Return the transport for these arguments and this environment. Nothing is sent.

    region_name: the Region; None: as the environment says.
    endpoint_url: the endpoint's URL; None: as the environment says, or else the Region's own.
    boto3_client: a DynamoDB client to use as it is.
    boto3_session: a boto3.Session to make a client from.
    now: returns the time to sign with, in epoch seconds.
    logger: logs the choice at DEBUG; None: the logger ``lambda_lock``.

    The transport's ``name`` and ``reason`` say which one was chosen, and why.

    Raises LockConfigurationError if the Region or the credentials are missing, if the endpoint cannot be used, or if
    boto3 is needed but not installed. Raises LockArgumentError for arguments that exclude each other, and TypeError for
    arguments of the wrong type.

    Example::

        transport = choose(region_name="eu-west-1", now=time.time)
    """
    logger = logger or logging.getLogger("lambda_lock")
    if boto3_client is not None:
        others = {"boto3_session": boto3_session, "region_name": region_name, "endpoint_url": endpoint_url}
        for name, value in others.items():
            if value is not None:
                is_text = isinstance(value, str)
                shown = repr(endpoints.without_user(value)) if is_text else endpoints.without_password(repr(value))
                raise LockArgumentError(
                    f"{name}={shown} cannot be passed together with boto3_client, "
                    "which has its own: make that client with it"
                )
    transport: HttpsTransport | BotoTransport | None = None
    if "moto.core.models" in sys.modules:
        from . import boto  # moto has loaded boto3

        if boto.is_moto_active():
            transport = boto.transport_to_moto(boto3_client, boto3_session, region_name, endpoint_url)
    if transport is None:
        region = None if boto3_client is not None else endpoints.region(region_name, os.environ)
        if boto3_client is not None:
            found: HttpsTransport | str = "boto3_client was passed"
        elif boto3_session is not None:
            found = "boto3_session was passed"
            if region_name is None and getattr(boto3_session, "region_name", None):
                region = None  # the session has its own
        else:
            found = _https(region, endpoint_url, now, logger)
        transport = _boto(found, boto3_client, boto3_session, region, endpoint_url) if isinstance(found, str) else found
    logger.debug("transport %s: %s", transport.name, transport.reason, extra={"lock_transport": transport.name})
    return transport


def load(*, region_name: str | None, endpoint_url: str | None, boto3: bool) -> None:
    """Load the modules of the transport, and make nothing of them: no random number, secret or connection.

    region_name, endpoint_url: as for choose. boto3: whether a boto3 client or session was passed. If only the
    environment asks for boto3, boto3 is not loaded.

    Raises LockConfigurationError if the Region or the endpoint cannot be used.
    """
    if boto3:
        from . import boto  # noqa: F401

        return
    from . import credentials, https  # noqa: F401

    url = endpoints.configured_url(endpoint_url, os.environ)
    region = endpoints.region(region_name, os.environ)
    if region and endpoints.Endpoint(endpoints.resolve(region, url, os.environ)).tls:
        import ssl  # noqa: F401


def _https(
    region: str | None, endpoint_url: str | None, now: Callable[[], float], logger: logging.Logger
) -> HttpsTransport | str:
    """Return the transport that needs no boto3, or why boto3 is needed."""
    environ = os.environ
    url = endpoints.configured_url(endpoint_url, environ)
    reason = _setting_of_boto(region, url)
    if reason:
        return reason
    if region is None:
        return f"there is no Region in the arguments or environment (AWS_REGION){endpoints.empty_region(environ)}"
    endpoint = endpoints.Endpoint(endpoints.resolve(region, url, environ))
    if endpoint.path != "/":
        return f"the endpoint at {endpoint.authority} has a path"
    proxy = proxy_variable(endpoint, environ)
    if proxy:
        return f"{proxy} is set"
    from .credentials import ContainerCredentials, EnvironmentCredentials
    from .https import HttpsTransport

    source: CredentialSource
    # If one of the two is missing, the first use raises an error.
    if environ.get("AWS_ACCESS_KEY_ID") or environ.get("AWS_SECRET_ACCESS_KEY"):
        source, origin = EnvironmentCredentials(environ), "AWS_ACCESS_KEY_ID"
    else:
        origin = next((name for name in _CONTAINER if name in environ), "")
        if not environ.get(origin) or _earlier(environ):
            return "there are no credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        source = ContainerCredentials(environ, logger)
    return HttpsTransport(region, endpoint.url, source, now, reason=f"Region and credentials are known ({origin})")


def _setting_of_boto(region: str | None, url: str | None) -> str:
    """Return a setting that only boto3 understands, or "" if there is none."""
    environ = os.environ
    for name in _VARIABLES:
        if name in environ:
            return f"{name} is set"
    mode = environ.get("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")
    if mode.lower() not in ("preferred", "disabled"):
        return f"AWS_ACCOUNT_ID_ENDPOINT_MODE is {mode or 'empty'}"
    # boto3 does not put such a name into a host name. With a URL, `local` is only used for signing.
    if region and ("fips" in region or (region == "local" and not url)):
        return f"boto3 maps the Region {region} to another endpoint"
    if region and not url and endpoints.is_dualstack(environ) and "-iso" in region:
        return f"boto3 knows whether {region} has a dual-stack endpoint"
    config, credentials = _paths(environ)
    if not (os.path.isfile(config) or os.path.isfile(credentials)):  # the usual case
        return ""
    from . import profile

    return profile.setting(config, credentials, _SETTINGS)


def _earlier(environ: Mapping[str, str]) -> bool:
    """Whether there may be credentials in a place where boto3 looks before it asks a container's endpoint."""
    old = [environ["BOTO_CONFIG"]] if "BOTO_CONFIG" in environ else ["/etc/boto.cfg", "~/.boto"]
    return (
        bool(environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"))
        or "AWS_CREDENTIAL_FILE" in environ
        or any(map(os.path.isfile, [*_paths(environ), *map(_expanded, old)]))
    )


def _paths(environ: Mapping[str, str]) -> list[str]:
    """Return the paths of the SDKs' files. If a variable is empty, there is no such file."""
    return [_expanded(environ.get(variable, usual)) for variable, usual in _FILES]


def _expanded(path: str) -> str:
    return os.path.expanduser(os.path.expandvars(path))


def proxy_variable(endpoint: endpoints.Endpoint, environ: Mapping[str, str]) -> str | None:
    """Return the variable that names a proxy for this endpoint, or None. NO_PROXY may exempt the host."""
    scheme = "https" if endpoint.tls else "http"
    found = _spelling(f"{scheme}_proxy", environ)
    if found is None:
        return None
    exceptions = _spelling("no_proxy", environ)
    excepted = environ[exceptions] if exceptions else ""
    if excepted == "*":
        return None
    for name in excepted.lower().split(","):
        name = name.strip().lstrip(".")
        if name and any(f".{host}".endswith(f".{name}") for host in (endpoint.host, endpoint.authority)):
            return None
    return found


def _spelling(name: str, environ: Mapping[str, str]) -> str | None:
    """Return which spelling of a proxy's variable counts, or None, as urllib.request.getproxies_environment.

    One with "_proxy" in lower case comes first. If it is empty, it switches the others off. Of two alike, the last
    counts.
    """
    spellings = [spelling for spelling in environ if spelling.lower() == name]
    found = next((spelling for spelling in reversed(spellings) if environ[spelling]), None)
    if name == "http_proxy" and "REQUEST_METHOD" in environ:  # under CGI, a header can set HTTP_PROXY
        found = None
    for spelling in spellings:
        if spelling.endswith("_proxy"):
            found = spelling if environ[spelling] else None
    return found


def _boto(reason: str, client: Any, session: Any, region: str | None, url: str | None) -> BotoTransport:
    try:
        from .boto import BotoTransport, own_transport
    except ModuleNotFoundError as error:
        if error.name not in ("boto3", "botocore"):
            raise
        raise LockConfigurationError(
            f"{reason}: this needs boto3, which is not installed. Either install lambda-lock[boto3], or set "
            "AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary keys) in an "
            "environment without a profile, a proxy or the like"
        ) from error
    if client is not None:
        return BotoTransport(client, reason=reason)
    return own_transport(session, region, url, reason=reason)
