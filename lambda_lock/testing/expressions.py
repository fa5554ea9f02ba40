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

from ..core.outcome import ServiceError
from ..core.requests import decode_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..core.outcome import Item

    Value: TypeAlias = dict[str, Any]
    Names: TypeAlias = dict[str, str]
    #: The values of operands and conditions, for an item and the request's names and values.
    Operand: TypeAlias = Callable[[Item, Names, Item], Value | None]
    Condition: TypeAlias = Callable[[Item, Names, Item], bool]
    #: Where in an item: an attribute's placeholder or name, and on to a part of its map (a placeholder or name) or of
    #: its list (an index).
    Path: TypeAlias = tuple[str | int, ...]
    #: What must hold of a request's names and values, whatever the item is. It raises ServiceError.
    Check: TypeAlias = Callable[[Names, Item], None]
    #: One change in an update: where, and the new value. None, or a value that is GONE, removes what is there.
    Change: TypeAlias = tuple[Path, Operand | None]


def invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)


GONE: Value = {}  # what DELETE leaves of a set of which it takes every element, or of one that is not there


class Expression:
    """A parsed expression: its closures, the placeholders that it uses, and what is checked before it is evaluated."""

    __slots__ = ("checks", "evaluate", "names", "values")

    def __init__(self, evaluate: Any, names: set[str], values: set[str], checks: list[Check]) -> None:
        self.evaluate = evaluate
        self.names = names
        self.values = values
        self.checks = checks


class Cache:
    __slots__ = ("expressions", "parse")

    def __init__(self, parse: Callable[[_Parser], Any]) -> None:
        self.parse = parse
        self.expressions: dict[str, Expression] = {}


def parsed(cache: Cache, text: str | None) -> Expression | None:
    if text is None:
        return None
    known = cache.expressions.get(text)
    if known is None:
        parser = _Parser(text)
        known = Expression(cache.parse(parser), parser.names, parser.values, parser.checks)
        cache.expressions[text] = known
    return known


def check(condition: Expression | None, update: Expression | None, names: Names, values: Item) -> None:
    """Check what does not depend on the item: DynamoDB refuses the request before it looks at the condition."""
    if condition is not None and update is not None:
        used_names, used_values = condition.names | update.names, condition.values | update.values
    else:
        one = condition or update
        used_names, used_values = (one.names, one.values) if one is not None else (set(), set())
    if names.keys() != used_names:
        raise invalid(f"the names defined and the names used differ: {sorted(names.keys() ^ used_names)}")
    if values.keys() != used_values:
        raise invalid(f"the values defined and the values used differ: {sorted(values.keys() ^ used_values)}")
    for expression in (condition, update):
        if expression is not None:
            for each in expression.checks:
                each(names, values)


_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_0-9]+)|(<>|<=|>=|[=<>(),+\-\[\].]))")
_WITH_OPERAND = ("attribute_type", "begins_with", "contains")
_FUNCTIONS = ("attribute_exists", "attribute_not_exists", *_WITH_OPERAND)
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


