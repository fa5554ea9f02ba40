"""The waker's function, and what clients say of sleepers, on a table in memory."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambda_lock import (
    GO,
    JAVA,
    PYTHON,
    KeyTemplateError,
    Lock,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    deduplicate,
    rate_limit,
    with_lock,
)
from lambda_lock.client.sleep import has_waker, lie_down
from lambda_lock.core.outcome import ConditionFailed
from lambda_lock.core.sleepers import MOST_SLEEPERS, Sleeper
from lambda_lock.core.sleepers import lie_down as lie_down_steps
from lambda_lock.observe.observer import package
from lambda_lock.waker.function import Calls, WakerFunction, performed
from lambda_lock.waker.look import ClosedError, Look
from tests.core.driver import OnTable, place

from .support import Noted, Scene, lain_down, message, record

# -- the way of a sleeper


@pytest.fixture
def held(scene: Scene) -> Lock:
    """The lock, which somebody holds."""
    return scene.client.acquire("k", wait=0)


def test_sleepers_are_called_in_the_order_in_which_they_lay_down_and_go_on_with_what_was_claimed(scene, held):
    scene.lies_down(*"abc")
    assert scene.waker.handle(lain_down(), None) == {"batchItemFailures": []}
    assert scene.calls.called == []
    held.release()
    for number, name in enumerate("abc", start=1):
        scene.look()
        assert scene.calls.called == ["token-a", "token-b", "token-c"][:number]
        with pytest.raises(LockNotGrantedError, match=f"is held by {name}#"):
            scene.client.acquire("k", holder="d", wait=0)
        scene.client.acquire("k", holder=name, wait=0).release()
    scene.look()
    assert not {"sleepers", "wakeAt"} & scene.row().keys()
    assert scene.row()["waiters"]["L"] == []


def test_a_sleeper_of_a_semaphore_is_given_a_permit(scene):
    permits = [scene.client.acquire("k", permits=2, wait=0) for _ in range(2)]
    scene.lies_down(*"abc", permits=2)
    scene.look()
    for permit in permits:
        permit.release()
    scene.waker.handle(record("k", ownerName={"S": "semaphore"}, sleepers={"N": "3"}), None)
    assert scene.calls.called == ["token-a", "token-b"]
    lock = scene.client.acquire("k", permits=2, holder="b", wait=0)
    with pytest.raises(LockNotGrantedError):
        scene.client.acquire("k", permits=2, holder="d", wait=0)
    assert lock.release()


def test_a_dead_holder_is_taken_over_at_its_expiry_which_the_look_before_asked_a_message_for(scene):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    scene.look()
    ((key, seconds),) = scene.calls.messages
    assert key == "k"
    before = scene.row()
    for _ in range(3):  # finds everything as it was left, writes nothing and asks for nothing
        scene.look()
    assert (scene.row(), len(scene.calls.messages)) == (before, 1)
    scene.memory.clock.advance(seconds)
    scene.look()
    assert scene.calls.called == ["token-a"]


@pytest.mark.parametrize(
    "row", [{}, {"isReleased": {"S": "1"}, "recordVersionNumber": {"S": "x"}}], ids=["none", "free"]
)
def test_a_look_whose_claim_is_answered_too_late_looks_again_if_the_lock_can_be_taken(row):
    driver, calls, late = OnTable(), Noted(), [6.0, 0.0]
    sleeper = Sleeper("a", "task", "token-a")
    driver.run(lie_down_steps(place(), sleeper, driver.talk()))

    def answer(operation: str, request: dict[str, Any]) -> Any:
        if "if_not_exists(#token" in request.get("UpdateExpression", "") and late[0]:
            driver.now += late.pop(0)
            raise ConditionFailed({"key": {"S": "k"}, **row} if row else None, 0)
        return driver.apply(operation, request)

    driver.answer = answer
    driver.run(performed(Look(place(), driver.talk()).run(), calls, place(), package))
    assert calls.called == ["token-a"]


def test_no_message_is_delayed_by_more_than_the_queue_takes(scene):
    scene.memory.hold("k", lease_duration=7200)
    scene.lies_down("a")
    scene.look()
    ((_, seconds),) = scene.calls.messages
    assert 800 < seconds <= 900


def test_who_gets_up_is_not_called(scene, held):
    scene.lies_down("a")
    scene.look()
    assert scene.gets_up("a") is True
    assert scene.gets_up("a") is False
    held.release()
    scene.look()
    assert scene.calls.called == []
    assert "sleepers" not in scene.row()


def test_a_waiter_that_is_awake_and_was_first_comes_first(scene):
    scene.memory.hold("k", lease_duration=5)
    scene.memory.clock.advance(10)
    scene.update("SET waiters = :v", {"L": [scene.ticket()]})
    scene.lies_down("a")
    scene.look()
    assert scene.calls.called == []
    assert scene.line() == ["abcdefgh", "~sleeper"]
    scene.memory.clock.advance(scene.calls.messages[0][1])
    scene.look()
    assert scene.calls.called == ["token-a"]


def test_one_who_lies_down_while_the_marks_are_removed_is_marked_again(scene, held):
    """Its own look found the marks of the ones before, and wrote nothing."""
    scene.lies_down("a")
    scene.look()
    scene.gets_up("a")
    send, state = scene.memory.send, {"read": 0}

    def between(operation: str, request: Any, *, timeout: float) -> Any:
        reply = send(operation, request, timeout=timeout)
        if operation == "GetItem" and request["Key"]["key"]["S"] == "k~sleepers" and not state["read"]:
            state["read"] = 1
            scene.lies_down("b")
            scene.look()
        return reply

    scene.memory.send = between
    scene.look()
    assert scene.row()["sleepers"] == {"N": "1"}
    held.release()
    scene.look()
    assert scene.calls.called == ["token-b"]


# -- calls


@pytest.mark.parametrize("permits", [None, 2])
def test_a_sleeper_that_is_gone_leaves_the_lock_to_the_next(scene, permits):
    scene.lies_down(*"ab", permits=permits)
    scene.calls.answers["token-a"] = ClosedError("TaskTimedOut")
    scene.look()
    assert scene.calls.called == ["token-a", "token-b"]
    assert scene.client.acquire("k", holder="b", wait=0, permits=permits).release()


def test_after_a_call_without_a_clear_answer_the_lock_stays_the_sleepers_for_a_minute(scene):
    scene.lies_down(*"ab")
    scene.calls.answers["token-a"] = RuntimeError("no answer")
    scene.look()
    assert scene.calls.called == ["token-a"]
    assert scene.sleepers() == ["b"]
    assert scene.client.acquire("k", holder="a", wait=0).release()


def test_a_call_that_was_certainly_not_made_is_made_by_a_later_look(scene):
    scene.lies_down("a")
    scene.calls.answers["token-a"] = ConnectionError("throttled")
    assert scene.waker.handle(lain_down(), None) == {"batchItemFailures": []}
    assert scene.calls.messages == [("k", 5)]  # the queue repeats what the stream began
    assert scene.look() == {"batchItemFailures": []}  # the claim is young: it may be another look's
    scene.calls.answers.clear()
    scene.memory.clock.advance(12)
    scene.look()
    assert scene.calls.called == ["token-a"] * 2
    assert scene.sleepers() == []


def test_a_batch_whose_look_fails_asks_for_another_once_for_each_key(scene):
    scene.lies_down("a")
    scene.memory.fail("denied", times=None)
    assert scene.waker.handle({"Records": lain_down()["Records"] * 3}, None) == {"batchItemFailures": []}
    assert scene.calls.messages == [("k", 5)]


def counted(capsys: pytest.CaptureFixture[str]) -> list[tuple[int, str]]:
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return [(line["LockFailed"], line["lock_event"]) for line in lines]


def test_a_failed_look_of_the_queue_comes_again_and_is_counted_for_the_alarm(scene, monkeypatch, capsys):
    """Lambda counts no error for it, and the queue's age leaves out what was received three times."""
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "lambda_lock")
    scene.lies_down("a")
    scene.memory.fail("unreachable", times=None)
    assert scene.look() == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert counted(capsys) == [(1, "wake_failed")]


