"""A hold outlives its handles: attempts die, are tried again in other processes, and go on with the same token."""

import asyncio
import json
import logging
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import (
    PYTHON,
    AsyncLockClient,
    ClientClosedError,
    CommitRefusedError,
    Lock,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
)
from lambda_lock.core.handover import write_handover
from lambda_lock.core.protocol import AcquireRequest, Hold
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.row import Row, make_version
from lambda_lock.core.schema import JAVA
from tests.support.context import Context

WORKER = Path(__file__).with_name("worker.py")


def began(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Wait until an attempt in another process has the lock. Returns owner and token."""
    assert process.stdout is not None
    owner, token, held = json.loads(process.stdout.readline())
    assert held
    return owner, token


def parts(lock: Lock) -> dict[str, Any]:
    return {"key": lock.key, "owner": lock.owner, "fencing_token": lock.fencing_token}


# Processes that are killed, or frozen


@pytest.mark.parametrize("permits", [None, 2], ids=["lock", "permit"])
def test_an_attempt_that_was_frozen_past_the_next_one_hands_nothing_over(permits, client, start):
    string = client.acquire("a", permits=permits).hand_over(lease_duration=300)
    frozen = start(WORKER, "resume", string)
    _, token = began(frozen)
    frozen.send_signal(signal.SIGSTOP)
    newest = client.resume(string)
    frozen.send_signal(signal.SIGCONT)
    assert frozen.communicate("go on\n", timeout=60) == (f"LockLostError {newest.owner}\n", None)
    assert newest.fencing_token == token
    assert newest.release()


def test_a_killed_attempt_is_tried_again_in_another_process_with_the_same_string(client, rows, start):
    first = client.acquire("a")
    string = first.hand_over(lease_duration=300)
    killed = start(WORKER, "resume", string)
    owner, token = began(killed)
    killed.kill()
    assert rows.is_held("a")
    second = start(WORKER, "resume", string)
    again, same = began(second)
    assert token == same == first.fencing_token
    assert owner != again
    next_string, _ = second.communicate("go on\n", timeout=60)
    assert rows["a"]["ownerName"]["S"] == f"{first.owner}/"
    assert client.try_acquire("a") is None
    lock = client.resume(next_string.strip())
    assert lock.fencing_token == first.fencing_token
    assert lock.release()


def test_an_acquire_step_that_is_killed_is_tried_again_by_its_holder(client, start):
    killed = start(WORKER, "acquire", "execution-7")
    owner, token = began(killed)
    killed.kill()
    for other in (lambda: client.acquire("a", wait=0, holder="execution-8"), lambda: client.acquire("a", wait=0)):
        with pytest.raises(LockNotGrantedError):
            other()
    lock = client.try_acquire("a", holder="execution-7")
    assert lock.fencing_token == token
    assert lock.owner.startswith(f"{owner}/")


def test_parts_do_for_the_string_in_another_process_and_are_adopted(client, start):
    lock = client.acquire("a")
    owner, token = began(start(WORKER, "parts", json.dumps(parts(lock))))
    assert owner.startswith(f"{lock.owner}/")
    assert token == lock.fencing_token
    with pytest.raises(LockLostError):
        lock.heartbeat()
    lock = client.acquire("b")
    adopted = client.adopt(**parts(lock), lease_duration=30)
    assert (adopted.fencing_token, adopted.lease_duration) == (lock.fencing_token + 1, 30)
    assert not lock.release()
    assert adopted.release()


# Resume


def test_an_earlier_attempt_finds_out_by_whatever_it_sends(client, rows):
    string = client.acquire("a").hand_over()
    zombies = [client.resume(string) for _ in range(4)]
    old = client.resume(string).hand_over(lease_duration=90)  # both strings stay good
    newest = client.resume(string)
    locks = [*zombies, newest]
    assert len({lock.owner for lock in locks}) == 5
    assert len({lock.fencing_token for lock in locks}) == 1
    with pytest.raises(LockLostError) as caught:
        zombies[0].heartbeat()
    assert caught.value.holder == newest.owner
    assert not zombies[1].release()
    with pytest.raises(LockLostError):
        zombies[2].hand_over()
    with pytest.raises((LockLostError, CommitRefusedError)):
        zombies[3].commit([{"Put": {"TableName": rows.table, "Item": {"key": {"S": "x"}}}}])
    assert rows.get("x") is None
    newest.heartbeat()
    assert client.resume(old).release()
    for each in (string, old):
        with pytest.raises(LockLostError):
            client.resume(each)


def test_the_lease_is_as_handed_over_or_as_asked_for_and_not_cut_to_the_invocation(client, rows):
    string = client.acquire("a").hand_over(lease_duration=100)
    lock = client.resume(string, context=Context(10))
    assert rows["a"]["leaseDuration"] == {"S": "100000"}
    assert 5 < lock.remaining <= 10
    assert client.resume(string, lease_duration=200).lease_duration == 200
    assert client.resume(**parts(lock)).lease_duration == 20


def test_leaving_the_block_of_a_resumed_lock_releases_the_hold_unless_it_was_handed_over(client, rows):
    with client.resume(client.acquire("a").hand_over()) as lock:
        string = lock.hand_over()
    assert rows.is_held("a")
    with client.resume(string):
        pass
    assert not rows.is_held("a")


def test_a_resumed_lock_does_not_delete_its_row(client, rows):
    lock = client.resume(client.acquire("a").hand_over())
    with pytest.raises(LockArgumentError, match="delete"):
        lock.release(delete=True)
    assert rows.is_held("a")
    assert lock.release()


def test_an_interrupt_before_the_lock_is_returned_releases_nothing(client, rows, caplog, monkeypatch):
    string = client.acquire("a").hand_over()

    def interrupt(record: logging.LogRecord) -> bool:
        if getattr(record, "lock_event", "") == "granted":
            raise KeyboardInterrupt
        return True

    caplog.set_level("DEBUG", "lambda_lock")
    with monkeypatch.context() as patched:
        patched.setattr(logging.getLogger("lambda_lock"), "filters", [interrupt])
        with pytest.raises(KeyboardInterrupt):
            client.resume(string)
    assert rows.is_held("a")
    assert client.held() == ()
    assert client.resume(string).is_held


# Release by string


def test_a_string_releases_any_number_of_times_whoever_has_the_hold(client, rows):
    string = client.acquire("a").hand_over()
    lock = client.resume(string)
    assert client.release(string)
    assert client.release(string)
    assert client.release(**parts(lock), lease_duration=5)
    assert not rows.is_held("a")
    with pytest.raises(LockLostError):
        lock.heartbeat()


def test_a_release_by_string_is_told_in_the_log(client, caplog):
    lock = client.acquire("a")
    string = lock.hand_over()
    with caplog.at_level("DEBUG", "lambda_lock"):
        client.release(string)
    told = [record for record in caplog.records if getattr(record, "lock_event", "") == "released"]
    assert [(record.lock_key, record.lock_owner) for record in told] == [("a", lock.owner)]


# Acquire by holder


def test_a_holder_waits_for_another_without_the_queue(client, rows):
    held = client.acquire("a", lease_duration=1)
    held.hand_over(lease_duration=1)
    lock = client.acquire("a", holder="h", wait=30)
    assert lock.is_held
    assert "waiters" not in rows["a"]


# Bad input: known before anything is sent


def handed_over(table: str, sort_key: str | None = None) -> str:
    """A string as it may come from a message: of key a, owner o#1, token 1, and a lease of 20 s."""
    place = Place(table, JAVA, "key", "a", sort_key and "s", sort_key)
    version = make_version(10**12, "0" * 32)
    item = {"ownerName": {"S": "o#1"}, "recordVersionNumber": {"S": version}, "fencingToken": {"N": "1"}}
    return write_handover(Hold(AcquireRequest(place, "o#1", 20_000, Content()), Row(item, JAVA), 20_000, 0, 0.0))


def named(**changes: Any) -> dict[str, Any]:
    return {"key": "a", "owner": "o#1", "fencing_token": 1, **changes}


STRING, ELSEWHERE, SORTED = handed_over("locks"), handed_over("other-table"), handed_over("locks", "s")

#: Each is refused before anything is sent. Of settings, if there are any, and else of a client of one key.
WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    *((method, {}, LockFormatError, "hand_over") for method in ("resume", "release")),
    ("resume", {"string": 7}, LockFormatError, "int"),
    ("release", {"string": b"x"}, LockFormatError, "bytes"),
    ("resume", {"string": ""}, LockFormatError, "string=''"),
    ("resume", {"string": STRING[1:]}, LockFormatError, "cut or changed"),
    ("adopt", {"token": STRING + " "}, LockFormatError, "cut or changed"),
    ("resume", {"string": STRING.replace("LH1", "LH2")}, LockFormatError, "cut or changed"),
    ("release", {"string": ELSEWHERE}, LockFormatError, "other-table"),
    ("resume", {"string": SORTED}, LockArgumentError, "sort_key"),
    ("resume", {"string": "x", "key": "a"}, LockArgumentError, "not both"),
    ("release", {"string": STRING, "sort_key": "s"}, LockArgumentError, "not both: leave sort_key="),
    ("adopt", {"token": STRING, "fencing_token": 0}, LockArgumentError, "not both: leave fencing_token="),
    ("resume", {"sort_key": "s"}, LockArgumentError, "key=, owner=, fencing_token="),
    ("release", {"key": "a", "owner": "o#1"}, LockArgumentError, "fencing_token="),
    ("adopt", {"owner": "o#1", "fencing_token": 1}, LockArgumentError, "key="),
    *((method, named(key=""), LockArgumentError, "key is empty") for method in ("resume", "release")),
    ("release", named(key="k" * 2049), LockArgumentError, "2049 bytes"),
    ("resume", named(owner=""), LockArgumentError, "owner is empty"),
    ("resume", named(owner="\ud800#1"), LockArgumentError, "surrogate"),
    ("resume", named(owner=7), TypeError, "owner"),
    ("resume", named(owner="o"), LockArgumentError, "prefix#nonce"),
    *(("resume", named(fencing_token=wrong), TypeError, "fencing_token") for wrong in (True, 1.0, "1")),
    ("resume", named(fencing_token=-1), LockArgumentError, "fencing_token=-1"),
    *((method, named(permits=0), LockArgumentError, "permits=0 is out") for method in ("resume", "adopt", "release")),
    ("resume", named(fencing_token=10**38), LockArgumentError, "fencing_token=1000"),
    *((method, named(sort_key="s"), LockArgumentError, "sort_key") for method in ("resume", "release")),
    *((method, named(lease_duration=0.5), LockArgumentError, "0.5") for method in ("resume", "release")),
    ("release", named(lease_duration="9"), TypeError, "lease_duration"),
    ("release", {"string": STRING, "lease_duration": float("nan")}, LockArgumentError, "nan"),
    ("resume", {"string": STRING, "lease_duration": 1e9}, LockArgumentError, "lease_duration=1000000000.0"),
    ("adopt", {"token": STRING, "lease_duration": 0}, LockArgumentError, "lease_duration=0"),
    ("resume", {"string": STRING, "safe_time": 300}, LockArgumentError, "safe_time=300"),
    ("resume", {"string": STRING, "on_danger": print}, LockArgumentError, "safe_time"),
    ("resume", {"string": STRING, "on_lost": "no"}, TypeError, "on_lost"),
    ("resume", {"string": STRING, "context": 7}, TypeError, "context"),
    ("resume", {"string": STRING, "wait": 3}, TypeError, "resume"),
    ("acquire", {"key": "a", "holder": "\ud800"}, LockArgumentError, "surrogate"),
    ("acquire", {"key": "a", "holder": "h" * 513}, LockArgumentError, "513 bytes"),
    *(
        ("acquire", {"key": "a", "holder": "h", option: True}, LockArgumentError, f"{option}=True")
        for option in ("replace", "delete_on_release", "reentrant")
    ),
]


