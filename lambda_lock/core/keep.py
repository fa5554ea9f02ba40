"""Keeping a granted lock and giving it back: renew, release, complete, and when to renew.

Follows rules 6 to 9 and 12 in protocol.py.
"""

from __future__ import annotations

from ..errors import LockLostError
from . import lease, requests
from .outcome import ConditionFailed, Reply, unknown
from .protocol import DECISION, STEPS, row_of
from .row import base_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import TransportError
    from .outcome import Outcome
    from .protocol import Conversation, Hold, Steps
    from .row import Row

MIN_PERIOD = 0.3  # seconds; the shortest time between two planned renewals


class Renewal:
    """The outcome of one renewal: renewed, or an error that leaves it open, or neither: the lock is lost, or ended."""

    def __init__(self, renewed: bool, error: Exception | None = None) -> None:
        self.renewed = renewed
        self.error = error


def renew(
    hold: Hold, talk: Conversation, *, lease_ms: int | None = None, data: str | None = None, delete_data: bool = False
) -> Steps[Renewal]:
    """Renew a held lock once, with another lease or other data if these are passed. See rules 6, 7 and 8.

    The request is sent once. It is sent again only to go above a newer version of mine, at most STEPS times. To try
    again, call again, so that each attempt has its own version. If the renewal is refused or comes too late, the lock
    is lost.
    """
    for _ in range(STEPS):
        if hold.expire(talk.elapsed) or hold.is_over():
            return Renewal(False)
        sent = talk.reading
        new_lease = lease_ms or hold.lease_ms
        if hold.lease_end is not None and not hold.resumed:  # a resumed hold's lease is for the next attempt, too
            new_lease = min(new_lease, int((hold.lease_end - sent.elapsed) * 1000))
        new_lease = hold.place.schema.round_lease(max(new_lease, int(lease.MIN_LEASE * 1000)))
        hold.shorten(new_lease, sent.elapsed)
        grant = hold.rise(new_lease, talk.now(), talk.entropy.nonce())
        request = requests.renew(
            hold.place,
            grant,
            token=hold.token,
            completed_until=hold.completed_until,
            content=requests.Content(data, ttl=hold.ttl),
            delete_data=delete_data,
        )
        outcome = yield from talk.send(request)
        if hold.ended:  # released meanwhile, so the outcome of this renewal no longer means anything
            return Renewal(False)
        if isinstance(outcome, Reply):
            return _extended(hold, sent, talk.elapsed, outcome.date)
        if not isinstance(outcome, ConditionFailed):
            hold.answered(outcome)
            return Renewal(False, outcome)
        row = row_of(outcome, hold.place)
        if row is None or not is_mine(row, hold) or row.is_free or row.expiry_ms is None:
            holder = row.owner if row is not None and not row.is_free and row.owner != hold.owner else None
            hold.lose(gone=row is None or row.is_free or not is_mine(row, hold), holder=holder)
            return Renewal(False)
        if row.version == grant.version:  # an earlier send of this request, by a transport that repeats sends by itself
            return _extended(hold, sent, talk.elapsed, outcome.date)
        hold.go_above(row.expiry_ms)
    hold.lose()
    return Renewal(False)


def _extended(hold: Hold, sent: lease.ClockReading, now: float, date: int | None) -> Renewal:
    if hold.expire(now):
        return Renewal(False)
    hold.extend(sent.elapsed, date)
    return Renewal(True)


def release(
    hold: Hold,
    talk: Conversation,
    *,
    data: str | None = None,
    delete: bool | None = None,
    complete: bool = False,
    result: str | None = None,
) -> Steps[bool]:
    """End the hold, and release or delete its row. See rules 9 and 12.

    complete: complete the event in the same request, and store ``result``.

    Returns True if the lock is released, False if it was lost before. Raises TransportError(ambiguous=True) if the
    outcome is unknown, and the transport's error if nothing was done.
    """
    hold.end()
    done = completion(hold, talk, result) if complete else None
    delete = hold.delete_on_release if delete is None else delete
    request = last_write(hold, data, done, talk.elapsed, delete)
    until = talk.elapsed + DECISION
    before = hold.unclear
    hold.settle(unclear=True)
    outcome, unclear = yield from talk.exchange(request, until)
    if isinstance(outcome, Reply):
        if done is not None:
            hold.complete(done.until)
        return True  # still marked unclear: if an interrupt comes before the caller gets this, release is called again
    hold.settle(unclear=before or unclear)
    if isinstance(outcome, ConditionFailed):
        outcome = yield from _end_late(hold, talk, outcome, data, delete, until)
    return _judged(hold, outcome, talk.elapsed)


