"""What DynamoDB's refusals mean to the core. Both transports use this."""

from __future__ import annotations

import re  # the Lambda runtime has it loaded

from ..core.outcome import FOR_NOW, ConditionFailed, ServiceError, TransactionCanceled, TransportError, unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: How an InvalidSignatureException says that only the time was wrong.
_SKEW = ("signature expired", "signature not yet current")
#: Where a message begins to quote the headers of a request. Compiled at its first use.
_HEADERS = r"(?i)(?:authorization|x-amz-[a-z-]{1,40})[\"']?\s?[:=]|aws4-hmac-sha256|the canonical string"


def refusal(
    code: str, message: str, fields: Mapping[str, Any], date: int | None
) -> ConditionFailed | TransactionCanceled | ServiceError | TransportError:
    """Return the exception for an error that DynamoDB answered with a 4xx status. ``fields`` are those of its body."""
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(_item(fields, "Item"), date)
    if code == "TransactionCanceledException":
        reasons = fields.get("CancellationReasons")
        if not isinstance(reasons, list) or not all(isinstance(reason, dict) for reason in reasons):
            return unusable(f"{code} without CancellationReasons")
        codes = [str(reason.get("Code") or "None") for reason in reasons]
        return TransactionCanceled(codes, [_item(reason, "Item") for reason in reasons], date)
    message = without_values(message)
    retryable = code in FOR_NOW or message.lower().startswith(_SKEW)
    return ServiceError(code, message, retryable, date)


def without_values(message: str) -> str:
    """Return an error's message without what it quotes of the request.

    That is the values in "Value '[…]' at 'item' failed", and everything from the first header on. InvalidSignature and
    IncompleteSignature quote the headers, of which one is the session token.
    """
    start, end = message.find("Value '"), message.rfind("' at '")
    if 0 <= start < end:
        message = f"{message[:start]}Value '…{message[end:]}"
    headers = re.search(_HEADERS, message)
    return f"{message[: headers.start()]}…" if headers else message


def short(code: str) -> str:
    """Return an error's name without its namespace: ``com.amazonaws.dynamodb.v20120810#ValidationException``."""
    return code.rpartition("#")[2].partition(":")[0]


def result(operation: str, body: dict[str, Any]) -> Any:
    """Return the ``item`` of a Reply: the item read, the attributes that a write returned, or else the whole body."""
    if operation == "GetItem":
        return _item(body, "Item")
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        return _item(body, "Attributes")
    return body


def _item(fields: Mapping[str, Any], name: str) -> Any:
    """Return the item, or None if it is missing or empty. If it is not an item, runtime/drive.py refuses it."""
    item = fields.get(name)
    return None if item == {} else item
