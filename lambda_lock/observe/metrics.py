"""What can be counted: the names of the metrics, for alarms, and the lines that make CloudWatch count.

A line is one JSON object in the embedded metric format (CloudWatch User Guide, "Specification: Embedded metric
format"), written to stdout before the event goes on: whatever waits for a thread may find the environment frozen.
"""

from __future__ import annotations

import json  # the Lambda runtime has these loaded
import os
import sys

from ..core.arn import bare_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

METRICS_VARIABLE = "LAMBDA_LOCK_METRICS"  # the CloudWatch namespace; unset or "": no metrics are written
NAMESPACE = "lambda_lock"  # what LockTable.connect sets it to
NOT_GRANTED = "LockNotGranted"  # contention: nothing is wrong
LOST = "LockLost"  # a holder lost its lock: two may have worked at once
DUPLICATE = "DuplicateEvent"  # an event that had been done, and was not done again
TABLE_DIMENSION = "Table"  # the table's name
FUNCTION_DIMENSION = "FunctionName"

COUNTED = {"not_granted": NOT_GRANTED, "lost": LOST, "duplicate": DUPLICATE}  # by event


def count(event: str, table: str, now: float, properties: dict[str, object], log: logging.Logger) -> None:
    """Count an event, if it is one that is counted and LAMBDA_LOCK_METRICS says where.

    table: name or ARN. now: epoch seconds. properties: what else the line has, to be searched for; a key is no
    dimension, for each value of one is a metric that costs. A line that cannot be written is logged.
    """
    namespace = os.environ.get(METRICS_VARIABLE)
    if not namespace or event not in COUNTED:
        return
    line = _line(namespace, COUNTED[event], table, now, properties)
    try:
        sys.stdout.write(line + "\n")  # print() writes the line's end apart: another thread could come in between
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError) as error:  # there is no stdout, or it is broken or closed
        from .log import tell

        tell(log, "metric_failed", "%s was not counted: stdout cannot be written: %s", COUNTED[event], error)


def _line(namespace: str, metric: str, table: str, now: float, properties: dict[str, object]) -> str:
    dimensions = {TABLE_DIMENSION: bare_name(table)}
    sets = [[TABLE_DIMENSION]]
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    if function:
        dimensions[FUNCTION_DIMENSION] = function
        sets.append([TABLE_DIMENSION, FUNCTION_DIMENSION])
    directive = {"Namespace": namespace, "Dimensions": sets, "Metrics": [{"Name": metric, "Unit": "Count"}]}
    metadata = {"Timestamp": int(now * 1000), "CloudWatchMetrics": [directive]}
    return json.dumps({"_aws": metadata, **dimensions, metric: 1, **properties})
