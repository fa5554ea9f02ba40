"""Searches for differences: draws cases, and shrinks what differs to the least."""

import contextlib
import io
from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, Phase, given, seed, settings

from . import grammar, shipped, themes
from .compare import Comparison, Difference
from .databases import Case, Compared
from .mistakes import planted

#: The sources of cases. What the protocol builds must be supported.
SOURCES = {"shipped": (shipped.cases(), True), "grammar": (grammar.cases(), False), "themes": (themes.cases, True)}


def search(comparison: Comparison, source: str, first: int, cases: int, least: bool = True) -> Difference | None:
    """Compare so many random cases, which depend on ``first``. Returns a difference, None if there is none.

    least: whether it is shrunk to the least.
    """
    strategy, supported = SOURCES[source]

    @seed(first)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink] if least else [Phase.generate],
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


def find(mistake: str, engines: Sequence[Compared], first: int, cases: int) -> Difference | None:
    """Plant a mistake, and search for it. Raises the difference if it is there without the mistake, too."""
    with planted(mistake):
        difference = search(Comparison(engines), "themes", first, cases, least=False)
    if difference is not None:
        Comparison(engines).run(difference.case)
    return difference
