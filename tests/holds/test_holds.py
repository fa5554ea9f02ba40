"""A hold outlives its handles: attempts die, are tried again in other processes, and go on with the same token."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import (
    PYTHON,
    AsyncLockClient,
    ClientClosedError,
    CommitRefusedError,
    Lock,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    TransportError,
    with_lock,
)
from lambda_lock.core.handover import write_handover
from lambda_lock.core.protocol import AcquireRequest, Hold
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.row import Row, make_version
from lambda_lock.core.schema import JAVA
from rig.engine import ROOT
from tests.support.context import Context

WORKER = Path(__file__).with_name("worker.py")
PUT = {"Put": {"TableName": "none", "Item": {"key": {"S": "x"}}}}


class Attempt:
    """An attempt in another process."""

    def __init__(self, act: str, argument: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), act, argument],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def began(self) -> tuple[str, int]:
        """Wait until it has the lock. Returns owner and token."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        owner, token, held = json.loads(line)
        assert held
        return owner, token

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> str:
        """Let it hand over. Returns the string."""
        return self.process.communicate("go on\n", timeout=60)[0].strip()


@pytest.fixture
def attempt() -> Iterator[Callable[[str, str], Attempt]]:
    begun: list[Attempt] = []

    def begin(act: str, argument: str) -> Attempt:
        begun.append(Attempt(act, argument))
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()


def parts(lock: Lock) -> dict[str, Any]:
    return {"key": lock.key, "owner": lock.owner, "fencing_token": lock.fencing_token}


# Processes that are killed


def test_a_killed_attempt_is_tried_again_in_another_process_with_the_same_string(client, rows, attempt):
    first = client.acquire("a")
    string = first.hand_over(lease_duration=300)
    killed = attempt("resume", string)
    owner, token = killed.began()
    killed.kill()
    assert rows.is_held("a")
    second = attempt("resume", string)
    again, same = second.began()
    assert token == same == first.fencing_token
    assert owner != again
    next_string = second.end()
    assert rows["a"]["ownerName"]["S"] == f"{first.owner}/"
    assert client.try_acquire("a") is None
    lock = client.resume(next_string)
    assert lock.fencing_token == first.fencing_token
    assert lock.release()


def test_an_acquire_step_that_is_killed_is_tried_again_by_its_holder(client, attempt):
    killed = attempt("acquire", "execution-7")
    owner, token = killed.began()
    killed.kill()
    with pytest.raises(LockNotGrantedError):
        client.acquire("a", wait=0, holder="execution-8")
    lock = client.acquire("a", wait=0, holder="execution-7")
    assert lock.fencing_token == token
    assert lock.owner.startswith(f"{owner}/")


def test_parts_do_for_the_string_in_another_process(client, attempt):
    lock = client.acquire("a")
    owner, token = attempt("parts", json.dumps(parts(lock))).began()
    assert owner.startswith(f"{lock.owner}/")
    assert token == lock.fencing_token
    with pytest.raises(LockLostError):
        lock.heartbeat()


# Resume


def test_the_string_is_good_until_the_release(client):
    string = client.acquire("a").hand_over()
    locks = [client.resume(string) for _ in range(3)]
    assert len({lock.owner for lock in locks}) == 3
    assert len({lock.fencing_token for lock in locks}) == 1
    locks[-1].release()
    with pytest.raises(LockLostError):
        client.resume(string)


def test_an_earlier_attempt_finds_out_by_whatever_it_sends(client, rows):
    string = client.acquire("a").hand_over()
    zombies = [client.resume(string) for _ in range(4)]
    newest = client.resume(string)
    with pytest.raises(LockLostError) as caught:
        zombies[0].heartbeat()
    assert caught.value.holder == newest.owner
    assert not zombies[1].release()
    with pytest.raises(LockLostError):
        zombies[2].hand_over()
    with pytest.raises((LockLostError, CommitRefusedError)):
        zombies[3].commit([{**PUT, "Put": {**PUT["Put"], "TableName": rows.table}}])
    assert rows.get("x") is None
    newest.heartbeat()
    assert newest.release()


