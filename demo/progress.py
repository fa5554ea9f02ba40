"""What happens while it happens: one line that changes on a terminal, a line for each event in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

_CLEAR = "\r\x1b[K"


class Progress:
    """Writes to ``stream``; a context manager that leaves no half line behind. Safe from any thread."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._one_line = stream.isatty()
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._one_line:
            self._write(_CLEAR)

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:5.1f} s  {text}"
        self._write(f"{_CLEAR}{line[:79]}" if self._one_line else f"{line}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)  # in one piece, because several threads write
        self._stream.flush()
