"""Interrupts, forks and frozen environments: whatever ends an attempt, the next one goes on with its hold."""

from collections.abc import Callable

import pytest

from lambda_lock import Lock, LockClient, LockLostError, OwnerMismatchError
from lambda_lock.client.taking import Taking
from lambda_lock.core.protocol import Hold
from lambda_lock.errors import ClientClosedError
from lambda_lock.runtime.signalsafe import OpenLocks
from tests.client.test_interrupts import held, memory
from tests.support.elsewhere import in_child
from tests.support.instants import at_every_instant

__all__ = ["memory"]

# Interrupts

ACTS: dict[str, Callable[[LockClient, str], Lock | str]] = {
    "resume": lambda client, string: client.resume(string),
    "hand_over": lambda client, string: client.resume(string).hand_over(),
    "acquire by holder": lambda client, string: client.acquire("a", holder="h"),
}


@pytest.mark.long
@pytest.mark.parametrize("act", ACTS)
def test_an_interrupted_attempt_leaves_the_hold_to_the_next_one_though_its_client_is_closed(act, memory):
    first = LockClient(heartbeat_period=0).acquire("a", holder="h")
    string, token = first.hand_over(), first.fencing_token
    client = LockClient(heartbeat_period=0)
    results: list[Lock | str] = []
    for instant in at_every_instant(lambda: results.append(ACTS[act](client, string))):  # noqa: B023
        for result in results:  # which no interrupt kept from being returned
            assert isinstance(result, str) or result.hand_over()
        results.clear()
        client.close()
        assert held(memory) == ["a"], instant
        client = LockClient(heartbeat_period=0)
        newest = client.resume(string)
        assert newest.fencing_token == token
        newest.hand_over()
    assert client.release(string)


@pytest.mark.long
@pytest.mark.parametrize("end", ["close", "block"])
def test_an_interrupted_handover_leaves_the_hold_to_the_next_attempt_though_its_handle_is_kept(end, memory):
    client = LockClient(heartbeat_period=0)
    string = client.acquire("a").hand_over()
    lock = client.resume(string)
    begun = 0
    for instant in at_every_instant(lambda: lock.hand_over()):  # noqa: B023
        if lock.__held__.hold.handed_over:  # before that it is held, and close releases what is held
            begun += 1
            if end == "block":
                lock.__exit__(None, None, None)
            else:
                client.close()
            assert held(memory) == ["a"], instant
            assert not lock.is_held
        client = LockClient(heartbeat_period=0)
        lock = client.resume(string)
    assert begun > 20
    assert client.release(string)


@pytest.mark.parametrize("by", ["string", "handle"])
def test_a_release_that_was_interrupted_is_repeated_or_done_by_close_also_for_an_attempt(by, memory):
    client = LockClient(heartbeat_period=0)
    string = client.acquire("a").hand_over()
    lock = client.resume(string) if by == "handle" else None
    for instant in at_every_instant(lambda: lock.release() if lock else client.release(string)):  # noqa: B023
        if lock is None:
            assert client.release(string)
        client.close()
        assert held(memory) == [], instant
        client = LockClient(heartbeat_period=0)
        string = client.acquire("a", wait=0).hand_over()
        lock = client.resume(string) if by == "handle" else None
    client.close()


# Dropped handles


@pytest.mark.parametrize(
    ("method", "told", "is_left"),
    [
        ("resume", "hand it over.*the next attempt goes on with it", True),
        ("adopt", "or when the client is clos", False),
    ],
)
def test_a_handle_that_is_dropped_is_told_and_left_to_the_next_attempt_unless_it_adopted(
    method, told, is_left, rows, table
):
    client = LockClient(heartbeat_period=0)
    string = client.resume(client.acquire("a").hand_over()).hand_over()
    with pytest.warns(ResourceWarning, match=told):
        getattr(client, method)(string)
    client.close()
    assert rows.is_held("a") is is_left
    with LockClient() as another:
        assert another.release(string) is is_left


@pytest.mark.parametrize("how", [{}, {"release": False}], ids=["releasing", "leaving"])
@pytest.mark.parametrize("when", ["before it is registered", "after", "while it is handed out"])
def test_a_client_that_is_closed_during_a_resume_leaves_the_hold_to_the_next_attempt(when, how, client, monkeypatch):
    string = client.acquire("a").hand_over()
    resuming, attach, lock = LockClient(), OpenLocks.attach, Taking.result

    def attached(self: OpenLocks, hold: Hold, handle: object) -> None:
        if when == "before it is registered":
            resuming.close(**how)
        attach(self, hold, handle)
        if when == "after":
            resuming.close(**how)

    def handed_out(self: Taking[Lock], done: object) -> Lock:
        resuming.close(**how)
        return lock(self, done)

    with monkeypatch.context() as patched:
        patched.setattr(OpenLocks, "attach", attached)
        if when == "while it is handed out":
            patched.setattr(Taking, "result", handed_out)
        with pytest.raises(ClientClosedError):
            resuming.resume(string)
    assert client.resume(string).is_held


# Forks


def test_a_child_cannot_use_its_parent_s_attempt_and_can_resume_the_string(client, rows):
    string = client.acquire("a").hand_over()
    lock = client.resume(string)

    def child() -> tuple[bool, str, int, str]:
        for act in (lock.heartbeat, lock.release, lock.hand_over):
            with pytest.raises(OwnerMismatchError):
                act()
        resumed = client.resume(string)
        return lock.is_held, resumed.owner, resumed.fencing_token, resumed.hand_over()

    children = [in_child(child)() for _ in range(2)]
    assert not any(was_held for was_held, *_ in children)
    assert {token for _, _, token, _ in children} == {lock.fencing_token}
    assert len({lock.owner, client.resume(string).owner, *(owner for _, owner, *_ in children)}) == 4
    with pytest.raises(LockLostError):
        lock.heartbeat()
    assert client.release(children[-1][3])
    assert not rows.is_held("a")
