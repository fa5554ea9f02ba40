"""The waker that LockTable(wake=True) makes, what it may do, and for whom."""

from __future__ import annotations

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
from tests.cdk.apps import (
    ACCOUNT,
    FOUR_ACTIONS,
    REGION,
    allow,
    in_an_account,
    new_function,
    new_stack,
    policies,
    resources,
    synthesized,
    warnings,
)

TABLE = "AWS::DynamoDB::GlobalTable"
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


def the_waker(stack: cdk.Stack) -> dict[str, Any]:
    (found,) = (
        each["Properties"]
        for id, each in resources(stack, "AWS::Lambda::Function").items()
        if id.startswith("LocksWakerFunction")
    )
    return dict(found)


def statements(stack: cdk.Stack) -> list[dict[str, Any]]:
    """All statements of the waker's role, in whichever policy of the stack."""
    return [
        statement
        for each in resources(stack, "AWS::IAM::Policy").values()
        if any("LocksWaker" in json.dumps(role) for role in each["Properties"]["Roles"])
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
    ]


def called(stack: cdk.Stack) -> list[dict[str, Any]]:
    """The statements of the waker's role about whom it may call."""
    return [each for each in statements(stack) if "states:" in str(each) or "lambda:" in str(each)]


def test_without_a_waker_the_template_is_what_it_was():
    """The snapshot of test_table.py is the everyday template; False is the default."""
    by_default, off = new_stack(), new_stack()
    LockTable(by_default, "Locks", alarm_actions=[], dashboard=True).connect(new_function(by_default))
    LockTable(off, "Locks", alarm_actions=[], dashboard=True, wake=False).connect(new_function(off))
    assert synthesized(off) == synthesized(by_default)
    assert "aker" not in json.dumps(synthesized(off))
    assert "StreamSpecification" not in json.dumps(synthesized(off))


def test_the_waker_is_one_line_and_the_library_as_a_layer_for_the_python_that_runs_the_app():
    stack = new_stack()
    LockTable(stack, "Locks", wake=True).wake(new_machine(stack))
    ((layer, version),) = resources(stack, "AWS::Lambda::LayerVersion").items()
    waker = the_waker(stack)
    runtime = f"python3.{min(sys.version_info.minor, 14)}"
    assert waker["Code"] == {"ZipFile": "from lambda_lock.waker import handler\n"}
    assert (waker["Handler"], waker["Runtime"], waker["Layers"]) == ("index.handler", runtime, [{"Ref": layer}])
    assert version["Properties"]["CompatibleRuntimes"] == [runtime]
    assert warnings(stack) == []


def test_lambda_does_not_end_the_looks_of_which_each_one_asks_for_the_next():
    """By default it stops a function that is invoked 16 times by messages which it sent itself."""
    stack = new_stack()
    LockTable(stack, "Locks", wake=True)
    assert the_waker(stack)["RecursiveLoop"] == "Allow"


def test_the_layer_has_the_waker_and_python_finds_its_handler_by_that_line(tmp_path):
    app = cdk.App(outdir=str(tmp_path), analytics_reporting=False)
    LockTable(cdk.Stack(app, "Stack"), "Locks", wake=True)
    app.synth()
    (asset,) = tmp_path.glob("asset.*/python")
    assert (asset / "lambda_lock" / "waker" / "__init__.py").is_file()
    assert not (asset / "lambda_lock" / "cdk").exists()


def test_the_waker_may_run_on_another_python():
    stack = new_stack()
    runtime = lambda_.Runtime("python3.12", lambda_.RuntimeFamily.PYTHON, supports_inline_code=True)
    LockTable(stack, "Locks", wake=runtime)
    assert the_waker(stack)["Runtime"] == "python3.12"


