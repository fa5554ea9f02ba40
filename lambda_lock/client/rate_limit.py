"""`LockClient.rate_limit`: waits for a start of a rate limit. Loaded when it is used."""

from __future__ import annotations

from ..core.rate import LONGEST_WAIT, Limit, Start, changed, in_words
from ..core.row import LONGEST_LEASE
from ..errors import LockArgumentError, LockConfigurationError, RateLimitedError
from ..runtime.signalsafe import given_back
from . import checks
from .options import request_for
from .session import Operation
from .taking import tell_failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.protocol import AcquireRequest, Conversation, Steps
    from .session import Session


def rate_limit(
    session: Session, key: str, limit: int, per: float, burst: int, n: int, wait: float | None, **times: Any
) -> Starting:
    """The operation of `Client.rate_limit`. times: reserve, sort_key and context, as for `LockClient.acquire`."""
    asked = limit_of(limit, per, burst, n, wait)
    request = request_for(session, key, wait=wait, **times)
    place = request.place
    if None in (place.schema.next_at, place.schema.last_take, place.schema.rate):
        raise LockConfigurationError(
            f"the schema {place.schema.name} has no rate limits: use JAVA for {key!r}", key=key
        )

    def differs(rate: str) -> None:
        message, before = "rate limit %r is %s here, and elsewhere or before %s", changed(key, rate)
        about = key, in_words(asked.text), before
        session.observer.tell("rate_differs", message, *about, place=place, once=place.where)

    return Starting(session, request, lambda talk: Start(request, asked, talk, differs))


class Starting(Operation[float]):
    """Waits for a start of a rate limit.

    begin: makes the Start, whose steps return the seconds that were waited.
    """

    what, closed = "rate", staticmethod(given_back)

    def __init__(self, session: Session, wanted: AcquireRequest, begin: Callable[[Conversation], Start]) -> None:
        self.place = wanted.place
        self.after_wait = session.check_open
        self._session = session
        self._begin = begin

    def steps(self, talk: Conversation) -> Steps[float]:
        """The requests, and what is told of the start or its refusal."""
        tell, place = self._session.observer.tell, self.place
        try:
            self._start = self._begin(talk)
            waited = yield from self._start.steps()
        except Exception as error:
            refused = error
            if isinstance(error, RateLimitedError):
                tell("rate_limited", "%s", error, place=place, subject=lambda: refused)
            tell_failed(self._session, place, error)
            raise
        tell("started", "rate limit %r gave a start after %.3f s", place.key, waited, place=place)
        return waited

    def give_back(self) -> Operation[None]:
        """Gives the start that it waited for back: nobody ran in it. If later ones were given out, it is used up."""
        start = self._start

        def steps(talk: Conversation) -> Steps[None]:
            start.talk = talk
            return start.give_back()

        return Operation(self.place, steps)

    def outcome(self, done: object) -> str:
        return "started"


def limit_of(limit: object, per: object, burst: object, n: object, wait: object) -> Limit:
    """Return the Limit of these arguments. Raises LockArgumentError or TypeError."""
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
