"""Which certificates TLS trusts: those of AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE, or the system's (SSL_CERT_FILE,
SSL_CERT_DIR).

Loading a system's 140 certificates takes 20 ms, more than everything else on the way to the first lock. But DynamoDB's
certificates are signed by a few of Amazon's. So at first only the certificates with Amazon's names are loaded from the
system's file. If they are not enough (another endpoint, a proxy that intercepts TLS), all are loaded and the connection
is made again. This never trusts anything that the system does not trust: the names only select from its certificates.
"""

from __future__ import annotations

import ssl  # 3 ms, with the first TLS connection
from binascii import a2b_base64

from ..errors import LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# https://www.amazontrust.com/repository/: Amazon Root CA 1 to 4, and the older one that has signed them.
_BUNDLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")  # in the order in which botocore looks at them
_AMAZON = (b"Amazon Root CA ", b"Starfield Services Root Certificate Authority - G2")


class Trust:
    """A ``context`` that verifies certificates. ``is_whole``: it has all certificates that are to be trusted."""

    __slots__ = ("context", "is_whole")

    def __init__(self, environ: Mapping[str, str], *, whole: bool = False) -> None:
        """Raises LockConfigurationError if the bundle that the environment names cannot be read."""
        name = next((name for name in _BUNDLES if environ.get(name)), "")
        bundle = environ.get(name)
        roots = b"" if whole or bundle else _amazon_roots()
        self.is_whole = not roots
        try:
            self.context = ssl.create_default_context(cafile=bundle, cadata=roots or None)
        except OSError as error:
            raise LockConfigurationError(f"{name}={bundle!r} cannot be read as PEM certificates: {error}") from error


def _amazon_roots() -> bytes:
    """Return the certificates in the system's file that have Amazon's names, in DER, or b"" if there are none."""
    path = ssl.get_default_verify_paths().cafile or ""
    try:
        with open(path, "rb") as file:
            blocks = file.read().split(b"-----BEGIN CERTIFICATE-----")[1:]
        found = [a2b_base64(block.partition(b"-----END")[0]) for block in blocks]
    except (OSError, ValueError):
        return b""  # OpenSSL may still be able to read the file
    return b"".join(one for one in found if any(name in one for name in _AMAZON))
