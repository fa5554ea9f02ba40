"""LockTable: the table, its permissions, and the environment variables that tell a function about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypedDict, Unpack, cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm
from constructs import Construct
from typing_extensions import TypeVar  # jsii needs it too; it has defaults on Python 3.11

from ..client.settings import PARTITION_KEY_VARIABLE, SORT_KEY_VARIABLE, TABLE_VARIABLE
from ..client.sleep import WAKE_VARIABLE
from ..core.schema import JAVA
from ..errors import LockArgumentError, LockConfigurationError
from ..observe import metrics
from ..observe.metrics import NAMESPACE
from ..permissions import ACTIONS
from . import arguments, functions, synthesis, tables, waker
from .arguments import wrong
from .grants import KEY_ACTIONS, KEY_READ_ACTIONS, Permission, Statement, of_prefixes
from .monitoring import AlarmActions, Watch, WatchOptions
from .tables import AnyTable, Keys, home
from .waker import Waker, WakeTarget
from .watched import Watched

Table = TypeVar("Table", bound=AnyTable, covariant=True, default=AnyTable)
OneTable = TypeVar("OneTable", bound=AnyTable)


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


class LockTable(Watched, Generic[Table]):
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
    point_in_time_recovery: False, or a PointInTimeRecoverySpecification. By default the table can be restored.
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
        nobody. The alarms watch for lost locks, failed operations, locks that are disabled, tokens that fell, an hour
        of refused starts, throttling and DynamoDB's own errors, never for contention.
    dashboard: whether to create a CloudWatch dashboard.
    parameter_name: the name of an SSM parameter for the table's name; None: no parameter.
    wake: whether the table has a waker, which lets executions of state machines and durable functions sleep until a
        lock is free: a stream, a function with a layer of the library, and a queue. True: it runs on the Python that
        runs the app; or a Runtime of aws_lambda. See `wake`, which names who is woken.
    replicas: always refused, because two Regions would each grant the same lock.

    Raises LockArgumentError for replicas and for a name that DynamoDB does not allow or that the lock itself uses, and
    TypeError for an argument of the wrong type. Replicas that are added to the table later are refused when
    synthesizing.
    """

    _waker: Waker | None = None

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
        point_in_time_recovery: bool | dynamodb.PointInTimeRecoverySpecification = True,
        warm_throughput: dynamodb.WarmThroughput | None = None,
        table_class: dynamodb.TableClass | None = None,
        contributor_insights: bool | dynamodb.ContributorInsightsSpecification = False,
        resource_policy: iam.PolicyDocument | None = None,
        metrics_namespace: str | None = NAMESPACE,
        metrics_group: str | None = None,
        alarm_actions: AlarmActions | None = None,
        dashboard: bool = False,
        parameter_name: str | None = None,
        wake: bool | lambda_.Runtime = False,
        replicas: object = None,
    ) -> None:
        if replicas:
            raise LockArgumentError(f"replicas={replicas!r}: {tables.NO_REPLICAS}")
        keys = tables.check_keys(partition_key_name, sort_key_name)
        name = None if table_name is None else tables.check_name(table_name)
        tags = {} if tags is None else tags
        arguments.check_tags(tags)
        arguments.check_flag("time_to_live", time_to_live)
        watched = WatchOptions(metrics_namespace, metrics_group, alarm_actions, dashboard)
        watched.check()
        runtime = waker.check(wake, sort_key_name)
        retained = removal_policy != cdk.RemovalPolicy.DESTROY
        newer: dict[str, Any] = {} if warm_throughput is None else {"warm_throughput": warm_throughput}
        super().__init__(scope, id)
        table = dynamodb.TableV2(
            self,
            "Table",
            table_name=name,
            partition_key=tables.string_key(partition_key_name),
            sort_key=None if sort_key_name is None else tables.string_key(sort_key_name),
            billing=billing or dynamodb.Billing.on_demand(),
            time_to_live_attribute=JAVA.ttl if time_to_live else None,
            deletion_protection=retained if deletion_protection is None else deletion_protection,
            encryption=encryption,
            tags=[cdk.CfnTag(key=name, value=value) for name, value in tags.items()],
            removal_policy=removal_policy,
            table_class=table_class,
            resource_policy=resource_policy,
            dynamo_stream=None if runtime is None else waker.STREAM,
            **tables.specified("point_in_time_recovery", point_in_time_recovery),
            **tables.specified("contributor_insights", contributor_insights),
            **newer,
        )
        arguments.report_dummy(self, "table_name", table_name)
        if parameter_name is not None:
            ssm.StringParameter(
                self,
                "Name",
                parameter_name=parameter_name,
                string_value=table.table_name,
                description="The table for locks",
            )
        if runtime is not None:
            self._waker = Waker(self, "Waker", table, runtime)
        self._serve(table, table.encryption_key, keys, JAVA.ttl, watched)

    def _serve(self, table: AnyTable, key: kms.IKey | None, keys: Keys, ttl: str | None, watched: WatchOptions) -> None:
        """Set up what a new and an existing table have in common. ttl: as for `from_table`."""
        tables.judge(self, table, ttl)
        self._table, self._key, self._key_names = table, key, keys
        self._prefixes: dict[str, list[str] | None] = {}  # that were granted first, by the path of the role
        self._watch = Watch(self, table, watched, {} if self._waker is None else self._waker.metrics())
        if self._waker is not None:
            self.connect(self._waker.function)

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
        locks = cls.from_table_arn(scope, id, tables.arn_here(scope, tables.check_name(table_name)), **options)
        arguments.report_dummy(locks, "table_name", table_name)
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
        arguments.check_text("table_arn", table_arn, tables.NOT_A_TEXT)
        arn = tables.arn_here(scope, arguments.STAND_IN) if arguments.is_dummy(table_arn) else table_arn
        if found := tables.TABLE_ARN.fullmatch(arn):
            tables.check_region(f"table_arn={arn!r}", found[1], cdk.Stack.of(scope))
        elif not cdk.Token.is_unresolved(arn):
            raise LockArgumentError(
                f"table_arn={arn!r} is not the ARN of a table: pass one of the form "
                "arn:aws:dynamodb:Region:account:table/name"
            )
        locks = _ExistingTable[dynamodb.ITableV2](scope, id, arn, JAVA.ttl, **options)
        arguments.report_dummy(locks, "table_arn", table_arn)
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
        if its time to live is on another attribute, or if it is in another Region, and TypeError for another object.
        A time to live that is changed later is judged when synthesizing.
        """
        given: object = table
        if not hasattr(given, "table_arn"):
            raise wrong("table", given, "an ITable or an ITableV2", ": see from_table_name")
        tables.check_region(f"table={table.node.path}", home(table)[0], cdk.Stack.of(scope))
        keys = options.get("partition_key_name", JAVA.partition_key), options.get("sort_key_name")
        tables.check_schema(table, keys, ttl)
        options.setdefault("encryption_key", table.encryption_key)
        return _ExistingTable[OneTable](scope, id, table, ttl, **options)

    @property
    def table(self) -> Table:
        """The table: a TableV2 if LockTable made it, else what was passed or imported."""
        return cast("Table", self._table)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that `connect` sets.

            for name, value in locks.environment.items():
                container.add_environment(name, value)

        Use them for functions and containers that are defined elsewhere.
        """
        partition_key_name, sort_key_name = self._key_names
        _, owner = home(self._table)
        is_here = owner == cdk.Stack.of(self).account
        variables = {
            TABLE_VARIABLE: self._table.table_name if is_here else self._table.table_arn,
            metrics.METRICS_VARIABLE: self._watch.namespace,
            metrics.GROUP_VARIABLE: self._watch.group,
            PARTITION_KEY_VARIABLE: None if partition_key_name == JAVA.partition_key else partition_key_name,
            SORT_KEY_VARIABLE: sort_key_name,
            WAKE_VARIABLE: None if self._waker is None else "1",
        }
        return {name: value for name, value in variables.items() if value is not None}

    def grant(self, grantee: iam.IGrantable, *, key_prefixes: Sequence[str] | None = None) -> iam.Grant:
        """Allow ``grantee`` to use locks: the four actions on this table, and the use of its customer-managed key.

            locks.grant(function, key_prefixes=["order#"])

        grantee: a function, a role or another principal that can receive permissions, in any account of the app. For a
            grantee in another account, the table's resource policy and the key's policy get a statement as well.
            iam.AccountPrincipal allows another account, whose own policies then decide.
        key_prefixes: allow only locks whose keys begin with one of these, and that `prewarm` reads its row; None: all
            locks. Prefixes are literal.

        Returns the grant. Raises LockConfigurationError if the grantee cannot receive permissions, or if it is in
        another account or Region and the table has no name: the CDK would choose one, and CloudFormation would replace
        the table. Raises LockArgumentError for bad prefixes, and TypeError for an argument of the wrong type. Annotates
        a warning if the role was granted other prefixes before, because it then has both.
        """
        statements = [Statement(ACTIONS)]
        if key_prefixes is not None:
            statements = of_prefixes(key_prefixes)
            functions.check_prefixes(grantee, key_prefixes)
        grant = Permission(self, self._table, self._key, statements, KEY_ACTIONS).grant(grantee)
        node = getattr(grantee.grant_principal, "node", None)
        prefixes = None if key_prefixes is None else sorted(key_prefixes)
        if node is not None and (before := self._prefixes.setdefault(node.path, prefixes)) != prefixes:
            synthesis.warn(
                self,
                "prefixes",
                f"grant: {node.path} has been granted key_prefixes={before}, and now key_prefixes={prefixes} (None: "
                "all keys). A role has all that it was granted, so each function with this role may lock the keys of "
                "both. Give each function its own role, or pass the same prefixes each time",
            )
        return grant

    def grant_inspect(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow ``grantee`` to read single locks: ``lambda-lock get``, ``client.get(key)``.

            locks.grant_inspect(support_role)

        grantee: as for `grant`.

        Returns the grant of ``dynamodb:GetItem``. Raises what `grant` raises.
        """
        statements = [Statement(["dynamodb:GetItem"])]
        return Permission(self, self._table, self._key, statements, KEY_READ_ACTIONS).grant(grantee)

    def grant_list(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow ``grantee`` to list locks: ``lambda-lock ls``, ``client.list()``.

            locks.grant_list(support_role)

        grantee: as for `grant`.

        Returns the grant of ``dynamodb:Scan`` and ``dynamodb:Query``. Raises what `grant` raises.
        """
        statements = [Statement(["dynamodb:Scan", "dynamodb:Query"])]
        return Permission(self, self._table, self._key, statements, KEY_READ_ACTIONS).grant(grantee)

    def wake(self, target: WakeTarget) -> iam.Grant:
        """Allow the waker to wake executions of ``target``, which sleep until a lock of this table is free.

            locks.wake(machine)

        target: a state machine whose executions sleep by ``client.sleep``, in a task that waits for its token; or a
            durable function with `durable_lock`, or a version or alias of it.

        Returns the grant: to answer the tasks of this state machine, or the callbacks of this function's executions.
        Raises LockConfigurationError if the table has no waker, if ``target`` is in another account or Region, or if it
        is a function and the waker runs on a Python before 3.13, whose boto3 cannot call it; LockArgumentError for an
        Express workflow, and TypeError for what is neither a state machine nor a function.
        """
        if self._waker is None:
            raise LockConfigurationError(f"wake: {self.node.path} has no waker: {waker.NONE}")
        return self._waker.allow(target)

    def connect(
        self, function: lambda_.IFunction, *, key_prefixes: Sequence[str] | None = None, stage: str | None = None
    ) -> iam.Grant:
        """Grant the permissions and set `environment`, so that ``@with_lock`` and ``LockClient()`` use this table.

            locks.connect(function)

        function: the function itself, not a version, an alias or an import of it. If its own environment has
            LAMBDA_LOCK_METRICS, that stays.
        key_prefixes: as for `grant`.
        stage: what events of this stage are stored under (LAMBDA_LOCK_SCOPE), where several stages share the table. One
            table a stage is better. None: the account of the function, if it is another one than the table's.

        Returns the grant. Raises LockConfigurationError if the function's environment cannot be set, if it has another
        value of these variables, if the function is connected to another lock table, or if it is in another account or
        Region. Also raises what `grant` raises. Annotates the function with a warning where locks or their metrics
        would not work: another language, or a log level or a class of logs that drops the metrics. What is set in its
        environment later is judged when synthesizing.
        """
        own = functions.connectable(function, self, self.environment)
        wanted = self.environment | functions.scope_of(own, stage, home(self._table)[1])
        variables = functions.missing(own, wanted)
        grant = self.grant(function, key_prefixes=key_prefixes)
        for name, value in variables.items():
            own.add_environment(name, value)
        functions.judge_when_synthesized(own, wanted)
        self._watch.add_function(own)
        return grant


class _ExistingTable(LockTable[Table]):
    def __init__(
        self,
        scope: Construct,
        id: str,
        found: AnyTable | str,
        ttl: str | None,
        *,
        partition_key_name: str = JAVA.partition_key,
        sort_key_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        wake: object = False,
        **watched: Any,
    ) -> None:
        """found: the table, or its ARN. ttl: as for `from_table`. watched: see WatchOptions."""
        keys = tables.check_keys(partition_key_name, sort_key_name)
        if encryption_key is not None and not hasattr(encryption_key, "key_arn"):
            wanted = "a Key of aws_kms or None"
            raise wrong("encryption_key", encryption_key, wanted, ". For an ARN, call kms.Key.from_key_arn")
        if wake is not False:
            raise LockArgumentError(f"wake={wake!r}: {waker.NONE}")
        options = WatchOptions(**watched)
        options.check()
        Construct.__init__(self, scope, id)  # LockTable.__init__ would create a table
        table = found
        if isinstance(table, str):
            table = dynamodb.TableV2.from_table_attributes(
                self, "Table", table_arn=table, encryption_key=encryption_key
            )
        self._serve(table, encryption_key, keys, ttl, options)
