"""Whom TLS trusts: the certificates of AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE, or the system's (SSL_CERT_FILE,
SSL_CERT_DIR).

Loading a system's 140 certificates costs 20 ms, more than all the rest on the way to the first lock, and DynamoDB's
certificates are signed by a few of Amazon's. So those that bear Amazon's names are taken out of the system's file
first; where they do not do (another endpoint, a proxy that opens TLS), the whole is loaded and the connection is made
once more. Nothing is ever trusted that the system does not trust: the names only choose among its certificates.
"""

from __future__ import annotations

import ssl  # 3 ms, with the first TLS connection
from binascii import a2b_base64

from ..errors import LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# https://www.amazontrust.com/repository/: Amazon Root CA 1 to 4, and the older one that has signed them.
_BUNDLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")  # in the order in which botocore heeds them
_AMAZON = (b"Amazon Root CA ", b"Starfield Services Root Certificate Authority - G2")


class Trust:
    """A verifying ``context``. ``is_whole``: it has all certificates that there are to trust."""

    __slots__ = ("context", "is_whole")

    def __init__(self, environ: Mapping[str, str], *, whole: bool = False) -> None:
        """Raises LockConfigurationError where the bundle that is named cannot be read."""
        name = next((name for name in _BUNDLES if environ.get(name)), "")
        bundle = environ.get(name)
        roots = b"" if whole or bundle else _amazon_roots()
        self.is_whole = not roots
        try:
            self.context = ssl.create_default_context(cafile=bundle, cadata=roots or None)
        except OSError as error:
            raise LockConfigurationError(f"{name}={bundle!r} cannot be read as PEM certificates: {error}") from error


def _amazon_roots() -> bytes:
    """The certificates of the system's file that bear Amazon's names, in DER; b"" where there are none."""
    path = ssl.get_default_verify_paths().cafile or ""
    try:
        with open(path, "rb") as file:
            blocks = file.read().split(b"-----BEGIN CERTIFICATE-----")[1:]
        found = [a2b_base64(block.partition(b"-----END")[0]) for block in blocks]
    except (OSError, ValueError):
        return b""  # OpenSSL may make more of it
    return b"".join(one for one in found if any(name in one for name in _AMAZON))
