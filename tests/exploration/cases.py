"""The cases, each with its bounds. Together they are what "exhaustive" means here: every order of events within them.

All leases are short, so that they end within a case. One process of a pair with drift runs 499 ppm slow, the other one
as much fast: the extremes of what docs/safety-assumptions.md assumes: two rates differ by less than DRIFT.
"""

from typing import Any

from .case import Case
from .process import Setup

CASES: dict[str, tuple[Case, ...]] = {}  # by name: the same case within wider and wider bounds


def widths(*pairs: tuple[int, int], **more: Any) -> tuple[dict[str, Any], ...]:
    """Pairs of faults and slow steps. Without a slow step, a process may die; with one, it may also go on later."""
    return tuple({"faults": faults, "slow": slow, "deaths": int(not slow), **more} for faults, slow in pairs)


_USUAL = widths((0, 0), (1, 0), (0, 1), (1, 1))
_MORE = (*_USUAL, *widths((2, 1)))
_FROM_NOTHING = ({}, *_USUAL)
_DRIFTING = widths((0, 0), (0, 1), (1, 1), (1, 2))
_FREEZING = {"seconds": 3, "turns": 0, "freezes": 0}, {"seconds": 3, "turns": 0}


def case(name: str, says: str, *processes: Setup, widths: tuple[dict[str, Any], ...] = _USUAL, **bounds: Any) -> None:
    """``bounds`` are those of all widths. Each of ``widths`` adds its own, and most contain the one before."""
    CASES[name] = tuple(Case(name, says, processes, **{**bounds, **width}) for width in widths)


_SLOW, _FAST = -499, 499  # ppm
_LONG_AGO = f"L1:{1_800_000_000_000:013d}:{'0' * 32}"
_TOKEN = {"fencingToken": {"N": "7"}}


def _row(owner: str, lease: str, version: str, **more: Any) -> dict[str, Any]:
    texts = {"key": "k", "ownerName": owner, "leaseDuration": lease, "recordVersionNumber": version}
    return {name: {"S": text} for name, text in texts.items()} | more


_FOREIGN, _UNREADABLE, _NO_LEASE = (_row("java", lease, "8a1c") for lease in ("2000", "soon", "0"))
_DEAD = _row("gone#1", "2000", _LONG_AGO, **_TOKEN)


def _without_turns(seconds: float) -> tuple[dict[str, Any], ...]:
    """A short time in which no turn of the Dates matters by itself, without and with a slow step."""
    return {"seconds": seconds, "turns": 0}, {"seconds": seconds, "turns": 0, "slow": 1}


# -- two clients ------------------------------------------------------------------------------------------------------

_one = Setup(renewals=1)
case("two clients", "acquire, renew and release; every request may be lost, late or slow", _one, _one, widths=_MORE)
_twice = Setup(acquires=2)
case("two clients, twice", "each may take the lock again", _twice, _twice, widths=_MORE)
case("twice in the network", "requests that land a second time", _one, Setup(), doubles=2,
     widths=widths((0, 0), (1, 0), (0, 1), (2, 0), (1, 1)))  # fmt: skip
_taker = Setup(renewals=1)
case("a dead holder", "two take over at once", _taker, _taker, row=_DEAD)

# -- time -------------------------------------------------------------------------------------------------------------

case("unchanged for its lease",
     "a slow holder, and fail-fast calls of a fast process that remembers what it has observed",
     Setup(renewals=1, ppm=_SLOW), Setup(acquires=3, ppm=_FAST), turns=1, seconds=6,
     widths=(*_without_turns(4), *_DRIFTING))  # fmt: skip
case("by the Date", "a holder whose wall clock is so late that its expiry decides, and front ends half a second apart",
     Setup(renewals=1, skew=-2.25, ppm=_SLOW), Setup(acquires=2, ppm=_FAST), turns=2, seconds=6,
     widths=(*_without_turns(4.5), *_DRIFTING))  # fmt: skip
case("by the Date, a moment later",
     "the same with expiries a twentieth of a second after a full one, which must not count as reached before",
     Setup(renewals=1, skew=-2.2, ppm=_SLOW), Setup(acquires=2, ppm=_FAST), turns=2, seconds=6,
     widths=(*_without_turns(4.5), *_DRIFTING))  # fmt: skip
