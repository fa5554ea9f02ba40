"""Who may use a lock table: policies of the grantee, of the table and of its key.

A grantee in the table's own account needs one policy: its own, or the table's. A grantee in another account needs both,
and for a customer-managed key both once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias, cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.region_info import RegionInfo
from constructs import Construct, Dependable

from ..client.reads import PREWARM_KEY
from ..errors import LockArgumentError, LockConfigurationError
from ..permissions import ACTIONS, IN_WORDS
from .arguments import report_look_up, wrong
from .synthesis import warn
from .tables import REPLACED, AnyTable, arn_here, differ, home, is_known, is_unnamed, name_in_template, resource_of

Conditions: TypeAlias = Mapping[str, Mapping[str, Any]]

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
_DUMMY_ROLE = ":123456789012:role/DUMMY_ARN"  # of Role.from_lookup, until the look-up is made


class Statement(NamedTuple):
    """Actions on a lock table, and under which conditions they are allowed."""

    actions: Sequence[str]
    conditions: Conditions | None = None


class Permission(NamedTuple):
    """Actions on a lock table and on its key.

    scope: the lock table. statements: those about the table, at least one.
    """

    scope: Construct
    table: AnyTable
    key: kms.IKey | None
    statements: Sequence[Statement]
    key_actions: Sequence[str]

    def grant(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow ``grantee`` the actions. Raises LockConfigurationError if that would have no effect."""
        if not hasattr(grantee, "grant_principal"):
            wanted = "a function, a role or another principal"
            raise wrong("grantee", grantee, wanted, ". Of an ECS task, pass its task_role")
        principal = grantee.grant_principal
        if str(getattr(principal, "role_arn", None)).endswith(_DUMMY_ROLE):
            report_look_up(self.scope, "grantee", _name(grantee))
            return iam.Grant.drop(grantee, "locks")
        _, owner = home(self.table)
        if isinstance(principal, iam.PrincipalBase) and _is_outside(principal):
            grant = self._by_policies_of_table_and_key(principal)
            if differ(principal.principal_account, owner):
                self._to(principal)  # a wrapped role has a policy of its own; other principals have none
                if self.key is not None:
                    self._key_from_elsewhere(self.key, principal)
            return grant
        _check_name(self.scope, self.table, grantee)
        account = getattr(principal, "principal_account", None)  # the principal of a function without a role has none
        grant = self._to(grantee)
        _check_received(grantee, grant)
        elsewhere, is_ours = differ(account, owner), resource_of(self.table) is not None
        if elsewhere and not is_ours and differ(account, cdk.Stack.of(self.scope).account):
            raise LockConfigurationError(  # one half of the permission would be missing
                f"grant: {_name(grantee)} is in another account than {self.scope.node.path}. Call "
                "LockTable.from_table_arn in the grantee's own stack and grant() there, and "
                "grant(iam.AccountPrincipal(…)) where the table is made"
            )
        if is_ours and isinstance(principal, iam.Role) and is_known(account) != is_known(owner):
            warn(
                self.scope,
                "unknown-account",
                f"grant: only one of {_name(grantee)} and {self.scope.node.path} is in a stack with an account, so "
                "they are taken to be in the same one. Set env= for both stacks. If the accounts differ, the table's "
                "policy is written too",
            )
        if self.key is not None:
            grant = grant.combine(self._use_of_key(self.key, grantee, account))
        if elsewhere and is_ours:
            # The table's policy names the account, narrowed to the role if that has a name. A statement for the role
            # itself could be deployed only after the role, and would end with it. Within the account, it is the policy
            # of the grantee that decides.
            seen: iam.PrincipalBase = iam.AccountPrincipal(account)
            if isinstance(principal, iam.Role) and name_in_template(principal) is not None:
                seen = seen.with_conditions({"ArnEquals": {"aws:PrincipalArn": principal.role_arn}})
            self._by_policies_of_table_and_key(seen)
        return grant

    def _to(self, grantee: iam.IGrantable) -> iam.Grant:
        """Add the statements about the table to the grantee's policy."""
        return _together(
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=[*each.actions],
                resource_arns=[self.table.table_arn],
                conditions=each.conditions,
            )
            for each in self.statements
        )

    def _by_policies_of_table_and_key(self, principal: iam.PrincipalBase) -> iam.Grant:
        """Add the statements to the table's resource policy and one to the key's, or say that somebody else has to."""
        if resource_of(self.table) is None:
            raise LockConfigurationError(
                f"grant: {type(principal).__name__} can only be allowed in the table's resource policy, which "
                f"{self.scope.node.path} cannot change, because it is an existing table. Call grant() where the table "
                f"is made, or allow {IN_WORDS} in its resource policy"
            )
        name = name_in_template(self.table)  # a table cannot refer to itself: in its own policy it is "*" without one
        allowed = [
            principal if each.conditions is None else principal.with_conditions(each.conditions)
            for each in self.statements
        ]
        grant = _together(
            iam.Grant.add_to_principal_and_resource(
                # Nobody's policy: a wrapper of a role would write into the role's own, without the conditions.
                grantee=iam.StarPrincipal(),
                actions=[*each.actions],
                resource_arns=["*" if name is None else arn_here(self.table, name)],
                resource=cast("Any", self.table),
                resource_policy_principal=who,
            )
            for each, who in zip(self.statements, allowed, strict=True)
        )
        if not all(_has_in_resource_policy(self.table, who) for who in allowed):
            raise LockConfigurationError(
                f"grant: this version of aws-cdk-lib drops the resource policy of {self.scope.node.path}, which a "
                "grantee in another account, with conditions or of an organization needs "
                "(github.com/aws/aws-cdk/issues/30793). Update aws-cdk-lib to 2.222 or newer"
            )
        if self.key is not None:
            statement = iam.PolicyStatement(
                actions=[*self.key_actions], resources=["*"], principals=[principal], conditions=self._via_dynamodb()
            )
            if not self.key.add_to_resource_policy(statement, True).statement_added:
                warn(
                    self.scope,
                    "key-policy",
                    f"grant: the policy of {self.key.node.path} cannot be changed here, because the app does not make "
                    f"that key. Allow {', '.join(self.key_actions)} in it to whom you granted the table in another "
                    "account",
                )
        return grant

    def _use_of_key(self, key: kms.IKey, grantee: iam.IGrantable, account: str | None) -> iam.Grant:
        stack = _stack(grantee)
        if key.node.default_child is None and ":alias/" in key.key_arn:
            stack = None  # the ARN of an alias allows nothing
        # The CDK would allow the use of all keys there are, if it took the two to be in two accounts or Regions.
        is_elsewhere = stack is not None and stack.environment != cdk.Stack.of(key).environment
        if is_elsewhere or differ(account, key.env.account):
            return self._key_from_elsewhere(key, grantee)
        grant = key.grant(grantee, *self.key_actions)
        if not grant.success:
            raise LockConfigurationError(
                f"grant: the use of the key {key.node.path} cannot be granted to {_name(grantee)}, as of an alias "
                "that is imported by its name. Pass the key itself: kms.Key.from_key_arn(…), or kms.Key.from_lookup(…, "
                "alias_name=…)"
            )
        for statement in filter(None, (grant.principal_statement, grant.resource_statement)):
            statement.add_conditions(self._via_dynamodb())
        return grant

    def _key_from_elsewhere(self, key: kms.IKey, grantee: iam.IGrantable) -> iam.Grant:
        """Allow the use of a key in a policy of another account or Region.

        The ARN of a key of the app is known only in the key's own stack. So all keys of its account and Region are
        named, as far as DynamoDB uses them: for a table that the grantee may use.
        """
        arn = key.key_arn
        if key.node.default_child is not None:
            arn = cdk.Stack.of(key).format_arn(service="kms", resource="key", resource_name="*")
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=[*self.key_actions], resource_arns=[arn], conditions=self._via_dynamodb()
        )

    def _via_dynamodb(self) -> Conditions:
        """The condition that a key is used by DynamoDB, in the table's Region (see kms:ViaService, AWS KMS)."""
        region, _ = home(self.table)
        known = None if cdk.Token.is_unresolved(region) else RegionInfo.get(region).domain_suffix
        return {"StringEquals": {"kms:ViaService": f"dynamodb.{region}.{known or cdk.Aws.URL_SUFFIX}"}}


