"""The clients and rows of tests/client, for several locks at once."""

from tests.support.clients import client, impatient, make, pytest_generate_tests, wired
from tests.support.elsewhere import start
from tests.support.fresh import fresh_process
from tests.support.rows import rows

__all__ = ["client", "fresh_process", "impatient", "make", "pytest_generate_tests", "rows", "start", "wired"]
