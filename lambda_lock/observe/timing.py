"""The times and traces of locks: from an acquire to its end, and from a last act to its end, with the hold before it.

Loaded only where they are asked for, or a tracer is at work (`Observer.measures`). All is written after the steps that
it tells of, so no request waits for a tracer.

A trace is a subsegment of X-Ray or a span of OpenTelemetry. It is written with the times at which it began and ended,
as a child of what is open on this thread or task then. So nothing of a trace is open meanwhile, and a lock never
depends on one.
"""

from __future__ import annotations

import os
import sys
import time

from ..errors import CommitRefusedError, DuplicateEventError, LockLostError, LockNotGrantedError
from .log import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ..core.lease import ClockReading
    from ..core.protocol import Steps
    from .observer import Observer

    T = TypeVar("T")

VARIABLE = "LAMBDA_LOCK_TRACING"  # "no-keys": without the keys of locks. "off": no traces
_FAULTS = ("lost", "failed")  # outcomes that a trace shows as an error. Contention is none
_SHOWN = 3  # keys of several locks
_OUTCOMES = (
    (CommitRefusedError, "released"),  # the application's own conditions did not hold. The lock was given back
    (DuplicateEventError, "duplicate"),
    (LockNotGrantedError, "not_granted"),
    (LockLostError, "lost"),
    (Exception, "failed"),
)


def timed(
    observer: Observer,
    what: str,
    table: str,
    keys: Sequence[str],
    reading: ClockReading,
    steps: Steps[T],
    ended: Callable[[T], tuple[str, int | None]],
    token: int | None = None,
    since: float | None = None,
) -> Steps[T]:
    """The steps of an acquire or of a last act, and then the traces and times of it and of the hold that it ends.

    what: "acquire" or "release". ended: gives the outcome and the fencing token for the result of steps that raised no
        error. token: that of other outcomes. since: when the hold began, in elapsed seconds; None: that is not known
        here, or no hold ends.
    """
    outcome = "interrupted"
    try:
        result = yield from steps
        outcome, token = ended(result)
        return result
    except Exception as error:
        outcome = next(name for kind, name in _OUTCOMES if isinstance(error, kind))
        raise
    finally:
        observer.tell_unended()
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        now, text = observer.timeline.elapsed(), ", ".join(keys[:_SHOWN]) + more
        ago = now - reading.elapsed
        observer.measured(what, table, text, ago, outcome=outcome, fencing_token=token)
        if since is not None:
            observer.measured("hold", table, text, now - since, ago, outcome=outcome, fencing_token=token)


def record(what: str, key: str, began_ago: float, ended_ago: float, about: dict[str, Any], log: logging.Logger) -> None:
    """Write a trace of what has ended.

    what: "acquire", "hold" or "release". began_ago, ended_ago: seconds. about: its outcome, and the fencing token.

    Raises nothing: an error is logged.
    """
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    if wanted == "off":
        return
    fields = {f"lock_{name}": value for name, value in about.items() if value is not None}
    if wanted != "no-keys":
        fields["lock_key"] = key
    now = time.time()
    began, ended, failed = now - began_ago, now - ended_ago, about.get("outcome") in _FAULTS
    # Powertools' Tracer loads the SDK of X-Ray too.
    for module, write in (("aws_xray_sdk.core", _xray), ("opentelemetry.trace", _opentelemetry)):
        found = sys.modules.get(module)
        if found is None:
            continue
        try:
            write(found, f"lock {what}", began, ended, fields, failed)
        except Exception as error:  # noqa: BLE001 - a failing tracer of the application must not affect a lock
            tell(log, "trace_failed", "no trace was written of lock %r: %r", key, error, cause=error, key=key)


def _xray(core: Any, name: str, began: float, ended: float, fields: dict[str, Any], failed: bool) -> None:
    recorder, launcher = core.xray_recorder, core.lambda_launcher
    # Outside of a segment a subsegment has no place: the SDK logs an error or a warning, or raises.
    if isinstance(recorder.context, launcher.LambdaContext):  # there the invocation has one, on every thread
        if not os.environ.get(launcher.LAMBDA_TRACE_HEADER_KEY):
            return
    elif (local := getattr(recorder.context, "_local", None)) is not None and not getattr(local, "entities", None):
        return  # not for a context of another make
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
