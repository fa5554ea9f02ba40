"""AWS Signature Version 4, for a POST to "/" without a query. DynamoDB's protocol needs no more.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib  # 2.3 ms, nearly all of it for OpenSSL's libcrypto, which TLS needs as well
import hmac  # 0.2 ms on top of hashlib
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .credentials import Credentials

# The signing key depends on the day, the Region and the secret. One entry is enough, because a process uses one of each
# at a time. The entry is replaced as a whole, so threads need no lock.
_last_key: tuple[tuple[str, str, str], bytes] | None = None


def authorization(
    headers: Mapping[str, str], body: bytes, *, credentials: Credentials, region: str, now: float
) -> dict[str, str]:
    """Return the headers that sign a POST to "/": X-Amz-Date, X-Amz-Security-Token if there is a token, Authorization.

    headers: all headers to sign, including Host.
    now: the time of the signature, in epoch seconds.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    added = {"X-Amz-Date": moment}
    if credentials.token:
        added["X-Amz-Security-Token"] = credentials.token
    lines = sorted((name.lower(), " ".join(value.split())) for name, value in {**headers, **added}.items())
    names = ";".join(name for name, _ in lines)
    canonical = "\n".join(
        ("POST", "/", "", *(f"{name}:{value}" for name, value in lines), "", names, hashlib.sha256(body).hexdigest())
    )
    day = moment[:8]
    scope = f"{day}/{region}/dynamodb/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = _signing_key(credentials.secret_key, day, region)
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    added["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return added


def _signing_key(secret: str, day: str, region: str) -> bytes:
    global _last_key
    wanted = (secret, day, region)
    last = _last_key
    if last is not None and last[0] == wanted:
        return last[1]
    key = f"AWS4{secret}".encode()
    for part in (day, region, "dynamodb", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    _last_key = (wanted, key)
    return key