def _end_late(
    hold: Hold, talk: Conversation, refused: ConditionFailed, data: str | None, delete: bool, until: float
) -> Steps[Outcome]:
    """Release what a request of mine that landed late has left in the row. Returns the outcome that is to be judged."""
    for _ in range(STEPS):
        row = row_of(refused, hold.place)
        if row is None or row.is_free:
            break
        # A late copy of a claim found the lock free. No handle holds under it.
        copied = row.version in hold.claims and row.token != hold.token
        # My handover parked the hold under another owner and was interrupted, so nobody was given the string.
        parked = hold.handed_over and not hold.resumed and row.version == hold.version
        if not (copied or parked):
            break
        again = requests.release(
            hold.place,
            owner=row.owner or "",
            version=row.version,
            delete=delete,
            format=row.format,  # it may be another than the hold's
            content=requests.Content(data),
        )
        outcome, unclear = yield from talk.exchange(again, until)
        if parked and isinstance(outcome, Reply):
            return outcome
        hold.settle(unclear=hold.unclear or (parked and unclear))
        if not isinstance(outcome, ConditionFailed):
            return outcome if parked else refused
        refused = outcome  # a copy may have landed where an earlier send released that
    return refused


def _judged(hold: Hold, outcome: Outcome, now: float) -> bool:
    """Return whether a release with this outcome has ended the hold. Raises what `release` raises."""
    if isinstance(outcome, Reply):
        return True
    if not isinstance(outcome, ConditionFailed):
        raise _unknown(hold, outcome) if hold.unclear else outcome
    if hold.gone or not hold.unclear:
        return False
    row = row_of(outcome, hold.place)
    if row is not None and row.token == hold.token and base_of(row.owner) == base_of(hold.owner):
        if row.is_free:
            return True
        if row.owner != hold.owner:  # resumed by another attempt, which requires that it was not released
            return False
    if now < hold.valid_until and not hold.lost:
        return True
    raise _unknown(hold, outcome)


def last_write(
    hold: Hold, data: str | None, done: requests.Completion | None, now: float, delete: bool = False
) -> requests.Request:
    """Return the release of a hold. done: the completion of its event, if it completes one."""
    return requests.release(
        hold.place,
        owner=hold.owner,
        token=hold.token,
        delete=delete,
        expiry_ms=hold.expiry_ms,
        completed_until=hold.completed_until,
        completion=done,
        content=requests.Content(data, ttl=hold.ttl),
        held_ms=max(int((now - hold.since) * 1000), 0),  # waiters expect the same of the next holder
    )


def completion(hold: Hold, talk: Conversation, result: str | None) -> requests.Completion:
    """Return the completion of an event at this moment. The event gets its full window, even after a freeze."""
    assert hold.window is not None, "a plain lock completes nothing"
    return requests.Completion(-int(-talk.memory.server.after_freezes(talk.reading) // 1) + hold.window, result)


def _unknown(hold: Hold, cause: Exception) -> TransportError:
    return unknown(
        f"lock {hold.place.key!r} was released: no clear answer within {DECISION:.0f} s. If it was not, it ends with "
        f"its lease of {hold.lease_ms / 1000:g} s",
        hold.place.key,
        cause,
    )


def is_mine(row: Row, hold: Hold) -> bool:
    """Return whether a row has this hold's owner and token, released or not."""
    return row.owner == hold.owner and row.token == hold.token


def not_there(place: requests.Place, row: Row | None) -> LockLostError:
    """Return the error for a lock that turned out to be released, adopted, deleted or held by another owner."""
    holder, what = row.owner if row is not None and not row.is_free else None, f"lock {place.key!r}"
    shown = f"the row names {holder}" if holder else "it has no holder"
    if place.permits is not None:  # others may hold permits of it
        what, shown = f"the permit of semaphore {place.key!r}", shown if holder else "the row has it no more"
    return LockLostError(
        f"{what} is no longer ours: {shown}. It was released, adopted, resumed, or taken over after its lease had "
        "ended. Acquire it again",
        key=place.key,
        holder=holder,
    )


# -- when to renew


def needs_heartbeat(valid_until: float, deadline: float | None, lease_ms: int) -> bool:
    """Return whether validity ends so long before the deadline that renewing is worthwhile.

    deadline: elapsed seconds; None if there is none.
    """
    if deadline is None:
        return True
    return deadline - valid_until > max(0.5, lease_ms / 1000 / 100)


def next_heartbeat(now: float, valid_until: float) -> float:
    """Return when to renew next, in elapsed seconds: after a third of the remaining validity, but at least 0.3 s."""
    return now + max(MIN_PERIOD, (valid_until - now) / 3)


def first_heartbeat(now: float, valid_until: float, lease_ms: int) -> float:
    """As `next_heartbeat`, but now if less than 0.9 of the lease is left after the claim (slow clock or slow reply)."""
    if valid_until - now < 0.9 * lease_ms / 1000:
        return now
    return next_heartbeat(now, valid_until)
