"""`release_on_sigterm`: a worker that is asked to stop releases its locks. Loaded by those who call it."""

from __future__ import annotations

import _thread
import atexit
import functools
import os
import signal
import sys
import threading
import time
from contextlib import suppress

from .client.base import Client
from .client.closing import close
from .decorators.guard import default_client
from .errors import LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .client.async_client import AsyncLockClient
    from .client.lock_client import LockClient

_SOON = 0.05  # seconds
_to_raise: list[_Stop] = []  # what a loop was asked to raise, and has not yet


class _Stop(SystemExit):
    """What SIGTERM raises."""


def release_on_sigterm(*clients: LockClient | AsyncLockClient) -> None:
    """Release all locks of this process when it is asked to stop, as ECS, Kubernetes and systemd do by SIGTERM.

    clients: the clients whose locks are released. Without any: the default client.

    SIGTERM then ends the process as sys.exit() does: SystemExit is raised in the main thread, so ``with`` blocks and
    decorated functions release their locks on the way out. If asyncio runs there, it is raised between two steps of the
    loop: asyncio.run() then cancels all tasks, which release their locks. Python waits for the other threads, except
    for daemon threads, so let these end by themselves. At the very end, acquires that are still under way have 8 s to
    end, and what is still held is released. Without this, SIGTERM kills the process, and others wait until the leases
    end.

    A second SIGTERM raises SystemExit anew, and right where the main thread is if the loop did not get to the first
    one. At the very end, further ones are ignored. A handler of the application's own stays: let it end the process by
    sys.exit() or, with asyncio, cancel the main task.

    Call it once, in the main thread. In Lambda it is not needed: a lease ends with its invocation.

    Raises TypeError for what is not a client, and LockConfigurationError in another thread than the main one.

    Example: ``release_on_sigterm()``, at the start of a worker
    """
    for client in clients:
        if not isinstance(client, Client):
            raise TypeError(f"release_on_sigterm() takes lock clients, not {client!r}")
    if threading.current_thread() is not threading.main_thread():
        raise LockConfigurationError("release_on_sigterm() was called in a thread: call it in the main thread")
    atexit.register(_release, os.getpid(), clients)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    stop = _Stop(128 + number)  # as a shell says that a signal ended it
    loop: AbstractEventLoop | None = None
    with suppress(KeyError, AttributeError, RuntimeError):  # not loaded, half loaded, none is running
        loop = sys.modules["asyncio"].get_running_loop()
    if loop is not None and not _to_raise:
        # Raised right here, it could take a step of a task away from the loop, which then waits for that task for ever.
        _to_raise.append(stop)
        loop.call_soon_threadsafe(_raise, stop)
        _on_a_thread(_insist, loop)
        return
    if getattr(sys.unraisablehook, "func", None) is not _heed:
        sys.unraisablehook = functools.partial(_heed, sys.unraisablehook)
    _raise(stop)


def _raise(stop: _Stop) -> None:
    _to_raise.clear()
    raise stop


def _insist(loop: AbstractEventLoop) -> None:
    """Signal again if the loop ends before it has raised what it was asked to."""
    while _to_raise and loop.is_running():
        time.sleep(_SOON)
    time.sleep(_SOON)  # asyncio.run() runs its loop again at its end
    if _to_raise:
        _signal_again()


def _heed(told: Callable[[Any], object], lost: Any) -> None:
    """For `sys.unraisablehook`. Python drops what a signal handler raises within a finalizer: signal again after it."""
    told(lost)
    # Once the interpreter ends, the main thread is not alive. lost.object cannot tell that: on 3.14 it is always None.
    if isinstance(lost.exc_value, _Stop) and threading.main_thread().is_alive():
        _on_a_thread(_signal_again)


def _signal_again() -> None:
    time.sleep(_SOON)  # until that code is left
    if sys.platform != "win32":
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _on_a_thread(function: Callable[..., object], *arguments: Any) -> None:
    with suppress(RuntimeError):  # the interpreter ends
        _thread.start_new_thread(function, arguments)  # takes no lock that the interrupted code may have


def _release(pid: int, clients: tuple[Client, ...]) -> None:
    if pid != os.getpid():  # a forked child has inherited this
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with suppress(ValueError):  # another thread ends the interpreter
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # the process ends anyway
    for client in clients or (default_client(),):
        with suppress(Exception):  # releases that fail are logged; the process ends all the same
            close(client.__session__, release=True)
    for number, handler in before.items():
        with suppress(ValueError, TypeError):  # TypeError for None, a handler that is not Python's
            signal.signal(number, handler)
