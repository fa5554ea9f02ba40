"""The operations in which faults happen, of a plain client on a real engine, and what must hold after each."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lambda_lock import AsyncLock, AsyncMultiLock, Lock, LockClient, LockError, LockTimeoutError, MultiLock
from lambda_lock.core.permits import entries_of, holder_of
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import ClientClosedError, LockLostError
from rig.engine import Ministack
from tests.prove import operations
from tests.support import rows
from tests.support.clocks import LeapingClock
from tests.support.waiting import wait_until

TABLE = "drivers"
_OURS = ("lambda_lock-renewal", "lambda_lock-callback", "lambda_lock-asyncio")


class DoubleHolderError(AssertionError):
    """A handle says that it is held, and the row says that it is not."""


class Rows(rows.Rows):
    """The table as the engine stores it."""

    def owner(self, key: str) -> str | None:
        """Who holds the lock, or the one permit, by its row. None: nobody."""
        item = self.get(key)
        if item is None or "isReleased" in item or "recordVersionNumber" not in item:
            return None
        if "permits" in item:
            owners = [holder_of(*entry).owner for entry in entries_of(item, JAVA).items()]
            assert len(owners) <= 1, f"{owners} have the one permit of {key!r}"
            return owners[0] if owners else None
        return str(item["ownerName"]["S"])

    def waiters(self, key: str) -> list[Any]:
        """The places in the lock's queue."""
        return list((self.get(key) or {}).get("waiters", {"L": []})["L"])


class TimeIsUp(TimeoutError, ValueError, TypeError, LookupError, RuntimeError):
    """What the signal handler of an application raises at its time limit."""


@dataclass
class Scene:
    """One play of an operation.

    kept: what the preparation made. handles: the locks that the application knows. given: what the operation returned.
    error: what it raised. options: what the lock of this key is acquired with.
    """

    rows: Rows
    key: str
    client: Any  # also an asynchronous one
    other: LockClient
    options: dict[str, Any] = field(default_factory=dict)
    patience: float = 3.0
    handles: list[Any] = field(default_factory=list)
    extra: list[Lock] = field(default_factory=list)  # of other keys, which are to be free at the end too
    theirs: list[Lock] = field(default_factory=list)  # of the other client
    kept: Any = None
    given: Any = None
    error: BaseException | None = None
    counts: Counter[str] = field(default_factory=Counter)

    permits = 1

    @property
    def keys(self) -> tuple[str, str]:
        return self.key, self.key + " second"

    @property
    def item(self) -> dict[str, Any]:
        """What a commit writes."""
        written = {"key": {"S": self.key + " written"}, "isReleased": {"S": "1"}}
        return {"Put": {"TableName": TABLE, "Item": written}}

    def begin(self, kept: Any, theirs: bool) -> None:
        """Note what the preparation made. theirs: whether that is the other client's."""
        self.kept = kept
        if kept is not None and not isinstance(kept, str):
            (self.theirs if theirs else self.handles).insert(0, kept)

    def reading(self) -> None:
        """No handle may say that it is held while its row says something else."""
        for lock in (*self.handles, *self.extra):
            for key in keys_of(lock):
                if lock.is_held and (owner := self.rows.owner(key)) != lock.owner:
                    raise DoubleHolderError(f"a handle of {key!r} says that it is held, and its row names {owner}")

    def look_at_rows(self) -> None:
        """No row may name a handle that says that it is not held any longer, as nobody would release it.

        A string that was made, and got lost on its way to the caller, is left to the lease (`_free_or_given`).
        """
        for lock in self.handles:
            held = lock.is_held or (isinstance(lock, Lock) and lock.__held__.hold.handed_over)
            for key in keys_of(lock):
                assert held or self.rows.owner(key) != lock.owner, f"{key!r} was given up, and its row is held"

    def run(self, act: Callable[[Scene], Any]) -> None:
        """Carry it out, and keep what it returned or raised."""
        try:
            self.given = act(self)
        except (LockError, KeyboardInterrupt, TimeIsUp) as error:
            self.error = error.with_traceback(None)
        self.keep_given()

    def keep_given(self) -> None:
        """The application knows of the lock that it was given."""
        kinds = (Lock, MultiLock, AsyncLock, AsyncMultiLock)
        if isinstance(self.given, kinds) and self.given not in self.handles:
            self.handles.append(self.given)


def keys_of(handle: Lock | MultiLock | AsyncLock | AsyncMultiLock) -> tuple[str, ...]:
    return handle.keys if isinstance(handle, (MultiLock, AsyncMultiLock)) else (handle.key,)


