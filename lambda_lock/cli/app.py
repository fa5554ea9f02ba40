"""The commands. What each does is elsewhere; here are their options and help texts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from .. import __version__
from ..client.record import LockRecord
from ..errors import LockError
from . import exits, show
from .exits import Failure, say
from .settings import Settings, shared_options, shared_options_without_json, table_options

_settings = click.make_pass_decorator(Settings, ensure=True)

_EXIT_CODES = """\b
Exit codes:
  0   done                        2   wrong option or argument
  1   no such lock, or not released
  69  DynamoDB did not answer     75  the lock was not granted
  76  the lock was lost           78  table, Region, credentials or permission
"""


class _Commands(click.Group):
    """A group in which the library's errors end a command with their message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except LockError as error:
            raise exits.failure(error) from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXIT_CODES,
)
@shared_options
@click.version_option(__version__, prog_name="lambda-lock")
def app() -> None:
    """Distributed locks in a DynamoDB table: run a command under one, see who holds them, free one by force.

    \b
    Examples:
      export LAMBDA_LOCK_TABLE=locks
      lambda-lock run nightly-report -- ./report.sh
      lambda-lock ls --held
      lambda-lock get nightly-report

    The shared options may stand before or behind the command's name.
    """


class _Run(click.Command):
    """`run`, whose command may have options of its own: behind a --."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in given:
                raise
            raise click.UsageError(
                f"{error.format_message()} If it is an option of the command to run, put -- between the key and the "
                "command: lambda-lock run KEY -- COMMAND...",
                ctx,
            ) from error


_sort_value = click.option("--sort-value", metavar="VALUE", help="Of the sort key, where the table has one.")


@app.command(cls=_Run)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Wait so long for the lock; 0: one try, inf: for ever.  [default: lease + 5]",
)
@click.option(
    "--lease",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    default=20.0,
    show_default=True,
    help="How long the lock outlives us if this machine dies. It is renewed while the command runs.",
)
@click.option(
    "--kill-after",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="From SIGTERM to SIGKILL, once the lock is lost.",
)
@click.option("--no-ttl", is_flag=True, help="Write no time to live: where Java or Go clients use the table too.")
@_sort_value
@shared_options_without_json
@click.argument("key")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@_settings
def run(
    settings: Settings,
    wait: float | None,
    lease: float,
    kill_after: float,
    no_ttl: bool,
    sort_value: str | None,
    key: str,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND while the lock KEY is held.

    The lock is renewed as long as the command runs, and released when it ends. Signals are passed on; stdin, stdout
    and stderr are the command's. If the lock is lost, the command and what it started get SIGTERM, then SIGKILL.

    \b
    Examples:
      lambda-lock run nightly-report -- ./report.sh --all
      lambda-lock run deploy --wait 600 -- terraform apply      # queue up
      lambda-lock run cleanup --wait 0 -- ./cleanup.sh || [ $? = 75 ]   # skip if one runs
      lambda-lock run import -- sh -c 'load --fence $LAMBDA_LOCK_FENCING_TOKEN'

    \b
    The command finds in its environment:
      LAMBDA_LOCK_KEY             the key
      LAMBDA_LOCK_FENCING_TOKEN   rises with every grant: against late writers
      LAMBDA_LOCK_OWNER           who holds the lock, as the table has it

    \b
    Exit codes: the command's own (128 + n if signal n ended it), or
      69  DynamoDB did not answer     75  the lock was not granted
      76  the lock was lost           78  table, Region, credentials or permission
      126 the command cannot be run   127 the command was not found
    """
    if sys.platform == "win32":
        raise Failure("run needs a Unix system: it passes signals on", exits.NOT_EXECUTABLE)
    from .hold import run_locked

    settings.start_logging()
    options: dict[str, Any] = {"ttl": None} if no_ttl else {}
    client = settings.client(lease_duration=lease, **options)
    with client:
        code = run_locked(client, key, list(command), kill_after, wait=wait, sort_key=sort_value)
    sys.exit(code)


