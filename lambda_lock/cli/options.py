"""The options that several commands have, or that are alike, and the values of those that commands share."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from ..client.lock_client import LockClient
from ..client.settings import PARTITION_KEY_VARIABLE, SORT_KEY_VARIABLE, TABLE_VARIABLE
from ..core.other_schemas import GO, PYTHON
from ..core.row import MOST_PERMITS
from ..core.schema import JAVA, Schema
from . import show
from .exits import CONFIGURATION, Failure, say

F = TypeVar("F", bound=Callable[..., Any])

_SCHEMAS = {"go": GO, "java": JAVA, "python": PYTHON}


class Shared:
    """The values of the shared options: which table, where it is, and how to print.

    One given after the command's name overrides one given before it.
    """

    table: str | None = None
    region_name: str | None = None
    endpoint_url: str | None = None
    partition_key_name: str | None = None
    sort_key_name: str | None = None
    schema_name = "java"
    as_json = False

    @property
    def schema(self) -> Schema:
        return _SCHEMAS[self.schema_name]

    def named_table(self) -> str:
        """The table that an option or the environment names. Empty if neither does."""
        return self.table or os.environ.get(TABLE_VARIABLE, "")

    def client(self, **options: Any) -> LockClient:
        """A client with these options. Sends no request. Raises Failure if no table is named."""
        if self.table is None and not self.named_table():
            raise Failure(f"no lock table is named: use --table NAME, or set {TABLE_VARIABLE}", CONFIGURATION)
        for name in ("schema", "partition_key_name", "sort_key_name", "region_name", "endpoint_url"):
            options[name] = getattr(self, name)
        return LockClient(self.table, **options)

    def administration(self) -> dict[str, Any]:
        """The same options as arguments for the functions of lambda_lock.table."""
        return {**self.key_names(), "region_name": self.region_name, "endpoint_url": self.endpoint_url}

    def key_names(self) -> dict[str, Any]:
        """The names of the table's keys, as arguments for the functions of lambda_lock.table."""
        return {
            "partition_key_name": self.partition_key_name or self.schema.partition_key,
            "sort_key_name": self.sort_key_name or self.schema.sort_key,
        }

    def key_variables(self) -> dict[str, str]:
        """The variables that tell a client the names of the keys, without those that a client uses by default."""
        partition_key, sort_key = self.key_names().values()
        found = {} if partition_key == JAVA.partition_key else {PARTITION_KEY_VARIABLE: partition_key}
        return found if sort_key is None else {**found, SORT_KEY_VARIABLE: sort_key}

    def report(self, result: object, message: str) -> None:
        """Say what was done: the result as JSON on stdout, or else a message."""
        if self.as_json:
            show.print_json(result)
        else:
            say(message)


with_shared = click.make_pass_decorator(Shared, ensure=True)


def seconds(name: str, least: float, default: float | None, help: str) -> Callable[[F], F]:
    """An option for a time in seconds, ``least`` or more."""
    of_kind = click.FloatRange(min=least)
    return click.option(
        name, type=of_kind, metavar="SECONDS", default=default, show_default=default is not None, help=help
    )


def units(name: str, help: str) -> Callable[[F], F]:
    """An option for capacity units."""
    return click.option(name, type=click.IntRange(min=1), metavar="UNITS", help=help)


