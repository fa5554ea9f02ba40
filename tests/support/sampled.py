"""A part of many cases for `make test`, and all of them for `make test-slow`."""

from collections.abc import Collection, Iterable
from typing import Any
from zlib import crc32

import pytest


def sampled(one_in: int, cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The cases for parametrize, each with its arguments. The first of so many has no marker, the others are `long`."""
    return [
        pytest.param(*case, marks=() if number % one_in == 0 else pytest.mark.long) for number, case in enumerate(cases)
    ]


def sampled_with(
    one_in: int, names: Collection[str], less: Any, more: Any, mark: pytest.MarkDecorator = pytest.mark.long
) -> list[Any]:
    """The cases for parametrize: about one in so many names with ``less``, and all of them with ``more``, marked.

    Which ones depends on each name alone: one that is added changes nothing for the others.
    """
    some = [name for name in names if crc32(name.encode()) % one_in == 1]
    return [*((name, less) for name in some), *(pytest.param(name, more, marks=mark) for name in names)]
