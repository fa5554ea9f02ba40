"""Ctrl-C, SIGTERM and SIGHUP end a run with KeyboardInterrupt, but never between a creation and its answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The handler of the signals, from ``with`` to its end. Signals arrive in the main thread."""

    def __init__(self) -> None:
        self._holding = 0
        self._pending = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._arrived) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """A signal that comes meanwhile is raised at the end."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
        if self._pending and not self._holding:
            self._pending = False
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """From now on signals change nothing: what was created is being removed."""
        self._holding += 1

    def _arrived(self, *_: object) -> None:
        if self._holding:
            self._pending = True
            return
        raise KeyboardInterrupt
