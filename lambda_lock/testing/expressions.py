"""Evaluates the expressions in requests, for the in-memory table. Each text is parsed once, into closures.

All update and condition expressions of DynamoDB are supported. One that DynamoDB refuses raises
ServiceError("ValidationException"). That includes unused placeholders. The parser never guesses: where it cannot tell
what DynamoDB would do (a reserved word is not known as one, an order of two lists), it raises NotImplementedError, or
takes the expression as it is.

The rules of evaluation are those of the DynamoDB Developer Guide ("Condition and filter expressions", "Update
expressions"). A comparison with an absent attribute is false, and so is one between two types. For ``<>`` both are
true. Every operand of an update sees the item as it was before the update.
"""

from __future__ import annotations

import operator
import re
from decimal import Context, Decimal
from functools import cache, partial, reduce

from ..core.outcome import ServiceError
from ..core.requests import decode_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    from ..core.outcome import Item

    Value: TypeAlias = dict[str, Any]
    Names: TypeAlias = dict[str, str]
    #: The values of operands and conditions, for an item and the request's names and values.
    Operand: TypeAlias = Callable[[Item, Names, Item], Value | None]
    Condition: TypeAlias = Callable[[Item, Names, Item], bool]
    #: What must hold of a request's names and values, whatever the item is. It raises ServiceError.
    Check: TypeAlias = Callable[[Names, Item], None]
    #: Where in an item: an attribute's placeholder or name, and on to a part of its map (a placeholder or name) or of
    #: its list (an index).
    Path: TypeAlias = tuple[str | int, ...]
    #: One change in an update: where, and the new value. GONE removes what is there.
    Change: TypeAlias = tuple[Path, Operand]
    T = TypeVar("T")

GONE: Value = {}  # what REMOVE leaves, and DELETE of a set of which it takes every element or that is not there

_TOKEN = re.compile(r"\s*([#:]?[A-Za-z_0-9]+|<>|<=|>=|[=<>(),+\-\[\].])")
_FUNCTIONS = ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains")
_KINDS = ("S", "SS", "N", "NS", "B", "BS", "BOOL", "NULL", "L", "M")
_SETS = ("SS", "NS", "BS")
_CLAUSES = ("SET", "REMOVE", "ADD", "DELETE")
_ORDERED = ("S", "N", "B")
_DIGITS = 38  # of a number in DynamoDB; its magnitude is from 1E-130 to less than 1E+126
_LARGEST = 125
_SMALLEST = -130
_INEXACT = 10**_DIGITS
_WIDE = Context(prec=600)  # for sums, which are exact or refused
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)


