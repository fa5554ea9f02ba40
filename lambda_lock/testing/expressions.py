"""Reads the expressions in requests, for the in-memory table. Each text is parsed once, into closures.

All update and condition expressions of DynamoDB are supported. One that DynamoDB refuses raises
ServiceError("ValidationException"). That includes unused placeholders. The parser never guesses: where it cannot tell
what DynamoDB would do (a reserved word is not known as one, an order of two lists), it raises NotImplementedError, or
takes the expression as it is.

An operator or a function of an absent attribute gives an absent value, and as a condition it is false; ``<>`` is true.
operators.py has the rules for values. Every operand of an update sees the item as it was before the update.
"""

from __future__ import annotations

import operator
import re
from functools import cache, partial, reduce
from itertools import combinations

from . import operators
from .operators import GONE, KINDS, ORDERED, SETS, invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..core.outcome import Item

    #: The value of an operand for an item and the request's values, None if it is absent; or whether a condition holds.
    Operand: TypeAlias = Callable[[Item, Item], Any]
    #: Where in an item: an attribute's name, and on to a part of its map (a name) or of its list (an index).
    Path: TypeAlias = tuple[str | int, ...]
    #: One change in an update: where, and the new value. GONE removes what is there.
    Change: TypeAlias = tuple[Path, Operand]
    #: Placeholders with the names that they stand for.
    Names: TypeAlias = tuple[tuple[str, str], ...]

_TOKEN = re.compile(r"([#:]?[A-Za-z_0-9]+|<>|<=|>=|[=<>(),+\-\[\].])|\S.*", re.DOTALL)
_FUNCTIONS = ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains")
_CLAUSES = ("SET", "REMOVE", "ADD", "DELETE")
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NONE: dict[str, Any] = {}