@dataclass(frozen=True)
class Operation:
    """An operation whose points are swept.

    of: the operation in the catalogue. promise: asserts that it did what it promises, undisturbed.
    ended: asserts what holds of its keys after the client was closed, whatever came in between.
    before: its preparation, if that is not the one of the catalogue.
    takes: whether it takes a free lock. If it is interrupted, the lock is free again.
    error: what it raises, undisturbed.
    ends: whether it ends a hold. If a handler ends the same hold meanwhile, one of them is told.
    """

    name: str
    of: operations.Operation
    promise: Callable[[Scene], None]
    ended: Callable[[Scene], None]
    settings: Callable[[], dict[str, Any]] = dict
    before: Callable[[Scene], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    warm: bool = True
    takes: bool = False
    ends: bool = False
    error: type[Exception] | None = None

    def done(self, scene: Scene) -> None:
        assert isinstance(scene.error, self.error or type(None)), repr(scene.error)
        self.promise(scene)

    @property
    def act(self) -> Callable[[Scene], Any]:
        return self.of.act


class Stage:
    """Where scenes are played: the engine that the environment leads to."""

    def __init__(self, engine: Ministack) -> None:
        self.rows = Rows(engine, TABLE)
        self._played = 0

    def play(self, operation: Operation) -> Scene:
        """A scene in which the operation can be carried out."""
        self._played += 1
        key = f"{operation.name} {os.getpid()} {self._played}"
        client, other = LockClient(TABLE, **operation.settings()), LockClient(TABLE, heartbeat_period=0)
        scene = Scene(self.rows, key, client, other, operation.options)
        if operation.warm:
            scene.client.prewarm()
        scene.begin((operation.before or operation.of.before)(scene), operation.of.theirs)
        return scene


def judge(scene: Scene, operation: Operation) -> None:
    """No row is held for nobody, no handle says what is false, and the client works and closes without a trace."""
    scene.reading()
    usable(scene)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of handles that an interrupt took away
        gc.collect(0)
        scene.client.close()
    scene.client.close()
    for lock in (*scene.handles, *scene.extra):
        assert not lock.is_held, f"the handle of {keys_of(lock)} is held after its client was closed"
        owners = {scene.rows.owner(key) for key in keys_of(lock)}
        assert not lock.lost or owners != {lock.owner}, f"{keys_of(lock)} is not lost"
    for lock in scene.extra:
        assert scene.rows.owner(lock.key) is None, f"{lock.key!r} is held for nobody"
    operation.ended(scene)
    for lock in scene.theirs:
        lock.release()
    assert scene.rows.owner(scene.key) is None, "the lock is held for nobody"
    scene.other.close()
    trace()


def usable(scene: Scene) -> None:
    """The client takes and releases locks, unless it was closed."""
    try:
        with scene.client.acquire("spare " + scene.key, wait=0) as spare:
            assert spare.is_held
            scene.extra.append(spare)
    except ClientClosedError:
        scene.counts["closed"] += 1


_DESCRIPTORS = Path("/proc/self/fd")


def sockets() -> int:
    """How many sockets this process has open."""
    found = 0
    for descriptor in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):
            found += os.readlink(_DESCRIPTORS / descriptor).startswith("socket:")
    return found


_inherited = 0  # sockets, of the process that this one was forked from


def begin() -> None:
    """Called in a process that has just been forked: the sockets that are open belong to its parent."""
    global _inherited
    _inherited = sockets() if _DESCRIPTORS.exists() else 0


def trace(besides: int = 0) -> None:
    """All clients are closed: no thread and no connection of theirs may be left.

    besides: sockets of others.
    """
    allowed = _inherited + besides
    wait_until(lambda: not [each for each in threading.enumerate() if each.name in _OURS])
    if _DESCRIPTORS.exists() and sockets() > allowed:
        gc.collect()  # a traceback may have kept a frame
        assert sockets() <= allowed, f"{sockets()} connections are left open"


# -- the operations ---------------------------------------------------------------------------------------------------


_NAMES = ("", " second", " dropped")  # what follows the scene's key in the keys of several locks


