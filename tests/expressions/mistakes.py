"""Mistakes that are planted in the tables' evaluator, one at a time, to see that the comparison finds them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Context, Decimal
from typing import Any, TypeAlias
from unittest import mock

from lambda_lock.core.outcome import ServiceError, TransactionCanceled
from lambda_lock.testing import database, expressions, operators, table
from lambda_lock.testing.operators import GONE, invalid

#: What is broken: where, which function or constant, and what makes the broken one from the right one.
Mistake: TypeAlias = tuple[Any, str, Callable[[Any], Any]]


# -- conditions


def _values(change: Callable[..., Any]) -> Callable[[Any], Any]:
    """A function of operands' values that asks ``change`` first, if none is absent.

    change: takes the operands' values; None: as without the mistake.
    """

    def mistake(real: Any) -> Any:
        def found(*values: Any) -> Any:
            wrong = None if None in values else change(*values)
            return real(*values) if wrong is None else wrong

        return found

    return mistake


def _compares(change: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """An order of two values by what ``change`` makes of them; None: as without the mistake."""

    def mistake(real: Any) -> Any:
        def ordered(compare: Any, one: Any, other: Any) -> Any:
            keys = None if one is None or other is None else change(one, other)
            return real(compare, one, other) if keys is None else compare(*keys)

        return ordered

    return mistake


def _texts(one: Any, other: Any) -> Any:
    return str(*one.values()), str(*other.values())


def _texts_of(kind: str) -> Callable[[Any, Any], Any]:
    return lambda one, other: _texts(one, other) if kind in one and kind in other else None


def _utf16(one: Any, other: Any) -> Any:
    return (one["S"].encode("utf-16-be"), other["S"].encode("utf-16-be")) if "S" in one and "S" in other else None


def _bound(missing: str) -> Callable[[Any], Any]:
    """BETWEEN that leaves out the value at one of its bounds."""

    def mistake(real: Any) -> Any:
        def between(self: Any, left: Any) -> Any:
            ordered = operators.ordered
            strict = {"ge": operator.gt, "le": operator.lt}[missing]

            def without(compare: Any, one: Any, other: Any) -> Any:
                return ordered(strict if compare.__name__ == missing else compare, one, other)

            with mock.patch.object(operators, "ordered", without):
                return real(self, left)

        return between

    return mistake


def _or_first(real: Any) -> Any:
    """OR that binds closer than AND."""

    def either(self: Any) -> Any:
        found = some(self)
        while self.accept("AND"):
            found = expressions._both(found, some(self))
        return found

    def some(self: Any) -> Any:
        found = self.negated()
        while self.accept("OR"):
            found = expressions._either(found, self.negated())
        return found

    return either


def _in_order(real: Any) -> Any:
    """AND and OR that are applied from left to right."""

    def either(self: Any) -> Any:
        found = self.negated()
        while word := self.accept("AND", "OR"):
            found = {"AND": expressions._both, "OR": expressions._either}[word](found, self.negated())
        return found

    return either


def _not_last(real: Any) -> Any:
    """NOT that applies to all that AND joins to what follows it."""

    def negated(self: Any) -> Any:
        if self.peek().upper() != "NOT":
            return real(self)
        self.take()
        inner = self.every()
        return lambda item, values: not inner(item, values)

    return negated


def _only_first(real: Any) -> Any:
    """IN that looks at its first operand only."""

    def among(self: Any, left: Any) -> Any:
        with mock.patch.object(expressions, "_either", lambda first, other: first):
            return real(self, left)

    return among


def _absent_equal(real: Any) -> Any:
    """Two absent attributes that are equal."""

    def of(compute: Any, *operands: Any) -> Any:
        def evaluate(item: Any, values: Any) -> Any:
            return all(operand(item, values) is None for operand in operands) or found(item, values)

        found = real(compute, *operands)
        return evaluate if compute is operators.equal else found

    return of


def _short_is_absent(real: Any) -> Any:
    """attribute_exists that takes a short value for none."""

    def exists(attribute: Any) -> Any:
        def evaluate(item: Any, values: Any) -> bool:
            value = attribute(item, values)
            return value is not None and not all(len(str(content)) < 2 for content in value.values())

        return evaluate

    def function(self: Any) -> Any:
        with mock.patch.object(expressions, "_exists", exists if self.peek() == "attribute_exists" else _exists):
            return real(self)

    _exists = expressions._exists
    return function


def _size(kind: str, count: Callable[[str], int]) -> Callable[[Any], Any]:
    return _values(lambda value: {"N": str(count(value[kind]))} if kind in value else None)


def _starts_anyhow(whole: Any, start: Any) -> Any:
    return str(*whole.values()).startswith(str(*start.values()))


def _in_an_element(whole: Any, part: Any) -> Any:
    return any(part["S"] in text for text in whole["SS"]) if "SS" in whole and "S" in part else None


def _of_any_type(kind: str) -> Callable[[Any, Any], Any]:
    def change(whole: Any, part: Any) -> Any:
        if kind not in whole:
            return None
        texts = whole[kind] if kind != "L" else [str(*each.values()) for each in whole[kind]]
        return str(*part.values()) in texts

    return change


def _is_kind_of(value: Any, wanted: Any) -> Any:
    return True if wanted.get("S") in operators.KINDS and wanted["S"] in str(*value) else None


# -- updates


def _one_by_one(real: Any) -> Any:
    """An update whose later changes see the earlier ones."""

    def updated(before: Any, new: Any, changes: Any, values: Any) -> Any:
        for change in changes:
            new = real(dict(new), new, [change], values)
        return new

    return updated


class _Seen(dict[str, Any]):
    """An item as it was, which knows what it will be."""

    new: dict[str, Any]


def _defaults_last(real: Any) -> Any:
    """if_not_exists that sees what SET has written before it."""

    def term(self: Any) -> Any:
        late = self.peek() == "if_not_exists"
        right = real(self)
        return (lambda item, values: right(getattr(item, "new", item), values)) if late else right

    return term


def _showing_new(real: Any) -> Any:
    def updated(before: Any, new: Any, changes: Any, values: Any) -> Any:
        seen = _Seen(before)
        seen.new = dict(new)
        return real(seen, new, [(path, showing(seen, path, operand)) for path, operand in changes], values)

    def showing(seen: _Seen, path: Any, operand: Any) -> Any:
        def evaluate(item: Any, values: Any) -> Any:
            value = operand(item, values)
            if len(path) == 1:
                seen.new.pop(path[0], None) if value is GONE else seen.new.update({path[0]: value})
            return value

        return evaluate

    return updated


def _shifting(real: Any) -> Any:
    """Elements that are removed one by one, so that the indexes of the later ones shift."""

    def changed(value: Any, change: Any) -> Any:
        if isinstance(change, tuple) or not value or "L" not in value or len(change) < 2:
            return real(value, change)
        for index, inner in change.items():
            value = real(value, {index: inner})
        return value

    return changed


def _makes_maps(real: Any) -> Any:
    """A path that makes the map that it leads through."""

    def changed(value: Any, change: Any) -> Any:
        makes = value is None and not isinstance(change, tuple)
        return real({"M": {}} if makes and isinstance(next(iter(change)), str) else value, change)

    return changed


def _far_elements(real: Any) -> Any:
    """An element behind the end of a list that is forgotten."""

    def changed(value: Any, change: Any) -> Any:
        if isinstance(change, tuple) or not value or "L" not in value or isinstance(next(iter(change)), str):
            return real(value, change)
        near = {index: each for index, each in change.items() if index <= len(value["L"])}
        return real(value, near) if near else value

    return changed


def _backwards(real: Any) -> Any:
    return lambda left, right: real(right, left)


def _always_plus(real: Any) -> Any:
    """A minus that is read as a plus."""

    def accept(self: Any, *words: str) -> str:
        word: str = real(self, *words)
        return "+" if word == "-" else word

    return accept


def _float(real: Any) -> Any:
    """Sums of binary floating point."""

    def total(sign: str, one: Any, other: Any) -> Any:
        left, right = one.get("N", ""), other.get("N", "")
        if not (left and right) or (left.isdigit() and right.isdigit()):
            return real(sign, one, other)
        return {"N": str(float(left) + (-1 if sign == "-" else 1) * float(right))}

    return total


def _to_nothing(change: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """ADD that does this to an attribute that is not there. It takes the operand and what is right."""

    def mistake(real: Any) -> Any:
        def changed(self: Any, clause: str) -> Any:
            path, operand = real(self, clause)
            before, placeholder = expressions._at(path), self.tokens[self.at - 1]

            def evaluate(item: Any, values: Any) -> Any:
                result = operand(item, values)
                wrong = change(values[placeholder], result) if before(item, values) is None else None
                return result if wrong is None else wrong

            return path, evaluate if clause == "ADD" else operand

        return changed

    return mistake


def _refused(operand: Any, result: Any) -> Any:
    raise invalid("ADD to an attribute that is not there")


def _empty_set(real: Any) -> Any:
    """DELETE that leaves an empty set."""

    def without(before: Any, less: Any) -> Any:
        left = real(before, less)
        return {kind: [] for kind in before} if left is GONE and before else left

    return without


def _all_or_none(before: Any, less: Any) -> Any:
    """DELETE that leaves the set alone if it has not all of the elements."""
    ((kind, content),) = before.items()
    return before if kind in less and not set(less[kind]) <= set(content) else None


# -- requests


def _with_request(**fields: Any) -> Callable[[Any], Any]:
    """Requests to which this was added, if they do not say otherwise."""

    def mistake(real: Any) -> Any:
        return lambda self, operation, request, *rest: real(self, operation, {**fields, **request}, *rest)

    return mistake


def _shown_otherwise(real: Any) -> Any:
    """ALL_OLD shows the new item, and ALL_NEW the old one."""
    other = {"ALL_OLD": "ALL_NEW", "ALL_NEW": "ALL_OLD"}

    def apply(self: Any, operation: str, request: Any) -> Any:
        shown = request.get("ReturnValues", "NONE")
        return real(self, operation, {**request, "ReturnValues": other.get(shown, shown)})

    def chosen(self: Any, operation: str, request: Any) -> Any:
        return (apply if operation == "UpdateItem" else real)(*(self, operation, request))

    return chosen


def _stored_at_once(real: Any) -> Any:
    """A transaction that stores each write at once, and cancels only what follows."""

    def attempt(self: Any, operation: str, key: Any, request: Any) -> Any:
        new, reason, row = real(self, operation, key, request)
        if reason == "None":
            self.store(key, new)
        return new, reason, row

    return attempt


def _reasons(change: Callable[[list[str]], list[str]]) -> Callable[[Any], Any]:
    def mistake(real: Any) -> Any:
        return lambda reasons, items, date: real(change(reasons), items, date)

    return mistake


def _to_the_first(reasons: list[str]) -> list[str]:
    """A transaction that says nothing about the writes after the first that fails."""
    failed = next(at for at, reason in enumerate(reasons) if reason != "None")
    return [reason if at <= failed else "None" for at, reason in enumerate(reasons)]


def _token(done: Callable[[Any, Any], dict[str, Any]]) -> Callable[[Any], Any]:
    def mistake(real: Any) -> Any:
        def transact(table_of: Any, known: Any, **request: Any) -> None:
            real(table_of, done(known, request), **request)

        return transact

    return mistake


def _whatever(known: Any, request: Any) -> dict[str, Any]:
    """A token that is taken for done whatever its writes are."""
    return dict.fromkeys(known, request["TransactItems"]) if known else known


#: Each mistake by name. Parsed expressions are forgotten before and after.
MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "two types are ordered by their text": ((operators, "ordered", _compares(_texts)),),
    "numbers are ordered by their text": ((operators, "ordered", _compares(_texts_of("N"))),),
    "binary values are ordered by their base64": ((operators, "ordered", _compares(_texts_of("B"))),),
    "texts are ordered as UTF-16": ((operators, "ordered", _compares(_utf16)),),
    "BETWEEN leaves out its lower bound": ((expressions.Expression, "between", _bound("ge")),),
    "BETWEEN leaves out its upper bound": ((expressions.Expression, "between", _bound("le")),),
    "OR binds closer than AND": ((expressions.Expression, "either", _or_first),),
    "AND and OR bind alike": ((expressions.Expression, "either", _in_order),),
    "NOT applies to all that AND joins": ((expressions.Expression, "negated", _not_last),),
    "IN looks at its first operand only": ((expressions.Expression, "among", _only_first),),
    "two absent attributes are equal": ((expressions, "_of", _absent_equal),),
    "sets are equal in one order only": ((operators, "_same", lambda real: lambda one, other: False),),
    "a short value counts as absent": ((expressions.Expression, "function", _short_is_absent),),
    "size counts the bytes of a text": ((operators, "size", _size("S", lambda text: len(text.encode()))),),
    "size counts characters of base64": ((operators, "size", _size("B", len)),),
    "begins_with compares any two texts": ((operators, "begins_with", _values(_starts_anyhow)),),
    "contains looks into the elements of a set": ((operators, "contains", _values(_in_an_element)),),
    "contains takes any type in a list": ((operators, "contains", _values(_of_any_type("L"))),),
    "contains takes any type in a set": ((operators, "contains", _values(_of_any_type("NS"))),),
    "attribute_type takes a set for its elements": ((operators, "is_of_type", _values(_is_kind_of)),),
    "list_append puts the second list first": ((operators, "appended", _backwards),),
    "a difference is a sum": ((expressions.Expression, "accept", _always_plus),),
    "sums have 28 digits": ((operators, "_WIDE", lambda real: Context(prec=28)),),
    "sums are binary floating point": ((operators, "total", _float),),
    "numbers may have 39 digits": ((operators, "_DIGITS", lambda real: 39),),
    "changes of one update see each other": ((table, "_updated", _one_by_one),),
    "if_not_exists sees what SET wrote": (
        (table, "_updated", _showing_new),
        (expressions.Expression, "term", _defaults_last),
    ),
    "REMOVE shifts the later indexes": ((table, "_changed_value", _shifting),),
    "an element far behind the end is forgotten": ((table, "_changed_value", _far_elements),),
    "a path makes the maps that are missing": ((table, "_changed_value", _makes_maps),),
    "ADD needs an attribute": ((expressions.Expression, "change", _to_nothing(_refused)),),
    "ADD to an absent number begins at 1": (
        (
            expressions.Expression,
            "change",
            _to_nothing(lambda more, _: {"N": str(Decimal(more["N"]) + 1)} if "N" in more else None),
        ),
    ),
    "ADD replaces a set": (
        (
            operators,
            "added",
            _values(lambda before, more: more if "N" not in more and before.keys() == more.keys() else None),
        ),
    ),
    "DELETE leaves an empty set": ((operators, "without", _empty_set),),
    "DELETE takes all of the elements or none": ((operators, "without", _values(_all_or_none)),),
    "ALL_OLD and ALL_NEW are exchanged": ((table.Table, "apply", _shown_otherwise),),
    "a refused condition always shows the row": (
        (table.Table, "_changed", _with_request(ReturnValuesOnConditionCheckFailure="ALL_OLD")),
    ),
    "a canceled transaction leaves its first writes": ((table.Table, "attempt", _stored_at_once),),
    "only the first failed write has a reason": ((table, "TransactionCanceled", _reasons(_to_the_first)),),
    "a client token is forgotten at once": ((database, "transact", _token(lambda known, request: {})),),
    "a client token counts whatever is written": ((database, "transact", _token(_whatever)),),
}


# -- defects of engines


_refusals: list[ServiceError] = []  # of begins_with, in the transaction that is under way


def _refuses(whole: Any, start: Any) -> Any:
    """begins_with that refuses an attribute of another type than the prefix."""
    if whole.keys() != start.keys():
        _refusals.append(invalid("begins_with of another type"))
        raise _refusals[-1]


def _refused_as_a_whole(real: Any) -> Any:
    """A transaction that is refused, instead of canceled, if one of its writes was."""

    def transact(*arguments: Any, **request: Any) -> None:
        _refusals.clear()
        try:
            real(*arguments, **request)
        except TransactionCanceled as canceled:
            raise (_refusals[0] if _refusals else canceled) from None

    return transact


def _zero(value: Any) -> Any:
    return {"N": "0"} if value.keys() & {"N", "BOOL", "NULL"} else None


def _removes_nothing(real: Any) -> Any:
    """REMOVE of a path that leads nowhere, which does nothing."""

    def changed(value: Any, change: Any) -> Any:
        try:
            return real(value, change)
        except ServiceError:
            if any(left is not GONE for left in _left(change)):
                raise
            return GONE if value is None else value

    return changed


def _left(change: Any) -> list[Any]:
    if isinstance(change, tuple):
        return [change[0]]
    return [value for inner in change.values() for value in _left(inner)]


def _decimal(real: Any) -> Any:
    """Sums with 28 digits, which keep the zeros of their operands."""

    def total(sign: str, one: Any, other: Any) -> Any:
        return _rounded(one["N"], other["N"], sign) if "N" in one and "N" in other else real(sign, one, other)

    return total


def _rounded(one: str, other: str = "0", sign: str = "+") -> Any:
    more = Decimal(other) if sign == "+" else Decimal(other).copy_negate()  # a product would be rounded, too
    return {"N": format(Decimal(one) + more, "f")}


def _as_written(more: Any, result: Any) -> Any:
    """Keeps the zeros of a number. What a mistake below it adds is left alone."""
    return _rounded(more["N"]) if "N" in more and Decimal(result["N"]) == Decimal(more["N"]) else None


#: What an engine is known to do wrong (known.py), as changes to the tables that make them do the same.
DEFECTS: dict[str, tuple[Mistake, ...]] = {
    "REMOVE shifts the later indexes": MISTAKES["REMOVE shifts the later indexes"],
    "size of what has no size is 0": ((operators, "size", _values(_zero)),),
    "contains is false for binary": (
        (operators, "contains", _values(lambda whole, part: False if "B" in whole else None)),
    ),
    "two absent attributes are equal": MISTAKES["two absent attributes are equal"],
    "begins_with refuses an attribute of another type": (
        (operators, "begins_with", _values(_refuses)),
        (database, "transact", _refused_as_a_whole),
    ),
    "REMOVE of a path that leads nowhere does nothing": ((table, "_changed_value", _removes_nothing),),
    "sums are those of Decimal": (
        (operators, "total", _decimal),
        (expressions.Expression, "change", _to_nothing(_as_written)),
    ),
}


@contextmanager
def planted(*names: str) -> Iterator[None]:
    """Plant these mistakes, each above those before it."""
    with ExitStack() as stack:
        for name in names:
            for where, attribute, mistake in {**MISTAKES, **DEFECTS}[name]:
                stack.enter_context(mock.patch.object(where, attribute, mistake(getattr(where, attribute))))
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    expressions._parsed.cache_clear()