class Expression:
    """A recursive-descent parser of one text. It keeps what has to hold of the request's values.

    used: the placeholders in the text.
    kinds: placeholders of values, each with the types that the value may have.
    types: placeholders of values that name a type.
    bounds: pairs of placeholders. The value of the first must not be greater.
    """

    def __init__(self, kind: str, text: str, names: Names) -> None:
        self.text = text
        self.names = dict(names)
        self.used: set[str] = set()
        self.kinds: list[tuple[str, tuple[str, ...]]] = []
        self.types: list[str] = []
        self.bounds: list[tuple[str, str]] = []
        self.what: dict[Operand, str | Path] = {}  # the placeholder or the path of each operand that is one
        self.tokens: list[str] = []
        self.at = 0  # the index of the next token
        self.enclosed = (0, 0)  # where the condition in parentheses that was read last begins and ends
        for match in _TOKEN.finditer(text.rstrip()):
            if match[1] is None:
                raise NotImplementedError(f"{match[0][:20]!r} in the expression {text.rstrip()!r}")
            self.tokens.append(match[1])
        #: The closure of a condition, or the changes of an update.
        self.evaluate: Any = self.condition() if kind == "ConditionExpression" else self.update()

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

    def arguments(self, *takes: Callable[[], Operand]) -> list[Operand]:
        """Take the arguments of a function in parentheses, one or two, each by its own method."""
        found = []
        for before, take in zip("(,", takes, strict=False):
            self.expect(before)
            found.append(take())
        self.expect(")")
        return found

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
        if token[0] != "#":
            return token
        self.used.add(token)
        return self.names.get(token, token)  # expressions_of refuses one that is not defined

    def operand(self) -> Operand:
        if self.peek() == "size" and self.calls():
            self.take()
            return _of(operators.size, *self.arguments(self.attribute))
        if not self.peek().startswith(":"):
            return self.attribute()
        name = self.take()
        self.used.add(name)
        return self.known(lambda item, values: values.get(name), name)

    def attribute(self) -> Operand:
        path = self.path()
        return self.known(_at(path), path)

    def known(self, operand: Operand, what: str | Path) -> Operand:
        self.what[operand] = what
        return operand

    def require(self, kinds: tuple[str, ...], *operands: Operand) -> None:
        """Require these types of the operands that are values."""
        self.kinds += [(value, kinds) for value in map(self.what.get, operands) if isinstance(value, str)]

    def require_distinct(self, first: Operand, *others: Operand) -> None:
        """Require that an operand is not compared with itself."""
        one = self.what.get(first)
        if one is not None and one in map(self.what.get, others):
            shown = one if isinstance(one, str) else "an attribute"
            raise invalid(f"{shown} is compared with itself in {self.text!r}")

    # -- conditions

    def condition(self) -> Operand:
        condition = self.either()
        if self.at < len(self.tokens):
            raise invalid(f"unexpected {self.peek()!r} in {self.text!r}")
        return condition

    def either(self) -> Operand:
        condition = self.every()
        while self.accept("OR"):
            condition = _either(condition, self.every())
        return condition

    def every(self) -> Operand:
        condition = self.negated()
        while self.accept("AND"):
            condition = _both(condition, self.negated())
        return condition

    def negated(self) -> Operand:
        if self.accept("NOT"):
            return _not(self.negated())
        start = self.at
        if not self.accept("("):
            return self.function() if self.calls() and self.peek() != "size" else self.comparison()
        inner = self.either()
        self.expect(")")
        if self.enclosed == (start + 1, self.at - 1):
            raise invalid(f"the expression has redundant parentheses: {self.text!r}")
        self.enclosed = start, self.at
        return inner

    def comparison(self) -> Operand:
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
            return self.ordered(comparator, left, right)
        equal = _of(operators.equal, left, right)
        return equal if comparator == "=" else _not(equal)

    def ordered(self, comparator: str, left: Operand, right: Operand) -> Operand:
        self.require(ORDERED, left, right)
        return _of(partial(operators.ordered, _ORDER[comparator]), left, right)

    def between(self, left: Operand) -> Operand:
        least = self.operand()
        if not self.accept("AND"):
            raise invalid(f"BETWEEN without AND in {self.text!r}")
        most = self.operand()
        self.require_distinct(left, least, most)
        low, high = self.what.get(least), self.what.get(most)
        if isinstance(low, str) and isinstance(high, str):
            self.bounds.append((low, high))
        return _both(self.ordered(">=", left, least), self.ordered("<=", left, most))

    def among(self, left: Operand) -> Operand:
        self.expect("(")
        others = [self.operand()]
        while self.accept(","):
            others.append(self.operand())
        self.expect(")")
        self.require_distinct(left, *others)
        return reduce(_either, [_of(operators.equal, left, other) for other in others])

    def function(self) -> Operand:
        name = self.take()
        if name not in _FUNCTIONS:
            raise invalid(f"there is no function {name}() in the condition {self.text!r}")
        if name in ("attribute_exists", "attribute_not_exists"):
            exists = _of(bool, *self.arguments(self.attribute))  # every value of an item is a dict that is not empty
            return exists if name == "attribute_exists" else _not(exists)
        attribute, other = self.arguments(self.attribute, self.operand)
        self.require_distinct(attribute, other)
        if name == "begins_with":
            self.require(("S", "B"), other)
        if name == "attribute_type":
            value = self.what.get(other)
            if not isinstance(value, str):
                raise invalid(f"attribute_type() takes a value such as :v as the type, in {self.text!r}")
            self.types.append(value)
        return _of(getattr(operators, name), attribute, other)

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
        for (one, _), (other, _) in combinations(changes, 2):
            # No path may lead to another or into it, and none may take a list for a map.
            pair = next((pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), None)
            if pair is None or type(pair[0]) is not type(pair[1]):
                raise invalid(f"two document paths overlap or conflict: {one[0]} is changed twice in {self.text!r}")
        return changes

    def change(self, clause: str) -> Change:
        path = self.path()
        if clause == "REMOVE":
            return path, _gone
        if clause != "SET":
            if not self.peek().startswith(":"):
                raise invalid(f"{clause} takes a value such as :v, not {self.peek()!r}, in {self.text!r}")
            operand = self.operand()
            if clause == "DELETE":
                self.require(SETS, operand)
                return path, _either(_of(operators.without, _at(path), operand), _gone)
            self.require(("N", *SETS), operand)
            return path, _either(_of(operators.added, _at(path), operand), operand)
        self.expect("=")
        left = self.term()
        sign = self.accept("+", "-")
        if not sign:
            return path, left
        right = self.term()
        self.require(("N",), left, right)
        return path, _of(partial(operators.total, sign), left, right)

    def term(self) -> Operand:
        if not self.calls():
            return self.operand()
        name = self.take()
        if name not in ("if_not_exists", "list_append"):
            raise invalid(f"there is no function {name}() in the update {self.text!r}")
        if name == "if_not_exists":
            return _either(*self.arguments(self.attribute, self.term))
        first, second = self.arguments(self.term, self.term)
        self.require(("L",), first, second)
        return _of(operators.appended, first, second)


