"""Waits for a condition that has to be polled."""

import time
from collections.abc import Callable

DEADLINE = 30.0  # seconds after which a test gives up: what it waits for should have happened long before


def wait_until(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    """Wait until the condition is true, by polling it. Fails after ``seconds``.

    A long wait polls less often: most conditions ask an engine, and many tests share its processor.
    """
    end, pause = time.monotonic() + seconds, 0.005
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)
