"""Handing a lock over: the handle here ends, and another process continues with the same lock.

The rules, in addition to those of protocol.py
----------------------------------------------
1. The handle ends before the first send of `hand_over`, which renews to the full lease. If the renewal is refused, the
   lock is lost. If its outcome is ambiguous, the string is returned all the same, and the process that adopts it finds
   out.
2. `adopt` is a renewal under the same owner that raises the fencing token. So a second adopt of the same string is
   refused, because its token is old. Late renewals and releases of the previous handle are refused too.
3. Versions keep rising. If no Date is known, adopt reads the row first. It goes above the version that it finds. If the
   expiry of a grant had to be too far in the future for its lease, the grant is corrected, like any other.
4. An adopt that is given up is followed by a release under its version, like a claim.
5. A resumed handle that hands over *parks* the hold under ``o/``, an owner that no handle uses (resume.py). Under
   ``o``, it would belong to a first handle that is still alive. So adopt accepts two owners in the row: ``o``, and
   ``o/``, from which it goes on under an owner of its own. It refuses the owner of an attempt. The string names ``o``.
6. A lock that deletes its row cannot be handed over: a late copy of the claim could bring back its owner and token, and
   a second adopt would be granted. The process that adopted the lock must not delete the row either.
"""

from __future__ import annotations

import json  # the Lambda runtime has it loaded
from binascii import a2b_base64, b2a_base64, crc32

from ..errors import LockFormatError
from . import requests
from .acquire import Acquisition, Read, Take
from .keep import is_mine, not_there
from .outcome import ConditionFailed, Reply, expected, is_ambiguous
from .protocol import DECISION, STEPS, row_of
from .requests import bare_name
from .row import MOST_PERMITS, base_of, is_attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .acquire import Next
    from .outcome import Item
    from .protocol import AcquireRequest, Conversation, Hold, Steps
    from .row import Row

_FORMAT = "LH1"


class Handover:
    """The content of a handover string: the lock, and the owner and token that it is held under.

    permits: N of a semaphore; None for a lock.
    """

    def __init__(
        self,
        table: str,
        key: str,
        sort_key: str | None,
        owner: str,
        token: int,
        lease_ms: int,
        permits: int | None = None,
    ) -> None:
        self.table = table
        self.key = key
        self.sort_key = sort_key
        self.owner = owner
        self.token = token
        self.lease_ms = lease_ms
        self.permits = permits


def write_handover(hold: Hold) -> str:
    """Return the handover string. It is ASCII without spaces, so it fits into JSON, a header or a queue."""
    place = hold.place
    owner = base_of(hold.owner)
    fields = [bare_name(place.table), place.key, place.sort_key, owner, hold.token, hold.lease_ms]
    return _encoded(fields if place.permits is None else [*fields, place.permits])


def _encoded(fields: list[Any]) -> str:
    text = json.dumps(fields, separators=(",", ":")).encode()
    return f"{_FORMAT}.{b2a_base64(text, newline=False).decode()}.{crc32(text):08x}"


def read_handover(string: object, table: str, method: str = "adopt") -> Handover:
    """Read a handover string. ``method`` is the one that was given it, for errors.

    Raises LockFormatError if `write_handover` did not write it, or wrote it for another table.
    """
    held = ". A lock that is held here is released by its own lock.release()" if method == "release" else ""
    if not isinstance(string, str):
        raise LockFormatError(
            f"{method} takes the str that hand_over() returned, not {type(string).__name__}; or key=, owner= and "
            f"fencing_token={held}"
        )
    try:
        encoded = string.partition(".")[2].partition(".")[0]
        fields = json.loads(a2b_base64(encoded, strict_mode=True))
        if _encoded(fields) != string:  # must match exactly, because the same data has many forms in base64 and hex
            raise ValueError("its checksum is wrong")
        handover = Handover(*_checked(fields))
    except expected(ValueError, RecursionError) as error:
        name = "token" if method == "adopt" else "string"
        raise LockFormatError(
            f"{name}={string[:20]!r}{'…' if len(string) > 20 else ''} did not come from hand_over(), or was cut or "
            f"changed on its way. Pass the string on unchanged{held}"
        ) from error
    if handover.table != bare_name(table):
        raise LockFormatError(
            f"lock {handover.key!r} was handed over in table {handover.table!r}, but this client uses "
            f"{bare_name(table)!r}: {method} it with a client for the same table",
            key=handover.key,
        )
    return handover


def _checked(fields: Any) -> list[Any]:
    kinds: tuple[Any, ...] = (str, str, (str, type(None)), str, int, int, int)
    if not isinstance(fields, list) or not 0 <= len(kinds) - len(fields) <= 1:  # without N: a lock
        raise ValueError("its fields are not those of a lock")
    if not all(
        isinstance(field, kind) and not isinstance(field, bool) for field, kind in zip(fields, kinds, strict=False)
    ):
        raise ValueError("its fields are not those of a lock")
    if not (0 <= fields[4] < 10**37 and 0 < fields[5] < 10**15 and 1 <= (fields[6:] or [1])[0] <= MOST_PERMITS):
        raise ValueError("its token, lease or number of permits is out of range")
    return fields


