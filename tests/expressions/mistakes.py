"""Mistakes that are planted in the tables' evaluator, one at a time, to see that the comparison finds them."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context
from typing import Any

from lambda_lock.core.outcome import ServiceError
from lambda_lock.testing import expressions, operators, table
from lambda_lock.testing.expressions import Expression
from lambda_lock.testing.operators import GONE
from tests.prove import mistakes
from tests.prove.mistakes import Change, edit, put, together


def _ordered_by(kind: str, key: str) -> Change:
    """Values of this type are ordered by ``key``, an expression of ``each``."""
    keys = f'({key} if "{kind}" in each else comparable(each) for each in (one, other))'
    return edit(operators.ordered, f"compare(comparable(one), comparable(other)) → compare(*{keys})")


def _added_to(before: str) -> Change:
    """ADD takes ``before`` for the value of an attribute that is not there."""
    absent = f"_either(_at(path), lambda item, values: {before})"
    return edit(Expression.change, f"operators.added, _at(path), operand → operators.added, {absent}, operand")


_SHIFTING = """\
parts: dict → if in_list and len(change) > 1:
        for step, inner in change.items():
            value = _changed_value(value, {step: inner})
        return value
    parts: dict"""
_ONE_BY_ONE = """\
tree: → for change in changes if len(changes) > 1 else ():
        new = _updated(dict(new), new, [change], values)
    if len(changes) > 1:
        return new
    tree:"""
_WRITTEN_SO_FAR = "{name: new[0] for name, new in item.get('', {}).items() if isinstance(new, tuple)}"
_DEFAULTS_LAST = f"""\
return _either(*self.arguments(self.attribute, self.term)) → first, other = self.arguments(self.attribute, self.term)
        return _either(lambda item, values: first({{**item, **{_WRITTEN_SO_FAR}}}, values), other)"""
_FLOAT = """\
return {"N": written( → if not (one["N"] + other["N"]).isdigit():
        return {"N": str(float(one["N"]) + float(f"{sign}1") * float(other["N"]))}
    return {"N": written("""
_ALL_OR_NONE = """\
left = [ → if not taken.keys() <= _elements(before).keys():
        return before
    left = ["""
_WITHIN = """\
if kind in SETS: → if kind == "SS" and kind_of_part == "S":
        return any(part["S"] in text for text in whole["SS"])
    if kind in SETS:"""
_STORED = """\
table.attempt(name, key, request) → table.attempt(name, key, request)
        if reason == "None":
            table.store(key, changes[table, key])"""
_TO_THE_FIRST = """\
raise TransactionCanceled(reasons, shown, None) → failed = [reason != "None" for reason in reasons]
        first = failed.index(True)
        raise TransactionCanceled([*reasons[: first + 1], *["None"] * (len(reasons) - first - 1)], shown, None)"""
_TEXT = "str(*whole.values()).startswith(str(*start.values()))"

#: Each mistake by name. Parsed expressions are forgotten before and after.
MISTAKES: dict[str, Change] = {
    "two types are ordered by their text": edit(
        operators.ordered, "return False → return compare(str(*one.values()), str(*other.values()))"),
    "numbers are ordered by their text": _ordered_by("N", 'each["N"]'),
    "binary values are ordered by their base64": _ordered_by("B", 'each["B"]'),
    "texts are ordered as UTF-16": _ordered_by("S", 'each["S"].encode("utf-16-be")'),
    "BETWEEN leaves out its lower bound": edit(Expression.between, '">=", left → ">", left'),
    "BETWEEN leaves out its upper bound": edit(Expression.between, '"<=", left → "<", left'),
    "OR binds closer than AND": together(
        edit(Expression.either, '"OR" → "AND"', "_either → _both"),
        edit(Expression.every, '"AND" → "OR"', "_both → _either")),
    "AND and OR bind alike": edit(
        Expression.either, "condition = self.every() → condition = self.negated()",
        'self.accept("OR") → word := self.accept("AND", "OR")', '_either → {"AND": _both, "OR": _either}[word]',
        "self.every() → self.negated()"),
    "NOT applies to all that AND joins": edit(Expression.negated, "_not(self.negated()) → _not(self.every())"),
    "IN looks at its first operand only": edit(Expression.among, "in others] → in others[:1]]"),
    "two absent attributes are equal": edit(
        expressions._of, "return None → return (compute is operators.equal and found == [None, None] or None)"),
    "sets are equal in one order only": edit(operators.equal, "one == other or ( → one == other or (False and "),
    "a short value counts as absent": edit(
        Expression.function,
        "_of(bool, → _of(lambda value: any(len(str(content)) > 1 for content in value.values()) or None,"),
    "size counts the bytes of a text": edit(
        operators.size, 'len(content.encode("utf-16-le")) // 2 → len(content.encode())'),
    "size counts characters of base64": edit(
        operators.size, 'decode_data(content) if kind == "B" else content → content'),
    "begins_with compares any two texts": edit(
        operators.begins_with, f"return whole → return {_TEXT} if whole else whole"),
    "contains looks into the elements of a set": edit(operators.contains, _WITHIN),
    "contains takes any type in a list": edit(
        operators.contains, "any(equal(part, element) → any(str(*part.values()) == str(*element.values())"),
    "contains takes any type in a set": edit(
        operators.contains, "return kind == f → return str(*part.values()) in whole[kind] or kind == f"),
    "attribute_type takes a set for its elements": edit(operators.attribute_type, "in value → in str(*value)"),
    "list_append puts the second list first": edit(
        operators.appended, '[*one["L"], *other["L"]] → [*other["L"], *one["L"]]'),
    "a difference is a sum": edit(Expression.change, 'operators.total, sign → operators.total, "+"'),
    "sums have 28 digits": put(operators, "_WIDE", Context(prec=28)),
    "sums are binary floating point": edit(operators.total, _FLOAT),
    "numbers may have 39 digits": put(operators, "_DIGITS", 39),
    "changes of one update see each other": edit(table._updated, _ONE_BY_ONE),
    "if_not_exists sees what SET wrote": together(
        edit(table._updated, 'operand(before, values) → operand({**before, "": tree}, values)'),
        edit(Expression.term, _DEFAULTS_LAST)),
    "REMOVE shifts the later indexes": edit(table._changed_value, _SHIFTING),
    "an element far behind the end is forgotten": edit(
        table._changed_value, "change.items()) → (each for each in change.items() if each[0] <= len(content)))"),
    "a path makes the maps that are missing": edit(
        table._changed_value, "None if value is None → (None if in_list else {}) if value is None"),
    "ADD needs an attribute": _added_to("{}"),
    "ADD to an absent number begins at 1": _added_to('{"N": "1"} if "N" in operand(item, values) else None'),
    "ADD replaces a set": edit(operators.added, "{kind: list( → more or {kind: list("),
    "DELETE leaves an empty set": edit(operators.without, " if left else GONE → "),
    "DELETE takes all of the elements or none": edit(operators.without, _ALL_OR_NONE),
    "ALL_OLD and ALL_NEW are exchanged": edit(
        table.Table.apply, '"ALL_NEW": new, "ALL_OLD": old → "ALL_NEW": old, "ALL_OLD": new'),
    "a refused condition always shows the row": edit(table.Table._changed, 'CheckFailure" → CheckFailure", "ALL_OLD"'),
    "a canceled transaction leaves its first writes": edit(table.transact, _STORED),
    "only the first failed write has a reason": edit(table.transact, _TO_THE_FIRST),
    "a client token is forgotten at once": edit(table.transact, "if ClientRequestToken in done: → if False:"),
    "a client token counts whatever is written": edit(
        table.transact, "if done[ClientRequestToken] != TransactItems: → if False:"),
}  # fmt: skip


# -- defects of engines


_REFUSES = """\
raise NotImplementedError(f"begins_with({start})") → raise NotImplementedError(f"begins_with({start})")
    if whole.keys() != start.keys():
        raise invalid("begins_with of another type")"""
_REFUSED = """\
if any( → if "refused" in reasons:
        raise invalid("begins_with of another type")
    if any("""
_DECIMAL = """\
return {"N": written(add(Decimal(one["N"]), Decimal(other["N"])))} → more = Decimal(other["N"])
    more = more.copy_negate() if sign == "-" else more
    return {"N": format(Decimal(one["N"]) + more, "f")}"""
_AS_WRITTEN = """\
operand), operand) → operand), _of(
                lambda more: {"N": format(operators.Decimal(more["N"]) + 0, "f")} if "N" in more else more, operand))"""


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


#: What an engine is known to do wrong (known.py), as changes to the tables that make them do the same.
DEFECTS: dict[str, Change] = {
    "REMOVE shifts the later indexes": MISTAKES["REMOVE shifts the later indexes"],
    "size of what has no size is 0": edit(operators.size, 'return None → return {"N": "0"}'),
    "contains is false for binary": edit(operators.contains, 'kind in ("S", "B") → kind == "S"'),
    "two absent attributes are equal": MISTAKES["two absent attributes are equal"],
    "begins_with refuses an attribute of another type": together(
        edit(operators.begins_with, _REFUSES), edit(table.Table.attempt,
        "except ServiceError: → except ServiceError as error:",
        '"ValidationError" → "refused" if "begins_with" in str(error) else "ValidationError"',),
        edit(table.transact, _REFUSED)),
    "REMOVE of a path that leads nowhere does nothing": mistakes.wrap(table, "_changed_value", _removes_nothing),
    "sums are those of Decimal": together(edit(operators.total, _DECIMAL), edit(Expression.change, _AS_WRITTEN)),
}  # fmt: skip


@contextmanager
def planted(*names: str) -> Iterator[None]:
    """Plant these mistakes, in this order, for the block."""
    _forget()
    try:
        with mistakes.planted(*((MISTAKES | DEFECTS)[name] for name in names)):
            yield
    finally:
        _forget()


def _forget() -> None:
    expressions._parsed.cache_clear()