class Expression:
    """An expression, and the recursive-descent parser of its text.

    evaluate: the closure of a condition, or the changes of an update.
    names, values: the placeholders that it uses.
    checks: what is checked before it is evaluated.
    """

    evaluate: Any

    def __init__(self, text: str) -> None:
        self.names: set[str] = set()
        self.values: set[str] = set()
        self.checks: list[Check] = []
        self.text = text
        self.tokens: list[str] = []
        self.at = 0  # the index of the next token
        self.what: dict[Operand, str | Path] = {}  # of operands that are a value's placeholder, or a path
        self.in_parentheses = False  # whether the condition read last was in parentheses
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise NotImplementedError(f"{text[at:].strip()[:20]!r} in the expression {text!r}")
            self.tokens.append(match[1])
            at = match.end()

    # -- tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def calls(self) -> bool:
        """Whether the next token is the name of a function: a parenthesis follows it."""
        return self.tokens[self.at + 1 : self.at + 2] == ["("]

    def accept(self, *words: str) -> str:
        """Take the next token if it is one of these words, in upper or lower case. Otherwise return ""."""
        word = self.peek().upper()
        if word not in words:
            return ""
        self.at += 1
        return word

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise invalid(f"expected {token!r} at token {self.at} of {self.text!r}")

    # -- operands

    def path(self) -> Path:
        """Take a document path: ``#name`` or a bare name, and on into maps (``.#name``) and lists (``[0]``)."""
        path: list[str | int] = [self.name()]
        while self.peek() in (".", "["):
            if self.take() == ".":
                path.append(self.name())
                continue
            number = self.take()
            if not number.isdigit():
                raise invalid(f"expected an index, not {number!r}, in {self.text!r}")
            self.expect("]")
            path.append(int(number))
        return tuple(path)

    def name(self) -> str:
        token = self.take()
        if not token or not (token[0] == "#" or token[0].isalpha() or token[0] == "_"):
            raise invalid(f"expected an attribute, not {token!r}, in {self.text!r}")
        if token[0] == "#":
            self.names.add(token)
        return token

    def operand(self) -> Operand:
        if self.peek() == "size" and self.calls():
            self.at += 2
            measured = _at(self.path())
            self.expect(")")
            return lambda item, names, values: _size(measured(item, names, values))
        if not self.peek().startswith(":"):
            return self.attribute()
        name = self.take()
        self.values.add(name)

        def evaluate(item: Item, names: Names, values: Item) -> Value | None:
            return values.get(name)

        self.what[evaluate] = name
        return evaluate

    def attribute(self) -> Operand:
        path = self.path()
        attribute = _at(path)
        self.what[attribute] = path
        return attribute

    # -- checks of operands

    def require(self, kinds: tuple[str, ...], *operands: Operand) -> None:
        """Require these types of the operands that are values."""
        for operand in operands:
            value = self.what.get(operand)
            if isinstance(value, str):
                self.checks.append(partial(_check_kind, value, kinds, self.text))

    def require_distinct(self, first: Operand, *others: Operand) -> None:
        """Require that an operand is not compared with itself."""
        one = self.what.get(first)
        for other in map(self.what.get, others):
            if isinstance(one, str) and one == other:
                raise invalid(f"{one} is compared with itself in {self.text!r}")
            if isinstance(one, tuple) and isinstance(other, tuple):
                self.checks.append(partial(_check_distinct, one, other, self.text))

    # -- conditions

    def condition(self) -> Condition:
        condition = self.either()
        if self.at < len(self.tokens):
            raise invalid(f"unexpected {self.peek()!r} in {self.text!r}")
        return condition

    def either(self) -> Condition:
        condition = self.every()
        while self.accept("OR"):
            condition = _either(condition, self.every())
            self.in_parentheses = False
        return condition

    def every(self) -> Condition:
        condition = self.negated()
        while self.accept("AND"):
            condition = _both(condition, self.negated())
            self.in_parentheses = False
        return condition

    def negated(self) -> Condition:
        if not self.accept("NOT"):
            return self.single()
        inner = self.negated()
        self.in_parentheses = False
        return lambda item, names, values: not inner(item, names, values)

    def single(self) -> Condition:
        if self.accept("("):
            inner = self.either()
            self.expect(")")
            if self.in_parentheses:
                raise invalid(f"the expression has redundant parentheses: {self.text!r}")
            self.in_parentheses = True
            return inner
        condition = self.simple()
        self.in_parentheses = False
        return condition

    def simple(self) -> Condition:
        if self.calls() and self.peek() != "size":
            return self.function(self.take())
        left = self.operand()
        if self.accept("IN"):
            return self.among(left)
        if self.accept("BETWEEN"):
            return self.between(left)
        comparator = self.take()
        if comparator not in ("=", "<>", *_ORDER):
            raise invalid(f"unexpected {comparator!r} in the condition {self.text!r}")
        right = self.operand()
        self.require_distinct(left, right)
        if comparator in _ORDER:
            self.require(_ORDERED, left, right)
            return _of(partial(_are_ordered, _ORDER[comparator]), left, right)
        equal = _of(_are_equal, left, right)
        return equal if comparator == "=" else lambda item, names, values: not equal(item, names, values)

    def between(self, left: Operand) -> Condition:
        least = self.operand()
        if not self.accept("AND"):
            raise invalid(f"BETWEEN without AND in {self.text!r}")
        most = self.operand()
        self.require_distinct(left, least, most)
        self.require(_ORDERED, left, least, most)
        low, high = self.what.get(least), self.what.get(most)
        if isinstance(low, str) and isinstance(high, str):
            self.checks.append(partial(_check_bounds, low, high, self.text))
        at_least, at_most = partial(_are_ordered, operator.ge), partial(_are_ordered, operator.le)
        return _both(_of(at_least, left, least), _of(at_most, left, most))

    def function(self, name: str) -> Condition:
        if name not in _FUNCTIONS:
            raise invalid(f"there is no function {name}() in the condition {self.text!r}")
        self.expect("(")
        attribute = self.attribute()
        if name == "attribute_exists":
            condition = _exists(attribute)
        elif name == "attribute_not_exists":
            condition = _is_absent(attribute)
        else:
            self.expect(",")
            other = self.operand()
            self.require_distinct(attribute, other)
            if name == "begins_with":
                self.require(("S", "B"), other)
                condition = _of(_begins_with, attribute, other)
            elif name == "contains":
                condition = _of(_contains, attribute, other)
            else:
                value = self.what.get(other)
                if not isinstance(value, str):
                    raise invalid(f"attribute_type() takes a value such as :v as the type, in {self.text!r}")
                self.checks.append(partial(_check_type_name, value))
                condition = _of(_is_of_type, attribute, other)
        self.expect(")")
        return condition

    def among(self, left: Operand) -> Condition:
        self.expect("(")
        others = [self.operand()]
        while self.accept(","):
            others.append(self.operand())
        self.expect(")")
        self.require_distinct(left, *others)
        return reduce(_either, [_of(_are_equal, left, other) for other in others])

    # -- updates

    def update(self) -> list[Change]:
        changes: list[Change] = []
        clauses = set()
        while self.peek():
            clause = self.accept(*_CLAUSES)
            if not clause:
                raise invalid(f"unexpected {self.peek()!r} in the update {self.text!r}")
            if clause in clauses:
                raise invalid(f"{clause} occurs twice in {self.text!r}")
            clauses.add(clause)
            changes.append(self.change(clause))
            while self.accept(","):
                changes.append(self.change(clause))
        if len(changes) > 1:
            self.checks.append(partial(_check_apart, [path for path, _ in changes], self.text))
        return changes

    def change(self, clause: str) -> Change:
        path = self.path()
        if clause == "REMOVE":
            return path, lambda item, names, values: GONE
        if clause != "SET":
            if not self.peek().startswith(":"):
                raise invalid(f"{clause} takes a value such as :v, not {self.peek()!r}, in {self.text!r}")
            operand = self.operand()
            self.require(_SETS if clause == "DELETE" else ("N", *_SETS), operand)
            return path, _of(_added if clause == "ADD" else _without, _at(path), operand)
        self.expect("=")
        left = self.term()
        sign = self.accept("+", "-")
        if not sign:
            return path, left
        right = self.term()
        self.require(("N",), left, right)
        return path, _of(partial(_sum, -1 if sign == "-" else 1), left, right)

    def term(self) -> Operand:
        if not self.calls():
            return self.operand()
        name = self.take()
        if name not in ("if_not_exists", "list_append"):
            raise invalid(f"there is no function {name}() in the update {self.text!r}")
        self.expect("(")
        first = self.term() if name == "list_append" else _at(self.path())
        self.expect(",")
        second = self.term()
        self.expect(")")
        if name == "if_not_exists":
            return lambda item, names, values: first(item, names, values) or second(item, names, values)
        self.require(("L",), first, second)
        return _of(_appended, first, second)


