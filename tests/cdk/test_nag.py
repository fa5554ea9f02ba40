"""What cdk-nag's packs of rules find in what the construct creates, and what they do not look at."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, REGION, new_role
from tests.cdk.forms import FORMS, OLD_PYTHON

PACKS: dict[str, Callable[[cdk.App], Any]] = {
    "AwsSolutions": cdk_nag.AwsSolutionsChecks,
    "Serverless": cdk_nag.ServerlessChecks,
    "HIPAA": cdk_nag.HIPAASecurityChecks,
    "NIST": cdk_nag.NIST80053R5Checks,
    "PCI": cdk_nag.PCIDSS321Checks,
}
INLINE = {"IAMNoInlinePolicy"}  # of the role: each grant of the CDK makes one


def _stack(folder: Path, pack: str) -> cdk.Stack:
    """A stack that cdk-nag checks when it is synthesized. A finding of level error prevents that."""
    app = cdk.App(outdir=str(folder))
    cdk.Validations.of(app).add_plugins(PACKS[pack](app))
    return cdk.Stack(app, "Stack", env=cdk.Environment(account=ACCOUNT, region=REGION))


def _findings(stack: cdk.Stack, folder: Path) -> set[str]:
    """The names of the rules that found something, including warnings, without the pack's name."""
    app = stack.node.root
    assert isinstance(app, cdk.App)
    with contextlib.suppress(RuntimeError):  # an error among the findings
        app.synth()
    reports = json.loads((folder / "validation-report.json").read_text())["pluginReports"]
    return {violation["ruleName"].partition("-")[2] for report in reports for violation in report["violations"]}


@pytest.mark.parametrize(
    ("pack", "found"),
    [("Serverless", set()), ("HIPAA", INLINE), ("NIST", INLINE), ("PCI", INLINE)],  # AwsSolutions: below
)
def test_the_construct_has_no_finding_but_that_a_grant_is_an_inline_policy(pack, found, tmp_path):
    stack = _stack(tmp_path, pack)
    FORMS["with_all_options"](stack)
    assert _findings(stack, tmp_path) == found


def test_of_a_waker_the_rules_want_the_newest_python_and_no_permission_for_each_version(tmp_path):
    stack = _stack(tmp_path, "AwsSolutions")
    locks = LockTable(stack, "Locks", wake=OLD_PYTHON, alarm_actions=[])
    function = lambda_.Function.from_function_arn(stack, "Durable", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:d")
    locks.wake(function)
    assert _findings(stack, tmp_path) == {"L1", f"IAM5[Resource::{function.function_arn}:*]"}


@pytest.mark.parametrize("form", FORMS)
def test_the_rules_of_aws_solutions_find_nothing_in_any_form(form, tmp_path):
    stack = _stack(tmp_path, "AwsSolutions")
    FORMS[form](stack)
    assert _findings(stack, tmp_path) == set()


def test_the_rules_are_asked(tmp_path):
    stack = _stack(tmp_path, "AwsSolutions")
    statement = iam.PolicyStatement(actions=["dynamodb:*"], resources=[LockTable(stack, "Locks").table.table_arn])
    new_role(stack).add_to_policy(statement)
    assert _findings(stack, tmp_path) == {"IAM5[Action::dynamodb:*]"}


@pytest.mark.parametrize(
    ("pack", "recovery", "found"),
    [
        ("AwsSolutions", False, {"DDB3"}),
        ("AwsSolutions", True, set()),
        ("Serverless", False, set()),
        ("HIPAA", False, {"DynamoDBPITREnabled", "DynamoDBInBackupPlan"}),
        ("HIPAA", True, {"DynamoDBInBackupPlan"}),
        ("NIST", False, {"DynamoDBPITREnabled", "DynamoDBInBackupPlan"}),
        ("PCI", False, set()),
    ],
)
def test_what_the_rules_would_say_of_the_same_table_if_they_looked_at_it(pack, recovery, found, tmp_path):
    """They look at AWS::DynamoDB::Table. The construct makes an AWS::DynamoDB::GlobalTable, which they pass over."""
    stack = _stack(tmp_path, pack)
    made = LockTable(stack, "Locks", point_in_time_recovery=recovery).table.node.default_child
    assert isinstance(made, dynamodb.CfnGlobalTable)
    (replica,) = stack.resolve(made.replicas)
    recovers: dict[str, Any] = replica.get("pointInTimeRecoverySpecification", {})
    dynamodb.CfnTable(
        stack,
        "Same",
        key_schema=stack.resolve(made.key_schema),
        attribute_definitions=stack.resolve(made.attribute_definitions),
        billing_mode=made.billing_mode,
        point_in_time_recovery_specification=dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(
            point_in_time_recovery_enabled=recovers.get("pointInTimeRecoveryEnabled", False)
        ),
    )
    assert _findings(stack, tmp_path) == found
