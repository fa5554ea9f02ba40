"""`release_on_sigterm`: a worker that is asked to stop releases its locks. Loaded by those who call it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress

from ..client.base import Client, session_of
from ..client.closing import close
from ..errors import LockConfigurationError
from .environment import default_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ..client.async_client import AsyncLockClient
    from ..client.lock_client import LockClient


def release_on_sigterm(*clients: LockClient | AsyncLockClient) -> None:
    """Release all locks of this process when it is asked to stop, as ECS, Kubernetes and systemd do by SIGTERM.

    clients: the clients whose locks are released. None: the default client.

    SIGTERM then ends the process as sys.exit() does: SystemExit is raised in the main thread, so ``with`` blocks and
    decorated functions release their locks on the way out. Python then waits for the other threads, except for daemon
    threads, so let these end by themselves. What is still held after that is released. Without this, SIGTERM kills the
    process, and others wait until the leases end. Further SIGTERMs are ignored. A handler of the application's own
    stays: let it end the process by sys.exit().

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
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the releases
    sys.exit(128 + number)  # as a shell says that a signal ended it


def _release(pid: int, clients: tuple[Client, ...]) -> None:
    if pid != os.getpid():  # a forked child has inherited this
        return
    for client in clients or (default_client(),):
        with suppress(Exception):  # releases that fail are logged; the process ends all the same
            close(session_of(client), release=True)
