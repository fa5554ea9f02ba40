"""The clients and rows of tests/client, for holds that go from one attempt to the next."""

from tests.support.clients import client, impatient, make, pytest_generate_tests, wired
from tests.support.elsewhere import start
from tests.support.rows import rows

__all__ = ["client", "impatient", "make", "pytest_generate_tests", "rows", "start", "wired"]
