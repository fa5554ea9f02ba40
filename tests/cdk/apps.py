"""Small apps and the templates that they synthesize. Apps are cheap, as all share the process that runs the CDK."""

from typing import Any

import aws_cdk as cdk
from aws_cdk import assertions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

ACCOUNT = "111111111111"
REGION = "eu-central-1"
# In `make templates`, a newer CDK checks each template against CloudFormation's rules: what they find is an error.
_CONTEXT = {"@aws-cdk/core:validateAgainstDefaultRules": True}
_NO_FILES: dict[str, Any] = {"aws:cdk:bundling-stacks": []}  # as `cdk ls` says it: no layer is written and compiled

Resources = dict[str, dict[str, Any]]


def new_stack(*, environment: cdk.Environment | None = None, files: bool = False) -> cdk.Stack:
    """A stack in a new app. Without an environment it can be deployed to any account and Region.

    files: whether its layers are written and compiled, which no template shows but by a hash.
    """
    context = _CONTEXT if files else _CONTEXT | _NO_FILES
    return cdk.Stack(cdk.App(context=context), "Stack", env=environment)


def in_an_account() -> cdk.Stack:
    return new_stack(environment=cdk.Environment(account=ACCOUNT, region=REGION))


def with_code(**options: Any) -> dict[str, Any]:
    """The options of a function that has some code."""
    code = lambda_.Code.from_inline("def handler(event, context): pass")
    return {"runtime": lambda_.Runtime.PYTHON_3_12, "handler": "index.handler", "code": code} | options


def new_function(stack: cdk.Stack, id: str = "Function", **options: Any) -> lambda_.Function:
    return lambda_.Function(stack, id, **with_code(**options))


def new_role(stack: cdk.Stack, id: str = "Role", **options: Any) -> iam.Role:
    """A role that functions have."""
    return iam.Role(stack, id, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"), **options)


def denying() -> iam.PolicyDocument:
    """A policy of a table, which lets nobody delete it."""
    deny = iam.PolicyStatement(
        effect=iam.Effect.DENY, actions=["dynamodb:DeleteTable"], principals=[iam.AnyPrincipal()], resources=["*"]
    )
    return iam.PolicyDocument(statements=[deny])


def synthesized(stack: cdk.Stack) -> dict[str, Any]:
    return dict(assertions.Template.from_stack(stack).to_json())


def resources(stack: cdk.Stack, kind: str) -> Resources:
    """The resources of a CloudFormation type, by logical id."""
    return {id: each for id, each in synthesized(stack)["Resources"].items() if each["Type"] == kind}


def the_only(stack: cdk.Stack, kind: str) -> dict[str, Any]:
    (resource,) = resources(stack, kind).values()
    return resource


def policies(stack: cdk.Stack) -> list[dict[str, Any]]:
    """All policy documents of the stack that are attached to a principal."""
    kinds = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
    return [each["Properties"]["PolicyDocument"] for kind in kinds for each in resources(stack, kind).values()]


def warnings(stack: cdk.Stack) -> list[str]:
    """The texts of the warnings that constructs of the stack are annotated with."""
    found = assertions.Annotations.from_stack(stack).find_warning("*", assertions.Match.any_value())
    return [str(each.entry.data) for each in found]
