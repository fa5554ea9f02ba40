"""The holds of one block: one for each of its keys. No SDK here.

They are taken in one order, which everybody has (core/several.py, rule 1), and released in the reverse order.
"""

from __future__ import annotations

from ..core.several import OUTAGE
from ..errors import LockError, LockLostError, TransportError
from ..observe.log import logger, tell, tell_not_released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..client.lock import Lock
    from .hold import DurableHold


class Holds:
    """The holds of one block, in the order in which they are taken."""

    def __init__(self, holds: list[DurableHold]) -> None:
        self.all = holds
        self.taken: list[DurableHold] = []  # those whose acquire is checkpointed
        self.unreleased = holds  # as far as this process knows

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(hold.key for hold in self.all)

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing tokens by key, of those that were granted."""
        return {hold.key: hold.token for hold in self.all if hold.token >= 0}

    @property
    def lease_duration(self) -> float:
        """Seconds. All have the same."""
        return self.all[0].lease_duration

    def verified(self) -> list[Lock]:
        """Return the attempts of this invocation, which all hold their locks now. Raises as DurableHold.verified."""
        for hold in self.all:
            hold.verified()
        return [hold.verified() for hold in self.all]  # by the clocks: the requests for the others took time

    def renew_for(self, needed: float) -> None:
        """Renew each lease to its full length and end the attempts.

        Raises the error of one that is not renewed, if its lease is not known to last for another ``needed`` seconds.
        A lost one raises nothing here: the next verification does.
        """
        left = {hold: hold.remaining() for hold in self.all}
        for hold, error in _tried(self.all, lambda hold: hold.renew_and_end()):
            if error is not None:
                if left[hold] < needed and not isinstance(error, LockLostError):
                    raise error
                _tell_not_renewed(hold, error)

    def suspend(self) -> None:
        """Renew what is taken to the full lease, and end all attempts. Errors are logged."""
        try:
            for hold, error in _tried(self.taken, lambda hold: hold.renew_and_end()):
                if error is not None:
                    _tell_not_renewed(hold, error)
        finally:
            self.leave()

    def release(self) -> None:
        """Release what was granted, any number of times. Raises the first error, once each one was tried."""
        granted = [hold for hold in self.all if hold.token >= 0]
        failed = [(hold, error) for hold, error in _tried(granted, lambda hold: hold.release()) if error is not None]
        self.unreleased = [hold for hold, _ in failed]
        for _, error in failed:
            raise error

    def tell_not_released(self, error: LockError) -> None:
        """Log the error of a release that is not tried again."""
        for hold in self.unreleased:
            if hold.token >= 0:
                tell_not_released(logger, error, key=hold.key, owner=hold.owner)

    def leave(self) -> None:
        """End the attempts, without a request."""
        for hold in self.all:
            hold.leave()


def _tried(
    holds: Iterable[DurableHold], act: Callable[[DurableHold], object]
) -> Iterator[tuple[DurableHold, LockError | None]]:
    """Act on each hold, the newest first, and yield it with its error.

    Once so many in a row get no answer, the rest is not tried, and has the last error. This bounds the time.
    """
    unanswered, error = 0, None
    for hold in reversed(list(holds)):
        if unanswered < OUTAGE:
            error = None
            try:
                act(hold)
            except LockError as failed:
                error = failed
            unanswered = unanswered + 1 if isinstance(error, TransportError) else 0
        yield hold, error


def _tell_not_renewed(hold: DurableHold, error: LockError) -> None:
    event = "lost" if isinstance(error, LockLostError) else "renewal_failed"
    message = "lock %r was not renewed for the suspension of its execution: %s"
    tell(logger, event, message, hold.key, error, key=hold.key, owner=hold.owner)