@app.command()
@_sort_value
@shared_options
@click.argument("key")
@_settings
def get(settings: Settings, sort_value: str | None, key: str) -> None:
    """Show who holds the lock KEY, and until when.

    Shows what is stored with it, too. Reads, and changes nothing. Exits with 1 where there is no such lock.

    \b
    Examples:
      lambda-lock get nightly-report
      lambda-lock get nightly-report --json | jq -r .state   # held, expired, free, completed, unreadable
    """
    settings.start_logging()
    with settings.client() as client:
        record = client.get(key, sort_key=sort_value)
    if settings.as_json:
        show.print_json(None if record is None else show.as_dict(record))
    elif record is not None:
        show.print_record(record)
    if record is None:
        raise _no_such_lock(key)


@app.command("ls")
@click.option("--held", is_flag=True, help="Only locks that somebody holds (or held until their lease expired).")
@click.option("--key", metavar="KEY", help="Only this partition of a table with a sort key: a Query instead of a Scan.")
@click.option("--watch", is_flag=True, help="Show them again and again, until Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), metavar="SECONDS", default=2.0, show_default=True, help="For --watch."
)
@shared_options
@_settings
def list_locks(settings: Settings, held: bool, key: str | None, watch: bool, interval: float) -> None:
    """List the locks of the table.

    Scans the whole table, which costs read units and needs the permission dynamodb:Scan. In a pipe each lock is a
    line of key, sort key, state, seconds left, token and owner, separated by tabs.

    \b
    Examples:
      lambda-lock ls --held --watch
      lambda-lock ls --json | jq -r '.[] | select(.state == "expired") | .key'
      lambda-lock ls | cut -f 1,3
    """
    settings.start_logging()
    with settings.client() as client:

        def read() -> list[LockRecord]:
            records = [record for record in client.list(key=key) if not (held and record.is_released)]
            return sorted(records, key=lambda record: (record.key, record.sort_key or ""))

        if watch:
            _watch(read, interval, settings.as_json)
        else:
            _print(read(), settings.as_json)


def _print(records: list[LockRecord], as_json: bool, one_line: bool = False) -> None:
    if as_json:
        show.print_json([show.as_dict(record) for record in records], one_line=one_line)
    elif sys.stdout.isatty():
        console = Console(highlight=False)
        console.print(show.lock_table(records, console.width))
    else:
        show.print_lines(records)


