"""The waker that LockTable(wake=True) makes, what it may do, and for whom. test_wake_templates.py has its settings."""

import json
import re
import sys
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn

from lambda_lock import LockArgumentError, LockConfigurationError
from lambda_lock.cdk import LockTable
from lambda_lock.waker.function import FILTERS
from tests.cdk.apps import new_function, new_stack, resources, warnings
from tests.cdk.statements import FOUR_ACTIONS, allow

MAPPING = "AWS::Lambda::EventSourceMapping"
QUEUE_ARN = {"Fn::GetAtt": ["LocksWakerQueue983F63F6", "Arn"]}
STREAM_ARN = {"Fn::GetAtt": ["LocksTable84FB9352", "StreamArn"]}
# It can call durable functions. The oldest CDK has no name for it.
NEW = lambda_.Runtime("python3.13", lambda_.RuntimeFamily.PYTHON, supports_inline_code=True)
DEAD_ARN = {"Fn::GetAtt": ["LocksWakerDeadLetters11A9D6FF", "Arn"]}
LOG_ARN = {"Fn::GetAtt": ["LocksWakerLog430070A3", "Arn"]}
TO_THE_DEAD = ["sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"]
ALARMS = ["WakerErrors", "WakerLate", "WakerQueue", "WakerDead", "WakerStreamOff", "WakerQueueOff"]


def new_machine(stack: cdk.Stack, id: str = "Machine", **options: Any) -> sfn.StateMachine:
    body = sfn.DefinitionBody.from_chainable(sfn.Pass(stack, f"{id}Pass"))
    return sfn.StateMachine(stack, id, definition_body=body, **options)


@pytest.fixture(scope="module")
def made() -> cdk.Stack:
    """A stack with a lock table and its waker, to be read only."""
    stack = new_stack()
    LockTable(stack, "Locks", wake=True)
    return stack


@pytest.fixture
def locks(stack: cdk.Stack) -> LockTable:
    """A lock table in ``stack``, whose waker can call durable functions."""
    return LockTable(stack, "Locks", wake=NEW)


def properties(stack: cdk.Stack, kind: str) -> dict[str, dict[str, Any]]:
    return {id: each["Properties"] for id, each in resources(stack, kind).items()}


def the_waker(stack: cdk.Stack) -> dict[str, Any]:
    functions = properties(stack, "AWS::Lambda::Function").items()
    (found,) = (each for id, each in functions if id.startswith("LocksWakerFunction"))
    return found


def statements(stack: cdk.Stack) -> list[dict[str, Any]]:
    """All statements of the waker's role, in whichever policy of the stack."""
    return [
        statement
        for each in properties(stack, "AWS::IAM::Policy").values()
        if any("LocksWaker" in json.dumps(role) for role in each["Roles"])
        for statement in each["PolicyDocument"]["Statement"]
    ]


def called(stack: cdk.Stack) -> list[dict[str, Any]]:
    """The statements of the waker's role about whom it may call."""
    return [each for each in statements(stack) if "states:" in str(each) or "lambda:" in str(each)]


def test_the_waker_is_one_line_and_the_library_as_a_layer_for_the_python_that_runs_the_app(stack):
    LockTable(stack, "Locks", wake=True).wake(new_machine(stack))
    ((layer, version),) = resources(stack, "AWS::Lambda::LayerVersion").items()
    waker = the_waker(stack)
    runtime = f"python3.{min(sys.version_info.minor, 14)}"
    assert waker["Code"] == {"ZipFile": "from lambda_lock.waker import handler\n"}
    assert (waker["Handler"], waker["Runtime"], waker["Layers"]) == ("index.handler", runtime, [{"Ref": layer}])
    assert version["Properties"]["CompatibleRuntimes"] == [runtime]
    assert warnings(stack) == []


def test_the_log_of_the_waker_goes_with_it(made):
    (group,) = resources(made, "AWS::Logs::LogGroup").values()
    assert (group["Properties"], group["DeletionPolicy"]) == ({"RetentionInDays": 30}, "Delete")


def test_the_waker_may_run_on_another_python(stack):
    LockTable(stack, "Locks", wake=lambda_.Runtime.PYTHON_3_12)
    assert the_waker(stack)["Runtime"] == "python3.12"


