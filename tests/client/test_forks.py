"""A fork waits for what another thread loads: its child could not load that any more."""

import functools
import logging
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from lambda_lock import LockClient
from lambda_lock.runtime import first_use
from lambda_lock.runtime.first_use import FirstUse
from lambda_lock.testing import in_memory
from tests.support.elsewhere import in_child, in_thread
from tests.support.waiting import wait_until


def fork(run: Callable[[], Any], order: list[str]) -> Any:
    """Run a function in a forked child. Notes when the fork is over. (`waits_for_logging` knows it by its name.)"""
    child = in_child(run)
    order.append("forked")
    return child()


def test_a_fork_waits_for_what_another_thread_loads_for_the_first_time(monkeypatch):
    inside, leave, order = threading.Event(), threading.Event(), []

    def load() -> None:
        with FirstUse():
            inside.set()
            leave.wait(30)
            order.append("loaded")

    def enter() -> bool:
        with FirstUse():
            return True

    monkeypatch.setattr(first_use, "_PATIENCE", 60.0)
    loading = in_thread(load)
    assert inside.wait(10)
    forking = in_thread(functools.partial(fork, enter, order))
    assert order == []
    leave.set()
    loading()
    assert forking() is True
    assert order == ["loaded", "forked"]


def waits_for_logging(frame: FrameType | None) -> bool:
    """Whether a thread that forks stands in logging."""
    stands = frame is not None and frame.f_globals.get("__name__") == "logging"
    while frame is not None and frame.f_code.co_name != "fork":
        frame = frame.f_back
    return stands and frame is not None


@pytest.mark.parametrize("begins", ["before the fork", "while the fork waits for logging"])
def test_a_fork_waits_for_a_module_that_another_thread_is_loading(monkeypatch, begins):
    loading, load, looked = threading.Event(), threading.Event(), threading.Event()
    order: list[str] = []

    class Slow:
        """A finder that lets the import of one module stand still."""

        def find_spec(self, name: str, *_: Any) -> None:
            if name == "lambda_lock.client.closing" and not load.is_set():
                loading.set()
                load.wait(30)
                order.append("loaded")

    def look(seconds: float) -> None:
        looked.set()
        time.sleep(seconds)

    def close() -> bool:
        with in_memory():
            LockClient("locks").close()
        return True

    monkeypatch.setattr(first_use, "_PATIENCE", 60.0)
    monkeypatch.setattr(first_use, "time", SimpleNamespace(monotonic=time.monotonic, sleep=look))
    monkeypatch.delitem(sys.modules, "lambda_lock.client.closing", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Slow(), *sys.meta_path])
    if begins == "before the fork":
        closing = in_thread(close)
        assert loading.wait(10)
        forking = in_thread(functools.partial(fork, close, order))
    else:
        with logging._lock:  # type: ignore[attr-defined]  # another thread adds a handler, for example
            forking = in_thread(functools.partial(fork, close, order))
            wait_until(lambda: any(map(waits_for_logging, sys._current_frames().values())))
            closing = in_thread(close)
            assert loading.wait(10)
    assert looked.wait(10)
    assert order == []
    load.set()
    assert closing() is True
    assert forking() is True
    assert order == ["loaded", "forked"]
