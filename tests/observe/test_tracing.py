"""Traces: with the real SDKs of OpenTelemetry (an exporter in memory) and X-Ray (a daemon on loopback)."""

import asyncio
import gc
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from aws_xray_sdk import global_sdk_config
from aws_xray_sdk.core import xray_recorder
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lambda_lock import (
    AsyncLockClient,
    CommitRefusedError,
    DuplicateEventError,
    LockClient,
    LockLostError,
    LockNotGrantedError,
    RateLimitedError,
    deduplicate,
    default_client,
    set_default_client,
    with_lock,
)
from lambda_lock.observe.metrics import METRICS_VARIABLE
from lambda_lock.testing import ManualClock, in_memory
from tests.support.elsewhere import ran

_exporter = InMemorySpanExporter()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_exporter))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    monkeypatch.setattr(trace, "get_tracer", _provider.get_tracer)
    _exporter.clear()
    return _exporter


@pytest.fixture(autouse=True)
def memory() -> Iterator[ManualClock]:
    clock = ManualClock()
    with in_memory(clock=clock):
        set_default_client(LockClient(clock=clock, heartbeat_period=0))
        yield clock
        default_client().close()
        set_default_client(None)


def seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


def told(spans: InMemorySpanExporter) -> list[tuple[str, dict[str, Any]]]:
    return [(span.name, dict(span.attributes or {})) for span in spans.get_finished_spans()]


