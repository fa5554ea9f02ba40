"""The seam to the outside: how a request reaches DynamoDB, and the words in which the answer comes back.

A transport sends one request once and says what came of it; sending again is the core's decision. There are two:
HttpsTransport on the standard library, and BotoTransport for whatever needs boto3. `choose` takes the right one.
"""

from __future__ import annotations

from ..core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .boto import BotoTransport
    from .choice import choose
    from .credentials import Credentials
    from .https import HttpsTransport
else:
    Protocol = object  # typing costs about 5 ms of a cold start; at run time nothing asks what a Transport is

__all__ = [
    "BotoTransport",
    "ConditionFailed",
    "Credentials",
    "HttpsTransport",
    "Reply",
    "ServiceError",
    "TransactionCanceled",
    "Transport",
    "TransportError",
    "choose",
]

_LATE = {"BotoTransport": "boto", "Credentials": "credentials", "HttpsTransport": "https", "choose": "choice"}


class Transport(Protocol):
    """What carries requests. Any object with this method may be passed as ``LockClient(transport=…)``."""

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        """Send one request once; for any number of threads at a time.

        operation: DynamoDB's name for it, such as "UpdateItem". request: its parameters as DynamoDB JSON, as on the
        wire (binary values are base64 text). timeout: seconds after which the send must have ended.

        Returns a Reply: its ``item`` is the item of a GetItem, the attributes that a PutItem, UpdateItem or DeleteItem
        returned (None where there are none), and for every other operation the whole answer.

        Raises ConditionFailed, TransactionCanceled or ServiceError for a refusal, and TransportError where there is no
        usable answer: ``ambiguous`` unless it is certain that nothing was sent.
        """


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # loaded by every Python

    return getattr(import_module(f".{module}", __name__), name)
