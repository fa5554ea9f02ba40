"""What tests do while a fault of the network (rig/wire.py) has a request."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rig.wire import Fault

from .elsewhere import in_thread
from .waiting import DEADLINE


@contextmanager
def held_up(fault: Fault, act: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Start ``act`` on a thread. The block runs while ``fault`` holds up a request of it.

    Yields a function that waits for its result or raises its error.
    """
    result = in_thread(act)
    assert fault.reached.wait(DEADLINE)
    yield result
    fault.release()


def land(late: Fault) -> None:
    """Let the late copies of a request arrive."""
    late.release()
    assert late.finished.wait(DEADLINE)
