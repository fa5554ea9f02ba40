"""Forgetting an event that is done, so that its next delivery runs. Loaded when it is used.

It reads the row, and acts on what that shows:

1. Not done and not held: there is no row, or no completion in it, or the completion's window has passed. Nothing is
   written.
2. Done and released: one write removes the completion and the result. It requires the token and completedUntil as
   seen. Each claim raises the token. So a copy of it that comes late finds another completion, or another run, and is
   refused: with the key alone it would erase a later completion, and the event would run twice. After a lost reply, a
   refusal that shows the token as seen and no completion means that it was carried out. After any other refusal, the
   row is read again.
3. Held: that is contention, never "not done". A run in progress may have read data that has changed since, and its
   result would be served for a whole window. A dead holder's completion could still arrive. So a dead holder is taken
   over by rule 2 of protocol.py, under rule 11, and the row is released.

4. Only one result (``is_meant``): a row that does not show it as done, held or not, is left alone, and that is False.
   The write requires the result as seen, beside rule 2. So of many who forget one result, one has True. Where the
   replies to several were lost, they may all have it: then none of them knows whose write it was.

So after forget has returned True, no caller gets the result of a run that began before it was called. After False
without ``is_meant``, a front end whose Date is behind may still give one whose window ends in this second. A claim that
is in flight meanwhile expects no completion, or another one, and is refused by rule 11 or seen as a holder.
"""

from __future__ import annotations

from ..errors import DuplicateEventError
from .acquire import Acquisition, Blocked, Held, Take
from .outcome import ConditionFailed, Reply, unknown
from .protocol import STEPS, Hold, row_of
from .schema import RESULT_OF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .protocol import AcquireRequest, Conversation, Steps
    from .requests import Place, Request
    from .row import Row


def forget(
    wanted: AcquireRequest, talk: Conversation, is_meant: Callable[[str | None], bool] | None = None
) -> Steps[bool]:
    """Forget an event. Return whether it was done.

    wanted: as for a plain lock (``window`` None). Its owner and lease are for a take-over of a dead holder.
    is_meant: whether a stored text is the result to forget. None: any is.

    Raises LockNotGrantedError if the event is in progress (LockTimeoutError after a wait), LockFormatError if the row
    cannot be read, TransportError(ambiguous=True) if the outcome is unknown, and what acquire.acquire raises.
    """
    forgetting: Any = Forgetting(wanted, talk)
    forgetting.is_meant = is_meant
    return forgetting.finish()  # type: ignore[no-any-return]


class Forgetting(Acquisition):
    """One forget. It waits, takes over and gives back as an acquisition does."""

    is_meant: Callable[[str | None], bool] | None = None

    def run(self) -> Steps[Any]:
        """Look, and act on what is seen.

        This is bounded: at most STEPS writes in a row fail between two pauses, and `write` takes over nobody any more
        when the wait and a decision are over.
        """
        self.of_event = True
        step, failed = (yield from self.read()), 0
        while failed < STEPS:
            failed += isinstance(step, Take)
            if not self.sent and isinstance(step, (Take, Held)) and not self.is_of_meant(step.row):
                return False
            if isinstance(step, Take) and step.version is not None:
                if step.row is not None:
                    self.is_done(step.row)  # raises for a completion that cannot be read
                step = self.judge((yield from self.write(step)))
                continue
            if isinstance(step, Take):
                done = yield from self.erase(step.row)
                if done is not None:
                    return done
            elif isinstance(step, Hold):  # taken over from a dead holder: release it. It never counts as a grant again
                yield from self.abandon(looked=True)
                self.sent[step.version].struck = True
                failed = 0
            elif isinstance(step, Blocked):
                yield from self.pause(step)
                failed = 0
            step = yield from self.read()
        raise self.contradicted()

    def is_done(self, row: Row) -> bool:
        try:
            row.refuse_done(self.wanted.place.key, self.date)
        except DuplicateEventError:
            return True
        return False

    def is_of_meant(self, row: Row | None) -> bool:
        """Whether this row may be of the event to forget. True if any result is meant."""
        if self.is_meant is None:
            return True
        stored = None if row is None or not self.is_done(row) else row.item.get(row.schema.result, {})
        return stored is not None and self.is_meant(stored.get("S"))

    def erase(self, row: Row | None) -> Steps[bool | None]:
        """Remove the completion of a row that nobody holds. Returns whether there was one. None: look again."""
        if row is None or not self.is_done(row) or not self.is_of_meant(row):
            return False
        place = self.wanted.place
        outcome, unclear = yield from self.exchange(erasure(place, row, self.is_meant is not None))
        if isinstance(outcome, Reply):
            return True
        if isinstance(outcome, ConditionFailed):
            left = row_of(outcome, place)
            is_erased = left is not None and left.token == row.token and place.schema.completed_until not in left.item
            return True if unclear and is_erased else None
        if not unclear:
            raise outcome
        raise unknown(f"event {place.key!r} was forgotten: no clear answer came. Forget it again", place.key, outcome)


def erasure(place: Place, row: Row, of_result: bool = False) -> Request:
    """Remove the completion that ``row`` shows, and its result: only while it is the same, of the same grant.

    of_result: require that the result is the same, too.
    """
    schema, update, item = place.schema, place.update_type(place), row.item
    assert schema.released is not None, "rows of this schema remember no events"
    done = item.get(schema.completed_until)
    update.expect(token=item.get(schema.token), completed_until=done)
    if of_result:
        update.expect(result=item.get(schema.result))
    update.removes += ["#completed_until", "#result"]
    if RESULT_OF in item:
        update.removes.append(update.name(RESULT_OF))
    return update.request()
