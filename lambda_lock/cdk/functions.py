"""What `connect` reads of a function: its environment, its log and its language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from ..client import checks
from ..client.settings import SCOPE_VARIABLE
from ..errors import LockArgumentError, LockConfigurationError
from ..observe.metrics import METRICS_VARIABLE
from . import arguments, synthesis
from .tables import differ

Connectable: TypeAlias = lambda_.Function | lambda_.SingletonFunction

_OLDEST = (3, 11)  # the library runs on Python 3.11 and newer
_OTHER_LANGUAGES = re.compile(r"nodejs|java|dotnet|go\d|ruby")
# The lock table that a function is connected to. There is only one, because its environment names one table.
_connected: WeakKeyDictionary[lambda_.IFunction, Construct] = WeakKeyDictionary()
_LOUD = ("WARN", "ERROR", "FATAL")  # levels that drop a line of level INFO


def connectable(function: object, locks: Construct, names: Iterable[str]) -> Connectable:
    """The function. Raises an error if it cannot be connected. names: the variables that it would get, for errors."""
    arguments.check_function(function)
    if not isinstance(function, lambda_.Function | lambda_.SingletonFunction):
        raise LockConfigurationError(
            f"connect: the environment of {cast('Construct', function).node.path} cannot be set here. Connect the "
            "function itself where it is defined, not a version, alias or import of it. Or call grant() here, and set "
            f"{', '.join(names)} where the function is defined"
        )
    stack, theirs = cdk.Stack.of(locks), cdk.Stack.of(function)
    if differ(stack.region, theirs.region) or differ(stack.account, theirs.account):
        raise LockConfigurationError(
            f"connect: {function.node.path} is in another account or Region than {locks.node.path}. Call "
            "LockTable.from_table_arn in the function's own stack, and connect the function there"
        )
    if _connected.setdefault(function, locks) is not locks:
        raise LockConfigurationError(
            f"connect: {function.node.path} is already connected to {_connected[function].node.path}, and its "
            f"environment can name only one table. Call grant() on {locks.node.path}, and name its table in the "
            "function's code: LockClient(…)"
        )
    return function


def scope_of(function: Connectable, stage: object, owner: str) -> dict[str, str]:
    """The variable for the stage of a function. None: its account, if that is not the table's ``owner``."""
    account = cdk.Stack.of(function).account
    if stage is None:
        return {SCOPE_VARIABLE: account} if differ(account, owner) else {}
    return {SCOPE_VARIABLE: checks.key_text("stage", stage, 128)}


