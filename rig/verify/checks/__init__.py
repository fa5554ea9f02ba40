"""The checks, in the order in which they run. Each notes findings for the claims that begin with its name."""

from __future__ import annotations

from collections.abc import Callable

from ..account import Account
from ..report import Report
from . import cold_start, dates, errors, locks, permissions, transactions, ttl

#: By name: a function of the account, the report, and whether the run may be long.
CHECKS: dict[str, Callable[[Account, Report, bool], None]] = {
    "ttl": ttl.check,
    "locks": locks.check,
    "errors": errors.check,
    "transactions": transactions.check,
    "permissions": permissions.check,
    "cold_start": cold_start.check,
    "dates": dates.check,
}