def test_what_an_older_cdk_has_no_options_for_is_in_the_template_all_the_same(made):
    """Without RecursiveLoop, Lambda stops a function that is invoked 16 times by messages which it sent itself."""
    assert the_waker(made)["RecursiveLoop"] == "Allow"
    stream, due = sorted(properties(made, MAPPING).values(), key=lambda each: each["EventSourceArn"] != STREAM_ARN)
    assert (stream["EventSourceArn"], due["EventSourceArn"]) == (STREAM_ARN, QUEUE_ARN)
    assert stream["DestinationConfig"] == {"OnFailure": {"Destination": DEAD_ARN}}
    assert [json.loads(each["Pattern"]) for each in stream["FilterCriteria"]["Filters"]] == FILTERS
    for each in (stream, due):
        assert each["MetricsConfig"] == {"Metrics": ["EventCount"]}
        assert each["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_the_waker_may_lock_log_read_the_stream_and_use_its_queues_and_nothing_else(made):
    stream = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
    queue = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    assert statements(made) == [
        allow(["logs:CreateLogStream", "logs:PutLogEvents"], LOG_ARN),
        allow(stream, STREAM_ARN),
        allow(queue, QUEUE_ARN),
        allow(TO_THE_DEAD, DEAD_ARN),
        allow(FOUR_ACTIONS, {"Fn::GetAtt": ["LocksTable84FB9352", "Arn"]}),
    ]


def test_functions_that_are_connected_learn_of_the_waker_and_get_no_other_permission(stack, locks):
    locks.connect(new_function(stack))
    assert locks.environment["LAMBDA_LOCK_WAKE"] == "1"
    function = properties(stack, "AWS::Lambda::Function")["Function76856677"]
    assert function["Environment"]["Variables"]["LAMBDA_LOCK_WAKE"] == "1"
    roles = properties(stack, "AWS::IAM::Policy").items()
    (policy,) = (each["PolicyDocument"]["Statement"] for id, each in roles if id.startswith("Function"))
    assert policy == [allow(FOUR_ACTIONS, {"Fn::GetAtt": ["LocksTable84FB9352", "Arn"]})]


def test_a_state_machine_that_is_named_may_be_answered_and_no_other(stack, locks):
    machine = new_machine(stack)
    new_machine(stack, "Other")
    assert locks.wake(machine).success
    locks.wake(machine)  # again
    (reference,) = (id for id in resources(stack, "AWS::StepFunctions::StateMachine") if id.startswith("Machine"))
    assert called(stack) == [allow("states:SendTaskSuccess", {"Ref": reference})]


@pytest.mark.parametrize("qualifier", ["", ":prod", ":3"], ids=["itself", "alias", "version"])
def test_what_is_imported_can_be_woken_too(qualifier, home):
    """An execution is one of a version, and its state machine's, whatever it was started by."""
    locks = LockTable(home, "Locks", wake=NEW)
    machine = f"arn:aws:states:{home.region}:{home.account}:stateMachine:orders"
    function = f"arn:aws:lambda:{home.region}:{home.account}:function:orders"
    locks.wake(sfn.StateMachine.from_state_machine_arn(home, "Orders", machine + qualifier))
    locks.wake(lambda_.Function.from_function_arn(home, "Function", function + qualifier))
    assert sorted(str(each["Resource"]) for each in called(home)) == sorted([machine, f"{function}:*"])


@pytest.mark.parametrize(
    "qualified",
    [
        lambda function: function,
        lambda function: function.current_version,
        lambda function: lambda_.Alias(function, "A", alias_name="a", version=function.latest_version),
    ],
    ids=["function", "version", "alias"],
)
def test_the_executions_of_a_function_that_is_named_may_be_called_back_in_each_version(qualified, stack, locks):
    locks.wake(qualified(new_function(stack)))
    arn = {"Fn::Join": ["", [{"Fn::GetAtt": ["Function76856677", "Arn"]}, ":*"]]}
    assert called(stack) == [allow("lambda:SendDurableExecutionCallbackSuccess", arn)]
    assert len(properties(stack, "AWS::IAM::Policy")) == 2  # the waker's own, and that for the function


def test_a_sleeper_of_another_stack_is_woken_without_a_circle_of_stacks(stack, locks):
    others = [cdk.Stack(stack.node.root, id) for id in ("Orders", "More")]
    for other in others:
        function = new_function(other)
        locks.connect(function)
        locks.wake(new_machine(other))
        locks.wake(function)
    of_stacks = [each for other in others for each in properties(other, "AWS::IAM::Policy").values()]
    assert len({each["PolicyName"] for each in of_stacks if "Wake" in json.dumps(each["Roles"])}) == 4


def test_a_customer_managed_key_is_granted_to_the_waker_which_learns_own_names_of_the_key(home):
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(kms.Key(home, "Key"))
    LockTable(home, "Locks", wake=True, encryption=encryption, partition_key_name="id")
    assert any("kms:Decrypt" in each["Action"] for each in statements(home))
    assert the_waker(home)["Environment"]["Variables"]["LAMBDA_LOCK_PARTITION_KEY"] == "id"


def test_alarms_watch_the_waker_and_its_queue_and_the_dashboard_shows_them(stack):
    locks = LockTable(stack, "Locks", wake=True, alarm_actions=[sns.Topic(stack, "Topic")], dashboard=True)
    assert [alarm.node.id for alarm in locks.alarms][-6:] == ALARMS
    found = [each for id, each in properties(stack, "AWS::CloudWatch::Alarm").items() if id.startswith("LocksWaker")]
    assert [each["Threshold"] for each in found] == [0, 60_000, 1200, 0, 1, 1]
    assert all(each["AlarmActions"] for each in found)
    assert all(each["AlarmDescription"]["Fn::Join"][1][0].endswith("table ") for each in found)
    text = json.dumps(properties(stack, "AWS::CloudWatch::Dashboard"))
    for title in (*ALARMS, "IteratorAge", "ApproximateAgeOfOldestMessage"):
        assert title in text


def test_without_alarm_actions_the_waker_has_no_alarm(locks):
    assert locks.alarms == ()


def test_what_cannot_be_woken_is_refused(home):
    locks = LockTable(home, "Locks", wake=True)
    arn = "arn:aws:states:eu-central-1:222222222222:stateMachine:orders"
    with pytest.raises(TypeError, match=r"target must be a StateMachine .* or a Function .*from_state_machine_arn"):
        locks.wake(arn)  # type: ignore[arg-type]
    with pytest.raises(LockConfigurationError, match="Theirs is in another account or Region than Stack/Locks"):
        locks.wake(sfn.StateMachine.from_state_machine_arn(home, "Theirs", arn))
    with pytest.raises(LockArgumentError, match=r"Machine is an Express workflow, .* Use a Standard workflow"):
        locks.wake(new_machine(home, state_machine_type=sfn.StateMachineType.EXPRESS))
    older = LockTable(home, "Others", wake=lambda_.Runtime.PYTHON_3_12)
    with pytest.raises(LockConfigurationError, match=r"runs on python3\.12.* wake=lambda_\.Runtime\.PYTHON_3_13"):
        older.wake(new_function(home))


def test_a_table_on_which_nobody_can_sleep_is_refused(stack):
    with pytest.raises(TypeError, match=r"wake must be True, False or a Runtime of aws_lambda, not 'yes' \(str\)"):
        LockTable(stack, "Text", wake="yes")  # type: ignore[arg-type]
    with pytest.raises(LockArgumentError, match=r"sort_key_name='part': .* without a sort key only"):
        LockTable(stack, "Sorted", wake=True, sort_key_name="part")


def test_a_waker_that_may_wake_nobody_is_told_and_one_that_may_is_not():
    """Judged at the end, as a target may be named by another stack."""
    alone, served = new_stack(), new_stack()
    LockTable(alone, "Locks", wake=True)
    LockTable(served, "Locks", wake=True).wake(new_machine(served))
    (said,) = warnings(alone)
    assert re.search(r"Locks/Waker may wake nobody.* Call wake\(target\)", said)
    assert warnings(served) == []


def test_a_table_without_a_waker_says_where_to_have_one(stack):
    with pytest.raises(LockConfigurationError, match=r"Stack/Locks has no waker: .* Pass wake=True to the LockTable"):
        LockTable(stack, "Locks").wake(new_machine(stack))


def test_a_table_that_is_there_already_says_what_is_possible(home):
    with pytest.raises(LockArgumentError, match=r"wake=True: the waker is made with its table.*waiting-asleep"):
        LockTable.from_table_name(home, "Locks", "locks", wake=True)  # type: ignore[call-arg]
    locks = LockTable.from_table_arn(home, "ByArn", f"arn:aws:dynamodb:{home.region}:{home.account}:table/locks")
    with pytest.raises(LockConfigurationError, match=r"not on a LockTable\.from_… of it"):
        locks.wake(new_machine(home))