def taken_and_released(about: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    outcomes = {"acquire": "granted", "release": "released", "hold": "released"}
    return [(f"lock {name}", {**about, "lock.outcome": outcome}) for name, outcome in outcomes.items()]


def test_a_lock_has_spans_for_acquire_hold_and_release(spans, memory):
    with _provider.get_tracer("test").start_as_current_span("handler") as handler:
        with default_client().acquire("a") as lock:
            memory.advance(3)
        about = {"lock.key": "a", "lock.fencing_token": lock.fencing_token}
    assert told(spans)[:3] == taken_and_released(about)
    acquire, release, hold, _ = spans.get_finished_spans()
    for span in (acquire, release, hold):
        assert span.parent is not None
        assert span.parent.span_id == handler.get_span_context().span_id
    assert seconds(hold) >= 3


def test_a_refused_acquire_has_a_span_as_long_as_its_wait(spans, memory):
    with LockClient(clock=memory) as other, other.acquire("a", lease_duration=600):
        spans.clear()
        with pytest.raises(LockNotGrantedError):
            default_client().acquire("a", wait=4)
        (span,) = spans.get_finished_spans()
        assert span.attributes == {"lock.key": "a", "lock.outcome": "not_granted"}
        assert seconds(span) >= 4
        assert span.status.is_unset  # contention is normal


def test_a_start_at_a_rate_has_a_span_as_long_as_its_wait_and_a_refusal_is_no_error(spans, memory):
    for _ in range(2):
        default_client().rate_limit("api", 1, per=4, wait=4)
    with pytest.raises(RateLimitedError):
        default_client().rate_limit("api", 1, per=4, wait=0)
    assert told(spans) == [
        ("lock rate", {"lock.key": "api", "lock.outcome": outcome})
        for outcome in ("started", "started", "rate_limited")
    ]
    _, waited, refused = spans.get_finished_spans()
    assert seconds(waited) >= 2.5
    assert refused.status.is_unset


def test_a_lost_lock_is_an_error_of_its_hold(spans, memory):
    lock = default_client().acquire("a")
    memory.advance(100)
    with LockClient(clock=memory) as other, other.acquire("a"):
        spans.clear()
        assert not lock.release()
        release, hold = spans.get_finished_spans()[:2]
        assert (release.attributes or {})["lock.outcome"] == (hold.attributes or {})["lock.outcome"] == "lost"
        assert not hold.status.is_ok


@pytest.mark.filterwarnings("ignore:the handle of lock:ResourceWarning")
@pytest.mark.parametrize(("after", "outcome"), [(3, "forgotten"), (100, "lost")])
@pytest.mark.parametrize("then", ["the next lock", "the client's end"])
def test_a_hold_that_nobody_ends_has_a_span_that_no_finalizer_writes(spans, memory, after, outcome, then):
    client = LockClient(clock=memory, heartbeat_period=0)
    lock = client.acquire("a")
    about = {"lock.key": "a", "lock.fencing_token": lock.fencing_token, "lock.outcome": outcome}
    memory.advance(after)
    spans.clear()
    del lock
    gc.collect()
    assert told(spans) == []
    if then == "the next lock":
        client.acquire("b").release()
    client.close()
    assert told(spans)[0] == ("lock hold", about)
    assert [name for name, _ in told(spans)].count("lock hold") == (2 if then == "the next lock" else 1)
    (hold, *_) = spans.get_finished_spans()
    assert seconds(hold) == pytest.approx(min(after, 20), rel=0.1)


def test_decorated_functions_and_events_are_traced(spans):
    once = deduplicate("{id}", scope="", on_duplicate="raise")(with_lock("a")(lambda event: None))
    once({"id": "e"})
    with pytest.raises(DuplicateEventError):
        once({"id": "e"})
    outcomes = [(about["lock.key"], about["lock.outcome"]) for name, about in told(spans) if "acquire" in name]
    assert outcomes == [("e", "granted"), ("a", "granted"), ("e", "duplicate")]


def test_async_locks_have_the_span_of_their_task_as_parent(spans, memory):
    async def work(name: str) -> None:
        with _provider.get_tracer("test").start_as_current_span(name):
            async with AsyncLockClient(clock=memory).acquire(name):
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(work("a"), work("b"))

    asyncio.run(main())
    names = {span.context.span_id: span.name for span in spans.get_finished_spans() if span.context}
    locks = [span for span in spans.get_finished_spans() if span.name.startswith("lock")]
    assert len(locks) == 6
    for span in locks:
        assert span.parent is not None
        assert names[span.parent.span_id] == (span.attributes or {})["lock.key"]


def test_several_locks_have_one_span_of_each_kind(spans, memory):
    keys = ["d", "c", "b", "a"]
    with default_client().acquire_all(keys):
        memory.advance(3)
    assert told(spans) == taken_and_released({"lock.key": "a, b, c and 1 more"})
    hold = spans.get_finished_spans()[2]
    assert seconds(hold) >= 3


def test_several_locks_that_are_not_granted_have_the_span_of_their_wait_alone(spans, memory):
    """What was taken meanwhile and given back is no hold of the application."""
    with LockClient(clock=memory) as other, other.acquire("b", lease_duration=600):
        spans.clear()
        assert default_client().try_acquire_all(["a", "b"], wait=2) is None
        assert told(spans) == [("lock acquire", {"lock.key": "a, b", "lock.outcome": "not_granted"})]


def test_several_locks_that_their_client_releases_are_traced_one_by_one(spans, memory):
    client = LockClient(clock=memory, heartbeat_period=0)
    locks = client.acquire_all(["a", "b"])
    spans.clear()
    client.close()
    assert not locks.is_held
    assert [about["lock.key"] for name, about in told(spans) if name == "lock hold"] == ["a", "b"]


@pytest.mark.filterwarnings("ignore:the handle of lock:ResourceWarning")
def test_what_outlives_an_invocation_is_traced(spans, memory):
    client = default_client()
    first = client.acquire("a", holder="run-7")
    again = client.acquire("a", holder="run-7")
    string = again.hand_over()
    resumed = client.resume(string)
    assert client.release(string)
    with pytest.raises(LockLostError):
        client.resume(string)
    client.acquire("a").release()  # by somebody else
    assert not client.release(string)
    assert first.fencing_token == again.fencing_token == resumed.fencing_token
    outcomes = [f"{name.removeprefix('lock ')} {about['lock.outcome']}" for name, about in told(spans)]
    assert outcomes == [
        *("acquire granted", "acquire granted", "release handed_over", "hold handed_over", "acquire granted"),
        *("release released", "acquire lost", "acquire granted", "release released", "hold released", "release lost"),
    ]


def test_a_commit_that_the_application_s_own_conditions_refuse_is_no_error_of_the_lock(spans, memory):
    put = {"TableName": "locks", "Item": {"key": {"S": "mine"}}, "ConditionExpression": "attribute_exists(paid)"}
    with pytest.raises(CommitRefusedError):
        default_client().acquire("a").commit([{"Put": put}])
    assert [about["lock.outcome"] for _, about in told(spans)] == ["granted", "released", "released"]


def test_a_wait_that_is_cancelled_is_no_error(spans):
    async def main() -> None:
        async with AsyncLockClient() as client, await client.acquire("a"):
            waiting = asyncio.create_task(client.acquire("a", wait=60))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        about = [about["lock.outcome"] for name, about in told(spans) if name == "lock acquire"]
        assert about == ["granted", "interrupted"]
        assert all(span.status.is_unset for span in spans.get_finished_spans())

    asyncio.run(main())


@pytest.mark.parametrize(("wanted", "seen"), [("no-keys", {"lock.outcome", "lock.fencing_token"}), ("off", None)])
def test_keys_and_traces_can_be_switched_off(wanted, seen, spans, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_TRACING", wanted)
    default_client().acquire("secret").release()
    assert [set(about) for _, about in told(spans)] == ([] if seen is None else [seen] * 3)


def test_a_tracer_that_fails_is_logged_and_harms_no_lock(monkeypatch, caplog):
    def fail(*arguments: object) -> None:
        raise RuntimeError("no tracer")

    monkeypatch.setattr(trace, "get_tracer", fail)
    assert default_client().acquire("a").release()
    told = {record.__dict__.get("lock_event") for record in caplog.records if record.name == "lambda_lock"}
    assert told == {"trace_failed"}


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    """The X-Ray daemon: what listens on its port for datagrams."""
    was_enabled = global_sdk_config.sdk_enabled()
    global_sdk_config.set_sdk_enabled(True)  # a Tracer of Powertools outside of Lambda switches it off
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(10)
        xray_recorder.configure(
            service="orders", daemon_address=f"127.0.0.1:{listening.getsockname()[1]}", sampling=False, plugins=()
        )
        yield listening
    global_sdk_config.set_sdk_enabled(was_enabled)


def test_the_daemon_of_xray_gets_subsegments(daemon, memory):
    with xray_recorder.in_segment("handler"), default_client().acquire("a") as lock:
        memory.advance(3)
    segment = json.loads(daemon.recv(65_536).partition(b"\n")[2])
    found = {one["name"]: one for one in segment["subsegments"]}
    assert set(found) == {"lock acquire", "lock release", "lock hold"}
    annotations = {"lock_key": "a", "lock_outcome": "released", "lock_fencing_token": lock.fencing_token}
    assert found["lock hold"]["annotations"] == annotations
    assert found["lock hold"]["end_time"] - found["lock hold"]["start_time"] >= 3


def test_outside_of_a_segment_xray_is_left_alone(caplog):
    xray_recorder.clear_trace_entities()
    default_client().acquire("a").release()
    assert caplog.records == []


_IN_LAMBDA = """
import json, logging, os, socket, sys, threading
logging.basicConfig(stream=sys.stderr)
daemon = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
daemon.bind(("127.0.0.1", 0))
daemon.settimeout(10)
os.environ["AWS_XRAY_DAEMON_ADDRESS"] = "127.0.0.1:%d" % daemon.getsockname()[1]
from aws_xray_sdk.core import xray_recorder
from lambda_lock import LockClient
from lambda_lock.testing import in_memory, lambda_context
NAMES = ["lock acquire", "lock release", "lock hold"]
def work():
    LockClient().acquire("a", context=lambda_context(60)).release()
def sent(count):
    return {one["name"]: one for one in (json.loads(daemon.recv(65536).partition(b"\\n")[2]) for _ in range(count))}
with in_memory():
    work()  # in INIT there is no segment
    os.environ["_X_AMZN_TRACE_ID"] = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    with xray_recorder.in_subsegment("handler"):
        work()
    found = sent(4)
    assert {found[name]["parent_id"] for name in NAMES} == {found["handler"]["id"]}, found
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    found = sent(3)
    assert {found[name]["parent_id"] for name in NAMES} == {"53995c3f42cd8ad8"}, found
"""


def test_in_lambda_locks_are_traced_on_every_thread_and_in_silence_before_the_first_invocation(monkeypatch):
    monkeypatch.setenv("LAMBDA_TASK_ROOT", "/var/task")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    monkeypatch.delenv("_X_AMZN_TRACE_ID", raising=False)
    assert ran(_IN_LAMBDA) == ""


def test_a_free_lock_loads_nothing_for_metrics_that_are_on_nor_for_tracers_that_are_not_there(monkeypatch):
    program = """
import sys
from lambda_lock import LockClient
from lambda_lock.testing import in_memory
with in_memory(), LockClient().acquire("a"):
    pass
assert not {f"lambda_lock.observe.{name}" for name in ("timing", "metrics", "hooks")} & {*sys.modules}
assert not [name for name in sys.modules if name.startswith(("opentelemetry", "aws_xray_sdk"))]
"""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f")  # elsewhere all of the package is loaded at once
    monkeypatch.setenv(METRICS_VARIABLE, "lambda_lock")
    ran(program)
