"""The bounds of a run: how many requests it may send, and for how long."""

from __future__ import annotations

import threading
import time
from typing import Any

from lambda_lock.transport import Reply, Transport

# The dearest request writes 40 units (20 KB in a transaction). The dearest Region takes less than $3 for a million.
_UNITS, _DOLLARS_PER_UNIT = 40, 3e-6
_BESIDES = 0.02  # dollars: a provisioned table of one unit for an hour, and ten invocations


class BudgetSpent(Exception):
    """The run has sent as many requests as it may, or its time is over."""


class Budget:
    """Counts requests. Any number of threads may use it.

    requests: how many may be sent. seconds: for how long.
    """

    def __init__(self, requests: int, seconds: float) -> None:
        self.requests = requests
        self.seconds = seconds
        self.spent = 0
        self._end = time.monotonic() + seconds
        self._guard = threading.Lock()

    @property
    def dollars(self) -> float:
        """What the requests can cost at most."""
        return self.requests * _UNITS * _DOLLARS_PER_UNIT + _BESIDES

    def spend(self, **_: Any) -> None:
        """Count one request before it is sent; botocore calls it so. Raises BudgetSpent."""
        with self._guard:
            if self.spent >= self.requests:
                raise BudgetSpent(f"the {self.requests} requests of --max-requests are sent")
            if time.monotonic() >= self._end:
                raise BudgetSpent(f"the {self.seconds / 60:g} minutes of --max-minutes are over")
            self.spent += 1

    def left(self) -> float:
        """Seconds that are left, 0 or more."""
        return max(0.0, self._end - time.monotonic())


class Counted:
    """A transport whose sends are counted, and whose answers are looked at for their Dates."""

    def __init__(self, inner: Transport, budget: Budget, answers: Answers) -> None:
        self._inner = inner
        self._budget = budget
        self._answers = answers

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        self._budget.spend()
        try:
            reply = self._inner.send(operation, request, timeout=timeout)
        except Exception as error:
            if hasattr(error, "date"):  # an answer, not the lack of one
                self._answers.saw(type(error).__name__, error.date)
            raise
        self._answers.saw("Reply", reply.date)
        return reply


class Answers:
    """How many answers of each kind there were, and which kinds came without a Date."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.without_date: dict[str, int] = {}
        self._guard = threading.Lock()

    def saw(self, kind: str, date: int | None) -> None:
        with self._guard:
            for counts in (self.kinds,) if date is not None else (self.kinds, self.without_date):
                counts[kind] = counts.get(kind, 0) + 1
