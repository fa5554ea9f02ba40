"""The operators and functions of expressions, for DynamoDB's values. No value here is absent.

The rules are those of the DynamoDB Developer Guide ("Condition and filter expressions", "Update expressions"). A
comparison between two types is false. A value that an operator refuses raises ServiceError("ValidationException").
"""

from __future__ import annotations

from decimal import Context, Decimal

from ..core.outcome import ServiceError
from ..core.requests import decode_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    #: A value in DynamoDB's JSON: its type and its content.
    Value: TypeAlias = dict[str, Any]

GONE: Value = {}  # the result of REMOVE, and of DELETE if no element is left or there is no set
KINDS = ("S", "SS", "N", "NS", "B", "BS", "BOOL", "NULL", "L", "M")
SETS = ("SS", "NS", "BS")
ORDERED = ("S", "N", "B")
_DIGITS = 38  # of a number in DynamoDB; its magnitude is from 1E-130 to less than 1E+126
_LARGEST = 125
_SMALLEST = -130
_WIDE = Context(prec=600)  # for sums, which are exact or refused


def invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)


# -- conditions


def size(value: Value) -> Value | None:
    ((kind, content),) = value.items()
    if kind in ("N", "BOOL", "NULL"):
        return None  # has no size: the comparison is false
    if kind == "S":
        return {"N": str(len(content.encode("utf-16-le")) // 2)}  # as both engines count: UTF-16 units
    return {"N": str(len(decode_data(content) if kind == "B" else content))}


def equal(one: Value, other: Value) -> bool:
    """Two values may be written differently, and be equal: numbers, sets, and what contains them."""
    return one == other or (one.keys() == other.keys() and "S" not in one and comparable(one) == comparable(other))


def comparable(value: Value) -> tuple[str, Any]:
    """The type and the content of a value, in Python's types: equal for equal values, and in order for ORDERED."""
    ((kind, content),) = value.items()
    if kind == "N":
        return kind, Decimal(content)
    if kind == "S":
        return kind, content.encode("utf-8", "surrogatepass")
    if kind == "B":
        return kind, decode_data(content)
    if kind in SETS:
        return kind, _elements(value).keys()
    if kind == "L":
        return kind, [comparable(element) for element in content]
    if kind == "M":
        return kind, {name: comparable(element) for name, element in content.items()}
    return kind, content


def _elements(value: Value) -> dict[tuple[str, Any], str]:
    """The texts of a set's elements, by the elements as `comparable`: equal elements are one."""
    ((kind, content),) = value.items()
    return {comparable({kind[0]: text}): text for text in content}


def ordered(compare: Callable[[Any, Any], bool], one: Value, other: Value) -> bool:
    if one.keys() != other.keys():
        return False
    if not one.keys() & set(ORDERED):
        raise NotImplementedError(f"ordering {one} and {other}")
    return compare(comparable(one), comparable(other))


def begins_with(whole: Value, start: Value) -> bool:
    if not start.keys() & {"S", "B"}:
        raise NotImplementedError(f"begins_with({start})")
    return whole.keys() == start.keys() and bool(comparable(whole)[1].startswith(comparable(start)[1]))


def contains(whole: Value, part: Value) -> bool:
    (kind,), (kind_of_part,) = whole, part
    if kind == "L":
        return any(equal(part, element) for element in whole[kind])
    if kind in SETS:
        return kind == f"{kind_of_part}S" and comparable(part) in _elements(whole)
    return kind == kind_of_part and kind in ("S", "B") and comparable(part)[1] in comparable(whole)[1]


def attribute_type(value: Value, wanted: Value) -> bool:
    return wanted["S"] in value


# -- updates


def appended(one: Value, other: Value) -> Value:
    if "L" not in one or "L" not in other:
        raise invalid(f"an operand of list_append is not a list: {one}, {other}")
    return {"L": [*one["L"], *other["L"]]}


def total(sign: str, one: Value, other: Value) -> Value:
    if "N" not in one or "N" not in other:
        raise invalid(f"an operand of the sum is not a number: {one}, {other}")
    add = _WIDE.subtract if sign == "-" else _WIDE.add  # Decimal's own operators round to 28 digits
    return {"N": written(add(Decimal(one["N"]), Decimal(other["N"])))}


def added(before: Value, more: Value) -> Value:
    """ADD: to a number, or to a set."""
    ((kind, _),) = more.items()
    if kind not in before:
        raise invalid(f"ADD of {more} to {before}: an operand has an incorrect data type")
    if kind == "N":
        return total("+", before, more)
    return {kind: list((_elements(more) | _elements(before)).values())}


def without(before: Value, less: Value) -> Value:
    """DELETE: elements of a set. GONE if none is left."""
    ((kind, _),) = less.items()
    if kind not in before:
        raise invalid(f"DELETE of {less} from {before}: an operand has an incorrect data type")
    taken = _elements(less)
    left = [text for element, text in _elements(before).items() if element not in taken]
    return {kind: left} if left else GONE


def written(number: Decimal) -> str:
    """A number as DynamoDB writes it: without an exponent or superfluous zeros. Raises ServiceError for one that it
    cannot store."""
    if not number:
        return "0"
    if not number.is_finite():
        raise invalid(f"{number} is not a number")
    number = number.normalize(_WIDE)
    if len(number.as_tuple().digits) > _DIGITS or not _SMALLEST <= number.adjusted() <= _LARGEST:
        raise invalid("a number has more than 38 digits, or its magnitude is not from 1E-130 to 9.9…E+125")
    return format(number, "f")
