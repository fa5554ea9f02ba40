"""Holds that outlive an invocation: resume, release by string, and acquire by holder.

A *hold* is one base owner ``o`` (``prefix#nonce``) and one token T, from its claim to its release. A string of
`hand_over` names it, and stays good until the release. An *attempt* is one handle on the hold. The rules, in addition
to those of protocol.py:

1. **No two handles use the same owner.** The first handle is ``o``. A resumed one is ``o/<32 hex>``, drawn at each
   resume. ``o/`` is parked: no handle uses it (handover.py, rule 5). So what an earlier attempt sends late or as a
   zombie is refused, and rule 9 of protocol.py never takes a later attempt for a late copy of a claim.
2. **A resume is one conditional write**: owner = the one seen, token = T, not released, version < the new one. The
   owner becomes the attempt's; the token stays. The owner seen is ``o`` at first. While no Date is known, the row is
   read first, and nothing is written if that answer has none either. A permit's row is always read first: its entry may
   have any name, and a refused write is charged by the whole row.
   If a refusal shows the hold, the next try expects the owner shown and goes above its version, within one decision. A
   row shows the hold if it has base ``o``, exactly token T and an expiry that parses, and is not released. Otherwise,
   the hold is lost. A row with a higher token does not show it: a late copy of the claim has one. If each try finds
   another attempt, resume gives up.
3. **A grant** is a reply that shows a version that this resume sent, under the name that it drew, not released.
   Validity counts from before that version's first send, and ends with the invocation. If it had passed on arrival,
   resume goes on from the row shown. Nothing is corrected: versions of a hold rise, so a longer lease cannot be
   shortened. The row's lease is not cut to the invocation, neither here nor by renewals: it is the next attempt's.
4. **A resume that is given up or fails releases nothing.** The next one goes over it. A late copy finds another owner,
   token or version, and is refused; or it lands on a parked row, and the next resume goes over that.
5. **Release by string** releases under ``o``, then under the owner shown, within one decision. It asks no attempt, so
   it is only for callers that know that the work is over. A permit's row is read first, too. Its release leaves no
   trace: what is gone after a send without an answer counts as released, and a second call finds nothing held.
6. **Acquire by holder** is an ordinary acquisition, until it sees a row that is not released and whose owner, up to its
   last "#", is the holder. Then it resumes that hold, which no error releases. If that hold is lost, the acquisition
   goes on, and a claim of its own that has landed meanwhile is a grant as usual. If the resume is granted, no claim of
   its own is in the row. One without an answer can land only after the hold's release. Then it is like one that comes
   after its release by rule 5 of protocol.py. In a semaphore, the entries of others do not matter. It finds the entry
   under the holder's name (permits.py), and its claims are refused while there is one. A hold does not
   grow: if it has fewer permits than the call asks for, that is an error, or its caller would believe to have them.
7. **It does not pass sleepers** (waker/): while their ticket counts, a free lock is for one of them. So its first claim
   requires that the waker has noted none. It passes those who wait awake, like every acquire without the queue.

The newest attempt to land excludes all others of its hold by rule 1, and everybody else like any holder: a resume
requires that the row is still the hold's, and never writes an expiry below the one that it finds.
"""

from __future__ import annotations

from ..errors import LockFormatError, LockLostError, TransportError
from . import lease, requests
from .acquire import Acquisition, Blocked, Missing, Take, too_late
from .handover import damaged
from .keep import not_there
from .outcome import ConditionFailed, Reply, undated, unknown
from .protocol import DECISION, STEPS, Hold, row_of
from .row import WEIGHED, base_of, make_version
from .schema import ASLEEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .acquire import Next
    from .outcome import Item
    from .protocol import AcquireRequest, Conversation, Steps
    from .requests import Place
    from .row import Row