def _watch(read: Callable[[], list[LockRecord]], interval: float, as_json: bool) -> None:
    """On a terminal in place; in a pipe one after the other, as JSON an array a line."""
    try:
        if as_json or not sys.stdout.isatty():
            while True:
                _print(read(), as_json, one_line=True)
                time.sleep(interval)
        console = Console(highlight=False)
        with Live(show.lock_table(read(), console.width), console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.refresh()
                time.sleep(interval)
                live.update(show.lock_table(read(), console.width))
    except KeyboardInterrupt:
        return  # how one ends it


@app.command()
@click.option("--force", is_flag=True, help="Yes, although somebody else holds it. Needed: there is no other release.")
@click.option("--yes", is_flag=True, help="Do not ask: for scripts.")
@_sort_value
@shared_options
@click.argument("key")
@_settings
def release(settings: Settings, force: bool, yes: bool, sort_value: str | None, key: str) -> None:
    """Release the lock KEY under its holder, by force.

    A lock is released by whoever holds it, and a dead holder's lease ends by itself: this is for a lease that is too
    long to wait for. Stop the holder first; until it notices, two may be working.

    Shows who holds it, and asks you to type the key. Releases that very version and nothing newer: a lock that was
    renewed or taken meanwhile is left alone.

    \b
    Examples:
      lambda-lock release nightly-report --force
      lambda-lock release nightly-report --force --yes --json
    """
    settings.start_logging()
    if not force:
        raise click.UsageError(
            "a lock is released by its holder, and ends with its lease. To release it under its holder, give --force"
        )
    with settings.client() as client:
        record = client.get(key, sort_key=sort_value)
        if record is None:
            raise _no_such_lock(key)
        if record.is_released:
            _tell_released(settings, record, released=False, message=f"nobody holds lock {key!r}")
            return
        if not yes:
            _confirm(record)
        from .forced import force_release

        found = force_release(client, record)
    if found is None:
        _tell_released(settings, record, released=True, message=f"released lock {key!r}, which {record.owner} held")
        return
    if found.is_free:
        raise Failure(f"lock {key!r} was released by its holder meanwhile: nothing was done", exits.NO)
    if found.owner == record.owner and found.token == record.fencing_token:
        raise Failure(
            f"{record.owner} renewed lock {key!r} meanwhile, so it is alive: nothing was done. Stop it; or give --yes, "
            "which leaves no time for a renewal",
            exits.NO,
        )
    raise Failure(f"lock {key!r} is held by {found.owner} now: nothing was done. Look again", exits.NO)


def _confirm(record: LockRecord) -> None:
    show.print_record(record, err=True)
    if not record.is_expired:
        say("its holder may be at work: until it notices, two may be working", "yellow")
    try:
        typed = click.prompt("Type the key to release it", prompt_suffix=": ", err=True)
    except click.Abort:
        raise Failure("not released: the key was not typed (scripts give --yes)", exits.NO) from None
    if typed != record.key:
        raise Failure(f"not released: {typed!r} is not the key", exits.NO)


def _tell_released(settings: Settings, record: LockRecord, *, released: bool, message: str) -> None:
    if settings.as_json:
        show.print_json({"released": released, "lock": show.as_dict(record)})
    else:
        say(message)


def _no_such_lock(key: str) -> Failure:
    return Failure(f"there is no lock {key!r} in this table: it was never taken, or its row was deleted", exits.NO)


@app.group(cls=_Commands)
def table() -> None:
    """Make a lock table, or check that one fits."""


_ttl = click.option("--ttl", metavar="NAME", help="The attribute for the time to live.  [default: the schema's]")
_no_ttl = click.option("--no-ttl", is_flag=True, help="No time to live: where Java or Go clients use the table too.")


@table.command()
@_ttl
@_no_ttl
@click.option("--read-capacity", type=click.IntRange(min=1), metavar="UNITS", help="Provisioned, with the next.")
@click.option("--write-capacity", type=click.IntRange(min=1), metavar="UNITS", help="Without both: billed on demand.")
@click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag; may be given several times.")
@click.option(
    "--wait",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Until it is active.",
)
@table_options
@click.argument("name")
@_settings
def create(
    settings: Settings,
    ttl: str | None,
    no_ttl: bool,
    read_capacity: int | None,
    write_capacity: int | None,
    tags: tuple[str, ...],
    wait: float,
    name: str,
) -> None:
    """Make the lock table NAME and wait until it is active.

    In production a template makes the table; this is for trials and tests.

    \b
    Examples:
      lambda-lock table create locks
      lambda-lock table create locks --tag team=billing --partition-key id
    """
    from ..table import create_table

    settings.start_logging()
    pairs = dict(_tag(tag) for tag in tags)
    create_table(
        name,
        read_capacity=read_capacity,
        write_capacity=write_capacity,
        tags=pairs,
        ttl=_ttl_attribute(settings, ttl, no_ttl),
        wait=wait,
        **settings.administration(),
    )
    if settings.as_json:
        show.print_json({"table": name, "created": True})
    else:
        say(f"table {name!r} is there. Use it: export LAMBDA_LOCK_TABLE={name}")


@table.command()
@_ttl
@_no_ttl
@table_options
@click.argument("name")
@_settings
def check(settings: Settings, ttl: str | None, no_ttl: bool, name: str) -> None:
    """Check that the table NAME fits for locks.

    Looks at its keys, its time to live, and that it has no replicas. Exits with 78 and says all that does not fit.

    \b
    Examples:
      lambda-lock table check locks
      lambda-lock table check locks --schema java --no-ttl      # shared with Java clients
    """
    from ..table import check_table

    settings.start_logging()
    check_table(name, ttl=_ttl_attribute(settings, ttl, no_ttl), **settings.administration())
    if settings.as_json:
        show.print_json({"table": name, "fits": True})
    else:
        say(f"table {name!r} fits")


def _ttl_attribute(settings: Settings, ttl: str | None, no_ttl: bool) -> str | None:
    if ttl is not None and no_ttl:
        raise click.UsageError("--ttl and --no-ttl exclude each other")
    return None if no_ttl else ttl or settings.schema.ttl


def _tag(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--tag")
    return name, value
