"""Clients on the real engine, and its rows, read without a client."""

from tests.support.clients import client, impatient, make, pytest_generate_tests, wired
from tests.support.elsewhere import start
from tests.support.queues import new_sqs_client
from tests.support.rows import rows

__all__ = ["client", "impatient", "make", "new_sqs_client", "pytest_generate_tests", "rows", "start", "wired"]
