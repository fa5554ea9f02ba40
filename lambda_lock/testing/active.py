"""`in_memory`: while it is active, a Memory takes the place of every client's transport.

At its end this is undone by one rule: everything that was learned from a Memory is forgotten. Clients forget its time
and the holders that they saw there. The locks that it granted are left to their lease, so that nothing asks AWS to
renew or release them.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import weakref
from contextlib import ContextDecorator
from typing import TYPE_CHECKING

from ..client import checks, session
from ..client.settings import TABLE_VARIABLE
from ..core.protocol import Hold
from ..core.schema import JAVA
from ..decorators.environment import remember_default_clients
from ..errors import LockArgumentError
from ..runtime.timeline import SystemClock
from .memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    from ..client.session import Session
    from ..core.schema import Schema
    from ..runtime.timeline import Clock
    from ..transport import Transport

    F = TypeVar("F", bound=Callable[..., Any])
    #: The name of a table's partition key, or the names of its partition and sort key.
    KeyNames: TypeAlias = str | Sequence[str]

_TABLE = "locks"  # where the environment names none

_guard = threading.RLock()
_active: list[InMemory] = []


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
        self._restore_defaults: Callable[[], None]  # since the block was entered
        # Who sent to it, and the locks that they held before.
        self._sessions: weakref.WeakKeyDictionary[Session, frozenset[Hold]] = weakref.WeakKeyDictionary()

    def __enter__(self) -> Memory:
        with _guard:
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
        with _guard:
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
        """The transport of a session, which is noted as one that learns from it."""
        self._sessions.setdefault(session, session.open_locks.holds())
        return self.memory


def _transport(session: Session) -> Transport | None:
    """The transport of ``session`` while any is active. None: the last one has ended a moment ago."""
    with _guard:
        return _active[-1].serve(session) if _active else None
