"""Time: how long a lease is valid, for its holder and for waiters. This is pure arithmetic; no code here reads a clock.

No local wall clock decides anything between two machines. There are three rules, where L is the lease:

- **Expiry, as written.** ``E = now + L + GRACE`` in whole ms, where ``now`` is the best guess of DynamoDB's time
  (ServerTime). The guess may be wrong, so the two rules below do not trust it.
- **Holder** (`validity`). The lock is valid for ``min(L, E - D - MARGIN) * (1 - DRIFT)``, counted from *before the
  first send* of the request that was granted. D is the Date of a reply that showed the grant. The first term is safe
  because a waiter without Dates counts L from a reply that it got later than that. The second is safe because a waiter
  with Dates waits for E.
- **Waiter** (`Observations`). A held row may be taken over when ``Date >= E``. It may also be taken over when its
  version has not changed for its lease. The waiter measures that with its monotonic clock (``>= L * (1 + DRIFT)``) or
  between the Dates of two replies (``>= L + 2 s``, and more if L is over 500 s, because a holder with another client
  library makes no allowance for drift).

Why the holder's second term is safe: a Date is truncated to whole seconds, and front ends agree to within 0.5 s. So two
Dates taken at the same true moment differ by less than 1.5 s = MARGIN. When ``E - D - MARGIN`` has passed since the
reply that showed D, no front end says E yet.

Elapsed time (`ClockReading.elapsed`) is summed over successive looks at all available clocks. Each look adds the
largest advance of any clock. A frozen environment may stop any of the clocks, and a wall clock may be stepped back.
Summed like this, time never lags behind as long as one clock runs. It may run ahead, but that only ends validity early.
A waiter's time must not run ahead, so a waiter uses the monotonic clock alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Protocol

    class Leased(Protocol):
        """What is held for a lease: a lock's row, or an entry of a semaphore's."""

        @property
        def version(self) -> str | None: ...
        @property
        def expiry_ms(self) -> int | None: ...


GRACE = 2.0  # seconds between the end of a lease and its stored expiry
MARGIN = 1.5  # seconds; how much two Dates of one moment may differ: 1 s by truncation, 0.5 s between front ends
TRUNCATED = 0.5  # seconds; how much is cut off a Date, on average: at most 0.5 s more or less
DRIFT = 1 / 1000  # how much the rates of two clocks may differ
MIN_LEASE = 1.0  # seconds; a shorter lease would not survive a single lost reply
_FAST_CLOCK = 3.0  # seconds; an expiry this much too late came from a fast clock and would make others wait in vain
_ROUND_TRIP = 1.0  # seconds; a Date from a longer round trip says too little about the present
FIRST_BACKOFF = 0.05  # seconds


class ClockReading:
    """One reading of the clocks, in seconds. It never changes.

    elapsed: never lags behind true time, continues through freezes, and never steps back.
    monotonic: never runs ahead.
    wall: may be wrong by any amount.
    """

    __slots__ = ("boottime", "elapsed", "monotonic", "wall")

    def __init__(self, elapsed: float, monotonic: float, wall: float, boottime: float = 0.0) -> None:
        self.elapsed = elapsed
        self.monotonic = monotonic
        self.wall = wall
        self.boottime = boottime

    def after(self, monotonic: float, boottime: float, wall: float) -> ClockReading:
        """Return the next look, which shows these clocks. Its elapsed time adds the largest advance of any clock.

        Comparing with one fixed starting point and taking the larger difference is not enough. If the wall clock is
        stepped back in between, that hides a later freeze of the other clocks (in 1 % of the simulated runs, holders
        overlapped).
        """
        advance = max(monotonic - self.monotonic, boottime - self.boottime, wall - self.wall, 0.0)
        made = ClockReading.__new__(ClockReading)  # without a call of __init__: seven looks are taken for each lock
        made.elapsed = self.elapsed + advance
        made.monotonic = monotonic
        made.wall = wall
        made.boottime = boottime
        return made


class ServerTime:
    """The best guess of DynamoDB's time: the wall clock until a Date is known, and from then on Dates alone.

    A Date (+ TRUNCATED) is anchored at the middle of its round trip, if that took less than a second.
    Until there is such a Date, one from a longer round trip is used, anchored at its end.
    """

    __slots__ = ("_anchor", "_newest")

    def __init__(self) -> None:
        # Date, the elapsed time before its request was sent, and the monotonic time of its receipt
        self._newest: tuple[int, float, float] | None = None
        # epoch seconds, the monotonic time at which that was, and whether it came from a quick trip
        self._anchor: tuple[float, float, bool] | None = None

    @property
    def is_known(self) -> bool:
        return self._anchor is not None

    def note(self, date: int | None, sent: ClockReading, received: ClockReading) -> None:
        if date is None:
            return
        self._newest = (date, sent.elapsed, received.monotonic)
        if received.elapsed - sent.elapsed < _ROUND_TRIP:
            self._anchor = (date + TRUNCATED, (sent.monotonic + received.monotonic) / 2, True)
        elif self._anchor is None or not self._anchor[2]:
            self._anchor = (date + TRUNCATED, received.monotonic, False)

    def now(self, reading: ClockReading) -> float:
        """Return DynamoDB's time in epoch seconds."""
        anchor = self._anchor
        if anchor is None:
            return reading.wall
        return anchor[0] + (reading.monotonic - anchor[1])

    def after_freezes(self, reading: ClockReading) -> float:
        """As `now`, but not late after a freeze. `now` uses the monotonic clock, which a freeze may stop."""
        if self._newest is None:
            return reading.wall
        date, sent, _ = self._newest
        return max(self.now(reading), date + TRUNCATED + reading.elapsed - sent)

    def bounds(self, reading: ClockReading) -> tuple[float, float, float] | None:
        """Return between which two times DynamoDB's is, in epoch seconds, and how old the newest Date is, in seconds.

        None while no Date is known.
        """
        if self._newest is None:
            return None
        date, sent, received = self._newest
        age = reading.elapsed - sent
        return date + reading.monotonic - received, date + 1 + age, age


