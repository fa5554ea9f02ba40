"""docs/deploy/wake-sam.yaml and wake-terraform.tf make what LockTable(wake=True) makes."""

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk.cloudformation_include import CfnInclude

from lambda_lock.cdk import LockTable
from rig.engine import ROOT
from tests.cdk.apps import new_function, new_stack, synthesized
from tests.cdk.test_other_tools import terraform
from tests.cdk.words import as_of_one_region, in_words

_FOLDER = ROOT / "docs" / "deploy"
_KINDS = {  # the resources of the construct, by what the templates call them
    "Locks": "AWS::DynamoDB::GlobalTable",
    "WakerLog": "AWS::Logs::LogGroup",
    "WakerLibrary": "AWS::Lambda::LayerVersion",
    "Orders": "AWS::StepFunctions::StateMachine",
}
_ALARMS = ("WakerErrors", "WakerLate", "WakerOldest", "WakerDead")
_OFF = ("WakerStreamOff", "WakerQueueOff")
_LOG = "${WakerLog.Arn}"

Properties = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def made() -> Properties:
    """The construct's resources by the names of the templates, and ``statements``: those of the waker's role."""
    stack = new_stack()
    runtime = lambda_.Runtime("python3.13", lambda_.RuntimeFamily.PYTHON, supports_inline_code=True)
    topic = sns.Topic.from_topic_arn(stack, "Topic", cdk.CfnParameter(stack, "AlarmTopic").value_as_string)
    locks = LockTable(stack, "Locks", wake=runtime, alarm_actions=[topic])
    body = sfn.DefinitionBody.from_chainable(sfn.Pass(stack, "Pass"))
    durable = new_function(stack, "Durable")
    locks.connect(durable)
    locks.wake(sfn.StateMachine(stack, "Orders", definition_body=body))
    locks.wake(durable)
    found = synthesized(stack)["Resources"]
    names = {id: name for name, kind in _KINDS.items() for id, each in found.items() if each["Type"] == kind}
    for id, each in found.items():
        if each["Type"] == "AWS::Lambda::Function":
            names[id] = "Waker" if id.startswith("LocksWaker") else "Durable"
        if each["Type"] == "AWS::Lambda::EventSourceMapping":
            names[id] = "WakerStream" if "StartingPosition" in each["Properties"] else "WakerDue"
        if each["Type"] == "AWS::CloudWatch::Alarm" and "Waker" in id:
            names[id] = id[len("Locks") : -8].replace("WakerQueue", "WakerOldest").replace("OldestOff", "QueueOff")
        if each["Type"].startswith("AWS::SQS::Queue"):
            names[id] = id[len("Locks") : -8]
    resources: dict[str, Any] = in_words(found, names)
    properties = {names[id]: each["Properties"] for id, each in resources.items() if id in names}
    for alarm in (*_ALARMS, *_OFF):
        del properties[alarm]["AlarmDescription"]
    as_of_one_region(properties["Locks"])
    policies = [each["Properties"] for each in resources.values() if each["Type"] == "AWS::IAM::Policy"]
    of_waker = [each["PolicyDocument"] for each in policies if "Waker" in json.dumps(each["Roles"])]
    statements = sorted((one for each in of_waker for one in each["Statement"]), key=str)
    return {**properties, "statements": {"all": statements}}


@pytest.fixture(scope="module")
def sam() -> Properties:
    stack = new_stack()
    CfnInclude(stack, "Included", template_file=str(_FOLDER / "wake-sam.yaml"))
    resources: dict[str, Any] = in_words(synthesized(stack)["Resources"], {})
    return {id: each.get("Properties", {}) for id, each in resources.items()}


_QUEUES = ("WakerQueue", "WakerQueuePolicy", "WakerDeadLetters", "WakerDeadLettersPolicy")
_SAME = ("Locks", "WakerLog", *_QUEUES, "WakerStream", "WakerDue", *_ALARMS, *_OFF)


@pytest.mark.parametrize("name", _SAME)
def test_the_sam_template_makes_this_as_the_construct_does(made, sam, name):
    assert sam[name] == made[name]


def test_the_sleeping_function_of_the_sam_template_knows_of_the_waker(made, sam):
    assert sam["Durable"]["Environment"] == made["Durable"]["Environment"]