def test_a_resumed_lock_is_handed_over_and_the_old_string_stays_good_as_well(client):
    old = client.acquire("a").hand_over()
    new = client.resume(old).hand_over(lease_duration=90)
    lock = client.resume(old)
    assert client.resume(new).fencing_token == lock.fencing_token


def test_a_resumed_lock_is_adopted_once(client):
    first = client.acquire("a")
    string = client.resume(first.hand_over()).hand_over()
    adopted = client.adopt(string)
    assert adopted.fencing_token == first.fencing_token + 1
    for act in (client.adopt, client.resume):
        with pytest.raises(LockLostError):
            act(string)
    assert not client.release(string)
    adopted.heartbeat()
    assert adopted.release()


def test_adopt_takes_parts(client):
    lock = client.acquire("a")
    adopted = client.adopt(**parts(lock), lease_duration=30)
    assert adopted.fencing_token == lock.fencing_token + 1
    assert adopted.lease_duration == 30
    assert not lock.release()
    assert adopted.release()


def test_the_lease_is_as_handed_over_or_as_asked_for_and_not_cut_to_the_invocation(client, rows):
    string = client.acquire("a").hand_over(lease_duration=100)
    lock = client.resume(string, context=Context(10))
    assert rows["a"]["leaseDuration"] == {"S": "100000"}
    assert 5 < lock.remaining <= 10
    assert client.resume(string, lease_duration=200).lease_duration == 200
    assert client.resume(**parts(lock)).lease_duration == 20


def test_a_resume_whose_reply_is_lost_is_granted(wire, wired):
    string = wired.acquire("a").hand_over()
    wire.clear()
    wire.drop_reply()
    lock = wired.resume(string)
    assert wire.requests[0].operation == wire.requests[1].operation == "UpdateItem"
    assert wire.requests[0].body == wire.requests[1].body
    lock.heartbeat()


def test_leaving_the_block_of_a_resumed_lock_releases_the_hold(client, rows):
    string = client.acquire("a").hand_over()
    with client.resume(string):
        pass
    assert not rows.is_held("a")


def test_leaving_the_block_after_handing_over_keeps_the_hold(client, rows):
    with client.resume(client.acquire("a").hand_over()) as lock:
        string = lock.hand_over()
    assert rows.is_held("a")
    assert client.release(string)


def test_a_resumed_lock_does_not_delete_its_row(client, rows):
    lock = client.resume(client.acquire("a").hand_over())
    with pytest.raises(LockArgumentError, match="delete"):
        lock.release(delete=True)
    assert rows.is_held("a")
    assert lock.release()


