"""`in_memory`: while it is active, a Memory takes the place of every client's transport.

A test also reads and changes the tables by its Memory. At the end of the block, everything that was learned from a
Memory is forgotten. Clients forget its time and the holders that they saw there. The locks that it granted are left to
their lease, so that nothing asks AWS to renew or release them.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import threading
import weakref
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ..client import checks, session
from ..client.listing import Pages
from ..client.options import content_of
from ..client.settings import TABLE_VARIABLE, Settings
from ..core import lease
from ..core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled
from ..core.permits import entries_of, write_entry
from ..core.protocol import Hold
from ..core.requests import Grant, bare_name, claim
from ..core.row import SEAL, WEIGHED, make_version, read_row
from ..core.schema import JAVA
from ..decorators.guard import remember_default_clients
from ..errors import LockArgumentError, TransportError
from ..runtime.timeline import SystemClock
from .table import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from ..client.record import LockRecord
    from ..client.session import Session
    from ..core.outcome import Item
    from ..core.requests import Place, Request
    from ..core.row import Row
    from ..core.schema import Schema
    from ..runtime.timeline import Clock
    from ..transport import Transport

    F = TypeVar("F", bound=Callable[..., Any])
    #: The name of a table's partition key, or the names of its partition and sort key.
    KeyNames: TypeAlias = str | Sequence[str]

Failure: TypeAlias = Literal["throttled", "denied", "unreachable", "lost_reply"]
_OPERATIONS = ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "Scan", "Query")
_ACCOUNT = "123456789012"
_TABLE = "locks"  # where the environment names none

_active_guard = threading.RLock()
_active: list[InMemory] = []


class Memory:
    """A DynamoDB in memory with a clock of its own. It may be used from any thread: each request is one step.

        with in_memory() as memory:
            memory.hold("report", owner="somebody else")
            assert LockClient().try_acquire("report") is None

    In all methods, ``table=None`` is the table named by LAMBDA_LOCK_TABLE, as it is for clients.
    """

    name = "memory"
    reason = "in_memory() is active"

    def __init__(self, tables: Mapping[str, tuple[str, ...]], clock: Clock, schema: Schema) -> None:
        self.clock = clock
        self._schema = schema
        self._database = Database(tables)
        self._guards = (os.getpid(), threading.Lock())
        self._requests: list[str] = []
        #: What `fail` asked for: the error, the operation (None: any), and how many are left (None: no end).
        self._failing: list[tuple[str, str | None, int | None]] = []

    # -- for tests --------------------------------------------------------------------------------------------------

    def hold(
        self,
        key: str,
        *,
        owner: str = "somebody else",
        lease_duration: float = 20.0,
        data: bytes | None = None,
        sort_key: str | None = None,
        table: str | None = None,
    ) -> None:
        """Let ``owner`` hold the lock ``key`` from now on. A previous holder has lost the lock.

        key: the lock's key. A key of @deduplicate is stored under its scope: `rows` shows the whole key.
        owner: the name of the holder.
        lease_duration: seconds, 1 or more. The lease is not renewed, so the lock can be taken over when it is over, as
            from any holder that died.
        data: bytes to store with the lock; None: keep the data that is there.
        sort_key: the lock's sort key, if the table has one.
        table: the table's name or ARN.

        Raises LockArgumentError or TypeError for bad input.

        Example: ``memory.hold("order#7", lease_duration=60)``
        """
        settings, place = self._found(key, sort_key, table)
        checks.key_text("owner", owner)
        lease_ms = place.schema.round_lease(int(checks.lease_duration(lease_duration) * 1000))
        content = content_of(place, settings.ttl, data)
        with self._guard:
            now = self.clock.wall()
            expiry_ms = lease.expiry_ms(now, lease_ms)
            grant = Grant(owner, _version(expiry_ms), lease_ms, expiry_ms, int(now * 1000))
            row = self._row(place)
            if row is not None and row.version in (SEAL, WEIGHED):
                raise LockArgumentError(
                    f"key={key!r} is a semaphore in table {place.table!r}. Hold its permits with another LockClient, "
                    "by acquire with permits=",
                    key=key,
                )
            self._apply(claim(place, grant, content, observed=None if row is None else row.version))

    def expire(self, key: str, *, sort_key: str | None = None, table: str | None = None) -> None:
        """End the lease of the lock ``key``, as if its holder had died. The next acquire takes the lock over at once.

        For a semaphore, end the leases of all its holders.

        key: the lock's key.
        sort_key: the lock's sort key, if the table has one.
        table: the table's name or ARN.

        A holder that is alive in this process notices it as with DynamoDB: by the first request that is refused.
        Raises LockArgumentError if the lock is not held, and LockArgumentError or TypeError for bad input.

        Example: ``memory.expire("order#7")``
        """
        _, place = self._found(key, sort_key, table)
        with self._guard:
            row, now_ms = self._row(place), int(self.clock.wall()) * 1000
            if row is None or (row.is_free and row.version not in (SEAL, WEIGHED)):
                raise LockArgumentError(
                    f"key={key!r} is not held in table {place.table!r}. Call hold() first, or pass the key and the "
                    "table of a lock that is held (rows() lists the locks)",
                    key=key,
                )
            changed: dict[str | None, Any] = {place.schema.version: {"S": _version(now_ms)}}
            if row.version in (SEAL, WEIGHED):
                ended = {
                    nonce: write_entry(_version(now_ms), entry.lease_ms, entry.prefix)
                    for nonce, entry in entries_of(row.item, place.schema).items()
                    if entry is not None
                }
                changed = {place.schema.permits: {"M": ended}}
            self._apply(("PutItem", {"TableName": place.table, "Item": {**row.item, **changed}}))

    def rows(self, table: str | None = None) -> tuple[LockRecord, ...]:
        """The rows of a lock table as `LockClient.list` returns them, held or not, the oldest first.

        table: the table's name or ARN.

        Example: ``assert all(row.is_released for row in memory.rows())``
        """
        found, names = self._settings(table).names()[0], self._key_names(table)
        if names is None:
            return ()
        pages = Pages(found, self._schema, *names, None)
        with self._guard:
            return tuple(pages.records(Reply(self._apply(("Scan", {"TableName": found})), int(self.clock.wall()))))

    def items(self, table: str) -> tuple[Item, ...]:
        """Copies of all items of a table in DynamoDB's JSON, in which binary values are base64 text.

        table: the table's name or ARN.

        Example: ``assert memory.items("orders") == ({"order_id": {"S": "1"}},)``
        """
        with self._guard:
            found = self._database.find(table)
            return () if found is None else tuple(copy.deepcopy(found.items()))

    def put(self, table: str, item: Mapping[str, Any]) -> None:
        """Write an item of the application to a table, for example to set up a test.

        table: the table's name or ARN.
        item: the item as boto3's low-level client takes it: ``{"order_id": {"S": "1"}, "paid": {"BOOL": True}}``.

        Raises LockArgumentError for a table that in_memory(tables=…) does not declare.

        Example: ``memory.put("orders", {"order_id": {"S": "1"}})``
        """
        with self._guard:
            self._apply(("PutItem", {"TableName": table, "Item": checks.on_the_wire(item)}))

    def lose_reply(self, times: int = 1) -> None:
        """Carry out the next requests but lose their replies, as ``fail("lost_reply", times=times)``.

        times: the number of requests, a whole number of 1 or more.

        Raises LockArgumentError or TypeError for bad input.

        Example: ``memory.lose_reply()``
        """
        self.fail("lost_reply", times=times)

    def fail(self, error: Failure, *, operation: str | None = None, times: int | None = 1) -> None:
        """Let the next requests fail.

        error: "throttled": refused for now, and sent again by clients. "denied": the permission is missing.
            "unreachable": nothing can be sent. "lost_reply": carried out, but no reply comes.
        operation: only requests of this operation, such as "UpdateItem" or "TransactWriteItems". None: any.
        times: the number of requests, a whole number of 1 or more. None: all from now on.

        Failures that are asked for several times add up: each request gets the first that fits it. Clients try again
        for up to 5 s of their clock.

        Raises LockArgumentError or TypeError for bad input.

        Example: ``memory.fail("throttled", operation="UpdateItem", times=3)``
        """
        if error not in get_args(Failure):
            known = ", ".join(map(repr, get_args(Failure)))
            raise LockArgumentError(f"error={error!r} is not a failure: pass one of {known}")
        if operation is not None and operation not in _OPERATIONS:
            raise LockArgumentError(
                f"operation={operation!r} is never sent: pass one of {', '.join(_OPERATIONS)}, or None for any"
            )
        if times is not None:
            checks.whole("times", times, least=1)
        with self._guard:
            self._failing.append((error, operation, times))

    @property
    def requests(self) -> tuple[str, ...]:
        """The names of the operations that clients have sent so far, such as "UpdateItem", failed ones too.

        Example: ``assert memory.requests == ("UpdateItem", "UpdateItem")``
        """
        return tuple(self._requests)

    # -- for clients ------------------------------------------------------------------------------------------------

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        """Transport.send. Raises NotImplementedError for requests that the tables cannot evaluate: it never guesses."""
        if not self._guard.acquire(timeout=timeout):  # held by the code that a signal handler interrupted
            raise TransportError(
                False, "nothing was sent: the in-memory table was in use by other code until the timeout"
            )
        try:
            failure = ""
            for at, (error, asked, times) in enumerate(self._failing):
                if asked in (None, operation):
                    failure = error
                    self._failing[at : at + 1] = [] if times == 1 else [(error, asked, times and times - 1)]
                    break
            if failure == "unreachable":
                raise TransportError(
                    False, 'nothing was sent: DynamoDB cannot be reached, as fail("unreachable") asked for'
                )
            self._requests.append(operation)
            date, lost = int(self.clock.wall()), failure == "lost_reply"
            if failure == "throttled":
                raise ServiceError("ThrottlingException", "Rate exceeded", True, date)
            if failure == "denied":
                action, table = operation, request.get("TableName")
                if operation == "TransactWriteItems":  # DynamoDB asks for one permission of each write
                    ((write, inner),) = request["TransactItems"][0].items()
                    action, table = f"{write}Item", inner["TableName"]
                message = (
                    f"User: arn:aws:sts::{_ACCOUNT}:assumed-role/role/function is not authorized to perform: "
                    f"dynamodb:{action} on resource: "
                    f"arn:aws:dynamodb:us-east-1:{_ACCOUNT}:table/{bare_name(str(table))}"
                )
                raise ServiceError("AccessDeniedException", message, False, date)
            try:
                reply = Reply(self._apply((operation, request)), date)
            except (ConditionFailed, TransactionCanceled, ServiceError) as refused:
                refused.date = date
                if not lost:
                    raise
        finally:
            self._guard.release()
        if lost:
            raise TransportError(True, "the request was carried out, but its reply was lost, as the test asked for")
        return reply

    # -- parts ------------------------------------------------------------------------------------------------------

    @property
    def _guard(self) -> threading.Lock:
        if self._guards[0] != os.getpid():  # a forked child: a thread of the parent may have held the lock
            self._guards = (os.getpid(), threading.Lock())
        return self._guards[1]

    def _apply(self, request: Request) -> dict[str, Any] | None:
        return self._database.apply(*request, self.clock.monotonic())

    def _settings(self, table: str | None) -> Settings:
        """The settings of a client for this table. They know the rules for names and keys."""
        partition, sort = self._key_names(table) or (None, None)
        return Settings(table, schema=self._schema, partition_key_name=partition, sort_key_name=sort)

    def _found(self, key: str, sort_key: str | None, table: str | None) -> tuple[Settings, Place]:
        settings = self._settings(table)
        name, _, sort_key_name = settings.names()
        if sort_key is not None and sort_key_name is None:
            raise LockArgumentError(
                f"sort_key={sort_key!r}: the name of the sort key of table {name!r} is not known. Declare the table "
                f'with in_memory(tables={{{name!r}: ("key", "sort")}}), giving the names of its keys'
            )
        return settings, settings.place(key, sort_key)

    def _key_names(self, table: str | None) -> tuple[str, str | None] | None:
        """The names of a table's partition and sort key. None if there is no such table yet."""
        name = os.environ.get(TABLE_VARIABLE, "") if table is None else checks.table_name(table)
        found = self._database.find(name)
        if found is None:
            return None
        partition, *sort = found.key_names
        return partition, sort[0] if sort else None

    def _row(self, place: Place) -> Row | None:
        item = self._apply(("GetItem", {"TableName": place.table, "Key": place.item_key}))
        return read_row(item, place.schema, place.key)


