"""Grants across accounts: what the grantee gets, and what the table and its key say about it."""

from importlib.metadata import version
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from lambda_lock import LockConfigurationError
from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, REGION, denying, new_function, new_role, policies, the_only, warnings
from tests.cdk.statements import FOUR_ACTIONS, allow, allow_prewarm, document, for_locks, only_keys
from tests.cdk.test_grants import KEY_ACTIONS, VIA_DYNAMODB

OTHER = "222222222222"
# CDKs before 2.222 drop what is added to the policy of a TableV2 (github.com/aws/aws-cdk/issues/30793).
_DROPPED = version("aws-cdk-lib").startswith("2.166.")
needs_table_policies = pytest.mark.skipif(_DROPPED, reason="this CDK drops the policies of tables")
ONE, THIRD = "arn:aws:iam::1:role/a", "arn:aws:iam::333333333333:root"
OF_ORGANIZATION = {"StringEquals": {"aws:PrincipalOrgID": "o-a1b2c3d4e5"}}
ARN = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":dynamodb:{REGION}:{ACCOUNT}:table/locks"]]}
KEYS = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":kms:{REGION}:{ACCOUNT}:key/*"]]}


Stacks = tuple[cdk.Stack, cdk.Stack]


def _two_stacks(*known: str) -> Stacks:
    """The owner's stack and the user's. known: those that are in the owner's account; none: both, in their own."""
    app, accounts = cdk.App(), {"Owner": ACCOUNT, "User": OTHER}
    if known:
        accounts = dict.fromkeys(known, ACCOUNT)
    places = {id: cdk.Environment(account=account, region=REGION) for id, account in accounts.items()}
    return cdk.Stack(app, "Owner", env=places.get("Owner")), cdk.Stack(app, "User", env=places.get("User"))


@pytest.fixture
def stacks() -> Stacks:
    return _two_stacks()


@pytest.fixture
def owner(stacks: Stacks) -> cdk.Stack:
    return stacks[0]


@pytest.fixture
def user(stacks: Stacks) -> cdk.Stack:
    return stacks[1]


def _account(number: str) -> dict[str, Any]:
    return {"AWS": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":iam::{number}:root"]]}}


def _table_policy(stack: cdk.Stack) -> Any:
    """The table's resource policy. None if there is none."""
    (replica,) = the_only(stack, "AWS::DynamoDB::GlobalTable")["Properties"]["Replicas"]
    return replica.get("ResourcePolicy", {}).get("PolicyDocument")


@pytest.fixture
def named(owner: cdk.Stack) -> LockTable:
    """A lock table whose table has a name."""
    return LockTable(owner, "Locks", table_name="locks")


@pytest.fixture
def encrypted(owner: cdk.Stack) -> LockTable:
    """The same with a key of the app."""
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(kms.Key(owner, "Key"))
    return LockTable(owner, "Locks", table_name="locks", encryption=encryption)


@needs_table_policies
def test_a_function_of_another_account_is_allowed_by_its_own_role_and_by_the_table(owner, user, named):
    assert named.grant(new_function(user)).success
    assert _table_policy(owner) == document(allow(FOUR_ACTIONS, ARN, Principal=_account(OTHER)))
    assert policies(user) == [for_locks(ARN)]


@needs_table_policies
def test_a_role_with_a_name_is_the_only_one_of_its_account_that_table_and_key_allow_and_prefixes_narrow_both_halves(
    owner, user, encrypted
):
    """The CDK's own grants name the role itself, which must be deployed before its table. This lets in nobody else."""
    encrypted.grant(new_role(user, role_name="biller"), key_prefixes=["invoice#"])
    arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":iam::{OTHER}:role/biller"]]}
    only, keys = {"ArnEquals": {"aws:PrincipalArn": arn}}, only_keys(["invoice#*"])
    on_table, on_row = allow(FOUR_ACTIONS, ARN, Condition=keys), allow_prewarm(ARN)
    assert policies(user) == [document(on_table, on_row, allow(KEY_ACTIONS, KEYS, Condition=VIA_DYNAMODB))]
    theirs = [
        each | {"Condition": each["Condition"] | only, "Principal": _account(OTHER)} for each in (on_table, on_row)
    ]
    assert _table_policy(owner) == document(*theirs)
    (of_key,) = the_only(owner, "AWS::KMS::Key")["Properties"]["KeyPolicy"]["Statement"][1:]
    assert of_key == allow(KEY_ACTIONS, "*", Principal=_account(OTHER), Condition=VIA_DYNAMODB | only)