case("a wrong wall clock", "a newcomer whose wall clock is a minute ahead",
     Setup(renewals=1), Setup(acquires=2, skew=60.0), turns=1, seconds=6,
     widths=({"seconds": 4.5, "turns": 0}, *widths((0, 0), (0, 1), (1, 1), (2, 1))))  # fmt: skip
case("a foreign holder", "a holder with another client library and a slow clock, which makes no allowance for drift",
     Setup(acquires=3, ppm=_FAST), Setup(acquires=2), row=_FOREIGN, foreign=2.00099, turns=1, seconds=5,
     widths=({"seconds": 3}, *_DRIFTING))  # fmt: skip
case("a holder that freezes", "its monotonic clock stops; a patient waiter polls",
     Setup(renewals=1), Setup(acquires=2), freezes=1, turns=1, seconds=7, widths=(*_FREEZING, *_DRIFTING))  # fmt: skip
case("a waiter that freezes", "the monotonic clock of a waiter stops, behind a foreign holder",
     Setup(acquires=3, ppm=_FAST), row=_FOREIGN, foreign=2.00099, freezes=1, turns=2, seconds=6,
     widths=(*_FREEZING, *widths((0, 0), (0, 1), (1, 1), (2, 2))))  # fmt: skip

_careful = Setup(acquires=2)
case("a lease that cannot be read",
     "a foreign holder whose lease is no number: nobody takes over, however long it is there",
     _careful, Setup(wait=3.0, wakes=1), row=_UNREADABLE, foreign=60.0, turns=1, seconds=5)  # fmt: skip
case("a lease of zero", "a foreign holder whose lease is 0", _careful, Setup(wait=3.0, wakes=1), row=_NO_LEASE,
     foreign=60.0, turns=1, seconds=5)  # fmt: skip

# -- renewals, corrections, giving up, waiting ------------------------------------------------------------------------