@cache
def condition_of(text: str) -> Expression:
    expression = Expression(text)
    expression.evaluate = expression.condition()
    return expression


@cache
def update_of(text: str) -> Expression:
    expression = Expression(text)
    expression.evaluate = expression.update()
    return expression


# -- checks -----------------------------------------------------------------------------------------------------------


def check(condition: Expression | None, update: Expression | None, names: Names, values: Item) -> None:
    """Check what does not depend on the item: DynamoDB refuses the request before it looks at the condition."""
    expressions = [expression for expression in (condition, update) if expression is not None]
    used_names: set[str] = set().union(*[expression.names for expression in expressions])
    used_values: set[str] = set().union(*[expression.values for expression in expressions])
    if names.keys() != used_names:
        raise invalid(f"the names defined and the names used differ: {sorted(names.keys() ^ used_names)}")
    if values.keys() != used_values:
        raise invalid(f"the values defined and the values used differ: {sorted(values.keys() ^ used_values)}")
    for expression in expressions:
        for each in expression.checks:
            each(names, values)


def _check_kind(value: str, kinds: tuple[str, ...], text: str, names: Names, values: Item) -> None:
    if not values[value].keys() <= set(kinds):
        raise invalid(f"{value} is none of {', '.join(kinds)}, which its place in {text!r} takes")


