"""Metrics: their names, for alarms, and the lines that make CloudWatch count.

A line is one JSON object in the embedded metric format (CloudWatch User Guide, "Specification: Embedded metric
format"). It is written to stdout before the call continues. If a thread wrote it later, the environment might be frozen
by then.
"""

from __future__ import annotations

import json  # the Lambda runtime has these loaded
import os
import sys

from ..core.outcome import expected
from ..core.requests import bare_name
from .log import write_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

#: The name of the stream in `sys` that metrics are written to. The command line's own stdout is its result.
stream = "stdout"
METRICS_VARIABLE = "LAMBDA_LOCK_METRICS"  # the CloudWatch namespace; unset or "": no metrics are written
POWERTOOLS = "powertools"  # instead of a namespace: metrics are added to those of Powertools
GROUP_VARIABLE = "LAMBDA_LOCK_METRICS_GROUP"  # what metrics are counted by instead of the function, such as a team
UNGROUPED = "none"  # instead of a group: by nothing but the table
WAITED = "LockWaited"  # how long an acquire waited, granted or not
RATE_WAITED = "RateWaited"  # how long a call waited for its start under a rate limit, granted or not
HELD = "LockHeld"  # from the grant's first request to the release
NAMESPACE = "lambda_lock"  # the value that LockTable.connect sets it to
NOT_GRANTED = "LockNotGranted"  # contention, which is normal
FAILED = "LockFailed"  # an acquire, or a look or call of the waker, that failed for other reasons than contention
LOST = "LockLost"  # a holder lost its lock, so two may have worked at the same time
RATE_LIMITED = "RateLimited"  # a start that was not free within its wait
DUPLICATE = "DuplicateEvent"  # an event that was done before, and was not done again
UNAVAILABLE = "LockUnavailable"  # a call that ran without its lock (on_unavailable="run")
DISABLED = "LockDisabled"  # a call that ran without its lock (LAMBDA_LOCK_DISABLED)
TOKEN_FELL = "TokenFell"  # noqa: S105 - a row was of the past: its table was restored or replaced
TABLE_DIMENSION = "Table"  # the table's name
FUNCTION_DIMENSION = "FunctionName"
GROUP_DIMENSION = "Group"

COUNTED = {  # by event
    "not_granted": NOT_GRANTED,
    "failed": FAILED,
    "wake_failed": FAILED,
    "lost": LOST,
    "duplicate": DUPLICATE,
    "rate_limited": RATE_LIMITED,
    "unavailable": UNAVAILABLE,
    "disabled": DISABLED,
    "token_fell": TOKEN_FELL,
}


def write(
    metric: str, value: float, unit: str, table: str, now: float, properties: dict[str, object], log: logging.Logger
) -> None:
    """Write one value of a metric, if LAMBDA_LOCK_METRICS names a namespace.

    table: the table's name or ARN.
    now: the time in epoch seconds.
    properties: what else is in the line, for searches. The lock's key is here and not a dimension, because each value
        of a dimension is a metric of its own that costs money.

    If the line cannot be written, that is logged.
    """
    namespace = os.environ.get(METRICS_VARIABLE)
    if not namespace:
        return
    if namespace.lower() == POWERTOOLS:
        if (powertools := sys.modules.get("aws_lambda_powertools.metrics")) is not None:
            try:  # what the function's own Metrics object writes: all of them share one set
                powertools.Metrics().add_metric(name=metric, unit=unit, value=value)
            except expected(Exception) as error:
                write_line(log, "metric_failed", "%s was not counted by Powertools: %r", metric, error)
            return
        namespace = NAMESPACE  # the function does not use Powertools' metrics
    dimensions = {TABLE_DIMENSION: bare_name(table)}
    sets = [[TABLE_DIMENSION]]
    group = os.environ.get(GROUP_VARIABLE)
    name = GROUP_DIMENSION if group else FUNCTION_DIMENSION
    counted_by = group or os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    if counted_by and group != UNGROUPED:
        dimensions[name] = counted_by
        sets.append([TABLE_DIMENSION, name])
    directive = {"Namespace": namespace, "Dimensions": sets, "Metrics": [{"Name": metric, "Unit": unit}]}
    metadata = {"Timestamp": int(now * 1000), "CloudWatchMetrics": [directive]}
    line = json.dumps({"_aws": metadata, **dimensions, metric: value, **properties})
    try:
        to = getattr(sys, stream)
        to.write(line + "\n")  # print() writes the newline separately: another thread could write in between
        to.flush()
    except expected(AttributeError, OSError, ValueError) as error:  # it is missing, broken or closed
        write_line(log, "metric_failed", "%s was not counted: %s cannot be written: %s", metric, stream, error)
