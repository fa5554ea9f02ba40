"""The CloudWatch alarms and dashboard of a lock table.

All metrics of events use the statistic Sum: the number of samples does not say how often something happened. If nothing
happened there is no data. So alarms treat missing data as not breaching, and additions treat it as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from ..observe.metrics import DUPLICATE, LOST, NAMESPACE, NOT_GRANTED, TABLE_DIMENSION
from ..permissions import OPERATIONS

AlarmActions = Sequence[cloudwatch.IAlarmAction | sns.ITopic]

_REQUESTS = (*OPERATIONS, "TransactWriteItems")  # the last is what commit() sends
_WIDTH = 12  # columns of the dashboard's 24


def add_alarms(
    scope: Construct, table_name: str, alarm_actions: AlarmActions, *, table_is_here: bool
) -> list[cloudwatch.Alarm]:
    """Create alarms for lost locks, throttled requests and DynamoDB's own errors.

    A single lost lock raises an alarm. The library sends a throttled or failed request again, so these raise an alarm
    only if they persist. There is no alarm for contention and duplicates, because handling them is the purpose of a
    lock. There is none for failed conditions either, because that is how DynamoDB reports contention.

    table_is_here: whether the table is in the account of the stack. Its metrics are in its own account, those of the
        locks in the account of the functions.
    """
    alarms = [
        _alarm(scope, "LockLost", _lock_events(table_name, LOST), "A lock was lost while its holder worked", within=1)
    ]
    if table_is_here:
        throttled, errors = _throttled(table_name), _system_errors(table_name)
        alarms += [
            _alarm(scope, "Throttled", throttled, "DynamoDB keeps throttling the lock table", within=5),
            _alarm(scope, "SystemErrors", errors, "DynamoDB keeps failing the lock table", within=5),
        ]
    for alarm in alarms:
        alarm.add_alarm_action(*map(_as_action, alarm_actions))
    return alarms


def add_dashboard(
    scope: Construct, table_name: str, alarms: Sequence[cloudwatch.IAlarm], *, table_is_here: bool
) -> None:
    """Create a dashboard for the locks and their table. It shows the state of the alarms if there are any.

    table_is_here: as for `add_alarms`.
    """
    dashboard = cloudwatch.Dashboard(scope, "Dashboard")
    if alarms:
        dashboard.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=alarms, width=2 * _WIDTH, height=2))
    locks = _graph("Locks", [_lock_events(table_name, name) for name in (NOT_GRANTED, DUPLICATE, LOST)])
    if not table_is_here:
        dashboard.add_widgets(locks)
        return
    dashboard.add_widgets(locks, _graph("Problems of the table", [_throttled(table_name), _system_errors(table_name)]))
    dashboard.add_widgets(
        _graph("Capacity units", [_table_sum(table_name, f"Consumed{way}CapacityUnits") for way in ("Read", "Write")]),
        _graph("Latency", [_latency(table_name, operation) for operation in _REQUESTS]),
    )


def _alarm(scope: Construct, id: str, events: cloudwatch.IMetric, says: str, *, within: int) -> cloudwatch.Alarm:
    """An alarm for events in more than half of the last ``within`` periods."""
    return cloudwatch.Alarm(
        scope,
        id,
        metric=events,
        alarm_description=f"{says}.",
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        threshold=0,
        evaluation_periods=within,
        datapoints_to_alarm=within // 2 + 1,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )


def _as_action(action: cloudwatch.IAlarmAction | sns.ITopic) -> cloudwatch.IAlarmAction:
    return cloudwatch_actions.SnsAction(cast("sns.ITopic", action)) if hasattr(action, "topic_arn") else action


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=_WIDTH)


def _lock_events(table_name: str, name: str) -> cloudwatch.Metric:
    """The number of these events. The period is five minutes, because metrics from functions' logs arrive late."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={TABLE_DIMENSION: table_name},
        statistic=cloudwatch.Stats.SUM,
        period=Duration.minutes(5),
        label=name,
    )


def _table_sum(table_name: str, name: str, **more: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name=name,
        dimensions_map={"TableName": table_name, **more},
        statistic=cloudwatch.Stats.SUM,
        period=Duration.minutes(1),
    )


def _latency(table_name: str, operation: str) -> cloudwatch.Metric:
    return _table_sum(table_name, "SuccessfulRequestLatency", Operation=operation).with_(
        statistic=cloudwatch.Stats.p(99), label=f"{operation} p99, ms"
    )


def _throttled(table_name: str) -> cloudwatch.MathExpression:
    return _total(
        "Throttled", {way.lower(): _table_sum(table_name, f"{way}ThrottleEvents") for way in ("Read", "Write")}
    )


def _system_errors(table_name: str) -> cloudwatch.MathExpression:
    """All system errors of the table. DynamoDB counts them per operation."""
    return _total(
        "System errors",
        {
            operation[0].lower() + operation[1:]: _table_sum(table_name, "SystemErrors", Operation=operation)
            for operation in _REQUESTS
        },
    )


def _total(label: str, metrics: dict[str, cloudwatch.IMetric]) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({name}, 0)" for name in metrics),
        using_metrics=metrics,
        label=label,
        period=Duration.minutes(1),
    )