@needs_table_policies
@pytest.mark.parametrize("grantee", ["function", "account"])
def test_the_policy_of_a_customer_managed_key_is_written_too(owner, user, encrypted, grantee):
    encrypted.grant(iam.AccountPrincipal(OTHER) if grantee == "account" else new_function(user))
    key_policy = the_only(owner, "AWS::KMS::Key")["Properties"]["KeyPolicy"]
    assert key_policy["Statement"][1:] == [allow(KEY_ACTIONS, "*", Principal=_account(OTHER), Condition=VIA_DYNAMODB)]
    if grantee == "function":
        (policy,) = policies(user)
        assert policy["Statement"][1:] == [allow(KEY_ACTIONS, KEYS, Condition=VIA_DYNAMODB)]


@needs_table_policies
def test_a_key_of_another_app_is_granted_and_a_warning_says_whose_policy_is_missing(owner, user):
    key = kms.Key.from_key_arn(owner, "Key", f"arn:aws:kms:{REGION}:{ACCOUNT}:key/5ec5e7")
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(key)
    locks = LockTable(owner, "Locks", table_name="locks", encryption=encryption)
    locks.grant(new_function(user))
    (policy,) = policies(user)
    assert policy["Statement"][1:] == [allow(KEY_ACTIONS, key.key_arn, Condition=VIA_DYNAMODB)]
    (warning,) = warnings(owner)
    assert "the policy of Owner/Key cannot be changed here" in warning


@needs_table_policies
@pytest.mark.parametrize(
    ("principal", "said"),
    [
        (lambda: iam.AccountPrincipal(OTHER), {"Principal": _account(OTHER)}),
        (lambda: iam.ArnPrincipal(ONE), {"Principal": {"AWS": ONE}}),
        (lambda: iam.OrganizationPrincipal("o-a1b2c3d4e5"), {"Principal": {"AWS": "*"}, "Condition": OF_ORGANIZATION}),
        (
            lambda: iam.AccountPrincipal(OTHER).with_conditions(OF_ORGANIZATION),
            {"Principal": _account(OTHER), "Condition": OF_ORGANIZATION},
        ),
        (lambda: iam.CompositePrincipal(*map(iam.ArnPrincipal, (ONE, THIRD))), {"Principal": {"AWS": [ONE, THIRD]}}),
    ],
    ids=["account", "ARN", "organization", "with conditions", "several"],
)
def test_the_owner_can_allow_whoever_is_not_in_the_app(owner, named, principal, said):
    assert named.grant(principal()).success
    assert _table_policy(owner) == document(allow(FOUR_ACTIONS, ARN, **said))


@needs_table_policies
@pytest.mark.parametrize("wrap", [iam.PrincipalWithConditions, lambda role, _: iam.SessionTagsPrincipal(role)])
@pytest.mark.parametrize("name", [None, "locks"], ids=["no name", "a name"])
def test_a_role_in_a_wrapper_is_allowed_by_the_table_alone_so_that_nothing_widens_the_conditions(owner, wrap, name):
    """The CDK would write into the policy of a role that is wrapped, and leave the conditions out."""
    locks = LockTable(owner, "Locks", table_name=name)
    locks.grant(wrap(new_role(owner), OF_ORGANIZATION), key_prefixes=["invoice#"])
    assert policies(owner) == []
    on_table, on_row = _table_policy(owner)["Statement"]
    assert "invoice#*" in str(on_table["Condition"])
    assert on_row["Action"] == "dynamodb:GetItem"


@needs_table_policies
def test_a_role_of_another_account_in_a_wrapper_gets_both_halves_of_the_same_width(owner, user, encrypted):
    role = new_role(user, role_name="biller")
    encrypted.grant(iam.PrincipalWithConditions(role, OF_ORGANIZATION), key_prefixes=["invoice#"])
    (theirs,) = policies(user)
    on_table, on_row, on_key = theirs["Statement"]
    assert on_table == allow(FOUR_ACTIONS, ARN, Condition=only_keys(["invoice#*"]))
    assert on_row == allow_prewarm(ARN)
    assert on_key == allow(KEY_ACTIONS, KEYS, Condition=VIA_DYNAMODB)
    on_table, on_row = _table_policy(owner)["Statement"]
    assert on_table["Condition"] == only_keys(["invoice#*"]) | OF_ORGANIZATION
    assert on_row["Condition"] == allow_prewarm(ARN)["Condition"] | OF_ORGANIZATION
    assert on_row["Action"] == "dynamodb:GetItem"


