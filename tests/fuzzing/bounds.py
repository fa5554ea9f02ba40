"""How many requests and seconds each operation takes at most, whatever the table and the server answer.

Each bound is derived from the code: which exchanges an operation makes, how many of them share the time of one
decision, and what may follow. docs/safety-bounds.md shows them, and `test_hostile_server.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from lambda_lock.core.lease import FIRST_BACKOFF, backoff
from lambda_lock.core.protocol import DECISION, SEND, STEPS
from lambda_lock.core.queue import SHORTEST_NAP
from lambda_lock.core.row import MOST_WAITERS

TURN = DECISION  # seconds for which a renewal of the same lock that is under way is waited for
LAST = 0.25  # seconds of a send that begins when the time of its decision is over
AVERAGE = 0.5  # the average back-off
LEASE = 20.0  # seconds, the usual lease
LATEST = 0.5  # seconds by which a start of a rate limit may be late
PLACES = 3  # in a queue that one waiter may have asked for


@dataclass(frozen=True)
class Bound:
    """What an operation never exceeds."""

    requests: int
    seconds: float

    def __add__(self, other: Bound) -> Bound:
        return Bound(self.requests + other.requests, self.seconds + other.seconds)

    def __mul__(self, times: int) -> Bound:
        return Bound(self.requests * times, self.seconds * times)


@lru_cache
def pauses(seconds: float, luck: float) -> int:
    """How many back-offs of one series fit into this time."""
    count, left = 0, seconds
    while (left := left - backoff(count, 1.0, luck)) >= 0:
        count += 1
    return count


@lru_cache
def sends(seconds: float, exchanges: int, luck: float) -> int:
    """How often ``exchanges`` requests can be sent, if each is sent again after back-offs of its own, and all back-offs
    together take this time: the shortest ones are used up first."""
    again, attempt, left = 0, 0, seconds
    while True:
        pause = backoff(attempt, 1.0, luck)
        fit = min(int(left / pause + 1e-9), exchanges)
        again, left, attempt = again + fit, left - fit * pause, attempt + 1
        if fit < exchanges:
            return exchanges + again


def decision(exchanges: int, luck: float) -> Bound:
    """Exchanges that share the time of one decision. Each is sent at least once, however late."""
    return Bound(sends(DECISION, exchanges, luck), DECISION + exchanges * LAST)


def abandon(luck: float) -> Bound:
    """Releasing what may have landed: one send, and from its answer on a decision."""
    return Bound(1, SEND + 0.05) + decision(1 + STEPS, luck)


def acquire(luck: float) -> Bound:
    """wait=0. A read, a claim and its corrections, and a read to explain a refusal, in one decision."""
    return decision(2 + STEPS, luck) + abandon(luck)


def wait(seconds: float, luck: float) -> Bound:
    """Polling. After each pause a read and at most STEPS writes; the last ones have a second each."""
    looks = pauses(seconds, luck) + 2
    late = DECISION + 3.0
    return Bound(sends(seconds + late, looks * (STEPS + 2), luck), seconds + late) + abandon(luck)


def queue(seconds: float, luck: float) -> Bound:
    """Waiting in order. A pause takes at least 10 ms. Leaving takes at most 2 s and 64 requests for each place."""
    looks = int(seconds / SHORTEST_NAP) + 2
    late, leaving = DECISION + 3.0, Bound(PLACES * MOST_WAITERS, PLACES * 2.0)
    return Bound(sends(seconds + late, looks * (STEPS + 2), luck), seconds + late) + leaving * 2 + abandon(luck)


def renewal(luck: float) -> Bound:
    """A renewal is sent at most STEPS times. Another one begins while the time of a decision lasts. Before it, one that
    is under way is waited for."""
    return Bound((pauses(DECISION, luck) + 1) * STEPS, TURN + DECISION + STEPS * SEND)


def once() -> Bound:
    """A single renewal, after one that is under way."""
    return Bound(STEPS, TURN + STEPS * SEND)


def release(luck: float) -> Bound:
    """The release, and one for a late copy of the claim."""
    return decision(2, luck)


def resume(luck: float) -> Bound:
    return decision(1 + STEPS, luck)


def holder(luck: float) -> Bound:
    """holder=, wait=0. At most STEPS times an acquire and a resume. None begins when the time of a decision is over."""
    each = decision(2 + STEPS, luck) + resume(luck) + abandon(luck) * 2
    return Bound(each.requests * STEPS, DECISION + each.seconds)


def wait_holder(seconds: float, luck: float) -> Bound:
    """holder=, with a wait. Each turn ends in a pause. It polls, resumes and gives back twice what may have landed; the
    last turn begins while the wait lasts."""
    turns = int(seconds / FIRST_BACKOFF) + 2
    looks = pauses(seconds, luck) + turns
    late = DECISION + 3.0 + (resume(luck) + abandon(luck) * 2).seconds
    exchanges = looks * (STEPS + 2) + turns * (1 + STEPS + 2 * (2 + STEPS))
    return Bound(sends(seconds + late, exchanges, luck), seconds + late)


def rate_limit(luck: float, wait: float = 0.0) -> Bound:
    """Up to STEPS writes follow each other without a pause, and the row is read before each. A start that comes LATEST
    too late is given back. Then another one is taken, in a decision of its own, while the wait or a decision lasts."""
    last = max(wait, DECISION)
    again = int(last / LATEST) + 1
    turns = pauses(last + DECISION, luck) + again + 1
    return Bound(sends(last + DECISION, turns * STEPS * 2, luck) + again + 1, last + DECISION + 2 * LAST + wait + SEND)


def commit(luck: float) -> Bound:
    """Conflicts are met again while the lease lasts. Then four decisions at most: one may be under way at its end."""
    met = pauses(LEASE, luck) + 1
    return Bound(sends(LEASE + DECISION, met, luck), LEASE) + decision(1, luck) * 4


def commit_all(count: int, luck: float) -> Bound:
    return commit(luck) + decision(1, luck) * count + release(luck) * count


def acquire_all(count: int, luck: float) -> Bound:
    """wait=0. Each key is acquired and may be renewed once. Then all are given back."""
    each = decision(2 + STEPS, luck) + once() + release(luck)
    return each * count + abandon(luck)


def wait_all(count: int, seconds: float, luck: float) -> Bound:
    """The keys share the wait. A key whose turn comes late is still tried once. Rounds begin while the wait lasts."""
    one = queue(seconds, luck)
    late = Bound(0, DECISION + 3.0 + PLACES * 4.0) + once() + release(luck)
    rounds = pauses(seconds, luck) + 2
    return Bound((one.requests + late.requests) * count * rounds, seconds + late.seconds * count) + abandon(luck)


def forget(luck: float) -> Bound:
    """wait=0. At most STEPS looks and as many writes share a decision. Every second one may take over a dead holder,
    which is given back at once: the last one when the time of the decision is nearly over. At the end, what may have
    landed is given back."""
    looked, back = decision(2 * STEPS + 2, luck), abandon(luck)
    return Bound(looked.requests + back.requests * (STEPS // 2 + 1), looked.seconds + back.seconds * 2)


def page(luck: float) -> Bound:
    """A page of a list, a get, a prewarm, a forced release."""
    return decision(1, luck)


#: What docs/safety-bounds.md shows: for average back-offs, a wait of 10 s and a lease of 20 s.
SHOWN: dict[str, Callable[[float], Bound]] = {
    "acquire, try_acquire, adopt": acquire,
    "acquire(wait=10, queue=False)": lambda luck: wait(10, luck),
    "acquire(wait=10)": lambda luck: queue(10, luck),
    "acquire(holder=…)": holder,
    "acquire(holder=…, wait=10)": lambda luck: wait_holder(10, luck),
    "acquire_all, for each key": lambda luck: Bound(
        acquire_all(2, luck).requests - acquire_all(1, luck).requests,
        acquire_all(2, luck).seconds - acquire_all(1, luck).seconds,
    ),
    "heartbeat, ensure": renewal,
    "release, the end of a block": release,
    "commit": commit,
    "hand_over, resume, LockClient.release": resume,
    "rate_limit(wait=0)": rate_limit,
    "sleep": resume,
    "forget": forget,
    "get, prewarm, a page of list": page,
}
