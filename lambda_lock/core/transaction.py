"""Commit: the application's own writes and the lock's last write, in one transaction, only while the lock is held.

A lock alone cannot do this: if a holder was paused and writes late, DynamoDB itself refuses the write.

The rules, in addition to those of protocol.py
----------------------------------------------
1. From the first send on, the handle is neither held nor renewed. Commit is the lock's last act.
2. All sends have the same client token. So if a commit was carried out, sending it again is answered with "done".
3. A conflict with another transaction is not a refusal. The commit is tried again while validity lasts.
4. If every send of a commit was ambiguous, it is sent once more.
5. A refused commit is followed by a release, which completes no event. If the release is carried out, the lock was
   still ours after the refusal, and no longer is. Then no copy of the commit was or will be carried out, and the
   refusal is final.
6. Otherwise the same commit is sent once more. Success means done. A refusal by the lock's condition is final: no copy
   will be carried out any more, and if one had been, the answer would have been success (for the ten minutes for which
   DynamoDB remembers a client token). A refusal by the application's conditions alone proves nothing: the lock may
   still be ours, and a late copy may find those conditions changed. The error tells why the commit was refused first:
   the lock may have been lost, or released by a release without an answer, only after that.
7. Commit is not for a lock that deletes its row: a late copy of the claim could bring back the same owner and token.

A commit under several locks is one transaction too: the items and a release of every lock. Rules 1 to
4 and 7 hold for it as they stand, with the shortest validity. Instead of rules 5 and 6:

8. A refusal by any lock's condition is final, with what rule 6 says about answers: that lock is never ours again.
9. After another refusal, all locks are released. If one of these releases is carried out, no copy of the commit can
   find that lock held, so the refusal is final. If none is, the commit is sent once more, as in rule 6.
"""

from __future__ import annotations

from ..errors import CommitRefusedError, LockError
from . import lease, requests
from .keep import completion, is_mine, last_write, not_there
from .outcome import Reply, ServiceError, TransactionCanceled, may_pass, unknown
from .protocol import OUTAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..errors import TransportError
    from .outcome import Outcome
    from .protocol import Conversation, Hold, Steps
    from .row import Row

_TOKEN_KNOWN = 590.0  # seconds; DynamoDB remembers a client token for ten minutes (API reference, TransactWriteItems)
_CONFLICT = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "None"})


def commit(
    holds: list[Hold],
    items: list[dict[str, Any]],
    talk: Conversation,
    released: Callable[[Hold], None] | None = None,
    *,
    data: str | None = None,
    result: str | None = None,
) -> Steps[None]:
    """Write ``items`` and release the locks, all or none. For an event, complete it too, and store ``result``.

    items: together with the locks at most 100, as DynamoDB JSON.
    released: for a commit under several locks (rules 8 and 9): called with each hold whose release was carried out
        although the commit was not. After LockLostError and CommitRefusedError, the others are still to be released.
        None for the commit of one lock.

    If an event was completed, the hold is `completed`.

    Raises LockLostError, with the key of the lock, if one was no longer ours, CommitRefusedError if the application's
    own conditions did not hold (a single lock is then released, or the hold is lost), TransportError(ambiguous=True) if
    the outcome is unknown, and the service's error for items that DynamoDB does not accept.
    """
    alone = holds[0] if released is None else None
    for hold in holds:
        hold.end()
        hold.settle(unclear=True)
    done = completion(alone, talk, result) if alone is not None and alone.window is not None else None
    updates = [{"Update": last_write(hold, None, None, talk.elapsed)[1]} for hold in holds[:-1]]
    last = last_write(holds[-1], data, done, talk.elapsed)
    request, until = all_or_none([*items, *updates], last, talk.entropy.nonce()), talk.elapsed + _TOKEN_KNOWN
    shortest = min(holds, key=lambda hold: hold.valid_until)
    refused, unclear = yield from _send(request, shortest, talk)
    if may_pass(refused) and unclear:
        refused, _ = yield from talk.exchange(request)
    if isinstance(refused, Reply):
        return _note_done(alone, done)
    if may_pass(refused):
        raise _unknown(holds, alone, refused) if unclear else refused
    if alone is None and _lost_among(holds, refused):
        raise _refusal(holds, alone, refused) if talk.elapsed < until else _unknown(holds, alone, refused)
    final, doubtful, unanswered = False, False, 0
    for hold in reversed(holds):
        plain = last_write(hold, data, None, talk.elapsed)
        outcome, doubtful = yield from talk.exchange(plain)
        if isinstance(outcome, Reply):
            final = True
            if released is not None:
                released(hold)
        unanswered = unanswered + 1 if may_pass(outcome) else 0
        if unanswered == OUTAGE:
            break
    if final:
        raise _refusal(holds, alone, refused)
    again, _ = yield from talk.exchange(request)
    if isinstance(again, Reply):
        return _note_done(alone, done)
    if isinstance(refused, ServiceError) and not unclear:
        raise refused
    if not _lost_among(holds, again) or talk.elapsed >= until:
        raise _unknown(holds, alone, again)
    # Otherwise the release without an answer may have been carried out: rule 9 of protocol.py.
    if alone is not None and (not doubtful or talk.elapsed >= alone.valid_until):
        alone.lose()
    raise _refusal(holds, alone, refused)


