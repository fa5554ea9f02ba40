"""Time: what a lease is worth, to whom, and when. Pure arithmetic; nobody here reads a clock.

No local wall clock decides anything between two machines. Three parties, three rules:

- **Expiry, as written.** ``E = now + L + GRACE`` in whole ms, where ``now`` is the best guess of DynamoDB's time
  (ServerTime). A guess may be wrong: the two rules below do not trust it.
- **Holder** (`validity`). Valid for ``min(L, E - D - MARGIN) * (1 - DRIFT)`` counted from *before the first send* of
  the request that was granted, D being the Date of a reply that showed it. The first term holds because a waiter
  without Dates counts L from a reply that it got later than that; the second because a waiter with Dates waits for E.
- **Waiter** (`Observations`). A held row may be taken over when ``Date >= E``; or when its version did not change for
  its lease, by the waiter's monotonic clock (``>= L * (1 + DRIFT)``) or between the Dates of two replies (``>= L +
  2 s``, more where L is over 500 s: a foreign holder makes no allowance for drift).

Why a holder's second term is safe: a Date is cut to whole seconds and front ends are within 0.5 s, so two Dates taken
at one true moment differ by less than 1.5 s = MARGIN. At the end of ``E - D - MARGIN`` after the reply that showed D,
no front end says E yet.

Elapsed time (`Elapsed`) is summed over successive looks at all clocks there are, each look adding the largest advance.
A frozen environment may stop any of them and a wall clock may be stepped back; summed like this, time never lags behind
as long as one clock goes on. It may run ahead, which only ends a validity early. A waiter must not run ahead: it uses
the monotonic clock alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from .row import Row

GRACE = 2.0  # seconds between the end of a lease and its stored expiry
MARGIN = 1.5  # seconds by which two Dates taken at one moment may differ: 1 s of truncation, 0.5 s of front ends
DRIFT = 1 / 1000  # by how much two clocks' rates may differ
MIN_LEASE = 1.0  # seconds; a shorter one could not survive a single lost reply
_FAST_CLOCK = 3.0  # seconds: an expiry this much too late was written by a fast clock, and others would wait in vain
_ROUND_TRIP = 1.0  # seconds: a Date from a longer one says too little about now
MIN_PERIOD = 0.3  # seconds between two planned renewals, at least
FIRST_BACKOFF = 0.05  # seconds


class Look:
    """One look at the clocks, in seconds. elapsed: never behind true time; monotonic: never ahead; wall: a guess."""

    __slots__ = ("elapsed", "monotonic", "wall")

    def __init__(self, elapsed: float, monotonic: float, wall: float) -> None:
        self.elapsed = elapsed
        self.monotonic = monotonic
        self.wall = wall


class Elapsed:
    """Time that goes on through freezes and never steps back: the sum over looks of the largest advance of any clock.

    Anchoring once and taking the larger difference is not enough: a wall clock stepped back in the middle hides a later
    freeze of the others (1 % of the simulated runs overlapped).

    ``total`` is that time at the look which showed ``clocks``; `after` is the next look. A look never changes: whoever
    keeps the latest one replaces it whole.
    """

    __slots__ = ("clocks", "total")

    def __init__(self, *clocks: float, total: float = 0.0) -> None:
        self.clocks = clocks
        self.total = total

    def after(self, *clocks: float) -> Self:
        advance = max(now - before for now, before in zip(clocks, self.clocks, strict=True))
        return type(self)(*clocks, total=self.total + max(advance, 0.0))


class ServerTime:
    """The best guess of DynamoDB's time: the wall clock until a Date is known, from then on Dates alone.

    A Date is anchored (+ 0.5 s, for its truncation) at the middle of its round trip, which must be under a second;
    until such a one comes, one from a longer round trip serves, anchored at its end.
    """

    __slots__ = ("_anchor", "_newest")

    def __init__(self) -> None:
        self._newest: tuple[int, float] | None = None  # Date, and elapsed time before its request was sent
        self._anchor: tuple[float, float, bool] | None = (
            None  # epoch seconds, at this monotonic time, from a quick trip
        )

    @property
    def is_known(self) -> bool:
        return self._anchor is not None

    def note(self, date: int | None, sent: Look, received: Look) -> None:
        if date is None:
            return
        self._newest = (date, sent.elapsed)
        if received.elapsed - sent.elapsed < _ROUND_TRIP:
            self._anchor = (date + 0.5, (sent.monotonic + received.monotonic) / 2, True)
        elif self._anchor is None or not self._anchor[2]:
            self._anchor = (date + 0.5, received.monotonic, False)

    def now(self, look: Look) -> float:
        """Epoch seconds."""
        anchor = self._anchor
        if anchor is None:
            return look.wall
        return anchor[0] + (look.monotonic - anchor[1])

    def after_freezes(self, look: Look) -> float:
        """As `now`, but not behind after a freeze that stopped the monotonic clock, by which that goes on."""
        if self._newest is None:
            return look.wall
        date, sent = self._newest
        return max(self.now(look), date + 0.5 + look.elapsed - sent)


def expiry_ms(now: float, lease_ms: int) -> int:
    """The expiry to write, epoch ms, for a lease of ``lease_ms`` taken at ``now`` (epoch seconds)."""
    return int((now + GRACE) * 1000) + lease_ms


def validity(lease_ms: int, expiry_ms: int, date: int) -> float:
    """Seconds for which a grant is valid, counted from before its first send (section "Holder" above)."""
    return min(lease_ms / 1000, expiry_ms / 1000 - date - MARGIN) * (1 - DRIFT)


def clock_was_fast(lease_ms: int, expiry_ms: int, date: int) -> bool:
    """Whether an expiry lies so far past its reply's Date that others would wait in vain for it."""
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
        """Whether the version stood unchanged for its lease: the rule of the older clients, and for their rows."""
        if (monotonic - self.monotonic) * 1000 >= self.lease_ms * (1 + DRIFT):
            return True
        if date is None or self.date is None:
            return False
        # Dates taken at one moment differ by less than MARGIN; a foreign holder makes no allowance for drift.
        return (date - self.date) * 1000 >= self.lease_ms + max(2000, MARGIN * 1000 + self.lease_ms * DRIFT)

    def seconds_left(self, monotonic: float) -> float:
        return self.lease_ms / 1000 * (1 + DRIFT) - (monotonic - self.monotonic)


