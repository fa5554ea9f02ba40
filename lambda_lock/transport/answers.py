"""What DynamoDB's answers mean to the core: refusals, results and the Date. Both transports use this."""

from __future__ import annotations

import re  # the Lambda runtime has these loaded
from functools import lru_cache

from ..core.outcome import FOR_NOW, ConditionFailed, ServiceError, TransactionCanceled, TransportError, unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: How an InvalidSignatureException says that only the time was wrong.
_SKEW = ("signature expired", "signature not yet current")
#: The codes for a wrong time of a request.
CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})
#: Where a message begins to quote the headers of a request. Compiled at its first use.
_HEADERS = r"(?i)(?:authorization|x-amz-[a-z-]{1,40})[\"']?\s?[:=]|aws4-hmac-sha256|the canonical string"
_WEEKDAYS = ("Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, ")
_MONTHS = (" Jan ", " Feb ", " Mar ", " Apr ", " May ", " Jun ", " Jul ", " Aug ", " Sep ", " Oct ", " Nov ", " Dec ")


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
    return ServiceError(code, message, code in FOR_NOW or is_skewed(code, message), date)


def is_skewed(code: str, message: str) -> bool:
    """Whether a request was refused because its time is too far from the service's."""
    return code in CLOCK or message.lower().startswith(_SKEW)


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


@lru_cache(maxsize=4)  # many answers come within one second
def http_date(text: str | None) -> int | None:
    """Return the epoch seconds of a Date header, or None if it is missing or cannot be read.

    Only RFC 9110's IMF-fixdate is read, the only form that a server may send ("Sat, 21 Nov 2026 04:49:13 GMT").
    """
    # The text is cut at fixed places: compiling a pattern would add 0.7 ms to each cold start, and datetime 5 ms.
    if text is None or len(text) != 29 or text[:5] not in _WEEKDAYS or text[7:12] not in _MONTHS:
        return None
    if (text[16], text[19], text[22], text[25:]) != (" ", ":", ":", " GMT"):
        return None
    day, year, hour, minute, second = text[5:7], text[12:16], text[17:19], text[20:22], text[23:25]
    if not (text.isascii() and (day + year + hour + minute + second).isdigit()):
        return None
    return epoch(int(year), _MONTHS.index(text[7:12]) + 1, int(day), int(hour), int(minute), int(second))


def epoch(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    """Return the epoch seconds of a moment in UTC, or None if there is no such moment."""
    # 60 is a leap second. Days are not checked against the month: only a broken server would send a wrong one.
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour <= 23 and minute <= 59 and second <= 60):
        return None
    if month <= 2:  # let the year start in March, so that the leap day is its last day
        year, month = year - 1, month + 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
    return ((days * 24 + hour) * 60 + minute) * 60 + second
