"""The clients and rows of tests/client, for what is handed from one to another."""

from __future__ import annotations

from tests.client.conftest import client, fresh_process, impatient, make, rows, wired

__all__ = ["client", "fresh_process", "impatient", "make", "rows", "wired"]
