"""The CloudWatch metrics, alarms and dashboard of a lock table.

All metrics of events use the statistic Sum: the number of samples does not say how often something happened. If nothing
happened there is no data. So alarms treat missing data as not breaching, and additions treat it as zero.

Metrics stay in the account where they arise: those of the locks in the account of the functions, which write them, and
those of the table in the table's. An alarm in another account would never go off, so there is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack, cast

import aws_cdk as cdk
import jsii
from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from ..errors import LockArgumentError, LockConfigurationError
from ..observe import metrics
from ..observe.metrics import NAMESPACE
from ..permissions import OPERATIONS
from . import arguments, functions
from .arguments import kind, wrong
from .tables import AnyTable, differ, home

Metrics: TypeAlias = Mapping[str, cloudwatch.IMetric]
AlarmActions: TypeAlias = Sequence[cloudwatch.IAlarmAction | sns.ITopic]

_REQUESTS = (*OPERATIONS, "TransactWriteItems")  # the last is what commit() sends
_PERIOD = Duration.minutes(5)  # of metrics from the logs of functions, which arrive late
_WIDTH = 12  # columns of the dashboard's 24
_LOG_GROUPS = 50  # the most that one query may have
_NAMESPACE = re.compile(r"(?!AWS/|:)[0-9A-Za-z._\-/#: ]{1,255}")  # see "Namespaces", Amazon CloudWatch User Guide
_GROUP = re.compile(r"(?![: ])[ !#-\[\]-~]{1,255}")  # see "Dimension", Amazon CloudWatch API Reference

# The alarms' descriptions, by their ids.
_ALARMS = {
    "LockLost": "A lock of the table {table} was lost while its holder worked, so two may have worked at once. Which "
    'one: in the log of the function, filter lock_event = "lost". Then make the work shorter than its lease, raise '
    "lease_duration=, or write its results with lock.commit(), which a lost lock refuses.",
    "LockFailed": "Functions could not use the lock table {table}, so their work was not done: a permission or the "
    "table is missing, or DynamoDB refused or did not answer. The cause: in the log of the function, filter "
    "LockFailed = 1. Meanwhile, messages may end in dead-letter queues.",
    "LockDisabled": "Functions run without their locks on the table {table}, because LAMBDA_LOCK_DISABLED is set. When "
    "the emergency is over, remove the variable from the functions that the log names: filter lock_event = "
    '"disabled".',
    "TokenFell": "A row of the table {table} is older than what a function has seen of it: the table was restored or "
    "replaced. Tokens repeat, and events may run twice. Stop the functions, and run lambda-lock table after-restore. "
    'Which keys: in the log of the functions, filter lock_event = "token_fell".',
    "RateLimited": "For most of an hour, calls were refused by rate limits of the table {table}: more comes than the "
    'limits let start. Which limit: in the log of the function, filter lock_event = "rate_limited". Then raise it, let '
    "callers wait longer, or send less.",
    "Throttled": "DynamoDB keeps throttling the lock table {table}, so locks are granted late or not at all. Raise the "
    "maximum of its throughput, or spread the locks over more keys: one key serves about 1,000 writes in a second.",
    "SystemErrors": "DynamoDB keeps failing requests to the lock table {table}, so locks are granted late or not at "
    "all. See the AWS Health Dashboard. Locks that are held end with their leases.",
    "WakerErrors": "The waker of the lock table {table} keeps failing, so executions sleep on while their lock is "
    "free: see its log. Until it works, they look by themselves when their time-outs end.",
    "WakerLate": "The waker of the lock table {table} is behind the table's stream, so executions sleep on while their "
    "lock is free. It fails, or it is throttled: see its log, and the concurrency that the account has left.",
    "WakerQueue": "The waker of the lock table {table} does not look at locks when it is time to: see its log. "
    "Executions that wait for a holder which died sleep on until their time-outs end.",
    "WakerDead": "The waker of the lock table {table} gave up looks at locks: they are in its dead-letter queue. Their "
    "executions sleep on until their time-outs end. See its log for the cause. Then redrive the queue, or purge it.",
    "WakerStreamOff": "Nothing reads the stream of the lock table {table} for its waker, so executions sleep on while "
    "their lock is free. Enable the event source mapping of the stream, or see why its polls fail.",
    "WakerQueueOff": "Nothing reads the queue of the waker of the lock table {table}, so executions that wait for a "
    "holder which died sleep on. Enable the event source mapping of the queue, or see why its polls fail.",
}
# Of ages, in ms and in seconds; the others count events, and have 0. A message may be delayed by 900 s.
_THRESHOLDS = {"WakerLate": 60_000, "WakerQueue": 1200}
_PERIODS = {"LockLost": 1, "LockFailed": 1, "LockDisabled": 1, "TokenFell": 1, "RateLimited": 12}  # the others: 5
_POLLS = ("WakerStreamOff", "WakerQueueOff")  # metrics with a value for each poll: silence is the fault


class MetricOptions(TypedDict, total=False):
    """The options of a metric, as aws_cloudwatch.MetricOptions has them.

    period: five minutes by default. statistic: the sum by default. label: the metric's name by default.
    """

    account: str
    color: str
    id: str
    label: str
    period: Duration
    region: str
    statistic: str
    unit: cloudwatch.Unit
    visible: bool


class WatchOptions(NamedTuple):
    """The options of a lock table that say what is watched. See LockTable."""

    metrics_namespace: Any = NAMESPACE
    metrics_group: Any = None
    alarm_actions: Any = None
    dashboard: bool = False

    def check(self) -> None:
        """Raises TypeError or LockArgumentError."""
        namespace, group, _, _ = self
        if namespace is not None and not isinstance(namespace, str):
            raise wrong("metrics_namespace", namespace, "a str or None")
        if namespace is not None and not cdk.Token.is_unresolved(namespace) and not arguments.is_dummy(namespace):
            if namespace.lower() == metrics.POWERTOOLS:
                raise LockArgumentError(
                    f"metrics_namespace={namespace!r} would add to the metrics of Powertools, with their namespace and "
                    f"dimensions, which no alarm here could watch. Pass None, and set {metrics.METRICS_VARIABLE} in "
                    "the function's own environment"
                )
            if not _NAMESPACE.fullmatch(namespace):
                raise LockArgumentError(
                    f"metrics_namespace={namespace!r} is not a namespace of your own: use 1 to 255 letters, digits, "
                    "spaces and '._-/#:', not beginning with 'AWS/' or ':'. Or pass None for no metrics"
                )
        if group is not None:
            arguments.check_text("metrics_group", group, f"Pass the name of a team, {metrics.UNGROUPED!r} or None")
            if namespace is None:
                raise LockArgumentError(
                    f"metrics_group={group!r} has no effect with metrics_namespace=None. Leave one of them out"
                )
            if not cdk.Token.is_unresolved(group) and not _GROUP.fullmatch(group):
                raise LockArgumentError(
                    f"metrics_group={group!r} is not the value of a dimension: use 1 to 255 ASCII characters without "
                    "quotes, not beginning with ':' or a space"
                )
        actions = self.alarm_actions
        if actions is not None and (isinstance(actions, str) or not isinstance(actions, Sequence)):
            raise wrong("alarm_actions", actions, "a list of topics or alarm actions", ": write [topic]")
        for each in actions or ():
            if not hasattr(each, "topic_arn") and not hasattr(each, "bind"):
                raise _no_action(each)
        arguments.check_flag("dashboard", self.dashboard)


class Watch:
    """The metrics of one lock table, with the alarms and the dashboard that are made of them.

    scope: the lock table. waker: the metrics of its waker, by the ids of their alarms; none without one.
    """

    def __init__(self, scope: Construct, table: AnyTable, options: WatchOptions, waker: Metrics) -> None:
        self.namespace, self.group = options.metrics_namespace, options.metrics_group
        self._scope = scope
        self._table_name = table.table_name
        # The metrics of alarms, by alarm id. A single lost lock raises an alarm, and so does a single operation that
        # failed for good: a function may run once an hour. The library sends a throttled or failed request again, so
        # these raise an alarm only if they persist. So do refused starts, which are what a rate limit is for. There is
        # no alarm for contention and duplicates, because handling them is the purpose of a lock. There is none for
        # failed conditions either, because that is how DynamoDB reports contention.
        self._locks: dict[str, cloudwatch.IMetric] = {}
        if self.namespace is not None:
            self._locks["LockLost"] = self.metric(metrics.LOST, color=cloudwatch.Color.RED)
            self._locks["LockFailed"] = self.metric(metrics.FAILED, color=cloudwatch.Color.PURPLE)
            self._locks["LockDisabled"] = self.metric(metrics.DISABLED, color=cloudwatch.Color.PINK)
            self._locks["TokenFell"] = self.metric(metrics.TOKEN_FELL, color=cloudwatch.Color.BROWN)
            self._locks["RateLimited"] = self.metric(metrics.RATE_LIMITED)
        self._problems: dict[str, cloudwatch.IMetric] = {}
        if not differ(home(table)[1], cdk.Stack.of(scope).account):
            throttled = {way.lower(): self._table_sum(f"{way}ThrottleEvents") for way in ("Read", "Write")}
            errors = {  # DynamoDB counts them per operation
                operation[0].lower() + operation[1:]: self._table_sum("SystemErrors", Operation=operation)
                for operation in _REQUESTS
            }
            self._problems["Throttled"] = _total("Throttled", throttled)
            self._problems["SystemErrors"] = _total("System errors", errors)
        self._waker = waker
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        if options.alarm_actions is not None:
            self._make_alarms(options.alarm_actions)
        self._dashboard = self._make_dashboard() if options.dashboard else None
        self._logs: list[str] = []

    def metric(
        self, name: str, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of these events."""
        if self.namespace is None:
            raise LockConfigurationError(
                f"there is no metric {name} of {self._scope.node.path}, because metrics_namespace=None. Pass a "
                "namespace"
            )
        dimensions = {metrics.TABLE_DIMENSION: self._table_name}
        source: Construct | lambda_.IFunction = self._scope
        if function is not None:
            arguments.check_function(function)
            if self.group is not None:
                raise LockConfigurationError(
                    f"there is no metric {name} of single functions, because {self._scope.node.path} has "
                    f"metrics_group={self.group!r}. Leave out function="
                )
            # The library reports the name of the function, without an alias or a version.
            source = unqualified = getattr(function, "lambda_", function)
            dimensions[metrics.FUNCTION_DIMENSION] = unqualified.function_name
        elif self.group is not None and self.group != metrics.UNGROUPED:
            dimensions[metrics.GROUP_DIMENSION] = self.group
        given: MetricOptions = {"statistic": cloudwatch.Stats.SUM, "period": _PERIOD, "label": name, **options}
        metric = cloudwatch.Metric(namespace=self.namespace, metric_name=name, dimensions_map=dimensions, **given)
        return metric.attach_to(source).with_(**options)  # attaching writes over account and region in an older CDK

    def _make_alarms(self, actions: AlarmActions) -> None:
        """Make alarms for events, ages, or silence, in more than half of the periods that they look at."""
        compare, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        for id, events in {**self._locks, **self._problems, **self._waker}.items():
            periods, is_poll = _PERIODS.get(id, 5), id in _POLLS
            self.alarms[id] = cloudwatch.Alarm(
                self._scope,
                id,
                metric=events,
                alarm_description=_ALARMS[id].format(table=self._table_name),
                comparison_operator=compare.LESS_THAN_THRESHOLD if is_poll else compare.GREATER_THAN_THRESHOLD,
                threshold=1 if is_poll else _THRESHOLDS.get(id, 0),
                evaluation_periods=periods,
                datapoints_to_alarm=periods // 2 + 1,
                treat_missing_data=missing.BREACHING if is_poll else missing.NOT_BREACHING,
            )
            for action in actions:
                _add_action(self.alarms[id], action)

    def _make_dashboard(self) -> cloudwatch.Dashboard:
        """Create a dashboard for the locks and their table, with the alarms and their thresholds if there are any."""
        locks, table = list[cloudwatch.GraphWidget](), list[cloudwatch.GraphWidget]()
        if self._locks:
            contention, duplicates = self.metric(metrics.NOT_GRANTED), self.metric(metrics.DUPLICATE)
            unlocked = self.metric(metrics.UNAVAILABLE, color=cloudwatch.Color.ORANGE)
            locks.append(self._graph("Locks", [contention, duplicates, *self._locks.values(), unlocked], self._locks))
        if self._locks and self.group is None:
            dimensions = f"{metrics.TABLE_DIMENSION},{metrics.FUNCTION_DIMENSION}"
            search = (
                f'SEARCH(\'{{"{self.namespace}",{dimensions}}} MetricName="{metrics.NOT_GRANTED}" '
                f"{metrics.TABLE_DIMENSION}=\"{self._table_name}\"', 'Sum', 300)"
            )
            found = cloudwatch.MathExpression(expression=search, using_metrics={}, label="", period=_PERIOD)
            locks.append(self._graph("Contention by function", [found]))
        if self._problems:
            capacity = [self._table_sum(f"Consumed{way}CapacityUnits") for way in ("Read", "Write")]
            latency = [
                self._table_sum("SuccessfulRequestLatency", Operation=operation).with_(
                    statistic=cloudwatch.Stats.p(99), label=f"{operation} p99, ms"
                )
                for operation in _REQUESTS
            ]
            table = [
                self._graph("Problems of the table", [*self._problems.values()], self._problems),
                self._graph("Capacity units", capacity),
                self._graph("Latency", latency),
            ]
        dashboard = cloudwatch.Dashboard(self._scope, "Dashboard")
        if self.alarms:
            alarms = [*self.alarms.values()]
            status = cloudwatch.AlarmStatusWidget(title="Alarms", alarms=alarms, width=2 * _WIDTH, height=2)
            dashboard.add_widgets(status)
        dashboard.add_widgets(*locks[:1], *table[:1])
        dashboard.add_widgets(*table[1:], *locks[1:])
        dashboard.add_widgets(*(self._graph(id, [metric], [id]) for id, metric in self._waker.items()))
        return dashboard

    def _graph(
        self, title: str, shown: Sequence[cloudwatch.IMetric], alarms: Collection[str] = ()
    ) -> cloudwatch.GraphWidget:
        """A graph, with the thresholds of these alarms."""
        lines = [self.alarms[id].to_annotation() for id in alarms if id in self.alarms]
        return cloudwatch.GraphWidget(title=title, left=shown, left_annotations=lines, width=_WIDTH)

    def _table_sum(self, name: str, **more: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/DynamoDB",
            metric_name=name,
            dimensions_map={"TableName": self._table_name, **more},
            statistic=cloudwatch.Stats.SUM,
            period=Duration.minutes(1),
        )

    def add_function(self, function: functions.Connectable) -> None:
        """Let the dashboard's list of contended keys read this function's log.

        Only functions of the same stack: stacks that name each other cannot be deployed.
        """
        if self._dashboard is None or self.namespace is None or cdk.Stack.of(function) != cdk.Stack.of(self._scope):
            return
        name = functions.log_group_name(function)
        if name is None or name in self._logs or len(self._logs) == _LOG_GROUPS:
            return
        self._logs.append(name)
        if len(self._logs) > 1:
            return
        self._dashboard.add_widgets(
            cloudwatch.LogQueryWidget(
                title="The most contended keys",
                log_group_names=[cdk.Lazy.string(_Joined(self._logs))],
                query_lines=[
                    'filter lock_event = "not_granted" and ispresent(_aws.Timestamp)',
                    "stats count(*) as refused by lock_key, lock_holder",
                    "sort refused desc",
                    "limit 20",
                ],
                width=2 * _WIDTH,
            )
        )