def test_everybody_is_no_grantee_because_dynamodb_takes_no_public_policy(named):
    with pytest.raises(LockConfigurationError, match="AnyPrincipal cannot receive the permissions"):
        named.grant(iam.AnyPrincipal())


@pytest.mark.parametrize("known", ["Owner", "User"])
def test_a_grant_that_may_go_to_another_account_gets_a_warning(known):
    owner, user = _two_stacks(known)
    LockTable(owner, "Locks", table_name="locks").grant(new_function(user))
    (warning,) = warnings(owner)
    assert "Set env= for both stacks" in warning


def test_within_one_stack_there_is_nothing_to_warn_of(stack, locks):
    locks.grant(new_function(stack))
    locks.grant(iam.Role.from_role_arn(stack, "Theirs", f"arn:aws:iam::{ACCOUNT}:role/theirs"))
    assert warnings(stack) == []


@needs_table_policies
def test_a_policy_that_is_passed_stays_beside_what_grants_add(owner):
    locks = LockTable(owner, "Locks", table_name="locks", resource_policy=denying())
    locks.grant(iam.AccountPrincipal(OTHER), key_prefixes=["invoice#"])
    locks.grant(iam.AccountPrincipal(OTHER))
    assert [each["Effect"] for each in _table_policy(owner)["Statement"]] == ["Deny", "Allow", "Allow", "Allow"]


@needs_table_policies
def test_a_table_without_a_name_says_itself_in_its_own_policy(owner):
    """CloudFormation lets no resource refer to itself. The policy is the table's and reaches no other."""
    LockTable(owner, "Locks").grant(iam.AccountPrincipal(OTHER))
    assert _table_policy(owner) == document(allow(FOUR_ACTIONS, "*", Principal=_account(OTHER)))


def test_a_table_without_a_name_cannot_be_granted_to_a_function_of_another_account(owner, user):
    with pytest.raises(LockConfigurationError, match=r"User/Function is in another account than Owner/Locks.*table_na"):
        LockTable(owner, "Locks").grant(new_function(user))


def test_grants_within_the_account_leave_the_tables_policy_alone(owner, named):
    named.grant(new_function(owner))
    assert _table_policy(owner) is None


def test_a_role_imported_from_another_account_is_refused_with_the_owners_call(owner, named):
    role = iam.Role.from_role_arn(owner, "Theirs", f"arn:aws:iam::{OTHER}:role/theirs")
    with pytest.raises(LockConfigurationError, match=r"grant\(iam.AccountPrincipal"):
        named.grant(role)


def test_an_existing_table_of_another_account_gives_the_half_that_is_the_functions(user):
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/locks"
    LockTable.from_table_arn(user, "Locks", arn).grant(new_function(user))
    assert policies(user) == [for_locks(arn)]


def test_an_existing_table_cannot_be_granted_where_nobody_would_allow_the_other_half(owner, user):
    locks = LockTable.from_table_name(owner, "Locks", "locks")
    with pytest.raises(LockConfigurationError, match=r"LockTable.from_table_arn in the grantee's own stack"):
        locks.grant(new_function(user))
    with pytest.raises(LockConfigurationError, match="AccountPrincipal can only be allowed in the table's resource"):
        locks.grant(iam.AccountPrincipal(OTHER))


@pytest.mark.skipif(not _DROPPED, reason="this CDK keeps the policies of tables")
def test_a_cdk_that_drops_the_tables_policy_is_told_of(owner):
    for number, policy in enumerate((None, denying())):
        locks = LockTable(owner, f"Locks{number}", resource_policy=policy)
        for principal in (
            iam.AccountPrincipal(OTHER),
            iam.OrganizationPrincipal("o-a1b2c3d4e5"),
            iam.PrincipalWithConditions(new_role(owner, id=f"Role{number}"), OF_ORGANIZATION),
        ):
            with pytest.raises(LockConfigurationError, match=r"Update aws-cdk-lib to 2\.222 or newer"):
                locks.grant(principal)
