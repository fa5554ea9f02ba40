"""Look-ups: their dummies are let through once, and what stays wrong still fails the synthesis.

The command line makes the look-ups, so it does so here: with the CDK's own command line, and an engine as the account.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm

from lambda_lock.cdk import LockTable
from rig import cdk as command_line
from rig.cloud import Cloud
from rig.engine import REGION, ROOT, Ministack
from tests.cdk.apps import ACCOUNT, in_an_account, new_function, policies

_ROLES = pytest.mark.skipif(not hasattr(iam.Role, "from_lookup"), reason="this CDK looks up no roles")


def _errors(stack: cdk.Stack) -> list[str]:
    found = assertions.Annotations.from_stack(stack).find_error("*", assertions.Match.any_value())
    return [str(each.entry.data) for each in found]


def _named(stack: cdk.Stack) -> LockTable:
    return LockTable.from_table_name(stack, "Locks", ssm.StringParameter.value_from_lookup(stack, "/locks/name"))


def _by_arn(stack: cdk.Stack) -> LockTable:
    return LockTable.from_table_arn(stack, "Locks", ssm.StringParameter.value_from_lookup(stack, "/locks/arn"))


def _made(stack: cdk.Stack) -> LockTable:
    return LockTable(stack, "Locks", table_name=ssm.StringParameter.value_from_lookup(stack, "/locks/name"))


@pytest.mark.parametrize(("make", "parameter"), [(_named, "table_name"), (_by_arn, "table_arn"), (_made, "table_name")])
def test_a_dummy_is_let_through_and_is_an_error_of_the_synthesis(make: Any, parameter: str) -> None:
    stack = in_an_account()
    locks = make(stack)
    locks.connect(new_function(stack))
    assert len(policies(stack)) == 1
    (error,) = _errors(stack)
    assert error.startswith(f"{parameter}='dummy-value-for-/locks/")
    assert "has not been made" in error


@_ROLES
def test_the_dummy_of_a_role_is_let_through_and_is_an_error_of_the_synthesis() -> None:
    stack = in_an_account()
    LockTable(stack, "Locks").grant(iam.Role.from_lookup(stack, "Role", role_name="theirs"))
    (error,) = _errors(stack)
    assert "Stack/Role" in error


def test_the_real_value_is_used_as_if_it_had_been_passed() -> None:
    asked = f"ssm:account={ACCOUNT}:parameterName=/locks/name:region=eu-central-1"
    app = cdk.App(context={asked: "prod-locks"})
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account=ACCOUNT, region="eu-central-1"))
    locks = _named(stack)
    assert locks.environment["LAMBDA_LOCK_TABLE"] == "prod-locks"
    assert _errors(stack) == []


_APP = """
import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm
from lambda_lock.cdk import LockTable

app = cdk.App()
stack = cdk.Stack(app, "Stack", env=cdk.Environment(account="000000000000", region="us-east-1"))
named, by_arn = (ssm.StringParameter.value_from_lookup(stack, f"/locks/{each}") for each in ("name", "arn"))
role = iam.Role.from_lookup(stack, "Role", role_name="theirs", **{OPTIONS})
LockTable.from_table_name(stack, "Named", named).grant(role)
LockTable.from_table_arn(stack, "ByArn", by_arn).grant(role)
app.synth()
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Ministack]:
    try:
        command_line.check_installed()
    except command_line.CdkError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    with Ministack() as engine, Cloud(engine) as cloud:
        parameters = cloud.client("ssm")
        parameters.put_parameter(Name="/locks/name", Value="prod-locks", Type="String")
        arn = f"arn:aws:dynamodb:{REGION}:000000000000:table/other-locks"
        parameters.put_parameter(Name="/locks/arn", Value=arn, Type="String")
        role = {
            "Name": "theirs",  # what the engine takes for the identifier
            "RoleName": "theirs",
            "Arn": "arn:aws:iam::000000000000:role/theirs",
        }
        cloud.client("cloudcontrol").create_resource(TypeName="AWS::IAM::Role", DesiredState=json.dumps(role))
        yield engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app's folder: what was looked up stays there, so only the first synthesis takes two runs of the app."""
    return tmp_path_factory.mktemp("app")


def _synthesize(engine: Ministack, folder: Path, options: str = "{}") -> str:
    (folder / "app.py").write_text(_APP.replace("{OPTIONS}", options))
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    (folder / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py", "context": context}))
    return command_line.run(engine, folder, "synth", "--quiet")


@_ROLES
def test_the_command_line_looks_everything_up_and_grants_it(engine: Ministack, folder: Path) -> None:
    assert not (folder / "cdk.context.json").exists()
    _synthesize(engine, folder)
    template = json.loads((folder / "cdk.out" / "Stack.template.json").read_text())
    (policy,) = (each for each in template["Resources"].values() if each["Type"] == "AWS::IAM::Policy")
    assert policy["Properties"]["Roles"] == ["theirs"]
    text = json.dumps(policy["Properties"]["PolicyDocument"])
    assert "table/prod-locks" in text
    assert "table/other-locks" in text
    assert "dummy" not in text.lower()


@_ROLES
def test_what_is_wrong_with_a_looked_up_value_fails_the_synthesis_in_the_end(engine: Ministack, folder: Path) -> None:
    with pytest.raises(command_line.CdkError, match="Stack/Role cannot receive the permissions"):
        _synthesize(engine, folder, "{'mutable': False}")
    assert "role/theirs" in (folder / "cdk.context.json").read_text()
