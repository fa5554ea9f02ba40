"""The table that LockTable creates, and that it stays the same table."""

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns

from lambda_lock import LockArgumentError
from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, denying, new_function, new_stack, policies, synthesized, the_only
from tests.cdk.snapshot import SNAPSHOT, everyday_stack

TABLE = "AWS::DynamoDB::GlobalTable"  # the CloudFormation type of TableV2, even in one Region
STRING = dynamodb.AttributeType.STRING
KEY = dynamodb.Attribute(name="key", type=STRING)
needs_copies = pytest.mark.skipif(
    not hasattr(dynamodb, "TableV2MultiAccountReplica"), reason="this CDK makes no copies in other accounts"
)


def test_every_option_reaches_the_table(home):
    """What it is like without options, the snapshot says."""
    key = kms.Key(home, "Key")
    LockTable(
        home,
        "Locks",
        table_name="customer-locks",
        partition_key_name="pk",
        sort_key_name="sk",
        deletion_protection=True,
        encryption=dynamodb.TableEncryptionV2.customer_managed_key(key),
        tags={"team": "orders", "stage": "test"},
        removal_policy=cdk.RemovalPolicy.DESTROY,
        billing=dynamodb.Billing.on_demand(max_read_request_units=100, max_write_request_units=200),
        table_class=dynamodb.TableClass.STANDARD_INFREQUENT_ACCESS,
        point_in_time_recovery=False,
        contributor_insights=True,
        time_to_live=False,
        resource_policy=denying(),
        parameter_name="/platform/locks/table",
    )
    assert the_only(home, TABLE) == {
        "Type": TABLE,
        "DeletionPolicy": "Delete",
        "UpdateReplacePolicy": "Delete",
        "Properties": {
            "TableName": "customer-locks",
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            "Replicas": [
                {
                    "Region": "eu-central-1",
                    "ContributorInsightsSpecification": {"Enabled": True},
                    "DeletionProtectionEnabled": True,
                    "ReadOnDemandThroughputSettings": {"MaxReadRequestUnits": 100},
                    "ResourcePolicy": {"PolicyDocument": home.resolve(denying())},
                    "SSESpecification": {"KMSMasterKeyId": home.resolve(key.key_arn)},
                    "TableClass": "STANDARD_INFREQUENT_ACCESS",
                    "Tags": [{"Key": "team", "Value": "orders"}, {"Key": "stage", "Value": "test"}],
                }
            ],
            "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
            "WriteOnDemandThroughputSettings": {"MaxWriteRequestUnits": 200},
        },
    }
    parameter = the_only(home, "AWS::SSM::Parameter")["Properties"]
    assert (parameter["Name"], parameter["Value"]) == ("/platform/locks/table", {"Ref": "LocksTable84FB9352"})


@pytest.mark.parametrize(
    ("options", "protected"),
    [
        ({}, True),
        ({"removal_policy": cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE}, True),
        ({"removal_policy": None}, True),  # the CDK retains a table then
        ({"removal_policy": cdk.RemovalPolicy.DESTROY}, False),
        ({"deletion_protection": False}, False),
    ],
    ids=str,
)
def test_a_table_that_is_retained_is_protected_unless_told_otherwise(options, protected, stack):
    LockTable(stack, "Locks", **options)
    assert the_only(stack, TABLE)["Properties"]["Replicas"][0]["DeletionProtectionEnabled"] is protected


@pytest.mark.skipif(not hasattr(dynamodb, "WarmThroughput"), reason="this CDK has no warm throughput")
def test_warm_throughput_and_specifications_are_passed_on(stack):
    LockTable(
        stack,
        "Locks",
        warm_throughput=dynamodb.WarmThroughput(read_units_per_second=13000, write_units_per_second=5000),
        point_in_time_recovery=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True, recovery_period_in_days=3
        ),
        contributor_insights=dynamodb.ContributorInsightsSpecification(
            enabled=True, mode=dynamodb.ContributorInsightsMode.THROTTLED_KEYS
        ),
    )
    properties = the_only(stack, TABLE)["Properties"]
    (replica,) = properties["Replicas"]
    assert properties["WarmThroughput"] == {"ReadUnitsPerSecond": 13000, "WriteUnitsPerSecond": 5000}
    assert replica["PointInTimeRecoverySpecification"]["RecoveryPeriodInDays"] == 3
    assert replica["ContributorInsightsSpecification"]["Mode"] == "THROTTLED_KEYS"


def test_the_table_is_typed_as_what_it_is(stack):
    """The annotations are for the type checker, which checks this file too."""
    made: dynamodb.TableV2 = LockTable(stack, "Made").table
    named: dynamodb.ITableV2 = LockTable.from_table_name(stack, "Named", "named").table
    older: dynamodb.Table = LockTable.from_table(stack, "Older", _older_table(stack)).table
    any_table: LockTable = LockTable.from_table(stack, "Other", made)
    assert isinstance(made, dynamodb.TableV2)
    assert isinstance(older, dynamodb.Table)
    assert named.table_name == "named"
    assert any_table.table is made


