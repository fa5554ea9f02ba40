"""The app as it goes into an account: whole statements, whole settings."""

import json

import pytest

from tests.cdk.snapshot import SNAPSHOT
from tests.cdk.statements import FOUR_ACTIONS, allow, allow_prewarm, document, only_keys

FUNCTIONS = ("Invoices", "Orders", "Payments", "Report")
CONSUMERS = ("Orders", "Payments")
LOCKS = "LocksTable84FB9352"

CONSUME = [
    f"sqs:{act}"
    for act in ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl", "ReceiveMessage")
]
TRACE = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]
LEADING_KEYS = {
    "Invoices": ["invoices#*"],
    "Orders": ["orders#*", "customer#*"],
    "Payments": ["payments#*", "customer#*"],
    "Report": ["report#*"],
}
SEND = ["sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:SendMessage"]


def arn(id: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [id, "Arn"]}


def test_the_lock_table_is_the_one_of_the_constructs_snapshot(account):
    """Under another logical id it would be another table, and for a while both would grant the same locks."""
    assert account.resources[LOCKS] == json.loads(SNAPSHOT.read_text())["Resources"][LOCKS]


def test_only_the_lock_table_stays_when_the_stack_goes(account):
    kept = [id for id, each in account.resources.items() if each.get("DeletionPolicy", "Delete") != "Delete"]
    assert kept == [LOCKS]
    (ledger, _) = account.the("AWS::DynamoDB::GlobalTable", "Ledger")
    assert account.resources[ledger]["DeletionPolicy"] == "Delete"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_role_allows_what_its_function_does_and_nothing_else(account, name):
    role, properties = account.the("AWS::IAM::Role", f"{name}Role")
    assert set(properties) == {"AssumeRolePolicyDocument"}  # no managed policy
    queues, actions = (f"{name}Queue", CONSUME) if name in CONSUMERS else (f"{name}DeadLetters", SEND)
    logs, ledger, queue = (
        arn(account.the(f"AWS::{kind}", id)[0])
        for kind, id in (("Logs::LogGroup", f"{name}Logs"), ("DynamoDB::GlobalTable", "Ledger"), ("SQS::Queue", queues))
    )
    (policy,) = (each for each in account.of("AWS::IAM::Policy").values() if each["Roles"] == [{"Ref": role}])
    assert policy["PolicyDocument"] == document(
        allow(TRACE, "*"),
        allow(["logs:CreateLogStream", "logs:PutLogEvents"], logs),
        allow(sorted(FOUR_ACTIONS), arn(LOCKS), Condition=only_keys(LEADING_KEYS[name])),
        allow_prewarm(arn(LOCKS)),
        allow("dynamodb:UpdateItem", ledger),
        allow(actions, queue),
    )


