"""Calls that cannot mean what they say: each is told with its remedy, before anything is sent.

test_mistakes.py has the mistakes that were found when programs were written from the documentation.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import logging
import multiprocessing
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import boto3
import pytest

import lambda_lock.table
import lambda_lock.testing
import lambda_lock.web
from lambda_lock import (
    AsyncLock,
    AsyncLockClient,
    ClientClosedError,
    Lock,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockFormatError,
    LockLostError,
    MultiLock,
    OwnerMismatchError,
    SessionMonitorNotSetError,
    current_lock,
    with_lock,
)
from lambda_lock.testing.memory import Memory
from tests.support.elsewhere import in_child

from .conftest import Told

untyped: Any = lambda_lock
make: Any = LockClient
MINUTE = datetime.timedelta(minutes=1)
RESOURCE: Any = boto3.resource("dynamodb", region_name="eu-west-1")
S3: Any = boto3.client("s3", region_name="eu-west-1")
DYNAMODB: Any = boto3.client("dynamodb", region_name="eu-west-1")
PUT: dict[str, Any] = {"TableName": "orders", "Item": {"key": {"S": "7"}}}


class Mistake(NamedTuple):
    name: str
    act: Callable[..., Any]
    kind: type[Exception] | tuple[type[Exception], ...]
    words: tuple[str, ...]


def plural(mistakes: list[tuple[Any, ...]]) -> list[Any]:
    return [pytest.param(Mistake(name, act, kind, tuple(words)), id=name) for name, act, kind, *words in mistakes]


@pytest.fixture
def sent(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that were sent since the test looked last."""
    operations: list[str] = []
    send = Memory.send

    def counted(self: Memory, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        operations.append(operation)
        return send(self, operation, request, timeout=timeout)

    monkeypatch.setattr(Memory, "send", counted)
    return operations


# -- acquire ----------------------------------------------------------------------------------------------------------

ACQUIRES = plural(
    [
        ("a wait as a timedelta", lambda c: c.acquire("a", wait=MINUTE), TypeError, "wait must be a number of seconds"),
        ("a wait as text", lambda c: c.acquire("a", wait="5"), TypeError, "wait must be a number of seconds, not '5'"),
        ("a wait that is true", lambda c: c.acquire("a", wait=True), TypeError, "number of seconds, not True"),
        (
            "-1 for no end",
            lambda c: c.acquire("a", wait=-1),
            LockArgumentError,
            "wait=-1",
            "pass 0 to 31536000 seconds",
        ),
        ("a lease of no time", lambda c: c.acquire("a", lease_duration=0), LockArgumentError, "pass 1 to"),
        ("a key that is a number", lambda c: c.acquire(42), TypeError, "key must be a str, not 42 (int)"),
        ("a key that is None", lambda c: c.acquire(None), TypeError, "key must be a str, not None"),
        ("a key that is empty", lambda c: c.acquire(""), LockArgumentError, "key is empty. Give each lock a name"),
        ("a key that is long", lambda c: c.acquire("k" * 3000), LockArgumentError, "3000 bytes", "use a hash of it"),
        ("a list of keys", lambda c: c.acquire(["a", "b"]), TypeError, "['a', 'b']", "acquire_all takes a list"),
        ("one key for several", lambda c: c.acquire_all("ab"), TypeError, "write ['ab'], or use acquire"),
        ("no key of several", lambda c: c.acquire_all([]), LockArgumentError, "keys is empty: name at least one"),
        ("too many keys", lambda c: c.acquire_all(map(str, range(51))), LockArgumentError, "take at most 50 locks"),
        ("no permits", lambda c: c.acquire("a", permits=0), LockArgumentError, "permits=0", "pass 1 to 100, or None"),
        (
            "very many permits",
            lambda c: c.acquire("a", permits=500),
            LockArgumentError,
            "divide the work among several",
        ),
        ("permits as text", lambda c: c.acquire("a", permits="5"), TypeError, "permits must be an int, not '5'"),
        (
            "a permit whose row is to go",
            lambda c: c.acquire("a", permits=2, delete_on_release=True),
            LockArgumentError,
            "delete_on_release=True is not possible with permits=2",
            "Leave delete_on_release out",
        ),
        ("a holder without a name", lambda c: c.acquire("a", holder=""), LockArgumentError, "holder is empty: pass a"),
        ("a holder that is a number", lambda c: c.acquire("a", holder=5), TypeError, "holder must be a str, not 5"),
        ("data as text", lambda c: c.acquire("a", data="x"), TypeError, "data must be bytes, not str: encode it first"),
        (
            "an attribute that is a date",
            lambda c: c.acquire("a", attributes={"when": datetime.date(2026, 1, 1)}),
            TypeError,
            "attribute 'when' is a date",
            "use str, numbers",
        ),
        ("the event as the context", lambda c: c.acquire("a", context={}), TypeError, "Pass the handler's second"),
        (
            "a danger that never comes",
            lambda c: c.acquire("a", on_danger=print),
            LockArgumentError,
            "on_danger would never be called",
            "pass safe_time= as well",
        ),
        (
            "a callback that takes nothing",
            lambda c: c.acquire("a", on_lost=lambda: None),
            TypeError,
            "on_lost must be a function that takes the Lock",
        ),
        (
            "a check that takes something",
            lambda c: c.acquire("a", cancel_check=lambda lock: False),
            TypeError,
            "cancel_check must be a function that takes nothing",
        ),
        ("a string that is no string of a hold", lambda c: c.resume("x"), LockFormatError, "string='x'", "unchanged"),
        (
            "a token that is no token",
            lambda c: c.adopt("x"),
            LockFormatError,
            "token='x'",
            "Pass the string on unchang",
        ),
        ("a token that is a number", lambda c: c.adopt(7), LockFormatError, "takes the str that hand_over() returned"),
        ("half a hold", lambda c: c.resume(key="a"), LockArgumentError, "was not given owner=, fencing_token="),
        ("a release by key", lambda c: c.release("a"), LockFormatError, "string='a'", "by its own lock.release()"),
    ]
)


@pytest.mark.parametrize("mistake", ACQUIRES)
def test_what_cannot_be_acquired_is_told_before_anything_is_sent(
    mistake: Mistake, client: LockClient, sent: list[str], told: Told
) -> None:
    told(mistake.kind, lambda: mistake.act(client), *mistake.words)
    assert sent == []
    assert client.held() == ()


@pytest.mark.parametrize("mistake", ACQUIRES)
def test_an_async_client_tells_the_same(mistake: Mistake, memory: Memory, sent: list[str], told: Told) -> None:
    async def main() -> None:
        async with AsyncLockClient() as tasks:
            await mistake.act(tasks)

    told(mistake.kind, lambda: asyncio.run(main()), *mistake.words)
    assert sent == []


CLIENTS = plural(
    [
        ("a lease of None", lambda: make(lease_duration=None), TypeError, "lease_duration must be a number"),
        ("a Table for its name", lambda: make(RESOURCE.Table("x")), TypeError, "table must be a str"),
        ("a name with blanks", lambda: make(" locks "), LockArgumentError, "table=' locks '", "3 to 255 letters"),
        (
            "the ARN of a function",
            lambda: make("arn:aws:lambda:eu-west-1:123456789012:function:x"),
            LockArgumentError,
            "is not a valid table name",
        ),
        (
            "a resource",
            lambda: make("locks", boto3_client=RESOURCE).prewarm(),
            TypeError,
            "boto3.client('dynamodb'",
        ),
        ("a client of S3", lambda: make("locks", boto3_client=S3).prewarm(), TypeError, "a client for s3: pass"),
        ("a client for a session", lambda: make("locks", boto3_session=S3).prewarm(), TypeError, "boto3.Session"),
        (
            "a Region beside a client",
            lambda: make("locks", region_name="eu-west-1", boto3_client=DYNAMODB).prewarm(),
            LockArgumentError,
            "region_name='eu-west-1'",
            "make that client with it",
        ),
        (
            "an Availability Zone",
            lambda: make("locks", region_name="eu-west-1a").prewarm(),
            LockConfigurationError,
            "'eu-west-1a' is not the name of a Region",
            "correct region_name, AWS_REGION",
        ),
        (
            "an endpoint without a scheme",
            lambda: make("locks", region_name="eu-west-1", endpoint_url="localhost:8000").prewarm(),
            LockConfigurationError,
            "'localhost:8000'",
            "must be http(s)://host",
        ),
        (
            "a heartbeat as long as the lease",
            lambda: make(lease_duration=10, heartbeat_period=10),
            LockArgumentError,
            "heartbeat_period=10",
            "Pass at most 5, 0 for no heartbeat, or None",
        ),
        (
            "a pause of no time",
            lambda: make(refresh_period=0),
            LockArgumentError,
            "refresh_period=0",
            "pass 0.01",
        ),
        ("a schema by name", lambda: make(schema="GO"), TypeError, "must be lambda_lock's JAVA, GO or PYTHON"),
        ("a ttl of half a second", lambda: make(ttl=0.5), TypeError, "ttl must be an int, not 0.5"),
        ("a logger by name", lambda: make(logger="x"), TypeError, "logger must have", "logging.getLogger(name)"),
        ("a time for a clock", lambda: make(clock=5), TypeError, "clock must have monotonic()", "ManualClock"),
        (
            "a transport by name",
            lambda: make(transport="https"),
            TypeError,
            "Pass a boto3 client as boto3_client=",
        ),
        ("one hook", lambda: make(hooks=print).prewarm(), TypeError, "hooks must be a tuple or list"),
        (
            "a function for a hook",
            lambda: make(hooks=[print]).prewarm(),
            TypeError,
            "any of the methods on_granted",
        ),
        (
            "tables in a list",
            lambda: untyped.testing.in_memory(tables=["orders"]),
            TypeError,
            'a dict, as in {"orders": "order_id"}',
        ),
        (
            "time that goes back",
            lambda: untyped.testing.ManualClock().advance(-1),
            LockArgumentError,
            "step_wall()",
        ),
        (
            "a default by its name",
            lambda: untyped.set_default_client("locks"),
            TypeError,
            "must be a LockClient or an Async",
        ),
        (
            "the event registered",
            lambda: untyped.register_lambda_context({}),
            TypeError,
            "Pass the handler's second argument",
        ),
        (
            "a signal for a table",
            lambda: untyped.release_on_sigterm("locks"),
            TypeError,
            "takes lock clients, not 'locks'",
        ),
        (
            "no application",
            lambda: untyped.web.LambdaContextMiddleware("app"),
            TypeError,
            "app must be the application to call",
        ),
        (
            "half a capacity",
            lambda: untyped.table.create_table("locks", read_capacity=5),
            LockArgumentError,
            "pass both, or neither",
        ),
    ]
)


@pytest.mark.parametrize("mistake", CLIENTS)
def test_what_cannot_be_set_up_is_told_before_anything_is_sent(
    mistake: Mistake, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    told(mistake.kind, mistake.act, *mistake.words)


# -- a lock that is held ----------------------------------------------------------------------------------------------

HELD = plural(
    [
        (
            "a release of the lock by the client",
            lambda c, h: c.release(h),
            LockFormatError,
            "not Lock",
            "lock.release()",
        ),
        ("an adoption of the lock itself", lambda c, h: c.adopt(h), LockFormatError, "takes the str that hand_over()"),
        (
            "time left without a safe time",
            lambda c, h: h.is_almost_expired,
            SessionMonitorNotSetError,
            "pass safe_time=",
        ),
        ("a time as text", lambda c, h: h.ensure("5"), TypeError, "seconds must be a number of seconds, not '5'"),
        ("a commit of nothing", lambda c, h: h.commit([]), LockArgumentError, "1 to 99 items, not 0"),
        (
            "a commit of 100",
            lambda c, h: h.commit([{"Put": PUT}] * 100),
            LockArgumentError,
            "99 items, not 100",
            "needs",
        ),
        ("a write without its list", lambda c, h: h.commit({"Put": PUT}), TypeError, "commit takes a list of items"),
        ("a write without its kind", lambda c, h: h.commit([PUT]), LockArgumentError, "must be {'Put' | 'Update'"),
        ("a kind in small letters", lambda c, h: h.commit([{"put": PUT}]), LockArgumentError, "but it has 'put'"),
        (
            "a write without a table",
            lambda c, h: h.commit([{"Put": {"Item": PUT["Item"]}}]),
            LockArgumentError,
            "item 0 of the commit names no table: give it its TableName",
        ),
        (
            "a heartbeat that does two things",
            lambda c, h: h.heartbeat(data=b"x", delete_data=True),
            LockArgumentError,
            "takes data= or delete_data=True, not both",
        ),
    ]
)


@pytest.mark.parametrize("mistake", HELD)
def test_what_cannot_be_done_with_a_lock_is_told_and_it_stays_held(
    mistake: Mistake, client: LockClient, sent: list[str], told: Told
) -> None:
    lock = client.acquire("a")
    sent.clear()
    told(mistake.kind, lambda: mistake.act(client, lock), *mistake.words)
    assert sent == []
    assert lock.is_held


def test_a_commit_of_the_lock_s_own_row_is_told(client: LockClient, told: Told) -> None:
    lock = client.acquire("a")
    own = {"Delete": {"TableName": os.environ["LAMBDA_LOCK_TABLE"], "Key": {"key": {"S": "a"}}}}
    words = ("writes a row twice, or the row of lock 'a', which it releases", "leave that row to the lock")
    told(LockArgumentError, lambda: lock.commit([own]), *words)


def entered(lock: Any) -> None:
    with lock:
        pytest.fail("runs without the lock")


ENDED = plural(
    [
        ("released again", lambda lock: lock.release(), LockAlreadyReleasedError, "a handle is released once"),
        ("renewed", lambda lock: lock.heartbeat(), LockAlreadyReleasedError, "acquire it again"),
        ("extended", lambda lock: lock.ensure(5), (LockAlreadyReleasedError, LockLostError), "'a'"),
        ("committed", lambda lock: lock.commit([{"Put": PUT}]), LockAlreadyReleasedError, "'a'"),
        ("handed over", lambda lock: lock.hand_over(), LockAlreadyReleasedError, "'a'"),
        ("entered", entered, LockAlreadyReleasedError, "acquire it again"),
    ]
)


@pytest.mark.parametrize("mistake", ENDED)
@pytest.mark.parametrize("ending", ["release", "hand_over", "with"])
def test_a_lock_that_has_ended_is_not_used_again(
    mistake: Mistake, ending: str, client: LockClient, sent: list[str], told: Told
) -> None:
    lock = client.acquire("a")
    if ending == "with":
        with lock:
            pass
    else:
        getattr(lock, ending)()
    sent.clear()
    told(mistake.kind, lambda: mistake.act(lock), *mistake.words)
    assert sent == []


def test_several_locks_that_have_ended_are_not_entered_again(client: LockClient, told: Told) -> None:
    locks = client.acquire_all(["a", "b"])
    locks.release()
    told(LockAlreadyReleasedError, lambda: entered(locks), "were released or committed: acquire them again")


def test_async_locks_that_have_ended_are_not_entered_again(memory: Memory, told: Told) -> None:
    async def again(taking: Any) -> None:
        lock = await taking
        await lock.release()
        async with lock:
            pytest.fail("runs without the lock")

    async def one() -> None:
        async with AsyncLockClient() as tasks:
            await again(tasks.acquire("a"))

    async def several() -> None:
        async with AsyncLockClient() as tasks:
            await again(tasks.acquire_all(["a", "b"]))

    for main in (one, several):
        told(LockAlreadyReleasedError, lambda main=main: asyncio.run(main()), "again")


def test_a_token_is_adopted_once(client: LockClient, told: Told) -> None:
    token = client.acquire("a").hand_over()
    with client.adopt(token):
        told(LockLostError, lambda: client.adopt(token), "lock 'a' is no longer ours", "Acquire it again")


def test_a_client_that_was_closed_acquires_nothing(client: LockClient, told: Told) -> None:
    client.close()
    told(ClientClosedError, lambda: client.acquire("a"), "this LockClient was closed: create a new one")


def test_a_forked_child_is_told_whose_lock_it_is(client: LockClient) -> None:
    lock = client.acquire("a")

    def said() -> list[str]:
        found = []
        for act in (lock.release, lock.heartbeat, lock.hand_over, lambda: entered(lock)):
            try:
                act()
            except OwnerMismatchError as error:
                found.append(str(error))
        return found

    found = in_child(said)()
    assert len(found) == 4
    for each in found:
        assert f"lock 'a' was acquired by process {os.getpid()}" in each
        assert "Acquire it here, or leave it to the parent" in each


def test_a_lock_does_not_travel_to_another_process(client: LockClient, told: Told) -> None:
    with client.acquire("a") as lock:
        told(
            TypeError,
            lambda: multiprocessing.reduction.ForkingPickler.dumps(lock),
            "stays in its process",
            "hand_over()",
        )
        assert lock.is_held


def test_a_lock_of_another_kind_than_asked_for_is_told(client: LockClient, told: Told) -> None:
    for kind in (AsyncLock, MultiLock):
        act = with_lock("a")(lambda kind=kind: current_lock(kind))
        told(TypeError, act, f"the innermost lock is of type {Lock.__name__}, not {kind.__name__}")


def test_a_lease_that_was_meant_in_milliseconds_is_said_once(
    client: LockClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lambda_lock.client.checks._warned", False)
    with caplog.at_level(logging.WARNING, logger="lambda_lock"):
        client.acquire("a", lease_duration=20_000).release()
    assert "If you meant milliseconds, pass 20" in caplog.text


# -- one key, two kinds -----------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[LockClient], Any]] = {
    "lock": lambda client: client.acquire("a", wait=0),
    "semaphore": lambda client: client.acquire("a", wait=0, permits=2),
    "rate limit": lambda client: client.rate_limit("a", 5, wait=0),
}


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(KINDS, 2)])
def test_a_key_of_one_kind_is_not_another_kind(first: str, second: str, client: LockClient, told: Told) -> None:
    held = KINDS[first](client)
    told(LockFormatError, lambda: KINDS[second](client), f"a {first}, not a {second}", "another key")
    assert held is not None
