"""cdk-nag's AwsSolutions rules find nothing in what the construct creates, so nothing has to be suppressed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, REGION


@pytest.fixture
def stack(tmp_path: Path) -> cdk.Stack:
    """A stack that cdk-nag checks when it is synthesized. A finding of level error prevents that."""
    app = cdk.App(outdir=str(tmp_path))
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    return cdk.Stack(app, "Stack", env=cdk.Environment(account=ACCOUNT, region=REGION))


@pytest.fixture
def role(stack: cdk.Stack) -> iam.Role:
    return iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))


def _synthesize(stack: cdk.Stack, folder: Path) -> list[dict[str, Any]]:
    """The findings, including warnings."""
    app = stack.node.root
    assert isinstance(app, cdk.App)
    app.synth()
    reports = json.loads((folder / "validation-report.json").read_text())["pluginReports"]
    return [violation for report in reports for violation in report["violations"]]


def test_the_construct_has_no_finding(stack: cdk.Stack, role: iam.Role, tmp_path: Path) -> None:
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(key)
    locks = LockTable(stack, "Locks", encryption=encryption, alarm_actions=[], dashboard=True)
    locks.grant(role, key_prefixes=["invoice#"])
    LockTable.from_table_name(stack, "Others", "others").grant(role)
    assert _synthesize(stack, tmp_path) == []


def test_the_rules_are_asked(stack: cdk.Stack, role: iam.Role, tmp_path: Path) -> None:
    locks = LockTable(stack, "Locks")
    role.add_to_policy(iam.PolicyStatement(actions=["dynamodb:*"], resources=[locks.table.table_arn]))
    with pytest.raises(RuntimeError, match=r"AwsSolutions-IAM5\[Action::dynamodb:\*\]"):
        _synthesize(stack, tmp_path)
