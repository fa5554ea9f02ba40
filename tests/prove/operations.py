"""What can be done with a lock, and how: one catalogue for the proofs that disturb an operation.

An operation works on a scene, which has: client; other, another client; key, and keys of several locks; permits, how
many a semaphore has; patience, the seconds that an acquire waits; item, what a commit writes; and kept, what its
`before` returned. If the client is asynchronous, the result is to be awaited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HOLDER = "the same"


def nothing(scene: Any) -> None:
    """Nothing is needed before."""


def hold(scene: Any) -> Any:
    return scene.client.acquire(scene.key, wait=0)


def hold_permit(scene: Any) -> Any:
    return scene.client.acquire(scene.key, wait=0, permits=scene.permits)


def hold_all(scene: Any) -> Any:
    return scene.client.acquire_all(scene.keys, wait=0)


def string(scene: Any) -> Any:
    """The other client has handed the lock over."""
    return scene.other.acquire(scene.key, wait=0).hand_over()


def hold_adopted(scene: Any) -> Any:
    """An attempt of the other client has handed the lock over, and the client has adopted it."""
    return scene.client.adopt(scene.other.resume(string(scene)).hand_over())


def renew(scene: Any) -> Any:
    return scene.kept.heartbeat()


def release(scene: Any) -> Any:
    return scene.kept.release()


def leave(scene: Any) -> bool:
    with scene.kept:
        pass
    return True


def commit(scene: Any) -> Any:
    return scene.kept.commit([scene.item])


def hand_over(scene: Any) -> Any:
    return scene.kept.hand_over()


def adopt(scene: Any) -> Any:
    return scene.client.adopt(scene.kept)


def resume(scene: Any) -> Any:
    return scene.client.resume(scene.kept)


def get(scene: Any) -> Any:
    return scene.client.get(scene.key)


def close(scene: Any) -> Any:
    return scene.client.close()


@dataclass(frozen=True)
class Operation:
    """act: the operation. before: makes `scene.kept`. theirs: whether that is a lock of the other client."""

    act: Callable[[Any], Any]
    before: Callable[[Any], Any] = nothing
    theirs: bool = False


# Acts make no call with **: after one, Python runs signal handlers once more, when the caller has the handle already.
OPERATIONS: dict[str, Operation] = {
    "acquire": Operation(hold),
    "wait": Operation(
        lambda scene: scene.client.acquire(scene.key, wait=scene.patience),
        lambda scene: scene.other.acquire(scene.key, wait=0),
        theirs=True,
    ),
    "renew": Operation(lambda scene: scene.kept.heartbeat(data=b"new"), hold),
    "release": Operation(release, hold),
    "leave a block": Operation(leave, hold),
    "commit": Operation(commit, hold),
    "hand_over": Operation(hand_over, hold),
    "adopt": Operation(adopt, string),
    "resume": Operation(resume, string),
    "close": Operation(close, hold),
    "acquire a permit": Operation(hold_permit),
    "renew a permit": Operation(renew, hold_permit),
    "release a permit": Operation(release, hold_permit),
    "acquire all": Operation(hold_all),
    "renew all": Operation(renew, hold_all),
    "release all": Operation(release, hold_all),
    "leave the block of all": Operation(leave, hold_all),
    "commit under all": Operation(commit, hold_all),
    "hand over what was adopted": Operation(hand_over, hold_adopted),
    "acquire as holder": Operation(
        lambda scene: scene.client.acquire(scene.key, wait=0, holder=HOLDER),
        lambda scene: scene.other.acquire(scene.key, wait=0, holder=HOLDER),
        theirs=True,
    ),
}
