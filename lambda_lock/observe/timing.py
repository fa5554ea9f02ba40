"""The times and traces of locks: from an acquire to its end, and from a last act to its end, with the hold before it.

Loaded only where they are asked for, or a tracer is at work (`Observer.measures`). All is written after the steps that
it tells of, so no request waits for a tracer.

A trace is a subsegment of X-Ray or a span of OpenTelemetry. It is written with the times at which it began and ended,
as a child of the one that is open on this thread or task then. So no trace of a lock is open meanwhile, and a lock
never depends on one.
"""

from __future__ import annotations

import os
import sys
import time

from .. import errors
from ..core.outcome import expected
from .log import extras, write_line
from .metrics import HELD, RATE_WAITED, WAITED, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol, TypeVar

    from ..core.protocol import Conversation, Steps
    from ..core.requests import Place
    from .observer import Observer

    T = TypeVar("T")

    class Measured(Protocol):
        """What `timed` asks of an operation. Its attributes are as in client/session.py."""

        what: str

        @property
        def place(self) -> Place: ...
        def of_hold(self) -> tuple[int | None, float | None]: ...
        def keys(self) -> Sequence[str]: ...
        def outcome(self, done: Any, /) -> str: ...


VARIABLE = "LAMBDA_LOCK_TRACING"  # "no-keys": without the keys of locks. "off": no traces
_FAULTS = ("lost", "failed")  # outcomes that a trace shows as an error. Contention is not an error
_SHOWN = 3  # keys of several locks
_OUTCOMES = (
    (errors.CommitRefusedError, "released"),  # the application's own conditions did not hold. The lock was given back
    (errors.DuplicateEventError, "duplicate"),
    (errors.LockNotGrantedError, "not_granted"),
    (errors.RateLimitedError, "rate_limited"),
    (errors.LockLostError, "lost"),
    (Exception, "failed"),
)
_WAITED = ("granted", "not_granted", "started", "rate_limited")  # outcomes of waits whose time is a metric


def timed(operation: Measured, observer: Observer, talk: Conversation, steps: Steps[T]) -> Steps[T]:
    """The steps of an operation, and then the traces and times of it and of the hold that it ends."""
    outcome, began = "interrupted", talk.elapsed
    try:
        result = yield from steps
        outcome = operation.outcome(result)
        return result
    except Exception as error:
        outcome = next(name for kind, name in _OUTCOMES if isinstance(error, kind))
        raise
    finally:
        write_unended(observer)
        what, table, keys, (token, since) = operation.what, operation.place.table, operation.keys(), operation.of_hold()
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        now, text = observer.elapsed(), ", ".join(keys[:_SHOWN]) + more
        ago = now - began
        measured(observer, what, table, text, ago, outcome=outcome, fencing_token=token)
        if since is not None:
            measured(observer, "hold", table, text, now - since, ago, outcome=outcome, fencing_token=token)


def write_unended(observer: Observer) -> None:
    """Write the traces and times of holds whose handles were dropped: up to the drop, or to their validity's end."""
    while observer.unended:
        try:
            hold, dropped = observer.unended.pop()
        except IndexError:  # another thread writes them too
            return
        lost = hold.lost or dropped >= hold.valid_until
        now, end = observer.elapsed(), min(dropped, hold.valid_until) if lost else dropped
        about = {"outcome": "lost" if lost else "forgotten", "fencing_token": hold.token}
        measured(observer, "hold", hold.place.table, hold.place.key, now - hold.since, now - end, **about)


def measured(
    observer: Observer, what: str, table: str, key: str, began_ago: float, ended_ago: float = 0.0, **about: object
) -> None:
    """Write a trace of what has ended, and metrics of its time.

    what: "acquire", "hold", "release" or "rate". began_ago, ended_ago: seconds. about: its outcome, and the fencing
        token.

    Raises nothing: an error is logged.
    """
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    fields = {f"lock_{name}": value for name, value in about.items() if value is not None}
    if wanted != "no-keys" and (shown := extras(what, {"key": key}).get("lock_key")) is not None:
        fields["lock_key"] = shown
    now, outcome = time.time(), str(about["outcome"])
    began, ended, failed = now - began_ago, now - ended_ago, outcome in _FAULTS
    # Powertools' Tracer loads the SDK of X-Ray too.
    for module, write_to in (("aws_xray_sdk.core", _xray), ("opentelemetry.trace", _opentelemetry)):
        found = sys.modules.get(module)
        if found is None or wanted == "off":
            continue
        try:
            write_to(found, f"lock {what}", began, ended, fields, failed)
        except expected(Exception) as error:
            message = "no trace was written of lock %r: %r"
            write_line(observer.log, "trace_failed", message, key, error, cause=error, key=key)
    if observer.times and (what == "hold" or outcome in _WAITED):
        metric = {"hold": HELD, "rate": RATE_WAITED}.get(what, WAITED)
        milliseconds = round((began_ago - ended_ago) * 1000, 3)
        wall, properties = observer.wall(), extras(outcome, {"key": key})
        write(metric, milliseconds, "Milliseconds", table, wall, properties, observer.log)


def _xray(core: Any, name: str, began: float, ended: float, fields: dict[str, Any], failed: bool) -> None:
    recorder, launcher = core.xray_recorder, core.lambda_launcher
    # Outside of a segment a subsegment has no place: the SDK logs an error or a warning, or raises.
    if isinstance(recorder.context, launcher.LambdaContext):  # there the invocation has one, on every thread
        if not os.environ.get(launcher.LAMBDA_TRACE_HEADER_KEY):
            return
    elif (local := getattr(recorder.context, "_local", None)) is not None and not getattr(local, "entities", None):
        return  # a context of another make has no `_local`, so `begin_subsegment` decides
    subsegment = recorder.begin_subsegment(name)
    if subsegment is None:
        return
    try:
        subsegment.start_time = began
        for field, value in fields.items():
            subsegment.put_annotation(field, value)
        if failed:
            subsegment.add_fault_flag()
    finally:
        recorder.end_subsegment(ended)


def _opentelemetry(trace: Any, name: str, began: float, ended: float, fields: dict[str, Any], failed: bool) -> None:
    attributes = {field.replace("lock_", "lock.", 1): value for field, value in fields.items()}
    span = trace.get_tracer("lambda_lock").start_span(name, start_time=int(began * 1e9), attributes=attributes)
    if failed:
        span.set_status(trace.StatusCode.ERROR)
    span.end(end_time=int(ended * 1e9))
