"""Operations that take no lock: list, forget, rate_limit and sleep. Loaded when used.

Each loads its own part of the protocol.
"""

from __future__ import annotations

import os
from functools import partial

from ..core.outcome import unusable
from ..core.requests import Place, bare_name
from ..core.row import LONGEST_LEASE, OF_SLEEPERS, Row
from ..core.schema import JAVA
from ..errors import LockArgumentError, LockConfigurationError, LockNotGrantedError, RateLimitedError
from ..runtime.signalsafe import given_back
from . import checks
from .options import check_holder, order
from .session import Operation
from .settings import TABLE_VARIABLE
from .taking import tell_failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..core.outcome import Item, Reply
    from ..core.protocol import AcquireRequest, Conversation, Steps
    from ..core.rate import Limit
    from ..core.requests import Request
    from ..core.schema import Schema
    from .record import LockRecord
    from .session import Session

MOST_PAGES = 100_000  # of one list: a page has up to 1 MB (API reference, Scan), so this is 100 GB
WAKE_VARIABLE = "LAMBDA_LOCK_WAKE"
_LONGEST_CALLBACK = 2048  # characters of a task token (Step Functions API reference, SendTaskSuccess)
_ADVICE = "What runs may have read what has changed since: forget it again when it has ended, or pass wait=seconds"


# -- list: the records of a table or of one of its partitions, page by page -------------------------------------------


class Pages:
    """`request` returns the request for the next page, or None after the last. `records` yields those in a reply.

    A list ends, whatever the answers say: pages that lead in a circle are noticed, and there are at most MOST_PAGES.
    """

    def __init__(
        self, table: str, schema: Schema, partition_key_name: str, sort_key_name: str | None, key: str | None
    ) -> None:
        self.place = Place(table, schema, partition_key_name, key or "", sort_key_name, None)
        self._names = (partition_key_name, sort_key_name)
        self._request: dict[str, Any] | None = {"TableName": table, "ConsistentRead": True}
        self._operation = "Scan"
        self._count = 0
        self._mark: object = None  # where a page began: the last one whose number was a power of two
        if key is not None:
            self._operation = "Query"
            self._request |= {
                "KeyConditionExpression": "#k = :k",
                "ExpressionAttributeNames": {"#k": partition_key_name},
                "ExpressionAttributeValues": {":k": {"S": key}},
            }

    def request(self) -> Request | None:
        return None if self._request is None else (self._operation, self._request)

    def records(self, reply: Reply) -> Iterator[LockRecord]:
        from .record import LockRecord

        page: dict[str, Any] = reply.item or {}
        self._request = self._next(self._request or {}, page.get("LastEvaluatedKey"))
        for item in page.get("Items", []):
            partition_key_name, sort_key_name = self._names
            key = self._key_of(item, partition_key_name)
            sort_key = None if sort_key_name is None else self._key_of(item, sort_key_name)
            row = Row(item, self.place.schema)
            if row.version is not None:  # else it is not a lock's row, or written in another schema
                place = Place(self.place.table, self.place.schema, partition_key_name, key, sort_key_name, sort_key)
                yield LockRecord(row, place, reply.date)

    def _next(self, request: dict[str, Any], last: Any) -> dict[str, Any] | None:
        """Return the request for the next page, or None after the last.

        An answer that does not lead to a new page is refused: the same pages would be requested for ever. A circle is
        found by comparing with one page alone, after at most three times its length (Brent's algorithm).
        """
        if last is None:
            return None
        names = {name for name in self._names if name is not None}
        if not isinstance(last, dict) or names - last.keys() or last == self._mark:
            raise unusable("a page of a Scan or Query does not say where the next page begins")
        self._count += 1
        if self._count >= MOST_PAGES:
            raise unusable(f"a Scan or Query has more than {MOST_PAGES} pages")
        if self._count & (self._count - 1) == 0:
            self._mark = last
        return {**request, "ExclusiveStartKey": last}

    def _key_of(self, item: Item, name: str) -> str:
        key: str | None = item.get(name, {}).get("S")
        if key is None:
            raise LockConfigurationError(
                f"table {self.place.table!r} does not have the key {name!r} (string). Set partition_key_name= and "
                "sort_key_name= (or LAMBDA_LOCK_PARTITION_KEY, LAMBDA_LOCK_SORT_KEY) to the table's own names"
            )
        return key


