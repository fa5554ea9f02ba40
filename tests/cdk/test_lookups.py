"""Look-ups: their dummies are let through, with an error annotation. test_command_line.py makes the look-ups."""

from __future__ import annotations

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm

from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, REGION, in_an_account, new_function, policies

_ROLES = pytest.mark.skipif(not hasattr(iam.Role, "from_lookup"), reason="this CDK looks up no roles")


def _errors(stack: cdk.Stack) -> list[str]:
    found = assertions.Annotations.from_stack(stack).find_error("*", assertions.Match.any_value())
    return [str(each.entry.data) for each in found]


def _named(stack: cdk.Stack) -> LockTable:
    return LockTable.from_table_name(stack, "Locks", ssm.StringParameter.value_from_lookup(stack, "/locks/name"))


def _by_arn(stack: cdk.Stack) -> LockTable:
    return LockTable.from_table_arn(stack, "Locks", ssm.StringParameter.value_from_lookup(stack, "/locks/arn"))


def _with_more_of_the_name(stack: cdk.Stack) -> LockTable:
    return LockTable.from_table_name(
        stack, "Locks", f"prod-{ssm.StringParameter.value_from_lookup(stack, '/locks/name')}"
    )


def _by_arn_with_its_name(stack: cdk.Stack) -> LockTable:
    name = ssm.StringParameter.value_from_lookup(stack, "/locks/name")
    return LockTable.from_table_arn(stack, "Locks", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}")


def _by_arn_with_its_account(stack: cdk.Stack) -> LockTable:
    account = ssm.StringParameter.value_from_lookup(stack, "/locks/account")
    return LockTable.from_table_arn(stack, "Locks", f"arn:aws:dynamodb:{REGION}:{account}:table/locks")


def _made(stack: cdk.Stack) -> LockTable:
    return LockTable(stack, "Locks", table_name=ssm.StringParameter.value_from_lookup(stack, "/locks/name"))


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (_named, "table_name"),
        (_with_more_of_the_name, "table_name"),
        (_made, "table_name"),
        (_by_arn, "table_arn"),
        (_by_arn_with_its_name, "table_arn"),
        (_by_arn_with_its_account, "table_arn"),
    ],
)
def test_a_dummy_is_let_through_and_is_an_error_of_the_synthesis(make, parameter):
    stack = in_an_account()
    locks = make(stack)
    locks.connect(new_function(stack))
    assert len(policies(stack)) == 1
    (error,) = _errors(stack)
    assert error.startswith(f"{parameter}='")
    assert "dummy-value-for-/locks/" in error
    assert "has not been made" in error


@_ROLES
def test_the_dummy_of_a_role_is_let_through_and_is_an_error_of_the_synthesis():
    stack = in_an_account()
    LockTable(stack, "Locks").grant(iam.Role.from_lookup(stack, "Role", role_name="theirs"))
    (error,) = _errors(stack)
    assert "Stack/Role" in error


def test_the_real_value_is_used_as_if_it_had_been_passed():
    asked = f"ssm:account={ACCOUNT}:parameterName=/locks/name:region=eu-central-1"
    app = cdk.App(context={asked: "prod-locks"})
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account=ACCOUNT, region="eu-central-1"))
    locks = _named(stack)
    assert locks.environment["LAMBDA_LOCK_TABLE"] == "prod-locks"
    assert _errors(stack) == []
