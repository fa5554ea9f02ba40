"""What happens just before an async client's threads take their guard, or just after they give it back, counts.

The races do not switch these threads. So a guard stands in here that lets another thread's step happen at the only two
moments at which it can: before it is taken, and after it is given back.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock.runtime.threads import LIMIT, Threads


def _nothing() -> None:
    """Nobody comes in between."""


class Guard:
    """A lock, with what another thread does once just before it is taken and just after it is given back."""

    def __init__(self, before: Callable[[], object] = _nothing, after: Callable[[], object] = _nothing) -> None:
        self._lock = threading.Lock()
        self._before, self._after = before, after

    def __enter__(self) -> None:
        before, self._before = self._before, _nothing
        before()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        after, self._after = self._after, _nothing
        after()


@pytest.fixture
def threads() -> Threads:
    return Threads()


def guarded(threads: Threads, **steps: Callable[[], object]) -> None:
    threads._guard = Guard(**steps)  # type: ignore[assignment]


async def test_a_call_is_served_although_all_threads_ended_just_before_it_was_put(threads):
    threads._workers = {threading.Thread() for _ in range(LIMIT)}
    guarded(threads, before=threads._workers.clear)
    assert await threads.settle(lambda: 7, patience=5) == 7


async def test_a_call_is_served_although_a_thread_found_nothing_to_do_just_before_it_was_put(threads):
    left: list[bool] = []
    threads._workers = {threading.current_thread()}
    guarded(threads, after=lambda: left.append(threading.current_thread() not in threads._workers))
    threads._work()
    assert left == [True], "a call that is put now would count on a thread that has looked for one already"


async def test_a_call_that_a_thread_took_just_before_it_is_not_taken_back(threads):
    begun: list[Any] = []
    threads._workers = {threading.Thread() for _ in range(LIMIT)}  # all are busy
    call = threads._begin(begun.append, (1,))
    guarded(threads, before=threads._waiting.popleft)
    assert not threads._take_back(call), "it was said not to begin, and a thread has it"
