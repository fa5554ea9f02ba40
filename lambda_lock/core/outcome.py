"""What can come of one request: the words in which a transport speaks to the core.

A transport returns a Reply or raises one of the others (or errors.TransportError). ``date`` is the reply's Date header
in whole epoch seconds, None where there was none: the core judges time by it, so a transport passes it on whenever it
has one, also with a refusal.
"""

from __future__ import annotations

from ..errors import TransportError, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    #: An item, or a part of one, as DynamoDB's JSON has it: ``{"key": {"S": "a"}}``.
    Item: TypeAlias = dict[str, dict[str, Any]]
    #: What comes of a send: a Reply, or one of the errors below.
    Outcome: TypeAlias = "Reply | Exception"

__all__ = ["ConditionFailed", "Reply", "ServiceError", "TransactionCanceled", "TransportError", "unusable"]

# What DynamoDB's error codes say.

_NOT_NOW = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        # a transaction of someone else is on the row
        "TransactionConflictException",
        # the signature's time is not DynamoDB's: the next one is made with the Date of this reply
        "RequestTimeTooSkewed",
    }
)
#: Refused for now: worth sending again. Those for throttling are botocore's list (botocore/retries/standard.py).
FOR_NOW = _NOT_NOW | {
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "SlowDown",
    "TransactionInProgressException",
    "RequestExpired",
    "RequestInTheFuture",
}
#: Certainly not carried out. Any other error that is worth sending again may have been carried out.
NOT_DONE = _NOT_NOW | {"InvalidSignatureException", "ExpiredTokenException", "UnrecognizedClientException"}
#: The credentials have ended; others may be there by now.
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException"})
#: The credentials were refused.
CREDENTIALS = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "IncompleteSignatureException",
        "MissingAuthenticationTokenException",
        "MissingAuthenticationToken",
    }
)


class Reply:
    """Done. ``item`` is the item of a GetItem (None: there is none) or the attributes that a write returned."""

    __slots__ = ("date", "item")

    def __init__(self, item: Item | None, date: int | None) -> None:
        self.item = item
        self.date = date

    def __repr__(self) -> str:
        return f"Reply({None if self.item is None else list(self.item)!r}, date={self.date!r})"  # names, no values


class ConditionFailed(Exception):
    """Not done: the condition did not hold. ``item`` is what stood there (ALL_OLD), None where nothing did."""

    def __init__(self, item: Item | None, date: int | None) -> None:
        super().__init__("the condition did not hold")
        self.item = item
        self.date = date


class TransactionCanceled(Exception):
    """A transaction was not done. ``reasons``: the cancellation codes, ``items``: what stood there, in order."""

    def __init__(self, reasons: list[str], items: list[Item | None], date: int | None) -> None:
        super().__init__(f"the transaction was cancelled: {', '.join(reasons)}")
        self.reasons = reasons
        self.items = items
        self.date = date


def unusable(what: str) -> TransportError:
    """The outcome of a request whose answer is not DynamoDB's word: it may have been carried out all the same."""
    return TransportError(True, f"no usable answer, the request may have been carried out: {what}")


def another_answer(operation: str) -> TransportError:
    """The outcome of a request that was answered with what cannot be its answer, such as another row."""
    return unusable(
        f"the answer to {operation} belongs to another request. This is not DynamoDB, or something in between changes "
        "its answers: check the endpoint and any proxy"
    )


class ServiceError(Exception):
    """DynamoDB answered with an error. ``code`` is its name without namespace, ``retryable`` whether to send again.

    ``operation`` is filled in by whoever sent the request: an error about a permission names it.
    """

    operation = ""

    def __init__(self, code: str, message: str, retryable: bool = False, date: int | None = None) -> None:
        super().__init__(printable(f"{code}: {message}" if message else code))
        self.code = code
        self.message = message
        self.retryable = retryable
        self.date = date
