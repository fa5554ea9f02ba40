"""What is told of holds: hooks, metrics and traces."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lambda_lock import LockClient, LockLostError, LockNotGrantedError, TransportError
from lambda_lock.testing import in_memory, lambda_context
from lambda_lock.testing.memory import Memory
from tests.observe.conftest import Listener


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


@pytest.fixture
def memory() -> Iterator[Memory]:
    with in_memory() as memory:
        yield memory


def traced(spans: InMemorySpanExporter) -> list[tuple[str, Any, Any]]:
    about = [(span.name, dict(span.attributes or {})) for span in spans.get_finished_spans()]
    spans.clear()
    return [(name, said["lock.outcome"], said.get("lock.fencing_token")) for name, said in about]


def counted(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [metric["Name"] for line in lines for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]]


def test_hooks_hear_of_each_attempt_and_not_of_a_release_without_a_lock(memory):
    listener = Listener()
    client = LockClient(hooks=[listener])
    first = client.acquire("a", holder="h")
    string = first.hand_over()
    resumed = client.resume(string)
    again = client.acquire("a", holder="h")
    with pytest.raises(LockLostError):
        resumed.heartbeat()
    assert client.release(string)
    with pytest.raises(LockLostError):
        again.heartbeat()
    assert listener.events(5) == ["granted", "granted", "granted", "lost", "lost"]
    assert [lock for _, lock in listener.heard] == [first, resumed, again, resumed, again]


def test_attempts_and_releases_by_string_are_traced(memory, spans):
    client = LockClient()
    lock = client.acquire("a", holder="h")
    token, string = lock.fencing_token, lock.hand_over()
    spans.clear()
    resumed = client.resume(string)
    assert traced(spans) == [("lock acquire", "granted", token)]
    client.acquire("a", holder="h").hand_over()
    assert [span[:2] for span in traced(spans)] == [
        ("lock acquire", "granted"),
        ("lock release", "handed_over"),
        ("lock hold", "handed_over"),
    ]
    assert not resumed.release()
    assert [span[1] for span in traced(spans)] == ["lost", "lost"]
    assert client.release(string)
    assert traced(spans) == [("lock release", "released", token)]
    memory.hold("a")
    assert not client.release(string)
    assert traced(spans) == [("lock release", "lost", token)]
    with pytest.raises(LockLostError):
        client.resume(string)
    assert traced(spans) == [("lock acquire", "lost", None)]
    memory.fail("denied", times=1)
    with pytest.raises(Exception, match="dynamodb:"):
        client.release(string)
    assert traced(spans) == [("lock release", "failed", token)]


def test_attempts_are_measured_as_any_lock_and_releases_by_string_are_not(memory, monkeypatch, capsys):
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "orders")
    monkeypatch.setenv("LAMBDA_LOCK_METRICS_TIMES", "1")
    client = LockClient()
    string = client.acquire("a").hand_over()
    assert counted(capsys) == ["LockWaited", "LockHeld"]
    client.resume(string).hand_over()
    assert counted(capsys) == ["LockWaited", "LockHeld"]
    assert client.release(string)
    assert counted(capsys) == []
    with pytest.raises(LockLostError):
        client.resume(string)
    assert counted(capsys) == []
    string = client.acquire("a").hand_over()
    capsys.readouterr()
    with pytest.raises(LockNotGrantedError):
        client.resume(string, context=lambda_context(0.5))
    assert "LockNotGranted" not in counted(capsys)
    with pytest.raises(LockNotGrantedError):
        client.acquire("a", holder="h", wait=0)
    assert "LockNotGranted" in counted(capsys)


def test_an_outage_is_raised_and_told_to_nobody(memory):
    listener = Listener()
    client = LockClient(hooks=[listener], decision_time=0.25)
    string = client.acquire("a").hand_over()
    memory.fail("unreachable", times=1000)
    with pytest.raises(TransportError):
        client.resume(string)
    assert listener.events(1) == ["granted"]
