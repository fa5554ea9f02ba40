"""Values of look-ups that have not been made yet.

The first time that an app with a look-up is synthesized, the CDK hands out a dummy. Then the command line looks the
value up and synthesizes once more. An error that is raised because of a dummy would prevent that. An annotation does
not, and still fails the synthesis if the dummy stays.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

STAND_IN = "dummy-value"  # a name in place of a dummy, which may have characters that a name must not have

# StringParameter.value_from_lookup: with the parameter's name, and whatever the app puts around it.
_DUMMY_VALUE = "dummy-value-for-"
_DUMMY_ROLE = ":123456789012:role/DUMMY_ARN"  # Role.from_lookup


def is_dummy(value: object) -> bool:
    return isinstance(value, str) and _DUMMY_VALUE in value


def is_dummy_role(principal: iam.IPrincipal) -> bool:
    arn = getattr(principal, "role_arn", None)
    return isinstance(arn, str) and arn.endswith(_DUMMY_ROLE)


def report(scope: Construct, parameter: str, value: object) -> None:
    """Say so if the value is a dummy. It is an error of the synthesis, but not of this call."""
    if is_dummy(value):
        add_error(scope, parameter, str(value))


def add_error(scope: Construct, parameter: str, value: str) -> None:
    cdk.Annotations.of(scope).add_error(
        f"{parameter}={value!r} stands for a look-up that has not been made. The CDK's command line makes it, with "
        "credentials for the account, and remembers the value in cdk.context.json"
    )
