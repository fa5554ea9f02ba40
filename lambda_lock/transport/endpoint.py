"""Where DynamoDB is: the Region and the URL, from arguments and environment, as in the AWS SDKs.

An argument takes precedence over the environment, and AWS_ENDPOINT_URL_DYNAMODB over AWS_ENDPOINT_URL. An empty
variable counts as unset. A switch is on if it is "true" in any case, and nothing else, as in botocore. Endpoints that
name an account are used only if AWS_ACCOUNT_ID_ENDPOINT_MODE requires them, and then through boto3. The Region's
endpoint serves every account.
"""

from __future__ import annotations

import re  # the Lambda runtime has it loaded

from ..errors import LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Partitions by the prefix of their Regions' names: the DNS suffix, and the one for dual-stack. All others are `aws`.
#: What follows the prefix is a word and a number, as in the expressions of botocore's partitions.json.
_PARTITIONS = (
    ("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("eusc-de-", "amazonaws.eu", "api.amazonwebservices.eu"),
    ("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    ("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    ("", "amazonaws.com", "api.aws"),
)
_DIGITS = "0123456789"
_HEXADECIMAL = f"{_DIGITS}abcdef"
_WORD = f"{_DIGITS}abcdefghijklmnopqrstuvwxyz_"


def without_password(text: str) -> str:
    """Return ``text`` without the user name and password of a URL in it, for use in an error."""
    return re.sub("//.*@", "//…@", text, flags=re.DOTALL)


def without_user(url: str) -> str:
    """Return an endpoint for use in an error: without what is before an "@" in it, though it may not be a URL."""
    return re.sub("^(https?://)?.*@", r"\1…@", url, flags=re.DOTALL)


class Endpoint:
    """The parts of a URL. ``host`` has no port or brackets, ``authority`` is as in the Host header, and ``path`` is "/"
    by default."""

    __slots__ = ("authority", "host", "path", "port", "tls", "url")

    def __init__(self, url: str) -> None:
        """Raises LockConfigurationError if the URL is not ``http(s)://host[:port][/path]``.

        Raises TypeError if it is not a str.
        """
        if not isinstance(url, str):
            raise TypeError(f"endpoint_url must be a str such as 'https://host:8000', not {type(url).__name__}")
        parts = _parts(url)
        if parts is None:
            raise LockConfigurationError(
                f"the endpoint URL {without_user(url)!r} cannot be used: it must be http(s)://host or "
                "http(s)://host:port, without a user name. Correct endpoint_url, AWS_ENDPOINT_URL_DYNAMODB or "
                "AWS_ENDPOINT_URL"
            )
        self.url = url
        self.tls, name, port, self.path = parts
        self.host = name.strip("[]")
        default = 443 if self.tls else 80
        self.port = port or default
        self.authority = name if self.port == default else f"{name}:{self.port}"


def _parts(url: str) -> tuple[bool, str, int | None, str] | None:
    """Whether a URL is https, its host (IPv6 in brackets), port and path. None: it cannot be used.

    Without regular expressions: compiling this one took a hundredth of INIT.
    """
    scheme, _, rest = url.lower().partition("://")
    authority, slash, path = rest.partition("/")
    address, bracket, port = authority.rpartition("]")
    if bracket:
        host, is_host = f"{address}]", address[:1] == "[" and _has_only(address[1:], _HEXADECIMAL + ":.")
        is_host = is_host and port[:1] in ("", ":")
    else:
        host, colon, port = authority.partition(":")
        is_host = _has_only(host, _WORD + ".-") and host[0] in _WORD and host.removesuffix(".")[-1] in _WORD
        port = colon + port
    is_port = not port or (len(port) <= 6 and _has_only(port[1:], _DIGITS) and 0 < int(port[1:]) < 65536)
    is_text = url.isascii() and url.isprintable() and " " not in path
    if scheme not in ("http", "https") or not (is_host and is_port and is_text):
        return None
    return scheme == "https", host, int(port[1:]) if port else None, slash + url[len(url) - len(path) :] or "/"


def _has_only(text: str, characters: str) -> bool:
    """Whether a text has no other characters, and at least one."""
    return bool(text) and not text.strip(characters)


def region(argument: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the Region: the argument, AWS_REGION, AWS_DEFAULT_REGION, or None.

    Raises LockConfigurationError if it is not a valid host label, because it becomes part of a host name. Raises
    TypeError if it is not a str.
    """
    name = argument or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if not name:
        return None
    if not isinstance(name, str):
        raise TypeError(f"region_name must be a str such as 'eu-west-1', not {type(name).__name__}")
    # It must be a label of a host name (RFC 1123). Compiling an expression for this would take 0.1 ms.
    if len(name) > 63 or not name.isascii() or "-" in (name[0], name[-1]) or not name.replace("-", "").isalnum():
        raise LockConfigurationError(
            f"{name!r} cannot be the name of a Region (such as eu-west-1): correct region_name, AWS_REGION or "
            "AWS_DEFAULT_REGION"
        )
    return name


def empty_region(environ: Mapping[str, str]) -> str:
    """Say which Region variable is set but empty, or return "". For errors about a missing Region."""
    return "".join(
        f"; {name} is set, but empty" for name in ("AWS_REGION", "AWS_DEFAULT_REGION") if environ.get(name) == ""
    )


def configured_url(argument: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the endpoint URL from the argument or the environment, or None."""
    if argument or _is_true(environ, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        return argument or None
    return environ.get("AWS_ENDPOINT_URL_DYNAMODB") or environ.get("AWS_ENDPOINT_URL") or None


def resolve(region_name: str, url: str | None, environ: Mapping[str, str]) -> str:
    """Return the URL to use for a Region: the configured one, or else AWS's own.

    AWS_USE_FIPS_ENDPOINT and AWS_USE_DUALSTACK_ENDPOINT choose among AWS's own.

    Raises LockConfigurationError if a URL is configured together with one of these two, as the SDKs do. Raises it too
    if there is no URL and the name does not look like a Region's, because the resulting host would not be DynamoDB's.
    """
    fips, dualstack = "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"
    if not url and not _is_region(region_name):
        raise LockConfigurationError(
            f"{region_name!r} is not the name of a Region (such as eu-west-1): correct region_name, AWS_REGION or "
            "AWS_DEFAULT_REGION, or set the endpoint as well (endpoint_url, AWS_ENDPOINT_URL)"
        )
    if not url:
        suffix, dual_suffix = next(row[1:] for row in _PARTITIONS if not row[0] or _is_in(region_name, row[0]))
        is_dual = is_dualstack(environ)
        # GovCloud's plain endpoint is its FIPS endpoint. With dual-stack, the name is the same as everywhere else.
        plain = not _is_true(environ, fips) or (_is_in(region_name, "us-gov-") and not is_dual)
        service = "dynamodb" if plain else "dynamodb-fips"
        return f"https://{service}.{region_name}.{dual_suffix if is_dual else suffix}"
    for name in (fips, dualstack):
        if _is_true(environ, name):
            raise LockConfigurationError(
                f"{name} cannot be used together with the endpoint {without_user(url)!r}: unset one of them"
            )
    return url


def is_dualstack(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for AWS's dual-stack endpoints."""
    return _is_true(environ, "AWS_USE_DUALSTACK_ENDPOINT")


def _is_in(region_name: str, prefix: str) -> bool:
    return region_name.startswith(prefix) and region_name.count("-") == prefix.count("-") + 1


def _is_true(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() == "true"


def _is_region(name: str) -> bool:
    """Whether a text has the form of a Region's name, such as eu-west-1 or us-gov-west-1."""
    *words, number = name.split("-")
    of_letters = name.isascii() and name.islower() and all(map(str.isalpha, words))
    return of_letters and len(words) >= 2 and len(words[0]) >= 2 and number.isdigit()
