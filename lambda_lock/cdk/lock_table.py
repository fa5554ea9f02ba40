"""LockTable: the table, its permissions, and the environment variables that tell a function about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack
from weakref import WeakKeyDictionary

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IValidation

from ..client import checks
from ..client.settings import PARTITION_KEY_VARIABLE, SORT_KEY_VARIABLE, TABLE_VARIABLE
from ..core.row import JAVA
from ..errors import LockArgumentError, LockConfigurationError
from ..observe.metrics import METRICS_VARIABLE, NAMESPACE
from ..permissions import ACTIONS
from . import lookups, monitoring
from .grants import KEY_ACTIONS, allow, differ, leading_keys
from .monitoring import AlarmActions

_NO_REPLICAS = (
    "a lock table must not have replicas. With multi-Region eventual consistency, two Regions would each grant the "
    "same lock. With multi-Region strong consistency, DynamoDB has neither time to live nor transactions. Keep the "
    "locks of all Regions in one Region's table, or use one table per Region for locks that concern only that Region"
)
_TABLE_ARN = re.compile(r"arn:[^:]+:dynamodb:([^:]+):([^:]+):table/[^:/]+")

Keys = tuple[str, str | None]  # names of the partition key and the sort key

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
    alarm_actions: AlarmActions | None
    dashboard: bool


class LockTable(Construct):
    """A DynamoDB table for locks. It is billed on demand and has time to live.

        locks = LockTable(self, "Locks", alarm_actions=[topic])
        locks.connect(function)

    table_name: the table's name; None: CloudFormation chooses one. With a name, a change that replaces the table fails.
    partition_key_name: the name of the partition key, a string.
    sort_key_name: the name of the sort key, a string; None: no sort key. Changing the name of a key creates a new
        table, and locks held in the old table do not count in the new one.
    deletion_protection: whether DynamoDB refuses to delete the table.
    encryption: a TableEncryptionV2; None: encryption with a key that DynamoDB owns. `grant` also allows the use of a
        customer-managed key.
    tags: names and values.
    removal_policy: what happens to the table when it is removed from the stack, or the stack is deleted. By default the
        table stays.
    alarm_actions: SNS topics or alarm actions that alarms notify; None: no alarms; an empty list: alarms that notify
        nobody. The alarms watch for throttling, DynamoDB's own errors and lost locks, never for contention.
    dashboard: whether to create a CloudWatch dashboard.
    replicas: always refused, because two Regions would each grant the same lock.

    Raises LockArgumentError for replicas and for a name that DynamoDB does not allow or that the lock itself uses, and
    TypeError for an argument of the wrong type. Replicas that are added to the table later are refused when
    synthesizing.
    """

    table: dynamodb.ITableV2

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table_name: str | None = None,
        partition_key_name: str = JAVA.partition_key,
        sort_key_name: str | None = None,
        deletion_protection: bool = False,
        encryption: dynamodb.TableEncryptionV2 | None = None,
        tags: Mapping[str, str] | None = None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN,
        alarm_actions: AlarmActions | None = None,
        dashboard: bool = False,
        replicas: object = None,
    ) -> None:
        if replicas:
            raise LockArgumentError(f"replicas={replicas!r}: {_NO_REPLICAS}")
        keys = _check_keys(partition_key_name, sort_key_name)
        name = None if table_name is None else _check_name(table_name)
        super().__init__(scope, id)
        if lookups.is_dummy(table_name):
            lookups.report(self, "table_name", str(table_name))
        table = dynamodb.TableV2(
            self,
            "Table",
            table_name=name,
            partition_key=_string_key(partition_key_name),
            sort_key=None if sort_key_name is None else _string_key(sort_key_name),
            billing=dynamodb.Billing.on_demand(),
            time_to_live_attribute=JAVA.ttl,
            deletion_protection=deletion_protection,
            encryption=encryption,
            tags=[cdk.CfnTag(key=name, value=value) for name, value in (tags or {}).items()],
            removal_policy=removal_policy,
        )
        table.node.add_validation(_SingleRegion(table))
        self._serve(table, table.table_name, keys, alarm_actions, dashboard)

    def _serve(
        self, table: dynamodb.ITableV2, address: str, keys: Keys, alarm_actions: AlarmActions | None, dashboard: bool
    ) -> None:
        """Set up what a new and an existing table have in common.

        address: the table's name or ARN, as clients name the table.
        """
        self.table = table
        self._address = address
        self._partition_key_name, self._sort_key_name = keys
        here = not differ(table.env.account, cdk.Stack.of(self).account)
        alarms: list[cloudwatch.Alarm] = []
        if alarm_actions is not None:
            alarms = monitoring.add_alarms(self, table.table_name, alarm_actions, table_is_here=here)
        if dashboard:
            monitoring.add_dashboard(self, table.table_name, alarms, table_is_here=here)

    @classmethod
    def from_table_name(
        cls, scope: Construct, id: str, table_name: str, **options: Unpack[ExistingTableOptions]
    ) -> LockTable:
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
    ) -> LockTable:
        """A table that already exists in this Region, in this account or another one.

            locks = LockTable.from_table_arn(self, "Locks", "arn:aws:dynamodb:eu-central-1:111122223333:table/locks")

        table_arn: the table's ARN. A table in another account must allow the same actions in its resource policy: call
            ``grant(iam.AccountPrincipal(…))`` there. Its own metrics are there too, so of the alarms there is only the
            one for lost locks here.
        options: see ExistingTableOptions.

        Raises LockArgumentError or TypeError for bad input: an ARN that is not a table's, or a table in another Region.
        """
        if not lookups.is_dummy(table_arn):
            return _ExistingTable(scope, id, table_arn, **options)
        locks = _ExistingTable(scope, id, _arn_here(scope, lookups.STAND_IN), **options)
        lookups.report(locks, "table_arn", table_arn)
        return locks

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that `connect` sets.

            for name, value in locks.environment.items():
                container.add_environment(name, value)

        Use them for functions and containers that are defined elsewhere.
        """
        variables = {TABLE_VARIABLE: self._address, METRICS_VARIABLE: NAMESPACE}
        if self._partition_key_name != JAVA.partition_key:
            variables[PARTITION_KEY_VARIABLE] = self._partition_key_name
        if self._sort_key_name is not None:
            variables[SORT_KEY_VARIABLE] = self._sort_key_name
        return variables

    def grant(self, grantee: iam.IGrantable, *, key_prefixes: Sequence[str] | None = None) -> iam.Grant:
        """Allow ``grantee`` to use locks: the four actions on this table, and the use of its customer-managed key.

            locks.grant(function, key_prefixes=["order#"])

        grantee: a function, a role or another principal that can receive permissions, in any account of the app. For a
            grantee in another account, the table's resource policy and the key's policy get a statement as well.
            iam.AccountPrincipal allows another account, whose own policies then decide.
        key_prefixes: allow only locks whose keys begin with one of these; None: all locks. Prefixes are literal.

        Returns the grant. Raises LockConfigurationError if the grant would have no effect: the grantee cannot receive
        permissions, or it is in another account and the table has no name that could be told there. Raises
        LockArgumentError for bad prefixes, and TypeError for prefixes that are not a list of str.
        """
        conditions = None if key_prefixes is None else leading_keys(key_prefixes)
        return allow(self, self.table, self.table.encryption_key, grantee, ACTIONS, KEY_ACTIONS, conditions)

    def connect(self, function: lambda_.IFunction, *, key_prefixes: Sequence[str] | None = None) -> iam.Grant:
        """Grant the permissions and set `environment`, so that ``@with_lock`` and ``LockClient()`` use this table.

            locks.connect(function)

        function: the function itself, not a version, an alias or an import of it.
        key_prefixes: as for `grant`.

        Returns the grant. Raises LockConfigurationError if the function's environment cannot be set, if the function is
        connected to another lock table, or if it is in another account or Region. Also raises what `grant` raises.
        """
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
        grant = self.grant(function, key_prefixes=key_prefixes)
        for name, value in self.environment.items():
            function.add_environment(name, value)
        return grant


