"""`lambda-lock acquire` and `release`: a lock that several commands hold, one after the other, and a release by force.

As in `run`, signals are blocked from before the acquire, and looked at where it is known what they leave behind. So the
lock is not held under a string that nobody was given, unless this process is killed.
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from ..client.lock import Lock
from ..client.lock_client import LockClient
from ..client.record import LockRecord
from ..core.handover import parked
from ..core.row import is_attempt
from ..errors import Holder, LockError, LockFormatError, LockLostError, LockTimeoutError
from . import exits, options, show
from .exits import LOST, SIGNALLED, Failure, failure, say
from .forced import confirm, force_release
from .options import Shared


@click.command()
@options.seconds("--lease", 1, 3600.0, "For how long the lock is held if nobody releases it. Nothing renews it.")
@options.seconds("--wait", 0, 25.0, "How long to wait for the lock. 0 tries once, inf waits for ever.")
@click.option("--holder", metavar="NAME", help="Go on with the lock that an earlier acquire of this name has taken.")
@options.permits
@options.of_lock
@options.with_shared
def acquire(shared: Shared, /, key: str, sort_key: str | None, lease: float, no_ttl: bool, **locking: Any) -> None:
    """Take the lock KEY, and print a string that `release` takes, in another command or on another machine.

    For scripts and pipelines of several steps. The lock is held until it is released, or until its lease ends: nothing
    renews it. If the string cannot be printed, or Ctrl-C comes, the lock is released. If this process is killed, it is
    held until its lease ends. With --holder, the next acquire of the same name then goes on with it, at once.

    \b
    Examples:
      lock=$(lambda-lock acquire deploy --lease 3600) || exit
      trap 'lambda-lock release "$lock"' EXIT
      lambda-lock acquire deploy --holder "$CI_JOB_ID" --json | jq -r .fencing_token
    """
    if sys.platform == "win32":
        raise Failure("acquire needs a Unix system, because it waits for signals", exits.NOT_EXECUTABLE)
    if sys.__stdout__ is None:
        raise Failure("its output is closed, so nobody would have the string: nothing was taken", exits.NOT_WRITTEN)
    from .run import block_signals, pending_signal

    without_ttl = {"ttl": None} if no_ttl else {}
    block_signals()
    with shared.client(lease_duration=lease, heartbeat_period=0, **without_ttl) as client:
        try:
            lock = client.acquire(key, sort_key=sort_key, cancel_check=lambda: pending_signal() is not None, **locking)
        except LockTimeoutError:
            if (number := pending_signal()) is None:
                raise
            raise _interrupted(key, number) from None
        token, owner = lock.fencing_token, lock.owner
        try:
            string = lock.hand_over(lease_duration=lease)
            if shared.as_json:
                show.print_json({"string": string, "key": key, "fencing_token": token, "owner": owner, "lease": lease})
            else:
                click.echo(string)
            sys.stdout.flush()
            if (number := pending_signal()) is not None:
                raise _interrupted(key, number)
        except LockLostError:  # another acquire of the same holder goes on with it
            raise
        except BaseException as error:
            _take_back(client, lock, sort_key)
            if isinstance(error, OSError):
                said = f"lock {key!r} is not held, because its string cannot be printed: {error}"
                raise Failure(said, exits.NOT_WRITTEN) from error
            raise
        say(f"lock {key!r} is held for {show.duration(lease)}, under token {token}")


def _take_back(client: LockClient, lock: Lock, sort_key: str | None) -> None:
    """Release what this process has taken, and not what another acquire of its holder has gone on with since.

    A release by string would release both. No other handle has this one's owner; the owner of what it has handed over
    may be another's, but not with the same expiry, as those of a hold rise.
    """
    hold = lock.__held__.hold
    named = parked(hold.owner) if is_attempt(hold.owner) else hold.owner
    try:
        record = client.get(lock.key, sort_key=sort_key)
        if record is None:
            return
        for each in record.holders:
            handed_over = each.owner == named and each.expires_at == hold.expiry_ms / 1000
            if each.fencing_token == hold.token and (handed_over or each.owner == hold.owner):
                force_release(client, record, each if show.is_semaphore(record) else None)
    except LockError as error:
        said = f"lock {lock.key!r} is held until its lease ends, because it cannot be released: {error}"
        raise Failure(said, failure(error).exit_code) from error


def _interrupted(key: str, number: int) -> Failure:
    return Failure(f"a signal arrived: lock {key!r} is not held", SIGNALLED + number)


@click.command()
@click.option("--force", is_flag=True, help="Release the lock of a key although somebody else holds it.")
@click.option("--yes", is_flag=True, help="With --force: do not ask for confirmation. For scripts.")
@click.option(
    "--owner",
    "owners",
    metavar="OWNER",
    multiple=True,
    help="Of a semaphore: whose permit, as `get` names the holder, with or without what follows its last #. May be "
    "given several times.",
)
@click.option("--all", "everybody", is_flag=True, help="Of a semaphore: all permits that `get` shows.")
@options.sort_value
@options.shared
@click.argument("what", metavar="STRING|KEY")
@options.with_shared
def release(
    shared: Shared, what: str, sort_key: str | None, force: bool, yes: bool, owners: tuple[str, ...], everybody: bool
) -> None:
    """Release the lock of STRING, which `acquire` printed; or with --force that of KEY, although somebody holds it.

    A release by string may be repeated. It exits with 76 if the lock is not held under this string any more.

    By force: normally the holder releases its lock, or the lock ends with its lease if the holder dies. --force is for
    a lease that is too long to wait for. Stop the holder first: until it notices the release, two may be working at
    once. It shows the holder and asks you to type the key. It releases exactly the version shown and nothing newer: a
    lock that was renewed or taken in the meantime is left alone. A semaphore keeps its other permits: --owner names
    those to release, which go also if they were renewed in the meantime, but not if their work went on under another
    name. The row of a rate limit is deleted, and its backlog with it.

    \b
    Examples:
      lambda-lock release "$lock"
      lambda-lock release nightly-report --force
      lambda-lock release imports --force --owner 'worker-1#5e0f…' --owner worker-2
      lambda-lock release imports --force --all             # when everybody who held a permit is dead
      lambda-lock release nightly-report --force --yes --json
    """
    if not force:
        if owners or everybody or yes or sort_key:
            raise click.UsageError("--owner, --all, --yes and --sort-value are for a release by force: use --force")
        _release_by_string(shared, what)
        return
    if owners and everybody:
        raise click.UsageError("--all releases every permit: leave --owner or --all out")
    key = what
    with shared.client() as client:
        record = client.get(key, sort_key=sort_key)
        if record is None:
            raise no_such_lock(key)
        if record.is_released and record.rate is None:
            said = f"lock {key!r} is not held"
            if record.completed_until is not None:
                again = f"lambda-lock forget {shlex.quote(key)}"
                said = f"event {key!r} is done, and nobody holds it. To let its next delivery run: {again}"
            shared.report({"released": False, "lock": show.as_dict(record)}, said)
            return
        permits = _permits_of(record, owners, everybody)
        if not yes:
            confirm(record, permits)
        if permits:
            left = [each.owner for each in permits if force_release(client, record, each) is not None]
            if left:
                gone = f"{', '.join(map(str, left))} has no permit of {key!r} any more under this name"
                done = len(permits) - len(left)
                raise Failure(f"{gone}: {f'{done} others were released' if done else 'nothing was done'}")
            named = ", ".join(str(each.owner) for each in permits)
            said = f"the permit of semaphore {key!r} that {named} held"
            said = said if len(permits) == 1 else f"{len(permits)} permits of semaphore {key!r}, held by {named}"
            shared.report({"released": True, "lock": show.as_dict(record)}, f"released {said}")
            return
        found = force_release(client, record, None)
    if found is None:
        said = f"released lock {key!r}, which was held by {record.owner}"
        if record.rate is not None:
            said = f"deleted the row of rate limit {key!r}, and its backlog"
        shared.report({"released": True, "lock": show.as_dict(record)}, said)
        return
    if found.is_free:
        raise Failure(f"lock {key!r} was released by its holder in the meantime: nothing was done")
    if found.owner == record.owner and found.token == record.fencing_token:
        raise Failure(
            f"{record.owner} renewed lock {key!r} in the meantime, so it is alive: nothing was done. Stop it, or use "
            "--yes, which leaves no time for a renewal"
        )
    raise Failure(
        f"lock {key!r} is held by {found.owner} now: nothing was done. Look at the new holder before you try again"
    )


def _release_by_string(shared: Shared, string: str) -> None:
    with shared.client() as client:
        try:
            done = client.release(string)
        except LockFormatError as error:
            if error.key is not None:
                raise
            raise click.UsageError(
                f"{string!r} is not a string that `acquire` printed. A lock is released by its holder, or ends with "
                "its lease. To release the lock of a key although somebody else holds it, use --force"
            ) from error
    if not done:
        raise Failure(
            "the lock is not held under this string any more: its lease has ended, or it was released by force, or a "
            "permit was released before. Somebody else may have worked at the same time",
            LOST,
        )
    shared.report({"released": True}, "released the lock")


def _permits_of(record: LockRecord, owners: tuple[str, ...], everybody: bool) -> list[Holder]:
    """The holders of the permits to release. None: it is a lock, or a rate limit."""
    key = record.key
    if not show.is_semaphore(record):
        if (owners or everybody) and record.rate is not None:
            raise Failure(f"{key!r} is a rate limit, which nobody holds: nothing was done. Leave --owner and --all out")
        if owners and owners != (record.owner,):
            raise Failure(f"lock {key!r} is held by {record.owner}, not by {', '.join(owners)}: nothing was done")
        return []
    readable = [each for each in record.holders if each.owner is not None and each.fencing_token is not None]
    if not (owners or everybody) or not readable:
        held = f"held by {len(record.holders)}" if record.holders else "and who holds it cannot be read"
        raise Failure(
            f"{key!r} is a semaphore, {held}: each permit ends with its holder's lease. "
            "Stop the holder, and wait for that, or release its permit with --owner OWNER, or all of them with --all"
        )
    if everybody:
        return readable
    found = {name: [each for each in readable if _is_named(each, name)] for name in owners}
    if missing := [name for name in owners if not found[name]]:
        raise Failure(
            f"{', '.join(missing)} has no permit of semaphore {key!r}: nothing was done. `lambda-lock get` names its "
            "holders"
        )
    return list(dict.fromkeys(each for permits in found.values() for each in permits))


def _is_named(holder: Holder, name: str) -> bool:
    owner = str(holder.owner)
    return name in (owner, owner.rpartition("#")[0])


def no_such_lock(key: str) -> Failure:
    """The failure of a command that finds no row."""
    return Failure(f"there is no lock {key!r} in this table: it was never taken, or its row was deleted")
