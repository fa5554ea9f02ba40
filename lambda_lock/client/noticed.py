"""Tells what acquisitions have noticed of rows that changed under them. Loaded when there is something to tell."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.requests import Place
    from .session import Session

_MESSAGES = {
    "permits_differ": "of semaphore %r, %d permits are taken, and its callers here let in %d: others pass another "
    "permits=. While a new number is deployed, the larger one counts. If this stays, some caller was not deployed",
    "token_fell": "the row of lock %r is of the past: its token is %d, where this client has seen %d, or an older "
    "version of that. Its table was restored or replaced, or its row was deleted. Stores that fence need a higher mark,"
    " and events may run again: see the page Deploys, restores and changes",
}


def tell_noticed(session: Session, noticed: dict[object, tuple[str, Place, tuple[int, ...]]]) -> None:
    """Tell each event once for a key. noticed: of core.protocol.Watch."""
    while noticed:
        try:
            _, (event, place, about) = noticed.popitem()
        except KeyError:  # another thread tells it
            return
        session.observer.tell(event, _MESSAGES[event], place.key, *about, place=place, once=place.where)