class _OldBoto3:
    """A client of Lambda that does not know the calls of durable functions yet."""


def _denied(**_: str) -> None:
    raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "SendTaskSuccess")


@pytest.mark.parametrize(
    ("kind", "clients"),
    [("durable", {"lambda": _OldBoto3()}), ("task", {"stepfunctions": SimpleNamespace(send_task_success=_denied)})],
)
def test_who_can_not_be_called_does_not_hold_up_the_next_and_is_counted(memory, monkeypatch, capsys, kind, clients):
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "lambda_lock")
    client, calls = LockClient("locks"), Calls(**clients)
    calls.put = lambda *_: None  # type: ignore[method-assign]
    for name in "ab":
        client.__runner__.run(lie_down(client.__session__, "k", None, name, kind, name))
    assert WakerFunction(LockClient("locks"), calls).handle(message("k"), None) == {"batchItemFailures": []}
    assert counted(capsys) == [(1, "wake_failed")] * 2
    assert client.acquire("k", wait=0).release()


def test_a_sleeper_whose_row_is_of_another_kind_is_called_to_be_told(scene):
    permit = scene.client.acquire("k", permits=2, wait=0)
    scene.lies_down("a")
    scene.look()
    assert permit.release()
    assert scene.calls.called == ["token-a"]
    assert scene.sleepers() == []


# -- what others wrote


