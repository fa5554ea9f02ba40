"""Metrics of times, and metrics that go to Powertools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aws_lambda_powertools import Metrics

from lambda_lock import LockClient, LockNotGrantedError, deduplicate
from lambda_lock.testing import ManualClock, in_memory, lambda_context


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[ManualClock]:
    clock = ManualClock()
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "orders")
    with in_memory(clock=clock):
        yield clock


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
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
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "powertools")
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