_lasting = Setup(renewals=2, lease=4000)
case("late renewals", "two renewals of one hold", _lasting, Setup(),
     widths=widths((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (2, 1)))  # fmt: skip
case("a shorter lease", "renewals that shorten it, and a process that observes",
     Setup(renewals=2, lease=4000, shorter=1000), Setup(acquires=2),
     widths=widths((0, 0), (1, 0), (0, 1), (2, 0), (1, 1)))  # fmt: skip
case("corrections", "a wall clock so fast that a grant is corrected, or not, as the Date tells",
     Setup(skew=2.5, ends=2), Setup(), seconds=5, widths=widths((1, 0), (2, 0), (3, 0), (3, 1)))  # fmt: skip
case("corrections, alone", "one such process, and more faults", Setup(skew=2.5, ends=2), doubles=1, seconds=4,
     widths=widths((2, 0), (3, 0), (4, 0), (5, 1)))  # fmt: skip
case("given up", "an exception is thrown into an acquire at each step",
     Setup(acquires=2), Setup(), losses=True, seconds=5,
     widths=(*widths((0, 0), (1, 0), (0, 1), (1, 1), interrupts=1), *widths((1, 1), interrupts=2)))  # fmt: skip
case("given up, alone", "the same for one process, whose releases may be lost, too",
     Setup(acquires=2), losses=True, interrupts=1, seconds=5, widths=widths((1, 0), (2, 0), (2, 1)))  # fmt: skip
case("a release without an answer", "it may be lost, late or carried out",
     Setup(lease=10_000, ends=2), losses=True, turns=1, seconds=8,
     widths=(*widths((1, 0), doubles=1), *widths((1, 1), (2, 1), (2, 2))))  # fmt: skip
case("a patient waiter", "it polls, takes over or gets what is released, and gives up at the end of its wait",
     Setup(renewals=1), Setup(wait=4.0, wakes=2, ppm=_FAST), seconds=6)  # fmt: skip
case("a correction without an answer", "it may land while its sender sees the version that it corrects again",
     Setup(skew=2.5, lease=10_000, wait=8.0, wakes=1), turns=1, seconds=7,
     widths=(*widths((1, 0), (1, 1), turns=0), *widths((1, 1), (1, 2), (2, 2))))  # fmt: skip
case("an outage", "a holder that holds on while there is no answer", Setup(renewals=2, outages=True), Setup(),
     widths=_MORE)  # fmt: skip

# -- commits, handovers, holds, events --------------------------------------------------------------------------------

_commits = Setup(acts=("commit",), ends=2)
case("commits", "under a condition of the application that comes and goes",
     _commits, Setup(), flips=1, widths=widths((0, 0), (1, 0), (2, 0), (2, 1)))  # fmt: skip
case("commits, alone", "one client, whose requests fail", _commits, flips=2,
     widths=widths((1, 0), (2, 0), (2, 1), (3, 1)))  # fmt: skip
case("commits, refused", "the condition does not hold at first", Setup(acts=("commit",)), flips=1, is_open=False,
     widths=widths((2, 0), (2, 1), (3, 1)))  # fmt: skip
case("conflicts", "other transactions are in the way of its commit", _commits, conflicts=True, seconds=5,
     widths=widths((1, 0), (2, 0), (2, 1)))  # fmt: skip
case("handed over", "one hands over, another adopts, a third claims or adopts too",
     Setup(acts=("hand over",), renewals=1, ends=2), Setup(acquires=0, adopts=1), Setup(adopts=1),
     widths=_FROM_NOTHING)  # fmt: skip
case("handed over, given up", "an exception is thrown into an adoption at each step",
     Setup(acts=("hand over",)), Setup(acquires=0, adopts=1), losses=True, interrupts=1, seconds=5)  # fmt: skip
case("resumed", "a hold is resumed while its first handle may live on, and released by either; a third claims",
     Setup(renewals=1, reports=True), Setup(acquires=0, resumes=2, renewals=1), Setup(), widths=_FROM_NOTHING,
     seconds=6)  # fmt: skip
case("resumed twice", "two attempts of one hold at once, one of which hands over, and a release by string",
     Setup(reports=True), Setup(acquires=0, resumes=1, acts=("hand over", "release"), renewals=1),
     Setup(acquires=0, resumes=1, ends_strings=1), widths=_FROM_NOTHING, seconds=6)  # fmt: skip
case("by holder", "two acquire for one holder, a third for another", Setup(holder="h", renewals=1), Setup(holder="h"),
     Setup(), seconds=6, widths=_FROM_NOTHING)  # fmt: skip
_handler = Setup(acts=("complete", "release"), window=2, acquires=2, ends=2)
case("an event", "two handlers, which succeed or fail, and a completion that passes",
     _handler, _handler, seconds=5, widths=_FROM_NOTHING)  # fmt: skip
case("an event and a wrong clock", "the second handler's wall clock is a minute ahead",
     _handler, Setup(acts=("complete", "release"), window=2, acquires=2, skew=60.0), seconds=5,
     widths=_FROM_NOTHING)  # fmt: skip
case("an event that commits", "its handler's writes complete it", Setup(acts=("commit",), window=2, ends=2),
     Setup(acts=("complete",), window=2), flips=1, is_open=False, seconds=5,
     widths=widths((0, 0), (1, 0), (2, 0), (2, 1)))  # fmt: skip

# -- queues and permits -----------------------------------------------------------------------------------------------

_waits = Setup(wait=1.0, queue=True, wakes=1)
_brief = Setup(wait=0.5, queue=True, wakes=0)
case("a queue", "two wait in order for a third", Setup(), _brief, _brief, seconds=3,
     widths=({}, *widths((0, 0), (1, 0), (0, 1))))  # fmt: skip
case("a queue of one", "one waits in the queue, and its requests fail",
     Setup(renewals=1), _waits, seconds=4, widths=widths((0, 0), (1, 0), (0, 1), (2, 0), (1, 1)))  # fmt: skip
case("a queue for a dead holder", "one waits in the queue until the lease ends",
     Setup(ends=0), Setup(wait=5.0, queue=True), seconds=5,
     widths=widths((0, 0), (1, 0), (0, 1), (2, 0), (1, 1)))  # fmt: skip
_permit = Setup(permits=1, renewals=1)
case("one permit", "two clients of a semaphore with one permit", _permit, _permit, widths=_MORE)
case("one permit and a wrong clock", "the wall clock of the second client is a minute ahead",
     _permit, Setup(permits=1, acquires=2, skew=60.0), seconds=5)  # fmt: skip
case("late renewals of a permit", "two renewals of one hold", Setup(permits=1, renewals=2, lease=4000),
     Setup(permits=1), widths=widths((0, 0), (1, 0), (2, 0), (2, 1)))  # fmt: skip
case("a permit, twice in the network", "requests that land a second time",
     _permit, Setup(permits=1), doubles=2, seconds=6)  # fmt: skip
case("a permit, resumed",
     "a permit is resumed while its first handle may live on, and released by either; a third claims",
     Setup(permits=1, renewals=1, reports=True), Setup(permits=1, acquires=0, resumes=1), Setup(permits=1), seconds=5,
     widths=_FROM_NOTHING)  # fmt: skip
case("a permit by holder", "two acquire a permit for one holder, a third for another",
     Setup(permits=1, holder="h", renewals=1), Setup(permits=1, holder="h"), Setup(permits=1), seconds=5,
     widths=_FROM_NOTHING)  # fmt: skip
_light = Setup(permits=2)
case("two permits", "three clients of a semaphore with two", _light, _light, _light, permits=2, seconds=5,
     widths=_FROM_NOTHING)  # fmt: skip

_read = Setup(permits=2, take=1)
_reader, _writer = Setup(permits=2, take=1, renewals=1), Setup(permits=2, take=2)
_DEAD_WRITER = _row(
    "semaphore", "semaphore", "semaphore2", **_TOKEN, permits={"M": {"dead": {"S": f"{_LONG_AGO}:2000:gone"}}},
    permitTokens={"M": {"dead": {"N": "7"}}}, permitTakes={"M": {"dead": {"N": "2"}}}, permitsTaken={"N": "2"},
)  # fmt: skip
_NO_WEIGHTS = _row("semaphore", "semaphore", "semaphore", **_TOKEN, permits={"M": {}}, permitTokens={"M": {}})
case("a reader and a writer", "one takes 1 of two permits, the other both", _reader, _writer, permits=2, seconds=5)
case("readers and a writer", "two take 1 of two permits, a third both",
     _read, _read, Setup(permits=2, take=2, ends=0), permits=2, seconds=3, widths=_FROM_NOTHING)  # fmt: skip
case("a reader and a writer, twice in the network", "requests that land a second time",
     _read, _writer, permits=2, doubles=1, seconds=4,
     widths=({}, *widths((0, 0), (1, 0)), *widths((0, 0), (1, 1), doubles=2)))  # fmt: skip
case("a dead writer", "it had both permits; two take over, one of them both again",
     Setup(permits=2, take=1), _writer, permits=2, row=_DEAD_WRITER, seconds=5)  # fmt: skip
case("weights that begin to count",
     "one takes 2 of two permits, beside one that says nothing of weights, in a row that does not count them",
     Setup(permits=2, renewals=1), _writer, permits=2, row=_NO_WEIGHTS, seconds=5)  # fmt: skip
case("weights that begin to count, given up", "an exception is thrown into an acquire at each step",
     Setup(permits=2, take=1), Setup(permits=2), permits=2, row=_NO_WEIGHTS, losses=True, seconds=4,
     widths=widths((0, 0), (1, 0), (0, 1), interrupts=1))  # fmt: skip
case("a string that does not know the weight",
     "a hold of both permits is released by its string, or resumed and released; another takes 1",
     Setup(permits=2, take=2, reports=True), Setup(permits=2, acquires=0, resumes=1, ends_strings=1),
     Setup(permits=2, take=1), permits=2, seconds=5, widths=_FROM_NOTHING)  # fmt: skip

# -- three clients ----------------------------------------------------------------------------------------------------

_simple = Setup()
case("three clients", "acquire and release", _simple, _simple, _simple, seconds=6)
