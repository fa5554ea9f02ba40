"""A table that another Region refers to needs a name of its own: with one that the CDK chooses, it is replaced."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from lambda_lock import LockConfigurationError
from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, REGION, new_role, policies, the_only
from tests.cdk.statements import allow
from tests.cdk.test_grants import KEY_ACTIONS, VIA_DYNAMODB
from tests.cdk.test_other_accounts import ARN, KEYS

TABLE = "AWS::DynamoDB::GlobalTable"
REFUSED = r"User/\w+ is in another account or Region than Owner/Locks.*Set table_name=.*both would grant the same locks"


def _stacks(**options: Any) -> tuple[cdk.Stack, cdk.Stack]:
    app = cdk.App()
    owner, user = (
        cdk.Stack(app, id, env=cdk.Environment(account=ACCOUNT, region=region), **options)
        for id, region in (("Owner", REGION), ("User", "us-east-1"))
    )
    return owner, user


@pytest.mark.parametrize("grant", [LockTable.grant, LockTable.grant_inspect, LockTable.grant_list])
@pytest.mark.parametrize(
    "grantee", [new_role, lambda stack: iam.ManagedPolicy(stack, "Policy")], ids=["role", "policy"]
)
def test_a_grant_to_another_region_is_refused_unless_the_table_has_a_name(grant, grantee):
    owner, user = _stacks()
    with pytest.raises(LockConfigurationError, match=REFUSED):
        grant(LockTable(owner, "Locks"), grantee(user))
    owner, user = _stacks()
    assert grant(LockTable(owner, "Locks", table_name="locks"), grantee(user)).success
    (policy,) = policies(user)
    assert policy["Statement"][0]["Resource"] == ARN


def test_a_stack_without_an_account_is_another_one_to_the_cdk():
    app = cdk.App()
    owner = cdk.Stack(app, "Owner", env=cdk.Environment(account=ACCOUNT, region=REGION))
    with pytest.raises(LockConfigurationError, match=REFUSED):
        LockTable(owner, "Locks").grant(new_role(cdk.Stack(app, "User")))


def test_an_older_table_without_a_name_is_refused_in_the_same_words():
    owner, user = _stacks()
    key = dynamodb.Attribute(name="key", type=dynamodb.AttributeType.STRING)
    locks = LockTable.from_table(owner, "Locks", dynamodb.Table(owner, "Table", partition_key=key))
    with pytest.raises(LockConfigurationError, match=REFUSED):
        locks.grant(new_role(user))


def test_stacks_that_tell_each_other_names_across_regions_need_none():
    """With cross_region_references, the CDK passes the name on at deployment, and the table stays as it is."""
    owner, user = _stacks(cross_region_references=True)
    LockTable(owner, "Locks").grant(new_role(user))
    assert "TableName" not in the_only(owner, TABLE)["Properties"]


def test_any_other_reference_that_gives_the_table_a_name_fails_the_synthesis():
    owner, user = _stacks()
    locks = LockTable(owner, "Locks")
    cdk.CfnOutput(user, "Arn", value=locks.table.table_arn)
    with pytest.raises(RuntimeError, match="another account or Region refers to the table of Owner/Locks"):
        the_only(owner, TABLE)


def test_a_name_that_the_app_gives_later_is_its_own_choice():
    owner, _ = _stacks()
    resource: Any = LockTable(owner, "Locks").table.node.default_child
    resource.table_name = "locks"
    assert the_only(owner, TABLE)["Properties"]["TableName"] == "locks"


def test_of_a_key_of_the_app_a_role_of_another_region_gets_what_dynamodb_uses_there_and_no_more():
    """The CDK itself would allow it the use of every key of every account."""
    owner, user = _stacks()
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(kms.Key(owner, "Key"))
    LockTable(owner, "Locks", table_name="locks", encryption=encryption).grant(new_role(user))
    (policy,) = policies(user)
    assert policy["Statement"][1:] == [allow(KEY_ACTIONS, KEYS, Condition=VIA_DYNAMODB)]


def test_a_key_that_only_its_alias_names_cannot_be_granted_to_another_region_either():
    owner, user = _stacks()
    alias = kms.Alias.from_alias_name(owner, "Alias", "alias/locks")
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(alias)
    locks = LockTable(owner, "Locks", table_name="locks", encryption=encryption)
    with pytest.raises(LockConfigurationError, match="use of the key Owner/Alias"):
        locks.grant(new_role(user))
