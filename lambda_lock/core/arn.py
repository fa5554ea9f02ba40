"""The table's name in its ARN."""

from __future__ import annotations


def bare_name(table: str) -> str:
    """The name of a table that is given by its name or its ARN."""
    return table.rpartition("/")[2] if table.startswith("arn:") else table
