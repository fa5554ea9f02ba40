"""Carries out cases on the library's tables and on engines, and says where they differ."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .databases import UNSUPPORTED, Case, Compared, InMemory, Outcome, Request
from .known import KNOWN, LOCAL, MINISTACK
from .mistakes import planted

_SHOWN = 10  # of the requests in which ministack alone was wrong


@dataclass
class Difference(AssertionError):
    """An engine and the library's table do not agree about a request."""

    engine: str
    case: Case
    at: int
    expected: Outcome
    found: Outcome

    def __str__(self) -> str:
        operation, request = self.case.requests[self.at]
        before = [f"  after {name} {json.dumps(each)}" for name, each in self.case.requests[: self.at]]
        said = [f"  {self.engine}: {self.expected}", f"  lambda_lock.testing: {self.found}"]
        differ = f"{self.engine} and lambda_lock.testing differ"
        return "\n".join([differ, *before, f"  {operation} {json.dumps(request)}", *said])


class Comparison:
    """Compares the tables in memory with engines, and counts.

    DynamoDB Local is Amazon's. Where it agrees with the tables in memory, ministack alone is wrong. That is counted,
    and is not a difference.

    inputs: requests that were compared with every engine. unsupported: those that the tables refuse as such. alone: the
    first of those in which ministack alone was wrong, in a way that known.py does not list.
    """

    def __init__(self, engines: Sequence[Compared]) -> None:
        self.engines = engines
        self.memory = InMemory()
        self.inputs = 0
        self.counts: Counter[str] = Counter()
        self.alone: list[str] = []

    def run(self, case: Case, supported: bool = False) -> None:
        """Carry out a case everywhere. Raises Difference for the first request whose outcomes differ.

        supported: the tables must support each of its requests.
        """
        tables = case.tables
        for database in (self.memory, *self.engines):
            database.clear(tables)
        for at, request in enumerate(case.requests):
            found = _outcome(self.memory, request, tables)
            if found.error == UNSUPPORTED and not supported:
                self.counts["unsupported"] += 1
                return
            self.inputs += 1
            self.counts[found.error or "done"] += 1
            outcomes = {engine.name: _outcome(engine, request, tables) for engine in self.engines}
            agreed = [self._agrees(name, outcomes, case, at, found) for name in outcomes]
            if not all(agreed):  # the rows differ from here on
                return

    def _agrees(self, engine: str, outcomes: dict[str, Outcome], case: Case, at: int, found: Outcome) -> bool:
        expected = outcomes[engine]
        if expected == found:
            return True
        if why := known(engine, case, at, expected, found):
            self.counts[f"known: {why}"] += 1
            return False
        difference = Difference(engine, case, at, expected, found)
        if engine != MINISTACK or outcomes.get(LOCAL) != found:
            raise difference
        self.counts["ministack alone"] += 1
        self.alone += [] if len(self.alone) >= _SHOWN else [str(difference)]
        return False


def known(engine: str, case: Case, at: int, expected: Outcome, found: Outcome) -> str | None:
    """The name of the known difference that explains this. None if none does."""
    candidates = [each for each in KNOWN if each.engine == engine]
    for each in candidates:
        if each.applies(case.requests[at], expected, found):
            return each.name
    models = {each.model: each.name for each in candidates if each.model}
    kinds = [(name, [model]) for model, name in models.items()]
    for name, wrong in [*kinds, (" and ".join(models.values()), [*models])]:
        modelled = _modelled(case, at, *wrong) if wrong else found
        # What a model makes may differ from the engine's outcome in another known way, such as the text of a number.
        if modelled == expected or any(each.applies(case.requests[at], expected, modelled) for each in candidates):
            return name
    return None


def _modelled(case: Case, at: int, *models: str) -> Outcome:
    """The outcome of a request on tables with these defects."""
    memory = InMemory()
    with planted(*models):
        outcomes = [_outcome(memory, request, case.tables) for request in case.requests[: at + 1]]
    return outcomes[-1]


def _outcome(database: Compared, request: Request, tables: list[str]) -> Outcome:
    outcome = database.apply(request)
    return replace(outcome, rows={table: database.rows(table) for table in tables})
