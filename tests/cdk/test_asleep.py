"""The construct of docs/waiting-asleep.md, which test_step_functions.py deploys.

tests/step_functions runs what it defines, with the rights of the waker.
"""

import json

import pytest
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn

from lambda_lock.cdk import LockTable
from tests.cdk.apps import new_function, resources
from tests.cdk.test_step_functions import NAMED, constructed
from tests.step_functions import page


@pytest.mark.parametrize("permits", [False, True], ids=["lock", "permits"])
def test_the_construct_makes_the_definition_of_the_page_and_wakes_its_machine(permits, stack):
    locks = LockTable(stack, "Locks", wake=True)
    arns = page.of_permits(NAMED) if permits else NAMED
    made = constructed(stack, "Asleep", locks, arns=arns)
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
