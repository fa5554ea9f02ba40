"""The alarms, which can go off and do so only for good reasons, and the dashboard.

What they are like in detail is compared with docs/templates/watched.yaml, by test_other_tools.py.
"""

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

from lambda_lock import LockArgumentError, LockConfigurationError
from lambda_lock.cdk import LockTable
from lambda_lock.observe import metrics
from tests.cdk.apps import ACCOUNT, REGION, new_function, new_stack, resources, the_only

ALARM = "AWS::CloudWatch::Alarm"
DASHBOARD = "AWS::CloudWatch::Dashboard"
TABLE = {"Ref": "LocksTable84FB9352"}
# The metrics that AWS publishes for a table, with their dimensions (see "DynamoDB metrics and dimensions").
DYNAMODB = {
    "ReadThrottleEvents": {"TableName"},
    "WriteThrottleEvents": {"TableName"},
    "ConsumedReadCapacityUnits": {"TableName"},
    "ConsumedWriteCapacityUnits": {"TableName"},
    "SystemErrors": {"TableName", "Operation"},
    "SuccessfulRequestLatency": {"TableName", "Operation"},
}
LOCKS = (metrics.LOST, metrics.FAILED, metrics.DISABLED, metrics.TOKEN_FELL, metrics.RATE_LIMITED)  # alarms' ids too
LIBRARY = {name: {metrics.TABLE_DIMENSION} for name in (*metrics.COUNTED.values(), *LOCKS)}
PUBLISHED = {"AWS/DynamoDB": DYNAMODB, metrics.NAMESPACE: LIBRARY}