class Mute:
    """A transport over which nothing may be sent."""

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        pytest.fail(f"{operation} was sent")


def refused(
    kind: type[Exception], says: str, method: str, arguments: dict[str, Any], *, closed: bool = False, **settings: Any
) -> None:
    """What is wrong is told alike by both clients, before anything is sent."""

    async def call() -> None:
        client = AsyncLockClient("locks", transport=Mute(), **settings)
        if closed:
            await client.close()
        await getattr(client, method)(**arguments)

    with pytest.raises(kind, match=says):
        asyncio.run(call())
    client = LockClient("locks", transport=Mute(), **settings)
    if closed:
        client.close()
    with pytest.raises(kind, match=says):
        getattr(client, method)(**arguments)


@pytest.mark.parametrize(("method", "arguments", "kind", "says"), WRONG, ids=str)
def test_bad_input_is_refused_before_anything_is_sent(method, arguments, kind, says):
    refused(kind, says, method, arguments)


@pytest.mark.parametrize("method", ["resume", "release", "adopt"])
def test_what_the_client_cannot_do_with_parts_is_refused_before_anything_is_sent(method):
    refused(ClientClosedError, "closed", method, named(), closed=True)
    refused(LockArgumentError, "sort_key", method, named(), sort_key_name="s")
    if method != "adopt":
        refused(LockConfigurationError, "PYTHON", method, named(), schema=PYTHON)
        refused(LockConfigurationError, "PYTHON", "acquire", {"key": "a", "holder": "h"}, schema=PYTHON)
