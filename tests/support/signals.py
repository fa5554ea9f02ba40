"""The blocked signals and the handlers of this process. Programs inherit what is blocked or ignored."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGUSR1)


def signals() -> tuple[set[Any], list[Any]]:
    """The signals that are blocked, and the handlers of others."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, ()), [signal.getsignal(number) for number in _HANDLED]


@contextlib.contextmanager
def signals_restored() -> Iterator[None]:
    """Put the blocked signals and the handlers back at the end of the block."""
    blocked, handlers = signals()
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in zip(_HANDLED, handlers, strict=True):
            signal.signal(number, handler)
