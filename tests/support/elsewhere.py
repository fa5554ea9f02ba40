"""Runs functions on another thread or in another process."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

from .waiting import DEADLINE


def in_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``function`` on a thread. Returns a function that waits for its result or raises its error."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(DEADLINE)
        assert outcome, "the thread did not end"
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return result


class ChildDied(AssertionError):
    """A forked child ended without an outcome."""


def in_child(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``function`` in a forked child. Returns a function that waits for its result or raises its error."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        try:
            os.close(reader)
            try:
                outcome: Any = (function(), None)
            except BaseException as error:  # noqa: BLE001 - raised again by result()
                outcome = (None, error)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(outcome, pipe)
        finally:
            os._exit(0)
    os.close(writer)

    def result() -> Any:
        with os.fdopen(reader, "rb") as pipe:
            raw = pipe.read()
        os.waitpid(pid, 0)
        if not raw:
            raise ChildDied("the child died")
        value, error = pickle.loads(raw)
        if error is not None:
            raise error
        return value

    return result