def pages_of(session: Session, key: str | None) -> Pages:
    """What `LockClient.list` reads, page by page."""
    session.check_open()
    if key is not None:
        checks.key_text("key", key)
    table, partition_key_name, sort_key_name = session.settings.names()
    return Pages(table, session.settings.schema, partition_key_name, sort_key_name, key)


# -- forget -----------------------------------------------------------------------------------------------------------


def forget(
    session: Session, key: str, scope: str, sort_key: str | None, wait: float | None, context: object
) -> Operation[bool]:
    """The operation of `LockClient.forget`."""
    from ..core.forget import forget as forgetting
    from ..keys.arguments import scoped

    if scope != "":
        checks.key_text("key", key)
        key = scoped(checks.key_text("scope", scope), key)
    wanted, _, _ = order(session, key, wait=wait, sort_key=sort_key, context=context)
    place = wanted.place
    if place.schema.released is None:
        raise LockConfigurationError(
            f"event {key!r} cannot be forgotten: rows of the schema {place.schema.name} are deleted on release, and "
            "remember no events. Use a client with the schema JAVA or GO",
            key=key,
        )
    wanted.advice = wanted.advice or _ADVICE
    return Operation(place, lambda talk: forgetting(wanted, talk), session.check_open)


# -- rate_limit -------------------------------------------------------------------------------------------------------


def rate_limit(
    session: Session, key: str, limit: int, per: float, burst: int, n: int, wait: float | None, **times: Any
) -> Operation[float]:
    """The operation of `Client.rate_limit`. times: reserve, sort_key and context, as for `LockClient.acquire`."""
    from ..core.rate import Start

    asked = limit_of(limit, per, burst, n, wait)
    wanted, _, _ = order(session, key, wait=wait, **times)
    place = wanted.place
    if None in (place.schema.next_at, place.schema.last_take, place.schema.rate):
        raise LockConfigurationError(
            f"the schema {place.schema.name} has no rate limits: use JAVA for {key!r}", key=key
        )

    def differs(rate: str) -> None:
        message = f"rate limit {key!r} is {asked.text} (limit/per/burst) here and {rate} elsewhere: pass the same"
        session.tell_once("rate_differs", place, message)

    return Starting(session, wanted, lambda talk: Start(wanted, asked, talk, differs).steps())


class Starting(Operation[float]):
    """Waits for a start of a rate limit.

    begin: gives the steps, which return the seconds that were waited.
    """

    what, closed = "rate", staticmethod(given_back)

    def __init__(self, session: Session, wanted: AcquireRequest, begin: Callable[[Conversation], Steps[float]]) -> None:
        self.place = wanted.place
        self.after_wait = session.check_open
        self._session = session
        self._begin = begin

    def steps(self, talk: Conversation) -> Steps[float]:
        """The requests, and what is told of the start or its refusal."""
        return self.measured(self._session.observer, talk, self._steps(talk))

    def _steps(self, talk: Conversation) -> Steps[float]:
        tell, table, key = self._session.observer.tell, self.place.table, self.place.key
        try:
            waited = yield from self._begin(talk)
        except Exception as error:
            refused = error
            if isinstance(error, RateLimitedError):
                tell("rate_limited", lambda: refused, table, "%s", error, key=key)
            tell_failed(self._session, self.place, error)
            raise
        tell("started", None, table, "rate limit %r gave a start after %.3f s", key, waited, key=key)
        return waited

    def outcome(self, done: object) -> str:
        return "started"