@pytest.mark.parametrize(
    "records",
    [
        [],
        *([{"messageId": "m", "body": body}] for body in ("no JSON", "[]", "{}", '{"key": 7}', '{"key": ""}')),
        *([{"dynamodb": {"Keys": keys, "SequenceNumber": "1"}}] for keys in ({}, {"key": {"N": "1"}})),
    ],
    ids=str,
)
def test_a_record_that_names_no_key_is_dropped_because_it_would_be_the_same_each_time(scene, records, caplog):
    caplog.set_level(logging.ERROR, "lambda_lock")
    assert scene.waker.handle({"Records": records} if records else {}, None) == {"batchItemFailures": []}
    assert ("names no key" in caplog.text) is bool(records)


def forge(scene: Scene, *entries: Any) -> None:
    """Write entries before those that are there."""
    scene.update("SET asleep = list_append(:v, asleep)", {"L": [*entries]}, "k~sleepers")


@pytest.mark.parametrize(
    "entry",
    [
        {"N": "7"},
        {"S": "no JSON"},
        {"S": '["a","task","t",0,null]'},
        {"S": '["a","task",["t"],null,null]'},
        {"S": '["\\ud800","task","t",null,null]'},
        {"S": '["a","durable","\\ud800",null,null]'},
        {"S": json.dumps(["a" * 2049, "task", "t", None, None])},
        {"S": json.dumps(["a", "task", "t" * 2049, None, None])},
        {"L": []},
    ],
)
def test_an_entry_that_we_did_not_write_is_removed_and_the_next_sleeper_is_served(scene, entry):
    scene.lies_down("a")
    forge(scene, entry)
    scene.look()
    assert scene.calls.called == ["token-a"]
    assert scene.sleepers() == []


@pytest.mark.parametrize("line", [{"S": "mine"}, {"L": [{"N": "1"}]}, {"L": [{"S": "x" * 14}] * 64}])
def test_a_line_that_cannot_take_the_sleepers_ends_no_look_and_costs_them_their_place_alone(scene, line):
    scene.memory.hold("k", lease_duration=5)
    scene.lies_down("a")
    scene.update("SET waiters = :v", line)
    scene.look()
    assert scene.row()["sleepers"] == {"N": "1"}
    scene.memory.clock.advance(10)
    scene.look()
    assert scene.calls.called == ["token-a"]


def test_more_sleepers_than_a_look_may_call_are_served_by_the_next(scene):
    for number in range(30):
        scene.lies_down(f"x{number}")
        scene.calls.answers[f"token-x{number}"] = ClosedError("TaskDoesNotExist")
    scene.look()
    assert len(scene.calls.called) == 20
    assert scene.calls.messages == [("k", 2)]
    scene.look()
    assert len(scene.calls.called) == 30


def test_a_lock_whose_key_ends_like_a_sleepers_row_is_never_touched(scene):
    LockClient("locks", ttl=None).acquire("other", wait=0)
    scene.memory.put("locks", {**scene.row("other"), "key": {"S": "k~sleepers"}})  # as an older version takes it
    before = scene.row("k~sleepers")
    with pytest.raises(LockConfigurationError, match="is a lock of its own"):
        scene.lies_down("a")
    scene.look()
    scene.waker.handle(lain_down(), None)
    assert scene.row("k~sleepers") == before


@pytest.mark.parametrize("key", ["k~sleepers", "~sleepers", "a#b~sleepers"])
def test_no_lock_is_taken_where_sleepers_are(scene, key):
    scene.memory.hold("k")
    scene.lies_down("a")
    before, client = scene.row("k~sleepers"), LockClient("locks")
    for act in (
        lambda: client.acquire(key, replace=True),
        lambda: client.acquire(key, delete_on_release=True),
        lambda: client.try_acquire(key),
        lambda: client.acquire_all(["a", key]),
        lambda: client.forget(key),
        lambda: client.forget(key, scope="f"),
        lambda: client.rate_limit(key, 1),
        lambda: client.sleep(key, holder="me", task_token="token"),
        lambda: client.resume(key=key, owner="a#1", fencing_token=1),
        lambda: client.release(key=key, owner="a#1", fencing_token=1),
    ):
        with pytest.raises(LockArgumentError, match="ends with '~sleepers', as the row of another lock's"):
            act()
    decorators: tuple[Any, ...] = (
        with_lock("{key}"),
        with_lock(["a", "{key}"]),
        with_lock(lambda event: event["key"]),
        deduplicate("{key}"),
        rate_limit("{key}", 1),
    )
    for decorator in decorators:
        with pytest.raises(KeyTemplateError, match="ends with '~sleepers', as the row of another lock's"):
            decorator(lambda event: pytest.fail("must not run"))({"key": key})
    with pytest.raises(KeyTemplateError, match="ends with '~sleepers'"):
        with_lock("a~sleepers")(lambda: None)
    assert scene.row("k~sleepers") == before
    client.get("k~sleepers")  # reading is no harm


