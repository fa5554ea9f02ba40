"""The app's one stack, and where it goes: into the account of the credentials, or with `-c local=…` to an engine."""

from __future__ import annotations

import json

import aws_cdk as cdk

from . import local
from .stack import SampleStack

STACK = "LambdaLockSample"


def build(app: cdk.App) -> SampleStack:
    """Add the stack to the app. The context value ``local``, a JSON object, is what `local.sample_stack` takes."""
    variables = app.node.try_get_context("local")
    if variables is None:
        return SampleStack(app, STACK)
    return local.sample_stack(app, STACK, json.loads(variables))
