"""The templates and policies in docs/deploy/ create the same resources as the construct."""

import json
import re
import subprocess
from importlib.metadata import files
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import hcl2
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk.cloudformation_include import CfnInclude

from lambda_lock.cdk import LockTable
from rig.engine import ROOT
from tests.cdk.apps import (
    ACCOUNT,
    REGION,
    in_an_account,
    new_function,
    new_stack,
    policies,
    resources,
    synthesized,
    the_only,
)
from tests.cdk.words import as_of_one_region, in_words

_PAGES = [
    (ROOT / "docs" / f"{name}.md").read_text()
    for name in ("deploy", "deploy-cdk", "deploy-templates", "waiting-asleep-templates")
]
_FOLDER = ROOT / "docs" / "deploy"
_FILES = sorted(path.name for path in _FOLDER.iterdir())
_TABLE = "the table's ARN"


def _constructed() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The construct's table, policy and environment. References to the table are replaced by plain words."""
    stack = new_stack()
    LockTable(stack, "Locks").connect(new_function(stack))
    table = the_only(stack, "AWS::DynamoDB::GlobalTable") | {"Type": "AWS::DynamoDB::Table"}
    as_of_one_region(table["Properties"])
    (policy,) = policies(stack)
    assert policy["Statement"][0]["Resource"] == {"Fn::GetAtt": ["LocksTable84FB9352", "Arn"]}
    policy["Statement"][0]["Resource"] = _TABLE
    variables = the_only(stack, "AWS::Lambda::Function")["Properties"]["Environment"]["Variables"]
    return table, policy, {**variables, "LAMBDA_LOCK_TABLE": "the table's name"}


def _included(file: str) -> dict[str, dict[str, Any]]:
    """The resources of a YAML template, read as CloudFormation reads it."""
    stack = new_stack()
    CfnInclude(stack, "Included", template_file=str(_FOLDER / file))
    text = json.dumps(synthesized(stack)["Resources"])
    text = text.replace('{"Fn::GetAtt": "Locks.Arn"}', json.dumps(_TABLE))
    included: dict[str, dict[str, Any]] = json.loads(text.replace('{"Ref": "Locks"}', '"the table\'s name"'))
    return included


@pytest.mark.parametrize("file", ["sam.yaml", "cloudformation.yaml"])
def test_the_template_is_what_the_construct_makes(file):
    included = _included(file)
    table, policy, variables = _constructed()
    assert included["Locks"] == table
    function = included["Function"]["Properties"]
    assert function["Environment"] == {"Variables": variables}
    if "Role" in included:
        assert included["Role"]["Properties"]["Policies"] == [{"PolicyName": "locks", "PolicyDocument": policy}]
    else:
        assert function["Policies"] == [policy]


def terraform(file: str, kind: str) -> dict[str, Any]:
    """The blocks of a kind in a configuration of docs/deploy/, by type and name."""
    options = hcl2.SerializationOptions(strip_string_quotes=True, explicit_blocks=False)
    with (_FOLDER / file).open() as opened:
        found = hcl2.load(opened, serialization_options=options)[kind]
    blocks: dict[str, Any] = {}
    for type, body in (each for block in found for each in block.items()):
        blocks.setdefault(type, {}).update(body)
    return blocks


def test_the_terraform_configuration_is_what_the_construct_makes():
    made, data = (terraform("terraform.tf", kind) for kind in ("resource", "data"))
    table, policy, variables = _constructed()
    properties = table["Properties"]
    (key,), ttl = properties["KeySchema"], properties["TimeToLiveSpecification"]
    recovery = properties["PointInTimeRecoverySpecification"]
    attributes = properties["AttributeDefinitions"]
    assert made["aws_dynamodb_table"]["locks"] == {
        "name": "locks",
        "billing_mode": properties["BillingMode"],
        "hash_key": key["AttributeName"],
        "deletion_protection_enabled": properties["DeletionProtectionEnabled"],
        "attribute": [{"name": each["AttributeName"], "type": each["AttributeType"]} for each in attributes],
        "ttl": [{"attribute_name": ttl["AttributeName"], "enabled": ttl["Enabled"]}],
        "point_in_time_recovery": [{"enabled": recovery["PointInTimeRecoveryEnabled"]}],
        "lifecycle": [{"prevent_destroy": table["DeletionPolicy"] == "Retain"}],
    }
    (statement,) = policy["Statement"]
    resources = ["${aws_dynamodb_table.locks.arn}"]
    assert data["aws_iam_policy_document"]["locks"]["statement"] == [
        {"effect": statement["Effect"], "actions": statement["Action"], "resources": resources}
    ]
    assert made["aws_iam_role_policy"]["locks"]["policy"] == "${data.aws_iam_policy_document.locks.json}"
    assert made["aws_lambda_function"]["function"]["environment"] == [
        {"variables": {**variables, "LAMBDA_LOCK_TABLE": "${aws_dynamodb_table.locks.name}"}}
    ]


