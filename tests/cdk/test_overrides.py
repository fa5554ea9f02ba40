"""What aspects write over with add_property_override counts, although no attribute of a resource shows it."""

from typing import Any

import aws_cdk as cdk
import jsii
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import IConstruct

from lambda_lock.cdk import LockTable
from tests.cdk.apps import in_an_account, new_function, synthesized, warnings

STRING = dynamodb.AttributeType.STRING
REPLICA, DELETED = "Properties.Replicas.0", {"removal_policy": cdk.RemovalPolicy.DESTROY}
FUNCTION, TABLE, GROUP = lambda_.CfnFunction, dynamodb.CfnGlobalTable, logs.CfnLogGroup


@jsii.implements(cdk.IAspect)
class _Override:
    def __init__(self, kind: type[cdk.CfnResource], path: str, value: Any) -> None:
        self._kind, self._path, self._value = kind, path, value

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, self._kind):
            node.add_override(self._path, self._value)


def _overridden(kind: type[cdk.CfnResource], path: str, value: Any, **options: Any) -> cdk.Stack:
    stack = in_an_account()
    function = new_function(stack, log_group=logs.LogGroup(stack, "Group"))
    LockTable(stack, "Locks", **options).connect(function)
    cdk.Aspects.of(stack).add(_Override(kind, path, value))
    return stack


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        (FUNCTION, "Properties.Environment.Variables.LAMBDA_LOCK_TABLE", "theirs", "has LAMBDA_LOCK_TABLE='theirs'"),
        (TABLE, "Properties.Replicas.1", {"Region": "us-east-1"}, "two Regions would each grant the same lock"),
        (TABLE, "Properties.Replicas", {"Fn::If": ["Both", [], []]}, "two Regions would each grant the same lock"),
        (TABLE, "Properties.TimeToLiveSpecification.AttributeName", "expires", "may delete a live lock"),
    ],
    ids=["table", "replica", "replicas that are not known yet", "time to live"],
)
def test_what_lets_two_hold_one_lock_fails_the_synthesis(kind, path, value, said):
    with pytest.raises(RuntimeError, match=said):
        synthesized(_overridden(kind, path, value))


@pytest.mark.parametrize(
    ("kind", "path", "value", "options", "said"),
    [
        (FUNCTION, "Properties.LoggingConfig.ApplicationLogLevel", "ERROR", {}, None),
        (FUNCTION, "Properties.Environment.Variables.LAMBDA_LOCK_METRICS", "mine", {}, "LAMBDA_LOCK_METRICS='mine'"),
        (FUNCTION, "Properties.Runtime", "nodejs22.x", {}, "runs on nodejs22.x, and lambda_lock needs Python 3.11"),
        (GROUP, "Properties.LogGroupClass", "INFREQUENT_ACCESS", {}, "of the class INFREQUENT_ACCESS"),
        (TABLE, f"{REPLICA}.DeletionProtectionEnabled", True, DELETED, "Stack/Locks is to be deleted with its stack"),
        (TABLE, "DeletionPolicy", "Delete", {}, "deleting the stack fails. Pass deletion_protection=False"),
    ],
)
def test_what_makes_locks_or_alarms_useless_gets_its_warning(kind, path, value, options, said):
    found = warnings(_overridden(kind, path, value, **options))
    assert [said in each for each in found] == [True] if said else found == []


def test_a_table_and_a_function_in_a_nested_stack_are_judged_too(home):
    nested = cdk.NestedStack(home, "Nested")
    LockTable(nested, "Locks").connect(new_function(nested))
    cdk.Aspects.of(home).add(_Override(FUNCTION, "Properties.Environment.Variables.LAMBDA_LOCK_TABLE", "theirs"))
    with pytest.raises(RuntimeError, match="has LAMBDA_LOCK_TABLE='theirs'"):
        synthesized(home)


def test_a_second_synthesis_judges_what_is_there_by_then(home):
    function = new_function(home)
    LockTable(home, "Locks").connect(function)
    synthesized(home)
    app: Any = home.node.root
    function.add_environment("LAMBDA_LOCK_TABLE", "theirs")
    with pytest.raises(RuntimeError, match="has LAMBDA_LOCK_TABLE='theirs'"):
        app.synth(force=True)
