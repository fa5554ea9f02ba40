"""The client: takes locks, reads them, and gives them all back when it is closed."""

from __future__ import annotations

import os
import sys
import threading
import weakref

from . import checks, invocation
from .core import lease, protocol
from .core.outcome import ServiceError
from .core.requests import Content, Place, encode_data
from .core.row import JAVA
from .errors import (
    ClientClosedError,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockConfigurationError,
    LockError,
    LockNotGrantedError,
    TransportError,
)
from .lock import Lock
from .log import logger as package_logger
from .timeline import SYSTEM, Timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any, Self, TypeVar

    from .core.lease import Look
    from .core.protocol import Steps
    from .core.row import Schema
    from .invocation import Invocation
    from .lock import Callback
    from .record import LockRecord
    from .timeline import Clock
    from .transport import BotoTransport, HttpsTransport, Transport

    T = TypeVar("T")

TABLE_VARIABLE = "LAMBDA_LOCK_TABLE"
PARTITION_KEY_VARIABLE = "LAMBDA_LOCK_PARTITION_KEY"
SORT_KEY_VARIABLE = "LAMBDA_LOCK_SORT_KEY"

_EXTRA_WAIT = 5.0  # seconds over the lease: enough to outlive a dead holder of the same lease


class LockClient:
    """Locks in one DynamoDB table. Safe for threads; building one does no I/O and needs no credentials yet.

    table: name or ARN; None: LAMBDA_LOCK_TABLE at the first use, with LAMBDA_LOCK_PARTITION_KEY and
        LAMBDA_LOCK_SORT_KEY.
    lease_duration: seconds, 1 or more: how long a lock outlives a holder that died; never past the invocation's end.
    heartbeat_period: seconds, at most half of the lease; None: planned from validity, 0: none.
    refresh_period: seconds, the longest pause between two polls of a waiting acquire.
    safe_time: seconds before the end of validity at which ``on_danger`` is called; None: no such signal.
    owner_prefix: what owners begin with; None: function name and request id, or host and pid.
    ttl: seconds that rows are kept after their last use (time to live on the attribute ``ttl``); None: for ever. Give
        None where the Java or Go client shares the table: they carry a stale one along.
    partition_key_name, sort_key_name: the table's keys; None: the schema's ("key" and no sort key).
    schema: JAVA, GO or PYTHON: who else shares the table.
    observation_cache_size: of how many other holders the client remembers since when they stand still.
    region_name, endpoint_url, boto3_client, boto3_session, transport: how requests are sent; None: as the environment
        says.
    clock: an object with monotonic(), boottime(), wall() and sleep(seconds), for tests.
    logger: None: ``logging.getLogger("lambda_lock")``.

    Raises LockArgumentError or TypeError for bad input; what concerns table, Region and credentials at the first use.
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
        observation_cache_size: int = 10_000,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        boto3_client: Any = None,
        boto3_session: Any = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._table = None if table is None else checks.table_name(table)
        self._lease = checks.lease_duration(lease_duration)
        self._heartbeat_period = checks.heartbeat_period(heartbeat_period, self._lease)
        self._refresh_period = checks.refresh_period(refresh_period)
        self._safe_time = checks.safe_time(safe_time, self._lease)
        self._owner_prefix = None if owner_prefix is None else checks.key_text("owner_prefix", owner_prefix, 512)
        self._ttl = None if ttl is None else checks.whole("ttl", ttl, least=0)
        self._partition_key_name = checks.key_name("partition_key_name", partition_key_name)
        self._sort_key_name = checks.key_name("sort_key_name", sort_key_name)
        self._schema = checks.schema(schema)
        self._region_name = region_name
        self._endpoint_url = endpoint_url
        self._boto3_client = boto3_client
        self._boto3_session = boto3_session
        self._given_transport = None if transport is None else checks.transport(transport)
        self._timeline = SYSTEM if clock is None else Timeline(clock)
        self._log = logger or package_logger
        self._memory = protocol.Memory(checks.whole("observation_cache_size", observation_cache_size, least=1))
        self._chance = protocol.Chance(_nonce, _jitter)
        self._locks: weakref.WeakValueDictionary[str, Lock] = weakref.WeakValueDictionary()  # by owner
        self._chosen: HttpsTransport | BotoTransport | None = None
        self._choosing = threading.Lock()
        self._closed = threading.Event()

    # -- locks ------------------------------------------------------------------------------------------------------

    def acquire(
        self,
        key: str,
        *,
        wait: float | None = None,
        reserve: float | None = None,
        data: bytes | None = None,
        replace_data: bool = True,
        attributes: Mapping[str, Any] | None = None,
        sort_key: str | None = None,
        lease_duration: float | None = None,
        refresh_period: float | None = None,
        delete_on_release: bool = False,
        only_if_exists: bool = False,
        reentrant: bool = False,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        context: object = None,
    ) -> Lock:
        """Take the lock ``key``, waiting for it where somebody else holds it.

        wait: seconds; None: the invocation's time left less ``reserve`` (outside Lambda the lease + 5 s), 0: one
        decision, inf: for ever. reserve: seconds that the work needs after the grant; None: a quarter of the time
        left, at least 1 s. data: bytes stored with the lock; None leaves what is stored, b"" empties it; with
        ``replace_data=False`` only where none is stored. attributes: plain Python values stored as columns. sort_key:
        where the table has one. lease_duration, refresh_period, safe_time: as for the client. delete_on_release: the
        row goes (tokens then do not go on rising). only_if_exists: only where a row exists. reentrant: count up where
        the same thread or task holds it already. on_danger, on_lost: called with the Lock on a thread of their own.
        context: the Lambda context, for its remaining time; None: found where a decorator or
        `register_lambda_context` left it.

        Returns the Lock. Raises LockNotGrantedError at once where ``wait=0`` finds it held or where less than a second
        is left, LockTimeoutError where a wait ran out, LockFormatError for a held row that cannot be read,
        LockConfigurationError (table, keys, Region, credentials, permission), TransportError where DynamoDB did not
        answer, ClientClosedError, and LockArgumentError or TypeError for bad input. After an error nothing stays held.
        """
        place = self._place(key, sort_key)
        duration, poll, safe = self._terms(lease_duration, refresh_period, safe_time)
        if on_danger is not None and safe is None:
            raise LockArgumentError(
                f"on_danger would never be called for lock {key!r}: give safe_time= as well", key=key
            )
        content = self._content(place, data, replace_data, attributes)
        checks.optional_seconds("wait", wait, endless=True)
        checks.optional_seconds("reserve", reserve)
        checks.callback("on_danger", on_danger)
        checks.callback("on_lost", on_lost)
        self._check_open()
        line = _line_of_execution()
        if reentrant and (held := self._held_by(place, line)) is not None:
            held._entered += 1
            return held

        found = invocation.find((), {}, context)
        left = None if found is None else found.remaining()
        _check_may_run(place, found, left)
        now = self._timeline.elapsed()
        patience = _patience(wait, reserve, left, duration)
        wish = protocol.Wish(
            place,
            f"{self._owner_prefix or invocation.owner_prefix(found)}#{_nonce()}",
            place.schema.round_lease(int(duration * 1000)),
            content,
            lease_end=None if left is None else now + left,
            wait_until=now + patience,
            patient=patience > 0,
            refresh_period=poll,
            delete_on_release=delete_on_release or place.schema.released is None,
            only_if_exists=only_if_exists,
        )
        return self._take(
            wish,
            heartbeat_period=self._heartbeat_period,
            safe_time=safe,
            on_danger=on_danger,
            on_lost=on_lost,
            line=line,
        )

    def try_acquire(self, key: str, *, wait: float = 0, **options: Any) -> Lock | None:
        """`acquire` in one decision (``wait=0``), or within ``wait`` seconds; None where somebody else holds the lock.

        Takes what acquire takes and raises what it raises, but for contention.
        """
        try:
            return self.acquire(key, wait=wait, **options)
        except LockNotGrantedError as error:
            if error.too_late:
                raise
            return None

    def get(self, key: str, *, sort_key: str | None = None) -> LockRecord | None:
        """Read a lock without taking it: one consistent read. None where the table has no such row.

        Raises what `acquire` raises about table, keys, Region, credentials, permission and transport.
        """
        from .record import LockRecord

        place = self._place(key, sort_key)
        self._check_open()
        row, date = self._run(lambda look: protocol.read(place, self._memory, self._chance, look), place)
        return None if row is None else LockRecord(row, place, date)

    def held(self) -> tuple[Lock, ...]:
        """The locks of this client that are held now, in this process."""
        return tuple(lock for lock in list(self._locks.values()) if lock.is_held)

    def close(self, *, release: bool = True) -> None:
        """End the client: waiting acquires raise ClientClosedError, held locks are released (or left to their lease).

        A release that fails is logged; the others are released all the same. Closing twice does nothing.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        for lock in self.held():
            if not release:
                lock._abandon()
                continue
            lock._entered = 1
            try:
                lock.release(best_effort=True)
            except LockAlreadyReleasedError:
                continue  # by its holder, a moment ago
        with self._choosing:
            if self._chosen is not None:
                self._chosen.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def transport(self) -> Transport:
        """How requests are sent; its ``name`` and ``reason`` say which was chosen and why.

        Raises LockConfigurationError where none can be: no Region, no credentials, or boto3 needed and absent.
        """
        if self._given_transport is not None:
            return self._given_transport
        if self._chosen is not None:
            return self._chosen
        with self._choosing:
            if self._chosen is None:
                from .transport import choose

                self._chosen = choose(
                    region_name=self._region_name,
                    endpoint_url=self._endpoint_url,
                    boto3_client=self._boto3_client,
                    boto3_session=self._boto3_session,
                    now=lambda: self._memory.server.now(self._timeline.look()),
                    logger=self._log,
                )
            return self._chosen

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _take(self, wish: protocol.Wish, **handle: Any) -> Lock:
        """Acquire, and make the Lock with what ``handle`` says of it."""
        hold: protocol.Hold | None = None
        try:
            hold = self._run(
                lambda look: protocol.acquire(wish, self._memory, self._chance, look), wish.place, self._sleep_open
            )
            lock = Lock(self, hold, **handle)
            self._locks[lock.owner] = lock
            self._check_open()  # either close() finds the lock among those held, or we find the client closed
        except LockNotGrantedError as error:
            self._log.info("%s", error, extra={"lock_event": "not_granted", "lock_key": wish.place.key})
            raise
        except BaseException:
            if hold is not None:
                self._give_back(hold)
            raise
        return lock

    def _run(self, steps: Callable[[Look], Steps[T]], place: Place, sleep: Callable[[float], None] | None = None) -> T:
        from .drive import drive

        transport, timeline = self.transport, self._timeline
        try:
            return drive(steps(timeline.look()), transport, timeline, sleep or timeline.clock.sleep)
        except ServiceError as error:
            from .explain import explain

            raise explain(error, place) from error
        except TransportError as error:
            error.key = place.key
            raise

    def _sleep_open(self, seconds: float) -> None:
        """Sleep as a waiting acquire does: woken, with an error, when the client is closed."""
        if self._timeline is SYSTEM:
            self._closed.wait(seconds)
        else:
            self._timeline.clock.sleep(seconds)
        self._check_open()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise ClientClosedError("this LockClient was closed: build a new one")

    def _place(self, key: str, sort_key: str | None) -> Place:
        checks.key_text("key", key)
        table, partition_key_name, sort_key_name = self._names()
        if sort_key is not None and sort_key_name is None:
            raise LockArgumentError(
                f"sort_key={sort_key!r} was given, but the client has no sort_key_name: give it the table's", key=key
            )
        if sort_key_name is not None:
            sort_key = self._schema.sort_key_value if sort_key is None else sort_key
            if sort_key is None:
                raise LockArgumentError(
                    f"the table has the sort key {sort_key_name!r}: give sort_key= for lock {key!r}", key=key
                )
            checks.key_text("sort_key", sort_key, checks.SORT_KEY_LIMIT)
        return Place(table, self._schema, partition_key_name, key, sort_key_name, sort_key)

    def _names(self) -> tuple[str, str, str | None]:
        """Table and key names: an argument beats the environment, the environment the schema."""
        table, partition, sort = self._table, self._partition_key_name, self._sort_key_name
        if table is None:
            variables = os.environ
            table = variables.get(TABLE_VARIABLE, "")
            if not table:
                raise LockConfigurationError(
                    f"no lock table: give LockClient(table), or set {TABLE_VARIABLE} (LockTable.connect does)"
                )
            checks.table_name(table)
            partition = partition or variables.get(PARTITION_KEY_VARIABLE)
            sort = sort or variables.get(SORT_KEY_VARIABLE)
        return table, partition or self._schema.partition_key, sort or self._schema.sort_key

    def _terms(
        self, lease_duration: float | None, refresh_period: float | None, safe_time: float | None
    ) -> tuple[float, float, float | None]:
        """Lease, poll and safe time of one acquire, checked: its own or the client's."""
        duration = self._lease if lease_duration is None else checks.lease_duration(lease_duration)
        checks.heartbeat_period(self._heartbeat_period, duration)
        poll = self._refresh_period if refresh_period is None else checks.refresh_period(refresh_period)
        return duration, poll, checks.safe_time(self._safe_time if safe_time is None else safe_time, duration)

    def _content(
        self, place: Place, data: bytes | None, replace_data: bool, attributes: Mapping[str, Any] | None
    ) -> Content:
        checks.data(data)
        encoded = None if data is None else encode_data(data)
        columns = checks.attributes(attributes, place.schema, place.key_names)
        if encoded is not None or columns:
            stored = {**place.item_key, **columns, place.schema.data: {"B": encoded or ""}}
            checks.size(stored, place.key)
        return Content(encoded, replace_data, columns, self._ttl)

    def _held_by(self, place: Place, line: object) -> Lock | None:
        for lock in self.held():
            if lock._hold.place.where == place.where and lock._line == line:
                return lock
        return None

    def _give_back(self, hold: protocol.Hold) -> None:
        """Interrupted, or closed, between the grant and the return: nobody will ever release this lock."""
        try:
            self._run(lambda look: protocol.release(hold, self._memory, self._chance, look), hold.place)
        except LockError as error:
            self._log.warning(
                "lock %r was not released, its lease ends by itself: %s",
                hold.place.key,
                error,
                extra={"lock_event": "release_failed", "lock_key": hold.place.key},
            )

    def _forget(self, lock: Lock) -> None:
        self._locks.pop(lock.owner, None)


