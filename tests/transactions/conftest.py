"""The clients and rows of tests/client, and tables for an application to write."""

from __future__ import annotations

from tests.client.conftest import client, fresh_process, impatient, make, rows, wired

__all__ = ["client", "fresh_process", "impatient", "make", "rows", "wired"]
