"""Where an engine is known to differ from the library's tables, and why. Each is one kind of difference."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .databases import TABLES, Outcome, Request

LOCAL, MINISTACK = "DynamoDB Local", "ministack"


@dataclass(frozen=True)
class Known:
    """A known difference: one that ``applies`` recognises, or one that a model makes.

    reason: what is right, by the documentation or by DynamoDB Local, and what the engine does instead.
    applies: whether this is it, for a request, the engine's outcome and the table's.
    model: a defect in mistakes.py. This is it if the table with that defect has the engine's outcome.
    hides: the mistakes in mistakes.py that it hides, if they are not the model.
    """

    name: str
    reason: str
    applies: Callable[[Request, Outcome, Outcome], bool] = lambda request, expected, found: False
    engine: str = MINISTACK
    model: str = ""
    hides: tuple[str, ...] = ()


def _not_checked(name: str, reason: str, why: str) -> Known:
    """A request, or a write in it, that the table refuses for this reason. ministack does otherwise."""

    def applies(request: Request, expected: Outcome, found: Outcome) -> bool:
        return (expected.error, expected.shown) != (found.error, found.shown) and bool(re.search(why, found.why))

    return Known(name, reason, applies)


def _instead(name: str, reason: str, theirs: str, ours: str, also: Callable[[Request, Outcome], bool]) -> Known:
    """DynamoDB Local refuses with its own error instead of ours, and leaves the same rows."""

    def applies(request: Request, expected: Outcome, found: Outcome) -> bool:
        is_refused = (expected.error, found.error) == (theirs, ours) and expected.rows == found.rows
        return is_refused and also(request, found)

    return Known(name, reason, applies, engine=LOCAL)


KNOWN: tuple[Known, ...] = (
    _instead(
        "invalid for the item, in a transaction",
        "An update that does not fit its item cancels the transaction with the reason ValidationError (API reference, "
        "TransactionCanceledException). DynamoDB Local answers ValidationException. ministack follows the reference.",
        "ValidationException", "TransactionCanceledException",
        lambda request, found: any(code == "ValidationError" for code, _ in found.shown)),
    _instead(
        "a change of the key, under a condition that does not hold",
        "An update cannot change the key of its item. DynamoDB Local looks at the condition before.",
        "ConditionalCheckFailedException", "ValidationException",
        lambda request, found: "which is part of the key" in found.why),
    _instead(
        "one item twice in a transaction",
        "A transaction that has an item twice is refused as a whole (API reference, TransactWriteItems). DynamoDB "
        "Local looks at the conditions before.", "TransactionCanceledException", "ValidationException",
        lambda request, found: _repeats(request)),
    Known(
        "other texts of a number", "7.0 is stored as 7, and there is no negative zero (Developer Guide, Number). "
        "DynamoDB Local leaves the text of a number as it was where an update sets it or a map or list has it, and "
        "that of -0.", lambda request, expected, found: _as_stored(expected) == _as_stored(found), engine=LOCAL),
    Known(
        "other texts of a number, in a transaction",
        "7.0 is stored as 7. ministack leaves the text that an update in a transaction sets.", lambda request, expected,
        found: (request[0] == "TransactWriteItems" and _as_stored(expected) == _as_stored(found))),
    _not_checked(
        "types of operands", "A value of a type that an operator or a function never takes is refused before the item "
        "is looked at. ministack does not look at the value, or only while it evaluates: list_append(x, :set) is x.",
        " is none of .*, which its place in "),
    _not_checked(
        "paths that overlap",
        "An update with two paths of which one leads into the other is refused: REMOVE a, a.b. ministack makes both.",
        "two document paths overlap or conflict"),
    _not_checked(
        "an operand compared with itself", "x = x and :v IN (:v) are refused. ministack compares.",
        "is compared with itself"),
    _not_checked("redundant parentheses", "((x = :v)) is refused. ministack reads it.", "redundant parentheses"),
    _not_checked(
        "bounds of BETWEEN",
        "x BETWEEN :two AND :one is refused, and so are bounds of two types. ministack finds nothing between them.",
        "the bounds of BETWEEN"),
    _not_checked(
        "types of attributes in sums and lists",
        "x + :one is refused if x is a string, and so is list_append(x, :list). ministack takes x for 0 or for [].",
        "an operand of (list_append|the sum) is not"),
    _not_checked(
        "a change of the key", "An update cannot change the key of its item. ministack changes it.",
        "which is part of the key"),
    _not_checked(
        "attribute_type() of what is no type",
        'attribute_type(x, "X") is refused, and so is attribute_type(x, y). For ministack the type may be any operand.',
        r"attribute_type\(\) takes"),
    Known(
        "REMOVE of a path that leads nowhere", "REMOVE a.b is refused if a is no map. ministack does nothing.",
        model="REMOVE of a path that leads nowhere does nothing"),
    _not_checked(
        "a path that does not fit the item",
        "SET a.b is refused if a is no map. ministack, in a transaction, writes into what is there.",
        "the document path provided in the update expression is invalid"),
    Known(
        "several elements removed",
        "REMOVE a[0], a[1] removes the first two elements. ministack removes the first, and then the third.",
        model="REMOVE shifts the later indexes"),
    Known(
        "size of a number",
        "A comparison with size() of a number, a Boolean or null is false. For ministack the size is 0.",
        model="size of what has no size is 0"),
    Known(
        "contains on binary", "contains(x, :v) looks for the bytes :v in the bytes x. ministack finds nothing.",
        model="contains is false for binary"),
    Known(
        "two absent attributes",
        "A comparison with an absent attribute is false. ministack takes two absent attributes for equal.",
        model="two absent attributes are equal"),
    Known(
        "begins_with of another type",
        "begins_with is false for an attribute of another type than the prefix. ministack refuses the request.",
        model="begins_with refuses an attribute of another type"),
    Known(
        "sums", "A sum has 38 digits, and 2 + 0.0 is 2. ministack rounds to 28 digits, and stores 2.0.",
        model="sums are those of Decimal", hides=("sums have 28 digits", "numbers may have 39 digits")),
)  # fmt: skip


def hidden_by(*engines: str) -> set[str]:
    """The mistakes that each of these engines makes itself, so that none can show them."""
    return set.intersection(
        *(
            {mistake for each in KNOWN if each.engine == name for mistake in each.hides or (each.model,)}
            for name in engines
        )
    )


def _repeats(request: Request) -> bool:
    """Whether a transaction has an item twice."""
    keys = []
    for item in request[1].get("TransactItems", ()):
        for inner in item.values():
            where = inner.get("Key") or inner["Item"]
            keys.append([inner["TableName"], [where[name] for name in TABLES[inner["TableName"]]]])
    return any(key in keys[:at] for at, key in enumerate(keys))


def _as_stored(outcome: Outcome) -> Outcome:
    """An outcome with numbers instead of their texts."""
    return Outcome(outcome.error, _counted(outcome.shown), _counted(outcome.rows))


def _counted(value: Any) -> Any:
    if isinstance(value, list):
        return [_counted(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"N"} and isinstance(value["N"], str):
        return {"N": Decimal(value["N"])}
    return {name: _counted(each) for name, each in value.items()}
