"""Who may use a lock table: policies of the grantee, of the table and of its key.

A grantee in the table's own account needs one policy: its own, or the table's. A grantee in another account needs both,
and for a customer-managed key both once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.region_info import RegionInfo
from constructs import Construct, Dependable

from ..client.reading import PREWARM_KEY
from ..errors import LockArgumentError, LockConfigurationError
from ..permissions import IN_WORDS
from . import lookups
from .arguments import kind

AnyTable: TypeAlias = dynamodb.ITable | dynamodb.ITableV2
Conditions: TypeAlias = Mapping[str, Mapping[str, Any]]

TABLE_ARN = re.compile(r"arn:[^:]+:dynamodb:([^:]+):([^:]+):table/[^:/]+")

# The actions that TableV2's own grants allow on a customer-managed key, spelled out instead of as patterns.
KEY_ACTIONS = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
KEY_READ_ACTIONS = ("kms:Decrypt", "kms:DescribeKey")  # those of TableV2.grant_read_data

REPLACED = (
    "The CDK would choose a name. Then CloudFormation replaces a table that is deployed without one, and for a while "
    "both would grant the same locks."
)


def allow(
    scope: Construct,
    table: AnyTable,
    key: kms.IKey | None,
    grantee: iam.IGrantable,
    actions: Sequence[str],
    key_actions: Sequence[str],
    conditions: Conditions | None = None,
) -> iam.Grant:
    """Allow ``grantee`` these actions on the table and on its key.

    scope: the lock table. conditions: of the statements about the table.

    Raises LockConfigurationError if that would have no effect.
    """
    if not hasattr(grantee, "grant_principal"):
        raise TypeError(
            f"grantee must be a function, a role or another principal, not {kind(grantee)}. Of an ECS task, pass its "
            "task_role"
        )
    principal = grantee.grant_principal
    if lookups.is_dummy_role(principal):
        lookups.report(scope, "grantee", _name(grantee))
        return iam.Grant.drop(grantee, "locks")
    via = _via_dynamodb(table)
    if isinstance(principal, iam.PrincipalBase) and _is_outside(principal):
        grant = _allow_by_table(scope, table, principal, actions, conditions)
        _allow_by_key(scope, key, principal, key_actions, via)
        if differ(principal.principal_account, home(table)[1]):
            iam.Grant.add_to_principal(  # a wrapped role has a policy of its own; other principals have none
                grantee=principal, actions=[*actions], resource_arns=[table.table_arn], conditions=conditions
            )
            if key is not None:
                _allow_key_from_elsewhere(key, principal, key_actions, via)
        return grant
    _check_name(scope, table, grantee)
    account = getattr(principal, "principal_account", None)  # the principal of a function without a role has none
    grant = iam.Grant.add_to_principal(
        grantee=grantee, actions=[*actions], resource_arns=[table.table_arn], conditions=conditions
    )
    _check_received(grantee, grant)
    _, owner = home(table)
    elsewhere = differ(account, owner)
    if elsewhere:
        _check_can_cross(scope, table, grantee, account)
    elif is_in_app(table) and isinstance(principal, iam.Role) and _is_known(account) != _is_known(owner):
        cdk.Annotations.of(scope).add_warning_v2(
            "lambda-lock:unknown-account",
            f"grant: only one of {_name(grantee)} and {scope.node.path} is in a stack with an account, so they are "
            "taken to be in the same one. Set env= for both stacks. If the accounts differ, the table's policy is "
            "written too",
        )
    if key is None:
        key_grant = None
    elif differ(account, key.env.account) or _is_elsewhere(grantee, key):
        key_grant = _allow_key_from_elsewhere(key, grantee, key_actions, via)
    else:
        key_grant = key.grant(grantee, *key_actions)
        if not key_grant.success:
            raise LockConfigurationError(
                f"grant: the use of the key {key.node.path} cannot be granted to {_name(grantee)}, as of an alias "
                "that is imported by its name. Pass the key itself: kms.Key.from_key_arn(…), or kms.Key.from_lookup(…, "
                "alias_name=…)"
            )
        for statement in (key_grant.principal_statement, key_grant.resource_statement):
            if statement is not None:
                statement.add_conditions(via)
    if elsewhere and is_in_app(table):
        theirs = _as_seen_from_the_table(principal)
        _allow_by_table(scope, table, theirs, actions, conditions)
        _allow_by_key(scope, key, theirs, key_actions, via)
    return grant if key_grant is None else grant.combine(key_grant)


def leading_keys(prefixes: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """The policy condition that limits the actions to keys with these prefixes.

    ForAllValues is also true for a request without keys, but each of the four actions has one.
    """
    given: object = prefixes
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise TypeError(f"key_prefixes must be a list of str, not {given!r}")
    if not prefixes:
        raise LockArgumentError(
            "key_prefixes is empty, which would not allow any lock: pass prefixes, or None to allow all keys"
        )
    if cdk.Token.is_unresolved([*prefixes]):
        raise LockArgumentError(
            "key_prefixes is a list token: how many they are is known at deployment only. Pass a list with a token for "
            "each prefix, such as cdk.Fn.select(0, …)"
        )
    for prefix in prefixes:
        if not prefix or (not cdk.Token.is_unresolved(prefix) and any(mark in prefix for mark in ("*", "?", "${"))):
            raise LockArgumentError(
                f"key_prefixes: {prefix!r} must be the literal beginning of the keys, at least one character long. "
                "Leave out '*', '?' and '${': they mean something else in a policy"
            )
    patterns = [*(f"{prefix}*" for prefix in prefixes), PREWARM_KEY]
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": patterns}}


def differ(one: str | None, other: str | None) -> bool:
    """Whether two accounts or Regions are known to be different."""
    return _is_known(one) and _is_known(other) and one != other


def home(table: AnyTable) -> tuple[str, str]:
    """The Region and the account of a table. Table.from_table_arn takes them for those of the stack."""
    found = TABLE_ARN.fullmatch(table.table_arn)
    return (table.env.region, table.env.account) if found is None else (found[1], found[2])


def is_in_app(table: AnyTable) -> bool:
    """Whether the app makes the table, so that its resource policy can be written."""
    return isinstance(table.node.default_child, dynamodb.CfnGlobalTable | dynamodb.CfnTable)


def _is_known(account: str | None) -> bool:
    return account is not None and not cdk.Token.is_unresolved(account)


def _is_outside(principal: iam.PrincipalBase) -> bool:
    """Whether it is somebody in other accounts, whom the table's own policy can name.

    Everybody, without a condition, is not: DynamoDB takes no policy that makes a table public.
    """
    fragment = principal.policy_fragment
    named = fragment.principal_json
    return named.keys() == {"AWS"} and (bool(fragment.conditions) or "*" not in named["AWS"])


def _allow_by_table(
    scope: Construct,
    table: AnyTable,
    principal: iam.PrincipalBase,
    actions: Sequence[str],
    conditions: Conditions | None,
) -> iam.Grant:
    """Add a statement to the table's resource policy."""
    if not is_in_app(table):
        raise LockConfigurationError(
            f"grant: {type(principal).__name__} can only be allowed in the table's resource policy, which "
            f"{scope.node.path} cannot change, because it is an existing table. Call grant() where the table is made, "
            f"or allow {IN_WORDS} in its resource policy"
        )
    allowed = principal if conditions is None else principal.with_conditions(conditions)
    grant = iam.Grant.add_to_principal_and_resource(
        grantee=iam.StarPrincipal(),  # nobody: a wrapper of a role would write into its policy, without the conditions
        actions=[*actions],
        resource_arns=[_own_arn(table)],
        resource=cast("Any", table),
        resource_policy_principal=allowed,
    )
    if not _has_in_resource_policy(table, allowed):
        raise LockConfigurationError(
            f"grant: this version of aws-cdk-lib drops the resource policy of {scope.node.path}, which a grantee in "
            "another account, with conditions or of an organization needs (github.com/aws/aws-cdk/issues/30793). "
            "Update aws-cdk-lib to 2.222 or newer"
        )
    return grant


