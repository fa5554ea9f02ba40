"""The server that answers anything."""

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest

from lambda_lock import JAVA
from lambda_lock.testing import ManualClock
from lambda_lock.testing.memory import Memory

from .liar import Liar


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("lambda_lock").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("lambda_lock").setLevel(logging.NOTSET)


@pytest.fixture
def server() -> Iterator[Liar]:
    with closing(Liar(Memory({}, ManualClock(), JAVA))) as liar:
        yield liar