def resume(
    wanted: AcquireRequest,
    token: int,
    talk: Conversation,
    *,
    row: Row | None = None,
    keep: Callable[[Hold], None] | None = None,
    gone: Callable[[Item | None, int | None], None] | None = None,
) -> Steps[Hold]:
    """Go on with the hold under ``token``, as the attempt that ``wanted.owner`` names: ``o/<32 hex>``.

    row: the hold's row, if it was just seen.
    keep: as for acquire.acquire.
    gone: called with the item of a refusal that shows that the hold is lost, and its Date.

    Raises LockLostError if the hold was released or lost, LockNotGrantedError if too little time is left,
    LockFormatError if the row refuses every version of ours, LockConfigurationError if an answer has no Date,
    TransportError(ambiguous=False) if too many other attempts resume the hold at the same time, and otherwise the
    transport's TransportError or ServiceError. Nothing is released before an error leaves.
    """
    place, owner, until, memory = wanted.place, wanted.owner, talk.elapsed + wanted.decision, talk.memory
    seen, newest_ms = base_of(owner), 0
    sent: dict[str, requests.Grant] = {}  # by version
    shown: set[str | None] = set()  # the owners in the answers
    if row is None and (place.permits is not None or not memory.server.is_known):
        row = _row_of_hold(place, (yield from talk.ask(requests.read(place), until)).item, owner, token)
    if not memory.server.is_known:  # an expiry from a wrong clock could not be corrected
        raise undated(place.key)
    for _ in range(STEPS):
        if row is not None:
            assert row.expiry_ms is not None
            seen, newest_ms = row.owner, max(newest_ms, row.expiry_ms)
        _check_time(wanted, talk.elapsed, until)
        newest_ms = max(lease.expiry_ms(talk.now(), wanted.lease_ms), newest_ms + 1)
        version = make_version(newest_ms, talk.entropy.nonce())
        sent[version] = requests.Grant(owner, version, wanted.lease_ms, newest_ms, started=talk.elapsed)
        assert seen is not None
        request = requests.renew(
            place,
            sent[version],
            seen=seen,
            token=token,
            completed_until=None if row is None else row.completed_until,
            content=requests.Content(ttl=wanted.content.ttl),
        )
        outcome = yield from talk.write(request, until)
        try:
            row = _row_of_hold(place, outcome.item, owner, token)
        except LockLostError:
            if gone is not None:
                gone(outcome.item, outcome.date)
            raise
        shown.add(row.owner)
        if row.owner != owner or row.version not in sent:
            continue
        hold = _granted(wanted, sent[row.version], row, newest_ms, outcome.date, talk.elapsed)
        if hold is not None:
            memory.observations.forget(place.where)
            if keep is not None:
                keep(hold)
            return hold
    raise _contended(place, "resumed", unclear=False) if len(shown) > 1 else damaged(place.key)


def _granted(
    wanted: AcquireRequest, grant: requests.Grant, row: Row, newest_ms: int, date: int | None, now: float
) -> Hold | None:
    """Return the hold of a grant. None: its validity had passed on arrival. See rule 3.

    newest_ms: the newest expiry that was sent.
    """
    if date is None:
        raise undated(wanted.place.key)
    valid_until = grant.started + lease.validity(grant.lease_ms, grant.expiry_ms, date)
    if wanted.lease_end is not None:
        valid_until = min(valid_until, wanted.lease_end)
    if now >= valid_until:
        return None
    return Hold(wanted, row, wanted.lease_ms, newest_ms, valid_until, grant.started, resumed=True)


def _check_time(wanted: AcquireRequest, now: float, until: float) -> None:
    """Raise an error if too little time is left until the deadline of the invocation, or none until ``until``."""
    key, left = wanted.place.key, None if wanted.lease_end is None else wanted.lease_end - now
    if left is not None and left < lease.MIN_LEASE:
        raise too_late(key, int(left * 1000))
    if now >= until:
        message = f"lock {key!r} was not resumed within {wanted.decision:g} s: DynamoDB's answers took too long"
        raise TransportError(False, f"{message}. Resume it again", key=key)


def _row_of_hold(place: Place, item: Item | None, owner: str, token: int) -> Row:
    """Return the row of the hold that ``owner`` is an attempt of. Raises LockLostError for another row."""
    row = place.row(item)
    if row is None or not _is_of_hold(row, place, owner, token) or row.is_free or row.expiry_ms is None:
        raise not_there(place, row)
    return row


def _is_of_hold(row: Row, place: Place, owner: str, token: int) -> bool:
    """Return whether a row is the hold's. Raises LockFormatError for a semaphore's, if the hold is a lock's."""
    row.require_lock(place.key)
    return base_of(row.owner) == base_of(owner) and row.token == token


def release(place: Place, owner: str, token: int, talk: Conversation) -> Steps[bool]:
    """Release the hold of ``owner``, its base or an attempt of it, under ``token``. See rule 5.

    Returns True if the hold is released, now or before, and False if the row is not the hold's any more. It was then
    released or lost before. Raises TransportError(ambiguous=True) if the outcome is unknown, and the transport's error
    if nothing was done.
    """
    seen, until, unclear = base_of(owner) or owner, talk.elapsed + DECISION, False
    if place.permits is not None:
        row = place.row((yield from talk.ask(requests.read(place), until)).item)
        if row is None or row.owner is None or not _is_of_hold(row, place, owner, token):
            return False
        seen = row.owner
    for _ in range(STEPS):
        request = requests.release(place, owner=seen, token=token)
        outcome, ambiguous = yield from talk.exchange(request, until)
        unclear = unclear or ambiguous
        if isinstance(outcome, Reply):
            return True
        if not isinstance(outcome, ConditionFailed):
            raise _unanswered(place, outcome) if unclear else outcome
        row = row_of(outcome, place)
        if row is None or not _is_of_hold(row, place, owner, token):
            return unclear and place.permits is not None
        if row.is_free:
            return True
        if row.expiry_ms is None or row.owner is None:
            return False
        seen = row.owner
        if talk.elapsed >= until:
            break
    raise _contended(place, "released", unclear=unclear)


