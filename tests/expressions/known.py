"""Where an engine is known to differ from the library's tables, and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from .databases import TABLES, Outcome, Request


@dataclass(frozen=True)
class Known:
    """A known difference. applies: whether this is it, for a request, the engine's outcome and the table's."""

    name: str
    engine: str
    reason: str
    applies: Callable[[Request, Outcome, Outcome], bool]


LOCAL, MINISTACK = "DynamoDB Local", "ministack"

_TWO_PATHS = re.compile(r"(?:^|[\s(])(?:size\()?[#xy]\S*\)* (?:=|<>|IN) \(?(?:[^)]*, )?(?:size\()?[#xy]")

KNOWN: tuple[Known, ...] = (
    Known(
        "invalid for the item, in a transaction",
        LOCAL,
        "An update that does not fit its item cancels the transaction with the reason ValidationError (API reference, "
        "TransactionCanceledException). DynamoDB Local answers ValidationException. ministack follows the reference.",
        lambda request, expected, found: (
            expected.error == "ValidationException"
            and found.error == "TransactionCanceledException"
            and any(code == "ValidationError" for code, _ in found.shown)
        ),
    ),
    Known(
        "one item twice in a transaction",
        LOCAL,
        "A transaction that has an item twice is refused as a whole (API reference, TransactWriteItems). DynamoDB "
        "Local looks at the conditions before.",
        lambda request, expected, found: (
            found.error == "ValidationException"
            and expected.error == "TransactionCanceledException"
            and _repeats(request)
        ),
    ),
    Known(
        "numbers within maps and lists, and -0",
        LOCAL,
        "7.0 is stored as 7, and there is no negative zero (Developer Guide, Number). DynamoDB Local leaves the text "
        "of a number within a map or list as it was, and that of -0.",
        lambda request, expected, found: _with_digits(38, expected) == _with_digits(38, found),
    ),
    Known(
        "checks",
        MINISTACK,
        "DynamoDB refuses types, paths and operands that can never be right before it looks at the item, and paths "
        "that lead nowhere. ministack looks at most of them only while it evaluates, or not at all.",
        lambda request, expected, found: _is_invalid(found),
    ),
    Known(
        "two absent attributes",
        MINISTACK,
        "A comparison with an absent attribute is false. ministack takes two absent attributes for equal.",
        lambda request, expected, found: (
            not _is_invalid(expected)
            and expected.error != found.error
            and any(_TWO_PATHS.search(text) for text in _conditions(request))
        ),
    ),
    Known(
        "begins_with of another type",
        MINISTACK,
        "begins_with is false for an attribute that is neither a string nor binary. ministack refuses the request.",
        lambda request, expected, found: (
            expected.error == "ValidationException" and any("begins_with" in text for text in _conditions(request))
        ),
    ),
    Known(
        "large numbers",
        MINISTACK,
        "A number has 38 digits. ministack adds with 28.",
        lambda request, expected, found: _with_digits(27, expected) == _with_digits(27, found),
    ),
)


def known(engine: str, request: Request, expected: Outcome, found: Outcome) -> Known | None:
    """The known difference that this is, None if it is none."""
    return next((each for each in KNOWN if each.engine == engine and each.applies(request, expected, found)), None)


def _is_invalid(outcome: Outcome) -> bool:
    """Whether the request, or a write in its transaction, was refused as such."""
    if outcome.error == "TransactionCanceledException":
        return any(code == "ValidationError" for code, _ in outcome.shown)
    return outcome.error == "ValidationException"


def _conditions(request: Request) -> list[str]:
    inner = [each for item in request[1].get("TransactItems", ()) for each in item.values()] or [request[1]]
    return [each.get("ConditionExpression", "") for each in inner]


def _repeats(request: Request) -> bool:
    """Whether a transaction has an item twice."""
    keys = []
    for item in request[1].get("TransactItems", ()):
        for inner in item.values():
            where = inner.get("Key") or inner["Item"]
            keys.append([inner["TableName"], [where[name] for name in TABLES[inner["TableName"]]]])
    return any(key in keys[:at] for at, key in enumerate(keys))


def _with_digits(digits: int, outcome: Outcome) -> Outcome:
    """An outcome whose numbers have no more digits, and are written as DynamoDB writes them."""
    context = Context(prec=digits)
    return Outcome(outcome.error, _written(outcome.shown, context), _written(outcome.rows, context))


def _written(value: Any, context: Context) -> Any:
    if isinstance(value, list):
        return [_written(each, context) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"N"} and isinstance(value["N"], str):
        return {"N": str(context.plus(Decimal(value["N"])).normalize(context))}
    return {name: _written(each, context) for name, each in value.items()}
