"""A worker that is struck in the midst of what it does: by a signal, whose handler raises, or by another thread.

Each line of its input names what is raised, the handler, what the worker does, and the lock. Its answer is True if it
was raised there what the handler raised, and not something else.
"""

import ctypes
import functools
import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import HTTPClientError

from lambda_lock import LockClient, with_lock
from lambda_lock.errors import LockAlreadyReleasedError, LockNotGrantedError, TransportError

raised: BaseException = Exception()
_LEASE = 600.0


LIMITS: dict[str, Callable[[], BaseException]] = {
    "an alarm": TimeoutError,
    "a lost connection": type("Dropped", (ConnectionResetError,), {}),
    "a time limit": type("JobTimeoutException", (Exception,), {}),
    "a bad value": ValueError,
    "an error of boto3": type("Stopped", (HTTPClientError,), {"__init__": lambda self: None}),
    "no answer for another lock": functools.partial(TransportError, True),
    "a release of another lock": LockAlreadyReleasedError,
    "contention of another lock": functools.partial(LockNotGrantedError, "another lock is held"),
}


# Who raises it


def _over(number: int, frame: Any) -> None:
    raise raised


def _deleting(number: int, frame: Any) -> None:
    del number, frame
    raise raised


def _forgetting(number: int, frame: Any) -> None:
    frame = None  # noqa: F841 - an application may do so
    raise raised


def _calling(*_: Any) -> None:
    _over(0, None)


class _Limits:
    def over(self, number: int, frame: Any) -> None:
        del frame
        raise raised

    __call__ = over


HANDLERS: dict[str, Callable[..., Any]] = {
    "a function": _over,
    "one that deletes what it is given": _deleting,
    "one that forgets the frame": _forgetting,
    "one that calls another": _calling,
    "a partial": functools.partial(_deleting),
    "a method": _Limits().over,
    "an object": _Limits(),
    "a lambda": lambda *_: (_ for _ in ()).throw(raised),
}


# In what


def _nothing() -> None:
    pass


def _skip(client: LockClient, key: str) -> None:
    options: dict[str, Any] = {"on_not_granted": "skip", "on_unavailable": "run"}
    with_lock(key, client=client, lease_duration=_LEASE, **options)(lambda: print("it ran", flush=True))()


def _injected(client: LockClient, key: str) -> None:
    main = threading.get_ident()

    def strike() -> None:
        while client.get(key) is None:
            pass
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(TimeoutError))

    threading.Thread(target=strike, daemon=True).start()
    try:
        client.acquire(key, lease_duration=_LEASE)
    except TimeoutError as error:
        raise raised from error


ACTS: dict[str, Callable[[LockClient, str], object]] = {
    "acquire": lambda client, key: client.acquire(key, lease_duration=_LEASE),
    "try_acquire": lambda client, key: client.try_acquire(key, lease_duration=_LEASE),
    "on_not_granted, on_unavailable": _skip,
    "release": lambda client, key: client.acquire(key, lease_duration=_LEASE).release(),
    "the end of with_lock": lambda client, key: with_lock(key, client=client, lease_duration=_LEASE)(_nothing)(),
    "injected": _injected,
}


CLIENTS: dict[str, Callable[[], LockClient]] = {
    "https": LockClient,
    "boto3": lambda: LockClient(boto3_session=boto3.Session()),
    "the user's client, which retries": lambda: LockClient(boto3_client=boto3.client("dynamodb")),
    "one that retries in the standard mode": lambda: LockClient(
        boto3_client=boto3.client("dynamodb", config=Config(retries={"mode": "standard", "total_max_attempts": 5}))
    ),
}


def obey(name: str) -> None:
    global raised
    client = CLIENTS[name]()
    client.prewarm()
    print("ready", flush=True)
    for line in sys.stdin:
        limit, handler, act, key = json.loads(line)
        raised = LIMITS[limit]()
        signal.signal(signal.SIGUSR1, HANDLERS[handler])
        try:
            ACTS[act](client, key)
        except BaseException as error:  # noqa: BLE001 - it is told of
            print(error is raised or repr(error), flush=True)
        else:
            print("went on", flush=True)


def take_and_release(name: str, limit: str, moments: int) -> None:
    """Take and release locks while a timer goes off at ever other moments. What is raised must be of the handler."""
    global raised
    client = CLIENTS[name]()
    client.acquire("warm").release()
    started = time.perf_counter()
    client.acquire("warm").release()
    cycle = time.perf_counter() - started

    def over_outside_destructors(number: int, frame: Any) -> None:
        at = frame
        while at is not None:
            if at.f_code.co_name in ("close", "closed", "__del__"):  # Python raises nothing from destructors
                signal.setitimer(signal.ITIMER_REAL, cycle / 100)
                return
            at = at.f_back
        raise raised

    signal.signal(signal.SIGALRM, over_outside_destructors)
    print("ready", flush=True)
    for number in range(moments):
        raised = LIMITS[limit]()
        try:
            signal.setitimer(signal.ITIMER_REAL, cycle * 1.1 * (number + 1) / moments)
            with client.acquire(f"a {number}", lease_duration=_LEASE):
                pass
            time.sleep(10 * cycle)
            print(number, "was swallowed", flush=True)
        except BaseException as error:  # noqa: BLE001 - it is told of
            if error is not raised:
                print(number, repr(error), flush=True)
    client.close()
    left = [record.key for record in LockClient().list() if not record.is_released]
    print("left:", left, flush=True)