class Interrupting(logging.Handler):
    """Interrupts when the log tells of a grant: before the lock is returned."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "lock_event", "") == "granted":
            raise KeyboardInterrupt


def test_an_interrupt_before_the_lock_is_returned_releases_nothing(client, rows, caplog):
    string, handler = client.acquire("a").hand_over(), Interrupting()
    logger = logging.getLogger("lambda_lock")
    logger.addHandler(handler)
    try:
        with caplog.at_level("DEBUG", "lambda_lock"), pytest.raises(KeyboardInterrupt):
            client.resume(string)
    finally:
        logger.removeHandler(handler)
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


def test_a_second_release_does_no_harm_to_a_third_party(client):
    string = client.acquire("a").hand_over()
    assert client.release(string)
    third = client.acquire("a", wait=0)
    assert not client.release(string)
    third.heartbeat()
    third.release()
    assert not client.release(string)


def test_a_release_without_an_answer_says_that_it_may_be_called_again(wire, impatient):
    string = impatient.acquire("a").hand_over()
    outage = wire.drop_reply(times=float("inf"))
    with pytest.raises(TransportError) as caught:
        impatient.release(string)
    assert caught.value.ambiguous
    outage.times = 0
    assert impatient.release(string)


def test_a_release_by_string_is_told_in_the_log(client, caplog):
    lock = client.acquire("a")
    string = lock.hand_over()
    with caplog.at_level("DEBUG", "lambda_lock"):
        client.release(string)
    told = [record for record in caplog.records if getattr(record, "lock_event", "") == "released"]
    assert [(record.lock_key, record.lock_owner) for record in told] == [("a", lock.owner)]


# Acquire by holder


def test_a_free_lock_is_taken_in_one_request_and_an_earlier_attempt_s_in_two(wire, wired):
    wire.clear()
    first = wired.acquire("a", holder="execution/7")
    assert wire.operations == ["UpdateItem"]
    assert first.owner.startswith("execution/7#")
    wire.clear()
    second = wired.acquire("a", holder="execution/7")
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert second.fencing_token == first.fencing_token


def test_both_strings_of_an_acquire_step_that_ran_twice_are_good(client):
    strings = [client.acquire("a", holder="h").hand_over() for _ in range(2)]
    tokens = {client.resume(string).fencing_token for string in strings}
    assert len(tokens) == 1


def test_two_at_once_under_one_holder_both_go_on_until_the_first_one_hands_over(client):
    """Nothing here tells a retry from a second line of work. Each needs a holder's name of its own."""
    first, second = (client.acquire("a", holder="execution", wait=0) for _ in range(2))
    first.raise_if_lost()
    second.raise_if_lost()
    with pytest.raises(LockLostError):
        first.hand_over()
    with pytest.raises(LockNotGrantedError):
        client.acquire("a", holder="execution/1", wait=0)
    second.hand_over()


def test_a_holder_waits_for_another_without_the_queue(client, rows):
    held = client.acquire("a", lease_duration=1)
    held.hand_over(lease_duration=1)
    lock = client.acquire("a", holder="h", wait=30)
    assert lock.is_held
    assert "waiters" not in rows["a"]


def test_try_acquire_takes_a_holder(client):
    client.acquire("a")
    assert client.try_acquire("a", holder="h") is None
    assert client.try_acquire("b", holder="h") is not None


# Async


def test_the_async_client_does_the_same(table, rows):
    async def run() -> None:
        async with AsyncLockClient() as client:
            first = await client.acquire("a", holder="h")
            string = await first.hand_over()
            lock = await client.resume(string)
            assert lock.fencing_token == first.fencing_token
            again = await client.acquire("a", holder="h")
            with pytest.raises(LockLostError):
                await lock.heartbeat()
            adopted = await client.adopt(await again.hand_over())
            await adopted.release()
            assert not await client.release(string)
            with pytest.raises(TypeError, match="resume"):
                await client.resume(string, wait=3)  # type: ignore[call-arg]

    asyncio.run(run())
    assert not rows.is_held("a")


# Bad input: known before anything is sent


def handed_over(table: str, sort_key: str | None = None) -> str:
    """A string as it may come from a message: of key a, owner o#1, token 1, and a lease of 20 s."""
    place = Place(table, JAVA, "key", "a", sort_key and "s", sort_key)
    item = {
        "ownerName": {"S": "o#1"},
        "recordVersionNumber": {"S": make_version(10**12, "0" * 32)},
        "fencingToken": {"N": "1"},
    }
    return write_handover(Hold(AcquireRequest(place, "o#1", 20_000, Content()), Row(item, JAVA), 20_000, 0, 0.0))


STRING, ELSEWHERE, SORTED = handed_over("locks"), handed_over("other-table"), handed_over("locks", "s")

WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("resume", {}, LockFormatError, "hand_over"),
    ("release", {}, LockFormatError, "hand_over"),
    ("resume", {"string": 7}, LockFormatError, "int"),
    ("resume", {"string": "x"}, LockFormatError, "string='x'"),
    ("release", {"string": b"x"}, LockFormatError, "bytes"),
    ("resume", {"string": ""}, LockFormatError, "string=''"),
    ("release", {"string": STRING[:-1]}, LockFormatError, "cut or changed"),
    ("resume", {"string": STRING[1:]}, LockFormatError, "cut or changed"),
    ("adopt", {"token": STRING + " "}, LockFormatError, "cut or changed"),
    ("resume", {"string": STRING.replace("LH1", "LH2")}, LockFormatError, "cut or changed"),
    ("release", {"string": ELSEWHERE}, LockFormatError, "other-table"),
    ("resume", {"string": SORTED}, LockArgumentError, "sort_key"),
    ("resume", {"string": "x", "key": "a"}, LockArgumentError, "not both"),
    ("release", {"string": STRING, "sort_key": "s"}, LockArgumentError, "not both: leave sort_key="),
    ("adopt", {"token": STRING, "fencing_token": 0}, LockArgumentError, "not both: leave fencing_token="),
    ("resume", {"sort_key": "s"}, LockArgumentError, "key=, owner=, fencing_token="),
    ("release", {"key": "", "owner": "o#1", "fencing_token": 1}, LockArgumentError, "key is empty"),
    ("release", {"key": "k" * 2049, "owner": "o#1", "fencing_token": 1}, LockArgumentError, "2049 bytes"),
    ("resume", {"key": "a", "owner": "", "fencing_token": 1}, LockArgumentError, "owner is empty"),
    ("resume", {"key": "a", "owner": "\ud800#1", "fencing_token": 1}, LockArgumentError, "surrogate"),
    ("resume", {"key": "a", "owner": "o#1", "fencing_token": True}, TypeError, "fencing_token"),
    ("release", {"key": "a", "owner": "o#1", "fencing_token": 1.0}, TypeError, "fencing_token"),
    ("release", {"key": "a", "owner": "o#1", "fencing_token": 1, "sort_key": "s"}, LockArgumentError, "sort_key"),
    ("release", {"key": "a", "owner": "o#1", "fencing_token": 1, "lease_duration": "9"}, TypeError, "lease_duration"),
    ("release", {"string": STRING, "lease_duration": float("nan")}, LockArgumentError, "nan"),
    ("resume", {"string": STRING, "lease_duration": 1e9}, LockArgumentError, "lease_duration=1000000000.0"),
    ("adopt", {"token": STRING, "lease_duration": 0}, LockArgumentError, "lease_duration=0"),
    ("resume", {"string": STRING, "safe_time": 300}, LockArgumentError, "safe_time=300"),
    ("resume", {"string": STRING, "on_danger": print}, LockArgumentError, "safe_time"),
    ("resume", {"string": STRING, "on_lost": "no"}, TypeError, "on_lost"),
    ("resume", {"string": STRING, "context": 7}, TypeError, "context"),
    ("acquire", {"key": "a", "holder": "\ud800"}, LockArgumentError, "surrogate"),
    ("acquire", {"key": "a", "holder": "h", "permits": 0}, LockArgumentError, "permits=0"),
    ("resume", {"key": "a"}, LockArgumentError, "owner=, fencing_token="),
    ("release", {"key": "a", "owner": "o#1"}, LockArgumentError, "fencing_token="),
    ("adopt", {"owner": "o#1", "fencing_token": 1}, LockArgumentError, "key="),
    ("resume", {"key": "", "owner": "o#1", "fencing_token": 1}, LockArgumentError, "key is empty"),
    ("resume", {"key": "a", "owner": 7, "fencing_token": 1}, TypeError, "owner"),
    ("resume", {"key": "a", "owner": "o", "fencing_token": 1}, LockArgumentError, "prefix#nonce"),
    ("resume", {"key": "a", "owner": "o#1", "fencing_token": "1"}, TypeError, "fencing_token"),
    ("resume", {"key": "a", "owner": "o#1", "fencing_token": -1}, LockArgumentError, "fencing_token=-1"),
    ("resume", {"key": "a", "owner": "o#1", "fencing_token": 10**38}, LockArgumentError, "fencing_token=1000"),
    ("resume", {"key": "a", "owner": "o#1", "fencing_token": 1, "sort_key": "s"}, LockArgumentError, "sort_key"),
    ("resume", {"key": "a", "owner": "o#1", "fencing_token": 1, "lease_duration": 0.5}, LockArgumentError, "0.5"),
    ("release", {"key": "a", "owner": "o#1", "fencing_token": 1, "lease_duration": 0.5}, LockArgumentError, "0.5"),
    ("acquire", {"key": "a", "holder": ""}, LockArgumentError, "holder is empty"),
    ("acquire", {"key": "a", "holder": 7}, TypeError, "holder"),
    ("acquire", {"key": "a", "holder": "h" * 513}, LockArgumentError, "513 bytes"),
    ("acquire", {"key": "a", "holder": "h", "replace": True}, LockArgumentError, "replace=True"),
    ("acquire", {"key": "a", "holder": "h", "delete_on_release": True}, LockArgumentError, "delete_on_release=True"),
    ("acquire", {"key": "a", "holder": "h", "reentrant": True}, LockArgumentError, "reentrant=True"),
]


