from collections.abc import Iterator

import pytest

from lambda_lock.testing import ManualClock, in_memory
from lambda_lock.testing.memory import Memory

from .support import Scene


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    with in_memory(clock=ManualClock()) as made:
        yield made


@pytest.fixture
def scene(memory: Memory) -> Scene:
    return Scene(memory)