def _together(grants: Iterable[iam.Grant]) -> iam.Grant:
    return reduce(lambda one, other: one.combine(other), grants)


def of_prefixes(prefixes: Any) -> list[Statement]:
    """The four actions on keys with these prefixes, and the reading of the row that `prewarm` reads.

    Nobody who has prefixes may write that row, because all of them read it, also where a prefix is the beginning of its
    key, or is known at deployment only.
    """
    ours = leading_keys(prefixes)
    if any(cdk.Token.is_unresolved(prefix) or PREWARM_KEY.startswith(prefix) for prefix in prefixes):
        ours |= {"ForAllValues:StringNotEquals": {"dynamodb:LeadingKeys": [PREWARM_KEY]}}
    return [Statement(ACTIONS, ours), Statement(["dynamodb:GetItem"], _only_keys([PREWARM_KEY]))]


def _only_keys(patterns: list[str]) -> dict[str, dict[str, list[str]]]:
    """ForAllValues is also true for a request without keys, but each of the four actions has one."""
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": patterns}}


def leading_keys(prefixes: Any) -> dict[str, dict[str, list[str]]]:
    """The policy condition that limits the actions to keys with these prefixes."""
    is_list = isinstance(prefixes, Sequence) and not isinstance(prefixes, str)
    if not is_list or not all(isinstance(each, str) for each in prefixes):
        raise TypeError(f"key_prefixes must be a list of str, not {prefixes!r}")
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
    return _only_keys([f"{prefix}*" for prefix in prefixes])


def _is_outside(principal: iam.PrincipalBase) -> bool:
    """Whether it is a principal of other accounts that the table's own policy can name.

    That excludes everybody without a condition: DynamoDB refuses a policy that makes a table public.
    """
    fragment = principal.policy_fragment
    named = fragment.principal_json
    return named.keys() == {"AWS"} and (bool(fragment.conditions) or "*" not in named["AWS"])


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
