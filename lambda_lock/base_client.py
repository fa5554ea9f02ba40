"""The settings of a client, and how an acquire is checked and put to the protocol. No I/O."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager  # the Lambda runtime has it loaded

from . import checks, invocation
from .core import acquire, lease, protocol
from .core.outcome import ServiceError
from .core.requests import Content, Place, encode_data
from .core.row import JAVA
from .errors import (
    ClientClosedError,
    DuplicateEventError,
    LockArgumentError,
    LockConfigurationError,
    LockNotGrantedError,
    LockTimeoutError,
    TransportError,
)
from .late import Late
from .log import logger as package_logger
from .observe import Observer
from .open_locks import OpenLocks
from .signalsafe import Flag
from .timeline import SYSTEM, Timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypedDict, Unpack

    from .core.row import Schema
    from .heartbeat import Renewals
    from .invocation import Invocation
    from .lock import Callback
    from .pages import Pages
    from .timeline import Clock
    from .transport import BotoTransport, HttpsTransport, Transport

    class AcquireOptions(TypedDict, total=False):
        """What acquire takes beside the key and ``wait``; LockClient.acquire says what each means."""

        reserve: float | None
        data: bytes | None
        replace_data: bool
        attributes: Mapping[str, Any] | None
        sort_key: str | None
        lease_duration: float | None
        refresh_period: float | None
        delete_on_release: bool
        replace: bool
        only_if_exists: bool
        reentrant: bool
        safe_time: float | None
        on_danger: Callback | None
        on_lost: Callback | None
        cancel_check: Callable[[], bool] | None
        context: object

    class ClientSettings(TypedDict, total=False):
        """The settings of a client; BaseClient says what each means."""

        lease_duration: float
        heartbeat_period: float | None
        refresh_period: float
        safe_time: float | None
        owner_prefix: str | None
        ttl: int | None
        partition_key_name: str | None
        sort_key_name: str | None
        schema: Schema
        hold_on_unavailable: bool
        heartbeat_rate: float | None
        observation_cache_size: int
        region_name: str | None
        endpoint_url: str | None
        boto3_client: Any
        boto3_session: Any
        transport: Transport | None
        clock: Clock | None
        logger: logging.Logger | None
        hooks: Iterable[object]

    class AdoptOptions(TypedDict, total=False):
        """What adopt takes beside the string and ``context``."""

        lease_duration: float | None
        safe_time: float | None
        on_danger: Callback | None
        on_lost: Callback | None


TABLE_VARIABLE = "LAMBDA_LOCK_TABLE"
PARTITION_KEY_VARIABLE = "LAMBDA_LOCK_PARTITION_KEY"
SORT_KEY_VARIABLE = "LAMBDA_LOCK_SORT_KEY"

PREWARM_KEY = "lambda_lock#prewarm"  # of a row that nobody writes
_EXTRA_WAIT = 5.0  # seconds over the lease: enough to outlive a dead holder of the same lease


class Order:
    """An acquire, checked: the wish, what the handle is made with, and what may cancel it."""

    __slots__ = ("cancel_check", "cancelled", "handle", "wish")

    def __init__(self, wish: protocol.Wish, handle: dict[str, Any], cancel_check: Callable[[], bool] | None) -> None:
        self.wish = wish
        self.handle = handle
        self.cancel_check = cancel_check
        self.cancelled = False

    def check_cancelled(self) -> None:
        """Raise LockTimeoutError if whoever waits does not want to wait any more."""
        if self.cancel_check is not None and self.cancel_check():
            key = self.wish.place.key
            self.cancelled = True
            raise LockTimeoutError(f"waiting for lock {key!r} was cancelled by cancel_check", key=key)


class BaseClient:
    """The settings of a client. Building one does no I/O and needs no credentials yet.

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
    hold_on_unavailable: a lock is not lost because of 5xx and time-outs alone: renewals go on after validity has ended
        (``is_held`` is false until one comes through), and no lost signal is given. Not for locks that delete their row
        on release (delete_on_release, PYTHON): no renewal could prove that nobody had them in between.
    heartbeat_rate: renewals a second of all locks of this client together, at most; None: no bound.
    observation_cache_size: of how many other holders the client remembers since when they stand still.
    region_name, endpoint_url, boto3_client, boto3_session, transport: how requests are sent; None: as the environment
        says.
    clock: an object with monotonic(), boottime(), wall() and sleep(seconds), for tests.
    logger: None: ``logging.getLogger("lambda_lock")``.
    hooks: objects with any of the methods on_granted(lock), on_lost(lock), on_released(lock), on_not_granted(error) and
        on_duplicate(error), called in the order of the events on a daemon thread. No lock waits for them or fails with
        them: what they raise is logged.

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
        hold_on_unavailable: bool = False,
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
        self._observer = Observer(self._log, self._timeline.clock, hooks)
        self._memory = protocol.Memory(checks.whole("observation_cache_size", observation_cache_size, least=1))
        self._chance = protocol.Chance(_nonce, _jitter)
        self._hold_on_unavailable = hold_on_unavailable
        self._heartbeat_rate = checks.rate("heartbeat_rate", heartbeat_rate)
        self._open = OpenLocks()
        self._next_slot = 0.0
        self._sends_renewals: Renewals | None = None
        self._chosen: HttpsTransport | BotoTransport | None = None
        self._closed = Flag()

    def _order(
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
        replace: bool = False,
        only_if_exists: bool = False,
        reentrant: bool = False,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        cancel_check: Callable[[], bool] | None = None,
        context: object = None,
        _owner: str | None = None,
        _window: int | None = None,
    ) -> Order:
        """Check what an acquire asks for. ``reentrant`` is the caller's affair.

        _owner: of a lock that is adopted; None: a new one. _window: of an event, as in Wish.
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
        for name, function in (("on_danger", on_danger), ("on_lost", on_lost), ("cancel_check", cancel_check)):
            checks.callback(name, function)
        self._check_open()
        found = invocation.find((), {}, context)
        left = None if found is None else found.remaining()
        _check_may_run(place, found, left)
        now = self._timeline.elapsed()
        patience, advice = _patience(wait, reserve, left, duration)
        wish = protocol.Wish(
            place,
            _owner or f"{self._owner_prefix or invocation.owner_prefix(found)}#{_nonce()}",
            place.schema.round_lease(int(duration * 1000)),
            content,
            lease_end=None if left is None else now + left,
            wait_until=now + patience,
            patient=patience > 0,
            refresh_period=poll,
            delete_on_release=delete_on_release or place.schema.released is None,
            only_if_exists=only_if_exists,
            replace=replace,
            hold_on_unavailable=self._hold_on_unavailable,
            advice=advice,
            window=_window,
        )
        return Order(wish, self._handle(duration, safe, on_danger, on_lost), cancel_check)

    _order.__qualname__ = "acquire"  # for Python's errors about arguments, which callers hand through

    def _event_order(
        self, key: str, window: int, *, wait: float | None = 0, **options: Unpack[AcquireOptions]
    ) -> Order:
        """`_order` for an event, whose row must outlive its release."""
        order = self._order(key, wait=wait, _window=window, **options)
        if order.wish.delete_on_release:
            raise LockConfigurationError(
                f"event {key!r} cannot be remembered: rows of the schema {self._schema.name} are deleted on release. "
                "Give deduplicate a client with the schema JAVA or GO, and a table of its own",
                key=key,
            )
        return order

    def _handle(
        self, duration: float, safe_time: float | None, on_danger: Callback | None, on_lost: Callback | None
    ) -> dict[str, Any]:
        """What a Lock is made with, beside its client and hold."""
        return {
            "full_lease": duration,
            "heartbeat_period": self._heartbeat_period,
            "safe_time": safe_time,
            "on_danger": on_danger,
            "on_lost": on_lost,
            "line": line_of_execution(),
        }

    def _adoption(
        self,
        token: str,
        *,
        lease_duration: float | None = None,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        context: object = None,
    ) -> tuple[Order, int]:
        """Check what an adopt asks for: the order, and the fencing token that was handed over."""
        from .core.handover import read_handover

        handover = read_handover(token, self._names()[0])
        order = self._order(
            handover.key,
            wait=0,
            sort_key=handover.sort_key,
            lease_duration=handover.lease_ms / 1000 if lease_duration is None else lease_duration,
            safe_time=safe_time,
            on_danger=on_danger,
            on_lost=on_lost,
            context=context,
            _owner=handover.owner,
        )
        return order, handover.token

    _adoption.__qualname__ = "adopt"

    @property
    def transport(self) -> Transport:
        """How requests are sent; its ``name`` and ``reason`` say which was chosen and why.

        Raises LockConfigurationError where none can be: no Region, no credentials, or boto3 needed and absent.
        """
        if self._given_transport is not None:
            return self._given_transport
        if self._chosen is not None:
            return self._chosen
        with Late():
            return self._choose()

    def _choose(self) -> HttpsTransport | BotoTransport:
        if self._chosen is not None:
            return self._chosen
        from .transport import choose

        chosen = choose(
            region_name=self._region_name,
            endpoint_url=self._endpoint_url,
            boto3_client=self._boto3_client,
            boto3_session=self._boto3_session,
            now=lambda: self._memory.server.now(self._timeline.look()),
            logger=self._log,
        )
        return self._kept(chosen)

    def _kept(self, chosen: HttpsTransport | BotoTransport) -> HttpsTransport | BotoTransport:
        """The first that was chosen: a signal handler, or a thread that stopped waiting, may have chosen too."""
        if self._chosen is None:
            self._chosen = chosen
        return self._chosen

    @property
    def _renewals(self) -> Renewals:
        """Where the renewals of this client's locks are sent."""
        if self._sends_renewals is None:
            with Late():
                from .heartbeat import Renewals

            self._sends_renewals = Renewals()
        return self._sends_renewals

    def _check_open(self) -> None:
        if self._closed.is_set:
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

    @contextmanager
    def _explained(self, place: Place) -> Iterator[None]:
        """What DynamoDB refuses in the words of a user."""
        try:
            yield
        except ServiceError as error:
            from .explain import explain

            raise explain(error, place) from error
        except TransportError as error:
            error.key = place.key
            raise

    def _tell_refused(self, error: DuplicateEventError | LockNotGrantedError, order: Order) -> None:
        place, holder, event = order.wish.place, None, "duplicate"
        if isinstance(error, LockNotGrantedError):
            holder = error.holder
            event = "too_late" if error.too_late else "cancelled" if order.cancelled else "not_granted"
        self._observer.tell(event, error, place.table, "%s", error, key=place.key, holder=holder)

    def _pages(self, key: str | None) -> Pages:
        """What `list` reads, page by page."""
        from .pages import Pages

        self._check_open()
        if key is not None:
            checks.key_text("key", key)
        table, partition_key_name, sort_key_name = self._names()
        return Pages(table, self._schema, partition_key_name, sort_key_name, key)

    def _heartbeat_slot(self, now: float) -> float:
        """When the next renewal may be sent under ``heartbeat_rate``; the slot is taken with the asking.

        The heartbeat's thread alone asks.
        """
        if self._heartbeat_rate is None:
            return now
        slot = max(now, self._next_slot)
        self._next_slot = slot + 1 / self._heartbeat_rate
        return slot


