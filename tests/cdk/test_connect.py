"""What `connect` tells a function about its table, and that the library understands it."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from lambda_lock import LockArgumentError, LockClient, LockConfigurationError
from lambda_lock.cdk import LockTable
from tests.cdk.apps import ACCOUNT, in_an_account, new_function, new_stack, policies, the_only, warnings, with_code
from tests.cdk.statements import for_locks

FUNCTION = "AWS::Lambda::Function"
OTHER = "222222222222"
TABLE_ARN = "arn:aws:dynamodb:eu-central-1:{}:table/theirs"


def _variables(stack: cdk.Stack) -> dict[str, Any]:
    variables: dict[str, Any] = the_only(stack, FUNCTION)["Properties"]["Environment"]["Variables"]
    return variables


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, {"LAMBDA_LOCK_METRICS": "lambda_lock"}),
        ({"metrics_namespace": "orders"}, {"LAMBDA_LOCK_METRICS": "orders"}),
        ({"metrics_namespace": None}, {}),
        (
            {"metrics_namespace": None, "partition_key_name": "pk", "sort_key_name": "sk"},
            {"LAMBDA_LOCK_PARTITION_KEY": "pk", "LAMBDA_LOCK_SORT_KEY": "sk"},
        ),
    ],
    ids=str,
)
def test_a_connected_function_has_the_permissions_and_is_told_table_keys_and_namespace(options, told, stack):
    locks = LockTable(stack, "Locks", **options)
    assert locks.connect(new_function(stack)).success
    assert policies(stack) == [for_locks(stack.resolve(locks.table.table_arn))]
    assert _variables(stack) == {"LAMBDA_LOCK_TABLE": {"Ref": "LocksTable84FB9352"}, **told}


def test_a_stage_is_told_as_the_scope_of_events(stack, locks):
    function = new_function(stack)
    locks.connect(function, stage="blue")
    locks.connect(function, stage="blue")
    assert _variables(stack)["LAMBDA_LOCK_SCOPE"] == "blue"
    with pytest.raises(LockConfigurationError, match="has LAMBDA_LOCK_SCOPE='blue' in its environment already"):
        locks.connect(function, stage="green")


@pytest.mark.parametrize(("stage", "error"), [("", LockArgumentError), ("x" * 129, LockArgumentError), (7, TypeError)])
def test_a_stage_that_no_scope_can_be_is_refused(stage, error, stack):
    with pytest.raises(error, match="stage"):
        LockTable(stack, "Locks").connect(new_function(stack), stage=stage)


@pytest.mark.parametrize(
    ("account", "in_stack", "told", "scope"),
    [
        (ACCOUNT, in_an_account, "theirs", {}),
        (OTHER, in_an_account, TABLE_ARN.format(OTHER), {"LAMBDA_LOCK_SCOPE": ACCOUNT}),
        (ACCOUNT, new_stack, TABLE_ARN.format(ACCOUNT), {}),
    ],
    ids=["own account", "another account", "a stack without an account"],
)
def test_an_existing_table_is_named_and_one_that_may_be_of_another_account_by_its_arn(account, in_stack, told, scope):
    stack = in_stack()
    arn = TABLE_ARN.format(account)
    locks = LockTable.from_table_arn(stack, "Locks", arn, partition_key_name="id", dashboard=True)
    locks.connect(new_function(stack))
    variables = {"LAMBDA_LOCK_TABLE": told, "LAMBDA_LOCK_PARTITION_KEY": "id", "LAMBDA_LOCK_METRICS": "lambda_lock"}
    assert _variables(stack) == variables | scope


def test_an_arn_that_is_known_at_deployment_only_is_told_as_it_is(stack):
    arn = cdk.Fn.import_value("LocksArn")
    LockTable.from_table_arn(stack, "Locks", arn).connect(new_function(stack))
    assert _variables(stack)["LAMBDA_LOCK_TABLE"] == {"Fn::ImportValue": "LocksArn"}
    assert policies(stack) == [for_locks({"Fn::ImportValue": "LocksArn"})]


def test_an_arn_of_the_stacks_own_account_and_region_is_told_as_a_name(stack):
    arn = f"arn:{stack.partition}:dynamodb:{stack.region}:{stack.account}:table/theirs"
    LockTable.from_table_arn(stack, "Locks", arn).connect(new_function(stack))
    assert _variables(stack)["LAMBDA_LOCK_TABLE"] == "theirs"


@pytest.mark.parametrize("other", [{"region": "us-east-1"}, {"account": OTHER}], ids=str)
def test_a_function_of_another_account_or_region_is_refused(other, home):
    elsewhere = cdk.Environment(**({"account": home.account, "region": home.region} | other))
    locks = LockTable(home, "Locks", table_name="locks")
    with pytest.raises(LockConfigurationError, match="another account or Region than Stack/Locks"):
        locks.connect(new_function(cdk.Stack(home.node.root, "Functions", env=elsewhere)))


def test_a_table_of_another_stack_can_be_connected(stack, locks):
    functions = cdk.Stack(stack.node.root, "Functions")
    locks.connect(new_function(functions))
    exported = {"Fn::ImportValue": "Stack:ExportsOutputFnGetAttLocksTable84FB9352ArnD5AC368B"}
    assert policies(functions) == [for_locks(exported)]


def test_a_client_in_that_environment_uses_that_table_and_its_keys(monkeypatch):
    locks = LockTable.from_table_name(new_stack(), "Locks", "theirs", partition_key_name="pk", sort_key_name="sk")
    for name, value in locks.environment.items():
        monkeypatch.setenv(name, value)
    with LockClient() as client:
        place = client.__session__.settings.place("invoice#7", "pdf")
    assert (place.table, place.item_key) == ("theirs", {"pk": {"S": "invoice#7"}, "sk": {"S": "pdf"}})


def test_connecting_twice_changes_nothing():
    once, twice = new_stack(), new_stack()
    for stack, times in ((once, 1), (twice, 2)):
        locks, function = LockTable(stack, "Locks"), new_function(stack, runtime=lambda_.Runtime.PYTHON_3_10)
        for _ in range(times):
            locks.connect(function)
    assert (policies(twice), _variables(twice)) == (policies(once), _variables(once))
    (warning,) = warnings(twice)
    assert "lambda_lock needs Python 3.11 or newer" in warning


def test_a_function_is_connected_with_one_table_only(stack):
    function = new_function(stack)
    LockTable(stack, "Locks").connect(function)
    with pytest.raises(LockConfigurationError, match="Stack/Function is already connected to Stack/Locks"):
        LockTable(stack, "Others").connect(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda stack: lambda_.Function.from_function_name(stack, "Theirs", "theirs"),
        lambda stack: new_function(stack).current_version,
        lambda stack: lambda_.Alias(stack, "Live", alias_name="live", version=new_function(stack).current_version),
    ],
    ids=["imported", "version", "alias"],
)
def test_a_function_whose_environment_cannot_be_set_is_refused_with_what_to_set(function, home):
    locks = LockTable(home, "Locks", partition_key_name="pk")
    said = "call grant.. here, and set LAMBDA_LOCK_TABLE, LAMBDA_LOCK_METRICS, LAMBDA_LOCK_PARTITION_KEY"
    with pytest.raises(LockConfigurationError, match=said):
        locks.connect(function(home))


def _singleton(stack: cdk.Stack, id: str = "Function", **options: Any) -> lambda_.SingletonFunction:
    return lambda_.SingletonFunction(stack, id, uuid=id, **with_code(**options))


def test_a_singleton_function_can_be_connected_and_is_looked_at_like_any_other(stack, locks):
    locks.connect(_singleton(stack))
    assert _variables(stack)["LAMBDA_LOCK_TABLE"] == {"Ref": "LocksTable84FB9352"}
    function = _singleton(stack, "Other", environment={"LAMBDA_LOCK_TABLE": "theirs"})
    with pytest.raises(LockArgumentError, match="a circular dependency"):
        locks.grant(function, key_prefixes=[function.function_name])
    with pytest.raises(LockConfigurationError, match="has LAMBDA_LOCK_TABLE='theirs' in its environment"):
        locks.connect(function)


@pytest.mark.parametrize("namespace", ["", "AWS/Lambda", ":orders", 'my "orders"', "x" * 256])
def test_a_namespace_that_cloudwatch_does_not_take_is_refused(namespace):
    with pytest.raises(LockArgumentError, match="metrics_namespace="):
        LockTable(new_stack(), "Locks", metrics_namespace=namespace)


def test_powertools_namespace_is_the_functions_own_because_no_alarm_could_watch_it(stack):
    with pytest.raises(LockArgumentError, match="Pass None, and set LAMBDA_LOCK_METRICS in the function's"):
        LockTable(stack, "Refused", metrics_namespace="Powertools")
    function = new_function(stack, environment={"LAMBDA_LOCK_METRICS": "powertools"})
    LockTable(stack, "Locks", metrics_namespace=None).connect(function)
    assert _variables(stack)["LAMBDA_LOCK_METRICS"] == "powertools"
    assert warnings(stack) == []


def test_a_namespace_that_the_function_has_already_is_kept_with_a_warning(stack):
    LockTable(stack, "Locks").connect(new_function(stack, environment={"LAMBDA_LOCK_METRICS": "mine"}))
    assert _variables(stack)["LAMBDA_LOCK_METRICS"] == "mine"
    (warning,) = warnings(stack)
    assert "LAMBDA_LOCK_METRICS='mine'" in warning
    assert "metrics_namespace=" in warning


def test_another_table_in_the_functions_own_environment_is_refused_and_the_same_one_is_not(stack, locks):
    locks.connect(new_function(stack, "Same", environment=locks.environment))
    with pytest.raises(LockConfigurationError, match="Stack/Other has LAMBDA_LOCK_TABLE='theirs' in its environment"):
        locks.connect(new_function(stack, "Other", environment={"LAMBDA_LOCK_TABLE": "theirs"}))
    assert warnings(stack) == []


def test_a_log_level_that_drops_the_metrics_gets_a_warning(stack, locks):
    silent = LockTable(stack, "Silent", metrics_namespace=None)
    levels = lambda_.ApplicationLogLevel
    for level in (levels.INFO, levels.WARN, levels.ERROR, levels.FATAL):
        logging: dict[str, Any] = {"logging_format": lambda_.LoggingFormat.JSON, "application_log_level_v2": level}
        locks.connect(new_function(stack, level.name, **logging))
        silent.connect(new_function(stack, f"{level.name}WithoutMetrics", **logging))
    found = warnings(stack)
    said = {f"Stack/{level} logs in JSON at level {level}" for level in ("WARN", "ERROR", "FATAL")}
    assert {each.partition(",")[0] for each in found} == said
    assert all("LockLost cannot go off" in each for each in found)


def test_a_prefix_with_the_functions_own_name_is_refused_because_neither_could_be_made_first(stack):
    locks, function = LockTable(stack, "Locks"), new_function(stack)
    prefix = f"{function.function_name}#"
    grantees: list[iam.IGrantable] = [function, function.add_alias("live"), function.grant_principal]
    for grantee in grantees:
        with pytest.raises(LockArgumentError, match=r"refers to Stack/Function/Resource.* a circular dependency"):
            locks.grant(grantee, key_prefixes=[prefix])
    locks.connect(function, key_prefixes=[f"{new_function(stack, 'Other').function_name}#"])
