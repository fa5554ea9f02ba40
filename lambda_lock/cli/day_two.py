"""Commands for a table that has been in use for a while: what must go is erased, and a restored table is prepared."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial

import click

from ..client import erase as erasing
from ..client.listing import pages_of
from ..client.lock_client import LockClient
from ..client.reads import ask
from ..client.record import LockRecord
from ..client.session import Operation
from ..core import requests
from ..core.row import OF_SLEEPERS
from ..errors import LockFormatError, LockNotGrantedError
from ..table import restored_to, set_time_to_live_and_tags
from . import exits, options, show
from .exits import CONFIGURATION, Failure, say
from .forced import confirm
from .options import Shared


@click.command()
@click.option("--scope", metavar="TEXT", default="", help="The scope of the function, if KEY is an event's without it.")
@click.option("--force", is_flag=True, help="Erase the row although it is in use, or cannot be read. Asks for the key.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. For scripts.")
@options.of_lock
@options.with_shared
def erase(shared: Shared, key: str, sort_key: str | None, scope: str, force: bool, yes: bool) -> None:
    """Delete the row of KEY, with its data, its attributes and a stored result, if nobody uses it.

    KEY is the row's key, as `ls` shows it, or with --scope the event's. An event that was done runs again at its next
    delivery. A lock, a semaphore or a rate limit starts anew. Deletes exactly the row that was read: what is taken
    meanwhile is left alone. Exits with 1 if the row is in use. Backups, streams and logs keep what they have.

    \b
    Examples:
      lambda-lock erase 'customer#4711'
      lambda-lock erase sku-7 --scope prices
      lambda-lock erase imports --force     # stop who works under it first
    """
    with shared.client() as client:
        session = client.__session__
        place = erasing.place_of(session, key, scope, sort_key)
        item = client.__runner__.run(Operation(place, lambda talk: talk.ask(requests.read(place)))).item
        if item and force and not yes:
            confirm(LockRecord(place.view(item), place, None), act="erase")
        try:
            if item and force:
                done = client.__runner__.run(Operation(place, lambda talk: erasing.delete(place, item, talk)))
            else:
                done = client.erase(key, scope=scope, sort_key=sort_key)
        except LockNotGrantedError as error:
            raise Failure(_in_words(error)) from error
        except LockFormatError as error:
            raise Failure(_in_words(error), CONFIGURATION) from error
    said = f"erased row {place.key!r}" if done else f"there is no row {place.key!r}: there was nothing to erase"
    if not done and not scope:
        said += ". If KEY is an event's and not the row's, pass --scope as well. `ls` shows the rows' keys"
    shared.report({"erased": done}, said)


def _in_words(error: Exception) -> str:
    return exits.in_words_of_options(str(error)).replace("pass force=True", "use --force")


@click.command("after-restore")
@options.time_to_live
@options.tags
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. For scripts.")
@click.option("--dry-run", is_flag=True, help="Only count: change nothing.")
@options.of_table
@click.argument("name")
@options.with_shared
def after_restore(
    shared: Shared, name: str, ttl: str | None, no_ttl: bool, tags: tuple[str, ...], yes: bool, dry_run: bool
) -> None:
    """Prepare the table NAME, which was restored from a backup, for its first use.

    Keeps the rows of events that are done, so that they do not run again. Deletes those of all locks, semaphores, rate
    limits and sleepers: their holders are of the past. Leaves rows that cannot be read, or were never a lock's, alone.
    Sets the time to live and the tags, which a restore does not. What was done after the moment that the table was
    restored to cannot be known. Nobody may use the table meanwhile. Prints JSON in a pipe.

    \b
    Examples:
      lambda-lock table after-restore locks-restored --dry-run
      lambda-lock table after-restore locks-restored --tag team=billing
    """
    shared.table, shared.as_json = name, shared.as_json or not sys.stdout.isatty()
    time_to_live, pairs = options.ttl_attribute(shared, ttl, no_ttl), options.pairs_of(tags)
    with shared.client() as client:
        counts = _sweep(client, drop=False)
        moment = restored_to(name, transport=client.transport)
        if not dry_run:
            if not yes:
                say(f"table {name!r} {_of_the_past(moment)}. {_said(counts, 'would be ')}", "yellow")
                exits.ask_for(name, "Type the table's name to go on", "nothing was changed")
            counts = _sweep(client, drop=True)
            set_time_to_live_and_tags(name, ttl=time_to_live, tags=pairs, transport=client.transport)
    result = {"table": name, "dry_run": dry_run, "restored_to": moment, **{each: counts[each] for each in _COUNTED}}
    shared.report(result, f"table {name!r} {_of_the_past(moment)}. {_said(counts, 'would be ' if dry_run else '')}")
    if counts["changed"]:
        sys.exit(exits.NO)


_COUNTED = ("kept", "dropped", "unknown", "held", "changed")


def _of_the_past(moment: float | None) -> str:
    if moment is None:
        return "was not restored, as far as DynamoDB knows"
    return f"is as of {show.moment(moment)}. What was done after that is not known, and runs again"


def _said(counts: Counter[str], would: str) -> str:
    said = f"{counts['kept']} done events are kept, {counts['dropped']} other rows {would or 'were '}dropped"
    if counts["unknown"]:
        said += f", {counts['unknown']} that cannot be read or were never a lock's are left alone (see `ls`)"
    if counts["held"]:
        said += f", {counts['held']} are held by leases that have not ended: make sure that nobody uses the table"
    if counts["changed"]:
        said += f", {counts['changed']} changed meanwhile: somebody uses the table. Stop that, and begin again"
    return said


def _sweep(client: LockClient, *, drop: bool) -> Counter[str]:
    """Count the rows of a restored table, and drop those that are to go, each as it was read."""
    session, counts = client.__session__, Counter[str]()
    pages = pages_of(session, None)
    while (request := pages.request()) is not None:
        reply = client.__runner__.run(ask(session, pages.place, request))
        for place, item in pages.rows(reply):
            record = LockRecord(place.view(item), place, reply.date)
            fate = _fate(record)
            if fate == "dropped" and drop:
                try:
                    client.__runner__.run(Operation(place, partial(erasing.delete, place, item)))
                except LockNotGrantedError:
                    fate = "changed"
            counts[fate] += 1
            counts["held"] += show.state(record) == "held"
    return counts


def _fate(record: LockRecord) -> str:
    if record.completed_until is not None and record.completed_until > (record.read_at or 0):
        return "kept"
    if record.key.endswith(OF_SLEEPERS):
        return "dropped"
    return "unknown" if show.state(record) in ("unreadable", "never a lock") else "dropped"