def test_the_stream_has_both_images_and_feeds_the_waker_from_its_beginning_with_what_concerns_sleepers():
    stack = new_stack()
    LockTable(stack, "Locks", wake=True)
    (table,) = resources(stack, TABLE).values()
    assert table["Properties"]["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    mappings = [each["Properties"] for each in resources(stack, MAPPING).values()]
    (stream,) = (each for each in mappings if each["EventSourceArn"] == STREAM_ARN)
    written = [json.loads(each["Pattern"]) for each in stream.pop("FilterCriteria")["Filters"]]
    assert written == FILTERS
    del stream["FunctionName"]
    assert stream == {
        "BatchSize": 100,
        "BisectBatchOnFunctionError": True,
        "DestinationConfig": {"OnFailure": {"Destination": DEAD_ARN}},
        "EventSourceArn": STREAM_ARN,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "MaximumRecordAgeInSeconds": 3600,
        "MetricsConfig": {"Metrics": ["EventCount"]},
        "StartingPosition": "TRIM_HORIZON",
    }


def test_the_queue_is_encrypted_takes_tls_only_feeds_the_waker_and_hides_messages_while_they_are_looked_at():
    stack = new_stack()
    LockTable(stack, "Locks", wake=True)
    queues = resources(stack, "AWS::SQS::Queue")
    queue = queues[id := QUEUE_ARN["Fn::GetAtt"][0]]
    waker = the_waker(stack)
    assert waker["Timeout"] <= 90  # Lambda refuses the mapping otherwise
    assert queue["Properties"] == {
        "MessageRetentionPeriod": 86_400,
        "RedrivePolicy": {"deadLetterTargetArn": DEAD_ARN, "maxReceiveCount": 100},
        "SqsManagedSseEnabled": True,
        "VisibilityTimeout": 90,
    }
    (dead,) = (each["Properties"] for name, each in queues.items() if name != id)
    assert dead == {"MessageRetentionPeriod": 14 * 86_400, "SqsManagedSseEnabled": True}
    assert waker["Environment"]["Variables"]["LAMBDA_LOCK_WAKE_QUEUE"] == {"Ref": id}
    (mapping,) = (
        each["Properties"]
        for each in resources(stack, MAPPING).values()
        if each["Properties"]["EventSourceArn"] == QUEUE_ARN
    )
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    for policy in resources(stack, "AWS::SQS::QueuePolicy").values():
        assert '"aws:SecureTransport": "false"' in json.dumps(policy)


def test_the_log_of_the_waker_is_kept_for_a_month():
    stack = new_stack()
    LockTable(stack, "Locks", wake=True)
    ((id, group),) = resources(stack, "AWS::Logs::LogGroup").items()
    assert the_waker(stack)["LoggingConfig"] == {"LogGroup": {"Ref": id}}
    assert (group["Properties"], group["DeletionPolicy"]) == ({"RetentionInDays": 30}, "Delete")


def test_the_waker_may_lock_log_read_the_stream_and_use_its_queues_and_nothing_else():
    stack = new_stack()
    LockTable(stack, "Locks", wake=True)
    stream = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
    queue = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    assert statements(stack) == [
        allow(["logs:CreateLogStream", "logs:PutLogEvents"], LOG_ARN),
        allow(stream, STREAM_ARN),
        allow(queue, QUEUE_ARN),
        allow(TO_THE_DEAD, DEAD_ARN),
        allow(FOUR_ACTIONS, {"Fn::GetAtt": ["LocksTable84FB9352", "Arn"]}),
    ]


def test_functions_that_are_connected_learn_of_the_waker_and_get_no_other_permission():
    stack = new_stack()
    locks = LockTable(stack, "Locks", wake=True)
    locks.connect(new_function(stack))
    assert locks.environment["LAMBDA_LOCK_WAKE"] == "1"
    function = resources(stack, "AWS::Lambda::Function")["Function76856677"]["Properties"]
    assert function["Environment"]["Variables"]["LAMBDA_LOCK_WAKE"] == "1"
    (policy,) = (
        each["Properties"]["PolicyDocument"]["Statement"]
        for id, each in resources(stack, "AWS::IAM::Policy").items()
        if id.startswith("Function")
    )
    assert policy == [allow(FOUR_ACTIONS, {"Fn::GetAtt": ["LocksTable84FB9352", "Arn"]})]


def test_a_state_machine_that_is_named_may_be_answered_and_no_other():
    stack = new_stack()
    locks = LockTable(stack, "Locks", wake=True)
    machine = new_machine(stack)
    new_machine(stack, "Other")
    assert locks.wake(machine).success
    locks.wake(machine)  # again
    (reference,) = (id for id in resources(stack, "AWS::StepFunctions::StateMachine") if id.startswith("Machine"))
    assert called(stack) == [allow("states:SendTaskSuccess", {"Ref": reference})]


@pytest.mark.parametrize("qualifier", ["", ":prod", ":3"], ids=["itself", "alias", "version"])
def test_what_is_imported_can_be_woken_too(qualifier):
    """An execution is one of a version, and its state machine's, whatever it was started by."""
    stack = in_an_account()
    locks = LockTable(stack, "Locks", wake=NEW)
    machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:orders"
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:orders"
    locks.wake(sfn.StateMachine.from_state_machine_arn(stack, "Orders", machine + qualifier))
    locks.wake(lambda_.Function.from_function_arn(stack, "Function", function + qualifier))
    assert sorted(str(each["Resource"]) for each in called(stack)) == sorted([machine, f"{function}:*"])


def qualified(function: lambda_.Function) -> list[lambda_.IFunction]:
    return [
        function,
        function.current_version,
        lambda_.Alias(function, "A", alias_name="a", version=function.latest_version),
    ]


@pytest.mark.parametrize("which", [0, 1, 2], ids=["function", "version", "alias"])
def test_the_executions_of_a_function_that_is_named_may_be_called_back_in_each_version(which):
    stack = new_stack()
    locks = LockTable(stack, "Locks", wake=NEW)
    locks.wake(qualified(new_function(stack))[which])
    arn = {"Fn::Join": ["", [{"Fn::GetAtt": ["Function76856677", "Arn"]}, ":*"]]}
    assert called(stack) == [allow("lambda:SendDurableExecutionCallbackSuccess", arn)]


def test_nothing_that_the_waker_may_do_is_allowed_on_everything():
    stack = new_stack()
    locks = LockTable(stack, "Locks", wake=NEW)
    locks.wake(new_machine(stack))
    locks.wake(new_function(stack))
    found = [json.dumps(each["Resource"]) for each in statements(stack)]
    assert len(found) == 7
    assert '"*"' not in "".join(found)
    assert all('":*"' not in each or '"Arn"' in each for each in found)


def test_a_sleeper_of_another_stack_is_woken_without_a_circle_of_stacks():
    app = cdk.App()
    here, there, more = (cdk.Stack(app, id) for id in ("Locks", "Orders", "More"))
    locks = LockTable(here, "Locks", wake=NEW)
    for stack in (there, more):
        function = new_function(stack)
        locks.connect(function)
        locks.wake(new_machine(stack))
        locks.wake(function)
    app.synth()
    names = [
        each["Properties"]["PolicyName"]
        for stack in (there, more)
        for each in resources(stack, "AWS::IAM::Policy").values()
        if "Wake" in json.dumps(each["Properties"]["Roles"])
    ]
    assert len(set(names)) == 4


def test_a_customer_managed_key_is_granted_to_the_waker():
    stack = in_an_account()
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(kms.Key(stack, "Key"))
    LockTable(stack, "Locks", wake=True, encryption=encryption)
    assert any("kms:Decrypt" in each["Action"] for each in statements(stack))


def test_own_names_of_the_key_reach_the_waker():
    stack = new_stack()
    LockTable(stack, "Locks", wake=True, partition_key_name="id")
    assert the_waker(stack)["Environment"]["Variables"]["LAMBDA_LOCK_PARTITION_KEY"] == "id"


def test_alarms_watch_the_waker_and_its_queue_and_the_dashboard_shows_them():
    stack = new_stack()
    topic = sns.Topic(stack, "Topic")
    locks = LockTable(stack, "Locks", wake=True, alarm_actions=[topic], dashboard=True)
    assert [alarm.node.id for alarm in locks.alarms][-6:] == ALARMS
    alarms = {
        each["Properties"]["AlarmDescription"]["Fn::Join"][1][0]: each["Properties"]
        for id, each in resources(stack, "AWS::CloudWatch::Alarm").items()
        if id.startswith("LocksWaker")
    }
    assert len(resources(stack, "AWS::CloudWatch::Alarm")) == 13
    found = [each["Properties"] for id, each in resources(stack, "AWS::CloudWatch::Alarm").items() if "Waker" in id]
    assert [each["Threshold"] for each in found] == [0, 60_000, 1200, 0, 1, 1]
    assert all(each["AlarmActions"] for each in found)
    assert {text[-6:] for text in alarms} == {"table "}
    (dashboard,) = resources(stack, "AWS::CloudWatch::Dashboard").values()
    text = json.dumps(dashboard)
    for title in (
        *ALARMS,
        "IteratorAge",
        "ApproximateAgeOfOldestMessage",
    ):
        assert title in text


def test_a_mapping_that_polls_nothing_raises_an_alarm_because_it_has_no_metric():
    stack = new_stack()
    LockTable(stack, "Locks", wake=True, alarm_actions=[])
    alarms, mappings = resources(stack, "AWS::CloudWatch::Alarm"), resources(stack, MAPPING)
    off = [each["Properties"] for id, each in alarms.items() if "Off" in id]
    assert {each["Dimensions"][0]["Value"]["Ref"] for each in off} == mappings.keys()
    for each in off:
        assert (each["MetricName"], each["Statistic"]) == ("PolledEventCount", "SampleCount")
        assert (each["ComparisonOperator"], each["TreatMissingData"]) == ("LessThanThreshold", "breaching")
        assert (each["Period"], each["EvaluationPeriods"], each["DatapointsToAlarm"]) == (300, 5, 3)
    assert all(each["Properties"]["MetricsConfig"] == {"Metrics": ["EventCount"]} for each in mappings.values())


def test_without_alarm_actions_the_waker_has_no_alarm():
    stack = new_stack()
    locks = LockTable(stack, "Locks", wake=True)
    assert locks.alarms == ()


def of_a_text(locks: LockTable, stack: cdk.Stack) -> None:
    locks.wake("arn:aws:states:eu-central-1:111111111111:stateMachine:orders")  # type: ignore[arg-type]


def of_an_express_workflow(locks: LockTable, stack: cdk.Stack) -> None:
    locks.wake(new_machine(stack, state_machine_type=sfn.StateMachineType.EXPRESS))


def of_a_python_that_cannot(locks: LockTable, stack: cdk.Stack) -> None:
    other = cdk.Stack(cdk.App(), "Other")
    LockTable(other, "Locks", wake=lambda_.Runtime.PYTHON_3_12).wake(new_function(other))


def of_another_account(locks: LockTable, stack: cdk.Stack) -> None:
    arn = f"arn:aws:states:{REGION}:222222222222:stateMachine:orders"
    locks.wake(sfn.StateMachine.from_state_machine_arn(stack, "Theirs", arn))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (of_a_text, TypeError, r"target must be a StateMachine .* or a Function .*from_state_machine_arn"),
        (of_a_python_that_cannot, LockConfigurationError, r"runs on python3\.12.* wake=lambda_\.Runtime\.PYTHON_3_13"),
        (of_an_express_workflow, LockArgumentError, "Machine is an Express workflow, .* Use a Standard workflow"),
        (of_another_account, LockConfigurationError, "Theirs is in another account or Region than Stack/Locks"),
    ],
)
def test_what_cannot_be_woken_is_refused(call, error, says):
    stack = in_an_account()
    with pytest.raises(error, match=says):
        call(LockTable(stack, "Locks", wake=True), stack)


