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
   still be ours, and a late copy may find those conditions changed.
7. Commit is not for a lock that deletes its row: a late copy of the claim could bring back the same owner and token.
"""

from __future__ import annotations

from ..errors import CommitRefusedError, LockError, TransportError
from . import lease, requests
from .keep import completion, is_mine, not_there
from .outcome import Reply, ServiceError, TransactionCanceled
from .protocol import DECISION, Wait, exchange, may_pass
from .row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .lease import Look
    from .outcome import Outcome
    from .protocol import Chance, Hold, Memory, Steps

_TOKEN_KNOWN = 590.0  # seconds; DynamoDB remembers a client token for ten minutes (API reference, TransactWriteItems)
_CONFLICT = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "None"})


def commit(
    hold: Hold,
    items: list[dict[str, Any]],
    memory: Memory,
    chance: Chance,
    look: Look,
    *,
    data: str | None = None,
    result: str | None = None,
) -> Steps[None]:
    """Write ``items`` and release the lock, all or none. For an event, complete it too, and store ``result``.

    items: at most 99, as DynamoDB JSON.

    If an event was completed, the hold is `completed`.

    Raises LockLostError if the lock was no longer ours, CommitRefusedError if the application's own conditions did not
    hold (the lock is then released), TransportError(ambiguous=True) if the outcome is unknown, and the service's error
    for items that DynamoDB does not accept.
    """
    hold.end()
    hold.doubt()
    is_event = hold.window is not None
    last = _release(hold, data, completion(hold, memory, look, result) if is_event else None, memory, look)
    request, until = requests.commit(items, last, chance.nonce()), look.elapsed + _TOKEN_KNOWN
    refused, unclear, look = yield from _send(request, hold, memory, chance, look)
    if may_pass(refused) and unclear:
        refused, _, look = yield from exchange(request, memory, chance, look, look.elapsed + DECISION)
    if isinstance(refused, Reply):
        if is_event:
            hold.complete()
        return
    if may_pass(refused):
        raise _unknown(hold, refused) if unclear else refused
    plain = _release(hold, data, None, memory, look)
    released, _, look = yield from exchange(plain, memory, chance, look, look.elapsed + DECISION)
    if isinstance(released, Reply):
        raise _refusal(hold, refused)
    again, _, look = yield from exchange(request, memory, chance, look, look.elapsed + DECISION)
    if isinstance(again, Reply):
        if is_event:
            hold.complete()
        return
    if isinstance(refused, ServiceError) and not unclear:
        raise refused
    if not _is_lost(again) or look.elapsed >= until:
        raise _unknown(hold, again)
    row = _lock_row(hold, again)
    raise _refusal(hold, refused if row is not None and is_mine(row, hold) else again)


def _release(
    hold: Hold, data: str | None, completion: requests.Completion | None, memory: Memory, look: Look
) -> requests.Request:
    return requests.release(
        hold.place,
        owner=hold.owner,
        token=hold.token,
        delete=False,
        expiry_ms=hold.expiry_ms,
        completed_until=hold.completed_until,
        completion=completion,
        content=requests.Content(data, ttl=hold.ttl),
        held_ms=hold.held_ms(look),
        free_since_ms=memory.server.free_since_ms(look),
    )


def _send(
    request: requests.Request, hold: Hold, memory: Memory, chance: Chance, look: Look
) -> Steps[tuple[Outcome, bool, Look]]:
    """Send the commit. Send it again while validity lasts and only conflicts with other transactions prevent it.

    There is a pause before each further decision. Returns what `exchange` returns: the outcome, whether any send was
    ambiguous, and the last look.
    """
    tries, unclear = 0, False
    while True:
        outcome, ambiguous, look = yield from exchange(request, memory, chance, look, look.elapsed + DECISION)
        unclear = unclear or ambiguous
        pause = lease.backoff(tries, 1.0, chance.jitter())
        tries += 1
        if not _is_conflict(outcome) or look.elapsed + pause >= hold.valid_until:
            return outcome, unclear, look
        look = (yield Wait(pause)).look


def _is_conflict(outcome: Outcome) -> bool:
    return isinstance(outcome, TransactionCanceled) and _CONFLICT.issuperset(outcome.reasons)


def _is_lost(outcome: Outcome) -> bool:
    """Return whether the lock's own condition did not hold."""
    return isinstance(outcome, TransactionCanceled) and outcome.reasons[-1:] == ["ConditionalCheckFailed"]


def _lock_row(hold: Hold, outcome: Outcome) -> Row | None:
    assert isinstance(outcome, TransactionCanceled)
    item = outcome.items[-1]
    return Row(item, hold.place.schema) if item else None  # anything unreadable in it is not mine


def _refusal(hold: Hold, outcome: Outcome) -> Exception:
    """Return the error to raise for a commit that was refused for good."""
    key = hold.place.key
    error: LockError
    if not isinstance(outcome, TransactionCanceled):
        assert isinstance(outcome, Exception)
        return outcome
    if _is_lost(outcome):
        error = not_there(key, _lock_row(hold, outcome))
    else:
        error = CommitRefusedError(
            f"the commit under lock {key!r} was refused, and nothing was written: {', '.join(outcome.reasons[:-1])}",
            key=key,
            reasons=tuple(outcome.reasons[:-1]),
        )
    error.__cause__ = outcome
    return error


def _unknown(hold: Hold, cause: Exception) -> TransportError:
    key = hold.place.key
    error = TransportError(
        True, f"it is unknown whether the commit under lock {key!r} was carried out: no clear answer came", key=key
    )
    error.__cause__ = cause
    return error
