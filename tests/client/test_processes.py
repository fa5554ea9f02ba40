"""Processes: forked, killed, and many at once."""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import Lock, LockClient
from lambda_lock.core.protocol import Entropy
from lambda_lock.errors import LockAlreadyReleasedError, LockError, LockLostError, OwnerMismatchError
from tests.support.elsewhere import in_child
from tests.support.waiting import wait_until

from .conftest import versions
from .test_heartbeat import is_silent

pytestmark = pytest.mark.plain  # the workers, which are other processes, use a LockClient

WORKER = Path(__file__).with_name("worker.py")


def test_a_holder_killed_at_work_is_replaced(client, rows, start):
    process = start(WORKER, "a", 1.5)
    token = int(process.stdout.readline())
    first = rows.version("a")
    wait_until(lambda: rows.version("a") != first)  # it renews
    assert client.try_acquire("a") is None
    process.kill()
    process.wait()
    lock = client.acquire("a", wait=30)
    assert lock.fencing_token == token + 1
    assert lock.is_held


# Forked children


def child_view(client: LockClient, lock: Lock) -> dict[str, Any]:
    """What a child sees of its parent's lock, and what happens when it meddles with it."""
    errors = []
    for act in (
        lock.release,
        lock.heartbeat,
        lambda: lock.release(delete=True),
        lambda: lock.release(best_effort=True),
        lambda: lock.commit([{"Put": {"TableName": "orders", "Item": {}}}]),
        lock.__enter__,
        lambda: lock.__exit__(None, None, None),  # leaving a block that the parent had entered releases nothing either
        lock.raise_if_lost,
    ):
        try:
            act()
        except LockError as error:
            errors.append(type(error))
    taken = client.try_acquire(lock.key, reentrant=True)
    client_held = client.held()
    client.close()
    return {
        "held": (lock.is_held, lock.remaining, lock.lost),
        "errors": errors,
        "list": client_held,
        "contends": taken is None,
    }


def test_a_child_neither_holds_nor_releases_its_parents_lock(wire, wired, rows):
    lock = wired.acquire("a", reentrant=True)
    wire.clear()
    view = in_child(lambda: child_view(wired, lock))()
    assert view["held"] == (False, 0.0, True)
    assert view["errors"] == [OwnerMismatchError] * 6 + [LockLostError]
    assert view["list"] == ()
    assert view["contends"]
    assert wire.count() == 1  # that of try_acquire
    assert lock.is_held
    assert rows.is_held("a")
    assert lock.release() is True


def test_a_child_renews_none_of_its_parents_locks(wire, make):
    client = make(heartbeat_period=0.2)
    lock = client.acquire("a")
    wait_until(lambda: wire.count() >= 3)
    reader, writer = os.pipe()
    result = in_child(lambda: os.read(reader, 1))
    client.close(release=False)  # from here on only the child could renew
    wait_until(lambda: is_silent(wire, 1.2))  # six times the period; one may have been on its way
    assert not lock.is_held
    os.write(writer, b"x")
    assert result() == b"x"
    os.close(reader)
    os.close(writer)


def take_and_keep(client: LockClient, key: str) -> tuple[bool, list[str]]:
    with client.acquire(key, lease_duration=2.5) as lock:
        first = lock.version
        wait_until(lambda: lock.version > first and lock.remaining > 2)
        time.sleep(2.5)
        kept = lock.is_held
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("lambda_lock")]
    return kept, names


def test_a_child_takes_and_renews_locks_of_its_own(client, rows):
    parents = client.acquire("a", lease_duration=2.5)
    kept, names = in_child(lambda: take_and_keep(client, "b"))()
    assert kept
    assert names == ["lambda_lock-heartbeat", "lambda_lock-renewal"]
    assert not rows.is_held("b")
    assert parents.is_held
    assert parents.release() is True


def test_forked_workers_share_neither_owner_nor_nonce(wire, wired):
    wired.acquire("before").release()  # all there is to copy is there
    wire.clear()

    def work(number: int) -> list[str]:
        owners = []
        for turn in range(3):
            with wired.acquire(f"{number}-{turn}") as lock:
                owners.append(lock.owner)
        return owners

    results = [in_child(partial(work, number)) for number in range(4)]
    owners = [owner for result in results for owner in result()]
    assert len(owners) == 12
    assert len({owner.rpartition("#")[2] for owner in owners}) == 12
    nonces = [version.rpartition(":")[2] for version in versions(wire)]
    assert len(nonces) == 12
    assert len(set(nonces)) == 12


def test_the_parents_connections_survive_its_children(wire, wired):
    lock = wired.acquire("a")
    connections = wire.connections
    in_child(lambda: wired.get("a") is not None)()
    assert wire.connections == connections + 1
    assert lock.release() is True
    assert wire.connections == connections + 1
    with pytest.raises(LockAlreadyReleasedError):
        lock.release()


def taken_by_the_parent_alone(client: LockClient, take: Callable[[], Lock], forked: list[int]) -> Lock:
    """Take a lock while something forks, and both processes go on. The child must be refused.

    forked: what os.fork() returned is put in there meanwhile.
    """
    refused = False
    try:
        lock = take()
    except OwnerMismatchError:
        refused = True
        client.close()  # releases nothing: it is not this process's lock
        raise
    finally:
        if forked == [0]:
            os._exit(7 if refused else 1)
    _, status = os.waitpid(forked[0], 0)
    assert os.waitstatus_to_exitcode(status) == 7
    return lock


def test_a_child_forked_in_the_middle_of_an_acquire_does_not_get_its_parents_lock(client, make, rows):
    """As a signal handler may fork, and return in both processes."""
    inner, forked = client.transport, list[int]()

    class Forking:
        def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
            reply = inner.send(operation, request, timeout=timeout)
            if not forked:
                forked.append(os.fork())
            return reply

    forking = make(transport=Forking())
    lock = taken_by_the_parent_alone(forking, lambda: forking.acquire("a"), forked)
    assert lock.is_held
    assert rows.is_held("a")
    assert lock.release() is True


@pytest.mark.parametrize("draw", [1, 2])
@pytest.mark.parametrize(
    "take",
    [
        lambda client, key, string: client.acquire(key),
        lambda client, key, string: client.acquire(key, permits=2),
        lambda client, key, string: client.acquire(key, holder="the work"),
        lambda client, key, string: client.acquire_all([key]),
        lambda client, key, string: client.resume(string),
    ],
    ids=["acquire", "permits", "holder", "acquire_all", "resume"],
)
def test_a_child_forked_once_an_owner_or_version_was_drawn_never_holds_a_lock_under_it(draw, take, client, make):
    key = f"drawn {draw}"
    string = client.acquire("handed over").hand_over()
    forking = make()
    session = forking.__session__
    entropy, drawn, forked = session.entropy, list[str](), list[int]()

    def nonce() -> str:
        drawn.append(entropy.nonce())
        if len(drawn) == draw:
            forked.append(os.fork())
        return drawn[-1]

    session.entropy = Entropy(nonce, entropy.jitter)
    lock = taken_by_the_parent_alone(forking, lambda: take(forking, key, string), forked)
    lock.heartbeat()
    assert lock.is_held
    assert lock.release() is True