def init_named(client: str) -> Any:
    """BaseClient.__init__ under the name of ``client``, which Python gives in its errors about arguments."""
    init: Any = BaseClient.__init__
    named = type(init)(init.__code__, init.__globals__, init.__name__, init.__defaults__)
    named.__kwdefaults__, named.__annotations__ = init.__kwdefaults__, init.__annotations__
    named.__qualname__ = f"{client}.__init__"
    return named


def _patience(
    wait: float | None, reserve: float | None, left: float | None, lease_duration: float
) -> tuple[float, str | None]:
    """How long to wait, seconds: never into the time that the work needs after the grant.

    Where that is what ends the wait, also what to advise: waiting longer would not help.
    """
    if left is None:
        return lease_duration + _EXTRA_WAIT if wait is None else wait, None
    kept = max(1.0, left / 4) if reserve is None else reserve
    most = max(left - kept, 0.0)
    if wait is not None and wait <= most:
        return wait, None
    what = f"The wait was at most {most:.1f} s" if wait is None else f"wait={wait:g} was cut to {most:.1f} s"
    for_work = f"reserve={reserve:g}" if reserve is not None else f"{kept:.1f} s (reserve: a quarter, at least 1 s)"
    smaller = "Give a smaller reserve=, raise" if kept else "Raise"
    return most, (
        f"{what}: the invocation had {left:.1f} s left, less {for_work} for the work. "
        f"{smaller} the function's timeout, or let the caller try again"
    )


def _check_may_run(place: Place, found: Invocation | None, left: float | None) -> None:
    if found is None and invocation.snapstart_initializing():
        raise LockConfigurationError(
            f"lock {place.key!r} was asked for while a SnapStart function initialises: its memory will be copied, and "
            "the lock with it. Acquire it in the handler",
            key=place.key,
        )
    if left is not None and left < lease.MIN_LEASE:
        raise acquire.too_late(place.key, int(left * 1000))


def line_of_execution() -> tuple[object, object]:
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
