"""Statements of policies, as templates have them."""

from typing import Any

from lambda_lock.client.reads import PREWARM_KEY

FOUR_ACTIONS = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]


def allow(actions: str | list[str], resource: Any, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource, **more}


def only_keys(patterns: list[Any]) -> dict[str, Any]:
    """The condition that limits a statement to rows with these keys."""
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": patterns}}


def allow_prewarm(resource: Any) -> dict[str, Any]:
    """The statement for the row that all who have key prefixes read, and that none of them may write."""
    return allow("dynamodb:GetItem", resource, Condition=only_keys([PREWARM_KEY]))


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [*statements]}


def for_locks(arn: Any) -> dict[str, Any]:
    """The policy that allows to use all locks of the table with this ARN, and nothing else."""
    return document(allow(FOUR_ACTIONS, arn))