def limit_of(limit: object, per: object, burst: object, n: object, wait: object) -> Limit:
    """Return the Limit of these arguments. Raises LockArgumentError or TypeError."""
    from ..core.rate import LONGEST_WAIT, Limit

    starts = checks.whole("limit", limit, least=1, instead=": for fewer than one a second, pass a longer per=")
    at_once = checks.whole("burst", burst, least=1)
    seconds, wanted = checks.seconds("per", per, least=1e-6), checks.whole("n", n, least=1)
    checks.optional_seconds("wait", wait, most=LONGEST_WAIT)
    if starts > seconds * 1e6:
        raise LockArgumentError(f"limit={limit}, per={per} s is more than one in a microsecond: count in larger units")
    if at_once > LONGEST_LEASE * starts / seconds:
        raise LockArgumentError(f"burst={burst} is out of range: its starts take more than a year")
    if wanted > at_once:
        raise LockArgumentError(f"n={n} is more than burst={burst}: raise burst, or take fewer at once")
    return Limit(starts, seconds, at_once, wanted)


# -- sleep: what a suspended execution leaves in the table, so that the waker calls it --------------------------------


def has_waker(session: Session) -> bool:
    """Whether the client's table has a waker. LockTable.connect sets the variables that say so."""
    table = session.settings.names()[0]
    connected = os.environ.get(TABLE_VARIABLE, table)
    is_this = connected == table or bare_name(connected) == table or connected == bare_name(table)
    return os.environ.get(WAKE_VARIABLE, "0") not in ("", "0") and is_this


def lie_down(
    session: Session, key: str, sort_key: str | None, holder: str, kind: str, callback: str, permits: int | None = None
) -> Operation[bool]:
    """Write the entry of an execution that goes to sleep, or replace the one that it has.

    kind: "task" or "durable". callback: the token of the task, or the id of the durable function's callback.

    The operation returns whether there was room: if not, poll. Raises what `sleep` does.
    """
    from ..core import sleepers

    place = _place(session, key, sort_key, holder, permits)
    sleeper = sleepers.Sleeper(holder, kind, callback, permits, session.settings.ttl)
    return Operation(place, lambda talk: sleepers.lie_down(place, sleeper, talk))


def get_up(session: Session, key: str, holder: str) -> Operation[bool]:
    """Remove the entry of an execution that sleeps no more. The operation returns whether there was one."""
    from ..core import sleepers

    place, goes = _place(session, key, None, holder, None), partial(sleepers.is_of, holder=holder)
    return Operation(place, lambda talk: sleepers.remove(place, goes, talk))


def sleep(
    session: Session, key: str, holder: str, task_token: str, permits: int | None, sort_key: str | None
) -> Operation[None]:
    """The operation of `Client.sleep`."""
    from ..core import sleepers

    checks.of_kind("task_token", task_token, str, "a str")
    if not 1 <= len(task_token) <= _LONGEST_CALLBACK:
        raise LockArgumentError(
            f"task_token has {len(task_token)} characters: pass $states.context.Task.Token of a state with "
            ".waitForTaskToken, which has 1 to 2,048",
            key=key,
        )
    lying_down = lie_down(session, key, sort_key, holder, "task", task_token, permits)
    if not has_waker(session):
        raise LockConfigurationError(
            f"nobody would wake who sleeps until lock {key!r} is free: the table has no waker, or this function does "
            f"not know of it. Deploy LockTable(wake=...) and connect the function, which sets {WAKE_VARIABLE}=1",
            key=key,
        )

    def steps(talk: Conversation) -> Steps[None]:
        if not (yield from lying_down.steps(talk)):
            raise LockNotGrantedError(
                f"lock {key!r} is held, and as many sleep until it is free as can ({sleepers.MOST_SLEEPERS}). Try "
                "again later",
                key=key,
            )

    return Operation(lying_down.place, steps)


def _place(session: Session, key: str, sort_key: str | None, holder: object, permits: int | None) -> Place:
    """Where the lock is. Raises LockArgumentError, TypeError or LockConfigurationError if nobody can sleep for it."""
    place = session.settings.place(key, sort_key)
    check_holder(holder, key)
    if permits is not None:
        checks.permits(permits, place)
    checks.key_text("key", key + OF_SLEEPERS)
    if place.schema != JAVA:
        raise LockConfigurationError(
            f"nobody can sleep until lock {key!r} is free: the waker reads rows of the schema JAVA as it is, and this "
            f"client has {place.schema.name}, or other names. Use a client with JAVA, or poll",
            key=key,
        )
    session.check_open()
    return place
