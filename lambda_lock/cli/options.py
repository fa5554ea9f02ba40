"""The options of the commands that several commands have, or that are alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..client.settings import TABLE_VARIABLE
from .settings import SCHEMAS, Settings

F = TypeVar("F", bound=Callable[..., Any])


def seconds(name: str, least: float, default: float | None, help: str) -> Callable[[F], F]:
    """An option for a time in seconds, ``least`` or more."""
    of_kind = click.FloatRange(min=least)
    return click.option(
        name, type=of_kind, metavar="SECONDS", default=default, show_default=default is not None, help=help
    )


def units(name: str, help: str) -> Callable[[F], F]:
    """An option for capacity units."""
    return click.option(name, type=click.IntRange(min=1), metavar="UNITS", help=help)


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options as one decorator."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


sort_value = click.option(
    "--sort-value", "sort_key", metavar="VALUE", help="The value of the sort key, if the table has one."
)
prefix = click.option("--prefix", metavar="TEXT", default="", help="Only keys that begin with TEXT.")
port = click.option(
    "--port", type=click.IntRange(1, 65_535), metavar="PORT", help="The port on 127.0.0.1.  [default: a free one]"
)
time_to_live = together(
    click.option("--ttl", metavar="NAME", help="The attribute for the time to live.  [default: the schema's]"),
    click.option("--no-ttl", is_flag=True, help="No time to live. Needed if Java or Go clients share the table."),
)


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value not in (None, False, 0):
        setattr(context.ensure_object(Settings), str(parameter.name), value)


def _shared(*names: str, **details: Any) -> Callable[[F], F]:
    return click.option(*names, expose_value=False, callback=_store, **details)


_TABLE = _shared("--table", metavar="NAME", help=f"The lock table. Default: {TABLE_VARIABLE}.")
_NEW_TABLE = _shared("--table", metavar="NAME", help=f"The table to create. Default: {TABLE_VARIABLE}, or else locks.")
_SCHEMA = "The format of the rows: that of the Java, Go or Python client that shares the table.  [default: java]"
_FORM = together(
    _shared(
        "--partition-key",
        "partition_key_name",
        metavar="NAME",
        help="The name of the partition key, if it is not the schema's.",
    ),
    _shared("--sort-key", "sort_key_name", metavar="NAME", help="The name of the sort key, if the table has one."),
    _shared("--schema", "schema_name", type=click.Choice(list(SCHEMAS)), help=_SCHEMA),
)
_PLACE = together(
    _shared("--region", "region_name", metavar="REGION", help="The AWS Region. Default: AWS_REGION."),
    _shared("--endpoint-url", metavar="URL", help="The endpoint of another DynamoDB. Default: AWS_ENDPOINT_URL."),
    _FORM,
)
_JSON = _shared("--json", "as_json", is_flag=True, help="Print JSON.")
_VERBOSE = _shared("-v", "--verbose", count=True, help="Log to stderr; -vv logs more.")

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
