"""Tests on the real SDK of durable functions, in an environment of its own: make test-durable."""

import importlib.util
from collections.abc import Iterator

import pytest

from lambda_lock import set_default_client
from tests.support.clients import client, impatient, make, wired
from tests.support.rows import rows

collect_ignore_glob = [] if importlib.util.find_spec("aws_durable_execution_sdk_python") else ["test_*.py"]
if not collect_ignore_glob:
    from .executions import deploy as deploy
    from .service import service as service
    from .waker import wake as wake

__all__ = ["client", "impatient", "make", "rows", "wired"]


@pytest.fixture(autouse=True)
def no_default_client() -> Iterator[None]:
    set_default_client(None)
    yield
    set_default_client(None)
