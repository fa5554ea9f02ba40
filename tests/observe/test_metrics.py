"""What is counted, once each, in lines that CloudWatch reads from stdout."""

import io
import json
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_lambda_powertools import Metrics

from lambda_lock import (
    Lock,
    LockClient,
    LockConfigurationError,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
    TransportError,
    current_dedup,
    current_lock,
    deduplicate,
    with_lock,
)
from lambda_lock.observe.metrics import DUPLICATE, FAILED, LOST, METRICS_VARIABLE, NOT_GRANTED
from lambda_lock.testing import ManualClock, in_memory, lambda_context
from rig.engine import ROOT
from rig.wire import Answer
from tests.support.clients import Make
from tests.support.clocks import LeapingClock, StandingClock
from tests.support.context import Context
from tests.support.elsewhere import in_thread
from tests.support.rows import Rows
from tests.support.waiting import wait_until

from .conftest import NAMESPACE, counted

Output = pytest.CaptureFixture[str]


# Where


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_nothing_is_written(value, client, rows, monkeypatch, capsys):
    if value is not None:
        monkeypatch.setenv(METRICS_VARIABLE, value)
    rows.put_held("a", expires_at=time.time() + 60)
    assert client.try_acquire("a") is None
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("counting")
def test_a_line_has_namespace_dimensions_time_and_what_the_log_has(client, rows, table, monkeypatch, capsys):
    rows.put_held("Jürgen\n", expires_at=time.time() + 60)
    for function in (None, "orders"):
        if function:
            monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", function)
        before = time.time()
        assert client.try_acquire("Jürgen\n", context=Context(30)) is None
        output = capsys.readouterr().out
        assert counted(output) == [NOT_GRANTED]
        line = json.loads(output)
        metadata = line.pop("_aws")
        assert int(before * 1000) <= metadata["Timestamp"] <= time.time() * 1000
        (directive,) = metadata["CloudWatchMetrics"]
        assert directive["Namespace"] == NAMESPACE
        assert directive["Dimensions"] == ([["Table"], ["Table", "FunctionName"]] if function else [["Table"]])
        assert line == {
            "Table": table,
            NOT_GRANTED: 1,
            "lock_event": "not_granted",
            "lock_key": "Jürgen\n",
            "lock_holder": "somebody#1",
            **({"FunctionName": function} if function else {}),
        }


def _metrics(output: str) -> set[tuple[str, ...]]:
    """The custom metrics that CloudWatch makes of lines: a name and the values of one set of dimensions each."""
    found = set()
    for line in map(json.loads, output.splitlines()):
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        (metric,) = directive["Metrics"]
        found |= {(metric["Name"], *(line[name] for name in names)) for names in directive["Dimensions"]}
    return found


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize(
    ("group", "dimensions"),
    [(None, {("a",), ("b",)}), ("", {("a",), ("b",)}), ("orders", {("orders",)}), ("none", set())],
)
def test_metrics_are_counted_by_function_by_group_or_by_the_table_alone(
    group, dimensions, client, rows, table, monkeypatch, capsys
):
    rows.put_held("a", expires_at=time.time() + 60)
    if group is not None:
        monkeypatch.setenv("LAMBDA_LOCK_METRICS_GROUP", group)
    for function in ("a", "b"):
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", function)
        assert client.try_acquire("a", context=Context(30)) is None
    output = capsys.readouterr().out
    assert counted(output) == [NOT_GRANTED] * 2
    assert _metrics(output) == {(NOT_GRANTED, table, *each) for each in dimensions | {()}}


@pytest.mark.parametrize(
    ("row", "functions"),
    [("4, as in", 4), ("300 |", 300), ("300, in ten groups", 10), ("300, `LAMBDA_LOCK_METRICS_GROUP=none`", 0)],
)
def test_the_page_about_costs_counts_a_metric_of_the_table_and_one_of_each_function(row, functions):
    (line,) = re.findall(rf"^  \| {re.escape(row)}.*$", (ROOT / "docs" / "costs.md").read_text(), re.MULTILINE)
    most = len({NOT_GRANTED, LOST, FAILED, DUPLICATE}) * (1 + functions)
    assert line.endswith(f"| {most:,} | ${most * 0.30:.2f} |")


