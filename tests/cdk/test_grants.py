"""What a grant allows. Whole policies are compared, so that an added permission is noticed."""

import re
from collections.abc import Callable

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from lambda_lock import LockArgumentError, LockConfigurationError
from lambda_lock.cdk import ACTIONS, LockTable
from lambda_lock.client.reads import PREWARM_KEY
from tests.cdk.apps import ACCOUNT, new_function, new_stack, policies, the_only, warnings
from tests.cdk.statements import FOUR_ACTIONS, allow, allow_prewarm, document, for_locks, only_keys

_WRITE = ("Encrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")
KEY_ACTIONS = [f"kms:{action}" for action in ("Decrypt", "DescribeKey", *_WRITE)]
BUT_PREWARM = {"ForAllValues:StringNotEquals": {"dynamodb:LeadingKeys": [PREWARM_KEY]}}
VIA_DYNAMODB = {"StringEquals": {"kms:ViaService": "dynamodb.eu-central-1.amazonaws.com"}}
FUNCTION_ARN = f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:theirs"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/theirs"
THEIR_ROLE_ARN = "arn:aws:iam::222222222222:role/theirs"


@pytest.mark.parametrize("prefix", ["invoice#", "l", "lambda_lock#", PREWARM_KEY])
def test_key_prefixes_narrow_the_grant_to_keys_that_begin_with_them_and_allow_nobody_to_write_prewarms_row(
    prefix, stack, locks
):
    customer = cdk.CfnParameter(stack, "Customer").value_as_string
    locks.grant(new_function(stack), key_prefixes=[prefix, f"{customer}#"])
    keys = only_keys([f"{prefix}*", {"Fn::Join": ["", [{"Ref": "Customer"}, "#*"]]}])
    arn = stack.resolve(locks.table.table_arn)
    assert policies(stack) == [document(allow(FOUR_ACTIONS, arn, Condition=keys | BUT_PREWARM), allow_prewarm(arn))]


def test_a_customer_managed_key_is_granted_with_its_table(home):
    key = kms.Key(home, "Key")
    locks = LockTable(home, "Locks", encryption=dynamodb.TableEncryptionV2.customer_managed_key(key))
    locks.grant(new_function(home))
    table, arn = home.resolve(locks.table.table_arn), home.resolve(key.key_arn)
    assert policies(home) == [document(allow(FOUR_ACTIONS, table), allow(KEY_ACTIONS, arn, Condition=VIA_DYNAMODB))]


