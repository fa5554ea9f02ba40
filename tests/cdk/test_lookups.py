"""Look-ups: their dummies are let through, with an error annotation. test_command_line.py makes the look-ups."""

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm

from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, REGION, new_function, policies

_ROLES = pytest.mark.skipif(not hasattr(iam.Role, "from_lookup"), reason="this CDK looks up no roles")


def _errors(stack: cdk.Stack) -> list[str]:
    found = assertions.Annotations.from_stack(stack).find_error("*", assertions.Match.any_value())
    return [str(each.entry.data) for each in found]


def _looked_up(stack: cdk.Stack, what: str) -> str:
    return ssm.StringParameter.value_from_lookup(stack, f"/locks/{what}")


def _named(stack: cdk.Stack, before: str = "") -> LockTable:
    return LockTable.from_table_name(stack, "Locks", before + _looked_up(stack, "name"))


def _by_arn(stack: cdk.Stack, arn: str, what: str) -> LockTable:
    return LockTable.from_table_arn(stack, "Locks", arn.format(_looked_up(stack, what)))


_ARN = f"arn:aws:dynamodb:{REGION}:"


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (_named, "table_name"),
        (lambda stack: _named(stack, "prod-"), "table_name"),
        (lambda stack: LockTable(stack, "Locks", table_name=_looked_up(stack, "name")), "table_name"),
        (lambda stack: _by_arn(stack, "{}", "arn"), "table_arn"),
        (lambda stack: _by_arn(stack, f"{_ARN}{ACCOUNT}:table/{{}}", "name"), "table_arn"),
        (lambda stack: _by_arn(stack, f"{_ARN}{{}}:table/locks", "account"), "table_arn"),
    ],
    ids=["named", "more of the name", "made", "by ARN", "by ARN with its name", "by ARN with its account"],
)
def test_a_dummy_is_let_through_and_is_an_error_of_the_synthesis(make, parameter, home):
    locks = make(home)
    locks.connect(new_function(home))
    assert len(policies(home)) == 1
    (error,) = _errors(home)
    assert error.startswith(f"{parameter}='")
    assert "dummy-value-for-/locks/" in error
    assert "has not been made" in error


@_ROLES
def test_the_dummy_of_a_role_is_let_through_and_is_an_error_of_the_synthesis(home):
    LockTable(home, "Locks").grant(iam.Role.from_lookup(home, "Role", role_name="theirs"))
    (error,) = _errors(home)
    assert "Stack/Role" in error


def test_the_real_value_is_used_as_if_it_had_been_passed():
    asked = f"ssm:account={ACCOUNT}:parameterName=/locks/name:region=eu-central-1"
    app = cdk.App(context={asked: "prod-locks"})
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account=ACCOUNT, region="eu-central-1"))
    locks = _named(stack)
    assert locks.environment["LAMBDA_LOCK_TABLE"] == "prod-locks"
    assert _errors(stack) == []
