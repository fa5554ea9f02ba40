"""The app's only stack. It is deployed to the account of the credentials, or with `-c local=…` to a local engine."""

from __future__ import annotations

import json

import aws_cdk as cdk

from . import local
from .stack import SampleStack

STACK = "LambdaLockSample"


def build(app: cdk.App) -> SampleStack:
    """Add the stack to the app. The context value ``local`` is a JSON object: the variables for local.sample_stack."""
    variables = app.node.try_get_context("local")
    if variables is None:
        return SampleStack(app, STACK)
    return local.sample_stack(app, STACK, json.loads(variables))