@pytest.mark.parametrize(
    ("region", "service"),
    [
        ("cn-north-1", "dynamodb.cn-north-1.amazonaws.com.cn"),
        (None, {"Fn::Join": ["", ["dynamodb.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]}),
    ],
    ids=["China", "unknown"],
)
def test_the_use_of_a_key_is_limited_to_dynamodb_in_the_tables_region(region, service):
    stack = new_stack(environment=cdk.Environment(account=ACCOUNT, region=region) if region else None)
    partition_key = dynamodb.Attribute(name="key", type=dynamodb.AttributeType.STRING)
    table = dynamodb.Table(stack, "Table", partition_key=partition_key, encryption_key=kms.Key(stack, "Key"))
    LockTable.from_table(stack, "Locks", table).grant(new_function(stack))
    (policy,) = policies(stack)
    assert policy["Statement"][1]["Condition"] == {"StringEquals": {"kms:ViaService": service}}


def test_a_key_that_cannot_be_granted_is_an_error(home):
    """Unless a feature flag is set, the CDK grants nothing on an alias that it is told by name."""
    alias = kms.Alias.from_alias_name(home, "Alias", "alias/locks")
    locks = LockTable(home, "Locks", encryption=dynamodb.TableEncryptionV2.customer_managed_key(alias))
    with pytest.raises(LockConfigurationError, match=r"use of the key Stack/Alias .* kms.Key.from_key_arn"):
        locks.grant(new_function(home))


def test_a_key_that_aws_manages_needs_no_grant(home):
    locks = LockTable(home, "Locks", encryption=dynamodb.TableEncryptionV2.aws_managed_key())
    locks.grant(new_function(home))
    assert policies(home) == [for_locks(home.resolve(locks.table.table_arn))]


def test_the_key_grant_covers_what_the_tables_own_grants_give(home):
    """TableV2 grants patterns. DynamoDB uses these actions of them (see its documentation on customer-managed keys)."""
    table = dynamodb.TableV2(
        home,
        "Table",
        partition_key=dynamodb.Attribute(name="key", type=dynamodb.AttributeType.STRING),
        encryption=dynamodb.TableEncryptionV2.customer_managed_key(kms.Key(home, "Key")),
    )
    table.grant_read_write_data(new_function(home))
    (policy,) = policies(home)
    theirs = {action for each in policy["Statement"] for action in each["Action"] if action.startswith("kms:")}
    patterns = [re.compile(pattern.replace("*", ".*")) for pattern in theirs]
    assert all(any(pattern.fullmatch(action) for pattern in patterns) for action in KEY_ACTIONS)
    assert all(any(pattern.fullmatch(action) for action in KEY_ACTIONS) for pattern in patterns)


def test_an_existing_table_grants_the_same(home):
    key = kms.Key.from_key_arn(home, "Key", f"arn:aws:kms:eu-central-1:{ACCOUNT}:key/5ec5e7")
    arn = f"arn:aws:dynamodb:eu-central-1:{ACCOUNT}:table/theirs"
    LockTable.from_table_arn(home, "Locks", arn, encryption_key=key).grant(iam.User(home, "User"))
    of_key = allow(KEY_ACTIONS, key.key_arn, Condition=VIA_DYNAMODB)
    assert policies(home) == [document(allow(FOUR_ACTIONS, arn), of_key)]


def test_a_table_named_in_an_account_is_granted_by_its_arn_there(home):
    LockTable.from_table_name(home, "Locks", "theirs").grant(iam.User(home, "User"))
    arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":dynamodb:eu-central-1:{ACCOUNT}:table/theirs"]]}
    assert policies(home) == [for_locks(arn)]


def _fixed_role(stack: cdk.Stack, id: str = "Theirs", elsewhere: bool = False) -> iam.IRole:
    return iam.Role.from_role_arn(stack, id, ROLE_ARN, mutable=False, add_grants_to_resources=elsewhere)


LAMBDA = iam.ServicePrincipal("lambda.amazonaws.com")
WITHOUT_A_POLICY: dict[str, Callable[[cdk.Stack], iam.IGrantable]] = {
    "imported function": lambda stack: lambda_.Function.from_function_arn(stack, "Theirs", FUNCTION_ARN),
    "named function": lambda stack: lambda_.Function.from_function_name(stack, "Theirs", "theirs"),
    "fixed role": _fixed_role,
    "fixed role with grants elsewhere": lambda stack: _fixed_role(stack, elsewhere=True),
    "role of another account": lambda stack: iam.Role.from_role_arn(stack, "Theirs", THEIR_ROLE_ARN),
    "role that was closed": lambda stack: iam.Role(stack, "Theirs", assumed_by=LAMBDA).without_policy_updates(),
    "function with a fixed role": lambda stack: new_function(stack, "Theirs", role=_fixed_role(stack, "Role")),
}


@pytest.mark.parametrize("grantee", WITHOUT_A_POLICY.values(), ids=WITHOUT_A_POLICY)
def test_a_grantee_that_cannot_receive_the_policy_is_an_error(grantee, home):
    locks = LockTable(home, "Locks")
    with pytest.raises(LockConfigurationError, match=r"Theirs cannot receive .*from_function_attributes"):
        locks.grant(grantee(home))


def test_a_principal_without_policies_is_an_error(locks):
    with pytest.raises(LockConfigurationError, match="ServicePrincipal cannot receive the permissions"):
        locks.grant(LAMBDA)


def _function_with_its_role(stack: cdk.Stack) -> iam.IGrantable:
    role = iam.Role.from_role_arn(stack, "Role", ROLE_ARN)
    return lambda_.Function.from_function_attributes(stack, "Theirs", function_arn=FUNCTION_ARN, role=role)


def _alias(stack: cdk.Stack) -> iam.IGrantable:
    return lambda_.Alias(stack, "Alias", alias_name="live", version=new_function(stack).current_version)


def _lazy_role_that_is_used(stack: cdk.Stack) -> iam.IGrantable:
    role = iam.LazyRole(stack, "Lazy", assumed_by=LAMBDA)
    cdk.CfnOutput(stack, "Used", value=role.role_arn)
    return role


@pytest.mark.parametrize(
    "grantee",
    [
        new_function,
        _function_with_its_role,
        _alias,
        _lazy_role_that_is_used,
        lambda stack: iam.User(stack, "User"),
        lambda stack: iam.Group(stack, "Group"),
        lambda stack: iam.ManagedPolicy(stack, "Policy"),
        lambda stack: iam.Role(stack, "Role", assumed_by=iam.AccountPrincipal(ACCOUNT)),
    ],
    ids=["function", "function with its role", "alias", "lazy role", "user", "group", "managed policy", "role"],
)
def test_a_grant_is_the_four_actions_on_the_tables_arn_and_nothing_else(grantee, home):
    locks = LockTable(home, "Locks")
    assert locks.grant(grantee(home)).success
    assert policies(home) == [for_locks({"Fn::GetAtt": ["LocksTable84FB9352", "Arn"]})]


def test_roles_that_somebody_else_makes_may_receive_it(home):
    """With Role.customize_roles, the CDK writes a report of the policies instead of creating the roles."""
    iam.Role.customize_roles(home, use_precreated_roles={"Stack/Function/ServiceRole": "function-role"})
    locks = LockTable(home, "Locks")
    assert locks.grant(new_function(home)).success


@pytest.mark.parametrize(
    ("prefixes", "error", "said"),
    [
        ([], LockArgumentError, "key_prefixes is empty"),
        ([""], LockArgumentError, "key_prefixes: '' must be the literal beginning"),
        (["invoice#*"], LockArgumentError, r"key_prefixes: 'invoice#\*' must be"),
        (["invoice?"], LockArgumentError, "mean something else in a policy"),
        (["${aws:username}#"], LockArgumentError, "mean something else in a policy"),
        ("invoice#", TypeError, "must be a list of str"),
        ([7], TypeError, "must be a list of str"),
        (7, TypeError, "must be a list of str"),
        (cdk.Token.as_list({"Ref": "Prefixes"}), LockArgumentError, "how many they are is known at deployment only"),
        ((each for each in ["invoice#"]), TypeError, "must be a list of str"),
    ],
)
def test_bad_prefixes_are_refused(prefixes, error, said, stack):
    with pytest.raises(error, match=said):
        LockTable(stack, "Locks").grant(new_function(stack), key_prefixes=prefixes)


@pytest.mark.parametrize("others", [["order#"], None], ids=["other prefixes", "all keys"])
def test_prefixes_of_two_functions_with_one_role_unite_with_a_warning(others, stack):
    role = iam.Role(stack, "Role", assumed_by=LAMBDA)
    locks = LockTable(stack, "Locks")
    locks.connect(new_function(stack, "Invoices", role=role), key_prefixes=["invoice#"])
    locks.connect(new_function(stack, "Orders", role=role), key_prefixes=others)
    (warning,) = warnings(stack)
    assert f"Stack/Role has been granted key_prefixes=['invoice#'], and now key_prefixes={others}" in warning
    assert "each function with this role may lock the keys of both" in warning


def test_the_same_prefixes_and_roles_of_their_own_give_no_warning(stack):
    role = iam.Role(stack, "Role", assumed_by=LAMBDA)
    locks = LockTable(stack, "Locks")
    locks.connect(new_function(stack, "One", role=role), key_prefixes=["invoice#", "order#"])
    locks.connect(new_function(stack, "Two", role=role), key_prefixes=["order#", "invoice#"])
    locks.connect(new_function(stack, "Three"), key_prefixes=["customer#"])
    locks.grant_inspect(role)
    assert warnings(stack) == []


def test_two_tables_in_one_role_are_two_statements(stack):
    function = new_function(stack)
    tables = [LockTable(stack, id) for id in ("Locks", "Others")]
    for locks in tables:
        locks.grant(function)
    arns = [stack.resolve(locks.table.table_arn) for locks in tables]
    actual = the_only(stack, "AWS::IAM::Policy")["Properties"]["PolicyDocument"]
    assert actual == document(*(allow(FOUR_ACTIONS, arn) for arn in arns))


def test_reading_single_locks_and_listing_them_are_grants_of_their_own(home):
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(kms.Key(home, "Key"))
    locks = LockTable(home, "Locks", encryption=encryption)
    key = home.resolve(locks.table.encryption_key.key_arn)  # type: ignore[union-attr]
    locks.grant_inspect(iam.User(home, "Support"))
    locks.grant_list(iam.User(home, "Lister"))
    table = home.resolve(locks.table.table_arn)
    of_key = allow(["kms:Decrypt", "kms:DescribeKey"], key, Condition=VIA_DYNAMODB)
    assert policies(home) == [
        document(allow("dynamodb:GetItem", table), of_key),
        document(allow(["dynamodb:Scan", "dynamodb:Query"], table), of_key),
    ]


def test_the_four_actions_are_exported_as_the_list_that_a_policy_takes():
    assert ACTIONS == FOUR_ACTIONS
    assert [*iam.PolicyStatement(actions=ACTIONS, resources=["*"]).actions] == FOUR_ACTIONS
