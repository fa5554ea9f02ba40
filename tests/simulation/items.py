"""Remembers what was read from the latest items. An item of the table never changes: each write makes a new one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
_MOST = 16


def remembered(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Let a function of one item read each of the latest items once. Most requests show the same item again."""
    latest: dict[int, tuple[Any, T]] = {}  # with the item itself, so that no other one gets its id

    @wraps(read)
    def wrapper(item: Any) -> T:
        known = latest.get(id(item))
        if known is not None:
            return known[1]
        value = read(item)
        if len(latest) >= _MOST:
            latest.clear()
        latest[id(item)] = item, value
        return value

    return wrapper