def hand_over(hold: Hold, talk: Conversation, *, lease_ms: int) -> Steps[str]:
    """End the hold and renew it to ``lease_ms``, even beyond this invocation. Return the string to adopt.

    Raises LockLostError if the renewal is refused, LockFormatError if the row refuses every version of ours, and the
    transport's error if DynamoDB refuses the request for good.
    """
    hold.hand_over()
    lease_ms = hold.place.schema.round_lease(lease_ms)
    until = talk.elapsed + DECISION
    for _ in range(STEPS):
        grant = hold.rise(lease_ms, talk.now(), talk.entropy.nonce())
        is_resumed = is_attempt(hold.owner)
        if is_resumed:
            grant.owner = parked(hold.owner)
        request = requests.renew(
            hold.place,
            grant,
            seen=hold.owner if is_resumed else None,
            token=hold.token,
            completed_until=hold.completed_until,
            content=requests.Content(ttl=hold.ttl),
        )
        outcome, unclear = yield from talk.exchange(request, until)
        row = row_of(outcome, hold.place)
        if isinstance(outcome, Reply) or (row is not None and row.version == grant.version and not row.is_free):
            return write_handover(hold)
        if not isinstance(outcome, ConditionFailed):
            if unclear or is_ambiguous(outcome):
                return write_handover(hold)
            hold.withdraw()
            raise outcome
        if row is None or not is_mine(row, hold) or row.is_free or row.expiry_ms is None:
            hold.withdraw()
            raise not_there(hold.place, row)
        hold.go_above(row.expiry_ms)
    hold.withdraw()
    raise damaged(hold.place.key)


def parked(owner: str) -> str:
    """Return the owner under which a resumed handle parks its hold: one that no handle uses."""
    return f"{base_of(owner)}/"


def damaged(key: str) -> LockFormatError:
    """Return the error for a row that names the hold but refused STEPS versions above the one that it shows."""
    return LockFormatError(
        f"the row of lock {key!r} names its owner and token, but refuses {STEPS} versions above the one that it shows: "
        "lambda_lock did not write it. The row is left alone; delete it once no work is done under the lock",
        key=key,
    )


class Adoption(Acquisition):
    """An acquisition whose first write adopts. It corrects and gives up like any other acquisition."""

    def __init__(self, token: int, wanted: AcquireRequest, *shared: Any) -> None:
        """token: as handed over. shared: what an Acquisition takes besides."""
        super().__init__(wanted, *shared)
        self.token = token
        self.base = self.seen = base_of(wanted.owner)

    def first(self) -> Next:
        return Take() if self.talk.memory.server.is_known and self.wanted.place.permits is None else Read()

    def see(self, item: Item | None, date: int | None) -> Next:
        place = self.wanted.place
        row = place.row(item)
        if row is not None:
            row.require_lock(place.key)
        if row is not None and not row.is_free and row.version in self.sent:
            return self.own(row, row.version, date)
        mine = row is not None and row.owner in (self.base, parked(self.wanted.owner)) and row.token == self.token
        if row is None or not mine or row.is_free or row.expiry_ms is None:
            raise not_there(place, row)
        self.seen = row.owner
        if row.owner != self.base and not is_attempt(self.wanted.owner):
            # Earlier sends cannot land: they require the base.
            self.wanted.owner = f"{row.owner}{self.talk.entropy.nonce()}"
        self.above_ms = max(self.above_ms, row.expiry_ms)  # versions of one holder rise
        return Take()

    def contradicted(self) -> LockFormatError:
        return damaged(self.wanted.place.key)

    def own(self, row: Row, version: str, date: int | None) -> Hold | Take:
        self.above_ms = 0  # adopted: a correction takes the row over under its version, so its expiry may be lower
        return super().own(row, version, date)

    def request(self, step: Take, grant: requests.Grant) -> requests.Request:
        if step.version is not None:  # a correction
            return super().request(step, grant)
        return requests.renew(
            self.wanted.place,
            grant,
            seen=self.seen,
            token=self.token,
            next_token=True,
            completed_until=None,
            content=requests.Content(ttl=self.wanted.content.ttl),
        )


def adopt(
    wanted: AcquireRequest, token: int, talk: Conversation, *, keep: Callable[[Hold], None] | None = None
) -> Steps[Hold]:
    """Continue with the lock that ``wanted.owner`` handed over under ``token``. ``keep`` is as for acquire.acquire.

    Raises LockLostError if the lock is gone or was adopted before, LockFormatError if its row refuses every version of
    ours, and otherwise what acquire.acquire raises.
    """
    return Adoption(token, wanted, talk, keep).finish()  # not `yield from`: one frame less
