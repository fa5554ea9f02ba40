"""LAMBDA_LOCK_LOG_KEYS: with `hash` or `no`, no key is in the log, in metrics or in traces."""

from __future__ import annotations

import hashlib
import io
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lambda_lock import (
    LockClient,
    LockNotGrantedError,
    PayloadMismatchError,
    TransportError,
    deduplicate,
    set_default_client,
    with_lock,
)
from lambda_lock.observe.log import KEYS_VARIABLE
from lambda_lock.observe.metrics import METRICS_VARIABLE
from rig.wire import Wire
from tests.support.clocks import LeapingClock
from tests.support.rows import Rows

from .conftest import change, told

KEY = "anna@example.com\n'ü\""
HASH = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()[:16]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, as a handler writes it, with tracebacks and all fields."""
    text, logger = io.StringIO(), logging.getLogger("lambda_lock")

    class Whole(logging.StreamHandler[Any]):
        def format(self, record: logging.LogRecord) -> str:
            fields = {name: value for name, value in vars(record).items() if name.startswith("lock_")}
            return f"{super().format(record)} {fields}"

    handler, level = Whole(text), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield text
    logger.removeHandler(handler)
    logger.setLevel(level)


def _live(client: LockClient, rows: Rows, wire: Wire) -> None:
    """One key in all situations: granted, contended, done, mismatched, hooks that fail, outages, a broken row."""
    set_default_client(client)
    client.acquire(KEY).release()
    rows.put_held(KEY, expires_at=time.time() + 60)
    for _ in range(2):
        with pytest.raises(LockNotGrantedError):
            client.acquire(KEY, wait=0)
    with pytest.raises(LockNotGrantedError):
        client.acquire_all([KEY, "other"], wait=0)
    rows.delete(KEY)
    pay = deduplicate("{id}", scope="", result="json", validate=["amount"])(lambda event: event["amount"])
    pay({"id": KEY, "amount": 5})
    pay({"id": KEY, "amount": 5})
    with pytest.raises(PayloadMismatchError):
        pay({"id": KEY, "amount": 6})
    change(rows, KEY, fencingToken={"N": "1"})
    pay({"id": KEY, "amount": 5})
    rows.delete(KEY)
    fault = wire.unavailable(times=10_000)
    with pytest.raises(TransportError):
        client.acquire(KEY, wait=0)
    with_lock("{id}", on_unavailable="run", wait=0)(lambda event: None)({"id": KEY})
    fault.release()
    wire.clear()
    set_default_client(None)


class Hook:
    def on_not_granted(self, error: Any) -> None:
        raise ValueError(f"about {error.key}") from error


@pytest.mark.parametrize("mode", ["hash", "no", "nein"])
def test_no_key_is_shown_anywhere(mode, wire, rows, log, monkeypatch, capsys):
    monkeypatch.setenv(KEYS_VARIABLE, mode)
    monkeypatch.setenv(METRICS_VARIABLE, "shop")
    monkeypatch.setenv("LAMBDA_LOCK_METRICS_TIMES", "1")
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    client = LockClient(hooks=[Hook()], clock=LeapingClock())
    _live(client, rows, wire)
    client.close()
    traced = [dict(span.attributes or {}) for span in spans.get_finished_spans()]
    counted = capsys.readouterr().out
    shown = log.getvalue() + counted + str(traced)
    assert "anna" not in shown
    assert "example.com" not in shown
    assert (HASH in log.getvalue(), HASH in counted) == (mode == "hash",) * 2  # by which a key can be found
    events = {"granted", "not_granted", "duplicate", "failed", "payload_mismatch", "token_fell", "hook_failed"}
    assert events <= set(shown.replace("'", " ").replace('"', " ").split())
    assert ("switch_unreadable" in shown) is (mode == "nein")
    assert len(traced) > 5
    if mode == "hash":
        assert any(one.get("lock.key") == HASH for one in traced)


@pytest.mark.parametrize(
    ("mode", "shown"), [(None, "a"), ("", "a"), ("yes", "a"), ("no", "(hidden)"), ("NO ", "(hidden)")]
)
def test_keys_are_shown_by_default_and_a_short_one_garbles_no_other_word(
    mode, shown, client, rows, caplog, monkeypatch
):
    caplog.set_level(logging.INFO, "lambda_lock")
    if mode is not None:
        monkeypatch.setenv(KEYS_VARIABLE, mode)
    rows.put_held("a", expires_at=time.time() + 60)
    assert client.try_acquire("a") is None
    (record,) = told(caplog, "not_granted")
    assert getattr(record, "lock_key", "(hidden)") == shown
    assert record.getMessage().startswith(f"lock '{shown}' is held by somebody#1")