def _unanswered(place: Place, cause: Exception) -> TransportError:
    message = f"lock {place.key!r} was released: no clear answer within {DECISION:.0f} s"
    return unknown(f"{message}. Release it again, or leave it to its lease", place.key, cause)


def _contended(place: Place, what: str, *, unclear: bool) -> TransportError:
    return TransportError(
        unclear,
        f"lock {place.key!r} was not {what}: each answer named another attempt that has it. Try again once no other "
        "attempt runs",
        key=place.key,
    )


def holder_of(owner: str | None) -> str | None:
    """Return the holder that an owner was drawn for: what is before its last "#". None if there is no "#"."""
    return None if owner is None or "#" not in owner else owner.rpartition("#")[0]


class _FoundError(Exception):
    """The row is that of an earlier attempt of the same holder."""

    def __init__(self, row: Row) -> None:
        self.row = row


class _NobodySleeps(requests.QueueCondition):
    """Required by a claim that passes those who wait awake: the waker has noted no sleepers."""

    def write(self, update: requests.Update) -> None:
        update.require(f"attribute_not_exists({update.name(ASLEEP)})")


def name_of(holder: str) -> str:
    """Return the name of a holder's hold: 32 hex digits that follow from the holder."""
    from hashlib import sha256  # only those who pass holder= need it

    return sha256(holder.encode()).hexdigest()[:32]


class HolderAcquisition(Acquisition):
    """An acquisition by a holder that may have the lock already. See rule 6."""

    holder: str | None
    vanished = 0  # holds that were gone before they were resumed

    def run(self) -> Steps[Hold]:
        """As the base class. It begins anew if the hold was released before it could be resumed.

        This is bounded: `pause` raises when the wait is over. An acquire that does not wait has STEPS turns.
        """
        self.holder = holder_of(self.wanted.owner)
        while True:
            try:
                return (yield from super().run())
            except _FoundError as found:
                row = found.row
            self.last, self.row, self.date = Blocked(), None, None  # unknown again, until a refusal shows who has it
            try:
                return (yield from self.resume(row))
            except LockLostError:
                self.vanished += 1
            yield from self.talk.wait(lease.FIRST_BACKOFF)
            is_over = self.wanted.waits and self.talk.elapsed >= self.wait_until
            if is_over or self.vanished >= STEPS:
                yield from self.pause(self.last)

    def state(self, ahead: int) -> str:
        if self.vanished and self.last.row is None and not isinstance(self.last, Missing):
            return f"had a hold of {self.holder} each time, which was gone before it could be resumed"
        return super().state(ahead)

    def resume(self, row: Row) -> Steps[Hold]:
        """Resume the hold of the row that was shown, as a new attempt of it. Raises what `resume` raises."""
        assert row.token is not None
        attempt = self.wanted.like(self.wanted.place, f"{base_of(row.owner)}/{self.talk.entropy.nonce()}")
        return resume(attempt, row.token, self.talk, row=row, keep=self.keep, gone=self.note_instead)

    def note_instead(self, item: Item | None, date: int | None) -> None:
        """Note the holder that has the lock instead of the lost hold: an outage after this does not make it free."""
        row = self.wanted.place.row(item)
        if row is None or row.is_free:
            return
        if row.version in self.sent:
            self.sent[row.version].may_land = True  # it landed, even if every answer was a refusal
        if holder_of(row.owner) == self.holder:
            return
        try:
            super().see(item, date)
        except LockFormatError:
            return  # the next answer will raise it

    def first(self) -> Next:
        return Take(queue=requests.NOBODY_WAITS if self.wanted.place.format == WEIGHED else _NobodySleeps({}))

    def see(self, item: Item | None, date: int | None) -> Next:
        step, row = super().see(item, date), self.row
        if isinstance(step, Hold) or row is None or row.version in self.sent:
            return step
        names_hold = not row.is_free and row.token is not None and row.expiry_ms is not None
        if names_hold and self.holder is not None and holder_of(row.owner) == self.holder:
            if row.own_take < self.wanted.place.take:
                raise LockFormatError(
                    f"{self.holder} has {row.own_take} of the permits of {self.wanted.place.key!r} already, and asks "
                    f"for {self.wanted.place.take}: a hold does not grow. Take as many in each acquire of one "
                    "holder, or release what it has first",
                    key=self.wanted.place.key,
                )
            raise _FoundError(row)
        return Blocked() if isinstance(step, Take) and row.sleepers_come(date) else step


def acquire(wanted: AcquireRequest, talk: Conversation, keep: Callable[[Hold], None] | None = None) -> Steps[Hold]:
    """As acquire.acquire, for ``wanted.owner`` = ``holder#nonce``. A hold that this holder has already is resumed.

    Raises what acquire.acquire and `resume` raise.
    """
    return HolderAcquisition(wanted, talk, keep).finish()
