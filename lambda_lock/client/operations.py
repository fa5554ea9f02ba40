"""What can be done with a lock that is held, besides its release: renew it, commit, hand it over. Loaded when used."""

from __future__ import annotations

from functools import partial

from ..core import lease, protocol
from ..errors import CommitRefusedError, LockArgumentError, LockConfigurationError, LockLostError
from ..runtime.signalsafe import released, unclear
from . import checks
from .held import LastAct
from .session import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..core.protocol import Conversation, Steps
    from .held import HeldLock


def heartbeat(
    held: HeldLock, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
) -> Operation[None]:
    """The operation of `Lock.heartbeat`."""
    encoded = held.encoded(data)
    if data is not None and delete_data:
        raise LockArgumentError("heartbeat takes data= or delete_data=True, not both", key=held.key)
    lease_ms = None
    if lease_duration is not None:
        lease_ms = int(checks.lease_duration(lease_duration) * 1000)
        checks.heartbeat_period(held.options.heartbeat_period, lease_duration)
    held.check_open()

    def steps(talk: Conversation) -> Steps[None]:
        yield from held.renewer.now(
            talk, partial(_check_renewable, held), lease_ms=lease_ms, data=encoded, delete_data=delete_data
        )
        if delete_data or data is not None:
            held.hold.note_data(encoded)

    return Operation(held.hold.place, steps, is_urgent=True)


def ensure(held: HeldLock, seconds: float) -> Operation[None]:
    """The operation of `Lock.ensure`."""
    checks.seconds("seconds", seconds, least=0.0)
    _check_renewable(held)
    end, needed = held.hold.lease_end, seconds * (1 + 2 * lease.DRIFT)
    is_enough = held.remaining() >= seconds
    if not is_enough and end is not None and end - held.elapsed() < needed:
        raise _cannot_ensure(held, seconds, end)
    # A renewal is worth its lease, less the drift and the time that its reply takes.
    lease_duration = max(held.lease_duration, needed + protocol.DECISION)

    def steps(talk: Conversation) -> Steps[None]:
        if is_enough:
            return
        yield from heartbeat(held, lease_duration=lease_duration).steps(talk)
        if end is not None and held.remaining() < seconds:  # the lease ends with the invocation
            raise _cannot_ensure(held, seconds, end)

    return Operation(held.hold.place, steps, is_urgent=True)


def _check_renewable(held: HeldLock) -> None:
    held.check_open()
    if held.is_lost():
        held.raise_if_lost()


def _cannot_ensure(held: HeldLock, seconds: float, end: float) -> LockArgumentError:
    return LockArgumentError(
        f"ensure({seconds:g}): the invocation ends in {end - held.elapsed():.1f} s, and the lease of {held.key!r} with "
        "it",
        key=held.key,
    )


def commit(held: HeldLock, items: Sequence[Mapping[str, Any]], data: bytes | None, result: object) -> LastAct[None]:
    """The operation of `Lock.commit`."""
    from ..core import transaction

    checked, encoded = checks.transact_items(items), held.encoded(data)
    text = held.checked_result(result, encoded)
    held.check_open()
    held.check_kept()
    held.count_for(result)

    def steps(talk: Conversation) -> Steps[None]:
        try:
            yield from transaction.commit([held.hold], checked, talk, data=encoded, result=text)
        except LockLostError:
            held.lose("lock %r was lost before its commit")
            raise
        except CommitRefusedError:
            held.note_release(not held.hold.lost)
            raise
        held.note_release(True)

    again = LastAct(held, held.releasing, held.check_not_released, released)
    return LastAct(held, steps, held.check_open, unclear, again)


def hand_over(held: HeldLock, lease_duration: float | None) -> LastAct[str]:
    """The operation of `Lock.hand_over`. Its string is lost with an interrupt, and the lock is released.

    A resumed lock is not released then but left to the next attempt: an earlier string of its hold is still good.
    """
    from ..core import handover

    duration = held.options.full_lease if lease_duration is None else checks.lease_duration(lease_duration)
    held.check_open()
    held.check_kept()
    hold = held.hold
    if hold.window is not None:
        raise LockConfigurationError(
            f"event {held.key!r} cannot be handed over: the process that adopts it could not complete it. Hand "
            "over a lock of @with_lock, or let the function that finishes the event deduplicate it",
            key=held.key,
        )

    def steps(talk: Conversation) -> Steps[str]:
        try:
            string = yield from handover.hand_over(hold, talk, lease_ms=int(duration * 1000))
        except LockLostError:
            held.renewer.lose("lock %r was lost before it was handed over")
            raise
        held.note_over()
        if not hold.handed_over:  # close() of the client has released it meanwhile
            raise unclear()
        return string

    def interrupted(talk: Conversation) -> Steps[bool]:
        if not hold.resumed or hold.unclear:
            return (yield from held.releasing(talk))
        hold.hand_over()  # the interrupt may have come before it
        held.abandon()
        return False

    def check() -> None:
        if not hold.handed_over:  # else the interrupt has taken the string away: release what it was for
            held.check_not_released()

    return LastAct(held, steps, held.check_open, unclear, LastAct(held, interrupted, check, released))