@pytest.mark.usefixtures("counting")
def test_the_table_of_a_client_that_was_given_an_arn_is_its_name(make, rows, capsys):
    rows.put_held("a", expires_at=time.time() + 60)
    assert make(f"arn:aws:dynamodb:us-east-1:000000000000:table/{rows.table}").try_acquire("a") is None
    assert json.loads(capsys.readouterr().out)["Table"] == rows.table


@pytest.mark.usefixtures("counting")
def test_each_line_is_one_write_so_that_threads_do_not_mix_theirs(client, rows, monkeypatch):
    class Stdout(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    written: list[str] = []
    rows.put_held("a", expires_at=time.time() + 60)
    monkeypatch.setattr(sys, "stdout", Stdout())
    running = [in_thread(lambda: client.try_acquire("a")) for _ in range(8)]
    assert [result() for result in running] == [None] * 8
    assert all(text.endswith("}\n") for text in written)
    assert counted("".join(written)) == [NOT_GRANTED] * 8


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("closed", [True, False])
def test_where_stdout_cannot_be_written_the_lock_is_none_the_wiser(closed, client, rows, monkeypatch, caplog):
    rows.put_held("a", expires_at=time.time() + 60)
    stdout = io.StringIO()
    stdout.close()
    monkeypatch.setattr(sys, "stdout", stdout if closed else None)
    assert client.try_acquire("a") is None
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.__dict__["lock_event"] == "metric_failed"


# Times, and Powertools


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[ManualClock]:
    clock = ManualClock()
    monkeypatch.setenv(METRICS_VARIABLE, "orders")
    with in_memory(clock=clock):
        yield clock


def lines(capsys: Output) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_times_are_off_by_default(clock, capsys):
    LockClient(clock=clock).acquire("a").release()
    assert lines(capsys) == []


def test_the_time_waited_and_held_is_measured_if_asked_for(clock, capsys, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_METRICS_TIMES", "1")
    client, other = LockClient(clock=clock), LockClient(clock=clock)
    with client.acquire("a", lease_duration=60):
        clock.advance(3)
        with pytest.raises(LockNotGrantedError):
            other.acquire("a", wait=4)
    waited, refused, not_granted, held = sorted(lines(capsys), key=lambda line: line["_aws"]["Timestamp"])
    assert {"LockNotGranted", "LockWaited"} <= refused.keys() | not_granted.keys()
    assert waited["LockWaited"] == 0
    assert [round(line["LockWaited"]) for line in (refused, not_granted) if "LockWaited" in line] >= [4000]
    assert round(held["LockHeld"]) >= 7000  # the clock counts in seconds, with a fraction
    assert held["lock_key"] == "a"
    (directive,) = held["_aws"]["CloudWatchMetrics"]
    assert directive["Metrics"] == [{"Name": "LockHeld", "Unit": "Milliseconds"}]


def test_a_function_with_powertools_metrics_writes_ours_with_its_own(clock, capsys, monkeypatch):
    monkeypatch.setenv(METRICS_VARIABLE, "powertools")
    metrics = Metrics(namespace="shop", service="orders")
    handled = deduplicate("{id}", client=LockClient(clock=clock))(lambda event, context: None)

    @metrics.log_metrics
    def handler(event: Any, context: Any) -> None:
        metrics.add_metric(name="Orders", unit="Count", value=1)
        for _ in range(3):
            handled(event, context)

    handler({"id": "e"}, lambda_context())
    (line,) = lines(capsys)
    assert line["Orders"] == [1.0]
    assert line["DuplicateEvent"] == [1.0, 1.0]
    assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "shop"
    assert line["service"] == "orders"


# What
@pytest.mark.usefixtures("counting")
def test_each_acquire_that_is_refused_for_contention_is_counted_once_and_none_that_is_granted(
    make, client, rows, capsys
):
    client.acquire("free").release()
    assert capsys.readouterr().out == ""
    rows.put_held("a", expires_at=time.time() + 60)
    with pytest.raises(LockNotGrantedError):
        client.acquire("a", wait=0)
    assert counted(capsys.readouterr().out) == [NOT_GRANTED]
    assert with_lock("a", client=client, wait=0, on_not_granted="skip")(lambda: 1)() is None
    assert counted(capsys.readouterr().out) == [NOT_GRANTED]
    with pytest.raises(LockTimeoutError):
        make(clock=StandingClock(), refresh_period=1).acquire("a", wait=5)  # many polls
    assert counted(capsys.readouterr().out) == [NOT_GRANTED]


def undated(answer: Answer) -> Answer:
    return Answer(answer.status, [pair for pair in answer.headers if pair[0].lower() != "date"], answer.body)


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (400, "AccessDeniedException", "denied"),
        (400, "ProvisionedThroughputExceededException", "throttled"),
        (400, "ResourceNotFoundException", "not_found"),
        (400, "UnrecognizedClientException", "credentials"),
        (400, "ValidationException", "refused"),
        (503, "ServiceUnavailable", "no_answer"),
        (200, "an answer without a date", "misconfigured"),
    ],
)
def test_an_acquire_that_dynamodb_fails_is_an_error_in_the_log_and_counted_with_its_reason(
    wire, make, rows, capsys, caplog, status, code, reason, several
):
    client = make(decision_time=1.0)
    if status == 200:
        wire.alter_reply(undated, times=math.inf)
    else:
        wire.answer(status, code, times=math.inf)
    with pytest.raises((LockConfigurationError, TransportError)) as raised:
        client.acquire_all(["a", "b"], wait=0) if several else client.acquire("a", wait=0)
    (line,) = capsys.readouterr().out.splitlines()
    assert counted(line) == [FAILED]
    assert (json.loads(line)["lock_key"], json.loads(line)["lock_reason"]) == ("a", reason)
    (record,) = [record for record in caplog.records if record.__dict__.get("lock_event") == "failed"]
    assert (record.levelname, record.__dict__["lock_reason"]) == ("ERROR", reason)
    assert str(raised.value) in record.getMessage()


