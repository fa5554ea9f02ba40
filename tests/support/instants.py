"""The instants of a call at which Python runs signal handlers, and a real signal at one of them.

CPython runs handlers where a function begins, after a call, and where a loop goes back: where its interpreter looks at
its "eval breaker". So the signal is made pending before each instruction that leads there (a call, a jump back), and
where a function returns. CPython itself then runs the handler at the very next such instant. Nothing is raised in a
trace function: in CPython 3.11 that leaves references behind, or crashes.

Loops repeat a point. Its first and its last occurrence are swept.
"""

from __future__ import annotations

import _thread
import dis
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import lambda_lock

SIGNAL = signal.SIGUSR2
PACKAGE = Path(lambda_lock.__file__).parent
#: What stands for DynamoDB, and what never runs beside a lock.
_OURS_NOT = tuple(str(PACKAGE / name) + os.sep for name in ("testing", "cli", "cdk"))
#: Pure functions, which wait for nothing and change nothing. Their calls are points, their own instructions are not.
_PURE = (
    str(PACKAGE / "keys"),
    *(f"{PACKAGE}/core/{name}.py" for name in ("requests", "row", "schema", "other_schemas")),
    *(f"{PACKAGE}/client/{name}.py" for name in ("checks", "event_results", "record", "settings", "values")),
    *(f"{PACKAGE}/transport/{name}.py" for name in ("answers", "endpoint")),
)
_LEADING_THERE = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD"}

#: The code and the offset of an instruction. An offset of -1 is where the function returns.
Key = tuple[CodeType, int]


class _Pending:
    """``_Pending()[number]`` makes a signal pending. Indexing is not a call, so no handler runs right after it."""

    __getitem__: Any = _thread.interrupt_main


_PENDING = _Pending()


@functools.cache
def _leading(code: CodeType) -> frozenset[int]:
    return frozenset(each.offset for each in dis.get_instructions(code) if each.opname in _LEADING_THERE)


@functools.cache
def _is_swept(file: str) -> bool:
    return file.startswith(str(PACKAGE)) and not file.startswith(_OURS_NOT + _PURE)


class Tracer:
    """A context that asks ``is_time`` at each point of this thread, and makes the signal pending where that is True."""

    def __init__(self, is_time: Callable[[Key], bool]) -> None:
        self._is_time = is_time
        self._beyond: FrameType | None = None  # the call of what stands for DynamoDB, which no signal reaches

    def __enter__(self) -> None:
        sys._getframe().f_trace_opcodes = True  # CPython 3.12 asks for it before settrace()
        sys.settrace(self._begin)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _begin(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if self._beyond is not None:
            return None
        if code.co_filename.startswith(_OURS_NOT):
            self._beyond = frame
            return self._beyond_it
        if not _is_swept(code.co_filename):
            return None
        frame.f_trace_opcodes = True
        leading, is_time = _leading(code), self._is_time

        def step(frame: FrameType, event: str, argument: object) -> Any:
            if event == "opcode":
                time_has_come = frame.f_lasti in leading and is_time((code, frame.f_lasti))
            else:
                time_has_come = event == "return" and is_time((code, -1))
            if time_has_come:
                sys.settrace(None)  # otherwise the handler could run in a trace function
                _PENDING[SIGNAL]
            return step

        return step

    def _beyond_it(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "return":
            self._beyond = None
        return self._beyond_it


class Point(NamedTuple):
    """A point of a call: where, and at which of its occurrences."""

    key: Key
    occurrence: int

    def __str__(self) -> str:
        code, at = self.key
        file = Path(code.co_filename).relative_to(PACKAGE)
        line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
        where = f"{file}:{line or code.co_firstlineno}{'' if line else ' at its return'} in {code.co_qualname}"
        return where + (f", time {self.occurrence}" if self.occurrence > 1 else "")


def points_of(act: Callable[[], object]) -> list[Point]:
    """All points of a call, each where it comes first and where it comes last. The call is made."""
    counts: dict[Key, int] = {}

    def count(key: Key) -> bool:
        counts[key] = counts.get(key, 0) + 1
        return False

    with Tracer(count):
        act()
    return [Point(key, number) for key, count in counts.items() for number in sorted({1, count})]


class Strike:
    """A context in which a signal handler runs ``happen`` at a point, once. What it raises is raised there."""

    def __init__(self, point: Point, happen: Callable[[], None]) -> None:
        self.struck = False
        self._key, self._left, self._happen = point.key, point.occurrence, happen
        self._tracer = Tracer(self._is_time)

    def __enter__(self) -> Strike:
        self._before = signal.signal(SIGNAL, self._handle)
        self._tracer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tracer.__exit__()
        signal.signal(SIGNAL, self._before)

    def _is_time(self, key: Key) -> bool:
        if self.struck or key != self._key:
            return False
        self._left -= 1
        self.struck = not self._left
        return self.struck

    def _handle(self, number: int, frame: object) -> None:
        signal.signal(SIGNAL, self._before)  # where the outermost call returns, this comes in the midst of __exit__
        self._happen()


def interrupt() -> None:
    """Ctrl-C."""
    raise KeyboardInterrupt


def at_every_instant(
    act: Callable[[], object], happen: Callable[[], None] = interrupt, within: tuple[str, ...] = ("",)
) -> Iterator[str]:
    """Carry ``act`` out undisturbed, and then with ``happen`` at each of its points, one after the other.

    Yields where that was, each time: the caller judges what is left, and prepares the next one.
    within: how the paths of the modules begin at whose points it happens.
    """
    points = [point for point in points_of(act) if str(point).startswith(within)]
    yield "undisturbed"
    for point in points:
        try:
            with Strike(point, happen):
                act()
        except KeyboardInterrupt:
            pass
        yield str(point)
    assert len(points) > 10, "what was to be disturbed is not swept"