def _check_type_name(value: str, names: Names, values: Item) -> None:
    if values[value].get("S") not in _KINDS:
        raise invalid(f"attribute_type() takes one of {', '.join(_KINDS)}, not {values[value]}")


def _check_distinct(one: Path, other: Path, text: str, names: Names, values: Item) -> None:
    if resolved(one, names) == resolved(other, names):
        raise invalid(f"an attribute is compared with itself in {text!r}")


def _check_bounds(low: str, high: str, text: str, names: Names, values: Item) -> None:
    if not _are_ordered(operator.le, values[low], values[high]):
        raise invalid(f"the bounds of BETWEEN are of two types, or in the wrong order, in {text!r}")


def _check_apart(paths: list[Path], text: str, names: Names, values: Item) -> None:
    """No path may lead to another or into it, or take a list for a map."""
    seen: dict[str | int, list[Path]] = {}
    for path in [resolved(path, names) for path in paths]:
        others = seen.setdefault(path[0], [])
        for other in others:
            pair = next(((one, two) for one, two in zip(path, other, strict=False) if one != two), None)
            if pair is None or type(pair[0]) is not type(pair[1]):
                raise invalid(f"two document paths overlap or conflict: {path[0]} is changed twice in {text!r}")
        others.append(path)


# -- closures ---------------------------------------------------------------------------------------------------------


def _at(path: Path) -> Operand:
    """The value at a path. None if there is none, also if the path leads through what is not a map or list."""
    first = path[0]
    if len(path) == 1 and isinstance(first, str):
        if first[0] == "#":
            return lambda item, names, values: item.get(names[first])
        return lambda item, names, values: item.get(first)

    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        value: Value | None = {"M": item}
        for step in path:
            if value is None:
                return None
            if isinstance(step, str):
                value = value.get("M", {}).get(named(step, names))
            else:
                elements = value.get("L", ())
                value = elements[step] if step < len(elements) else None
        return value

    return evaluate


def named(step: str, names: Names) -> str:
    """The name that a placeholder stands for, or the name itself."""
    return names[step] if step[0] == "#" else step


def resolved(path: Path, names: Names) -> Path:
    """A path with names instead of placeholders."""
    return tuple([named(step, names) if isinstance(step, str) else step for step in path])


def _of(
    compute: Callable[[Value | None, Value | None], T], left: Operand, right: Operand
) -> Callable[[Item, Names, Item], T]:
    """What ``compute`` makes of the values of two operands: an operand or a condition."""
    return lambda item, names, values: compute(left(item, names, values), right(item, names, values))