# -- closures ---------------------------------------------------------------------------------------------------------


def _at(path: Path) -> Operand:
    """The value at a path. None if there is none, also if the path leads through what is not a map or list."""
    first = path[0]
    if len(path) == 1 and isinstance(first, str):
        return lambda item, values: item.get(first)

    def evaluate(item: Item, values: Item) -> Any:
        value: Any = {"M": item}
        for step in path:
            parts = value.get("M", _NONE) if isinstance(step, str) else dict(enumerate(value.get("L", ())))
            value = parts.get(step)
            if value is None:
                return None
        return value

    return evaluate


def _of(compute: Callable[..., Any], *operands: Operand) -> Operand:
    """``compute`` of the values of the operands. None if one is absent."""

    def evaluate(item: Item, values: Item) -> Any:
        found = [operand(item, values) for operand in operands]
        return None if None in found else compute(*found)

    return evaluate


def _either(left: Operand, right: Operand) -> Operand:
    return lambda item, values: left(item, values) or right(item, values)


def _both(left: Operand, right: Operand) -> Operand:
    return lambda item, values: left(item, values) and right(item, values)


def _not(condition: Operand) -> Operand:
    return lambda item, values: not condition(item, values)


def _gone(item: Item, values: Item) -> Any:
    return GONE


# -- requests ---------------------------------------------------------------------------------------------------------


_parsed = cache(Expression)


def expressions_of(request: dict[str, Any]) -> tuple[Operand, list[Change]]:
    """The condition and the changes of a write.

    Raises ServiceError for errors that do not depend on the item: DynamoDB refuses such a request before it looks at
    the condition.
    """
    names, values = request.get("ExpressionAttributeNames", _NONE), request.get("ExpressionAttributeValues", _NONE)
    parsed = {
        kind: _parsed(kind, request[kind], tuple(names.items()))
        for kind in ("ConditionExpression", "UpdateExpression")
        if kind in request
    }
    used = set().union(*[expression.used for expression in parsed.values()])
    for what, sign, defined in (("names", "#", names), ("values", ":", values)):
        unmatched = defined.keys() ^ {placeholder for placeholder in used if placeholder[0] == sign}
        if unmatched:
            raise invalid(f"the {what} defined and the {what} used differ: {sorted(unmatched)}")
    for expression in parsed.values():
        for value, kinds in expression.kinds:
            if not values[value].keys() <= set(kinds):
                raise invalid(f"{value} is none of {', '.join(kinds)}, which its place in {expression.text!r} takes")
        for value in expression.types:
            if values[value].get("S") not in KINDS:
                raise invalid(f"attribute_type() takes one of {', '.join(KINDS)}, not {values[value]}")
        for low, high in expression.bounds:
            if not operators.ordered(operator.le, values[low], values[high]):
                raise invalid(f"the bounds of BETWEEN are of two types, or in the wrong order, in {expression.text!r}")
    condition, update = parsed.get("ConditionExpression"), parsed.get("UpdateExpression")
    holds = condition.evaluate if condition else lambda item, values: True
    return holds, update.evaluate if update else []