def _version(expiry_ms: int) -> str:
    return make_version(expiry_ms, os.urandom(16).hex())


def in_memory(
    *, tables: Mapping[str, KeyNames] | None = None, clock: Clock | None = None, schema: Schema = JAVA
) -> InMemory:
    """A DynamoDB in memory for all clients of this process, while the ``with`` block runs.

    It answers every request of every client: default and explicit, sync and async, with any transport, made before the
    block or inside. It acts when a request is sent, so handlers need no change. LAMBDA_LOCK_TABLE is "locks" meanwhile
    if it was not set. A Region and credentials are not needed. All threads share the memory. If blocks are nested, the
    innermost acts. It does not see what clients do not send (create_table, your own boto3).

    tables: the application's tables, for `commit` and `transact_item`: for each the name of its partition key, or the
        names of both keys, ``{"orders": "order_id", "lines": ("order_id", "line")}``. Lock tables need not be named.
        They are created when they are first used.
    clock: where the Dates of its answers come from (whole seconds, like DynamoDB's). None: the machine's clock. Pass
        your clients the same ManualClock.
    schema: the schema of your clients, in which hold, expire and rows write and read.

    ``as`` gives a Memory: hold, expire, rows, items, put, fail, lose_reply, requests, clock. A block is entered once.
    As a decorator of a plain or async function it gives each call a new memory. Decorating a generator is a TypeError.

    At the end everything is undone, also after an error: the environment, the default client (set_default_client), and
    what clients learned. Locks that are still held are left as if their lease had ended, without a request.

    Raises LockArgumentError or TypeError for bad input.

    Example::

        with in_memory() as memory:
            memory.hold("order#7")
            assert handler({"id": 7}, lambda_context()) is None
    """
    return InMemory(tables, clock, schema)


