"""`make verify-aws`: check what the library assumes of AWS, in your account: python -m rig.verify

It shows what it would create and asks before it creates anything. Whatever happens, it removes what it created. It
prints a table on a terminal, and JSON elsewhere. With AWS_ENDPOINT_URL it uses a local engine.
"""

from __future__ import annotations

import argparse
import re
import secrets
import sys
import time
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from lambda_lock import LockError, __version__
from lambda_lock.transport import ServiceError

from .account import Account
from .budget import Budget, BudgetSpent
from .checks import CHECKS, ttl
from .interrupts import Interrupts
from .report import BROKEN, Report

ALL_HOLD, SOME_DO_NOT, NOT_RUN, LEFT_BEHIND, INTERRUPTED = 0, 1, 2, 3, 130  # exit statuses
_NAME = re.compile(r"lambda-lock-verify-[0-9a-f]{6}")
#: Errors that end a check, but not the run.
_ENDS_A_CHECK = (BotoCoreError, ClientError, LockError, ServiceError, OSError, LookupError, RuntimeError)


def main() -> int:
    arguments = _arguments()
    with Interrupts() as interrupts:
        try:
            budget = Budget(arguments.max_requests, arguments.max_minutes * 60)
            run = arguments.remove or f"lambda-lock-verify-{secrets.token_hex(3)}"
            account = Account(run, boto3.Session(), budget, interrupts)
            where = f"account {account.identity()['Account']}, {account.region}, {account.endpoint}"
        except (BotoCoreError, ClientError) as error:
            _say(f"The account cannot be used: {error}")
            return NOT_RUN
        except KeyboardInterrupt:
            return INTERRUPTED
        try:
            if arguments.remove:
                return _removed(account, interrupts, everything=True)
            _say(_plan(account, where, arguments.long))
            if not (arguments.yes or _agreed()):
                _say("Nothing was created.")
                return NOT_RUN
            return _run(account, interrupts, arguments.only or [*CHECKS], arguments.long)
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            account.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rig.verify", description=__doc__.splitlines()[0])
    parser.add_argument("--yes", action="store_true", help="create without asking")
    parser.add_argument("--long", action="store_true", help="also check what takes ten minutes")
    parser.add_argument("--only", action="append", choices=CHECKS, help="run this check only; can be repeated")
    parser.add_argument("--max-requests", type=int, default=1500, metavar="N", help="send no more (default: 1500)")
    parser.add_argument("--max-minutes", type=float, default=20.0, metavar="N", help="end after these (default: 20)")
    parser.add_argument("--remove", metavar="NAME", help="remove what a run that was killed has left, and nothing else")
    arguments = parser.parse_args()
    for option, value in (("--max-requests", arguments.max_requests), ("--max-minutes", arguments.max_minutes)):
        if not 0 < value <= 10_000:
            parser.error(f"{option}={value:g} is out of range: give more than 0, and at most 10000")
    if arguments.remove and not _NAME.fullmatch(arguments.remove):
        parser.error(f"--remove={arguments.remove!r} is not the name of a run: it is like lambda-lock-verify-1a2b3c")
    return arguments


def _plan(account: Account, where: str, long: bool) -> str:
    return "\n".join(
        [
            f"In {where}:",
            *(f"  table     {name}" for name in account.tables),
            *(f"  role      {name}" for name in account.roles),
            *(f"  function  {name}" for name in account.functions),
            f"At most {account.budget.requests} requests, {account.budget.seconds / 60:g} minutes and "
            f"${account.budget.dollars:.2f}; usually {'11 minutes' if long else '2 minutes'} and less than $0.02.",
            "All of it is removed at the end, also after Ctrl-C. If this process is killed, this removes it:",
            f"  make verify-aws ARGS='--remove {account.run}'",
        ]
    )


def _agreed() -> bool:
    if not sys.stdin.isatty():
        _say("There is no terminal to ask on: add --yes.")
        return False
    sys.stderr.write("Create this? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _run(account: Account, interrupts: Interrupts, names: list[str], long: bool) -> int:
    report, began = Report(account.is_engine), time.monotonic()
    try:
        status = _check(account, report, names, long)
    except KeyboardInterrupt:
        status = INTERRUPTED
    finally:
        left = _removed(account, interrupts)
    about: dict[str, Any] = {
        "lambda_lock": __version__,
        "python": sys.version.split()[0],
        "region": account.region,
        "engine": account.is_engine,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seconds": round(time.monotonic() - began),
        "requests": account.budget.spent,
    }
    sys.stdout.write(f"{report.as_table() if sys.stdout.isatty() else report.as_json(about)}\n")
    return left or (SOME_DO_NOT if report.counts()[BROKEN] else status)


def _check(account: Account, report: Report, names: list[str], long: bool) -> int:
    """Run the checks. One that cannot go on leaves its claims unchecked, and the next begins. Returns a status."""
    try:
        account.create_table(account.run, BillingMode="PAY_PER_REQUEST")
        for name in names:
            _say(f"checking {name}")
            try:
                CHECKS[name](account, report, long)
            except _ENDS_A_CHECK as error:
                report.stopped(name, f"the check could not go on: {type(error).__name__}: {error}")
        if "ttl" in names:
            ttl.look_again(account, report)
    except (*_ENDS_A_CHECK, BudgetSpent) as error:
        for name in CHECKS:
            report.stopped(name, f"the run could not go on: {error}")
        return NOT_RUN
    return ALL_HOLD


def _removed(account: Account, interrupts: Interrupts, *, everything: bool = False) -> int:
    """Remove what the run created, and ignore signals meanwhile. Returns the exit status for that."""
    interrupts.ignore()
    _say(f"removing {account.run}")
    left = account.remove(everything=everything)
    for line in left:
        _say(f"NOT REMOVED: {line}")
    return LEFT_BEHIND if left else ALL_HOLD


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