def _alarms(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    return {id[len("Locks") : -8]: alarm["Properties"] for id, alarm in resources(stack, ALARM).items()}


def _watched(**options: Any) -> cdk.Stack:
    stack = new_stack()
    LockTable(stack, "Locks", **({"alarm_actions": []} | options))
    return stack


@pytest.fixture(scope="module")
def alarms() -> dict[str, dict[str, Any]]:
    """Those of a lock table without other options."""
    return _alarms(_watched())


def _metrics(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["MetricStat"] for each in alarm["Metrics"] if "MetricStat" in each]


def _dimension(metric: dict[str, Any], name: str) -> Any:
    return {each["Name"]: each["Value"] for each in metric["Metric"]["Dimensions"]}.get(name)


def test_every_alarmed_metric_is_published_under_just_these_dimensions_for_this_table(alarms):
    for each in (each for alarm in alarms.values() for each in _metrics(alarm)):
        metric = each["Metric"]
        dimensions = {dimension["Name"] for dimension in metric["Dimensions"]}
        assert PUBLISHED[metric["Namespace"]][metric["MetricName"]] == dimensions
        assert TABLE in (_dimension(each, "TableName"), _dimension(each, metrics.TABLE_DIMENSION))


def test_an_alarm_counts_events_not_samples_takes_silence_for_health_and_says_which_table_and_what_to_do(alarms):
    for alarm in alarms.values():
        assert {each["Stat"] for each in _metrics(alarm)} == {"Sum"}
        assert alarm["TreatMissingData"] == "notBreaching"
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", 0)
        assert len(alarm["Metrics"]) <= 10  # CloudWatch's limit
        before, table, after = alarm["AlarmDescription"]["Fn::Join"][1]
        assert table == TABLE
        assert before.endswith((" table ", "of the table "))
        assert len(after) > 100


def test_topics_and_alarm_actions_are_told(stack):
    topics = [sns.Topic(stack, id) for id in ("One", "Other")]
    LockTable(stack, "Locks", alarm_actions=[topics[0], cloudwatch_actions.SnsAction(topics[1])])
    told = [stack.resolve(topic.topic_arn) for topic in topics]
    assert [alarm["AlarmActions"] for alarm in _alarms(stack).values()] == [told] * 7


def test_what_can_be_bound_to_something_else_is_no_alarm_action():
    """The CDK takes it, and makes an alarm that tells nobody."""
    subscription: Any = subscriptions.EmailSubscription("team@example.com")
    with pytest.raises(TypeError, match="alarm_actions: EmailSubscription is neither a Topic of aws_sns nor an alarm"):
        LockTable(new_stack(), "Locks", alarm_actions=[subscription])


def _dashboard(stack: cdk.Stack) -> tuple[list[dict[str, Any]], str]:
    """The widgets and the whole text. Values that are known only at deployment are replaced by their logical ids."""
    body = the_only(stack, DASHBOARD)["Properties"]["DashboardBody"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else str(next(iter(part.values()))) for part in body)
    text = re.sub(r"\['(\w+)', 'Arn'\]", r"\1", text)
    return json.loads(text)["widgets"], text


def test_every_metric_of_the_dashboard_is_published_and_events_are_summed():
    widgets, _ = _dashboard(_watched(alarm_actions=None, dashboard=True))
    shown = [metric for widget in widgets for metric in widget["properties"]["metrics"] if isinstance(metric[0], str)]
    assert len(shown) == 22
    for namespace, name, *dimensions, options in shown:
        assert PUBLISHED[namespace][name] == set(dimensions[::2])
        assert options["stat"] == ("p99" if name == "SuccessfulRequestLatency" else "Sum")


def test_an_existing_table_is_watched_by_its_name(home):
    LockTable.from_table_name(home, "Locks", "theirs", alarm_actions=[], dashboard=True)
    (lost,) = (alarm for name, alarm in _alarms(home).items() if name == "LockLost")
    assert _dimension(_metrics(lost)[0], metrics.TABLE_DIMENSION) == "theirs"
    assert resources(home, DASHBOARD)


def test_of_a_table_in_another_account_only_the_locks_are_watched_because_only_their_metrics_are_here(home):
    arn = "arn:aws:dynamodb:eu-central-1:222222222222:table/theirs"
    LockTable.from_table_arn(home, "Locks", arn, alarm_actions=[], dashboard=True)
    assert set(_alarms(home)) == {*LOCKS}
    text = json.dumps(the_only(home, DASHBOARD))
    assert metrics.NAMESPACE in text
    assert "AWS/DynamoDB" not in text


def test_without_metrics_nothing_waits_for_them(stack):
    locks = LockTable(stack, "Locks", metrics_namespace=None, alarm_actions=[], dashboard=True)
    assert set(_alarms(stack)) == {"Throttled", "SystemErrors"}
    _, text = _dashboard(stack)
    assert metrics.LOST not in text
    with pytest.raises(LockConfigurationError, match="metrics_namespace=None"):
        locks.metric_lock_lost()


def test_another_namespace_is_the_one_that_is_watched():
    stack = _watched(metrics_namespace="orders", dashboard=True)
    (lost,) = _metrics(_alarms(stack)["LockLost"])
    assert lost["Metric"]["Namespace"] == "orders"
    assert metrics.NAMESPACE not in _dashboard(stack)[1].replace("lambda_lock#", "")


def test_each_team_on_one_table_has_alarms_that_watch_its_own_locks(stack, locks):
    team = "orders"
    others = LockTable.from_table(stack, "Others", locks.table, metrics_group="others", alarm_actions=[])
    ours = LockTable.from_table(stack, "Ours", locks.table, metrics_group=team, alarm_actions=[], dashboard=True)
    function = new_function(stack)
    others.connect(new_function(stack, "Another"))
    ours.connect(function)
    assert stack.resolve(ours.metric_lock_lost().dimensions) == {
        metrics.TABLE_DIMENSION: TABLE,
        metrics.GROUP_DIMENSION: team,
    }
    with pytest.raises(LockConfigurationError, match=f"has metrics_group='{team}'"):
        ours.metric_lock_lost(function=function)
    made = resources(stack, ALARM)
    for name in LOCKS:
        (alarm,) = (each["Properties"] for id, each in made.items() if id.startswith(f"Ours{name}"))
        (watched,) = _metrics(alarm)
        assert (watched["Metric"]["MetricName"], _dimension(watched, metrics.TABLE_DIMENSION)) == (name, TABLE)
        assert _dimension(watched, metrics.GROUP_DIMENSION) == team
    told = resources(stack, "AWS::Lambda::Function")["Function76856677"]["Properties"]["Environment"]["Variables"]
    assert told[metrics.GROUP_VARIABLE] == team
    assert metrics.FUNCTION_DIMENSION not in json.dumps(resources(stack, DASHBOARD))


def test_without_groups_the_alarms_watch_all_functions_and_none_is_counted_by_itself(stack):
    locks = LockTable(stack, "Locks", metrics_group="none", alarm_actions=[], dashboard=True)
    assert locks.environment[metrics.GROUP_VARIABLE] == metrics.UNGROUPED
    assert stack.resolve(locks.metric_lock_lost().dimensions) == {metrics.TABLE_DIMENSION: TABLE}
    assert metrics.FUNCTION_DIMENSION not in _dashboard(stack)[1]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"metrics_group": 7}, TypeError, "metrics_group must be a str"),
        ({"metrics_group": ""}, LockArgumentError, "metrics_group='' is not the value of a dimension"),
        ({"metrics_group": ":a"}, LockArgumentError, "metrics_group=':a' is not"),
        ({"metrics_group": "Jürgen"}, LockArgumentError, "metrics_group='Jürgen' is not"),
        ({"metrics_group": "a", "metrics_namespace": None}, LockArgumentError, "has no effect with metrics_namespace"),
    ],
)
def test_a_bad_group_is_refused(options, error, said):
    with pytest.raises(error, match=said):
        LockTable(new_stack(), "Locks", **options)