@pytest.mark.usefixtures("counting")
def test_a_wait_that_was_cancelled_is_told_but_not_counted(client, rows, caplog, capsys):
    caplog.set_level(logging.INFO, "lambda_lock")
    rows.put_held("a", expires_at=time.time() + 60)
    with pytest.raises(LockTimeoutError):
        client.acquire("a", wait=30, cancel_check=lambda: True)
    assert [record.__dict__["lock_event"] for record in caplog.records] == ["cancelled"]
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("counting")
def test_a_lock_for_which_it_is_too_late_is_told_but_not_counted(make, rows, caplog, capsys):
    caplog.set_level(logging.INFO, "lambda_lock")
    rows.put_foreign("a", lease_seconds=4)
    with pytest.raises(LockNotGrantedError) as caught:
        make(clock=LeapingClock(), refresh_period=3).acquire("a", wait=60, reserve=0, context=Context(4.5))
    assert caught.value.too_late
    assert [record.__dict__["lock_event"] for record in caplog.records] == ["too_late"]
    assert capsys.readouterr().out == ""


def by_a_renewal(make: Make, rows: Rows, on_lost: Any) -> Lock:
    lock = make(heartbeat_period=0.2).acquire("a", on_lost=on_lost)
    rows.put_held("a", expires_at=time.time() + 60)
    wait_until(lambda: lock.__held__.hold.lost)
    return lock


def refused(act: Callable[[Lock, str], object]) -> Callable[[Make, Rows, Any], Lock]:
    """What is refused, as another has the lock."""

    def lose(make: Make, rows: Rows, on_lost: Any) -> Lock:
        lock = make().acquire("a", on_lost=on_lost)
        rows.put_held("a", expires_at=time.time() + 60)
        with pytest.raises(LockLostError):
            act(lock, rows.table)
        assert rows.get("an order") is None
        return lock

    return lose


