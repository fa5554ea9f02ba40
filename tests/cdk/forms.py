"""Each form that a LockTable can have in an app, with whom it grants."""

from collections.abc import Callable

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn

from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, REGION, new_role


def _python(minor: int) -> lambda_.Runtime:
    return lambda_.Runtime(f"python3.{minor}", lambda_.RuntimeFamily.PYTHON, supports_inline_code=True)


OLD_PYTHON, NEWEST_PYTHON = _python(13), _python(14)


def _topic(stack: cdk.Stack) -> sns.ITopic:
    return sns.Topic.from_topic_arn(stack, "Topic", f"arn:aws:sns:{REGION}:{ACCOUNT}:alarms")


def plain(stack: cdk.Stack) -> None:
    LockTable(stack, "Locks").grant(new_role(stack))


def with_all_options(stack: cdk.Stack) -> None:
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    locks = LockTable(
        stack,
        "Locks",
        table_name="locks",
        sort_key_name="part",
        encryption=dynamodb.TableEncryptionV2.customer_managed_key(key),
        tags={"team": "orders"},
        billing=dynamodb.Billing.on_demand(max_write_request_units=500),
        table_class=dynamodb.TableClass.STANDARD_INFREQUENT_ACCESS,
        contributor_insights=True,
        metrics_group="orders",
        alarm_actions=[cloudwatch_actions.SnsAction(_topic(stack))],
        dashboard=True,
        parameter_name="/platform/locks",
    )
    role = new_role(stack)
    locks.grant(role, key_prefixes=["invoice#"])
    locks.grant_inspect(role)
    locks.grant_list(role)
    locks.grant(iam.AccountPrincipal("222222222222"))


def to_be_deleted(stack: cdk.Stack) -> None:
    LockTable(stack, "Locks", removal_policy=cdk.RemovalPolicy.DESTROY, time_to_live=False).grant(new_role(stack))


def with_a_waker(stack: cdk.Stack) -> None:
    locks = LockTable(stack, "Locks", wake=NEWEST_PYTHON, alarm_actions=[_topic(stack)], dashboard=True)
    machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:orders"
    locks.wake(sfn.StateMachine.from_state_machine_arn(stack, "Orders", machine))


def of_a_table_by_name(stack: cdk.Stack) -> None:
    LockTable.from_table_name(stack, "Locks", "locks", alarm_actions=[], dashboard=True).grant(new_role(stack))


def of_a_table_of_another_account(stack: cdk.Stack) -> None:
    arn = f"arn:aws:dynamodb:{REGION}:222222222222:table/locks"
    LockTable.from_table_arn(stack, "Locks", arn, alarm_actions=[]).grant(new_role(stack))


def of_a_table_of_the_app(stack: cdk.Stack) -> None:
    key = dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING)
    table = dynamodb.Table(
        stack,
        "Older",
        partition_key=key,
        time_to_live_attribute="ttl",
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
    )
    LockTable.from_table(stack, "Locks", table, partition_key_name="id", alarm_actions=[]).grant(new_role(stack))


FORMS: dict[str, Callable[[cdk.Stack], None]] = {
    made.__name__: made
    for made in (
        plain,
        with_all_options,
        to_be_deleted,
        with_a_waker,
        of_a_table_by_name,
        of_a_table_of_another_account,
        of_a_table_of_the_app,
    )
}