def _allow_by_key(
    scope: Construct, key: kms.IKey | None, principal: iam.PrincipalBase, actions: Sequence[str], via: Conditions
) -> None:
    """Add a statement to the key's policy, or say that somebody else has to."""
    if key is None:
        return
    statement = iam.PolicyStatement(actions=[*actions], resources=["*"], principals=[principal], conditions=via)
    if not key.add_to_resource_policy(statement, True).statement_added:
        cdk.Annotations.of(scope).add_warning_v2(
            "lambda-lock:key-policy",
            f"grant: the policy of {key.node.path} cannot be changed here, because the app does not make that key. "
            f"Allow {', '.join(actions)} in it to whom you granted the table in another account",
        )


def _as_seen_from_the_table(principal: iam.IPrincipal) -> iam.PrincipalBase:
    """The account of a principal of another account, narrowed to its role if the role has a name.

    A statement for the role itself could be deployed only after the role, and would end with it. Within the account, it
    is the policy of the grantee that decides.
    """
    account = iam.AccountPrincipal(principal.principal_account)
    if isinstance(principal, iam.Role) and _name_in_template(principal) is not None:
        return account.with_conditions({"ArnEquals": {"aws:PrincipalArn": principal.role_arn}})
    return account


def _own_arn(table: AnyTable) -> str:
    """The table's ARN as its own policy can say it. A table cannot refer to itself, so without a name it is ``*``."""
    name = _name_in_template(table)
    if name is None:
        return "*"
    return cdk.Stack.of(table).format_arn(service="dynamodb", resource="table", resource_name=name)


def _name_in_template(construct: AnyTable | iam.Role) -> str | None:
    """The name that the app gives, without a reference to the resource. None if CloudFormation chooses it."""
    match construct.node.default_child:
        case (
            dynamodb.CfnGlobalTable(table_name=name) | dynamodb.CfnTable(table_name=name) | iam.CfnRole(role_name=name)
        ):
            return None if cdk.Stack.of(construct).resolve(name) is None else name
        case _:
            return None