def _hold_renewed(scene: Scene) -> Lock:
    """Two locks which the background has renewed, and one whose handle was dropped. Gives one of them."""
    scene.handles.append(scene.client.acquire(scene.key + " second", wait=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        scene.client.acquire(scene.key + " dropped", wait=0)
    lock: Lock = scene.client.acquire(scene.key, wait=0)
    before = lock.version
    wait_until(lambda: lock.version != before)
    return lock


def _is_held(scene: Scene) -> None:
    (lock,) = scene.handles
    assert lock.is_held
    assert {scene.rows.owner(key) for key in keys_of(lock)} == {lock.owner}


def _is_released(scene: Scene) -> None:
    assert scene.given is True
    (lock,) = scene.handles
    assert {scene.rows.owner(key) for key in keys_of(lock)} == {None}


def _is_committed(scene: Scene) -> None:
    assert scene.rows.get(scene.key + " written") is not None
    assert scene.rows.owner(scene.key) is None


def _is_handed_over(scene: Scene) -> None:
    assert isinstance(scene.given, str)


def _free(scene: Scene) -> None:
    owner = scene.rows.owner(scene.key)
    assert owner is None, f"the row names {owner} after the client was closed"


def _free_all(scene: Scene) -> None:
    for name in _NAMES:
        owner = scene.rows.owner(scene.key + name)
        assert owner is None, f"the row of {scene.key + name!r} names {owner} after the client was closed"


def _free_and_told(scene: Scene) -> None:
    """A commit that said that it was done has written its items."""
    _free_all(scene)
    written = scene.rows.get(scene.key + " written") is not None
    assert written or scene.error is not None, "the commit did not write, and raised nothing"
    if written and isinstance(scene.error, LockError):
        assert getattr(scene.error, "ambiguous", False), f"the commit wrote, and raised {scene.error!r}"


def _free_or_given(scene: Scene) -> None:
    """A lock that was handed over can be adopted. Any other is free, or left to its lease."""
    if isinstance(scene.given, str):
        scene.theirs.append(scene.other.adopt(scene.given))
        return
    if scene.rows.owner(scene.key) is None:
        return
    # The string was made, and an interrupt took it away on its way to the caller. Its lease frees the lock.
    (lock,) = scene.handles
    assert lock.__held__.released, "the lock is held for nobody"
    scene.counts["left to the lease"] += 1
    expire(scene)
    scene.theirs.append(scene.other.acquire(scene.key, wait=0))


def expire(scene: Scene) -> None:
    """Let the lease in the row be over."""
    version = scene.rows[scene.key]["recordVersionNumber"]["S"].split(":")
    version[1] = "0" * len(version[1])
    scene.rows.change(scene.key, recordVersionNumber={"S": ":".join(version)})


def free_or_to_be_adopted(scene: Scene) -> None:
    owner = scene.rows.owner(scene.key)
    if owner is None:
        return
    assert not scene.handles, f"the row names {owner} after the client was closed"
    scene.counts["still to be adopted"] += 1
    scene.theirs.append(scene.other.adopt(scene.kept))


def _free_or_to_be_resumed(scene: Scene) -> None:
    """A hold that did not reach the caller is not released: the next attempt resumes it."""
    if scene.handles:
        _free(scene)
        return
    scene.counts["still to be resumed"] += 1
    try:
        scene.theirs.append(scene.other.resume(scene.kept))
    except LockLostError as error:
        raise AssertionError(f"the hold was released, and its string is worth nothing: {error}") from None


def _free_or_to_be_had(scene: Scene) -> None:
    """A hold that did not reach the caller is not released: the holder's next acquire gets it."""
    token = scene.theirs.pop().fencing_token
    if scene.handles:
        _free(scene)
        return
    scene.counts["still to be resumed"] += 1
    lock = scene.other.acquire(scene.key, wait=0, **scene.options)
    scene.theirs.append(lock)
    assert lock.fencing_token == token, "the hold was released"


def _theirs(scene: Scene) -> None:
    (lock,) = scene.theirs
    assert scene.rows.owner(scene.key) == lock.owner
    assert lock.is_held
    assert scene.rows.waiters(scene.key) == [], "a place in the queue is kept for nobody"


_PERMIT = {"permits": 1}
_HOLDER = {"holder": operations.HOLDER}


def _swept(
    of: str, done: Callable[[Scene], None], ended: Callable[[Scene], None], *, name: str = "", **more: Any
) -> Operation:
    return Operation(name or of, operations.OPERATIONS[of], done, ended, **more)


OPERATIONS = {
    each.name: each
    for each in (
        _swept("acquire", _is_held, _free, takes=True),
        _swept("acquire", _is_held, _free, name="first acquire", warm=False, takes=True),
        _swept(
            "wait",
            operations.nothing,
            _theirs,
            settings=lambda: {"clock": LeapingClock(), "heartbeat_period": 0},
            error=LockTimeoutError,
        ),
        _swept("renew", _is_held, _free),
        _swept("release", _is_released, _free, ends=True),
        _swept("leave a block", _is_released, _free),
        _swept("commit", _is_committed, _free_and_told, ends=True),
        _swept("hand_over", _is_handed_over, _free_or_given, ends=True),
        _swept("adopt", _is_held, free_or_to_be_adopted),
        _swept("resume", _is_held, _free_or_to_be_resumed),
        _swept("close", _free_all, _free_all, before=_hold_renewed, settings=lambda: {"heartbeat_period": 0.02}),
        _swept("acquire a permit", _is_held, _free, options=_PERMIT, takes=True),
        _swept("renew a permit", _is_held, _free, options=_PERMIT),
        _swept("release a permit", _is_released, _free, options=_PERMIT, ends=True),
        _swept("acquire all", _is_held, _free_all, takes=True),
        _swept("release all", _is_released, _free_all, ends=True),
        _swept("leave the block of all", _is_released, _free_all),
        _swept("commit under all", _is_committed, _free_and_told, ends=True),
        _swept("hand over what was adopted", _is_handed_over, _free_or_given, ends=True),
        _swept("acquire as holder", _is_held, _free_or_to_be_had, options=_HOLDER),
    )
}