def test_the_waker_writes_the_time_to_live_that_the_sleepers_client_would(scene):
    scene.client = LockClient("locks", ttl=None)
    scene.lies_down("a")
    scene.look()
    assert "ttl" not in scene.row()


# -- what clients say


def test_get_list_and_errors_say_how_many_sleep_and_list_leaves_their_row_out(scene):
    scene.memory.hold("k", owner="b")
    scene.lies_down(*"acd")
    scene.look()
    record = scene.client.get("k")
    assert (record.sleepers, record.waiters, record.attributes) == (3, 1, {})
    assert [each.key for each in scene.client.list()] == ["k"]
    with pytest.raises(LockNotGrantedError, match=r"is held by b, and 1 waits \(3 asleep\) before this one") as refused:
        scene.client.acquire("k", wait=0)
    assert refused.value.ahead == 1


@pytest.mark.parametrize("name", ["sleepers", "wakeAt"])
def test_the_names_of_the_mark_are_refused_as_attributes(scene, name):
    with pytest.raises(LockArgumentError, match=name):
        scene.client.acquire("k", attributes={name: 1})
    assert name not in GO.attribute_names()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"key": ""}, LockArgumentError, "key is empty"),
        ({"key": "x~sleepers"}, LockArgumentError, "ends with '~sleepers'"),
        ({"key": "x" * 2045}, LockArgumentError, "2054 bytes"),
        ({"holder": ""}, LockArgumentError, "holder is empty"),
        ({"holder": 7}, TypeError, "holder must be a str"),
        ({"holder": "x" * 513}, LockArgumentError, "holder"),
        ({"task_token": ""}, LockArgumentError, "task_token has 0 characters"),
        ({"task_token": "x" * 2049}, LockArgumentError, "task_token has 2049 characters"),
        ({"task_token": None}, TypeError, "task_token must be a str"),
        ({"permits": 0}, LockArgumentError, "permits"),
        ({"permits": 2, "take": 3}, LockArgumentError, "take=3 is more than permits=2"),
        ({"sort_key": "s"}, LockArgumentError, "sort_key"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(scene, options, error, said):
    good = {"key": "k", "holder": "a", "task_token": "t"}
    with pytest.raises(error, match=said):
        scene.client.sleep(**(good | options))
    assert scene.memory.items("locks") == ()


@pytest.mark.parametrize("schema", [GO, PYTHON, JAVA.replace(data="payload")])
def test_only_rows_of_the_schema_java_have_sleepers(scene, schema):
    names = {"partition_key_name": "key"} if schema.sort_key is None else {}
    with pytest.raises(LockConfigurationError, match="JAVA"):
        LockClient("locks", schema=schema, **names).sleep("k", holder="a", task_token="t")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, "", "0"])
def test_a_function_that_knows_of_no_waker_is_told_so(scene, monkeypatch, value):
    monkeypatch.delenv("LAMBDA_LOCK_WAKE")
    if value is not None:
        monkeypatch.setenv("LAMBDA_LOCK_WAKE", value)
    with pytest.raises(LockConfigurationError, match="LAMBDA_LOCK_WAKE=1"):
        scene.lies_down("a")


ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/"


@pytest.mark.parametrize(
    ("connected", "table", "has_one"),
    [
        ("locks", f"{ARN}locks", True),
        (f"{ARN}locks", "locks", True),
        ("locks", "others", False),
        ("locks", f"{ARN}others", False),
        (f"{ARN}locks", f"{ARN}locks", True),
        (f"{ARN}locks", f"{ARN.replace('us-east-1', 'us-west-2')}locks", False),
    ],
)
def test_a_table_has_the_waker_that_it_was_connected_with_by_name_or_by_arn(
    memory, monkeypatch, connected, table, has_one
):
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", connected)
    assert has_waker(LockClient(table).__session__) is has_one


def test_the_257th_is_told_to_poll(scene):
    client = scene.client

    def sleeps(holder: str) -> object:
        return client.__runner__.run(lie_down(client.__session__, "k", None, holder, "durable", "c"))

    assert all(sleeps(f"x{number}") for number in range(MOST_SLEEPERS))
    assert sleeps("one more") is False
    assert sleeps("x7") is True
    with pytest.raises(LockNotGrantedError, match="as many sleep"):
        scene.lies_down("one more")


def test_a_batch_looks_at_each_key_once(scene):
    scene.memory.hold("k")
    scene.lies_down("a")
    event = {"Records": [*lain_down()["Records"], *message("k")["Records"], *lain_down()["Records"]]}
    before = len(scene.memory.requests)
    assert scene.waker.handle(event, None) == {"batchItemFailures": []}
    assert scene.memory.requests[before:].count("GetItem") == 2
