"""The waker of a lock table: the function that wakes the executions which sleep until a lock is free.

Its code is ``lambda_lock.waker``, from a layer as LockLayer makes it, and one line that names it. The table's stream
says what has changed, and a queue of its own what is due later.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TypeAlias, cast

import aws_cdk as cdk
from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from ..errors import LockArgumentError, LockConfigurationError
from ..waker.function import FILTERS, QUEUE_VARIABLE
from .arguments import wrong
from .lock_layer import LockLayer
from .synthesis import judge, warn
from .tables import differ

WakeTarget: TypeAlias = sfn.IStateMachine | lambda_.IFunction

STREAM = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
NONE = (
    "the waker is made with its table. Pass wake=True to the LockTable(…) that makes the table, and call wake() on "
    "that one, not on a LockTable.from_… of it. For a table that is there already, see docs/waiting-asleep.md"
)
TASK, CALLBACK = "states:SendTaskSuccess", "lambda:SendDurableExecutionCallbackSuccess"

_STREAM_ACTIONS = [f"dynamodb:{each}" for each in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")]
_QUEUE_ACTIONS = [f"sqs:{each}" for each in ("SendMessage", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes")]


def check(wake: object, sort_key_name: str | None) -> lambda_.Runtime | None:
    """The runtime of the waker that LockTable is to have. None: it has none."""
    if not isinstance(wake, bool | lambda_.Runtime):
        raise wrong("wake", wake, "True, False or a Runtime of aws_lambda")
    if wake is False:
        return None
    if sort_key_name is not None:
        raise LockArgumentError(
            f"wake={wake!r} with sort_key_name={sort_key_name!r}: executions sleep on tables without a sort key only. "
            "Leave one of them out, or make another table for the locks that executions wait for"
        )
    if isinstance(wake, lambda_.Runtime):
        return wake
    name = f"python3.{min(sys.version_info.minor, 14)}"  # 3.14 is the newest that Lambda runs
    return lambda_.Runtime(name, lambda_.RuntimeFamily.PYTHON, supports_inline_code=True)


class Waker(Construct):
    """The function, its queue and what feeds it.

    table: the lock table, with a stream of new and old images. runtime: the function's, for which the layer is made.
    """

    def __init__(self, scope: Construct, id: str, table: dynamodb.ITableV2, runtime: lambda_.Runtime) -> None:
        super().__init__(scope, id)
        self._runtime = runtime
        self._calls_somebody = False
        self._dead = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        self._queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            # The guide recommends six times the timeout, so that throttling uses up no receives. Here there are many of
            # them, and after a look that was killed, the lock stays free for this long.
            visibility_timeout=Duration.seconds(90),
            retention_period=Duration.days(1),
            # Two and a half hours of failures: by then many a sleeper has looked by itself.
            dead_letter_queue=sqs.DeadLetterQueue(queue=self._dead, max_receive_count=100),
        )
        log_group = logs.LogGroup(
            self, "Log", retention=logs.RetentionDays.ONE_MONTH, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        self.function = lambda_.Function(
            self,
            "Function",
            description="lambda_lock: wakes executions that sleep until a lock is free",
            runtime=runtime,
            architecture=lambda_.Architecture.ARM_64,
            handler="index.handler",
            role=iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")),
            log_group=log_group,
            code=lambda_.Code.from_inline("from lambda_lock.waker import handler\n"),
            layers=[LockLayer(self, "Library", runtimes=[runtime])],
            memory_size=512,
            timeout=Duration.seconds(60),  # the longest look takes 20 s, and begins only while 30 s are left
            recursive_loop=lambda_.RecursiveLoop.ALLOW,  # a look asks for the next; Lambda would stop it at the 16th
            environment={QUEUE_VARIABLE: self._queue.queue_url},
        )
        log_group.grant_write(self.function)
        stream = str(table.table_stream_arn)
        for actions, arn in ((_STREAM_ACTIONS, stream), (_QUEUE_ACTIONS, self._queue.queue_arn)):
            self.function.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=[arn]))
        self._stream = self.function.add_event_source_mapping(
            "Stream",
            event_source_arn=stream,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=100,
            bisect_batch_on_error=True,
            max_record_age=Duration.hours(1),
            on_failure=event_sources.SqsDlq(self._dead),
            report_batch_item_failures=True,
            filters=[{"pattern": json.dumps(each)} for each in FILTERS],
        )
        self._due = self.function.add_event_source_mapping(
            "Due", event_source_arn=self._queue.queue_arn, batch_size=10, report_batch_item_failures=True
        )
        for mapping in (self._stream, self._due):  # the oldest CDK has no argument for it
            resource = cast("lambda_.CfnEventSourceMapping", mapping.node.default_child)
            resource.add_property_override("MetricsConfig", {"Metrics": ["EventCount"]})
        judge(self, self._judge)

    def allow(self, sleeper: WakeTarget) -> iam.Grant:
        """See LockTable.wake."""
        given: object = sleeper
        if not hasattr(given, "state_machine_arn") and not hasattr(given, "function_arn"):
            wanted = "a StateMachine of aws_stepfunctions or a Function of aws_lambda"
            raise wrong("target", given, wanted, ". For an ARN, call StateMachine.from_state_machine_arn")
        if getattr(given, "state_machine_type", None) == sfn.StateMachineType.EXPRESS:
            raise LockArgumentError(
                f"target={sleeper.node.path} is an Express workflow, which cannot wait for a task token. Use a "
                "Standard workflow"
            )
        if not hasattr(given, "state_machine_arn") and not _knows_durable_functions(self._runtime):
            raise LockConfigurationError(
                f"wake: the waker of {self.node.path} runs on {self._runtime.name}, whose boto3 cannot call "
                f"{sleeper.node.path} or any other durable function. Make the table with "
                "wake=lambda_.Runtime.PYTHON_3_13 or a newer one"
            )
        ours = cdk.Stack.of(self)
        if differ(sleeper.env.account, ours.account) or differ(sleeper.env.region, ours.region):
            raise LockConfigurationError(
                f"wake: {sleeper.node.path} is in another account or Region than {self.node.path}, which could not "
                "call it. Use a lock table of its own account and Region"
            )
        # The policy is a part of the sleeper's stack, which refers to the lock table's already. The other way round, no
        # stack could be deployed first. Named by its logical id, it could replace another stack's policy of the role.
        name = cdk.Names.unique_resource_name(sleeper, max_length=120, separator="-")
        stack, id = cdk.Stack.of(sleeper), f"Wake{self.node.addr[-8:]}{sleeper.node.addr[-8:]}"
        policy = cast("iam.Policy | None", stack.node.try_find_child(id))
        if policy is None:
            policy = iam.Policy(stack, id, policy_name=name, roles=[cast("iam.IRole", self.function.role)])
        machine: str | None = getattr(sleeper, "state_machine_arn", None)
        arn: str = machine or cast("Any", getattr(sleeper, "lambda_", sleeper)).function_arn
        if not cdk.Token.is_unresolved(arn):
            arn = ":".join(arn.split(":")[:7])  # without a version or alias: an execution of any may sleep
        action, on = (TASK, arn) if machine else (CALLBACK, f"{arn}:*")
        self._calls_somebody = True
        return iam.Grant.add_to_principal(grantee=policy, actions=[action], resource_arns=[on])

    def _judge(self, _: object) -> None:
        if not self._calls_somebody:
            warn(
                self,
                "nobody-to-wake",
                f"{self.node.path} may wake nobody, so executions that sleep go on at their time-outs only. Call "
                "wake(target) of the lock table for each state machine and durable function, or leave out wake=",
            )

    def metrics(self) -> dict[str, cloudwatch.IMetric]:
        """The metrics that alarms watch, by the ids of the alarms."""
        minute = Duration.minutes(1)
        return {
            "WakerErrors": self.function.metric_errors(period=minute),
            "WakerLate": self.function.metric("IteratorAge", period=minute, statistic=cloudwatch.Stats.MAXIMUM),
            "WakerQueue": self._queue.metric_approximate_age_of_oldest_message(period=minute),
            "WakerDead": self._dead.metric_approximate_number_of_messages_visible(period=minute),
            "WakerStreamOff": _polls(self._stream),
            "WakerQueueOff": _polls(self._due),
        }


def _polls(mapping: lambda_.EventSourceMapping) -> cloudwatch.Metric:
    """How often Lambda has polled. A poll that finds nothing counts 0 events. A mapping that is off does not poll."""
    return cloudwatch.Metric(
        namespace="AWS/Lambda",
        metric_name="PolledEventCount",
        dimensions_map={"EventSourceMappingUUID": mapping.event_source_mapping_id},
        statistic=cloudwatch.Stats.SAMPLE_COUNT,
        period=Duration.minutes(5),
    )


def _knows_durable_functions(runtime: lambda_.Runtime) -> bool:
    """Whether the runtime's boto3 can answer a callback. A runtime that is not one of Lambda's for Python may."""
    minor = runtime.name.removeprefix("python3.")
    return not minor.isdigit() or int(minor) >= 13
