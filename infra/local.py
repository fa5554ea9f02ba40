"""The differences on a local engine: how assets are uploaded, what runs the functions, and where they find AWS.

The engine also lacks two features. It has no TLS, so the policies of queues and topics that require TLS are removed. It
has no metric math, so alarms with metric math watch a plain metric instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import IConstruct

from .stack import SampleStack

_RUNTIME = "provided.al2023"  # runs the program `bootstrap` in the package
_NOT_TLS = {"Bool": {"aws:SecureTransport": "false"}}
_BOOTSTRAP = '#!/bin/sh\nexec "$PYBIN" -m awslambdaric "$_HANDLER"\n'


def sample_stack(app: cdk.App, id: str, variables: Mapping[str, str]) -> SampleStack:
    """The stack for a local engine. Its functions run under the unmodified awslambdaric.

    variables: added to the environment that the functions have on AWS. AWS_ENDPOINT_URL is the engine's address. PYBIN
        is an interpreter with awslambdaric. PYTHONPATH is the folder of the layer, because without Docker an engine has
        no /opt.
    """
    stack = SampleStack(
        app, id, synthesizer=cdk.CliCredentialsStackSynthesizer(), beside_functions={"bootstrap": _BOOTSTRAP}
    )
    cdk.Aspects.of(stack).add(_OnEngine(variables))
    return stack


@jsii.implements(cdk.IAspect)
class _OnEngine:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, lambda_.CfnFunction):
            self._run(node)
        elif isinstance(node, cloudwatch.CfnAlarm) and node.metrics is not None:
            _simplify(node)
        elif isinstance(node, sqs.CfnQueuePolicy | sns.CfnTopicPolicy):
            _allow_http(node)

    def _run(self, function: lambda_.CfnFunction) -> None:
        function.runtime = _RUNTIME
        for name, value in self._variables.items():
            function.add_property_override(f"Environment.Variables.{name}", value)


def _simplify(alarm: cloudwatch.CfnAlarm) -> None:
    alarm.metrics = None
    alarm.namespace, alarm.metric_name = "lambda_lock", "Local"
    alarm.statistic, alarm.period = "Sum", 60


def _allow_http(policy: sqs.CfnQueuePolicy | sns.CfnTopicPolicy) -> None:
    document = cdk.Stack.of(policy).resolve(policy.policy_document)
    kept = [each for each in document["Statement"] if each.get("Condition") != _NOT_TLS]
    policy.policy_document = document | {"Statement": kept}