class Observations:
    """What was seen of other holders, remembered over calls and invocations, at most ``size`` rows (the oldest goes).

    So repeated fail-fast calls in a living environment free a dead foreign lock.
    """

    __slots__ = ("_seen", "_size")

    def __init__(self, size: int) -> None:
        self._seen: dict[object, Observation] = {}
        self._size = size

    def note(self, where: object, row: Row, lease_ms: int, received: Look, date: int | None) -> Observation:
        seen = self._seen.get(where)
        if seen is not None and seen.version == row.version and seen.lease_ms == lease_ms:
            if seen.date is None:
                seen.date = date
            return seen
        assert row.version is not None
        seen = Observation(row.version, lease_ms, received.monotonic, date)
        self._seen.pop(where, None)
        self._seen[where] = seen
        if len(self._seen) > self._size:
            oldest, *_ = list(self._seen)  # a copy: another thread may add while we look
            self._seen.pop(oldest, None)
        return seen

    def forget(self, where: object) -> None:
        self._seen.pop(where, None)

    def __len__(self) -> int:
        return len(self._seen)


def may_take_over(row: Row, seen: Observation, received: Look, date: int | None) -> bool:
    """The waiter's rule: the stored expiry has passed by DynamoDB's clock, or the version stood still for its lease."""
    if row.expiry_ms is not None and date is not None and date * 1000 >= row.expiry_ms:
        return True
    return seen.is_over(received.monotonic, date)


def backoff(attempt: int, cap: float, jitter: float) -> float:
    """Full jitter: uniform up to ``min(cap, 50 ms * 2 ** attempt)``; never quite 0, so that a poll is no busy loop.

    ``jitter`` is uniform in [0, 1). Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
    """
    longest: float = min(cap, FIRST_BACKOFF * 2 ** min(attempt, 20))
    return max(0.01, jitter * longest)


def needs_heartbeat(valid_until: float, deadline: float | None, lease_ms: int) -> bool:
    """Whether validity ends so long before the deadline (elapsed seconds; None: there is none) that renewing pays."""
    if deadline is None:
        return True
    return deadline - valid_until > max(0.5, lease_ms / 1000 / 100)


def next_heartbeat(now: float, valid_until: float) -> float:
    """When to renew next, in elapsed seconds: at a third of the remaining validity, never under 0.3 s apart."""
    return now + max(MIN_PERIOD, (valid_until - now) / 3)


def first_heartbeat(now: float, valid_until: float, lease_ms: int) -> float:
    """As `next_heartbeat`, but at once where the claim left less than 0.9 of the lease (a slow clock, a slow reply)."""
    if valid_until - now < 0.9 * lease_ms / 1000:
        return now
    return next_heartbeat(now, valid_until)
