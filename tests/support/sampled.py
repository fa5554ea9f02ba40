"""A part of many cases for `make test`, and all of them for `make test-slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(one_in: int, cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The cases for parametrize, each with its arguments. The first of so many has no marker, the others are `long`."""
    return [
        pytest.param(*case, marks=() if number % one_in == 0 else pytest.mark.long) for number, case in enumerate(cases)
    ]
