"""The construct of docs/step-functions.md makes the state machines and the rule of that page, and they work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_

from rig.cloud import ACCOUNT
from rig.engine import REGION
from tests.cdk.words import written
from tests.step_functions import page
from tests.step_functions.conftest import Shop, cloud, is_free, locks, shop

__all__ = ["cloud", "is_free", "locks", "shop"]

ALL = page.HANDLERS + page.HANDLERS_OF_PARTS + page.HANDLERS_OF_PERMITS + page.HANDLERS_OF_SLEEP
NAMED = {name: f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}" for name in ALL}


def template(arns: dict[str, str], folder: Path, construct: str = "Orders") -> dict[str, Any]:
    """The stack with a construct of the page, for functions that are there already."""
    app = cdk.App(outdir=str(folder), analytics_reporting=False)
    stack = cdk.Stack(app, "Shop", synthesizer=cdk.BootstraplessSynthesizer())
    functions = {name: lambda_.Function.from_function_arn(stack, name, arns[name]) for name in ALL}
    names: dict[str, Any] = {}
    for text in ("class Orders", "class AtMost"):
        exec(compile(page.code(text), "docs/step-functions.md", "exec"), names)
    orders = names[construct](stack, "Orders", functions)
    cdk.CfnOutput(stack, "Machine", value=orders.machine.state_machine_arn)
    made: dict[str, Any] = app.synth().get_stack_by_name("Shop").template
    return made


def of(template: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == kind]


def test_the_construct_makes_the_definitions_and_the_rule_of_the_page(tmp_path):
    made = template(NAMED, tmp_path)
    definitions = [written(each["DefinitionString"]) for each in of(made, "AWS::StepFunctions::StateMachine")]
    by_comment = {each["Comment"]: each for each in definitions}
    on_the_page = page.machines(NAMED | {"locks": ""})
    assert by_comment == {each["Comment"]: each for each in on_the_page}
    (rule,) = of(made, "AWS::Events::Rule")
    (reference,) = rule["EventPattern"]["detail"]["stateMachineArn"]
    machine = made["Resources"][reference["Ref"]]["Properties"]
    assert written(machine["DefinitionString"]) == on_the_page[0]
    assert rule["EventPattern"] == page.pattern("machine") | {
        "detail": page.pattern("machine")["detail"] | {"stateMachineArn": [reference]}
    }


def test_the_construct_for_at_most_n_executions_makes_the_same_with_the_functions_of_permits(tmp_path):
    made = template(NAMED, tmp_path, "AtMost")
    definitions = [written(each["DefinitionString"]) for each in of(made, "AWS::StepFunctions::StateMachine")]
    on_the_page = page.machines(page.of_permits(NAMED) | {"locks": ""})
    assert {each["Comment"]: each for each in definitions} == {each["Comment"]: each for each in on_the_page}
    assert len(of(made, "AWS::Events::Rule")) == 1


@pytest.fixture
def deployed(shop: Shop, tmp_path: Path) -> Iterator[str]:
    """The stack, deployed by CloudFormation of the engine: the ARN of its state machine."""
    stacks = shop.cloud.client("cloudformation")
    body = json.dumps(template(shop.arns, tmp_path))
    stacks.create_stack(StackName="Shop", TemplateBody=body, Capabilities=["CAPABILITY_IAM"])
    stacks.get_waiter("stack_create_complete").wait(StackName="Shop", WaiterConfig={"Delay": 0.05, "MaxAttempts": 600})
    (output,) = stacks.describe_stacks(StackName="Shop")["Stacks"][0]["Outputs"]
    yield output["OutputValue"]
    stacks.delete_stack(StackName="Shop")


@pytest.mark.long
def test_what_the_construct_deploys_does_an_order_and_frees_the_lock_of_an_aborted_one(shop, deployed, is_free):
    done = shop.start(deployed, shop.new_order(reserve=["kill"], ship=["raise"]))
    done.answer(done.asked())
    assert done.end()[0] == "SUCCEEDED"
    assert is_free(done.order)
    aborted = shop.start(deployed, shop.new_order())
    aborted.asked()
    aborted.stop()
    shop.cloud.wait_until(lambda: is_free(aborted.order))
