"""The server that answers anything."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from lambda_lock import JAVA
from lambda_lock.testing import ManualClock
from lambda_lock.testing.memory import Memory

from .liar import Liar


@pytest.fixture
def server() -> Iterator[Liar]:
    logging.getLogger("lambda_lock").setLevel(logging.CRITICAL)
    liar = Liar(Memory({}, ManualClock(), JAVA))
    yield liar
    liar.close()
    logging.getLogger("lambda_lock").setLevel(logging.NOTSET)
