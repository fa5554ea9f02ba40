"""The templates and policies in docs/deploy/ create the same resources as the construct."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import hcl2
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk.cloudformation_include import CfnInclude

from lambda_lock.cdk import LockTable
from rig.engine import ROOT
from tests.cdk.apps import new_function, new_stack, policies, synthesized, the_only

_PAGE = ROOT / "docs" / "deploy.md"
_FOLDER = ROOT / "docs" / "deploy"
_FILES = sorted(path.name for path in _FOLDER.iterdir())
_TABLE = "the table's ARN"


def _constructed() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The construct's table, policy and environment. References to the table are replaced by plain words."""
    stack = new_stack()
    LockTable(stack, "Locks").connect(new_function(stack))
    table = the_only(stack, "AWS::DynamoDB::GlobalTable")
    (replica,) = table["Properties"].pop("Replicas")  # in one Region, AWS::DynamoDB::Table creates the same table
    table["Properties"]["DeletionProtectionEnabled"] = replica["DeletionProtectionEnabled"]
    del table["Type"]
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


def _check_table(resource: dict[str, Any]) -> None:
    assert resource.pop("Type") == "AWS::DynamoDB::Table"
    assert resource == _constructed()[0]


def test_the_sam_template_is_what_the_construct_makes() -> None:
    included = _included("sam.yaml")
    _, policy, variables = _constructed()
    _check_table(included["Locks"])
    function = included["Function"]["Properties"]
    assert function["Policies"] == [policy]
    assert function["Environment"] == {"Variables": variables}


def test_the_cloudformation_template_is_what_the_construct_makes() -> None:
    included = _included("cloudformation.yaml")
    _, policy, variables = _constructed()
    _check_table(included["Locks"])
    assert included["Role"]["Properties"]["Policies"] == [{"PolicyName": "locks", "PolicyDocument": policy}]
    assert included["Function"]["Properties"]["Environment"] == {"Variables": variables}


def _blocks(kind: str, options: hcl2.SerializationOptions) -> dict[str, Any]:
    with (_FOLDER / "terraform.tf").open() as file:
        found = hcl2.load(file, serialization_options=options)[kind]
    return {type: body for block in found for type, body in block.items()}


def test_the_terraform_configuration_is_what_the_construct_makes() -> None:
    options = hcl2.SerializationOptions(strip_string_quotes=True, explicit_blocks=False)
    made, data = _blocks("resource", options), _blocks("data", options)
    table, policy, variables = _constructed()
    properties = table["Properties"]
    (key,) = properties["KeySchema"]
    assert made["aws_dynamodb_table"]["locks"] == {
        "name": "locks",
        "billing_mode": properties["BillingMode"],
        "hash_key": key["AttributeName"],
        "deletion_protection_enabled": properties["DeletionProtectionEnabled"],
        "attribute": [
            {"name": each["AttributeName"], "type": each["AttributeType"]}
            for each in properties["AttributeDefinitions"]
        ],
        "ttl": [
            {
                "attribute_name": properties["TimeToLiveSpecification"]["AttributeName"],
                "enabled": properties["TimeToLiveSpecification"]["Enabled"],
            }
        ],
        "lifecycle": [{"prevent_destroy": table["DeletionPolicy"] == "Retain"}],
    }
    (statement,) = policy["Statement"]
    assert data["aws_iam_policy_document"]["locks"]["statement"] == [
        {
            "effect": statement["Effect"],
            "actions": statement["Action"],
            "resources": ["${aws_dynamodb_table.locks.arn}"],
        }
    ]
    assert made["aws_iam_role_policy"]["locks"]["policy"] == "${data.aws_iam_policy_document.locks.json}"
    assert made["aws_lambda_function"]["function"]["environment"] == [
        {"variables": {**variables, "LAMBDA_LOCK_TABLE": "${aws_dynamodb_table.locks.name}"}}
    ]


@pytest.mark.parametrize(
    ("file", "prefixes"), [("policy.json", None), ("policy-for-prefixes.json", ["invoice#"])], ids=str
)
def test_the_plain_policy_is_what_the_construct_grants(file: str, prefixes: list[str] | None) -> None:
    stack = cdk.Stack(cdk.App(), "Stack")
    arn = "arn:aws:dynamodb:eu-central-1:111122223333:table/locks"
    LockTable.from_table_arn(stack, "Locks", arn).grant(iam.User(stack, "User"), key_prefixes=prefixes)
    assert [json.loads((_FOLDER / file).read_text())] == policies(stack)


@pytest.mark.parametrize("file", _FILES)
def test_the_page_quotes_the_file_as_it_is(file: str) -> None:
    quoted = re.findall(r"^```\w+\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert (_FOLDER / file).read_text() in quoted
