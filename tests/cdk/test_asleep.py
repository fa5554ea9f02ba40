"""The construct of docs/waiting-asleep.md, and LockTable(wake=True) as the CDK's command line deploys it."""

from __future__ import annotations

import io
import json
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn

from lambda_lock.cdk import LockTable
from rig import cdk as command_line
from rig.cdk import DEPLOYED, CdkError, run
from rig.cloud import ACCOUNT, Cloud
from rig.engine import REGION, ROOT, Ministack
from tests.cdk.apps import new_function, resources
from tests.cdk.words import written
from tests.step_functions import page
from tests.step_functions.conftest import SHORTER, Shop
from tests.step_functions.waking import ANSWERS

ALL = (*page.HANDLERS, *page.HANDLERS_OF_PERMITS, *page.HANDLERS_OF_SLEEP)
NAMED = {name: f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}" for name in ALL}
TABLE = "asleep-locks"

_APP = """
import json
import sys
import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from lambda_lock.cdk import LockTable

arns = json.loads(open("arns.json").read())
app = cdk.App(analytics_reporting=False)
stack = cdk.Stack(app, "Asleep", synthesizer=cdk.CliCredentialsStackSynthesizer())
locks = LockTable(
    stack, "Locks", table_name="asleep-locks", wake=True, removal_policy=cdk.RemovalPolicy.DESTROY
)
functions = {name: lambda_.Function.from_function_arn(stack, name, arn) for name, arn in arns.items()}
"""
_REST = """
orders = Asleep(stack, "Orders", functions, locks)
cdk.CfnOutput(stack, "Machine", value=orders.machine.state_machine_arn)
for each in stack.node.find_all():
    if isinstance(each, sqs.CfnQueuePolicy):
        each.policy_document = {"Version": "2012-10-17", "Statement": []}  # it takes TLS only, which the engine lacks
app.synth()
"""
_BOOTSTRAP = '#!/bin/sh\nexec "$PYBIN" -m awslambdaric "$_HANDLER"\n'


def of_the_page() -> dict[str, Any]:
    """What the pages' constructs define."""
    names: dict[str, Any] = {}
    for text in ("class Orders", "class Asleep"):
        exec(compile(page.code(text), "docs/waiting-asleep.md", "exec"), names)
    return names


@pytest.mark.parametrize("permits", [False, True], ids=["lock", "permits"])
def test_the_construct_makes_the_definition_of_the_page_and_wakes_its_machine(permits, stack):
    locks = LockTable(stack, "Locks", wake=True)
    arns = page.of_permits(NAMED) if permits else NAMED
    functions = {name: lambda_.Function.from_function_arn(stack, name, arns[name]) for name in ALL}
    of_the_page()["Asleep"](stack, "Orders", functions, locks)
    machines = resources(stack, "AWS::StepFunctions::StateMachine")
    made = {id: written(each["Properties"]["DefinitionString"]) for id, each in machines.items()}
    expected = page.asleep(arns)
    (id,) = (id for id, each in made.items() if each["Comment"] == expected["Comment"])
    assert made[id] == expected
    called = [
        each["Properties"]["PolicyDocument"]["Statement"][0]["Resource"]
        for each in resources(stack, "AWS::IAM::Policy").values()
        if "states:SendTaskSuccess" in json.dumps(each)
    ]
    assert called == [{"Ref": id}]


def test_the_snippet_of_the_page_lets_the_waker_call_the_machine_and_the_function(stack):
    body = sfn.DefinitionBody.from_chainable(sfn.Pass(stack, "Pass"))
    names = {
        "self": stack,
        "topic": sns.Topic(stack, "Topic"),
        "function": new_function(stack),
        "durable_function": new_function(stack, "Durable"),
        "machine": sfn.StateMachine(stack, "Machine", definition_body=body),
    }
    exec(compile(page.code("locks.wake(machine)"), "docs/waiting-asleep.md", "exec"), names)
    exec(compile(page.code("locks.wake(function)"), "docs/waiting-asleep.md", "exec"), names)
    text = json.dumps(resources(stack, "AWS::IAM::Policy"))
    assert "states:SendTaskSuccess" in text
    assert "lambda:SendDurableExecutionCallbackSuccess" in text


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    try:
        command_line.check_installed()
    except CdkError as error:
        pytest.skip(str(error))
    with Ministack(auth=True, wait_scale=SHORTER, services=DEPLOYED) as engine, Cloud(engine) as running:
        yield running


