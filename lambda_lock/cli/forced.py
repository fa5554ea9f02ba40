"""A release by somebody other than the holder. Only people do that, and only here: no other code path does."""

from __future__ import annotations

from collections.abc import Sequence

from ..client.lock_client import LockClient
from ..client.record import LockRecord
from ..client.session import Operation
from ..core import protocol, requests
from ..core.outcome import ConditionFailed, Reply
from ..core.permits import PermitPlace
from ..core.row import RATE, Row
from ..errors import Holder, TransportError
from . import show
from .exits import ask_for, say


def confirm(record: LockRecord, permits: Sequence[Holder] = (), act: str = "release") -> None:
    """Show a lock, and ask for its key. Raises Failure if another text is typed. act: what is about to be done."""
    show.print_record(record, err=True)
    for permit in permits:
        say(f"to be released: the permit of {permit.owner}")
    if record.rate is not None:
        say("the limit begins anew: who waits for a start now will start beside the new ones", "yellow")
    elif not (record.is_expired or record.is_released):
        say("the holder may still be working: until it notices that, two may be working at once", "yellow")
    ask_for(record.key, f"Type the key to {act} it", f"not {act}d")


def force_release(client: LockClient, record: LockRecord, permit: Holder | None) -> Row | None:
    """Release the lock as it stands in ``record``, under its version: never a newer holder, never a renewed lock.

    The row of a rate limit is deleted: marked as released, it would be a free lock.

    permit: release this permit of a semaphore instead, under its owner and token: never that of a later attempt.

    Returns None if it was released. Otherwise it returns the row that is there instead. A row without a version
    means that there is no row. The time to live stays as it is, since the row may be another client's. Raises what
    `LockClient.get` raises, and TransportError if the outcome is unknown.
    """
    session = client.__session__
    place, what = session.settings.place(record.key, record.sort_key), f"lock {record.key!r}"
    if permit is not None:
        assert permit.owner is not None
        place, what = PermitPlace(place, 1, permit.owner), f"a permit of {record.key!r}"

    def steps(talk: protocol.Conversation) -> protocol.Steps[Row | None]:
        if permit is None:
            request = _release_of(record, place)
        else:
            place.row((yield from talk.ask(requests.read(place))).item)  # which says whether the row counts weights
            request = requests.release(place, owner=permit.owner or "", token=permit.fencing_token)
        outcome, unclear = yield from talk.exchange(request)
        if isinstance(outcome, Reply):
            return None
        if not isinstance(outcome, ConditionFailed):
            raise TransportError(True, f"it is unknown whether {what} was released") if unclear else outcome
        row = place.view(outcome.item or {})
        # After a lost reply, the release was done if this version is released, the row deleted, or the permit gone.
        if permit is None:
            done = row.version is None or (row.version == record.version and row.is_free)
        else:
            done = row.token != permit.fencing_token
        return None if unclear and done else row

    return session.run(Operation(place, steps))


def _release_of(record: LockRecord, place: requests.Place) -> requests.Request:
    update = requests.Update(place)
    update.expect(version={"S": record.version or RATE})
    if place.schema.released is None or record.rate is not None:
        return update.request("DeleteItem")
    update.expect(released=None)
    update.end(record.owner or "", None)
    return update.request()
