"""The values of the options that commands share: which table, where it is, and how to print."""

from __future__ import annotations

import logging
import os
from typing import Any

from ..client.lock_client import LockClient
from ..client.settings import PARTITION_KEY_VARIABLE, SORT_KEY_VARIABLE, TABLE_VARIABLE
from ..core.schema import GO, JAVA, PYTHON, Schema
from . import show
from .exits import CONFIGURATION, Failure, say

SCHEMAS = {"go": GO, "java": JAVA, "python": PYTHON}


class Settings:
    """The values of the shared options. One given after the command's name overrides one given before it."""

    def __init__(self) -> None:
        self.table: str | None = None
        self.region_name: str | None = None
        self.endpoint_url: str | None = None
        self.partition_key_name: str | None = None
        self.sort_key_name: str | None = None
        self.schema_name = "java"
        self.as_json = False
        self.verbose = 0

    @property
    def schema(self) -> Schema:
        return SCHEMAS[self.schema_name]

    def named_table(self) -> str:
        """The table that an option or the environment names. Empty if neither does."""
        return self.table or os.environ.get(TABLE_VARIABLE, "")

    def client(self, **options: Any) -> LockClient:
        """A client with these settings. Sends no request. Raises Failure if no table is named."""
        if self.table is None and not self.named_table():
            raise Failure(f"no lock table is named: use --table NAME, or set {TABLE_VARIABLE}", CONFIGURATION)
        keys: dict[str, Any] = {"partition_key_name": self.partition_key_name, "sort_key_name": self.sort_key_name}
        return LockClient(self.table, schema=self.schema, **keys, **self._place(), **options)

    def administration(self) -> dict[str, Any]:
        """The same settings as arguments for the functions of lambda_lock.table."""
        return {**self.key_names(), **self._place()}

    def key_names(self) -> dict[str, Any]:
        """The names of the table's keys, as arguments for the functions of lambda_lock.table."""
        return {
            "partition_key_name": self.partition_key_name or self.schema.partition_key,
            "sort_key_name": self.sort_key_name or self.schema.sort_key,
        }

    def key_variables(self) -> dict[str, str]:
        """The variables that tell a client these names; none where they are those that it expects anyway."""
        partition_key, sort_key = self.key_names().values()
        found = {} if partition_key == JAVA.partition_key else {PARTITION_KEY_VARIABLE: partition_key}
        return found if sort_key is None else {**found, SORT_KEY_VARIABLE: sort_key}

    def report(self, result: object, message: str) -> None:
        """Say what was done: the result as JSON on stdout, or else a message."""
        if self.as_json:
            show.print_json(result)
        else:
            say(message)

    def start_logging(self) -> None:
        """Log on stderr what the library logs: with -v from level INFO on, with -vv debug messages too."""
        if self.verbose:
            logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
            logging.getLogger("lambda_lock").setLevel(logging.INFO if self.verbose == 1 else logging.DEBUG)

    def _place(self) -> dict[str, Any]:
        return {"region_name": self.region_name, "endpoint_url": self.endpoint_url}