def _has_in_resource_policy(table: AnyTable, principal: iam.PrincipalBase) -> bool:
    """Whether the table's policy names the principal, with its conditions."""
    resource = table.node.default_child
    policies = (
        resource.replicas if isinstance(resource, dynamodb.CfnGlobalTable) else cast("Any", resource).resource_policy
    )
    resolve, fragment = cdk.Stack.of(table).resolve, principal.policy_fragment
    written = json.dumps(resolve(policies))
    parts = [*fragment.principal_json["AWS"], *fragment.conditions.values()]
    return all(json.dumps(resolve(part)) in written for part in parts)


def _allow_key_from_elsewhere(
    key: kms.IKey, grantee: iam.IGrantable, actions: Sequence[str], via: Conditions
) -> iam.Grant:
    """Allow the use of a key in a policy of another account or Region.

    The ARN of a key of the app is known only in the key's own stack. So all keys of its account and Region are named,
    as far as DynamoDB uses them: for a table that the grantee may use.
    """
    arn = key.key_arn
    if key.node.default_child is not None:
        arn = cdk.Stack.of(key).format_arn(service="kms", resource="key", resource_name="*")
    return iam.Grant.add_to_principal(grantee=grantee, actions=[*actions], resource_arns=[arn], conditions=via)


def _is_elsewhere(grantee: iam.IGrantable, key: kms.IKey) -> bool:
    """Whether the CDK would take them to be in two accounts or Regions, and allow the use of all keys there are."""
    stack = _stack(grantee)
    if stack is None or (key.node.default_child is None and ":alias/" in key.key_arn):  # whose ARN allows nothing
        return False
    return stack.environment != cdk.Stack.of(key).environment


def _via_dynamodb(table: AnyTable) -> Conditions:
    """The condition that a key is used by DynamoDB, in the table's Region (see kms:ViaService, AWS KMS)."""
    region, _ = home(table)
    known = None if cdk.Token.is_unresolved(region) else RegionInfo.get(region).domain_suffix
    return {"StringEquals": {"kms:ViaService": f"dynamodb.{region}.{known or cdk.Aws.URL_SUFFIX}"}}


def _check_can_cross(scope: Construct, table: AnyTable, grantee: iam.IGrantable, account: str | None) -> None:
    """Refuse a grant across accounts that one half would be missing of."""
    if not is_in_app(table) and differ(account, cdk.Stack.of(scope).account):
        raise LockConfigurationError(
            f"grant: {_name(grantee)} is in another account than {scope.node.path}. Call LockTable.from_table_arn in "
            "the grantee's own stack and grant() there, and grant(iam.AccountPrincipal(…)) where the table is made"
        )


def is_unnamed(table: AnyTable) -> bool:
    """Whether it is a table of the app whose name CloudFormation chooses."""
    return is_in_app(table) and _name_in_template(table) is None


def _check_name(scope: Construct, table: AnyTable, grantee: iam.IGrantable) -> None:
    """Refuse a grantee in whose stack the table's ARN needs a name that the table does not have."""
    stack = _stack(grantee)
    if stack is None or not is_unnamed(table):
        return
    try:
        stack.resolve(table.table_arn)  # gives a TableV2 a name, if one is needed
        if is_unnamed(table):
            return
    except RuntimeError:  # the CDK cannot name an older Table
        pass
    of_account = differ(getattr(grantee.grant_principal, "principal_account", None), home(table)[1])
    raise LockConfigurationError(
        f"grant: {_name(grantee)} is in another account {'' if of_account else 'or Region '}than {scope.node.path}, "
        f"whose table has no name that could be told there. Set table_name=. ({REPLACED})"
    )


def _stack(grantee: iam.IGrantable) -> cdk.Stack | None:
    """The stack of the policy that a grant is written into."""
    for each in (grantee.grant_principal, grantee):  # the principal of a managed policy is not a construct
        if getattr(each, "node", None) is not None:
            return cdk.Stack.of(cast("Construct", each))
    return None


def _check_received(grantee: iam.IGrantable, grant: iam.Grant) -> None:
    """Refuse a grantee for which the CDK accepts the grant but creates no policy.

    A role of the app creates its policy when synthesizing, and a lazy role when it is first used. Every other grantee
    that took the permissions has a policy among the grant's dependencies already.
    """
    if isinstance(grantee.grant_principal, iam.Role | iam.LazyRole) or Dependable.of(grant).dependency_roots:
        return
    raise LockConfigurationError(
        f"grant: {_name(grantee)} cannot receive the permissions for locks. Import a function together with its role: "
        "Function.from_function_attributes(…, role=…). The role must be from this account and imported without "
        f"mutable=False. Or allow its role {IN_WORDS} on the table's ARN where the role is defined, instead of "
        "calling grant(). For a role of another account, call grant(iam.AccountPrincipal(…)) besides: the table's "
        "resource policy then allows that account"
    )


def _name(grantee: iam.IGrantable) -> str:
    node = getattr(grantee, "node", None)  # a principal that is not a construct has none
    return type(grantee).__name__ if node is None else str(node.path)
