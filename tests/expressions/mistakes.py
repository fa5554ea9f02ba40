"""Mistakes that are planted in the tables' evaluator, one at a time, to see that the comparison finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from lambda_lock.testing import expressions, table


def _any_type(left: Any, right: Any, compare: Any) -> Any:
    """A comparison that takes the text of any two values for comparable."""

    def evaluate(item: Any, names: Any, values: Any) -> bool:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return False
        return bool(compare(str(*one.values()), str(*other.values())))

    return evaluate


def _exists_if_long(attribute: Any) -> Any:
    """attribute_exists that takes an attribute with a short value for absent."""

    def evaluate(item: Any, names: Any, values: Any) -> bool:
        value = attribute(item, names, values) or {}
        return any(len(str(content)) > 1 for content in value.values())

    return evaluate


def _characters(attribute: Any) -> Any:
    """size() that counts characters instead of bytes."""
    real = _SIZE(attribute)

    def evaluate(item: Any, names: Any, values: Any) -> Any:
        value = attribute(item, names, values)
        return {"N": str(len(value["S"]))} if value and "S" in value else real(item, names, values)

    return evaluate


def _backwards(left: Any, right: Any) -> Any:
    """list_append that puts the second list first."""
    return _APPENDED(right, left)


def _from_one(left: Any, right: Any, sign: int) -> Any:
    """A difference that is added."""
    return _SUM(left, right, 1)


def _one_by_one(self: Any, new: Any, before: Any, changes: Any, names: Any, values: Any) -> None:
    """An update whose later changes see the earlier ones."""
    for change in changes:
        _UPDATE(self, new, dict(new), [change], names, values)


_APPENDED, _SIZE, _SUM = expressions._appended, expressions._size, expressions._sum
_UPDATE = table.Table._update

#: What is broken: where, and by what. Parsed expressions are forgotten before and after.
MISTAKES: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "two types are ordered by their text": (expressions, "_ordered", _any_type),
    "a short value counts as absent": (expressions, "_exists", _exists_if_long),
    "size counts characters": (expressions, "_size", _characters),
    "list_append puts the second list first": (expressions, "_appended", _backwards),
    "a difference is a sum": (expressions, "_sum", _from_one),
    "changes of one update see each other": (table.Table, "_update", _one_by_one),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    where, attribute, mistake = MISTAKES[name]
    with mock.patch.object(where, attribute, mistake):
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    expressions.CONDITIONS.expressions.clear()
    expressions.UPDATES.expressions.clear()