class _ExistingTable(LockTable):
    def __init__(
        self,
        scope: Construct,
        id: str,
        table_arn: str,
        *,
        partition_key_name: str = JAVA.partition_key,
        sort_key_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        alarm_actions: AlarmActions | None = None,
        dashboard: bool = False,
    ) -> None:
        keys = _check_keys(partition_key_name, sort_key_name)
        stack = cdk.Stack.of(scope)
        account = _account_of(table_arn, stack)
        Construct.__init__(self, scope, id)  # LockTable.__init__ would create a table
        table = dynamodb.TableV2.from_table_attributes(
            self, "Table", table_arn=table_arn, encryption_key=encryption_key
        )
        address = table.table_name if account == stack.account else table_arn
        self._serve(table, address, keys, alarm_actions, dashboard)


@jsii.implements(IValidation)
class _SingleRegion:
    """Refuses replicas that were added to the table itself. It does so when synthesizing."""

    def __init__(self, table: dynamodb.TableV2) -> None:
        self._table = table

    def validate(self) -> list[str]:
        resource = self._table.node.default_child
        assert isinstance(resource, dynamodb.CfnGlobalTable)
        replicas = cdk.Stack.of(self._table).resolve(resource.replicas)
        return [_NO_REPLICAS] if len(replicas) > 1 else []


def _string_key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _check_keys(partition_key_name: str, sort_key_name: str | None) -> Keys:
    keys = {"partition_key_name": partition_key_name, "sort_key_name": sort_key_name}
    for parameter, name in keys.items():
        checks.key_name(parameter, name, JAVA)
    if partition_key_name == sort_key_name:
        raise LockArgumentError(f"sort_key_name={sort_key_name!r} is already the partition key. Choose another name")
    return partition_key_name, sort_key_name


def _arn_here(scope: Construct, name: str) -> str:
    return cdk.Stack.of(scope).format_arn(service="dynamodb", resource="table", resource_name=name)


def _check_name(name: str) -> str:
    """The name, or a stand-in for a dummy."""
    if cdk.Token.is_unresolved(name):
        return name
    if lookups.is_dummy(name):
        return lookups.STAND_IN
    if str(name).startswith("arn:"):
        raise LockArgumentError(f"table_name={name!r} is an ARN: use LockTable.from_table_arn instead")
    return checks.table_name(name)


def _account_of(table_arn: str, stack: cdk.Stack) -> str | None:
    """The account of a table. None if it is known only at deployment.

    Raises LockArgumentError for an ARN that is not a table's, or if the functions of the stack cannot reach the table.
    """
    found = _TABLE_ARN.fullmatch(table_arn)
    if found is None and cdk.Token.is_unresolved(table_arn):
        return None
    if found is None:
        raise LockArgumentError(
            f"table_arn={table_arn!r} is not the ARN of a table: pass one of the form "
            "arn:aws:dynamodb:Region:account:table/name"
        )
    region, account = found.groups()
    if differ(region, stack.region):
        raise LockArgumentError(
            f"table_arn={table_arn!r}: the stack is in {stack.region}, and a function looks for its table in its own "
            "Region. Use a table in that Region. Or add the permissions to the function's role yourself, and write "
            "LockClient(…, region_name=…) in its code"
        )
    return account
