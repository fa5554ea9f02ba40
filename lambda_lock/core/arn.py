"""The name of a table in its ARN."""

from __future__ import annotations


def bare_name(table: str) -> str:
    """Return the name of a table. ``table`` is its name or its ARN."""
    return table.rpartition("/")[2] if table.startswith("arn:") else table