def test_the_waker_of_the_sam_template_is_that_of_the_construct(made, sam):
    waker, theirs = dict(made["Waker"]), dict(sam["Waker"])
    for name in ("Description", "Role"):
        del waker[name]
    assert theirs.pop("InlineCode") == waker.pop("Code")["ZipFile"]
    (document,) = theirs.pop("Policies")
    # A role that SAM makes may write any log.
    wanted = [each for each in made["statements"]["all"] if each["Resource"] != _LOG]
    assert sorted(document["Statement"], key=str) == wanted
    assert theirs == waker


_IN_TERRAFORM = {
    "aws_dynamodb_table.locks.arn": "Locks.Arn",
    "aws_dynamodb_table.locks.name": "Locks",
    "aws_dynamodb_table.locks.stream_arn": "Locks.StreamArn",
    "aws_sqs_queue.waker.arn": "WakerQueue.Arn",
    "aws_sqs_queue.waker.id": "WakerQueue",
    "aws_sqs_queue.waker.url": "WakerQueue",
    "aws_sqs_queue.waker_dead_letters.arn": "WakerDeadLetters.Arn",
    "aws_cloudwatch_log_group.waker.arn": "WakerLog.Arn",
    "aws_lambda_event_source_mapping.waker_stream.uuid": "WakerStream",
    "aws_lambda_event_source_mapping.waker_due.uuid": "WakerDue",
    "aws_sfn_state_machine.orders.arn": "Orders",
    "aws_lambda_function.durable.arn": "Durable.Arn",
    "aws_lambda_function.waker.arn": "Waker",
    "aws_lambda_layer_version.lambda_lock.arn": "WakerLibrary",
}


