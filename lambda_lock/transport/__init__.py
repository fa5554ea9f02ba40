"""Transports: how a request reaches DynamoDB, and in what form the answer comes back.

A transport sends one request once and reports the outcome. Whether to send it again is up to the core. There are two
transports: HttpsTransport uses the standard library alone, and BotoTransport serves everything that needs boto3.
`choose` picks the right one.
"""

from __future__ import annotations

from ..core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .boto import BotoTransport as BotoTransport
    from .choice import choose
    from .credentials import Credentials
    from .https import HttpsTransport
else:
    Protocol = object  # importing typing adds about 5 ms to a cold start; nothing checks for a Transport at run time

__all__ = [  # without BotoTransport, which needs boto3: `import *` must not
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
    """Sends requests to DynamoDB. Any object with this method may be passed as ``LockClient(transport=…)``.

    Example::

        class Counting:
            def __init__(self, inner):
                self.inner, self.count = inner, 0

            def send(self, operation, request, *, timeout):
                self.count += 1
                return self.inner.send(operation, request, timeout=timeout)
    """

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        """Send one request, once. Any number of threads may call this at the same time.

        operation: DynamoDB's name for the operation, such as "UpdateItem".
        request: the parameters as DynamoDB JSON, as on the wire: binary values are base64 text.
        timeout: the time within which the send must end, in seconds.

        Returns a Reply. Its ``item`` is the item of a GetItem, or the attributes that a PutItem, UpdateItem or
        DeleteItem returned, or None if there are none. For every other operation it is the whole answer.

        Raises ConditionFailed if the condition did not hold, TransactionCanceled for a cancelled transaction, and
        ServiceError for any other refusal by DynamoDB. Raises TransportError if there is no usable answer; it is
        ``ambiguous`` unless it is certain that nothing was sent. Raises LockConfigurationError if trying again does not
        help, as for credentials that are refused, with ``is_unsent = True`` if it is certain that nothing was sent:
        then nothing has to be given back.

        Example::

            reply = transport.send("GetItem", {"TableName": "locks", "Key": {"key": {"S": "a"}}}, timeout=3.0)
        """


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # loaded by every Python

    return getattr(import_module(f".{module}", __name__), name)
