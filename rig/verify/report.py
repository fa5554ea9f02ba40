"""What a run found, claim by claim: a table on a terminal, JSON elsewhere."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import Any, NamedTuple

from .claims import CLAIMS, NOT_ON_AN_ENGINE

HOLDS, BROKEN, MEASURED, NOT_CHECKED = "holds", "does not hold", "measured", "not checked"
RESULTS = (HOLDS, BROKEN, MEASURED, NOT_CHECKED)
_NARROW, _WIDEST = 60, 160  # columns


class Finding(NamedTuple):
    """One of RESULTS, and what was seen."""

    result: str
    found: str


class Report:
    """The findings of one run. A claim that nothing was noted for was not checked."""

    def __init__(self, on_engine: bool) -> None:
        self._on_engine = on_engine
        self._findings: dict[str, Finding] = {}
        self._reasons: dict[str, str] = {}

    def note(self, claim: str, result: str, found: object) -> None:
        """Note what was found. What an engine cannot show stays unchecked, whatever was seen there."""
        assert claim in CLAIMS, claim
        if self._on_engine and claim in NOT_ON_AN_ENGINE:
            result, found = NOT_CHECKED, f"{NOT_ON_AN_ENGINE[claim]}. It showed: {found}"
        self._findings[claim] = Finding(result, str(found))

    def expect(self, claim: str, holds: bool, found: object) -> None:
        self.note(claim, HOLDS if holds else BROKEN, found)

    def stopped(self, check: str, reason: str) -> None:
        """Say why a check ended early: the rest of its claims are not checked for this reason."""
        self._reasons[check] = reason

    def findings(self) -> dict[str, Finding]:
        """The finding of each claim, in the order of CLAIMS."""
        return {claim: self._findings.get(claim) or self._missing(claim) for claim in CLAIMS}

    def counts(self) -> dict[str, int]:
        results = [finding.result for finding in self.findings().values()]
        return {result: results.count(result) for result in RESULTS}

    def as_json(self, about: dict[str, Any]) -> str:
        claims = [
            {"claim": claim, "says": CLAIMS[claim], **finding._asdict()} for claim, finding in self.findings().items()
        ]
        return json.dumps({**about, "counts": self.counts(), "claims": claims}, indent=2, ensure_ascii=False)

    def as_table(self) -> str:
        """A line for each claim, and what was found below it, as wide as the terminal."""
        width = max(_NARROW, min(shutil.get_terminal_size().columns, _WIDEST))
        first = max(map(len, RESULTS)) + 2
        lines = []
        for claim, finding in self.findings().items():
            text = f"{claim}: {CLAIMS[claim]}"
            lines += textwrap.wrap(
                text, width, initial_indent=finding.result.ljust(first), subsequent_indent=" " * first
            )
            lines += textwrap.wrap(
                finding.found, width, initial_indent=" " * (first + 2), subsequent_indent=" " * (first + 2)
            )
        return "\n".join([*lines, "", ", ".join(f"{count} {result}" for result, count in self.counts().items())])

    def _missing(self, claim: str) -> Finding:
        if self._on_engine and claim in NOT_ON_AN_ENGINE:
            return Finding(NOT_CHECKED, NOT_ON_AN_ENGINE[claim])
        return Finding(NOT_CHECKED, self._reasons.get(claim.partition(".")[0], "the run ended before"))