def _older_table(stack: cdk.Stack, id: str = "OlderTable", **options: Any) -> dynamodb.Table:
    return dynamodb.Table(stack, id, **({"partition_key": KEY} | options))


def test_a_table_of_the_app_is_granted_with_its_key_and_told_by_its_name(home):
    key = kms.Key(home, "Key")
    table = _older_table(home, encryption_key=key)
    locks = LockTable.from_table(home, "Locks", table, alarm_actions=[])
    locks.connect(new_function(home))
    (policy,) = policies(home)
    arns = [statement["Resource"] for statement in policy["Statement"]]
    assert arns == [home.resolve(table.table_arn), home.resolve(key.key_arn)]
    assert home.resolve(locks.environment["LAMBDA_LOCK_TABLE"]) == home.resolve(table.table_name)
    assert len(locks.alarms) == 7


def test_an_imported_table_can_be_passed_too(home):
    arn = "arn:aws:dynamodb:eu-central-1:222222222222:table/theirs"
    locks = LockTable.from_table(home, "Locks", dynamodb.Table.from_table_arn(home, "Theirs", arn))
    assert locks.environment["LAMBDA_LOCK_TABLE"] == arn


def test_a_table_of_the_app_with_other_keys_is_refused(home):
    table = _older_table(home, sort_key=dynamodb.Attribute(name="sk", type=STRING))
    numbers = dynamodb.Attribute(name="key", type=dynamodb.AttributeType.NUMBER)
    with pytest.raises(LockArgumentError, match="sort_key_name=None, but Stack/OlderTable has 'sk'"):
        LockTable.from_table(home, "Locks", table)
    with pytest.raises(LockArgumentError, match="partition_key_name='pk', but Stack/OlderTable has 'key'"):
        LockTable.from_table(home, "Others", table, partition_key_name="pk", sort_key_name="sk")
    LockTable.from_table(home, "Right", table, sort_key_name="sk")
    with pytest.raises(LockArgumentError, match="its key 'key' has the type N"):
        LockTable.from_table(home, "Numbered", _older_table(home, "Numbers", partition_key=numbers))


def test_a_table_of_the_app_whose_time_to_live_is_on_another_attribute_is_refused(home):
    """As by check_table. DynamoDB deletes a row by that attribute, also that of a live lock."""
    table = _older_table(home, time_to_live_attribute="expires")
    newer = dynamodb.TableV2(home, "Newer", partition_key=KEY, time_to_live_attribute="expires")
    cases: list[Any] = [(table, {}), (table, {"ttl": None}), (newer, {})]
    for number, (each, given) in enumerate(cases):
        said = f"ttl={given.get('ttl', 'ttl')!r}, but the time to live of {each.node.path} is on 'expires'"
        with pytest.raises(LockArgumentError, match=said):
            LockTable.from_table(home, f"Locks{number}", each, **given)
    LockTable.from_table(home, "Theirs", table, ttl="expires")


def test_one_of_a_tables_replicas_is_refused_too(home):
    other = cdk.Stack(home.node.root, "Other", env=cdk.Environment(account=ACCOUNT, region="us-east-1"))
    LockTable.from_table(other, "Locks", _replicated(home).replica("us-east-1"))
    with pytest.raises(RuntimeError, match="two Regions would each grant the same lock"):
        synthesized(other)


