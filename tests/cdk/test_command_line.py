"""Look-ups with the CDK's own command line, which alone makes them, and an engine as the account."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import cdk as command_line
from rig.cloud import Cloud
from rig.engine import REGION, ROOT, Ministack

pytestmark = pytest.mark.slow  # the app runs three times; test_lookups.py shows the rest in seconds

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
in_an_arn = f"arn:aws:dynamodb:us-east-1:000000000000:table/more-{named}"
LockTable.from_table_arn(stack, "InAnArn", in_an_arn).grant(role)
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
    with Ministack(services=command_line.DEPLOYED) as engine, Cloud(engine) as cloud:
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


def test_the_command_line_looks_everything_up_and_grants_it(engine, folder):
    assert not (folder / "cdk.context.json").exists()
    _synthesize(engine, folder)
    template = json.loads((folder / "cdk.out" / "Stack.template.json").read_text())
    (policy,) = (each for each in template["Resources"].values() if each["Type"] == "AWS::IAM::Policy")
    assert policy["Properties"]["Roles"] == ["theirs"]
    text = json.dumps(policy["Properties"]["PolicyDocument"])
    assert "table/prod-locks" in text
    assert "table/other-locks" in text
    assert "table/more-prod-locks" in text
    assert "dummy" not in text.lower()


def test_what_is_wrong_with_a_looked_up_value_fails_the_synthesis_in_the_end(engine, folder):
    with pytest.raises(command_line.CdkError, match="Stack/Role cannot receive the permissions"):
        _synthesize(engine, folder, "{'mutable': False}")
    assert "role/theirs" in (folder / "cdk.context.json").read_text()