def by_a_look(make: Make, rows: Rows, on_lost: Any) -> Lock:
    clock = StandingClock()
    lock = make(clock=clock, heartbeat_period=0).acquire("a", on_lost=on_lost)
    clock.now += 100
    assert lock.lost
    return lock


def by_a_release(make: Make, rows: Rows, on_lost: Any) -> Lock:
    lock = make().acquire("a", on_lost=on_lost)
    rows.put_held("a", expires_at=time.time() + 60)
    assert not lock.release()
    return lock


def by_the_end_of_its_function(make: Make, rows: Rows, on_lost: Any) -> Lock:
    @with_lock("a", client=make(), on_lost=on_lost)
    def work() -> Lock:
        rows.put_held("a", expires_at=time.time() + 60)
        return current_lock()

    return work()


def by_the_end_of_its_event(make: Make, rows: Rows, on_lost: Any) -> Lock:
    @deduplicate("a", client=make(), scope="", on_lost=on_lost)
    def work() -> Lock:
        rows.put_held("a", expires_at=time.time() + 60)
        return current_dedup()

    lock = work()
    assert lock is not None
    return lock


def by_the_end_of_a_function_that_looked(make: Make, rows: Rows, on_lost: Any) -> Lock:
    clock = StandingClock()

    @with_lock("a", client=make(clock=clock, heartbeat_period=0), on_lost=on_lost)
    def work() -> Lock:
        lock = current_lock()
        clock.now += 100
        with pytest.raises(LockLostError):
            lock.raise_if_lost()
        return lock

    return work()


WAYS_TO_LOSE: dict[str, Callable[[Make, Rows, Any], Lock]] = {
    "a renewal": by_a_renewal,
    "a renewal by hand": refused(lambda lock, table: lock.heartbeat()),
    "a look": by_a_look,
    "a release": by_a_release,
    "a commit": refused(
        lambda lock, table: lock.commit([{"Put": {"TableName": table, "Item": {"key": {"S": "an order"}}}}])
    ),
    "handing over": refused(lambda lock, table: lock.hand_over()),
    "the end of its function": by_the_end_of_its_function,
    "the end of its event": by_the_end_of_its_event,
    "the end of a function that looked": by_the_end_of_a_function_that_looked,
}


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("way", WAYS_TO_LOSE)
def test_a_lost_lock_is_told_and_counted_once_whatever_shows_it(way, make, rows, caplog, capsys):
    called: list[Lock] = []
    lock = WAYS_TO_LOSE[way](make, rows, called.append)
    wait_until(lambda: called)
    assert lock.lost
    with pytest.raises(LockLostError):
        lock.raise_if_lost()
    if not lock.__held__.released:
        lock.release()
    assert called == [lock]
    assert counted(capsys.readouterr().out) == [LOST]
    (record,) = [record for record in caplog.records if record.__dict__["lock_event"] == "lost"]
    assert record.levelno == logging.WARNING
    assert record.__dict__["lock_owner"] == lock.owner


@pytest.mark.usefixtures("counting")
def test_an_event_that_was_done_is_counted_each_time_it_comes_again(client, caplog, capsys):
    caplog.set_level(logging.INFO, "lambda_lock")

    handler = deduplicate("{id}", client=client, scope="")(lambda event: None)
    handler({"id": "e-1"})
    assert capsys.readouterr().out == ""
    handler({"id": "e-1"})
    handler({"id": "e-1"})
    output = capsys.readouterr().out
    assert counted(output) == [DUPLICATE] * 2
    assert [json.loads(line)["lock_key"] for line in output.splitlines()] == ["e-1"] * 2
    told = [(record.levelno, record.__dict__["lock_event"]) for record in caplog.records]
    assert told == [(logging.INFO, "duplicate")] * 2
