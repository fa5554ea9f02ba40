"""What a lock table offers to those who watch it: its alarms, and its metrics for alarms of their own."""

from __future__ import annotations

from typing import Unpack

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from ..observe import metrics
from .monitoring import MetricOptions, Watch


class Watched(Construct):
    """A construct with metrics of locks. `LockTable` is the only one, and sets ``_watch``."""

    _watch: Watch

    @property
    def alarms(self) -> tuple[cloudwatch.Alarm, ...]:
        """The alarms. Without ``alarm_actions`` there are none.

        for alarm in locks.alarms:
            alarm.add_alarm_action(action)
        """
        return tuple(self._watch.alarms.values())

    def metric_lock_lost(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of lost locks: each holder that lost its lock while it worked.

            locks.metric_lock_lost(function=function).create_alarm(self, "Lost", threshold=1, evaluation_periods=1)

        function: only those of this function, with all its versions; None: of all functions in this account, or of the
            ``metrics_group``.
        options: see MetricOptions.

        Returns the metric. Raises LockConfigurationError if the lock table has ``metrics_namespace=None``, or for a
        function if it has a ``metrics_group``, and TypeError for another object than a function.
        """
        return self._watch.metric(metrics.LOST, function, **options)

    def metric_lock_failed(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of acquires that failed: a missing permission or table, throttling, no answer.

            locks.metric_lock_failed(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(metrics.FAILED, function, **options)

    def metric_lock_not_granted(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of acquires that ended in contention.

            locks.metric_lock_not_granted(period=Duration.hours(1))

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(metrics.NOT_GRANTED, function, **options)

    def metric_duplicate_event(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of deliveries of events that were done before.

            locks.metric_duplicate_event(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(metrics.DUPLICATE, function, **options)

    def metric_lock_unavailable(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of calls that ran without their lock in an outage (``on_unavailable="run"``).

            locks.metric_lock_unavailable(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(metrics.UNAVAILABLE, function, **options)

    def metric_lock_disabled(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of calls that ran without their lock, because LAMBDA_LOCK_DISABLED was set.

            locks.metric_lock_disabled(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(metrics.DISABLED, function, **options)

    def metric_token_fell(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of rows that were older than what a client had seen of them: the table was restored or replaced.

            locks.metric_token_fell(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(metrics.TOKEN_FELL, function, **options)

    def metric_rate_limited(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of starts of rate limits that were not free within their wait.

            locks.metric_rate_limited(period=Duration.hours(1))

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(metrics.RATE_LIMITED, function, **options)
