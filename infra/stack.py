"""The sample: a lock table, and four functions that share it.

    orders (SQS) -> Orders        payments (SQS FIFO) -> Payments        EventBridge rule -> Invoices
    nightly schedule -> Report

All of them write to a ledger, the application's own table. Messages and events that they could not process go to a
dead-letter queue, which raises an alarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambda_lock.cdk import LockLayer, LockTable

from . import assets

_RUNTIME = lambda_.Runtime.PYTHON_3_13
_TIMEOUT = Duration.seconds(15)  # below the lease of 20 s, so a lock ends with the invocation and needs no heartbeats
_VISIBILITY = Duration.seconds(6 * 15)  # six times the timeout, as Lambda's guide for SQS recommends
_RECEIVES = 5  # the minimum that the same guide recommends, because a throttled function uses up receives too
_RETRIES = 2
# The beginnings of the keys that a function locks and deduplicates: what its decorators say, in functions/.
PREFIXES = {
    "Orders": ("orders#", "customer#"),
    "Payments": ("payments#", "customer#"),
    "Invoices": ("invoices#",),
    "Report": ("report#",),
}


class SampleStack(cdk.Stack):
    """The sample's stack.

    beside_functions: programs to add to the functions' package, their texts by their names.
    """

    def __init__(
        self, scope: Construct, id: str, *, beside_functions: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(scope, id, description="lambda_lock: a lock table and sample functions", **options)
        self._alarm_topic = self._make_alarm_topic()
        self._locks = LockTable(self, "Locks", alarm_actions=[self._alarm_topic], dashboard=True)
        self._ledger = self._make_ledger()
        self._library = LockLayer(self, "Library", runtimes=[_RUNTIME])
        with assets.functions(beside_functions or {}) as self._code:
            self._consumer("Orders", max_concurrency=10)
            self._consumer("Payments", fifo=True)
            self._invoices()
            self._report()
        self._output("LockTable", self._locks.table.table_name)
        self._output("LedgerTable", self._ledger.table_name)
        self._output("AlarmTopic", self._alarm_topic.topic_arn)

    def _consumer(self, name: str, *, fifo: bool = False, max_concurrency: int | None = None) -> None:
        """Add a queue and its function. On a FIFO queue, the message groups limit the concurrency."""
        queue = self._queue(
            f"{name}Queue",
            fifo=fifo,
            visibility_timeout=_VISIBILITY,
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self._dead_letters(name, fifo=fifo), max_receive_count=_RECEIVES
            ),
        )
        function = self._function(name)
        function.add_event_source(
            event_sources.SqsEventSource(
                queue, batch_size=10, report_batch_item_failures=True, max_concurrency=max_concurrency
            )
        )
        self._output(f"{name}QueueUrl", queue.queue_url)

    def _invoices(self) -> None:
        """Add a rule and its function. Two things can fail: the delivery to Lambda, and the function itself."""
        function, dead_letters = self._function("Invoices"), self._dead_events("Invoices")
        function.configure_async_invoke(
            retry_attempts=_RETRIES,
            max_event_age=Duration.hours(1),
            on_failure=destinations.SqsDestination(dead_letters),
        )
        events.Rule(
            self,
            "InvoiceRequested",
            event_pattern=events.EventPattern(source=["com.example.billing"], detail_type=["InvoiceRequested"]),
            targets=[self._target(function, dead_letters)],
        )

    def _report(self) -> None:
        """Add a schedule and its function. A report that failed is not retried until the next night."""
        function, dead_letters = self._function("Report"), self._dead_events("Report")
        function.configure_async_invoke(retry_attempts=0, on_failure=destinations.SqsDestination(dead_letters))
        events.Rule(
            self,
            "Nightly",
            schedule=events.Schedule.cron(hour="2", minute="0"),
            targets=[self._target(function, dead_letters)],
        )

    def _function(self, name: str) -> lambda_.Function:
        """Add the function in functions/<name>.py.

        It may use locks with its own prefixes, add to the ledger, and write logs and traces, nothing else.
        """
        log_group = logs.LogGroup(
            self, f"{name}Logs", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        role = iam.Role(self, f"{name}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        function = lambda_.Function(
            self,
            name,
            runtime=_RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"functions.{name.lower()}.handler",
            code=self._code,
            layers=[self._library],
            memory_size=256,
            timeout=_TIMEOUT,
            role=role,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,  # above it, Lambda would drop the locks' metrics
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            tracing=lambda_.Tracing.ACTIVE,
            environment={"LEDGER_TABLE": self._ledger.table_name},
        )
        _acknowledge(function, "AwsSolutions-L1", "The sample runs on Python 3.13, which Lambda supports until 2029.")
        _acknowledge(role, "AwsSolutions-IAM5[Resource::*]", "Traces have no resource that a policy could name.")
        log_group.grant_write(role)
        self._locks.connect(function, key_prefixes=PREFIXES[name])
        self._ledger.grant(function, "dynamodb:UpdateItem")
        self._output(f"{name}Function", function.function_name)
        return function

    def _make_ledger(self) -> dynamodb.TableV2:
        return dynamodb.TableV2(
            self,
            "Ledger",
            partition_key=dynamodb.Attribute(name="customer", type=dynamodb.AttributeType.STRING),
            billing=dynamodb.Billing.on_demand(),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=RemovalPolicy.DESTROY,  # the sample's data is not worth keeping
        )

    def _make_alarm_topic(self) -> sns.Topic:
        topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        # enforce_ssl gives the topic a policy of its own. It replaces the default policy, which let alarms publish.
        topic.grant_publish(
            iam.ServicePrincipal(
                "cloudwatch.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": self.account}}
            )
        )
        return topic

    def _target(self, function: lambda_.Function, dead_letters: sqs.Queue) -> targets.LambdaFunction:
        return targets.LambdaFunction(
            function, dead_letter_queue=dead_letters, retry_attempts=_RETRIES, max_event_age=Duration.hours(1)
        )

    def _dead_letters(self, name: str, *, fifo: bool = False) -> sqs.Queue:
        """Add a queue for messages and events that could not be processed, with an alarm."""
        queue = self._queue(f"{name}DeadLetters", fifo=fifo, retention_period=Duration.days(14))
        alarm = cloudwatch.Alarm(
            queue,
            "Arrived",
            metric=queue.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic=cloudwatch.Stats.MAXIMUM
            ),
            alarm_description=f"{name} could not process something: see the dead-letter queue.",
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=0,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(cloudwatch_actions.SnsAction(self._alarm_topic))
        return queue

    def _dead_events(self, name: str) -> sqs.Queue:
        """Add the same for a function that is not fed by a queue."""
        queue = self._dead_letters(name)
        _acknowledge(queue, "AwsSolutions-SQS3", "It is a dead-letter queue itself: that of a rule and a function.")
        return queue

    def _queue(self, id: str, *, fifo: bool, **options: Any) -> sqs.Queue:
        # CloudFormation does not accept fifo=False for a standard queue, so leave it out.
        return sqs.Queue(self, id, fifo=fifo or None, enforce_ssl=True, removal_policy=RemovalPolicy.DESTROY, **options)

    def _output(self, name: str, value: str) -> None:
        cdk.CfnOutput(self, f"{name}Out", value=value).override_logical_id(name + "Output")


def _acknowledge(construct: Construct, rule: str, reason: str) -> None:
    """Tell cdk-nag why a finding is acceptable."""
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=rule, reason=reason))
