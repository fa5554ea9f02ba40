"""The constructs of docs/step-functions.md make the state machines and the rule of that page, and work.

They are deployed once by the CDK's command line, together with that of docs/waiting-asleep.md and a waker.
"""

import io
import json
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambda_lock.cdk import LockTable
from rig.cdk import DEPLOYED, Cdk
from rig.cloud import ACCOUNT, Cloud
from rig.engine import REGION, Ministack
from tests.cdk.apps import resources, the_only
from tests.cdk.words import written
from tests.step_functions import page
from tests.step_functions.conftest import SHORTER, Shop, is_free, locks
from tests.step_functions.waking import ANSWERS

__all__ = ["is_free", "locks"]

ALL = page.HANDLERS + page.HANDLERS_OF_PARTS + page.HANDLERS_OF_PERMITS + page.HANDLERS_OF_SLEEP
NAMED = {name: f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}" for name in ALL}


def made_in(scope: Construct, construct: str, *more: object, arns: dict[str, str]) -> Any:
    """Let a construct of the pages make its part, for functions that are there."""
    functions = {name: lambda_.Function.from_function_arn(scope, name, arns[name]) for name in ALL}
    names: dict[str, Any] = {}
    for text in ("class Orders", "class AtMost", "class Asleep"):
        exec(compile(page.code(text), "docs/step-functions.md", "exec"), names)
    return names[construct](scope, "Orders", functions, *more)


def constructed(stack: cdk.Stack, construct: str, *more: object, arns: dict[str, str] = NAMED) -> dict[str, Any]:
    """The definitions that a construct of the pages makes, by their ids."""
    made_in(stack, construct, *more, arns=arns)
    machines = resources(stack, "AWS::StepFunctions::StateMachine")
    return {id: written(each["Properties"]["DefinitionString"]) for id, each in machines.items()}


def test_the_construct_makes_the_definitions_and_the_rule_of_the_page(stack):
    orders, after = page.machines(NAMED | {"locks": ""})
    made = constructed(stack, "Orders")
    ids = {definition["Comment"]: id for id, definition in made.items()}
    assert made == {ids[each["Comment"]]: each for each in (orders, after)}
    pattern = page.pattern("machine")
    pattern["detail"]["stateMachineArn"] = [{"Ref": ids[orders["Comment"]]}]
    assert the_only(stack, "AWS::Events::Rule")["Properties"]["EventPattern"] == pattern


def test_the_construct_for_at_most_n_executions_makes_the_same_with_the_functions_of_permits(stack):
    made = constructed(stack, "AtMost")
    on_the_page = page.machines(page.of_permits(NAMED) | {"locks": ""})
    assert {each["Comment"]: each for each in made.values()} == {each["Comment"]: each for each in on_the_page}
    assert the_only(stack, "AWS::Events::Rule")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The functions of the pages, for a table that is not there yet."""
    with Ministack(auth=True, wait_scale=SHORTER, services=DEPLOYED) as engine, Cloud(engine) as cloud:
        yield Shop(cloud, tmp_path_factory.mktemp("shop"), locks="deployed-locks")


@pytest.fixture(scope="module")
def machines(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The constructs, deployed by `cdk deploy`: the ARNs of their state machines."""
    folder = tmp_path_factory.mktemp("app")
    command_line = Cdk(shop.cloud, folder, {})
    app = cdk.App(outdir=str(folder / "out"), analytics_reporting=False)
    stack = cdk.Stack(app, "Stack", synthesizer=cdk.CliCredentialsStackSynthesizer())
    locks = LockTable(stack, "Locks", table_name=shop.locks, wake=True, removal_policy=cdk.RemovalPolicy.DESTROY)
    for name, more in {"Orders": (), "Asleep": (locks,)}.items():
        made = made_in(Construct(stack, name), name, *more, arns=shop.arns)
        cdk.CfnOutput(stack, f"Machine{name}", value=made.machine.state_machine_arn)
    for each in stack.node.find_all():
        if isinstance(each, sqs.CfnQueuePolicy):  # it takes TLS only, which the engine lacks
            each.policy_document = {"Version": "2012-10-17", "Statement": []}
    app.synth()
    outputs = command_line.deploy(folder / "out")
    _run_here(shop.cloud, folder)
    return {name.removeprefix("Machine"): arn for name, arn in outputs.items()}


def _run_here(cloud: Cloud, folder: Path) -> None:
    """Let the deployed waker run under awslambdaric, from the layer that was deployed.

    The engine has no runtime of Amazon. It does not know the state machine of a task token, so the role may answer all.
    """

    def downloaded(location: str) -> io.BytesIO:
        with urllib.request.urlopen(location, timeout=30) as reply:
            return io.BytesIO(reply.read())

    functions = cloud.client("lambda")
    (waker,) = (each for each in functions.list_functions()["Functions"] if each["Handler"] == "index.handler")
    layer = functions.get_layer_version_by_arn(Arn=waker["Layers"][0]["Arn"])
    zipfile.ZipFile(downloaded(layer["Content"]["Location"])).extractall(folder / "opt")
    name, bootstrap = waker["FunctionName"], zipfile.ZipInfo("bootstrap")
    bootstrap.external_attr = 0o755 << 16  # executable
    code = downloaded(functions.get_function(FunctionName=name)["Code"]["Location"])
    with zipfile.ZipFile(code, "a") as package:
        package.writestr(bootstrap, '#!/bin/sh\nexec "$PYBIN" -m awslambdaric "$_HANDLER"\n')
    policy = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **ANSWERS}]})
    role = waker["Role"].rpartition("/")[2]
    cloud.client("iam").put_role_policy(RoleName=role, PolicyName="answers", PolicyDocument=policy)
    variables = waker["Environment"]["Variables"] | {"PYBIN": sys.executable, "AWS_EC2_METADATA_DISABLED": "true"}
    variables |= {"AWS_ENDPOINT_URL": cloud.engine.url, "PYTHONPATH": str(folder / "opt" / "python")}
    settings = {"Runtime": "provided.al2023", "Environment": {"Variables": variables}, "Layers": []}
    functions.update_function_configuration(FunctionName=name, **settings)
    functions.update_function_code(FunctionName=name, ZipFile=code.getvalue(), Architectures=["x86_64"])


@pytest.mark.long
@pytest.mark.ministack_only("functions")
def test_what_cdk_deploy_makes_does_an_order_and_frees_the_lock_of_an_aborted_one(shop, machines, is_free):
    done = shop.start(machines["Orders"], shop.new_order(reserve=["kill"], ship=["raise"]))
    assert done.has_succeeded(1)
    assert is_free(done.order)
    aborted = shop.start(machines["Orders"], shop.new_order())
    aborted.asked()
    aborted.stop()
    shop.cloud.wait_until(lambda: is_free(aborted.order))


@pytest.mark.long
@pytest.mark.ministack_only("functions")
def test_what_cdk_deploy_makes_lets_executions_sleep_and_wakes_them_with_the_rights_of_its_role(shop, machines):
    first = shop.start(machines["Asleep"], shop.new_order())
    task = first.asked()
    second = shop.start(machines["Asleep"], first.order)
    shop.cloud.wait_until(lambda: "Sleep" in second.states())
    first.answer(task)
    assert second.has_succeeded(2)
    assert second.states()[:4] == ["Acquire", "Sleep", "Acquire", "Reserve"]
