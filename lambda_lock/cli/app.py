"""The commands with their options and help texts. The work itself is done in the other modules."""

from __future__ import annotations

import shlex
import sys
import threading
from contextlib import closing
from typing import Any

import click

from .. import __version__
from ..client import checks
from ..client.settings import TABLE_VARIABLE
from ..errors import LockError, LockFormatError, LockNotGrantedError
from ..observe import metrics
from ..table import check_table, create_table, table_exists
from . import day_two, exits, holding, options, show
from .exits import CONFIGURATION, Failure, say
from .options import Shared

_with_shared = options.with_shared

_EXIT_CODES = """\b
Exit codes:
  0   done                        2   wrong option or argument
  1   no such lock, or not released
  69  DynamoDB did not answer     74  the output cannot be written
  75  the lock was not granted    76  the lock was lost
  78  wrong table, Region, credentials or permissions
"""


class _Program(click.Group):
    """The program. An error of the library ends it with its message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        before, metrics.stream = metrics.stream, "stderr"  # stdout belongs to the command's result, or to the child
        try:
            return super().invoke(ctx)
        except LockError as error:
            raise exits.failure(error) from error
        finally:
            metrics.stream = before


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXIT_CODES,
)
@options.shared
@click.version_option(__version__, prog_name="lambda-lock")
def app() -> None:
    """Distributed locks in a DynamoDB table.

    Run a command under a lock, take a lock in one step and release it in another, see who holds which lock, or release
    a lock by force.

    \b
    Examples:
      export LAMBDA_LOCK_TABLE=locks
      lambda-lock run nightly-report -- ./report.sh
      lambda-lock ls --held
      lambda-lock get nightly-report

    The shared options may come before or after the command's name.
    """


class _Run(click.Command):
    """`run`. The command that it runs may have options of its own, after a --."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, self._with_key(ctx, args))
        except click.NoSuchOption as error:
            if "--" in given:
                raise
            raise click.UsageError(
                f"{error.format_message()} If the option belongs to the command to run, put -- between the key and the "
                "command: lambda-lock run KEY -- COMMAND...",
                ctx,
            ) from error

    def _with_key(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments, of ``-- KEY -- COMMAND`` without the second --. A key that begins with a dash is given so."""
        if "--" not in args:
            return args
        dashes = args.index("--")
        if isinstance(self.make_parser(ctx).parse_args(args[:dashes])[0]["key"], str):
            return args
        if args[dashes + 2 : dashes + 3] != ["--"]:
            raise click.UsageError("the key is missing: write lambda-lock run KEY -- COMMAND...", ctx)
        return [*args[: dashes + 2], *args[dashes + 3 :]]


@app.command(cls=_Run)
@options.seconds(
    "--wait", 0, None, "How long to wait for the lock. 0 tries once, inf waits for ever.  [default: lease + 5]"
)
@options.seconds(
    "--lease",
    1,
    20.0,
    "How long others wait for the lock if this machine dies. The lock is renewed while the command runs.",
)
@click.option("--holder", metavar="NAME", help="Go on at once with the lock of an earlier run of this name that died.")
@options.seconds("--kill-after", 0, 2.0, "Time from SIGTERM to SIGKILL, once the lock is lost.")
@options.permits
@options.sort_value
@options.shared_without_json
@click.argument("key")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@_with_shared
def run(shared: Shared, /, key: str, command: tuple[str, ...], lease: float, no_ttl: bool, **locking: Any) -> None:
    """Run COMMAND while holding the lock KEY.

    The lock is renewed while the command runs, and released when it ends. Signals are passed on to the command, and it
    inherits stdin, stdout and stderr. If the lock is lost, the command and the processes it started get SIGTERM, then
    SIGKILL.

    \b
    Examples:
      lambda-lock run nightly-report -- ./report.sh --all
      lambda-lock run deploy --wait 600 -- terraform apply      # wait for up to 10 minutes
      lambda-lock run cleanup --wait 0 -- ./cleanup.sh || [ $? = 75 ]   # skip if already running
      lambda-lock run encode --permits 3 -- ./encode.sh         # at most 3 at once
      lambda-lock run import -- sh -c 'load --fence $LAMBDA_LOCK_FENCING_TOKEN'

    \b
    The command finds these variables in its environment:
      LAMBDA_LOCK_KEY             the key
      LAMBDA_LOCK_FENCING_TOKEN   rises with every grant, to fence off late writers
      LAMBDA_LOCK_OWNER           the holder of the lock, as stored in the table

    \b
    Exit codes: the command's own (128 + n if signal n ended it), or
      69  DynamoDB did not answer     75  the lock was not granted
      76  the lock was lost           78  wrong table, Region, credentials or permissions
      126 the command cannot be run   127 the command was not found
    """
    if sys.platform == "win32":
        raise Failure("run needs a Unix system, because it passes signals on to the command", exits.NOT_EXECUTABLE)
    from .run import run_locked

    without_ttl = {"ttl": None} if no_ttl else {}
    with shared.client(lease_duration=lease, **without_ttl) as client:
        code = run_locked(client, key, list(command), **locking)
    sys.exit(code)


@app.command()
@options.of_lock
@_with_shared
def get(shared: Shared, key: str, sort_key: str | None) -> None:
    """Show who holds the lock KEY, and until when.

    Also shows the data and attributes stored with the lock. Changes nothing. Exits with 1 if there is no such lock.

    \b
    Examples:
      lambda-lock get nightly-report
      lambda-lock get nightly-report --json | jq -r .state   # held, expired, free, completed, rate, unreadable
    """
    with shared.client() as client:
        record = client.get(key, sort_key=sort_key)
    if shared.as_json:
        show.print_json(record and show.as_dict(record))
    elif record:
        show.print_record(record)
    if record is None:
        raise holding.no_such_lock(key)


@app.command("ls")
@click.option("--held", is_flag=True, help="Only locks that are held, or were held until their lease expired.")
@options.prefix
@click.option(
    "--state",
    "states",
    type=click.Choice(list(show.STATES)),
    multiple=True,
    help="Only locks in this state. May be given several times.",
)
@click.option(
    "--key", metavar="KEY", help="Only this partition of a table with a sort key. Sends a Query instead of a Scan."
)
@click.option("--all", "completed", is_flag=True, help="On a terminal, list completed events too: not just count them.")
@click.option("--watch", is_flag=True, help="Refresh the list until Ctrl-C.")
@options.seconds("--interval", 0.1, 2.0, "Time between two refreshes of --watch.")
@options.shared
@_with_shared
def list_locks(
    shared: Shared, /, key: str | None, states: tuple[str, ...], watch: bool, interval: float, **wanted: Any
) -> None:
    """List the locks in the table.

    Scans the whole table, which costs read units and needs the permission dynamodb:Scan. Prints the locks as they are
    read: of each page of DynamoDB's those that are held first. Cuts long keys in the middle. In a pipe, prints all in
    the order of their keys, whole, with one line for each lock: key, sort key, state, seconds left, token and owner,
    separated by tabs.

    \b
    Examples:
      lambda-lock ls --held --watch
      lambda-lock ls --prefix 'order#' --state expired
      lambda-lock ls --json | jq -r '.[] | select(.state == "expired") | .key'
      lambda-lock ls | cut -f 1,3
    """
    with shared.client() as client:
        listed = show.Listing(client, key, show.Filter(states=frozenset(states), **wanted), shared.as_json)
        if watch:
            listed.watch(interval)
        else:
            listed.print_all()


@app.command()
@options.port
@options.prefix
@options.seconds("--interval", 0.1, 2.0, "The pause between two readings of the table.")
@options.shared_without_json
@_with_shared
def dashboard(shared: Shared, port: int | None, prefix: str, interval: float) -> None:
    """Draw the table's locks over time on a page in the browser, until Ctrl-C.

    The page is served on 127.0.0.1 only. It shows who holds which lock, who waits, renewals, take-overs, leases that
    have expired, and semaphores. Scans the whole table for each reading, which costs read units and needs the
    permission dynamodb:Scan. Changes nothing.

    \b
    Examples:
      lambda-lock dashboard
      lambda-lock dashboard --prefix 'order#' --interval 10
    """
    from .dashboard import serving
    from .dev import until_stopped

    with until_stopped(), shared.client() as client:
        next(show.read_pages(client), None)  # a wrong table or a missing permission is reported here
        with serving(client, shared.named_table(), port=port, interval=interval, prefix=prefix) as server:
            click.echo(server.url)
            say("open this page in a browser. Ctrl-C ends it")
            threading.Event().wait()


@app.command()
@options.of_event
@options.seconds("--wait", 0, 0.0, "How long to wait while the event is in progress.")
@options.of_lock
@_with_shared
def forget(shared: Shared, key: str, sort_key: str | None, scope: str, wait: float, if_result: Any) -> None:
    """Forget the event KEY that is done, with its stored result, so that its next delivery runs.

    KEY is the row's key, as `ls` shows it, or with --scope the event's. Environments whose functions have a cache_size
    may still answer "done" until their entry ends. Exits with 1 if the event is in progress: what runs may have read
    what has changed since.

    \b
    Examples:
      lambda-lock forget 'prices.app.price#sku-7'
      lambda-lock forget sku-7 --scope prices --wait 30
    """
    with shared.client() as client:
        try:
            done = client.forget(key, scope=scope, sort_key=sort_key, wait=wait, if_result=if_result)
        except LockNotGrantedError as error:
            found = exits.in_words_of_options(str(error))
            raise Failure(f"nothing was forgotten, because event {key!r} is in progress: {found}") from error
        except LockFormatError as error:
            found = exits.in_words_of_options(str(error)).partition(". ")[0]
            raise Failure(f"nothing was forgotten, because no event has this row: {found}", CONFIGURATION) from error
    other = "" if if_result is ... else " with this result"
    said = f"forgot event {key!r}" if done else f"event {key!r} is not done{other}: there was nothing to forget"
    if not done and not scope:
        said += ". If KEY is the event's and not the row's, pass --scope as well. `ls` shows the rows' keys"
    shared.report({"forgotten": done}, said)


for _command in (holding.acquire, holding.release, day_two.erase):
    app.add_command(_command)


@app.command()
@options.port
@click.option(
    "--format",
    "form",
    type=click.Choice(["sh", "json"]),
    default="sh",
    show_default=True,
    help="How to print the environment: as commands for a shell, or as one JSON object.",
)
@options.of_engine
@_with_shared
def dev(shared: Shared, port: int | None, form: str) -> None:
    """Run a local DynamoDB with a lock table, until Ctrl-C.

    Needs the extra `local`. The engine listens on 127.0.0.1 only, has DynamoDB alone, and refuses web pages. Every user
    of this machine can use its tables. Once the table is there, the environment that leads to it is printed on stdout.
    SIGTERM stops it as well. It forgets everything when it stops.

    \b
    Examples:
      lambda-lock dev                                # then paste what it prints into another terminal
      lambda-lock dev --port 8000 --table my-locks
      lambda-lock dev --format json > engine.json &
    """
    from .dev import STRONGER, running, until_stopped

    name = checks.table_name(shared.named_table() or "locks")
    with until_stopped(), running(port) as engine, closing(engine.transport()) as transport:
        create_table(name, ttl=shared.schema.ttl, transport=transport, **shared.key_names())
        environment = engine.environment() | shared.key_variables() | {TABLE_VARIABLE: name}
        if shared.as_json or form == "json":
            show.print_json(environment)
        else:
            click.echo(f"unset {' '.join(STRONGER)}")
            for variable, value in environment.items():
                click.echo(f"export {variable}={shlex.quote(value)}")
        say(f"a local DynamoDB is running on port {engine.port}. Ctrl-C stops it, and it forgets everything")
        engine.process.wait()
        raise Failure("the local engine has ended by itself", exits.UNAVAILABLE)


@app.group
def table() -> None:
    """Create a lock table, or check that a table is suitable for locks."""


@table.command()
@options.time_to_live
@options.units("--read-capacity", "Provisioned read capacity. Needs --write-capacity too.")
@options.units("--write-capacity", "Provisioned write capacity. Without both, the table is billed on demand.")
@options.tags
@options.seconds("--wait", 1, 60.0, "How long to wait until the table is active.")
@options.of_table
@click.argument("name")
@_with_shared
def create(shared: Shared, /, name: str, ttl: str | None, no_ttl: bool, tags: tuple[str, ...], **details: Any) -> None:
    """Create the lock table NAME and wait until it is active.

    This is for trials and tests. In production, create the table with your infrastructure template.

    \b
    Examples:
      lambda-lock table create locks
      lambda-lock table create locks --tag team=billing --partition-key id
    """
    pairs = options.pairs_of(tags)
    time_to_live = options.ttl_attribute(shared, ttl, no_ttl)
    place = shared.administration()
    if table_exists(name, region_name=shared.region_name, endpoint_url=shared.endpoint_url):
        say(f"table {name!r} exists already: nothing is created")
        check_table(name, ttl=time_to_live, **place)
        raise Failure("it is suitable for locks as it is", exits.CONFIGURATION)
    create_table(name, tags=pairs, ttl=time_to_live, **details, **place)
    said = f"table {name!r} is ready. To use it: export {TABLE_VARIABLE}={name}"
    shared.report({"table": name, "created": True}, said)


@table.command()
@options.time_to_live
@options.of_table
@click.argument("name")
@_with_shared
def check(shared: Shared, name: str, ttl: str | None, no_ttl: bool) -> None:
    """Check that the table NAME is suitable for locks.

    Checks its keys, its time to live, and that it has no replicas. If the table is not suitable, names all the problems
    and exits with 78.

    \b
    Examples:
      lambda-lock table check locks
      lambda-lock table check locks --schema java --no-ttl      # shared with Java clients
    """
    check_table(name, ttl=options.ttl_attribute(shared, ttl, no_ttl), **shared.administration())
    shared.report({"table": name, "fits": True}, f"table {name!r} is suitable for locks")


table.add_command(day_two.after_restore)
