"""Checks of arguments before the CDK gets them, with errors that name the parameter; and dummies.

A dummy is the value of a look-up that has not been made yet. The first time that an app with a look-up is synthesized,
the CDK hands out a dummy. Then the command line looks the value up and synthesizes once more. An error that is raised
because of a dummy would prevent that. An annotation does not, and still fails the synthesis if the dummy stays.
"""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct

STAND_IN = "dummy-value"  # a name in place of a dummy, which may have characters that a name must not have


def kind(value: object) -> str:
    return f"{value!r} (str)" if isinstance(value, str) else type(value).__name__


def wrong(parameter: str, value: object, wanted: str, remedy: str = "") -> TypeError:
    """The error for an argument of the wrong type. remedy: how to go on; it ends the error."""
    return TypeError(f"{parameter} must be {wanted}, not {kind(value)}{remedy}")


def check_text(parameter: str, value: object, remedy: str) -> None:
    if not isinstance(value, str):
        raise wrong(parameter, value, "a str", f". {remedy}")


def check_flag(parameter: str, value: object) -> None:
    """Any text is true, so a name passed by mistake would go unnoticed."""
    if not isinstance(value, bool):
        raise wrong(parameter, value, "True or False")


def check_tags(tags: object) -> None:
    if not isinstance(tags, Mapping) or not all(isinstance(each, str) for pair in tags.items() for each in pair):
        raise TypeError(f"tags must be a dict of str and str, not {tags!r}")


def check_function(function: object) -> None:
    if not hasattr(function, "function_arn"):
        raise wrong("function", function, "a Function of aws_lambda")


def is_dummy(value: object) -> bool:
    """Whether a dummy of StringParameter.value_from_lookup is in it. It has the parameter's name within."""
    return isinstance(value, str) and "dummy-value-for-" in value


def report_dummy(scope: Construct, parameter: str, value: object) -> None:
    """Say so if the value is a dummy. It is an error of the synthesis, but not of this call."""
    if is_dummy(value):
        report_look_up(scope, parameter, value)


def report_look_up(scope: Construct, parameter: str, value: object) -> None:
    cdk.Annotations.of(scope).add_error(
        f"{parameter}={value!r} stands for a look-up that has not been made. The CDK's command line makes it, with "
        "credentials for the account, and remembers the value in cdk.context.json"
    )