@jsii.implements(cdk.IStableStringProducer)
class _Joined:
    """The names of log groups, as one name that the CDK puts between quotes, when synthesizing."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def produce(self) -> str:
        return "' | SOURCE '".join(self._names)


def _add_action(alarm: cloudwatch.Alarm, action: cloudwatch.IAlarmAction | sns.ITopic) -> None:
    """Add the action. The CDK takes whatever can be bound: TypeError if it is no alarm action, as a subscription."""
    if hasattr(action, "topic_arn"):
        action = cloudwatch_actions.SnsAction(cast("sns.ITopic", action))
    before = _count_actions(alarm)
    alarm.add_alarm_action(action)
    if _count_actions(alarm) == before:
        raise _no_action(action)


def _count_actions(alarm: cloudwatch.Alarm) -> int:
    resource = alarm.node.default_child
    actions = resource.alarm_actions if isinstance(resource, cloudwatch.CfnAlarm) else None
    return len(cdk.Stack.of(alarm).resolve(actions) or [])


def _no_action(each: object) -> TypeError:
    return TypeError(f"alarm_actions: {kind(each)} is neither a Topic of aws_sns nor an alarm action")


def _total(label: str, summands: Mapping[str, cloudwatch.IMetric]) -> cloudwatch.MathExpression:
    expression = " + ".join(f"FILL({name}, 0)" for name in summands)
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=summands, label=label, period=Duration.minutes(1)
    )