def missing(function: Connectable, wanted: Mapping[str, str], found: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The variables that the function does not have yet.

    found: the variables that it has. None: as far as the app has set them.

    Raises LockConfigurationError if it has another value of one. Only the namespace of the metrics may be another: it
    is kept, with a warning.
    """
    resource, resolve = _resource(function), cdk.Stack.of(function).resolve
    if found is None:
        found = {} if resource is None else _read(resource, "environment").get("variables") or {}
    variables = {}
    for name, value in wanted.items():
        if name not in found:
            variables[name] = value
        elif found[name] == resolve(value):
            continue
        elif name != METRICS_VARIABLE:
            raise LockConfigurationError(
                f"connect: {function.node.path} has {name}={found[name]!r} in its environment already. Remove it "
                "there, or call grant() instead of connect()"
            )
        else:
            synthesis.warn(
                function,
                "namespace",
                f"{function.node.path} has {name}={found[name]!r} in its environment, which is kept. The alarms and "
                f"the dashboard of its lock table watch {value!r}. Pass the function's namespace to the lock table, as "
                "metrics_namespace=, or None for no such alarm",
            )
    return variables


def judge_when_synthesized(function: Connectable, wanted: Mapping[str, str]) -> None:
    """When the app is synthesized, warn of what will not work, and fail for variables that name another table."""
    resource = _resource(function)
    if resource is None:
        return

    def reading(template: synthesis.Template) -> Iterator[str]:
        properties = template.properties(resource)
        for id, text in _concerns(properties, template, METRICS_VARIABLE in wanted):
            synthesis.warn(function, id, f"{function.node.path} {text}")
        try:
            missing(function, wanted, properties.get("Environment", {}).get("Variables", {}))
        except LockConfigurationError as error:
            yield str(error)

    synthesis.judge(resource, reading)


def _concerns(
    properties: Mapping[str, Any], template: synthesis.Template, with_metrics: bool
) -> Iterator[tuple[str, str]]:
    """What will not work for a function, as ids and texts of warnings."""
    runtime = str(properties.get("Runtime"))  # an image has none
    python = re.fullmatch(r"python(\d+)\.(\d+)", runtime)
    if _OTHER_LANGUAGES.match(runtime) or (python is not None and (int(python[1]), int(python[2])) < _OLDEST):
        yield (
            "runtime",
            f"runs on {runtime}, and lambda_lock needs Python {_OLDEST[0]}.{_OLDEST[1]} or newer. For a function with "
            "another client of the same table, call grant()",
        )
    if not with_metrics:
        return
    logging = properties.get("LoggingConfig", {})
    level, group = logging.get("ApplicationLogLevel"), logging.get("LogGroup")
    if logging.get("LogFormat") == "JSON" and level in _LOUD:
        yield (
            "log-level",
            f"logs in JSON at level {level}, and Lambda then drops the lines with the metrics: the alarm LockLost "
            "cannot go off. Set application_log_level_v2=ApplicationLogLevel.INFO, and the level of chatty loggers in "
            "the code. Or pass metrics_namespace=None to the lock table",
        )
    # Only the standard class of log groups turns lines into metrics: see "Log classes", CloudWatch Logs User Guide.
    name = group.get("Ref") if isinstance(group, dict) else None
    log_class = template.resources.get(str(name), {}).get("Properties", {}).get("LogGroupClass", "STANDARD")
    if log_class != "STANDARD":
        yield (
            "log-class",
            f"logs to {name} of the class {log_class}, of which CloudWatch makes no metrics: the alarm LockLost cannot "
            "go off. Use a log group of the class STANDARD. Or pass metrics_namespace=None to the lock table",
        )


def log_group_name(function: Connectable) -> str | None:
    """The name of the function's log group. None if it cannot be read."""
    resource = _resource(function)
    if resource is None:
        return None
    group = _read(resource, "loggingConfig").get("logGroup")
    return f"/aws/lambda/{function.function_name}" if group is None else cdk.Token.as_string(group)


def check_prefixes(grantee: iam.IGrantable, prefixes: Sequence[str]) -> None:
    """Refuse prefixes that refer to the function that the grant is for, or whose own role it is for."""
    scope = getattr(getattr(grantee.grant_principal, "node", None), "scope", None)
    resource = _resource(grantee) or _resource(scope)
    if resource is None:
        return
    resolve = cdk.Stack.of(resource).resolve
    logical_id = resolve(resource.logical_id)
    for prefix in prefixes:
        text = json.dumps(resolve(prefix))
        if f'{{"Ref": "{logical_id}"}}' in text or f'{{"Fn::GetAtt": ["{logical_id}", ' in text:
            raise LockArgumentError(
                f"key_prefixes: {prefix!r} refers to {resource.node.path}, the function that may lock these keys. The "
                "function waits for its role's policy, and the policy would wait for the function: a circular "
                "dependency. Set function_name=, and write that name as text. Or use another prefix"
            )


def _resource(function: object) -> lambda_.CfnFunction | None:
    """The resource of a function that the app makes. A SingletonFunction makes it in another place of the tree."""
    node = getattr(function, "permissions_node", None)
    found = None if node is None else node.default_child
    return found if isinstance(found, lambda_.CfnFunction) else None


def _read(resource: lambda_.CfnFunction, name: str) -> dict[str, Any]:
    """A property as the template will have it. Its attribute is not read: of a Lazy, jsii makes an empty struct."""
    found = cdk.Stack.of(resource).resolve(resource._cfn_properties.get(name))
    return found if isinstance(found, dict) else {}
