"""A cache of completed events, in this environment. A duplicate that it knows costs no request.

It never says "done" for what is not:

- An event is entered only once DynamoDB has said that it is done: by confirming its completion, or to a duplicate.
- An entry ends before its window does, judged by elapsed time, which never lags behind (core/lease.py).
- What was learned from one table, or from a stand-in such as in_memory(), is not known of another.

Loaded only for functions with ``cache_size``.
"""

from __future__ import annotations

from collections import OrderedDict

from ..core.lease import DRIFT, MARGIN
from ..errors import DuplicateEventError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..client.held import HeldLock
    from ..client.session import Session

    #: Until when an event counts as done, as stored, in epoch seconds; its text; until when it is remembered, in
    #: elapsed seconds.
    Entry: TypeAlias = tuple[float, object, float]


class Completed:
    """The last ``size`` events of one function that were seen to be done. Safe to use from several threads.

    forgets: a new object whenever a forget begins or ends. The answer to a request from before that is not entered.
    """

    __slots__ = ("_known", "_size", "forgets")

    def __init__(self, size: int) -> None:
        self._size = size
        self.forgets = object()
        self._known: tuple[object, object, OrderedDict[str, Entry]] = None, None, OrderedDict()

    def find(self, session: Session, key: str) -> DuplicateEventError | None:
        """The error for a duplicate of an event that is known to be done. None: ask DynamoDB."""
        if key not in self._known[2]:  # asked first: `_entries_of` would make the transport, for an empty cache too
            return None
        entries = self._entries_of(session)
        try:
            until, text, ends = entries[key]
            if session.timeline.elapsed() >= ends:
                del entries[key]
                return None
            entries.move_to_end(key)
        except KeyError:  # unknown, or forgotten meanwhile: it must not enter again
            return None
        message = f"event {key!r} was completed before, as this environment remembers"
        return DuplicateEventError(message, key=key, result=text, completed_until=until, remembered=True)

    def forgetting(self, key: str, ask: Callable[[], Any]) -> Any:
        """Call ``ask``, which forgets an event in DynamoDB, and return its result. Before and after, the entry goes."""
        self._forget(key)
        try:
            asked = ask()
        finally:
            self._forget(key)
        return self._awaited(key, asked) if hasattr(asked, "__await__") else asked

    async def _awaited(self, key: str, asked: Any) -> Any:
        try:
            return await asked
        finally:
            self._forget(key)

    def _forget(self, key: str) -> None:
        # A new object, as two threads may count up to the same number. It is set before the entry goes: `_note` enters
        # first and compares last, so an entry that it makes meanwhile goes too.
        self.forgets = object()
        self._known[2].pop(key, None)

    def learn(self, session: Session, error: DuplicateEventError, forgets: object) -> None:
        """Note an event that DynamoDB has just reported as done. forgets: `forgets` when it was asked."""
        if error.remembered or error.key is None or error.completed_until is None:
            return
        reading = session.timeline.reading()
        left = error.completed_until - session.memory.server.after_freezes(reading) - MARGIN
        ends = reading.elapsed + left * (1 - DRIFT)
        self._note(session, error.key, error.completed_until, error.result, ends, forgets)

    def completed(self, held: HeldLock, text: str | None, since: float, forgets: object) -> None:
        """Note an event of which DynamoDB has confirmed the completion.

        since: elapsed seconds before the completion was sent. The stored end is a window after DynamoDB's time then,
        an estimate from the Date of the claim. So the clock may have drifted since the claim.
        """
        if not held.hold.completed:
            return
        hold, session = held.hold, held.session
        assert hold.window is not None, "it is an event"
        assert hold.completed_until is not None, "it is completed"
        ends = since + hold.window - MARGIN - DRIFT * (since - hold.since + hold.window)
        self._note(session, held.key, hold.completed_until, text, ends, forgets)

    def _note(self, session: Session, key: str, until: float, text: object, ends: float, forgets: object) -> None:
        entries = self._entries_of(session)
        entries.pop(key, None)  # it becomes the newest; each step is one operation, as other threads do the same
        entries[key] = until, text, ends
        if self.forgets is not forgets:  # asked last: a forget that begins after this finds the entry
            entries.pop(key, None)
        while len(entries) > self._size:
            try:
                entries.popitem(last=False)
            except KeyError:  # another thread has emptied it
                return

    def _entries_of(self, session: Session) -> OrderedDict[str, Entry]:
        """The entries that were learned from where ``session`` sends now. Others are forgotten."""
        memory, transport, known = session.memory, session.transport, self._known
        if known[0] is not memory or known[1] is not transport:  # a client forgets its memory after a stand-in
            self._known = known = memory, transport, OrderedDict()
        return known[2]