@pytest.fixture(scope="module")
def shop(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The functions of the pages, for a table that is not there yet."""
    return Shop(cloud, tmp_path_factory.mktemp("shop"), locks=TABLE)


@pytest.fixture(scope="module")
def machine(cloud: Cloud, shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The stack, deployed by `cdk deploy`: the ARN of its state machine."""
    folder = tmp_path_factory.mktemp("app")
    code = "\n".join((_APP, page.code("class Orders"), page.code("class Asleep"), _REST))
    (folder / "app.py").write_text(code)
    (folder / "arns.json").write_text(json.dumps({name: shop.arns[name] for name in ALL}))
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    (folder / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py", "context": context}))
    cloud.client("s3").create_bucket(Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}")
    how = ("--require-approval", "never", "--method=direct", "--progress=events", "--outputs-file", "outputs.json")
    run(cloud.engine, folder, "deploy", *how)
    outputs = json.loads((folder / "outputs.json").read_text())
    _run_here(cloud, folder)
    return str(outputs["Asleep"]["Machine"])


def _run_here(cloud: Cloud, folder: Path) -> None:
    """Let the deployed waker run under awslambdaric, from the layer that was deployed.

    The engine does not have Amazon's runtimes. It does not know the state machine of a task token, so the role may
    answer all.
    """
    functions = cloud.client("lambda")
    (name,) = (each["FunctionName"] for each in functions.list_functions()["Functions"] if _is_waker(each))
    found = functions.get_function(FunctionName=name)
    configuration = found["Configuration"]
    (layer,) = configuration["Layers"]
    location = functions.get_layer_version_by_arn(Arn=layer["Arn"])["Content"]["Location"]
    _archive(location).extractall(folder / "opt")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as package:
        bootstrap = zipfile.ZipInfo("bootstrap")
        bootstrap.external_attr = 0o755 << 16  # executable
        package.writestr(bootstrap, _BOOTSTRAP)
        package.writestr("index.py", _archive(found["Code"]["Location"]).read("index.py"))
    role, document = configuration["Role"].rpartition("/")[2], {"Effect": "Allow", **ANSWERS}
    cloud.client("iam").put_role_policy(
        RoleName=role,
        PolicyName="answers",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [document]}),
    )
    variables = configuration["Environment"]["Variables"]
    variables |= {"AWS_ENDPOINT_URL": cloud.engine.url, "AWS_EC2_METADATA_DISABLED": "true"}
    variables |= {"PYBIN": sys.executable, "PYTHONPATH": str(folder / "opt" / "python")}
    functions.update_function_configuration(
        FunctionName=name, Runtime="provided.al2023", Environment={"Variables": variables}, Layers=[]
    )
    functions.update_function_code(FunctionName=name, ZipFile=archive.getvalue(), Architectures=["x86_64"])


def _is_waker(function: dict[str, Any]) -> bool:
    return function["Handler"] == "index.handler"


def _archive(location: str) -> zipfile.ZipFile:
    with urllib.request.urlopen(location, timeout=30) as reply:
        return zipfile.ZipFile(io.BytesIO(reply.read()))


@pytest.mark.long
@pytest.mark.ministack_only("functions")
def test_what_cdk_deploy_makes_lets_executions_sleep_and_wakes_them_with_the_rights_of_its_role(cloud, shop, machine):
    first = shop.start(machine, shop.new_order())
    task = first.asked()
    second = shop.start(machine, first.order)
    cloud.wait_until(lambda: "Sleep" in second.states())
    first.answer(task)
    second.answer(second.asked(2))
    assert second.end()[0] == "SUCCEEDED"
    assert second.states()[:4] == ["Acquire", "Sleep", "Acquire", "Reserve"]
