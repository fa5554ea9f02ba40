"""Starts of a rate limit. Loaded when one is used."""

from __future__ import annotations

from ..core import rate as core
from ..core.row import LONGEST_LEASE
from ..errors import LockArgumentError, LockConfigurationError, RateLimitedError
from . import checks
from .options import order
from .taking import tell_failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.lease import ClockReading
    from ..core.protocol import Steps
    from .session import Operation, Session


def rate_limit(
    session: Session, key: str, limit: int, per: float, burst: int, n: int, wait: float | None, **times: Any
) -> Operation[float]:
    """The operation of `Client.rate_limit`. times: reserve, sort_key and context, as for `LockClient.acquire`."""
    asked = limit_of(limit, per, burst, n, wait)
    wanted, _, _ = order(session, key, wait=wait, **times)
    place, observer = wanted.place, session.observer
    if None in (place.schema.next_at, place.schema.last_take, place.schema.rate):
        raise LockConfigurationError(
            f"the schema {place.schema.name} has no rate limits: use JAVA for {key!r}", key=key
        )

    def differs(rate: str) -> None:
        message = f"rate limit {key!r} is {asked.text} (limit/per/burst) here and {rate} elsewhere: pass the same"
        session.tell_once("rate_differs", place, message)

    def steps(reading: ClockReading) -> Steps[float]:
        start = core.Start(wanted, asked, session.memory, session.entropy, reading, differs)
        try:
            waited = yield from start.steps()
        except Exception as error:
            refused = error
            if isinstance(error, RateLimitedError):
                observer.tell("rate_limited", lambda: refused, place.table, "%s", error, key=key)
            tell_failed(session, place, error)
            raise
        observer.tell("started", None, place.table, "rate limit %r gave a start after %.3f s", key, waited, key=key)
        return waited

    def timed(reading: ClockReading) -> Steps[float]:
        from ..observe import timing

        return timing.timed(observer, "rate", place.table, (key,), reading, steps(reading), lambda _: ("started", None))

    return place, timed if observer.measures else steps


def limit_of(limit: object, per: object, burst: object, n: object, wait: object) -> core.Limit:
    """What is asked for, checked. Raises LockArgumentError or TypeError."""
    starts = checks.whole("limit", limit, least=1, instead=": for fewer than one a second, pass a longer per=")
    at_once = checks.whole("burst", burst, least=1)
    seconds, wanted = checks.seconds("per", per, least=1e-6), checks.whole("n", n, least=1)
    checks.optional_seconds("wait", wait, most=core.LONGEST_WAIT)
    if starts > seconds * 1e6:
        raise LockArgumentError(f"limit={limit}, per={per} s is more than one in a microsecond: count in larger units")
    if at_once > LONGEST_LEASE * starts / seconds:
        raise LockArgumentError(f"burst={burst} is out of range: its starts take more than a year")
    if wanted > at_once:
        raise LockArgumentError(f"n={n} is more than burst={burst}: raise burst, or take fewer at once")
    return core.Limit(starts, seconds, at_once, wanted)