def test_the_alarms_of_the_terraform_configuration_are_what_the_construct_makes():
    written = terraform("terraform.tf", "resource")["aws_cloudwatch_metric_alarm"]["locks"]
    stack = new_stack()
    table = LockTable(stack, "Locks", alarm_actions=[]).table
    alarms = [each["Properties"] for each in resources(stack, "AWS::CloudWatch::Alarm").values()]
    made = {each["Metrics"][0].get("Label"): each for each in alarms}
    assert written["for_each"].keys() == {name for name in made if name} - {"Throttled", "System errors"}
    for name, periods in written["for_each"].items():
        alarm, stat = made[name], made[name]["Metrics"][0]["MetricStat"]
        assert stat["Metric"]["Dimensions"] == [{"Name": "Table", "Value": stack.resolve(table.table_name)}]
        assert (stat["Metric"]["MetricName"], written["metric_name"]) == (name, "${each.key}")
        assert {key: written[key] for key in written if key not in ("for_each", "alarm_name", "metric_name")} == {
            "namespace": stat["Metric"]["Namespace"],
            "dimensions": {"Table": "${aws_dynamodb_table.locks.name}"},
            "statistic": stat["Stat"],
            "period": stat["Period"],
            "comparison_operator": alarm["ComparisonOperator"],
            "threshold": alarm["Threshold"],
            "evaluation_periods": "${each.value[0]}",
            "datapoints_to_alarm": "${each.value[1]}",
            "treat_missing_data": alarm["TreatMissingData"],
            "alarm_actions": ["${aws_sns_topic.alarms.arn}"],
        }
        assert [alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]] == periods


@pytest.mark.parametrize(
    ("file", "prefixes"), [("policy.json", None), ("policy-for-prefixes.json", ["invoice#"])], ids=str
)
def test_the_plain_policy_is_what_the_construct_grants(file, prefixes):
    stack = cdk.Stack(cdk.App(), "Stack")
    arn = "arn:aws:dynamodb:eu-central-1:111122223333:table/locks"
    LockTable.from_table_arn(stack, "Locks", arn).grant(iam.User(stack, "User"), key_prefixes=prefixes)
    assert [json.loads((_FOLDER / file).read_text())] == policies(stack)


@pytest.mark.parametrize("file", _FILES)
def test_the_page_quotes_the_file_as_it_is(file):
    quoted = re.findall(r"^```\w+\n(.*?)^```$", "\n".join(_PAGES), re.MULTILINE | re.DOTALL)
    assert (_FOLDER / file).read_text() in quoted


def _watched() -> dict[str, Any]:
    """The construct with all that it can make, in plain words, as one Region's AWS::DynamoDB::Table."""
    stack = in_an_account()
    topic = sns.Topic.from_topic_arn(stack, "Topic", cdk.CfnParameter(stack, "AlarmTopic").value_as_string)
    encryption = dynamodb.TableEncryptionV2.customer_managed_key(kms.Key(stack, "Key", enable_key_rotation=True))
    locks = LockTable(stack, "Locks", encryption=encryption, alarm_actions=[topic], dashboard=True)
    locks.grant(iam.ManagedPolicy(stack, "Policy"))
    made = synthesized(stack)["Resources"]
    table = made["LocksTable84FB9352"]
    table["Type"] = "AWS::DynamoDB::Table"
    as_of_one_region(table["Properties"])
    text = json.dumps(made).replace(ACCOUNT, "${AWS::AccountId}")
    text = text.replace(f"dynamodb.{REGION}.amazonaws.com", "dynamodb.${AWS::Region}.${AWS::URLSuffix}")
    names = {id: id[:-8].removeprefix("Locks") for id in made} | {"LocksTable84FB9352": "Locks"}
    resources = {names[id]: each for id, each in json.loads(text).items()}
    policy = resources["Policy"]["Properties"]
    resources["Policy"]["Properties"] = {"PolicyDocument": policy["PolicyDocument"]}
    plain: dict[str, Any] = in_words(resources, names)
    return plain