def test_every_policy_is_that_of_one_function(account):
    assert len(account.of("AWS::IAM::Policy")) == len(account.of("AWS::IAM::Role")) == len(FUNCTIONS)
    assert len(account.of("AWS::Lambda::Function")) == len(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_library_the_lock_table_and_a_log_that_ends(account, name):
    _, function = account.the("AWS::Lambda::Function", name)
    function = {property: value for property, value in function.items() if property != "Code"}
    logs, retained = account.the("AWS::Logs::LogGroup", f"{name}Logs")
    assert retained["RetentionInDays"] == 30
    assert function == {
        "Architectures": ["arm64"],
        "Environment": {
            "Variables": {
                "LAMBDA_LOCK_METRICS": "lambda_lock",
                "LAMBDA_LOCK_TABLE": {"Ref": LOCKS},
                "LEDGER_TABLE": {"Ref": account.the("AWS::DynamoDB::GlobalTable", "Ledger")[0]},
            }
        },
        "Handler": f"functions.{name.lower()}.handler",
        "Layers": [{"Ref": account.the("AWS::Lambda::LayerVersion", "Library")[0]}],
        "LoggingConfig": {
            "ApplicationLogLevel": "INFO",
            "LogFormat": "JSON",
            "LogGroup": {"Ref": logs},
            "SystemLogLevel": "WARN",
        },
        "MemorySize": 256,
        "Role": arn(account.the("AWS::IAM::Role", f"{name}Role")[0]),
        "Runtime": "python3.13",
        "Timeout": 15,
        "TracingConfig": {"Mode": "Active"},
    }


@pytest.mark.parametrize(
    ("name", "more"), [("Orders", {"ScalingConfig": {"MaximumConcurrency": 10}}), ("Payments", {})], ids=CONSUMERS
)
def test_a_queue_feeds_its_function_and_takes_back_single_messages(account, name, more):
    function, settings = account.the("AWS::Lambda::Function", name)
    queue, properties = account.the("AWS::SQS::Queue", f"{name}Queue")
    (mapping,) = (
        each
        for each in account.of("AWS::Lambda::EventSourceMapping").values()
        if each["FunctionName"]["Ref"] == function
    )
    assert mapping == {
        "BatchSize": 10,
        "EventSourceArn": arn(queue),
        "FunctionName": {"Ref": function},
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        **more,
    }
    assert properties["VisibilityTimeout"] >= 6 * settings["Timeout"]
    dead, _ = account.the("AWS::SQS::Queue", f"{name}DeadLetters")
    assert properties["RedrivePolicy"] == {"deadLetterTargetArn": arn(dead), "maxReceiveCount": 5}


def test_the_payments_and_their_dead_letters_are_in_order(account):
    fifo = {id[:-8] for id, each in account.of("AWS::SQS::Queue").items() if each.get("FifoQueue")}
    assert fifo == {"PaymentsQueue", "PaymentsDeadLetters"}


@pytest.mark.parametrize(
    ("name", "rule", "when", "retries"),
    [
        (
            "Invoices",
            "InvoiceRequested",
            {"EventPattern": {"source": ["com.example.billing"], "detail-type": ["InvoiceRequested"]}},
            {"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 3600},
        ),
        ("Report", "Nightly", {"ScheduleExpression": "cron(0 2 * * ? *)"}, {"MaximumRetryAttempts": 0}),
    ],
    ids=["Invoices", "Report"],
)
def test_a_rule_starts_its_function_and_keeps_what_failed(account, name, rule, when, retries):
    function, _ = account.the("AWS::Lambda::Function", name)
    dead, _ = account.the("AWS::SQS::Queue", f"{name}DeadLetters")
    _, found = account.the("AWS::Events::Rule", rule)
    assert found == {
        **when,
        "State": "ENABLED",
        "Targets": [
            {
                "Arn": arn(function),
                "DeadLetterConfig": {"Arn": arn(dead)},
                "Id": "Target0",
                "RetryPolicy": {"MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 2},
            }
        ],
    }
    _, invoke = account.the("AWS::Lambda::EventInvokeConfig", f"{name}EventInvokeConfig")
    assert invoke == {
        "DestinationConfig": {"OnFailure": {"Destination": arn(dead)}},
        "FunctionName": {"Ref": function},
        "Qualifier": "$LATEST",
        **retries,
    }


def test_what_could_not_be_done_raises_an_alarm(account):
    topic, _ = account.the("AWS::SNS::Topic", "Alarms")
    alarms = account.of("AWS::CloudWatch::Alarm").values()
    assert all(each["AlarmActions"] == [{"Ref": topic}] for each in alarms)
    watched = [
        each["Dimensions"][0]["Value"]["Fn::GetAtt"][0][:-8]
        for each in alarms
        if each.get("MetricName") == "ApproximateNumberOfMessagesVisible"
    ]
    assert sorted(watched) == [f"{name}DeadLetters" for name in FUNCTIONS]
    assert len(alarms) == len(FUNCTIONS) + 7  # and those of the lock table
    assert len(account.of("AWS::CloudWatch::Dashboard")) == 1


def test_alarms_may_publish_to_a_topic_that_asks_for_tls(account):
    (policy,) = account.of("AWS::SNS::TopicPolicy").values()
    (statement,) = (each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow")
    assert statement == {
        "Action": "sns:Publish",
        "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Resource": {"Ref": account.the("AWS::SNS::Topic", "Alarms")[0]},
        "Sid": statement["Sid"],
    }


def test_no_finding_of_cdk_nag_is_left(tmp_path):
    import aws_cdk as cdk
    import cdk_nag

    from infra.app import build

    app = cdk.App(outdir=str(tmp_path))
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    build(app)
    app.synth()  # an error among the findings prevents it
    reports = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    assert [violation for report in reports for violation in report["violations"]] == []