def _patience(wait: float | None, reserve: float | None, left: float | None, lease_duration: float) -> float:
    """How long to wait, seconds: never into the time that the work needs after the grant."""
    if left is None:
        return lease_duration + _EXTRA_WAIT if wait is None else wait
    if reserve is None:
        reserve = max(1.0, left / 4)
    most = max(left - reserve, 0.0)
    return most if wait is None else min(wait, most)


def _check_may_run(place: Place, found: Invocation | None, left: float | None) -> None:
    if found is None and invocation.snapstart_initializing():
        raise LockConfigurationError(
            f"lock {place.key!r} was asked for while a SnapStart function initialises: its memory will be copied, and "
            "the lock with it. Acquire it in the handler",
            key=place.key,
        )
    if left is not None and left < lease.MIN_LEASE:
        raise protocol.too_late(place.key, int(left * 1000))


def _line_of_execution() -> tuple[object, object]:
    """This thread, and this task where asyncio runs one: what a re-entrant lock may be entered by again."""
    asyncio = sys.modules.get("asyncio")
    task = None
    if asyncio is not None and asyncio._get_running_loop() is not None:
        task = asyncio.current_task()
    return threading.current_thread(), task  # not its number, which is given out again once a thread has ended


def _nonce() -> str:
    return os.urandom(16).hex()


def _jitter() -> float:
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)
