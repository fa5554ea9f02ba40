"""What a table must be like to have locks: its name, its keys, its time to live, and that it has no copies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from ..client import checks
from ..core.schema import JAVA
from ..errors import LockArgumentError
from . import arguments, synthesis

AnyTable: TypeAlias = dynamodb.ITable | dynamodb.ITableV2
Keys = tuple[str, str | None]  # names of the partition key and the sort key

TABLE_ARN = re.compile(r"arn:[^:]+:dynamodb:([^:]+):([^:]+):table/[^:/]+")
NOT_A_TEXT = "For a table, call LockTable.from_table"
NO_REPLICAS = (
    "a lock table must not have replicas. With multi-Region eventual consistency, two Regions would each grant the "
    "same lock. With multi-Region strong consistency, DynamoDB has neither time to live nor transactions. Keep the "
    "locks of all Regions in one Region's table, or use one table per Region for locks that concern only that Region"
)
REPLACED = (
    "The CDK would choose a name. Then CloudFormation replaces a table that is deployed without one, and for a while "
    "both would grant the same locks."
)
# Options of TableV2: the class of a specification, and its argument that switches it on.
_SPECIFICATIONS = {
    "point_in_time_recovery": ("PointInTimeRecoverySpecification", "point_in_time_recovery_enabled"),
    "contributor_insights": ("ContributorInsightsSpecification", "enabled"),
}
_COPY = "Custom::DynamoDBReplica"  # the resource that makes a Table of the CDK a global table
_ASSOCIATE = "dynamodb:AssociateTableReplica"  # the action that a table's policy allows a copy in another account


def differ(one: str | None, other: str | None) -> bool:
    """Whether two accounts or Regions are known to be different."""
    return is_known(one) and is_known(other) and one != other


def is_known(account: str | None) -> bool:
    return account is not None and not cdk.Token.is_unresolved(account)


def home(table: AnyTable) -> tuple[str, str]:
    """The Region and the account of a table. Table.from_table_arn sets ``env`` to those of the stack."""
    found = TABLE_ARN.fullmatch(table.table_arn)
    return (table.env.region, table.env.account) if found is None else (found[1], found[2])


def arn_here(scope: IConstruct, name: str) -> str:
    return cdk.Stack.of(scope).format_arn(service="dynamodb", resource="table", resource_name=name)


def resource_of(table: AnyTable) -> dynamodb.CfnGlobalTable | dynamodb.CfnTable | None:
    """The resource of a table that the app makes, so that its resource policy can be written."""
    resource = table.node.default_child
    return resource if isinstance(resource, dynamodb.CfnGlobalTable | dynamodb.CfnTable) else None


def name_in_template(construct: AnyTable | iam.Role) -> str | None:
    """The name that the app gives, without a reference to the resource. None if CloudFormation chooses it."""
    attribute = "role_name" if isinstance(construct, iam.Role) else "table_name"
    name: str | None = getattr(construct.node.default_child, attribute, None)
    return None if cdk.Stack.of(construct).resolve(name) is None else name


def is_unnamed(table: AnyTable) -> bool:
    """Whether it is a table of the app whose name CloudFormation chooses."""
    return resource_of(table) is not None and name_in_template(table) is None


def specified(name: str, value: object) -> dict[str, Any]:
    """An option of TableV2 that the oldest CDK has by another name. It is left out if it is off."""
    of_kind, enabled = _SPECIFICATIONS[name]
    specification: Any = getattr(dynamodb, of_kind, None)
    if not isinstance(value, bool) and (specification is None or not isinstance(value, specification)):
        raise arguments.wrong(name, value, f"True, False or, in a newer CDK, a {of_kind}")
    if value is False:
        return {}
    if specification is None:
        return {name: value}
    return {f"{name}_specification": specification(**{enabled: True}) if value is True else value}


def string_key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def check_name(name: str) -> str:
    """The name, or a stand-in for a dummy."""
    arguments.check_text("table_name", name, NOT_A_TEXT)
    if cdk.Token.is_unresolved(name):
        return name
    if arguments.is_dummy(name):
        return arguments.STAND_IN
    if name.startswith("arn:"):
        raise LockArgumentError(f"table_name={name!r} is an ARN: use LockTable.from_table_arn instead")
    return checks.table_name(name, "table_name")


def check_keys(partition_key_name: str, sort_key_name: str | None) -> Keys:
    checks.attribute_name("partition_key_name", partition_key_name)  # which may not be None
    checks.key_name("partition_key_name", partition_key_name, JAVA)
    checks.key_name("sort_key_name", sort_key_name, JAVA)
    if partition_key_name == sort_key_name:
        raise LockArgumentError(f"sort_key_name={sort_key_name!r} is already the partition key. Choose another name")
    return partition_key_name, sort_key_name


def check_region(given: str, region: str, stack: cdk.Stack) -> None:
    """Refuse a table in another Region than the stack. given: the argument, as the error names it."""
    if differ(region, stack.region):
        raise LockArgumentError(
            f"{given}: the stack is in {stack.region}, and a function looks for its table in its own Region. Use a "
            "table in that Region. Or add the permissions to the function's role yourself, and write "
            "LockClient(…, region_name=…) in its code"
        )


def check_schema(table: AnyTable, keys: Keys, ttl: str | None) -> None:
    """Compare the keys and the time to live of a table of the app with what clients write."""
    resource = resource_of(table)
    if resource is None or _is_copy(resource):
        return  # the keys of a copy are those of its source; it is refused when synthesizing
    resolve = cdk.Stack.of(table).resolve
    found = {each["keyType"]: each["attributeName"] for each in resolve(resource.key_schema)}
    types = {each["attributeName"]: each["attributeType"] for each in resolve(resource.attribute_definitions)}
    for role, parameter, name in zip(("HASH", "RANGE"), ("partition_key_name", "sort_key_name"), keys, strict=True):
        if found.get(role) != name:
            raise LockArgumentError(
                f"{parameter}={name!r}, but {table.node.path} has {found.get(role)!r}: pass "
                f"{parameter}={found.get(role)!r}"
            )
        if name is not None and types[name] != "S":
            raise LockArgumentError(
                f"table={table.node.path}: its key {name!r} has the type {types[name]}, and the keys of locks are "
                "strings (S). Use another table"
            )
    time_to_live = resolve(resource.time_to_live_specification) or {}
    for wrong in _wrong_time_to_live(table, ttl, time_to_live.get("enabled"), time_to_live.get("attributeName")):
        raise LockArgumentError(wrong)


def judge(scope: Construct, table: AnyTable, ttl: str | None) -> None:
    """Refuse, when the app is synthesized, a table that cannot have locks. scope: the lock table.

    Warns if it is a table of the lock table's own that keeps its stack from being deleted.
    """
    was_unnamed = is_unnamed(table)

    def reading(template: synthesis.Template) -> Iterator[str]:
        resource = resource_of(table)
        properties = {} if resource is None else template.properties(resource)
        replicas = properties.get("Replicas", [])
        are_known = isinstance(replicas, list)  # else an Fn::If, which is decided at deployment
        is_deleted = resource is not None and template.of(resource).get("DeletionPolicy") == "Delete"
        protected = are_known and any(one.get("DeletionProtectionEnabled") for one in replicas if isinstance(one, dict))
        if protected and is_deleted and table.node.scope == scope:
            synthesis.warn(
                scope,
                "protected",
                f"the table of {scope.node.path} is to be deleted with its stack, and its deletion protection lets "
                "DynamoDB refuse that: deleting the stack fails. Pass deletion_protection=False, or another "
                "removal_policy",
            )
        time_to_live = properties.get("TimeToLiveSpecification", {})
        yield from _wrong_time_to_live(table, ttl, time_to_live.get("Enabled"), time_to_live.get("AttributeName"))
        # Whether the app makes copies of the table in other Regions or accounts, or the table is such a copy.
        is_replicated = isinstance(table.node.scope, dynamodb.TableV2)  # what TableV2.replica returns
        if isinstance(resource, dynamodb.CfnGlobalTable):
            several = not are_known or len(replicas) > 1 or _ASSOCIATE in json.dumps(replicas)
            is_replicated = is_replicated or several or _is_copy(resource)
        else:
            parts = table.node.find_all()
            is_replicated = is_replicated or any(getattr(one, "cfn_resource_type", None) == _COPY for one in parts)
        if is_replicated:
            yield NO_REPLICAS
        # The CDK chose a name, because a stack of another account or Region refers to the table. The app's own choice,
        # made later, would be a text.
        if was_unnamed and resource and not is_unnamed(table) and cdk.Token.is_unresolved(resource.table_name):
            yield (
                f"a stack of another account or Region refers to the table of {scope.node.path}, which has no name "
                f"that could be told there. Set table_name=. ({REPLACED})"
            )

    synthesis.judge(table, reading)


def _is_copy(resource: dynamodb.CfnGlobalTable | dynamodb.CfnTable) -> bool:
    """Whether it is a copy of a table in another account, which an older CDK does not make."""
    return getattr(resource, "global_table_source_arn", None) is not None


def _wrong_time_to_live(table: AnyTable, ttl: str | None, enabled: object, attribute: object) -> Iterator[str]:
    if enabled and attribute != ttl:
        yield (
            f"ttl={ttl!r}, but the time to live of {table.node.path} is on {attribute!r}: DynamoDB may delete a live "
            "lock. Change it there, or pass from_table the attribute that your clients' schema has for it as ttl="
        )
