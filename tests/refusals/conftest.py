"""A table in memory, a client on it, and the texts of the errors that a mistake raises."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import LockClient, set_default_client
from lambda_lock.testing import ManualClock, in_memory
from lambda_lock.testing.memory import Memory
from tests.support.fresh import clear_environment, forget_invocations

#: Calls a function, and returns what its error says. The error has to be of the given type and has to have the words.
Told = Callable[..., str]


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_environment(monkeypatch)
    forget_invocations(monkeypatch)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock, fresh_process: None) -> Iterator[Memory]:
    with in_memory(clock=clock) as memory:
        yield memory


@pytest.fixture
def client(memory: Memory, clock: ManualClock) -> Iterator[LockClient]:
    with LockClient(clock=clock, heartbeat_period=0) as client:
        set_default_client(client)
        yield client
        set_default_client(None)


@pytest.fixture
def told() -> Told:
    def told(kind: type[BaseException], act: Callable[[], Any], *words: str) -> str:
        with pytest.raises(kind) as caught:
            act()
        said = str(caught.value)
        for each in words:
            assert each in said
        return said

    return told


def refused(kind: Any, *rows: tuple[Any, ...]) -> list[Any]:
    """Rows for parametrize: what is called or given, and the words of the error of this kind, which are the id."""
    return [pytest.param(wrong, kind, words, id=", ".join(words)[:60]) for wrong, *words in rows]
