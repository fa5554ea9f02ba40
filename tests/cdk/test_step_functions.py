"""The construct of docs/step-functions.md makes the state machines and the rule of that page, which work there."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_

from rig.cloud import ACCOUNT
from rig.engine import REGION
from tests.cdk.apps import resources, the_only
from tests.cdk.words import written
from tests.step_functions import page

ALL = page.HANDLERS + page.HANDLERS_OF_PARTS + page.HANDLERS_OF_PERMITS + page.HANDLERS_OF_SLEEP
NAMED = {name: f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}" for name in ALL}


def constructed(stack: cdk.Stack, construct: str, *more: object, arns: dict[str, str] = NAMED) -> dict[str, Any]:
    """Let a construct of the pages make its part, for functions that are there. Returns definitions by their ids."""
    functions = {name: lambda_.Function.from_function_arn(stack, name, arns[name]) for name in ALL}
    names: dict[str, Any] = {}
    for text in ("class Orders", "class AtMost", "class Asleep"):
        exec(compile(page.code(text), "docs/step-functions.md", "exec"), names)
    names[construct](stack, "Orders", functions, *more)
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
