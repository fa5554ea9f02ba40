"""What is different on an engine: how assets are uploaded, what runs the functions, and where they find AWS.

It also lacks two things: TLS, which the queues and the topic ask for, and metric math, so that alarms that need it
watch one plain metric.
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

_RUNTIME = "provided.al2023"  # runs the program `bootstrap` of the package
_NOT_TLS = {"Bool": {"aws:SecureTransport": "false"}}
_BOOTSTRAP = '#!/bin/sh\nexec "$PYBIN" -m awslambdaric "$_HANDLER"\n'


def sample_stack(app: cdk.App, id: str, variables: Mapping[str, str]) -> SampleStack:
    """The stack for an engine; its functions run under the unmodified awslambdaric.

    variables: what they find in their environment beside what they have on AWS: AWS_ENDPOINT_URL, the engine; PYBIN, an
    interpreter that has awslambdaric; PYTHONPATH, where the layer is, because an engine without Docker has no /opt.
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