@pytest.mark.parametrize("name", [*LOCKS, metrics.NOT_GRANTED, metrics.DUPLICATE, metrics.UNAVAILABLE])
def test_metrics_can_be_had_by_name_of_the_table_and_of_one_function(name, stack, locks):
    function = new_function(stack)
    metric = getattr(locks, "metric" + re.sub("([A-Z])", r"_\1", name).lower())
    of_all = metric()
    of_one = metric(function=function, period=cdk.Duration.hours(1), statistic="Average", label="x")
    assert (of_all.metric_name, of_all.namespace, of_all.statistic) == (name, metrics.NAMESPACE, "Sum")
    assert stack.resolve(of_all.dimensions) == {metrics.TABLE_DIMENSION: TABLE}
    assert stack.resolve(of_one.dimensions) == {
        metrics.TABLE_DIMENSION: TABLE,
        metrics.FUNCTION_DIMENSION: stack.resolve(function.function_name),
    }
    assert (of_one.period.to_seconds(), of_one.statistic, of_one.label) == (3600, "Average", "x")


def test_the_metric_of_an_alias_or_a_version_is_that_of_its_function_which_is_what_functions_report(stack):
    locks, function = LockTable(stack, "Locks"), new_function(stack)
    of_function = stack.resolve(locks.metric_lock_lost(function=function).dimensions)
    for qualified in (function.add_alias("live"), function.current_version):
        assert stack.resolve(locks.metric_lock_lost(function=qualified).dimensions) == of_function


def test_a_metric_is_looked_for_where_it_arises(home):
    elsewhere, theirs = (
        cdk.Stack(home.node.root, id, env=cdk.Environment(account=account, region=region))
        for id, account, region in (("Elsewhere", ACCOUNT, "us-east-1"), ("Theirs", "222222222222", REGION))
    )
    locks = LockTable(home, "Locks", table_name="locks")
    with pytest.raises(RuntimeError, match="Cannot create an Alarm in region 'us-east-1' based on metric"):
        locks.metric_lock_lost().create_alarm(elsewhere, "Never", threshold=1, evaluation_periods=1)
    function = new_function(theirs, function_name="theirs")
    locks.metric_lock_lost(function=function).create_alarm(home, "Lost", threshold=1, evaluation_periods=1)
    (metric,) = the_only(home, ALARM)["Properties"]["Metrics"]
    assert metric["AccountId"] == "222222222222"
    assert locks.metric_lock_lost(function=function, account="333333333333").account == "333333333333"


def test_the_alarms_can_be_had(stack):
    locks = LockTable(stack, "Locks", alarm_actions=[])
    assert [alarm.node.id for alarm in locks.alarms] == [*LOCKS, "Throttled", "SystemErrors"]
    assert LockTable(stack, "Unwatched").alarms == ()


def test_the_dashboard_lists_the_most_contended_keys_from_the_logs_of_connected_functions(stack):
    locks = LockTable(stack, "Locks", dashboard=True)
    group = logs.LogGroup(stack, "Group")
    for function in (new_function(stack), new_function(stack, "Other", log_group=group)):
        locks.connect(function)
        locks.connect(function)
    widgets, _ = _dashboard(stack)
    (keys,) = (widget["properties"] for widget in widgets if widget["type"] == "log")
    first, second, *query = keys["query"].split("\n| ")[0].split(" | ") + keys["query"].split("\n| ")[1:]
    assert first == "SOURCE '/aws/lambda/Function76856677'"
    assert second.startswith("SOURCE 'Group")
    assert "by lock_key" in str(query)


def test_a_function_of_another_stack_is_not_listed_because_the_stacks_would_need_each_other(stack):
    LockTable(stack, "Locks", dashboard=True).connect(new_function(cdk.Stack(stack.node.root, "Functions")))
    assert not [widget for widget in _dashboard(stack)[0] if widget["type"] == "log"]
