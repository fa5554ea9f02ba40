"""Traces: subsegments of X-Ray and spans of OpenTelemetry for what happens to locks. Loaded where one is at work.

Each is written when what it tells of has ended, with the times at which it began and ended, as a child of what is open
on this thread or task then. So nothing of a trace is open meanwhile, and a lock never depends on one.
"""

from __future__ import annotations

import os
import sys
import time

from .log import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

XRAY = "aws_xray_sdk.core"  # Powertools' Tracer loads it too
OPENTELEMETRY = "opentelemetry.trace"
VARIABLE = "LAMBDA_LOCK_TRACING"  # "no-keys": without the keys of locks. "off": no traces
_FAULTS = ("lost", "failed")  # outcomes that a trace shows as an error. Contention is none


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
    for module, write in ((XRAY, _xray), (OPENTELEMETRY, _opentelemetry)):
        found = sys.modules.get(module)
        if found is None:
            continue
        try:
            write(found, f"lock {what}", began, ended, fields, failed)
        except Exception as error:  # noqa: BLE001 - a failing tracer of the application must not affect a lock
            tell(log, "trace_failed", "no trace was written of lock %r: %r", key, error, cause=error, key=key)


def _xray(core: Any, name: str, began: float, ended: float, fields: dict[str, Any], failed: bool) -> None:
    recorder = core.xray_recorder
    if not _is_in_segment(core, recorder.context):
        return
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


def _is_in_segment(core: Any, context: Any) -> bool:
    """Whether a subsegment has a place. Outside of a segment the SDK logs an error or a warning, or raises."""
    if isinstance(context, core.lambda_launcher.LambdaContext):  # there the invocation has one, on every thread
        return bool(os.environ.get(core.lambda_launcher.LAMBDA_TRACE_HEADER_KEY))
    local = getattr(context, "_local", None)  # None: a context of another make
    return local is None or bool(getattr(local, "entities", None))


def _opentelemetry(trace: Any, name: str, began: float, ended: float, fields: dict[str, Any], failed: bool) -> None:
    attributes = {field.replace("lock_", "lock.", 1): value for field, value in fields.items()}
    span = trace.get_tracer("lambda_lock").start_span(name, start_time=int(began * 1e9), attributes=attributes)
    if failed:
        span.set_status(trace.StatusCode.ERROR)
    span.end(end_time=int(ended * 1e9))
