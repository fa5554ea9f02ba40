"""The options that all commands share: which table, where it is, and how to print."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..client.lock_client import LockClient
from ..client.settings import PARTITION_KEY_VARIABLE, SORT_KEY_VARIABLE, TABLE_VARIABLE
from ..core.row import GO, JAVA, PYTHON, Schema
from .exits import CONFIGURATION, Failure

F = TypeVar("F", bound=Callable[..., Any])

_SCHEMAS = {"java": JAVA, "go": GO, "python": PYTHON}
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class Settings:
    """The values of the shared options. One given after the command's name overrides one given before it."""

    def __init__(self) -> None:
        self.table: str | None = None
        self.region: str | None = None
        self.endpoint_url: str | None = None
        self.partition_key: str | None = None
        self.sort_key: str | None = None
        self.schema_name = "java"
        self.as_json = False
        self.verbose = 0

    @property
    def schema(self) -> Schema:
        return _SCHEMAS[self.schema_name]

    def client(self, **options: Any) -> LockClient:
        """A client with these settings. Sends no request. Raises Failure if no table is named."""
        if self.table is None and not os.environ.get(TABLE_VARIABLE):
            raise Failure(f"no lock table is named: use --table NAME, or set {TABLE_VARIABLE}", CONFIGURATION)
        return LockClient(
            self.table,
            region_name=self.region,
            endpoint_url=self.endpoint_url,
            partition_key_name=self.partition_key,
            sort_key_name=self.sort_key,
            schema=self.schema,
            **options,
        )

    def administration(self) -> dict[str, Any]:
        """The same settings as arguments for the functions of lambda_lock.table."""
        return {**self.key_names(), "region_name": self.region, "endpoint_url": self.endpoint_url}

    def key_names(self) -> dict[str, Any]:
        """The names of the table's keys, as arguments for the functions of lambda_lock.table."""
        return {
            "partition_key_name": self.partition_key or self.schema.partition_key,
            "sort_key_name": self.sort_key or self.schema.sort_key,
        }

    def key_variables(self) -> dict[str, str]:
        """The variables that tell a client these names; none where they are those that it expects anyway."""
        names = self.key_names()
        partition_key, sort_key = names["partition_key_name"], names["sort_key_name"]
        found = {} if partition_key == JAVA.partition_key else {PARTITION_KEY_VARIABLE: partition_key}
        return found if sort_key is None else {**found, SORT_KEY_VARIABLE: sort_key}

    def start_logging(self) -> None:
        """Log on stderr what the library logs: with -v from level INFO on, with -vv debug messages too."""
        if not self.verbose:
            return
        level = _LEVELS[min(self.verbose, len(_LEVELS) - 1)]
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
        logging.getLogger("lambda_lock").setLevel(level)


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None and value is not False and value != 0:
        setattr(context.ensure_object(Settings), str(parameter.name), value)


def _option(*names: str, **details: Any) -> Callable[[F], F]:
    return click.option(*names, expose_value=False, callback=_store, **details)


def _decorate(function: F, options: tuple[Callable[[F], F], ...]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


_TABLE = _option("--table", metavar="NAME", help=f"The lock table. Default: {TABLE_VARIABLE}.")
_FORM = (
    _option("--partition-key", metavar="NAME", help="The name of the partition key, if it is not the schema's."),
    _option("--sort-key", metavar="NAME", help="The name of the sort key, if the table has one."),
    _option(
        "--schema",
        "schema_name",
        type=click.Choice(sorted(_SCHEMAS)),
        help="The format of the rows: that of the Java, Go or Python client that shares the table.  [default: java]",
    ),
)
_PLACE = (
    _option("--region", metavar="REGION", help="The AWS Region. Default: AWS_REGION."),
    _option("--endpoint-url", metavar="URL", help="The endpoint of another DynamoDB. Default: AWS_ENDPOINT_URL."),
    *_FORM,
)
_JSON = _option("--json", "as_json", is_flag=True, help="Print JSON.")
_VERBOSE = _option("-v", "--verbose", count=True, help="Log to stderr; -vv logs more.")


def shared_options(function: F) -> F:
    """For the group, and for commands that print what they find."""
    return _decorate(function, (_TABLE, *_PLACE, _JSON, _VERBOSE))


def shared_options_without_json(function: F) -> F:
    """For `run`: its output is the output of its child."""
    return _decorate(function, (_TABLE, *_PLACE, _VERBOSE))


def table_options(function: F) -> F:
    """For commands that take the table as their argument."""
    return _decorate(function, (*_PLACE, _JSON, _VERBOSE))


def engine_options(function: F) -> F:
    """For `dev`: it makes the table, in an engine of its own."""
    table = _option("--table", metavar="NAME", help=f"The table to create. Default: {TABLE_VARIABLE}, or else locks.")
    return _decorate(function, (table, *_FORM, _VERBOSE))
