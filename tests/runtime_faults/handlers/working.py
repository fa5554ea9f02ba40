"""What functions do while their runtime fails: they work under a lock, and write down what they see.

The register of a key is the list of the works that were committed under its lock. Each invocation reads it, works, and
commits the list with its own name at the end. The deduplicated ones add the event's name to a set.

An event has: ``name``, ``key``, ``how`` (a key of `FUNCTIONS`), ``act`` (a key of `ACTS`) and ``seconds`` of work; for
"exhaust" also ``leaves`` and ``keeps``, for "take" also ``take``.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lambda_lock import Lock, LockClient, current_dedup, current_lock, deduplicate, set_default_client, with_lock
from lambda_lock.errors import LockError, LockNotGrantedError, OwnerMismatchError, TransportError
from rig.engine import Ministack
from tests.histories.record import Recorder, now

LEASE = float(os.environ["LEASE"])
REGISTERS = os.environ["REGISTERS"]
CLIENT = LockClient(lease_duration=LEASE, refresh_period=0.2)
set_default_client(CLIENT)
ENGINE = Ministack()
ENGINE.port = int(os.environ["ENGINE_PORT"])
HOARD: list[bytearray] = []  # what a process that is out of memory keeps for good


def _new_recorder() -> Recorder:
    return Recorder(Path(os.environ["EVIDENCE"]) / f"{os.getpid()}-{now()}")


recorder = _new_recorder()


def handler(event: dict[str, Any], context: Any) -> str:
    function = FUNCTIONS[event["how"]]
    key = event["name"] if function is once else event["key"]
    event["asked"] = recorder.begin("acquire", key, os.getpid())
    try:
        answer = str(function(event, context))
    except LockNotGrantedError:
        recorder.end(event["asked"], "failed")
        raise
    for number in event.get("over", ()):
        recorder.end(number, "over")
    return answer


@with_lock("{key}", reserve=0.3)
def write(event: dict[str, Any], context: Any) -> str:
    lock = current_lock()
    with _held(lock, event):
        row = {"TableName": REGISTERS, "Key": {"key": {"S": event["key"]}}, "ConsistentRead": True}
        works: list[dict[str, str]] = ENGINE.dynamodb("GetItem", row).get("Item", {}).get("works", {}).get("L", [])
        ACTS[event["act"]](lock, event)
    item = {"key": {"S": event["key"]}, "works": {"L": [*works, {"S": event["name"]}]}}
    lock.commit([{"Put": {"TableName": REGISTERS, "Item": item}}])
    return str(event["name"])


def _take(event: dict[str, Any], context: Any) -> str:
    lock = current_lock()
    event["takes"] = lock.take
    with _held(lock, event):
        ACTS[event["act"]](lock, event)
    return str(event["name"])


@deduplicate("{name}", scope="", result="json")
def once(event: dict[str, Any], context: Any) -> str:
    lock = current_dedup()
    with _held(lock, event):
        ACTS[event["act"]](lock, event)
        row = {"TableName": REGISTERS, "Key": {"key": {"S": f"{event['key']}, once"}}}
        add = {"UpdateExpression": "ADD works :work", "ExpressionAttributeValues": {":work": {"SS": [event["name"]]}}}
        ENGINE.dynamodb("UpdateItem", {**row, **add})
    return str(event["name"])


@contextlib.contextmanager
def _held(lock: Lock, event: dict[str, Any]) -> Iterator[None]:
    """Write down the time in which the function counts on its lock."""
    recorder.end(event["asked"], "ok", token=lock.fencing_token, owner=lock.owner, take=event.get("takes", 0))
    print("granted", flush=True)
    recorder.look(lock, os.getpid())
    try:
        yield
        recorder.look(lock, os.getpid())
    finally:
        _over(lock, event)


def _over(lock: Lock, event: dict[str, Any]) -> None:
    """Write down that the function no longer counts on the lock: its commit or its release may begin.

    It is over when the function has returned. Until then, and if it raises, it may be carried out at any time.
    """
    event.setdefault("over", []).append(_release(lock, recorder))


def _release(lock: Lock, where: Recorder) -> int:
    return where.begin("release", lock.key, os.getpid(), token=lock.fencing_token)


# What can happen inside an invocation


def _work(lock: Lock, event: dict[str, Any]) -> None:
    _watch(lock, event, recorder)


def _watch(lock: Lock, event: dict[str, Any], where: Recorder) -> None:
    end = time.monotonic() + event["seconds"]
    while time.monotonic() < end:
        where.look(lock, os.getpid())
        time.sleep(0.02)


def _fork(lock: Lock, event: dict[str, Any]) -> None:
    """Fork workers that know the lock, and want it for themselves. Their parent does not wait for them."""
    for _ in range(2):
        if os.fork() == 0:
            _child(lock, event)
    _work(lock, event)


def _child(lock: Lock, event: dict[str, Any]) -> None:
    own = _new_recorder()
    try:
        if lock.is_held:
            own.trouble("a forked worker counts as the holder of its parent's lock")
        try:
            lock.release()
            own.trouble("a forked worker has released its parent's lock")
        except OwnerMismatchError:
            pass
        asked = own.begin("acquire", lock.key, os.getpid())
        try:
            with CLIENT.acquire(lock.key, wait=LEASE + 3) as mine:
                own.end(asked, "ok", token=mine.fencing_token, owner=mine.owner)
                _watch(mine, event, own)
                over = _release(mine, own)
            own.end(over, "over")
        except (LockNotGrantedError, TransportError):
            pass
        except LockError:
            own.trouble(traceback.format_exc())
    except BaseException:  # noqa: BLE001 - it is reported, and the process ends here
        own.trouble(traceback.format_exc())
    finally:
        os._exit(0)


def _starve(lock: Lock, event: dict[str, Any]) -> None:
    """Keep the interpreter busy for longer than the lease, so that the heartbeat's thread cannot renew."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        end = time.monotonic() + event["seconds"] + LEASE * 1.5
        while time.monotonic() < end:
            pass
    finally:
        sys.setswitchinterval(usual)
    recorder.look(lock, os.getpid())


def _exhaust(lock: Lock, event: dict[str, Any]) -> None:
    """Take all memory down to blocks of ``leaves`` bits, and raise, or keep it and go on working."""
    _over(lock, event)  # it may be impossible to write this down later
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (4 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    size = 1 << 20
    while size >= 1 << event["leaves"]:
        try:
            HOARD.append(bytearray(size))
        except MemoryError:
            size >>= 1
    if not event["keeps"]:
        HOARD.clear()
        raise MemoryError("a handler that needs more than there is")
    _work(lock, event)


ACTS: dict[str, Callable[[Lock, dict[str, Any]], None]]
ACTS = {"work": _work, "fork": _fork, "starve": _starve, "exhaust": _exhaust}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "with_lock": write,
    "deduplicate": once,
    "take": with_lock("{key}", permits=3, take=lambda event, context: event["take"], reserve=0.3)(_take),
    "read": with_lock("{key}", shared=True, reserve=0.3)(_take),
    "rebuild": with_lock("{key}", shared=False, reserve=0.3)(_take),
}