class Mute:
    """A transport over which nothing may be sent."""

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        pytest.fail(f"{operation} was sent")

    def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize(("method", "arguments", "kind", "says"), WRONG, ids=str)
def test_bad_input_is_refused_before_anything_is_sent(method, arguments, kind, says):
    with pytest.raises(kind, match=says):
        getattr(LockClient("locks", transport=Mute()), method)(**arguments)

    async def call() -> None:
        await getattr(AsyncLockClient("locks", transport=Mute()), method)(**arguments)

    with pytest.raises(kind, match=says):
        asyncio.run(call())


def test_a_string_in_which_any_character_changed_is_refused_before_anything_is_sent():
    client = LockClient("locks", transport=Mute())
    for method in (client.resume, client.release):
        for index in range(len(STRING)):
            with pytest.raises(LockFormatError):
                method(STRING[:index] + ("0" if STRING[index] != "0" else "1") + STRING[index + 1 :])
            with pytest.raises(LockFormatError):
                method(STRING[:index])


def test_a_table_with_a_sort_key_needs_it_in_the_parts():
    client = LockClient("locks", transport=Mute(), sort_key_name="s")
    named: dict[str, Any] = {"key": "a", "owner": "o#1", "fencing_token": 1}
    for method in (client.resume, client.release, client.adopt):
        with pytest.raises(LockArgumentError, match="sort_key"):
            method(**named)


@pytest.mark.parametrize("method", ["resume", "release", "adopt"])
def test_a_closed_client_sends_nothing(method):
    client = LockClient("locks", transport=Mute())
    client.close()
    with pytest.raises(ClientClosedError):
        getattr(client, method)(STRING)


def test_holder_is_for_a_single_lock_that_is_acquired():
    client: Any = LockClient("locks", transport=Mute())
    for act in (
        lambda: client.acquire_all(["a", "b"], holder="h"),
        lambda: client.try_acquire_all(["a", "b"], holder="h"),
        lambda: with_lock("a", holder="h"),  # type: ignore[call-overload]
    ):
        with pytest.raises(TypeError, match="holder"):
            act()


@pytest.mark.parametrize("method", ["resume", "release", "acquire"])
def test_rows_that_are_deleted_on_release_are_refused(method):
    client = LockClient("locks", schema=PYTHON, region_name="nowhere")
    named: dict[str, Any] = {"key": "a", "owner": "o#1", "fencing_token": 1}
    if method == "acquire":
        named = {"key": "a", "holder": "h"}
    with pytest.raises(LockConfigurationError, match="PYTHON"):
        getattr(client, method)(**named)


def test_the_invocation_s_last_second_is_too_late(client):
    string = client.acquire("a").hand_over()
    with pytest.raises(LockNotGrantedError) as caught:
        client.resume(string, context=Context(0.5))
    assert caught.value.too_late
    assert client.resume(string).is_held


def test_a_resumed_handle_ends_once(client):
    lock = client.resume(client.acquire("a").hand_over())
    lock.hand_over()
    for act in (lock.release, lock.hand_over, lock.heartbeat):
        with pytest.raises(LockAlreadyReleasedError):
            act()