def _json_value(_: object, __: object, text: str | None) -> Any:
    try:
        return ... if text is None else json.loads(text)
    except ValueError as error:
        raise click.BadParameter("it is not JSON: write a text as '\"text\"', with both kinds of quotes") from error


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options as one decorator."""
    return lambda function: reduce(lambda decorated, option: option(decorated), reversed(options), function)


sort_value = click.option(
    "--sort-value", "sort_key", metavar="VALUE", help="The value of the sort key, if the table has one."
)
of_event = together(
    click.option("--scope", metavar="TEXT", default="", help="The scope of the function, if KEY is without it."),
    click.option("--if-result", metavar="JSON", callback=_json_value, help="Only while this is the stored result."),
)
permits = together(
    click.option("--no-ttl", is_flag=True, help="Write no time to live. Needed if Java or Go clients share the table."),
    click.option(
        "--permits",
        type=click.IntRange(1, MOST_PERMITS),
        metavar="N",
        help="Let N hold KEY at once: it is a semaphore. Pass the same N everywhere.",
    ),
    click.option("--take", type=click.IntRange(1, MOST_PERMITS), metavar="K", help="Take K of the N permits."),
    click.option("--shared/--exclusive", default=None, help="Hold KEY beside other readers, or alone as the writer."),
)
prefix = click.option("--prefix", metavar="TEXT", default="", help="Only keys that begin with TEXT.")
port = click.option(
    "--port", type=click.IntRange(1, 65_535), metavar="PORT", help="The port on 127.0.0.1.  [default: a free one]"
)
time_to_live = together(
    click.option("--ttl", metavar="NAME", help="The attribute for the time to live.  [default: the schema's]"),
    click.option("--no-ttl", is_flag=True, help="No time to live. Needed if Java or Go clients share the table."),
)


tags = click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag. May be given several times.")


def pairs_of(tags: tuple[str, ...]) -> dict[str, str]:
    """The tags by their names. Raises BadParameter for another form."""
    pairs = {}
    for text in tags:
        label, separator, pairs[label] = text.partition("=")
        if not separator or not label:
            raise click.BadParameter(f"{text!r} does not have the form NAME=VALUE", param_hint="--tag")
    return pairs


def ttl_attribute(shared: Shared, ttl: str | None, no_ttl: bool) -> str | None:
    """The attribute for the time to live, by `time_to_live`."""
    if ttl is not None and no_ttl:
        raise click.UsageError("--ttl and --no-ttl cannot be combined: use one of them")
    return None if no_ttl else ttl or shared.schema.ttl


def _shared(*names: str, **details: Any) -> Callable[[F], F]:
    """An option whose value is kept in Shared, if it is given."""

    def store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value not in (None, False, 0):
            setattr(context.ensure_object(Shared), str(parameter.name), value)

    return click.option(*names, expose_value=False, callback=store, **details)


def _start_logging(context: click.Context, parameter: click.Parameter, verbose: int) -> None:
    if verbose:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
        logging.getLogger("lambda_lock").setLevel(logging.INFO if verbose == 1 else logging.DEBUG)


_TABLE = _shared("--table", metavar="NAME", help=f"The lock table. Default: {TABLE_VARIABLE}.")
_NEW_TABLE = _shared("--table", metavar="NAME", help=f"The table to create. Default: {TABLE_VARIABLE}, or else locks.")
_SCHEMA = "The format of the rows: that of the Java, Go or Python client that shares the table.  [default: java]"
_PARTITION_KEY = "The name of the partition key, if it is not the schema's."
_FORM = together(
    _shared("--partition-key", "partition_key_name", metavar="NAME", help=_PARTITION_KEY),
    _shared("--sort-key", "sort_key_name", metavar="NAME", help="The name of the sort key, if the table has one."),
    _shared("--schema", "schema_name", type=click.Choice(list(_SCHEMAS)), help=_SCHEMA),
)
_PLACE = together(
    _shared("--region", "region_name", metavar="REGION", help="The AWS Region. Default: AWS_REGION."),
    _shared("--endpoint-url", metavar="URL", help="The endpoint of another DynamoDB. Default: AWS_ENDPOINT_URL."),
    _FORM,
)
_JSON = _shared("--json", "as_json", is_flag=True, help="Print JSON.")
_VERBOSE = click.option(
    "-v", "--verbose", count=True, expose_value=False, callback=_start_logging, help="Log to stderr; -vv logs more."
)

# For the group, and for commands that print what they find.
shared = together(_TABLE, _PLACE, _JSON, _VERBOSE)
# For commands that print nothing, or what their child prints.
shared_without_json = together(_TABLE, _PLACE, _VERBOSE)
# For commands that take the table as their argument.
of_table = together(_PLACE, _JSON, _VERBOSE)
# For `dev`, which makes the table, in an engine of its own.
of_engine = together(_NEW_TABLE, _FORM, _VERBOSE)
# For commands that look at a lock.
of_lock = together(sort_value, shared, click.argument("key"))
