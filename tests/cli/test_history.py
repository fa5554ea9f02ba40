"""What `lambda-lock dashboard` says about the past: each reading of the table compared with the one before."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import LockClient
from lambda_lock.cli.dashboard import Watcher
from lambda_lock.core.outcome import Reply
from lambda_lock.testing import ManualClock, in_memory

from .conftest import FOREIGN, FREE, waiting


class Readings:
    """A table that is read when the test says so."""

    def __init__(self, client: LockClient) -> None:
        self._watcher = Watcher(client, interval=1.0)

    def read(self, **question: str) -> dict[str, Any]:
        self._watcher.read()
        return self._watcher.answer(question)


@pytest.fixture
def readings(table: str) -> Iterator[Readings]:
    with LockClient(table) as client:
        yield Readings(client)


def kinds(answer: dict[str, Any]) -> list[str]:
    """What happened, the oldest first."""
    return [event["kind"] for event in reversed(answer["events"])]


def test_a_grant_a_renewal_and_a_release_are_told_apart(readings):
    readings.read()
    with LockClient(owner_prefix="worker") as client:
        lock = client.acquire("a", lease_duration=30)
        (seen,) = readings.read()["locks"]
        (hold,) = seen["holds"]
        assert (hold["owner"], hold["token"], hold["until"]) == (lock.owner, lock.fencing_token, None)
        assert hold["renewals"] == []
        lock.heartbeat(lease_duration=60)
        (hold,) = readings.read()["locks"][0]["holds"]
        assert len(hold["renewals"]) == 1
        lock.release()
    answer = readings.read()
    (hold,) = answer["locks"][0]["holds"]
    assert hold["ended"] == "released"
    assert hold["since"] <= hold["until"] <= answer["now"]
    assert kinds(answer) == ["granted", "released"]
    assert answer["counts"] == {"free": 1, "waiting": 0}


def test_an_expired_lease_and_its_take_over_are_told_apart(readings, rows):
    readings.read()
    rows.put_lock("a", owner="dead", expires_in=-5, nonce="a" * 32)
    answer = readings.read()
    assert answer["locks"][0]["state"] == "expired"
    assert kinds(answer)[-1] == "expired"
    with LockClient(owner_prefix="next") as client, client.acquire("a", wait=10):
        answer = readings.read()
        first, second = answer["locks"][0]["holds"]
        assert (first["owner"], first["ended"]) == ("dead#" + "a" * 32, "taken over")
        assert second["owner"].startswith("next#")
        assert kinds(answer)[-2:] == ["taken over", "took over"]


def test_what_a_foreign_row_holds_is_shown_in_part(readings, rows):
    readings.read()
    names: dict[str, Any] = {str(number) + "n" * 1_000: {"N": "9e125"} for number in range(150)}
    rows.put_lock("a", owner="foreign" + "x" * 100_000, expires_in=-5, **names)
    answer = readings.read()
    (seen,) = answer["locks"]
    assert len(json.dumps(answer)) < 80_000
    assert seen["owner"].startswith("foreignxxx")
    assert seen["holds"][0]["owner"].endswith("… (100040 characters)")
    assert answer["events"][0]["owner"] == seen["owner"]
    (hold,) = readings.read()["locks"][0]["holds"]
    assert hold["ended"] is None  # it is recognised at the next reading


def test_what_would_reorder_the_text_beside_it_is_shown_escaped(readings, rows):
    readings.read()
    rows.put_lock("order\u202e#1", owner="worker\u2066", nonce="a" * 32)
    answer = readings.read()
    assert [seen["key"] for seen in answer["locks"] + answer["events"]] == [r"order\u202e#1"] * 2
    owners = {answer["locks"][0]["owner"], answer["locks"][0]["holds"][0]["owner"], answer["events"][0]["owner"]}
    assert owners == {r"worker\u2066#" + "a" * 32}
    with LockClient(owner_prefix="\u202dme") as client, client.acquire("api", permits=2):
        (api, _) = readings.read()["locks"]
    assert api["holders"][0].startswith(r"\u202dme#")


def test_the_permits_of_a_semaphore_are_holds_of_their_own_with_what_they_take(readings):
    with LockClient() as client:
        first, second = (client.acquire("gpus", permits=5, take=take) for take in (3, 1))
        (seen,) = readings.read()["locks"]
        assert seen["is_semaphore"]
        assert [(hold["owner"], hold["take"]) for hold in seen["holds"]] == [(first.owner, 3), (second.owner, 1)]
        assert seen["held_by"] == "held by 2, who take 4"
        first.release()
        (seen,) = readings.read()["locks"]
        assert [hold["ended"] for hold in seen["holds"]] == ["released", None]
        with client.acquire("config", shared=False):
            assert readings.read(prefix="config")["locks"][0]["held_by"] == "held by a writer"


@pytest.mark.parametrize("permits", [None, 3])
def test_a_hold_that_is_resumed_goes_on_and_is_one_hold(permits, readings):
    readings.read()
    with LockClient() as client:
        first = client.acquire("api", permits=permits, lease_duration=20)
        readings.read()
        lock = client.resume(first.hand_over(lease_duration=30))
        answer = readings.read()
        assert answer["locks"][0]["holders"] == [lock.owner]
        client.resume(lock.hand_over(lease_duration=60)).release()
    answer = readings.read()
    (hold,) = answer["locks"][0]["holds"]
    assert (hold["owner"], hold["token"], hold["ended"]) == (first.owner, first.fencing_token, "released")
    assert kinds(answer) == ["granted", "released"]


def test_a_permit_that_nobody_released_has_expired():
    clock = ManualClock()
    with in_memory(clock=clock), LockClient("locks", lease_duration=5, heartbeat_period=0) as client:
        readings = Readings(client)
        lock = client.acquire("api", permits=2)
        readings.read()
        clock.advance(60)
        (hold,) = readings.read()["locks"][0]["holds"]
        assert hold["ended"] == "expired"
        assert hold["until"] == hold["expires_at"]
        lock.release(best_effort=True)


def test_a_row_that_is_gone_is_no_lock_any_more(readings, rows):
    with LockClient() as client:
        lock = client.acquire("a", delete_on_release=True)
        assert readings.read()["found"] == 1
        lock.release()
    answer = readings.read()
    assert (answer["found"], kinds(answer)) == (0, ["deleted"])


def test_the_number_of_waiters_has_a_past(readings, rows):
    rows.put_lock("a", **waiting(2))
    readings.read()
    rows.put_lock("a", waiters={"L": []})
    (seen,) = readings.read()["locks"]
    assert [count for _, count in seen["waits"]] == [2, 0]
    assert readings.read(states="waiting")["found"] == 0


def test_filters_count_what_they_leave_and_what_the_first_reading_finds_has_not_just_happened(readings, rows):
    rows.put_lock("order#1")
    rows.put_lock("order#2", expires_in=-30)
    rows.put("import", **FREE)
    answer = readings.read()
    assert (answer["found"], answer["events"]) == (3, [])
    assert not any(hold["is_seen_whole"] for lock in answer["locks"] for hold in lock["holds"])
    for question, keys in (
        ({"prefix": "order#"}, ["order#1", "order#2"]),
        ({"prefix": "order#", "states": "expired"}, ["order#2"]),
        ({"states": "expired,free"}, ["order#2", "import"]),
    ):
        assert [lock["key"] for lock in readings.read(**question)["locks"]] == keys
    assert readings.read(prefix="order#")["counts"] == {"held": 1, "expired": 1, "waiting": 0}


class ManyRows:
    """A transport whose table has many rows, in pages of 4,000. It answers Scans only."""

    PAGE = 4000

    def __init__(self, count: int) -> None:
        self._rows = [
            {"key": {"S": f"lock-{number:06d}"}, **(FOREIGN if number % 1000 == 7 else FREE)} for number in range(count)
        ]
        self.before_page: dict[int, Callable[[], object]] = {}

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        assert operation == "Scan"
        start = int(request["ExclusiveStartKey"]["key"]["S"][5:]) + 1 if "ExclusiveStartKey" in request else 0
        self.before_page.get(start // self.PAGE + 1, lambda: None)()
        page: dict[str, Any] = {"Items": self._rows[start : start + self.PAGE]}
        if start + self.PAGE < len(self._rows):
            page["LastEvaluatedKey"] = {"key": page["Items"][-1]["key"]}
        return Reply(page, int(time.time()))


@pytest.mark.long
def test_of_100_000_locks_a_page_is_answered_and_it_is_answered_while_they_are_read():
    transport = ManyRows(100_000)
    watcher = Watcher(LockClient("locks", transport=transport), interval=1.0)
    transport.before_page[20] = lambda: during.append(watcher.answer({}))
    during: list[dict[str, Any]] = []
    watcher.read()
    (answer,) = during
    assert (answer["found"], len(answer["locks"]), answer["readings"]) == (19 * 4000, 50, 0)
    answer = watcher.answer({})
    assert (answer["found"], len(answer["locks"])) == (100_000, 50)
    assert answer["counts"]["held"] == 100
    last = watcher.answer({"page": "1999"})
    assert [lock["key"] for lock in last["locks"]][-1] == "lock-099999"
    assert watcher.answer({"page": "999999"})["page"] == 1999  # beyond the last: the last
    assert watcher.answer({"prefix": "lock-00000", "states": "held"})["found"] == 1


@pytest.mark.long
def test_locks_beyond_the_limit_are_counted_and_not_kept():
    watcher = Watcher(LockClient("locks", transport=ManyRows(10_000)), interval=1.0)
    watcher.most = 3000
    for _ in range(2):
        watcher.read()
        answer = watcher.answer({})
        assert (answer["found"], answer["left_out"]) == (3000, 7000)