class InMemory(ContextDecorator):
    """The result of `in_memory`. Enter it with ``with``, or decorate a function with it."""

    def __init__(self, tables: Mapping[str, KeyNames] | None, clock: Clock | None, schema: Schema) -> None:
        self._arguments = (tables, clock, schema)
        for method in ("monotonic()", "wall()"):
            checks.having("clock", clock, method, "a ManualClock")
        checks.having("tables", tables, "items()", 'a dict, as in {"orders": "order_id"}')
        declared: dict[str, tuple[str, ...]] = {}
        for table, keys in (tables or {}).items():
            names = (keys,) if isinstance(keys, str) else tuple(keys)
            if not 1 <= len(names) <= 2:
                raise LockArgumentError(
                    f"tables: {table!r} has {keys!r}: pass the name of its partition key, or of both keys"
                )
            declared[checks.table_name(table)] = tuple(
                checks.attribute_name(f"a key of tables[{table!r}]", name) for name in names
            )
        self.memory = Memory(declared, SystemClock() if clock is None else clock, checks.schema(schema))
        self._entered = False
        self._table: str | None = None
        self._restore_defaults: Callable[[], None]  # set on entering the block
        # The sessions that sent to the memory, each with the locks that it held before.
        self._sessions: weakref.WeakKeyDictionary[Session, frozenset[Hold]] = weakref.WeakKeyDictionary()

    def __enter__(self) -> Memory:
        with _active_guard:
            if self._entered:
                raise RuntimeError("this in_memory() was entered before: make a new one for each block")
            self._entered = True
            self._table = os.environ.get(TABLE_VARIABLE)
            if not self._table:
                os.environ[TABLE_VARIABLE] = _TABLE
            self._restore_defaults = remember_default_clients()
            _active.append(self)
            session.stand_in(_transport)
        return self.memory

    def __exit__(self, *_: object) -> None:
        with _active_guard:
            for learned, before in list(self._sessions.items()):
                learned.forget_since(before)
            _active.remove(self)
            if not _active:
                session.stand_in(None)
            self._restore_defaults()
            if self._table is None:
                os.environ.pop(TABLE_VARIABLE, None)
            else:
                os.environ[TABLE_VARIABLE] = self._table

    def __call__(self, func: F) -> F:
        if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise TypeError(
                f"in_memory() cannot decorate the generator {func.__name__}(): use `with in_memory():` in it"
            )
        if not inspect.iscoroutinefunction(func):
            return super().__call__(func)

        @functools.wraps(func)
        async def inside(*args: Any, **kwargs: Any) -> Any:
            with self._recreate_cm():
                return await func(*args, **kwargs)

        return inside  # type: ignore[return-value]

    def _recreate_cm(self) -> InMemory:
        """For ContextDecorator: a new one for each call."""
        return InMemory(*self._arguments)

    def serve(self, session: Session) -> Transport:
        """The transport of a session. Notes the session, which forgets at the end of the block."""
        if session not in self._sessions:
            self._sessions[session] = session.open_locks.holds()
        return self.memory


def _transport(session: Session) -> Transport | None:
    """The transport of ``session``: the innermost in_memory(). None: the last one ended a moment ago."""
    with _active_guard:
        return _active[-1].serve(session) if _active else None