@needs_copies
def test_a_copy_in_another_account_is_refused_on_both_sides(home):
    other = cdk.Stack(home.node.root, "Other", env=cdk.Environment(account="222222222222", region="us-east-1"))
    table: Any = LockTable(home, "Locks", table_name="locks").table
    copy = dynamodb.TableV2MultiAccountReplica(other, "Copy", replica_source_table=table, table_name="locks")
    LockTable.from_table(other, "Copied", copy)
    with pytest.raises(RuntimeError, match="two Regions would each grant") as raised:
        synthesized(other)
    assert "[Stack/Locks/Table]" in str(raised.value)
    assert "[Other/Copy]" in str(raised.value)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda locks, stack, table: locks.from_table_arn(stack, "L", table), "table_arn must be a str, not Table"),
        (lambda locks, stack, table: locks.from_table_name(stack, "L", table), "table_name must be a str, not Table"),
        (lambda locks, stack, table: locks(stack, "L", table_name=table), "table_name must be a str, not Table"),
        (lambda locks, stack, table: locks.from_table(stack, "L", "locks"), "table must be an ITable or an ITableV2"),
        (lambda locks, stack, table: locks(stack, "L", alarm_actions=sns.Topic(stack, "T")), "alarm_actions must be a"),
        (lambda locks, stack, table: locks(stack, "L", alarm_actions=["arn:aws"]), "alarm_actions: 'arn:aws' .str. is"),
        (lambda locks, stack, table: locks(stack, "L", metrics_namespace=7), "metrics_namespace must be a str or None"),
        (lambda locks, stack, table: locks(stack, "L", time_to_live="ttl"), "time_to_live must be True or False, not"),
        (lambda locks, stack, table: locks(stack, "L", dashboard="Locks"), "dashboard must be True or False, not 'Lo"),
        (lambda locks, stack, table: locks(stack, "L", point_in_time_recovery="on"), "point_in_time_recovery must be"),
        (lambda locks, stack, table: locks(stack, "L", contributor_insights=1), "contributor_insights must be True"),
        (lambda locks, stack, table: locks(stack, "L", tags=["team"]), "tags must be a dict of str and str"),
        (lambda locks, stack, table: locks(stack, "L", partition_key_name=None), "partition_key_name must be a str"),
        (
            lambda locks, stack, table: locks.from_table(stack, "L", table, encryption_key="arn:aws:kms"),
            "encryption_key must be a Key of aws_kms or None, not 'arn:aws:kms'",
        ),
        (lambda locks, stack, table: locks(stack, "L").connect("function"), "function must be a Function of aws_la"),
        (lambda locks, stack, table: locks(stack, "L").metric_lock_lost(function="f"), "function must be a Function"),
        (lambda locks, stack, table: locks(stack, "L").grant("role"), "grantee must be a function, a role or"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_by_its_name(use, said, stack):
    with pytest.raises(TypeError, match=said):
        use(LockTable, stack, _older_table(stack))


def test_the_template_with_its_logical_ids_is_the_one_of_the_snapshot():
    """A table with another logical id is another table, and for a while both would grant the same locks.

    If a change is intended and the id of no table changes, run: python -m tests.cdk.snapshot
    """
    assert synthesized(everyday_stack()) == json.loads(SNAPSHOT.read_text())


def test_alarms_and_dashboard_leave_the_ids_of_everything_else_alone(stack, locks):
    watched = new_stack()
    LockTable(watched, "Locks", alarm_actions=[], dashboard=True)
    before, after = synthesized(stack)["Resources"], synthesized(watched)["Resources"]
    assert {id: after[id] for id in before} == before


def _add_replica(stack: cdk.Stack) -> None:
    LockTable(stack, "Locks").table.add_replica(region="us-east-1")


def _older_table_with_replicas(stack: cdk.Stack) -> None:
    LockTable.from_table(stack, "Locks", _older_table(stack, replication_regions=["us-east-1"]))


def _replicated(stack: cdk.Stack) -> dynamodb.TableV2:
    replicas = [dynamodb.ReplicaTableProps(region="us-east-1")]
    return dynamodb.TableV2(stack, "Replicated", table_name="replicated", partition_key=KEY, replicas=replicas)


def _table_with_replicas(stack: cdk.Stack) -> None:
    LockTable.from_table(stack, "Locks", _replicated(stack))


@pytest.mark.parametrize("make", [_add_replica, _older_table_with_replicas, _table_with_replicas])
def test_replicas_that_the_table_has_or_gets_are_refused_when_synthesizing(make, home):
    make(home)
    with pytest.raises(RuntimeError, match="two Regions would each grant the same lock"):
        synthesized(home)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition_key_name": ""}, "partition_key_name=''"),
        ({"partition_key_name": "ttl"}, "partition_key_name='ttl' is also the name of an attribute that locks write"),
        ({"sort_key_name": "data"}, "sort_key_name='data' is also the name of an attribute that locks write"),
        ({"sort_key_name": "key"}, "sort_key_name='key' is already the partition key"),
        ({"table_name": "no name"}, "table_name='no name' is not a valid table name"),
        ({"table_name": ""}, "is not a valid table name"),
        (
            {"replicas": [dynamodb.ReplicaTableProps(region="us-east-1")]},
            r"two Regions would each grant the same lock\. .* strong consistency",
        ),
        ({"table_name": "arn:aws:dynamodb:us-east-1:111111111111:table/locks"}, "use LockTable.from_table_arn"),
    ],
)
def test_bad_options_are_refused_by_name(options, said):
    with pytest.raises(LockArgumentError, match=said):
        LockTable(new_stack(), "Locks", **options)


def test_a_name_may_be_known_at_deployment_only(stack):
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
def test_an_arn_that_a_function_could_not_use_is_refused(arn, said, home):
    with pytest.raises(LockArgumentError, match=said):
        LockTable.from_table_arn(home, "Locks", arn)