def _words(value: Any) -> Any:
    """Terraform's references, as `in_words` has them."""
    if isinstance(value, dict):
        return {name: _words(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_words(each) for each in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\$\{(\w+\.\w+\.\w+)\}", lambda found: f"${{{_IN_TERRAFORM.get(found[1], found[1])}}}", value)


def _statement(block: dict[str, Any]) -> dict[str, Any]:
    """A statement of a policy document, as a template has it."""
    actions = block["actions"]
    resource = block["resources"][0].replace(f"{_LOG}:*", _LOG)  # CloudFormation's has it at its end
    return {"Effect": block["effect"], "Action": actions[0] if len(actions) == 1 else actions, "Resource": resource}


def _capitals(block: dict[str, Any]) -> dict[str, Any]:
    """A block of Terraform by CloudFormation's names, of which most are the same words: ``MetricName``."""
    return {"".join(map(str.capitalize, name.split("_"))): value for name, value in block.items()}


def test_the_terraform_configuration_makes_the_table_with_its_stream_and_the_queues(made):
    resources = _words(terraform("wake-terraform.tf", "resource"))
    table, queue = resources["aws_dynamodb_table"]["locks"], resources["aws_sqs_queue"]["waker"]
    dead, log = resources["aws_sqs_queue"]["waker_dead_letters"], resources["aws_cloudwatch_log_group"]["waker"]
    assert table["stream_enabled"] is True
    assert {"StreamViewType": table["stream_view_type"]} == made["Locks"]["StreamSpecification"]
    assert table["deletion_protection_enabled"] == made["Locks"]["DeletionProtectionEnabled"]
    assert table["ttl"] == [{"attribute_name": "ttl", "enabled": True}]
    assert table["point_in_time_recovery"] == [{"enabled": True}]
    assert "deadLetterTargetArn = aws_sqs_queue.waker_dead_letters.arn" in queue["redrive_policy"]
    assert "maxReceiveCount = 100" in re.sub(" +", " ", queue["redrive_policy"])
    assert {"RetentionInDays": log["retention_in_days"]} == made["WakerLog"]
    queue["redrive_policy"] = {"deadLetterTargetArn": "${WakerDeadLetters.Arn}", "maxReceiveCount": 100}
    queue["visibility_timeout"] = queue["visibility_timeout_seconds"]
    for written, expected in ((dead, made["WakerDeadLetters"]), (queue, made["WakerQueue"])):
        found = _capitals(written | {"message_retention_period": written["message_retention_seconds"]})
        assert {name: value for name, value in found.items() if name in expected} == expected


def test_the_terraform_configuration_allows_what_the_construct_allows(made):
    documents = _words(terraform("wake-terraform.tf", "data")["aws_iam_policy_document"])
    assert sorted(map(_statement, documents["waker"]["statement"]), key=str) == made["statements"]["all"]
    (denied,) = documents["waker_queue"]["statement"]
    (written,) = made["WakerQueuePolicy"]["PolicyDocument"]["Statement"]
    assert denied.pop("resources") == ["${each.value.arn}"]
    denied["resources"] = [written["Resource"]]
    (condition,), (principal,) = denied["condition"], denied["principals"]
    (value,) = condition["values"]
    more = {
        "Condition": {condition["test"]: {condition["variable"]: value}},
        "Principal": {principal["type"]: principal["identifiers"][0]},
    }
    assert _statement(denied) | more == written


def test_the_waker_of_the_terraform_configuration_is_that_of_the_construct(made):
    resources, data = _words(terraform("wake-terraform.tf", "resource")), terraform("wake-terraform.tf", "data")
    waker, theirs = made["Waker"], resources["aws_lambda_function"]["waker"]
    found = _capitals(theirs | resources["aws_lambda_function_recursion_config"]["waker"])
    found["Environment"] = {"Variables": theirs["environment"][0]["variables"]}
    expected = {name: waker[name] for name in waker if name not in ("Code", "Description", "LoggingConfig", "Role")}
    assert {name: found[name] for name in expected} == expected
    assert resources["aws_cloudwatch_log_group"]["waker"]["name"] == f"/aws/lambda/{theirs['function_name']}"
    code = data["archive_file"]["waker"]
    assert code["source_content"] == waker["Code"]["ZipFile"]
    assert code["source_content_filename"] == "index.py"


def _pattern(expression: str) -> Any:
    """What a call of jsonencode makes of an object."""
    (written,) = re.findall(r"jsonencode\((.*)\)", expression, re.DOTALL)
    return json.loads(re.sub(r'"?(\w+)"? *[=:] ', r'"\1": ', written))


def test_the_mappings_of_the_terraform_configuration_are_those_of_the_construct(made):
    mappings = _words(terraform("wake-terraform.tf", "resource")["aws_lambda_event_source_mapping"])
    for name, theirs in (("WakerStream", mappings["waker_stream"]), ("WakerDue", mappings["waker_due"])):
        expected, filters = dict(made[name]), theirs.pop("filter_criteria", [])
        assert theirs.pop("metrics_config") == [{"metrics": expected.pop("MetricsConfig")["Metrics"]}]
        to, destination = theirs.pop("destination_config", None), expected.pop("DestinationConfig", None)
        assert to == (destination and [{"on_failure": [{"destination_arn": destination["OnFailure"]["Destination"]}]}])
        written = _capitals(theirs)
        written["FunctionName"] = written["FunctionName"].replace(".Arn", "")
        if filters:
            written["FilterCriteria"] = [_pattern(each["pattern"]) for each in filters[0]["filter"]]
            expected["FilterCriteria"] = [json.loads(each["Pattern"]) for each in expected["FilterCriteria"]["Filters"]]
        assert written == expected


def _check_alarm(alarm: dict[str, Any], ours: dict[str, Any]) -> None:
    """What an alarm of the construct has, the one of Terraform has too."""
    found = _capitals(alarm)
    expected = {name: value for name, value in ours.items() if name not in ("AlarmActions", "Dimensions")}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("name", _ALARMS)
def test_the_alarms_of_the_terraform_configuration_are_those_of_the_construct(made, name):
    alarm, ours = terraform("wake-terraform.tf", "resource")["aws_cloudwatch_metric_alarm"]["waker"], made[name]
    found = terraform("wake-terraform.tf", "locals")
    kind = found["waker_alarms"][ours["MetricName"]]
    (dimension,) = ours["Dimensions"]
    _check_alarm(alarm | kind | {"metric_name": ours["MetricName"]}, ours)
    (named,) = found[kind["of"].removeprefix("${local.").removesuffix("}")]
    assert named == dimension["Name"]


@pytest.mark.parametrize("name", _OFF)
def test_a_mapping_of_the_terraform_configuration_that_is_off_raises_the_alarm_of_the_construct(made, name):
    alarm, ours = (
        _words(terraform("wake-terraform.tf", "resource")["aws_cloudwatch_metric_alarm"]["waker_off"]),
        made[name],
    )
    (dimension,) = ours["Dimensions"]
    assert dimension["Value"] in alarm["for_each"].values()
    _check_alarm(alarm, ours)
    assert alarm["dimensions"] == {dimension["Name"]: "${each.value}"}
