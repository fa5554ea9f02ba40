"""Threads are started, or what a signal handler raised meanwhile reaches the application."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock.runtime.signalsafe import start
from lambda_lock.testing import in_memory


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A signal comes within Thread.start, once the new thread runs. Its handler raises a TimeoutError."""

    def late(signum: int, frame: object) -> None:
        raise TimeoutError("of the job")

    real: Callable[..., Any] = threading._start_new_thread  # type: ignore[attr-defined]

    def started(*arguments: Any, **options: Any) -> None:
        before = set(threading._limbo)  # type: ignore[attr-defined]
        real(*arguments, **options)
        while before & set(threading._limbo):  # type: ignore[attr-defined]
            time.sleep(0)
        signal.raise_signal(signal.SIGUSR1)

    handler = signal.signal(signal.SIGUSR1, late)
    monkeypatch.setattr(threading, "_start_new_thread", started)
    yield
    signal.signal(signal.SIGUSR1, handler)


def test_an_interrupt_of_a_start_is_raised_as_it_came(interrupted):
    with pytest.raises(TimeoutError, match="of the job"):
        start(threading.Thread(target=lambda: None))


def test_what_a_handler_raises_while_the_heartbeat_starts_leaves_acquire_and_nothing_held(interrupted):
    from lambda_lock import LockClient
    from lambda_lock.runtime.heartbeat import HEARTBEAT

    with in_memory(), LockClient() as client:
        HEARTBEAT._thread, thread = None, HEARTBEAT._thread
        try:
            with pytest.raises(TimeoutError, match="of the job"):
                client.acquire("job")
        finally:
            HEARTBEAT._thread = thread
        record = client.get("job")
        assert record is None or record.is_released
