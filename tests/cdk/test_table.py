"""The table that LockTable creates, and that it stays the same table."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms

from lambda_lock import JAVA, PYTHON, LockArgumentError
from lambda_lock.cdk import LockTable
from tests.cdk.apps import in_an_account, new_function, new_stack, resources, synthesized, the_only
from tests.cdk.snapshot import SNAPSHOT, everyday_stack

TABLE = "AWS::DynamoDB::GlobalTable"  # the CloudFormation type of TableV2, even in one Region


def test_a_new_table_is_on_demand_unnamed_with_time_to_live_and_kept_when_the_stack_goes() -> None:
    stack = new_stack()
    LockTable(stack, "Locks")
    assert the_only(stack, TABLE) == {
        "Type": TABLE,
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}],
            "Replicas": [{"Region": {"Ref": "AWS::Region"}, "DeletionProtectionEnabled": False}],
            "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": True},
        },
    }


def test_every_option_reaches_the_table() -> None:
    stack = in_an_account()
    key = kms.Key(stack, "Key")
    LockTable(
        stack,
        "Locks",
        table_name="customer-locks",
        partition_key_name="pk",
        sort_key_name="sk",
        deletion_protection=True,
        encryption=dynamodb.TableEncryptionV2.customer_managed_key(key),
        tags={"team": "orders", "stage": "test"},
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    assert the_only(stack, TABLE) == {
        "Type": TABLE,
        "DeletionPolicy": "Delete",
        "UpdateReplacePolicy": "Delete",
        "Properties": {
            "TableName": "customer-locks",
            "AttributeDefinitions": [
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            "Replicas": [
                {
                    "Region": "eu-central-1",
                    "DeletionProtectionEnabled": True,
                    "SSESpecification": {"KMSMasterKeyId": stack.resolve(key.key_arn)},
                    "Tags": [{"Key": "team", "Value": "orders"}, {"Key": "stage", "Value": "test"}],
                }
            ],
            "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
            "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": True},
        },
    }


def test_tags_of_the_stack_reach_the_table() -> None:
    stack = new_stack()
    LockTable(stack, "Locks")
    cdk.Tags.of(stack).add("team", "orders")
    assert the_only(stack, TABLE)["Properties"]["Replicas"][0]["Tags"] == [{"Key": "team", "Value": "orders"}]


def test_the_template_with_its_logical_ids_is_the_one_of_the_snapshot() -> None:
    """A table with another logical id is another table, and for a while both would grant the same locks.

    If a change is intended and the id of no table changes, run: python -m tests.cdk.snapshot
    """
    assert synthesized(everyday_stack()) == json.loads(SNAPSHOT.read_text())


def test_alarms_and_dashboard_leave_the_ids_of_everything_else_alone() -> None:
    plain, watched = in_an_account(), in_an_account()
    LockTable(plain, "Locks")
    LockTable(watched, "Locks", alarm_actions=[], dashboard=True)
    before, after = synthesized(plain)["Resources"], synthesized(watched)["Resources"]
    assert {id: after[id] for id in before} == before


def test_an_existing_table_is_not_made_again() -> None:
    stack = new_stack()
    arn = "arn:aws:dynamodb:us-east-1:111111111111:table/locks"
    LockTable.from_table_name(stack, "Named", "locks").connect(new_function(stack, "One"))
    LockTable.from_table_arn(stack, "Given", arn).connect(new_function(stack, "Another"))
    assert resources(stack, TABLE) == {}


def test_replicas_are_refused_with_the_reason() -> None:
    replicas = [dynamodb.ReplicaTableProps(region="us-east-1")]
    with pytest.raises(LockArgumentError, match=r"two Regions would each grant the same lock\. .* strong consistency"):
        LockTable(new_stack(), "Locks", replicas=replicas)


def test_replicas_that_are_added_to_the_table_itself_are_refused_when_synthesizing() -> None:
    stack = in_an_account()
    table: Any = LockTable(stack, "Locks").table
    table.add_replica(region="us-east-1")
    with pytest.raises(RuntimeError, match="two Regions would each grant the same lock"):
        synthesized(stack)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition_key_name": ""}, "partition_key_name=''"),
        ({"partition_key_name": "ttl"}, "partition_key_name='ttl' is also the name of an attribute that locks write"),
        ({"sort_key_name": "data"}, "sort_key_name='data' is also the name of an attribute that locks write"),
        ({"sort_key_name": "key"}, "sort_key_name='key' is already the partition key"),
        ({"table_name": "no name"}, "is not a valid table name"),
        ({"table_name": ""}, "is not a valid table name"),
        ({"table_name": "arn:aws:dynamodb:us-east-1:111111111111:table/locks"}, "use LockTable.from_table_arn"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(LockArgumentError, match=said):
        LockTable(new_stack(), "Locks", **options)


def test_a_name_may_be_known_at_deployment_only() -> None:
    stack = new_stack()
    LockTable(stack, "Locks", table_name=cdk.CfnParameter(stack, "Name").value_as_string)
    assert the_only(stack, TABLE)["Properties"]["TableName"] == {"Ref": "Name"}


@pytest.mark.parametrize(
    ("arn", "said"),
    [
        ("locks", "is not the ARN of a table"),
        ("arn:aws:sqs:eu-central-1:111111111111:locks", "is not the ARN of a table"),
        ("arn:aws:dynamodb:eu-central-1:111111111111:table/locks/index/byOwner", "is not the ARN of a table"),
        ("arn:aws:dynamodb:eu-central-1:111111111111:table/locks/stream/2026", "is not the ARN of a table"),
        ("arn:aws:dynamodb:us-east-1:111111111111:table/locks", "the stack is in eu-central-1"),
    ],
)
def test_an_arn_that_a_function_could_not_use_is_refused(arn: str, said: str) -> None:
    with pytest.raises(LockArgumentError, match=said):
        LockTable.from_table_arn(in_an_account(), "Locks", arn)


def test_the_time_to_live_is_where_the_library_writes_it() -> None:
    stack = new_stack()
    LockTable(stack, "Locks")
    assert the_only(stack, TABLE)["Properties"]["TimeToLiveSpecification"]["AttributeName"] == JAVA.ttl != PYTHON.ttl