class _Parser:
    """A recursive-descent parser for the text of one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens(text)
        self.at = 0
        self.names: set[str] = set()
        self.values: set[str] = set()
        self.checks: list[Check] = []
        self.what: dict[Operand, str | Path] = {}  # of operands that are a value's placeholder, or a path
        self.whole = False  # whether the condition read last was in parentheses

    @staticmethod
    def _tokens(text: str) -> list[str]:
        tokens, at, text = [], 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise NotImplementedError(f"{text[at:].strip()[:20]!r} in the expression {text!r}")
            tokens.append(match.group(1) or match.group(2))
            at = match.end()
        return tokens

    # -- tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

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

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise invalid(f"unexpected {self.peek()!r} in {self.text!r}")

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
        if self.peek() == "size" and self.tokens[self.at + 1 : self.at + 2] == ["("]:
            self.at += 2
            size = _size(_at(self.path()))
            self.expect(")")
            return size
        if not self.peek().startswith(":"):
            return self.attribute()
        value = self.take()
        self.values.add(value)

        def evaluate(item: Item, names: Names, values: Item) -> Value | None:
            return values.get(value)

        self.what[evaluate] = value
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
                self.checks.append(_requirement(value, kinds, self.text))

    def require_distinct(self, first: Operand, *others: Operand) -> None:
        """Require that an operand is not compared with itself."""
        one = self.what.get(first)
        for other in map(self.what.get, others):
            if isinstance(one, str) and one == other:
                raise invalid(f"{one} is compared with itself in {self.text!r}")
            if isinstance(one, tuple) and isinstance(other, tuple):
                self.checks.append(_distinction(one, other, self.text))

    # -- conditions

    def condition(self) -> Condition:
        condition = self.either()
        self.end()
        return condition

    def either(self) -> Condition:
        parts = [self.every()]
        while self.accept("OR"):
            parts.append(self.every())
            self.whole = False
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def every(self) -> Condition:
        parts = [self.negated()]
        while self.accept("AND"):
            parts.append(self.negated())
            self.whole = False
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def negated(self) -> Condition:
        if not self.accept("NOT"):
            return self.single()
        inner = self.negated()
        self.whole = False
        return lambda item, names, values: not inner(item, names, values)

    def single(self) -> Condition:
        if self.accept("("):
            inner = self.either()
            self.expect(")")
            if self.whole:
                raise invalid(f"the expression has redundant parentheses: {self.text!r}")
            self.whole = True
            return inner
        condition = self.simple()
        self.whole = False
        return condition

    def simple(self) -> Condition:
        if self.tokens[self.at + 1 : self.at + 2] == ["("] and self.peek() != "size":
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
            return _ordered(left, right, _ORDER[comparator])
        equal = _equals(left, right)
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
            self.checks.append(_bounds(least, most, self.text))
        return _all_of([_ordered(left, least, operator.ge), _ordered(left, most, operator.le)])

    def function(self, name: str) -> Condition:
        if name not in _FUNCTIONS:
            raise invalid(f"there is no function {name}() in the condition {self.text!r}")
        self.expect("(")
        attribute = self.attribute()
        if name in _WITH_OPERAND:
            self.expect(",")
            other = self.operand()
            self.require_distinct(attribute, other)
            if name == "begins_with":
                self.require(("S", "B"), other)
            if name == "attribute_type":
                self.checks.append(_type_name(self.what.get(other), self.text))
            condition = {"attribute_type": _is_of_type, "begins_with": _begins_with, "contains": _contains}[name](
                attribute, other
            )
        elif name == "attribute_exists":
            condition = _exists(attribute)
        else:
            condition = _is_absent(attribute)
        self.expect(")")
        return condition

    def among(self, left: Operand) -> Condition:
        self.expect("(")
        others = [self.operand()]
        while self.accept(","):
            others.append(self.operand())
        self.expect(")")
        self.require_distinct(left, *others)
        return _any_of([_equals(left, other) for other in others])

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
            self.checks.append(_separation([path for path, _ in changes], self.text))
        return changes

    def change(self, clause: str) -> Change:
        path = self.path()
        if clause == "REMOVE":
            return path, None
        if clause != "SET":
            if not self.peek().startswith(":"):
                raise invalid(f"{clause} takes a value such as :v, not {self.peek()!r}, in {self.text!r}")
            operand = self.operand()
            self.require(_SETS if clause == "DELETE" else ("N", *_SETS), operand)
            return path, (_added if clause == "ADD" else _without)(_at(path), operand)
        self.expect("=")
        left = self.term()
        sign = self.accept("+", "-")
        if not sign:
            return path, left
        right = self.term()
        self.require(("N",), left, right)
        return path, _sum(left, right, -1 if sign == "-" else 1)

    def term(self) -> Operand:
        if self.tokens[self.at + 1 : self.at + 2] != ["("]:
            return self.operand()
        name = self.take()
        if name not in ("if_not_exists", "list_append"):
            raise invalid(f"there is no function {name}() in the update {self.text!r}")
        self.expect("(")
        if name == "list_append":
            first = self.term()
            self.expect(",")
            second = self.term()
            self.expect(")")
            self.require(("L",), first, second)
            return _appended(first, second)
        attribute = _at(self.path())
        self.expect(",")
        otherwise = self.term()
        self.expect(")")
        return lambda item, names, values: attribute(item, names, values) or otherwise(item, names, values)


CONDITIONS = Cache(_Parser.condition)
UPDATES = Cache(_Parser.update)


# -- checks -----------------------------------------------------------------------------------------------------------


def _requirement(value: str, kinds: tuple[str, ...], text: str) -> Check:
    def check(names: Names, values: Item) -> None:
        if not values[value].keys() <= set(kinds):
            raise invalid(f"{value} is none of {', '.join(kinds)}, which its place in {text!r} takes")

    return check


def _type_name(value: str | Path | None, text: str) -> Check:
    if not isinstance(value, str):
        raise invalid(f"attribute_type() takes a value such as :v as the type, in {text!r}")

    def check(names: Names, values: Item) -> None:
        if values[value].get("S") not in _KINDS:
            raise invalid(f"attribute_type() takes one of {', '.join(_KINDS)}, not {values[value]}")

    return check


def _distinction(one: Path, other: Path, text: str) -> Check:
    def check(names: Names, values: Item) -> None:
        if resolved(one, names) == resolved(other, names):
            raise invalid(f"an attribute is compared with itself in {text!r}")

    return check


def _separation(paths: list[Path], text: str) -> Check:
    """No path may lead to another or into it, or take a list for a map."""

    def check(names: Names, values: Item) -> None:
        seen: dict[str | int, list[Path]] = {}
        for path in [resolved(path, names) for path in paths]:
            others = seen.setdefault(path[0], [])
            for other in others:
                pair = next(((one, two) for one, two in zip(path, other, strict=False) if one != two), None)
                if pair is None or type(pair[0]) is not type(pair[1]):
                    raise invalid(f"two document paths overlap or conflict: {path[0]} is changed twice in {text!r}")
            others.append(path)

    return check


def _bounds(least: Operand, most: Operand, text: str) -> Check:
    in_order = _ordered(least, most, operator.le)

    def check(names: Names, values: Item) -> None:
        if not in_order({}, names, values):
            raise invalid(f"the bounds of BETWEEN are of two types, or in the wrong order, in {text!r}")

    return check


# -- closures ---------------------------------------------------------------------------------------------------------


def _at(path: Path) -> Operand:
    """The value at a path. None if there is none, also if the path leads through what is not a map or list."""
    first, rest = path[0], path[1:]
    assert isinstance(first, str)
    attribute = _attribute(first)
    if not rest:
        return attribute

    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        value = attribute(item, names, values)
        for step in rest:
            if value is None:
                return None
            value = _part(value, step, names)
        return value

    return evaluate


def _attribute(name: str) -> Operand:
    if name[0] == "#":
        return lambda item, names, values: item.get(names[name])
    return lambda item, names, values: item.get(name)


def _part(value: Value, step: str | int, names: Names) -> Value | None:
    """A part of a map or list. None if there is none."""
    if isinstance(step, int):
        elements = value.get("L", ())
        return elements[step] if step < len(elements) else None
    found: Value | None = value.get("M", {}).get(named(step, names))
    return found


def named(step: str, names: Names) -> str:
    """The name that a placeholder stands for, or the name itself."""
    return names[step] if step[0] == "#" else step


def resolved(path: Path, names: Names) -> Path:
    """A path with names instead of placeholders."""
    return tuple([named(step, names) if isinstance(step, str) else step for step in path])


def _size(attribute: Operand) -> Operand:
    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        value = attribute(item, names, values)
        if value is None:
            return None
        kind, content = next(iter(value.items()))
        if kind in ("N", "BOOL", "NULL"):
            return None  # has no size: the comparison is false
        if kind == "S":
            return {"N": str(len(content.encode("utf-16-le")) // 2)}  # as both engines count: 2 for some characters
        return {"N": str(len(decode_data(content) if kind == "B" else content))}

    return evaluate


def _appended(left: Operand, right: Operand) -> Operand:
    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return None
        if "L" not in one or "L" not in other:
            raise invalid(f"an operand of list_append is not a list: {one}, {other}")
        return {"L": [*one["L"], *other["L"]]}

    return evaluate


def _any_of(parts: list[Condition]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        for part in parts:  # noqa: SIM110 - any() with a generator costs twice as much
            if part(item, names, values):
                return True
        return False

    return evaluate


def _all_of(parts: list[Condition]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        for part in parts:  # noqa: SIM110 - as above
            if not part(item, names, values):
                return False
        return True

    return evaluate


def _exists(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is not None


def _is_absent(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is None


def _equals(left: Operand, right: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return False
        return one == other or _same(one, other)

    return evaluate


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


def _ordered(left: Operand, right: Operand, compare: Callable[[Any, Any], bool]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None or one.keys() != other.keys():
            return False
        if "N" in one:
            return compare(number(one), number(other))
        if "B" in one:
            return compare(decode_data(one["B"]), decode_data(other["B"]))
        if "S" not in one:
            raise NotImplementedError(f"ordering {one} and {other}")
        return compare(one["S"].encode(), other["S"].encode())

    return evaluate


def _begins_with(attribute: Operand, prefix: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        whole, start = attribute(item, names, values), prefix(item, names, values)
        if start is None or not start.keys() & {"S", "B"}:
            raise NotImplementedError(f"begins_with({start})")
        if whole is None or whole.keys() != start.keys():
            return False
        if "B" in whole:
            return decode_data(whole["B"]).startswith(decode_data(start["B"]))
        return str(whole["S"]).startswith(start["S"])

    return evaluate


def _contains(attribute: Operand, operand: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        whole, part = attribute(item, names, values), operand(item, names, values)
        if whole is None or part is None:
            return False
        (kind, content), (kind_of_part, wanted) = next(iter(whole.items())), next(iter(part.items()))
        if kind == "L":
            return any(part == element or _same(part, element) for element in content)
        if kind in _SETS:
            return kind == f"{kind_of_part}S" and not _elements({kind: [wanted]}).keys().isdisjoint(_elements(whole))
        if kind != kind_of_part or kind not in ("S", "B"):
            return False
        return decode_data(wanted) in decode_data(content) if kind == "B" else wanted in content

    return evaluate


def _is_of_type(attribute: Operand, kind: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        value, wanted = attribute(item, names, values), kind(item, names, values)
        return value is not None and wanted is not None and wanted["S"] in value

    return evaluate


def _sum(left: Operand, right: Operand, sign: int) -> Operand:
    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return None
        if "N" not in one or "N" not in other:
            raise invalid(f"an operand of the sum is not a number: {one}, {other}")
        return _total(one, other, sign)

    return evaluate


def _total(one: Value, other: Value, sign: int) -> Value:
    left, right = number(one), number(other)
    if isinstance(left, int) and isinstance(right, int) and abs(left + sign * right) < _INEXACT:
        return {"N": str(left + sign * right)}
    add = _WIDE.subtract if sign < 0 else _WIDE.add  # Decimal's own operators round to 28 digits
    return {"N": written(add(Decimal(left), Decimal(right)))}


def _added(attribute: Operand, operand: Operand) -> Operand:
    """ADD: to a number, or to a set. What is not there counts as 0, or as an empty set."""

    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        before, more = attribute(item, names, values), operand(item, names, values)
        assert more is not None, "a placeholder has a value"
        kind = next(iter(more))
        if kind != "N" and kind not in _SETS:
            raise invalid(f"ADD takes a number or a set, not {more}")
        if before is None:
            return more
        if kind not in before:
            raise invalid(f"ADD of {more} to {before}: an operand has an incorrect data type")
        if kind == "N":
            return _total(before, more, 1)
        return {kind: list((_elements(more) | _elements(before)).values())}

    return evaluate


def _without(attribute: Operand, operand: Operand) -> Operand:
    """DELETE: elements of a set. GONE if none is left, or if there is no set."""

    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        before, less = attribute(item, names, values), operand(item, names, values)
        assert less is not None, "a placeholder has a value"
        kind = next(iter(less))
        if kind not in _SETS:
            raise invalid(f"DELETE takes a set, not {less}")
        if before is None:
            return GONE
        if kind not in before:
            raise invalid(f"DELETE of {less} from {before}: an operand has an incorrect data type")
        taken = _elements(less)
        left = [text for element, text in _elements(before).items() if element not in taken]
        return {kind: left} if left else GONE

    return evaluate


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