def test_a_waker_that_may_wake_nobody_is_told_and_one_that_may_is_not():
    """Judged at the end, as a target may be named by another stack."""
    alone, served = new_stack(), new_stack()
    LockTable(alone, "Locks", wake=True)
    LockTable(served, "Locks", wake=True).wake(new_machine(served))
    (said,) = warnings(alone)
    assert re.search(r"Locks/Waker may wake nobody.* Call wake\(target\)", said)
    assert warnings(served) == []


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"wake": "yes"}, TypeError, r"wake must be True, False or a Runtime of aws_lambda, not 'yes' \(str\)"),
        (
            {"wake": True, "sort_key_name": "part"},
            LockArgumentError,
            "sort_key_name='part': .* without a sort key only",
        ),
    ],
)
def test_a_table_on_which_nobody_can_sleep_is_refused(options, error, says):
    with pytest.raises(error, match=says):
        LockTable(new_stack(), "Locks", **options)


def test_a_table_without_a_waker_says_where_to_have_one():
    stack = new_stack()
    with pytest.raises(LockConfigurationError, match=r"Stack/Locks has no waker: .* Pass wake=True to the LockTable"):
        LockTable(stack, "Locks").wake(new_machine(stack))


def test_a_table_that_is_there_already_says_what_is_possible():
    stack = in_an_account()
    with pytest.raises(LockArgumentError, match=r"wake=True: the waker is made with its table.*waiting-asleep"):
        LockTable.from_table_name(stack, "Locks", "locks", wake=True)  # type: ignore[call-arg]
    locks = LockTable.from_table_arn(stack, "ByArn", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/locks")
    with pytest.raises(LockConfigurationError, match=r"not on a LockTable\.from_… of it"):
        locks.wake(new_machine(stack))


def test_the_policies_of_the_waker_are_not_those_of_the_sleepers():
    stack = new_stack()
    locks = LockTable(stack, "Locks", wake=NEW)
    function = new_function(stack)
    locks.wake(function)
    assert len(policies(stack)) == 2  # the waker's own, and that for the function