def _with_parsed_dashboard(resources: dict[str, Any]) -> dict[str, Any]:
    properties = resources["Dashboard"]["Properties"]
    # Substitution is textual: what stands for the name of the table has no quotes to escape.
    properties["DashboardBody"] = json.loads(properties["DashboardBody"])
    return resources


def test_the_watched_template_is_what_the_construct_makes_with_a_key_alarms_and_a_dashboard(home):
    CfnInclude(home, "Included", template_file=str(ROOT / "docs" / "templates" / "watched.yaml"))
    included = _with_parsed_dashboard(in_words(synthesized(home)["Resources"], {}))
    made = _with_parsed_dashboard(_watched())
    assert included.keys() == made.keys()
    for name, resource in made.items():
        assert included[name] == resource, name


_PROGRAM = """
const cdk = require('aws-cdk-lib');
const dynamodb = require('aws-cdk-lib/aws-dynamodb');
const lambda = require('aws-cdk-lib/aws-lambda');
class Stack extends cdk.Stack {
  constructor(scope, id) {
    super(scope, id);
    const fn = new lambda.Function(this, 'Function', {
      runtime: lambda.Runtime.PYTHON_3_12, handler: 'index.handler', code: lambda.Code.fromInline('pass'),
    });
SNIPPET
  }
}
const app = new cdk.App({ outdir: 'out', analyticsReporting: false });
new Stack(app, 'Stack');
app.synth();
"""


# The npm packages that the Python packages of the CDK carry, because jsii runs them.
_NPM_PACKAGES = {
    "aws-cdk-lib": "aws-cdk-lib",
    "constructs": "constructs",
    "aws-cdk.cloud-assembly-schema": "@aws-cdk/cloud-assembly-schema",
    "aws-cdk.asset-awscli-v1": "@aws-cdk/asset-awscli-v1",
    "aws-cdk.asset-node-proxy-agent-v6": "@aws-cdk/asset-node-proxy-agent-v6",
}


def _unpack_npm_package(distribution: str, target: Path) -> None:
    (archive,) = (file.locate() for file in files(distribution) or [] if file.name.endswith(".jsii.tgz"))
    target.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", str(archive), "--strip-components=1", "-C", target], check=True)


@pytest.mark.long
def test_the_nine_lines_of_typescript_are_what_the_construct_makes(tmp_path):
    """They are JavaScript too, and run on the CDK itself."""
    snippet = (_FOLDER / "table.ts").read_text()
    assert len(snippet.splitlines()) == 9
    for distribution, name in _NPM_PACKAGES.items():
        _unpack_npm_package(distribution, tmp_path / "node_modules" / name)
    (tmp_path / "app.js").write_text(_PROGRAM.replace("SNIPPET", snippet))
    done = subprocess.run(["node", "app.js"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "out" / "Stack.template.json").read_text())["Resources"]
    stack = new_stack()
    LockTable(stack, "Locks").connect(new_function(stack, code=lambda_.Code.from_inline("pass")))
    text = json.dumps(synthesized(stack)["Resources"]).replace("LocksTable84FB9352", "Locks4CDCA8CC")
    made = json.loads(text)
    (table,) = (id for id, each in written.items() if each["Type"] == "AWS::DynamoDB::GlobalTable")
    written = json.loads(json.dumps(written).replace(table, "Locks4CDCA8CC"))
    for each in (*written.values(), *made.values()):
        each.pop("Metadata", None)
    assert written == made


def test_the_table_to_import_is_the_stacks_only_resource_and_has_the_id_of_the_mapping():
    """CloudFormation imports resources only if it creates none at the same time, and only those with a policy."""
    (snippet,) = re.findall(r"^```py\n((?:(?!^```).)*?lockTable.*?)^```$", "\n".join(_PAGES), re.MULTILINE | re.DOTALL)
    stack = new_stack()
    exec(compile(snippet, "docs/deploy.md", "exec"), {"self": stack})
    (found,) = synthesized(stack)["Resources"].items()
    id, table = found
    assert json.loads((_FOLDER / "import.json").read_text()) == {id: {"TableName": table["Properties"]["TableName"]}}
    assert table["DeletionPolicy"] == "Retain"
    assert "TimeToLiveSpecification" not in table["Properties"]
    assert table["Properties"]["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]