def _exists(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is not None


def _is_absent(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is None


def _either(left: Condition, right: Condition) -> Condition:
    return lambda item, names, values: left(item, names, values) or right(item, names, values)


def _both(left: Condition, right: Condition) -> Condition:
    return lambda item, names, values: left(item, names, values) and right(item, names, values)


# -- values. None: the attribute is absent ----------------------------------------------------------------------------


def _size(value: Value | None) -> Value | None:
    if value is None or value.keys() & {"N", "BOOL", "NULL"}:
        return None  # has no size: the comparison is false
    ((kind, content),) = value.items()
    if kind == "S":
        return {"N": str(len(content.encode("utf-16-le")) // 2)}  # as both engines count: 2 for some characters
    return {"N": str(len(decode_data(content) if kind == "B" else content))}


def _are_equal(one: Value | None, other: Value | None) -> bool:
    return one is not None and other is not None and (one == other or _same(one, other))


def _same(one: Value, other: Value) -> bool:
    """Whether two values that are written differently are equal: numbers, sets, and what contains them."""
    if one.keys() != other.keys() or "S" in one:
        return False
    return bool(_comparable(one) == _comparable(other))


def _comparable(value: Value) -> Any:
    kind, content = next(iter(value.items()))
    if kind == "N":
        return number(value)
    if kind in _SETS:
        return kind, frozenset(_elements(value))
    if kind == "L":
        return [_comparable(element) for element in content]
    if kind == "M":
        return {name: _comparable(element) for name, element in content.items()}
    return kind, content


def _elements(value: Value) -> dict[Any, str]:
    """The elements of a set: the text of each by what makes it the same as another."""
    kind, content = next(iter(value.items()))
    return {number({"N": text}) if kind == "NS" else text: text for text in content}


def _are_ordered(compare: Callable[[Any, Any], bool], one: Value | None, other: Value | None) -> bool:
    if one is None or other is None or one.keys() != other.keys():
        return False
    if "N" in one:
        return compare(number(one), number(other))
    if "B" in one:
        return compare(decode_data(one["B"]), decode_data(other["B"]))
    if "S" not in one:
        raise NotImplementedError(f"ordering {one} and {other}")
    return compare(one["S"].encode(), other["S"].encode())


def _begins_with(whole: Value | None, start: Value | None) -> bool:
    if start is None or not start.keys() & {"S", "B"}:
        raise NotImplementedError(f"begins_with({start})")
    if whole is None or whole.keys() != start.keys():
        return False
    if "B" in whole:
        return decode_data(whole["B"]).startswith(decode_data(start["B"]))
    return str(whole["S"]).startswith(start["S"])


def _contains(whole: Value | None, part: Value | None) -> bool:
    if whole is None or part is None:
        return False
    (kind, content), (kind_of_part, wanted) = next(iter(whole.items())), next(iter(part.items()))
    if kind == "L":
        return any(_are_equal(part, element) for element in content)
    if kind in _SETS:
        return kind == f"{kind_of_part}S" and not _elements({kind: [wanted]}).keys().isdisjoint(_elements(whole))
    if kind != kind_of_part or kind not in ("S", "B"):
        return False
    return decode_data(wanted) in decode_data(content) if kind == "B" else wanted in content


def _is_of_type(value: Value | None, wanted: Value | None) -> bool:
    return value is not None and wanted is not None and wanted["S"] in value


def _appended(one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return None
    if "L" not in one or "L" not in other:
        raise invalid(f"an operand of list_append is not a list: {one}, {other}")
    return {"L": [*one["L"], *other["L"]]}


def _sum(sign: int, one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return None
    if "N" not in one or "N" not in other:
        raise invalid(f"an operand of the sum is not a number: {one}, {other}")
    return _total(one, other, sign)


def _total(one: Value, other: Value, sign: int) -> Value:
    left, right = number(one), number(other)
    if isinstance(left, int) and isinstance(right, int) and abs(left + sign * right) < _INEXACT:
        return {"N": str(left + sign * right)}
    add = _WIDE.subtract if sign < 0 else _WIDE.add  # Decimal's own operators round to 28 digits
    return {"N": written(add(Decimal(left), Decimal(right)))}


def _added(before: Value | None, more: Value | None) -> Value:
    """ADD: to a number, or to a set. What is not there counts as 0, or as an empty set."""
    assert more is not None, "a placeholder has a value"
    if before is None:
        return more
    kind = next(iter(more))
    if kind not in before:
        raise invalid(f"ADD of {more} to {before}: an operand has an incorrect data type")
    if kind == "N":
        return _total(before, more, 1)
    return {kind: list((_elements(more) | _elements(before)).values())}


def _without(before: Value | None, less: Value | None) -> Value:
    """DELETE: elements of a set. GONE if none is left, or if there is no set."""
    assert less is not None, "a placeholder has a value"
    if before is None:
        return GONE
    kind = next(iter(less))
    if kind not in before:
        raise invalid(f"DELETE of {less} from {before}: an operand has an incorrect data type")
    taken = _elements(less)
    left = [text for element, text in _elements(before).items() if element not in taken]
    return {kind: left} if left else GONE


def written(number: Decimal) -> str:
    """A number as DynamoDB writes it: without an exponent, or zeros that say nothing. Raises ServiceError for what it
    cannot store."""
    if not number:
        return "0"
    if not number.is_finite():
        raise invalid(f"{number} is not a number")
    number = number.normalize(_WIDE)
    if len(number.as_tuple().digits) > _DIGITS or not _SMALLEST <= number.adjusted() <= _LARGEST:
        raise invalid("a number has more than 38 digits, or its magnitude is not from 1E-130 to 9.9…E+125")
    return format(number, "f")


def number(value: Value) -> int | Decimal:
    text: str = value["N"]
    return int(text) if text.isdigit() else Decimal(text)