def expiry_ms(now: float, lease_ms: int) -> int:
    """Return the expiry to write, in epoch ms, for a lease of ``lease_ms`` taken at ``now`` (epoch seconds)."""
    return int((now + GRACE) * 1000) + lease_ms


def validity(lease_ms: int, expiry_ms: int, date: int) -> float:
    """Return how many seconds a grant is valid, counted from before its first send (see "Holder" above)."""
    return min(lease_ms / 1000, expiry_ms / 1000 - date - MARGIN) * (1 - DRIFT)


def clock_was_fast(lease_ms: int, expiry_ms: int, date: int) -> bool:
    """Return whether an expiry is so far beyond its reply's Date that others would wait in vain for it."""
    return expiry_ms > date * 1000 + lease_ms + (GRACE + _FAST_CLOCK) * 1000


class Observation:
    """When a version was first seen, by the waiter's monotonic clock and by the server's Date."""

    __slots__ = ("date", "lease_ms", "monotonic", "version")

    def __init__(self, version: str, lease_ms: int, monotonic: float, date: int | None) -> None:
        self.version = version
        self.lease_ms = lease_ms
        self.monotonic = monotonic
        self.date = date

    def is_over(self, monotonic: float, date: int | None) -> bool:
        """Return whether the version has not changed for its lease: the older clients' rule, and the rule for their
        rows."""
        if (monotonic - self.monotonic) * 1000 >= self.lease_ms * (1 + DRIFT):
            return True
        if date is None or self.date is None:
            return False
        # Dates of one moment differ by less than MARGIN. Holders with other client libraries do not allow for drift.
        return (date - self.date) * 1000 >= self.lease_ms + max(2000, MARGIN * 1000 + self.lease_ms * DRIFT)

    def seconds_left(self, monotonic: float) -> float:
        return self.lease_ms / 1000 * (1 + DRIFT) - (monotonic - self.monotonic)


def drop_oldest(seen: dict[Any, Any], most: int) -> None:
    """Remove the entry that has been there the longest, if there are more than ``most``."""
    if len(seen) > most:
        oldest, *_ = list(seen)  # a copy, because another thread may add entries meanwhile
        seen.pop(oldest, None)


class Observations:
    """What was seen of other holders, remembered across calls and invocations: at most ``size`` rows, oldest dropped.

    So repeated fail-fast calls in a warm environment can free the lock of a dead holder with another client library.
    """

    __slots__ = ("_seen", "_size")

    def __init__(self, size: int) -> None:
        self._seen: dict[object, Observation | Observations] = {}
        self._size = size

    def note(self, where: object, row: Leased, lease_ms: int, received: ClockReading, date: int | None) -> Observation:
        seen = self._seen.get(where)
        if isinstance(seen, Observation) and seen.version == row.version and seen.lease_ms == lease_ms:
            if seen.date is None:
                seen.date = date
            return seen
        assert row.version is not None
        seen = Observation(row.version, lease_ms, received.monotonic, date)
        self._keep(where, seen)
        return seen

    def of_entries(self, where: object, names: Collection[str]) -> Observations:
        """Return the observations of a semaphore's entries, by name. Those not among ``names`` are forgotten."""
        known = self._seen.get(where)
        entries = Observations(len(names))
        if isinstance(known, Observations):
            entries._seen = {name: seen for name, seen in list(known._seen.items()) if name in names}
        self._keep(where, entries)
        return entries

    def _keep(self, where: object, seen: Observation | Observations) -> None:
        self._seen.pop(where, None)
        self._seen[where] = seen
        drop_oldest(self._seen, self._size)

    def forget(self, where: object) -> None:
        self._seen.pop(where, None)

    def __len__(self) -> int:
        return len(self._seen)


def may_take_over(row: Leased, seen: Observation, received: ClockReading, date: int | None) -> bool:
    """Apply the waiter's rule: the stored expiry has passed by DynamoDB's clock, or the version has not changed for its
    lease."""
    if row.expiry_ms is not None and date is not None and date * 1000 >= row.expiry_ms:
        return True
    return seen.is_over(received.monotonic, date)


def backoff(attempt: int, cap: float, jitter: float) -> float:
    """Return the next back-off in seconds, with full jitter: uniform from 0 to ``min(cap, 50 ms * 2 ** attempt)``.

    It is at least 10 ms, so that polling does not become a busy loop. ``jitter`` is uniform in [0, 1).

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
    """
    longest: float = min(cap, FIRST_BACKOFF * 2 ** min(attempt, 20))
    return max(0.01, jitter * longest)
