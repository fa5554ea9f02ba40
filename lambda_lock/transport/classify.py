"""What DynamoDB's refusals mean to the core: one place for both transports."""

from __future__ import annotations

from ..core.outcome import FOR_NOW, ConditionFailed, ServiceError, TransactionCanceled, TransportError, unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: How an InvalidSignatureException says that only the time was wrong.
_SKEW = ("signature expired", "signature not yet current")


def refusal(
    code: str, message: str, fields: Mapping[str, Any], date: int | None
) -> ConditionFailed | TransactionCanceled | ServiceError | TransportError:
    """The exception for an error that DynamoDB answered with a 4xx status. ``fields`` are those of its body."""
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
    """An error's message without the part of the request that DynamoDB quotes ("Value '[…]' at 'item' failed")."""
    start, end = message.find("Value '"), message.rfind("' at '")
    return f"{message[:start]}Value '…{message[end:]}" if 0 <= start < end else message


def short(code: str) -> str:
    """An error's name without its namespace: ``com.amazonaws.dynamodb.v20120810#ValidationException``."""
    return code.rpartition("#")[2].partition(":")[0]


def result(operation: str, body: dict[str, Any]) -> Any:
    """What a Reply's ``item`` is: the item read, the attributes a write returned, or for other operations the body."""
    if operation == "GetItem":
        return _item(body, "Item")
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        return _item(body, "Attributes")
    return body


def _item(fields: Mapping[str, Any], name: str) -> Any:
    """None where it is missing or empty. Anything that is no item is left as it is, for runtime/drive.py to refuse."""
    item = fields.get(name)
    return None if item == {} else item
