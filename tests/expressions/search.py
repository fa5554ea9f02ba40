"""Searches for differences: draws cases, and shrinks what differs to the least."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings

from . import grammar, shipped
from .compare import Comparison, Difference
from .databases import Case

#: The sources of cases. What the protocol builds must be supported.
SOURCES = {"shipped": (shipped.cases(), True), "grammar": (grammar.cases(), False)}


def search(comparison: Comparison, source: str, first: int, cases: int) -> Difference | None:
    """Compare so many random cases, which depend on ``first``. Returns the least difference, None if there is none."""
    strategy, supported = SOURCES[source]

    @seed(first)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(strategy)
    def compare(case: Case) -> None:
        comparison.run(case, supported)

    run: Callable[[], None] = compare
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # hypothesis prints what it raises
            run()
    except Difference as difference:
        return difference
    return None
