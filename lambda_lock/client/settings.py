"""The settings of a client: checked once, never changed. No I/O."""

from __future__ import annotations

import os

from ..core import protocol
from ..core.requests import Place
from ..core.schema import JAVA
from ..errors import LockArgumentError, LockConfigurationError
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable
    from typing import Any

    from ..core.schema import Schema
    from ..runtime.timeline import Clock
    from ..transport import Transport


TABLE_VARIABLE = "LAMBDA_LOCK_TABLE"
PARTITION_KEY_VARIABLE = "LAMBDA_LOCK_PARTITION_KEY"
SORT_KEY_VARIABLE = "LAMBDA_LOCK_SORT_KEY"
SCOPE_VARIABLE = "LAMBDA_LOCK_SCOPE"  # what is before each default scope of an event; unset or "": nothing


class Settings:
    """The settings that `LockClient` and `AsyncLockClient` take.

    table: the table's name or ARN. None: read LAMBDA_LOCK_TABLE at the first use, and LAMBDA_LOCK_PARTITION_KEY and
        LAMBDA_LOCK_SORT_KEY with it.
    lease_duration: seconds, 1 or more. A lock outlives a holder that died by this much, but it never outlives the
        invocation.
    heartbeat_period: seconds between renewals, at most half of the lease. None: planned from validity. 0: no renewals.
    refresh_period: the longest pause between two polls of an acquire that waits, in seconds, 0.01 or more.
    safe_time: seconds before the end of validity at which ``on_danger`` is called, above 0 and below the lease. None:
        it is not called.
    owner_prefix: the beginning of every owner, 1 to 512 bytes. None: function name and request id, or host and process
        id.
    ttl: seconds for which a row is kept after its last use, by DynamoDB's time to live on the attribute ``ttl``. None:
        rows are kept for ever. Pass None if the Java or Go client shares the table: these clients write a
        stale value back.
    partition_key_name, sort_key_name: the names of the table's keys. None: the schema's ("key", and no sort key).
    schema: JAVA, GO or PYTHON: the client that shares the table.
    hold_on_unavailable: a lock is not lost because of 5xx errors and time-outs alone. Renewals go on after validity has
        ended, ``is_held`` is False until one succeeds, and no loss is signalled. This has no effect on locks that
        delete their row on release (``delete_on_release``, PYTHON): there, a renewal could not prove that no other
        client held the lock in between.
    queue: serve waiting acquires first come, first served. False: a lock that becomes free goes to the first to poll.
    decision_time: seconds within which an acquire that DynamoDB does not answer gives up, 0.25 to 60. An acquire that
        waits tries again until its wait is over. A claim without an answer is released within as long again. The
        timeouts of a ``boto3_client`` come on top.
    heartbeat_rate: the most renewals per second, above 0, for all locks of this client together. None: no limit.
    observation_cache_size: how many rows of other holders the client remembers while it waits for them, 1 or more.
    region_name, endpoint_url, boto3_client, boto3_session, transport: how requests are sent. None: as the environment
        says.
    clock: an object with monotonic(), boottime(), wall() and sleep(seconds), for tests. None: the system's clocks.
    logger: None: ``logging.getLogger("lambda_lock")``.
    hooks: objects with any of the methods on_granted(lock), on_lost(lock), on_released(lock), on_not_granted(error),
        on_duplicate(error) and on_rate_limited(error). They are called in the order of the events, on a daemon thread.
        No lock waits for a hook or fails because of one: what a hook raises is logged.

    Raises LockArgumentError or TypeError for bad input. Errors about the table, the Region and the credentials are
    raised at the first use.
    """

    def __init__(
        self,
        table: str | None = None,
        *,
        lease_duration: float = 20.0,
        heartbeat_period: float | None = None,
        refresh_period: float = 1.0,
        safe_time: float | None = None,
        owner_prefix: str | None = None,
        ttl: int | None = 86_400,
        partition_key_name: str | None = None,
        sort_key_name: str | None = None,
        schema: Schema = JAVA,
        hold_on_unavailable: bool = False,
        queue: bool = True,
        decision_time: float = protocol.DECISION,
        heartbeat_rate: float | None = None,
        observation_cache_size: int = 10_000,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        boto3_client: Any = None,
        boto3_session: Any = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        logger: logging.Logger | None = None,
        hooks: Iterable[object] = (),
    ) -> None:
        self.table = None if table is None else checks.table_name(table)
        self.lease_duration = checks.lease_duration(lease_duration)
        self.heartbeat_period = checks.heartbeat_period(heartbeat_period, self.lease_duration)
        self.refresh_period = checks.refresh_period(refresh_period)
        self.safe_time = checks.safe_time(safe_time, self.lease_duration)
        self.owner_prefix = None if owner_prefix is None else checks.key_text("owner_prefix", owner_prefix, 512)
        self.ttl = None if ttl is None else checks.whole("ttl", ttl, least=0)
        self.schema = checks.schema(schema)
        self.partition_key_name = checks.key_name("partition_key_name", partition_key_name, self.schema)
        self.sort_key_name = checks.key_name("sort_key_name", sort_key_name, self.schema)
        self.hold_on_unavailable = hold_on_unavailable
        self.decision_time = checks.seconds("decision_time", decision_time, least=0.25, most=60.0)
        self.queue = queue
        self.heartbeat_rate = checks.rate("heartbeat_rate", heartbeat_rate)
        self.observation_cache_size = checks.whole("observation_cache_size", observation_cache_size, least=1)
        self.region_name = region_name
        self.endpoint_url = endpoint_url
        self.boto3_client = boto3_client
        self.boto3_session = boto3_session
        self.transport = checks.transport(transport)
        self.clock = checks.having("clock", clock, "monotonic()", "one such as lambda_lock.testing.ManualClock()")
        self.logger = checks.having("logger", logger, "isEnabledFor(level)", "logging.getLogger(name)")
        self.hooks = hooks

    def names(self) -> tuple[str, str, str | None]:
        """The names of the table, its partition key and its sort key.

        An argument takes precedence over the environment, and the environment over the schema. With ``table``, the
        environment does not count.
        """
        table, partition, sort = self.table, self.partition_key_name, self.sort_key_name
        if table is None:
            variables = os.environ
            table = variables.get(TABLE_VARIABLE, "")
            if not table:
                raise LockConfigurationError(
                    f"no lock table is configured: write LockClient(table), or set {TABLE_VARIABLE} (LockTable.connect "
                    "does)"
                )
            checks.table_name(table)
            if not partition and (named := variables.get(PARTITION_KEY_VARIABLE)):
                partition = checks.key_name(PARTITION_KEY_VARIABLE, named, self.schema)
            if not sort and (named := variables.get(SORT_KEY_VARIABLE)):
                sort = checks.key_name(SORT_KEY_VARIABLE, named, self.schema)
        return table, partition or self.schema.partition_key, sort or self.schema.sort_key

    def place(self, key: str, sort_key: str | None, *, reads: bool = False) -> Place:
        """Where the row of a lock is. Raises LockArgumentError or TypeError for keys that a lock cannot have.

        reads: whether nothing is written, so that the row may be one of sleepers.
        """
        (checks.key_text if reads else checks.lock_key)("key", key)
        table, partition_key_name, sort_key_name = self.names()
        if sort_key is not None and sort_key_name is None:
            raise LockArgumentError(
                f"sort_key={sort_key!r} was passed, but the client has no sort_key_name: pass it the table's", key=key
            )
        if sort_key_name is not None:
            sort_key = self.schema.sort_key_value if sort_key is None else sort_key
            if sort_key is None:
                raise LockArgumentError(
                    f"the table has the sort key {sort_key_name!r}: pass sort_key= for lock {key!r}", key=key
                )
            checks.key_text("sort_key", sort_key, checks.SORT_KEY_LIMIT)
        return Place(table, self.schema, partition_key_name, key, sort_key_name, sort_key)