def all_or_none(items: list[dict[str, Any]], last: requests.Request, client_token: str) -> requests.Request:
    """Carry out the application's writes and the lock's ``last`` write, all or none. The same client token means the
    same commit."""
    return "TransactWriteItems", {"TransactItems": [*items, {"Update": last[1]}], "ClientRequestToken": client_token}


def _note_done(alone: Hold | None, done: requests.Completion | None) -> None:
    if alone is not None and done is not None:
        alone.complete(done.until)


def _lost_among(holds: list[Hold], outcome: Outcome) -> list[tuple[Hold, Row | None]]:
    """Return the locks whose own conditions did not hold, with their rows."""
    if not isinstance(outcome, TransactionCanceled):
        return []
    refusals = zip(holds, outcome.reasons[-len(holds) :], outcome.items[-len(holds) :], strict=True)
    return [
        (hold, hold.place.view(item) if item else None)
        for hold, reason, item in refusals
        if reason == "ConditionalCheckFailed"
    ]


def _refusal(holds: list[Hold], alone: Hold | None, outcome: Outcome) -> Exception:
    """Return the error to raise for a commit that was refused for good."""
    if not isinstance(outcome, TransactionCanceled):
        assert isinstance(outcome, Exception)
        return outcome
    error: LockError
    lost = _lost_among(holds, outcome)
    if lost:
        hold, row = next(((hold, row) for hold, row in lost if row is None or not is_mine(row, hold)), lost[0])
        error = not_there(hold.place, row)
    else:
        reasons = tuple(outcome.reasons[: -len(holds)])
        error = CommitRefusedError(
            f"the commit under {_named(holds, alone)} was refused, and nothing was written: {', '.join(reasons)}",
            key=None if alone is None else alone.place.key,
            reasons=reasons,
        )
    error.__cause__ = outcome
    return error


def _unknown(holds: list[Hold], alone: Hold | None, cause: Exception) -> TransportError:
    what = f"the commit under {_named(holds, alone)} was carried out: no clear answer came"
    return unknown(what, None if alone is None else alone.place.key, cause)


def _named(holds: list[Hold], alone: Hold | None) -> str:
    keys = ", ".join([repr(hold.place.key) for hold in holds])
    return f"the locks {keys}" if alone is None else f"lock {keys}"


def _send(request: requests.Request, hold: Hold, talk: Conversation) -> Steps[tuple[Outcome, bool]]:
    """Send the commit. Send it again while validity lasts and only conflicts with other transactions prevent it.

    There is a pause before each further decision. Returns what `Conversation.exchange` returns.
    """
    tries, unclear = 0, False
    while True:
        outcome, ambiguous = yield from talk.exchange(request)
        unclear = unclear or ambiguous
        pause = lease.backoff(tries, 1.0, talk.entropy.jitter())
        tries += 1
        conflict = isinstance(outcome, TransactionCanceled) and _CONFLICT.issuperset(outcome.reasons)
        if not conflict or talk.elapsed + pause >= hold.valid_until:
            return outcome, unclear
        yield from talk.wait(pause)
