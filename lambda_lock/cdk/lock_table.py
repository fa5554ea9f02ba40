"""LockTable: the table, its permissions, and the environment variables that tell a function about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypedDict, Unpack, cast
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm
from constructs import Construct
from typing_extensions import TypeVar  # jsii needs it too; it has defaults on Python 3.11

from ..client import checks
from ..client.settings import PARTITION_KEY_VARIABLE, SORT_KEY_VARIABLE, TABLE_VARIABLE
from ..core.row import JAVA
from ..errors import LockArgumentError, LockConfigurationError
from ..observe.metrics import (
    DUPLICATE,
    FAILED,
    GROUP_VARIABLE,
    LOST,
    METRICS_VARIABLE,
    NAMESPACE,
    NOT_GRANTED,
    UNAVAILABLE,
)
from ..permissions import ACTIONS
from . import arguments, functions, lookups, synthesis
from .arguments import kind
from .grants import (
    KEY_ACTIONS,
    KEY_READ_ACTIONS,
    REPLACED,
    TABLE_ARN,
    AnyTable,
    allow,
    differ,
    home,
    is_in_app,
    is_unnamed,
    leading_keys,
)
from .monitoring import AlarmActions, MetricOptions, Watch, check_alarm_actions, check_group, check_namespace

_NO_REPLICAS = (
    "a lock table must not have replicas. With multi-Region eventual consistency, two Regions would each grant the "
    "same lock. With multi-Region strong consistency, DynamoDB has neither time to live nor transactions. Keep the "
    "locks of all Regions in one Region's table, or use one table per Region for locks that concern only that Region"
)

_COPY = "Custom::DynamoDBReplica"  # what makes a Table of the CDK a global table
_ASSOCIATE = "dynamodb:AssociateTableReplica"  # what the policy of a table allows to a copy in another account
_NOT_A_TEXT = "For a table, call LockTable.from_table"

Keys = tuple[str, str | None]  # names of the partition key and the sort key
Table = TypeVar("Table", bound=AnyTable, covariant=True, default=AnyTable)
OneTable = TypeVar("OneTable", bound=AnyTable)

# The table that a function is connected to. There is only one, because its environment names one table.
_connected: WeakKeyDictionary[lambda_.IFunction, LockTable] = WeakKeyDictionary()


class ExistingTableOptions(TypedDict, total=False):
    """The options for a table that already exists.

    encryption_key: the table's customer-managed key, so that `grant` includes it; None: the table has none.
    The other options are those of LockTable.
    """

    partition_key_name: str
    sort_key_name: str | None
    encryption_key: kms.IKey | None
    metrics_namespace: str | None
    metrics_group: str | None
    alarm_actions: AlarmActions | None
    dashboard: bool


class LockTable(Construct, Generic[Table]):
    """A DynamoDB table for locks. It is billed on demand and has time to live.

        locks = LockTable(self, "Locks", alarm_actions=[topic])
        locks.connect(function)

    To type checkers, LockTable[X] is a lock table whose ``table`` is an X. Derive from LockTable[dynamodb.TableV2].

    table_name: the table's name; None: CloudFormation chooses one. With a name, a change that replaces the table fails.
    partition_key_name: the name of the partition key, a string.
    sort_key_name: the name of the sort key, a string; None: no sort key. Changing the name of a key creates a new
        table, and locks held in the old table do not count in the new one.
    time_to_live: whether DynamoDB deletes rows that have not been used for a day. Pass False for a table that the Java
        or the Go client shares.
    deletion_protection: whether DynamoDB refuses to delete the table; None: if the table is retained.
    encryption: a TableEncryptionV2; None: encryption with a key that DynamoDB owns. `grant` also allows the use of a
        customer-managed key.
    tags: names and values.
    removal_policy: what happens to the table when it is removed from the stack, or the stack is deleted. By default the
        table stays.
    billing: a Billing, such as ``Billing.on_demand(max_write_request_units=500)``; None: on demand without a maximum.
    point_in_time_recovery: True, or a PointInTimeRecoverySpecification.
    warm_throughput: a WarmThroughput; None: that of a new table.
    table_class: a TableClass; None: the standard class.
    contributor_insights: True, or a ContributorInsightsSpecification.
    resource_policy: the table's resource policy, to which `grant` adds; None: none until `grant` needs one.
    metrics_namespace: the CloudWatch namespace of the metrics that connected functions write; None: they write none,
        and nothing watches the locks.
    metrics_group: what the metrics of connected functions are counted by, instead of their functions, such as a team:
        the alarms and the dashboard of this construct then watch its locks only; "none": by the table alone. None: by
        function, which is a custom metric for each function.
    alarm_actions: SNS topics or alarm actions that alarms notify; None: no alarms; an empty list: alarms that notify
        nobody. The alarms watch for lost locks, failed operations, throttling and DynamoDB's own errors, never for
        contention.
    dashboard: whether to create a CloudWatch dashboard.
    parameter_name: the name of an SSM parameter for the table's name; None: no parameter.
    replicas: always refused, because two Regions would each grant the same lock.

    Raises LockArgumentError for replicas and for a name that DynamoDB does not allow or that the lock itself uses, and
    TypeError for an argument of the wrong type. Replicas that are added to the table later are refused when
    synthesizing.
    """

    def __init__(
        self: LockTable[dynamodb.TableV2],
        scope: Construct,
        id: str,
        *,
        table_name: str | None = None,
        partition_key_name: str = JAVA.partition_key,
        sort_key_name: str | None = None,
        time_to_live: bool = True,
        deletion_protection: bool | None = None,
        encryption: dynamodb.TableEncryptionV2 | None = None,
        tags: Mapping[str, str] | None = None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN,
        billing: dynamodb.Billing | None = None,
        point_in_time_recovery: bool | dynamodb.PointInTimeRecoverySpecification = False,
        warm_throughput: dynamodb.WarmThroughput | None = None,
        table_class: dynamodb.TableClass | None = None,
        contributor_insights: bool | dynamodb.ContributorInsightsSpecification = False,
        resource_policy: iam.PolicyDocument | None = None,
        metrics_namespace: str | None = NAMESPACE,
        metrics_group: str | None = None,
        alarm_actions: AlarmActions | None = None,
        dashboard: bool = False,
        parameter_name: str | None = None,
        replicas: object = None,
    ) -> None:
        if replicas:
            raise LockArgumentError(f"replicas={replicas!r}: {_NO_REPLICAS}")
        keys = _check_keys(partition_key_name, sort_key_name)
        name = None if table_name is None else _check_name(table_name)
        tags = {} if tags is None else tags
        arguments.check_tags(tags)
        arguments.check_flag("time_to_live", time_to_live)
        _check_watched(metrics_namespace, metrics_group, alarm_actions, dashboard)
        retained = removal_policy != cdk.RemovalPolicy.DESTROY
        super().__init__(scope, id)
        table = dynamodb.TableV2(
            self,
            "Table",
            table_name=name,
            partition_key=_string_key(partition_key_name),
            sort_key=None if sort_key_name is None else _string_key(sort_key_name),
            billing=billing or dynamodb.Billing.on_demand(),
            time_to_live_attribute=JAVA.ttl if time_to_live else None,
            deletion_protection=retained if deletion_protection is None else deletion_protection,
            encryption=encryption,
            tags=[cdk.CfnTag(key=name, value=value) for name, value in tags.items()],
            removal_policy=removal_policy,
            table_class=table_class,
            resource_policy=resource_policy,
            **_newer_options(point_in_time_recovery, warm_throughput, contributor_insights),
        )
        if lookups.is_dummy(table_name):
            lookups.report(self, "table_name", str(table_name))
        synthesis.judge(table, lambda template: _warn_of_protection(self, table, template))
        synthesis.judge(table, lambda template: _judge_time_to_live(table, JAVA.ttl, template))
        if parameter_name is not None:
            ssm.StringParameter(
                self,
                "Name",
                parameter_name=parameter_name,
                string_value=table.table_name,
                description="The table for locks",
            )
        self._serve(
            table,
            table.encryption_key,
            table.table_name,
            keys,
            metrics_namespace,
            metrics_group,
            alarm_actions,
            dashboard,
        )

    def _serve(
        self,
        table: AnyTable,
        key: kms.IKey | None,
        address: str,
        keys: Keys,
        metrics_namespace: str | None,
        metrics_group: str | None,
        alarm_actions: AlarmActions | None,
        dashboard: bool,
    ) -> None:
        """Set up what a new and an existing table have in common.

        address: the table's name or ARN, as clients name the table.
        """
        synthesis.judge(table, lambda template: [_NO_REPLICAS] if _is_replicated(table, template) else [])
        if is_unnamed(table):
            synthesis.judge(table, lambda _: _check_unnamed(self, table))
        self._table, self._key, self._address, self._key_names = table, key, address, keys
        self._prefixes: dict[str, list[str] | None] = {}  # that were granted first, by the path of the role
        _, owner = home(table)
        is_here = not differ(owner, cdk.Stack.of(self).account)
        self._watch = Watch(self, table.table_name, metrics_namespace, metrics_group, is_here)
        self._alarms = () if alarm_actions is None else self._watch.make_alarms(alarm_actions)
        if dashboard:
            self._watch.make_dashboard()

    @classmethod
    def from_table_name(
        cls, scope: Construct, id: str, table_name: str, **options: Unpack[ExistingTableOptions]
    ) -> LockTable[dynamodb.ITableV2]:
        """A table that already exists in this account and Region.

            locks = LockTable.from_table_name(self, "Locks", "prod-locks")

        table_name: the table's name.
        options: see ExistingTableOptions.

        Raises LockArgumentError or TypeError for bad input.
        """
        name = _check_name(table_name)
        locks = cls.from_table_arn(scope, id, _arn_here(scope, name), **options)
        if lookups.is_dummy(table_name):
            lookups.report(locks, "table_name", table_name)
        return locks

    @classmethod
    def from_table_arn(
        cls, scope: Construct, id: str, table_arn: str, **options: Unpack[ExistingTableOptions]
    ) -> LockTable[dynamodb.ITableV2]:
        """A table that already exists in this Region, in this account or another one.

            locks = LockTable.from_table_arn(self, "Locks", "arn:aws:dynamodb:eu-central-1:111122223333:table/locks")

        table_arn: the table's ARN. A table in another account must allow the same actions in its resource policy: call
            ``grant(iam.AccountPrincipal(…))`` there. Its own metrics are there too, so of the alarms there is only the
            one for lost locks here.
        options: see ExistingTableOptions.

        Raises LockArgumentError or TypeError for bad input: an ARN that is not a table's, or a table in another Region.
        """
        arguments.check_text("table_arn", table_arn, _NOT_A_TEXT)
        arn = _arn_here(scope, lookups.STAND_IN) if lookups.is_dummy(table_arn) else table_arn
        _check_reachable(arn, cdk.Stack.of(scope))
        locks: LockTable[dynamodb.ITableV2] = _ExistingTable(
            scope,
            id,
            lambda self: dynamodb.TableV2.from_table_attributes(
                self, "Table", table_arn=arn, encryption_key=options.get("encryption_key")
            ),
            address=arn,
            **options,
        )
        if arn is not table_arn:
            lookups.report(locks, "table_arn", table_arn)
        return locks

    @classmethod
    def from_table(
        cls,
        scope: Construct,
        id: str,
        table: OneTable,
        *,
        ttl: str | None = JAVA.ttl,
        **options: Unpack[ExistingTableOptions],
    ) -> LockTable[OneTable]:
        """A table of this app, or one that the app has imported: any ITable or ITableV2.

            locks = LockTable.from_table(self, "Locks", table)

        table: the table. Its customer-managed key is known from it.
        ttl: the attribute on which its time to live may be, as for `check_table`; None: it must be off.
        options: see ExistingTableOptions.

        Raises LockArgumentError if the names of its keys are others than those of the options, if they are not strings,
        if its time to live is on another attribute, or if it is in another Region, and TypeError for what is no table.
        A time to live that is changed later is judged when synthesizing.
        """
        given: object = table
        if not hasattr(given, "table_arn"):
            raise TypeError(f"table must be an ITable or an ITableV2, not {kind(given)}: see from_table_name")
        region, _ = home(table)
        if differ(region, cdk.Stack.of(scope).region):
            raise LockArgumentError(f"table={table.node.path}: {_other_region(cdk.Stack.of(scope))}")
        _check_schema(table, options.get("partition_key_name", JAVA.partition_key), options.get("sort_key_name"), ttl)
        if is_in_app(table):
            synthesis.judge(table, lambda template: _judge_time_to_live(table, ttl, template))
        options.setdefault("encryption_key", table.encryption_key)
        locks: LockTable[OneTable] = _ExistingTable(scope, id, lambda _: table, address=table.table_arn, **options)
        return locks

    @property
    def table(self) -> Table:
        """The table: a TableV2 if LockTable made it, else what was passed or imported."""
        return cast("Table", self._table)

    @property
    def alarms(self) -> tuple[cloudwatch.Alarm, ...]:
        """The alarms. Without ``alarm_actions`` there are none.

        for alarm in locks.alarms:
            alarm.add_alarm_action(action)
        """
        return self._alarms

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that `connect` sets.

            for name, value in locks.environment.items():
                container.add_environment(name, value)

        Use them for functions and containers that are defined elsewhere.
        """
        partition_key_name, sort_key_name = self._key_names
        variables = {TABLE_VARIABLE: self._address}
        if self._watch.namespace is not None:
            variables[METRICS_VARIABLE] = self._watch.namespace
        if self._watch.group is not None:
            variables[GROUP_VARIABLE] = self._watch.group
        if partition_key_name != JAVA.partition_key:
            variables[PARTITION_KEY_VARIABLE] = partition_key_name
        if sort_key_name is not None:
            variables[SORT_KEY_VARIABLE] = sort_key_name
        return variables

    def grant(self, grantee: iam.IGrantable, *, key_prefixes: Sequence[str] | None = None) -> iam.Grant:
        """Allow ``grantee`` to use locks: the four actions on this table, and the use of its customer-managed key.

            locks.grant(function, key_prefixes=["order#"])

        grantee: a function, a role or another principal that can receive permissions, in any account of the app. For a
            grantee in another account, the table's resource policy and the key's policy get a statement as well.
            iam.AccountPrincipal allows another account, whose own policies then decide.
        key_prefixes: allow only locks whose keys begin with one of these; None: all locks. Prefixes are literal.

        Returns the grant. Raises LockConfigurationError if the grantee cannot receive permissions, or if it is in
        another account or Region and the table has no name: the CDK would choose one, and CloudFormation would replace
        the table. Raises LockArgumentError for bad prefixes, and TypeError for an argument of the wrong type. Annotates
        a warning if the role was granted other prefixes before, because it then has both.
        """
        conditions = None
        if key_prefixes is not None:
            conditions = leading_keys(key_prefixes)
            functions.check_prefixes(grantee, key_prefixes)
        grant = allow(self, self._table, self._key, grantee, ACTIONS, KEY_ACTIONS, conditions)
        self._warn_of_other_prefixes(grantee, None if key_prefixes is None else sorted(key_prefixes))
        return grant

    def _warn_of_other_prefixes(self, grantee: iam.IGrantable, prefixes: list[str] | None) -> None:
        node = getattr(grantee.grant_principal, "node", None)
        if node is None or (before := self._prefixes.setdefault(node.path, prefixes)) == prefixes:
            return
        cdk.Annotations.of(self).add_warning_v2(
            "lambda-lock:prefixes",
            f"grant: {node.path} has been granted key_prefixes={before}, and now key_prefixes={prefixes} (None: all "
            "keys). A role has all that it was granted, so each function with this role may lock the keys of both. "
            "Give each function its own role, or pass the same prefixes each time",
        )

    def grant_inspect(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow ``grantee`` to read single locks: ``lambda-lock get``, ``client.get(key)``.

            locks.grant_inspect(support_role)

        grantee: as for `grant`.

        Returns the grant of ``dynamodb:GetItem``. Raises what `grant` raises.
        """
        return allow(self, self._table, self._key, grantee, ["dynamodb:GetItem"], KEY_READ_ACTIONS)

    def grant_list(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow ``grantee`` to list locks: ``lambda-lock ls``, ``client.list()``.

            locks.grant_list(support_role)

        grantee: as for `grant`.

        Returns the grant of ``dynamodb:Scan`` and ``dynamodb:Query``. Raises what `grant` raises.
        """
        return allow(self, self._table, self._key, grantee, ["dynamodb:Scan", "dynamodb:Query"], KEY_READ_ACTIONS)

    def metric_lock_lost(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of lost locks: each holder that lost its lock while it worked.

            locks.metric_lock_lost(function=function).create_alarm(self, "Lost", threshold=1, evaluation_periods=1)

        function: only those of this function, with all its versions; None: of all functions in this account, or of the
            ``metrics_group``.
        options: see MetricOptions.

        Returns the metric. Raises LockConfigurationError if the lock table has ``metrics_namespace=None``, or for a
        function if it has a ``metrics_group``, and TypeError for what is no function.
        """
        return self._watch.metric(LOST, function, options)

    def metric_lock_failed(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of acquires that failed: a missing permission or table, throttling, no answer.

            locks.metric_lock_failed(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(FAILED, function, options)

    def metric_lock_not_granted(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of acquires that ended in contention.

            locks.metric_lock_not_granted(period=Duration.hours(1))

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(NOT_GRANTED, function, options)

    def metric_duplicate_event(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of deliveries of events that were done before.

            locks.metric_duplicate_event(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(DUPLICATE, function, options)

    def metric_lock_unavailable(
        self, *, function: lambda_.IFunction | None = None, **options: Unpack[MetricOptions]
    ) -> cloudwatch.Metric:
        """The number of calls that ran without their lock in an outage (``on_unavailable="run"``).

            locks.metric_lock_unavailable(function=function)

        function, options: as for `metric_lock_lost`.

        Returns the metric. Raises what `metric_lock_lost` raises.
        """
        return self._watch.metric(UNAVAILABLE, function, options)

    def connect(self, function: lambda_.IFunction, *, key_prefixes: Sequence[str] | None = None) -> iam.Grant:
        """Grant the permissions and set `environment`, so that ``@with_lock`` and ``LockClient()`` use this table.

            locks.connect(function)

        function: the function itself, not a version, an alias or an import of it. If its own environment has
            LAMBDA_LOCK_METRICS, that stays.
        key_prefixes: as for `grant`.

        Returns the grant. Raises LockConfigurationError if the function's environment cannot be set, if it has another
        value of these variables, if the function is connected to another lock table, or if it is in another account or
        Region. Also raises what `grant` raises. Annotates the function with a warning where locks or their metrics
        would not work: another language, or a log level or a class of logs that drops the metrics. What is set in its
        environment later is judged when synthesizing.
        """
        arguments.check_function(function)
        if not isinstance(function, lambda_.Function | lambda_.SingletonFunction):
            names = ", ".join(self.environment)
            raise LockConfigurationError(
                f"connect: the environment of {function.node.path} cannot be set here. Connect the function itself "
                "where it is defined, not a version, alias or import of it. Or call grant() here, and set "
                f"{names} where the function is defined"
            )
        stack, theirs = cdk.Stack.of(self), cdk.Stack.of(function)
        if differ(stack.region, theirs.region) or differ(stack.account, theirs.account):
            raise LockConfigurationError(
                f"connect: {function.node.path} is in another account or Region than {self.node.path}. Call "
                "LockTable.from_table_arn in the function's own stack, and connect the function there"
            )
        if _connected.setdefault(function, self) is not self:
            raise LockConfigurationError(
                f"connect: {function.node.path} is already connected to {_connected[function].node.path}, and its "
                f"environment can name only one table. Call grant() on {self.node.path}, and name its table in the "
                "function's code: LockClient(…)"
            )
        variables = functions.missing(function, self.environment)
        grant = self.grant(function, key_prefixes=key_prefixes)
        for name, value in variables.items():
            function.add_environment(name, value)
        functions.judge_when_synthesized(function, self.environment)
        self._watch.add_function(function)
        return grant


class _ExistingTable(LockTable[Table]):
    def __init__(
        self,
        scope: Construct,
        id: str,
        find: Callable[[Construct], AnyTable],
        *,
        address: str,
        partition_key_name: str = JAVA.partition_key,
        sort_key_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        metrics_namespace: str | None = NAMESPACE,
        metrics_group: str | None = None,
        alarm_actions: AlarmActions | None = None,
        dashboard: bool = False,
    ) -> None:
        """find: gives the table, for this construct. address: its ARN, for tables of another account."""
        keys = _check_keys(partition_key_name, sort_key_name)
        arguments.check_key(encryption_key)
        _check_watched(metrics_namespace, metrics_group, alarm_actions, dashboard)
        Construct.__init__(self, scope, id)  # LockTable.__init__ would create a table
        table = find(self)
        _, owner = home(table)
        if owner == cdk.Stack.of(self).account:
            address = table.table_name
        self._serve(table, encryption_key, address, keys, metrics_namespace, metrics_group, alarm_actions, dashboard)


def _is_replicated(table: AnyTable, template: synthesis.Template) -> bool:
    """Whether the app makes copies of the table in other Regions or accounts, or the table is such a copy."""
    resource = table.node.default_child
    if isinstance(table.node.scope, dynamodb.TableV2):  # what TableV2.replica returns
        return True
    if isinstance(resource, dynamodb.CfnGlobalTable):
        replicas = template.properties(resource).get("Replicas", [])
        unknown = not isinstance(replicas, list)  # until it is deployed: an Fn::If
        return _is_copy(resource) or unknown or len(replicas) > 1 or _ASSOCIATE in json.dumps(replicas)
    return any(getattr(each, "cfn_resource_type", None) == _COPY for each in table.node.find_all())


def _is_copy(resource: dynamodb.CfnGlobalTable) -> bool:
    """Whether it is a copy of a table in another account, which an older CDK does not make."""
    return getattr(resource, "global_table_source_arn", None) is not None


def _check_unnamed(scope: LockTable[Any], table: AnyTable) -> list[str]:
    """Refuse a name that the CDK chose, because a stack of another account or Region refers to the table."""
    resource = table.node.default_child
    if (
        not isinstance(resource, dynamodb.CfnGlobalTable | dynamodb.CfnTable)
        or is_unnamed(table)
        or not cdk.Token.is_unresolved(resource.table_name)  # the app's own choice, made later
    ):
        return []
    return [
        f"a stack of another account or Region refers to the table of {scope.node.path}, which has no name that could "
        f"be told there. Set table_name=. ({REPLACED})"
    ]


def _warn_of_protection(scope: LockTable[Any], table: dynamodb.TableV2, template: synthesis.Template) -> list[str]:
    resource = table.node.default_child
    if isinstance(resource, dynamodb.CfnGlobalTable):
        replicas = template.properties(resource).get("Replicas", [])
        protected = any(isinstance(each, dict) and each.get("DeletionProtectionEnabled") for each in replicas)
        if protected and template.of(resource).get("DeletionPolicy") == "Delete":
            cdk.Annotations.of(scope).add_warning_v2(
                "lambda-lock:protected",
                f"the table of {scope.node.path} is to be deleted with its stack, and its deletion protection lets "
                "DynamoDB refuse that: deleting the stack fails. Pass deletion_protection=False, or another "
                "removal_policy",
            )
    return []


def _newer_options(
    point_in_time_recovery: bool | dynamodb.PointInTimeRecoverySpecification,
    warm_throughput: dynamodb.WarmThroughput | None,
    contributor_insights: bool | dynamodb.ContributorInsightsSpecification,
) -> dict[str, Any]:
    """Options of TableV2 that the oldest CDK has by other names or not at all. Those that are off are left out."""
    options: dict[str, Any] = {}
    if warm_throughput is not None:
        options["warm_throughput"] = warm_throughput
    for name, value, of_kind, enabled in (
        (
            "point_in_time_recovery",
            point_in_time_recovery,
            "PointInTimeRecoverySpecification",
            "point_in_time_recovery_enabled",
        ),
        ("contributor_insights", contributor_insights, "ContributorInsightsSpecification", "enabled"),
    ):
        specification = getattr(dynamodb, of_kind, None)
        if not isinstance(value, bool) and (specification is None or not isinstance(value, specification)):
            raise TypeError(f"{name} must be True, False or, in a newer CDK, a {of_kind}, not {kind(value)}")
        if value is False:
            continue
        if specification is None:
            options[name] = value
        else:
            options[f"{name}_specification"] = specification(**{enabled: True}) if value is True else value
    return options


def _string_key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _check_keys(partition_key_name: str, sort_key_name: str | None) -> Keys:
    checks.attribute_name("partition_key_name", partition_key_name)  # which may not be None
    checks.key_name("partition_key_name", partition_key_name, JAVA)
    checks.key_name("sort_key_name", sort_key_name, JAVA)
    if partition_key_name == sort_key_name:
        raise LockArgumentError(f"sort_key_name={sort_key_name!r} is already the partition key. Choose another name")
    return partition_key_name, sort_key_name


def _check_schema(table: AnyTable, partition_key_name: str, sort_key_name: str | None, ttl: str | None) -> None:
    """Compare the keys and the time to live of a table of the app with what clients write."""
    resource = table.node.default_child
    if not isinstance(resource, dynamodb.CfnGlobalTable | dynamodb.CfnTable):
        return
    if isinstance(resource, dynamodb.CfnGlobalTable) and _is_copy(resource):
        return  # its keys are those of its source; it is refused when synthesizing
    resolve = cdk.Stack.of(table).resolve
    found = {each["keyType"]: each["attributeName"] for each in resolve(resource.key_schema)}
    types = {each["attributeName"]: each["attributeType"] for each in resolve(resource.attribute_definitions)}
    names = {"HASH": ("partition_key_name", partition_key_name), "RANGE": ("sort_key_name", sort_key_name)}
    for role, (parameter, name) in names.items():
        if found.get(role) != name:
            raise LockArgumentError(
                f"{parameter}={name!r}, but {table.node.path} has {found.get(role)!r}: pass "
                f"{parameter}={found.get(role)!r}"
            )
        if name is not None and types[name] != "S":
            raise LockArgumentError(
                f"table={table.node.path}: its key {name!r} has the type {types[name]}, and the keys of locks are "
                "strings (S). Use another table"
            )
    time_to_live = resolve(resource.time_to_live_specification) or {}
    for wrong in _wrong_time_to_live(table, ttl, time_to_live.get("enabled"), time_to_live.get("attributeName")):
        raise LockArgumentError(wrong)


def _judge_time_to_live(table: AnyTable, ttl: str | None, template: synthesis.Template) -> list[str]:
    resource = cast("cdk.CfnResource", table.node.default_child)
    time_to_live = template.properties(resource).get("TimeToLiveSpecification", {})
    return _wrong_time_to_live(table, ttl, time_to_live.get("Enabled"), time_to_live.get("AttributeName"))


def _wrong_time_to_live(table: AnyTable, ttl: str | None, enabled: object, attribute: object) -> list[str]:
    if not enabled or attribute == ttl:
        return []
    return [
        f"ttl={ttl!r}, but the time to live of {table.node.path} is on {attribute!r}: DynamoDB may delete a live lock. "
        "Change it there, or pass from_table the attribute that your clients' schema has for it as ttl="
    ]


def _check_watched(namespace: object, group: object, alarm_actions: object, dashboard: object) -> None:
    check_namespace(namespace)
    check_group(group, namespace)
    check_alarm_actions(alarm_actions)
    arguments.check_flag("dashboard", dashboard)


def _arn_here(scope: Construct, name: str) -> str:
    return cdk.Stack.of(scope).format_arn(service="dynamodb", resource="table", resource_name=name)


def _check_name(name: str) -> str:
    """The name, or a stand-in for a dummy."""
    arguments.check_text("table_name", name, _NOT_A_TEXT)
    if cdk.Token.is_unresolved(name):
        return name
    if lookups.is_dummy(name):
        return lookups.STAND_IN
    if name.startswith("arn:"):
        raise LockArgumentError(f"table_name={name!r} is an ARN: use LockTable.from_table_arn instead")
    return checks.table_name(name, "table_name")


def _check_reachable(table_arn: str, stack: cdk.Stack) -> None:
    """Refuse an ARN that is not a table's, or if the functions of the stack cannot reach the table."""
    found = TABLE_ARN.fullmatch(table_arn)
    if found is None and not cdk.Token.is_unresolved(table_arn):
        raise LockArgumentError(
            f"table_arn={table_arn!r} is not the ARN of a table: pass one of the form "
            "arn:aws:dynamodb:Region:account:table/name"
        )
    if found is not None and differ(found[1], stack.region):
        raise LockArgumentError(f"table_arn={table_arn!r}: {_other_region(stack)}")


def _other_region(stack: cdk.Stack) -> str:
    return (
        f"the stack is in {stack.region}, and a function looks for its table in its own Region. Use a table in that "
        "Region. Or add the permissions to the function's role yourself, and write LockClient(…, region_name=…) in its "
        "code"
    )
