"""How often things happen: the settings of a run, and the biases towards rare pairs of faults."""

import random
from collections.abc import Callable
from typing import Any


class Settings:
    """Probabilities are per occasion: per send, acquisition or hold. Durations are true seconds."""

    # The network, for each send
    lost = 0.03
    reply_lost = 0.03
    double = 0.03  # delivered, and once more later
    late = 0.03  # delivered long after its sender gave up
    failed_after = 0.01  # 5xx, carried out
    failed_before = 0.01  # 5xx, not carried out
    throttled = 0.01
    unsent = 0.005
    late_give_backs = 0.0  # of the releases, and of what gives up a claim or a ticket: delivered minutes late
    slow = 0.05  # the request, the reply or both take up to 3 s
    dateless = 0.0
    answered_twice = 0.0  # the sender sees the answer to a second copy (a proxy sends again by itself)
    front_ends = 0.2  # a Date is off by up to this much, either way
    # Processes
    clients = (3, 3, 4)
    keys = (1, 1, 1, 2)
    skews = ("right", "right", "near", "minutes", "fast", "slow")
    extreme_rates = 0.3  # of the processes have clocks that drift as far as they may
    drift = 900.0  # ppm, each clock against true time (clocks.py)
    forgiven: tuple[str, ...] = ()  # failures that do not count, because what is assumed about drift is broken
    step = 0.05  # the wall clock is stepped, for each send or wait
    freeze = 0.03  # for each send or wait
    stopped_reads = 0.0  # of the reads: the process is stopped meanwhile, but none of its clocks
    unwatched = False
    die = 0.08
    foreign = 0  # how many processes are foreign clients
    foreign_rules: tuple[str, ...] = ("java",)
    foreign_heartbeats = (0, 0, 2, 4)
    foreign_work = (0.1, 0.5, 0.99, 0.9999, 1.0)  # as fractions of a lease
    unreadable = 0.0  # of the foreign processes' rows have a lease that our clients cannot read
    # What clients want
    leases = ("second", "short", "short", "medium", "long")
    fail_fast = 0.3
    deadline = 0.3
    give_up = 0.08  # an exception is thrown into an acquire
    interrupt = 0.0  # of the operations of all kinds have something thrown into them, at one or more of their yields
    no_heartbeat = 0.2
    reheartbeat = 0.3  # an explicit heartbeat during a hold
    other_lease = 0.5  # ... with a shorter or longer lease
    at_once = 0.0  # ... while another thread of the process wants to renew, too
    pair = 0.3  # ... and another at once
    delete = 0.1  # of the holds, in runs where some do
    delete_some = 0.3  # of the runs
    delete_all = 0.15  # of the runs: every release deletes
    forget = 0.05
    late_release = 0.3  # a lost handle is released only after the next acquisition
    reap = False  # whether DynamoDB deletes rows whose time to live is over
    ttls = (0, 60, 86_400, 86_400)  # seconds that clients keep rows for, then
    idle = 0.0  # of the turns of a client are followed by a day or more without any
    replace = 0.1  # of the acquires: the row is replaced whole
    queue = 0.0  # of the acquires that wait do so in order
    pollers = 0.0  # of the processes never queue, and ask again and again
    waits: tuple[float, ...] = ()  # seconds, if waits are short
    dead = (0,)  # how many tickets of the dead a row has at the start
    apart = 0.0  # of the runs: they expire one by one
    permits: tuple[int, ...] = ()  # N of a run, if its keys are semaphores
    other_permits = 0.0  # of the acquires pass another N
    weights = 0.5  # of the runs with semaphores: callers take more than one permit
    heavy = 0.6  # of their acquires take more than 1, or may
    old = 0.1  # of the processes, then, have a version of the library that knows no weights
    executions: tuple[int, ...] = (0,)  # how many work under holds that outlive invocations
    zombies = 0.0  # of their attempts live on while the next one begins
    twice = 0.0  # of their attempts begin twice at once
    by_holder = 0.7  # of the executions acquire by holder
    acquire_again = 0.15  # of the later states acquire again by holder
    adopt = 0.1  # of the states adopt what was handed over
    park = 0.6  # of the states end with a handover; the others leave the handle
    by_string = 0.5  # of the executions end with a release by string
    release_again = 0.4  # of the strings are released again later
    forge = 0.0  # somebody writes waiters, right ones and others, for each acquisition
    hand_over = 0.15  # of the holds end so
    copies = (1, 1, 2, 3)  # how many processes get the string of one handover
    several = 0.0  # of the turns take several locks at once
    hold_on = 0.0  # of the acquires hold on through an outage
    commit = 0.2  # of the holds end so
    is_open = 0.7  # how often the application's row lets a commit pass
    event = 0.0  # of the acquires are for an event
    windows = ("short", "short", "hour")  # for how long an event counts as done: about a lease, or an hour
    next_event = 0.4  # how often a new event follows one that is done
    fail = 0.25  # of the handlers of events fail
    until_the_hour = 0.0  # of the events are done until the full hour, whenever they were
    forgets = 0.0  # of the turns forget an event
    if_result = 0.0  # of these forget one result only
    erases = 0.0  # of the turns erase a row
    versions: tuple[str | None, ...] = ()  # of the code: by what settings its results are stored. None: they do not say
    polls = 8.0  # a wait's refresh period is the usual lease divided by this, if that is long
    grants = 6
    rates: tuple[tuple[int, float, int], ...] = ()  # limit, per and burst, if all keys are rate limits
    several_starts = 0.0  # of the starts are more than one, where the burst allows it
    refused_inside = 0.0  # of the starts are given back when they are due, because an inner limit refused
    reset = 0.0  # of the starts are followed by somebody who deletes the row
    rate_waits = (0.0, 0.0, 1.0, 5.0, 20.0)  # seconds
    hurry = 1.5  # how many starts are asked for, as a multiple of the limit

    def __init__(self, **changes: Any) -> None:
        for name, value in changes.items():
            assert hasattr(Settings, name), name
            setattr(self, name, value)


def _bias(*parts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Changes to the settings: those of the parts, the later above the earlier, and these."""
    return {name: value for part in (*parts, changes) for name, value in part.items()}


_CLEAN = _bias(
    lost=0.0, reply_lost=0.0, double=0.0, late=0.0, failed_after=0.0, failed_before=0.0, throttled=0.0, unsent=0.0,
    slow=0.0, step=0.0, freeze=0.0, give_up=0.0)  # fmt: skip
_REAPED = _bias(reap=True, idle=0.25)
_GIVEN_BACK_LATE = _bias(
    late_give_backs=0.3, skews=("seconds",), interrupt=0.3, give_up=0.2, die=0.4, no_heartbeat=0.6, lost=0.05,
    reply_lost=0.12, late=0.1, double=0.05, freeze=0.01, step=0.0)  # fmt: skip
_BESIDE = _bias(drift=499.0)  # beside other libraries, which allow for none
_KEPT = _bias(delete_all=0.0, delete_some=0.0)
_EVENTS = _bias(_KEPT, event=0.85, keys=(1, 1, 2), forget=0.1, grants=8)
_FORGETS = _bias(
    _EVENTS, forgets=0.35, until_the_hour=0.7, keys=(1,), next_event=0.05, grants=10, leases=("second", "short"),
)  # fmt: skip
_QUEUE = _bias(_KEPT, queue=0.9, keys=(1,), leases=("short", "second", "medium"))
_SEVERAL = _bias(
    _KEPT, several=0.85, keys=(3, 4), leases=("short", "second", "medium"), replace=0.0, delete=0.0, hand_over=0.0,
    queue=0.8, clients=(3, 4), grants=16)  # fmt: skip
_PERMITS = _bias(
    _KEPT, permits=(1, 2, 2, 3), replace=0.0, hand_over=0.0, keys=(1,), clients=(4, 5), grants=12, queue=0.4,
    leases=("second", "short", "short", "medium"),
)  # fmt: skip
_HOLDS = _bias(
    _KEPT, executions=(1, 2, 3), clients=(1, 2, 3), keys=(1,), replace=0.05, hand_over=0.05,
    leases=("second", "short", "short", "medium"), grants=12, commit=0.15)  # fmt: skip
_ZOMBIES = _bias(zombies=0.5, twice=0.25, deadline=0.2)
_PERMIT_HOLDS = _bias(
    _PERMITS, executions=(2, 3, 4), clients=(1, 2, 3), permits=(1, 2, 2, 3), hand_over=0.05, commit=0.15, queue=0.3,
    leases=("second", "short", "short", "medium"), grants=14)  # fmt: skip
_LATE = _bias(lost=0.04, reply_lost=0.08, double=0.12, late=0.15, slow=0.1)

_RATES = _bias(
    _KEPT, rates=((10, 1.0, 1), (10, 1.0, 1), (3, 1.0, 1), (7, 60.0, 2), (10, 1.0, 5)), keys=(1,), clients=(3, 5, 8),
    grants=120, die=0.01, several_starts=0.3, interrupt=0.03, give_up=0.02)  # fmt: skip
_RIGHT = _bias(skews=("right",), step=0.0)
_CORRECTIONS = _bias(
    lost=0.05, reply_lost=0.15, double=0.15, late=0.3, slow=0.1, skews=("edge",), freeze=0.01, step=0.0, die=0.6,
    no_heartbeat=0.6, fail_fast=0.1, give_up=0.02)  # fmt: skip


def _of_holds(name: str, base: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The biases of holds that outlive an invocation: of locks, and of permits."""
    is_lock = "permits" not in base
    # Locks need more executions, where permits have some already.
    two, three = (_bias(executions=(2, 3)), _bias(executions=(3,))) if is_lock else ({}, {})
    claims = _bias(executions=(1,)) if is_lock else _bias(executions=(1, 2), permits=(2, 3))
    foreign = _bias(base, _BESIDE, foreign=1, leases=("second", "short"), release_again=0.9)
    found = {
        "": base,
        "-calm": _bias(_CLEAN, base, die=0.15),
        # Late claims, resumes, handovers and releases, of processes that are dead by then.
        "-late": _bias(base, _LATE, give_up=0.15, die=0.2, park=0.8),
        "-dying": _bias(base, two, die=0.4, leases=("second", "short")),
        "-freezes": _bias(base, freeze=0.12, step=0.12, no_heartbeat=0.5, leases=("second", "short")),
        # New processes with wrong clocks, which know no Date yet.
        "-clocks": _bias(base, skews=("fast", "slow", "minutes"), die=0.4, freeze=0.01, deadline=0.5),
        "-zombies": _bias(base, _ZOMBIES),
        "-zombies-late": _bias(base, _LATE, _ZOMBIES, park=0.7, reheartbeat=0.8, pair=0.6),
        # Nothing goes wrong except that attempts live on: they renew with shorter leases, release, park and commit.
        "-zombies-calm": _bias(
            _CLEAN, base, _ZOMBIES, die=0.0, reheartbeat=1.0, other_lease=0.9, no_heartbeat=0.5, commit=0.4),
        "-zombies-frozen": _bias(base, _ZOMBIES, freeze=0.12, step=0.1, no_heartbeat=0.6, leases=("second", "short")),
        # Strings that are released while attempts live, and again when others have the lock.
        "-zombies-released": _bias(base, _LATE, _ZOMBIES, by_string=0.95, release_again=0.9, park=0.3, die=0.05),
        # Copies of claims that land late, while their holds are resumed and after they were released.
        "-claims": _bias(
            _CLEAN, base, claims, double=0.5, die=0.6, leases=("second",), clients=(0, 1), by_string=0.1, deadline=0.0,
            by_holder=0.5, acquire_again=0.05, skews=("right",)),
        "-slow": _bias(
            base, three, slow=0.5, no_heartbeat=0.9, die=0.2, skews=("right", "slow", "near"), freeze=0.01,
            leases=("second", "short")),
        **({"-foreign": foreign} if is_lock else {}),
        "-adopted": _bias(base, two, adopt=0.6, park=0.95, release_again=0.8, die=0.05, leases=("second", "short")),
        "-zombies-adopted": _bias(
            base, _LATE, _ZOMBIES, adopt=0.6, park=0.95, release_again=0.6, by_string=0.8, leases=("second", "short")),
        "-twice": _bias(base, _LATE, _ZOMBIES, twice=0.8, acquire_again=0.4, by_holder=0.95),
    }  # fmt: skip
    return {f"{name}{more}": changes for more, changes in found.items()}


BIASES: dict[str, dict[str, Any]] = {
    "mixed": _bias(interrupt=0.04),
    # Nothing goes wrong except deaths and clocks: what must be granted is granted, and what is held stays held.
    "calm": _bias(_CLEAN, deadline=0.5),
    "stormy": _bias(_LATE, freeze=0.06, step=0.1, die=0.12),
    # A clock a few seconds fast, with late requests.
    "fast": _bias(_LATE, skews=("fast",), freeze=0.01, no_heartbeat=0.5, give_up=0.02),
    # New processes with a fast clock keep coming: their first claims are corrected while copies are still in flight.
    "corrections": _bias(_CORRECTIONS, leases=("short", "second", "medium"), grants=10),
    # Clocks that leave little of the first validity. Nothing else goes wrong.
    "calm-slow": _bias(_CLEAN, skews=("slow",), no_heartbeat=0.0, die=0.3, leases=("short", "medium"), reheartbeat=0.0),
    "slow-clocks": _bias(skews=("slow",), no_heartbeat=0.9, late_release=0.0, die=0.2, freeze=0.01),
    "slow-replies": _bias(slow=0.5, no_heartbeat=0.8, die=0.0, skews=("right", "slow", "near")),
    "no-heartbeat": _bias(no_heartbeat=1.0, freeze=0.08, step=0.1),
    "given-up": _bias(_LATE, give_up=0.5, no_heartbeat=0.4),
    "renewals": _bias(
        _LATE, reheartbeat=1.0, pair=0.8, other_lease=0.3, no_heartbeat=0.5, die=0.15, forget=0.3, freeze=0.005,
        step=0.01, leases=("short", "short", "medium")),
    "shortened": _bias(
        _LATE, reply_lost=0.2, reheartbeat=1.0, other_lease=1.0, pair=0.6, no_heartbeat=0.8, freeze=0.01, step=0.01),
    "delete": _bias(_LATE, delete_all=1.0, give_up=0.15),
    "long": _bias(
        _CLEAN, late=0.02, reply_lost=0.02, leases=("hours",), extreme_rates=1.0, no_heartbeat=0.95, deadline=0.05,
        die=0.0, fail_fast=0.1, reheartbeat=0.0),
    "drift": _bias(
        _CLEAN, late=0.02, reply_lost=0.02, leases=("quarter",), extreme_rates=1.0, no_heartbeat=0.7, deadline=0.05,
        die=0.05, fail_fast=0.1, reheartbeat=0.2, hand_over=0.1, drift=900.0),
    "beyond-drift": _bias(
        _LATE, _KEPT, leases=("quarter", "hours"), extreme_rates=1.0, no_heartbeat=0.7, late_release=0.6, commit=0.5,
        hand_over=0.2, drift=5000.0, freeze=0.0, step=0.0,
        forgiven=("overlap", "robbed", "expiry", "lost for nothing", "starved", "refused")),
    "freezes": _bias(freeze=0.2, step=0.2, no_heartbeat=0.4, lost=0.01, late=0.01, slow=0.02),
    "foreign": _bias(_BESIDE, foreign=2, clients=(2, 2, 3)),
    "foreign-late": _bias(
        _LATE, _BESIDE, foreign=2, clients=(2,), leases=("short", "second"), no_heartbeat=0.1, reheartbeat=1.0,
        pair=0.8, freeze=0.08, die=0.0, deadline=0.0),
    "foreign-long": _bias(
        _CLEAN, _BESIDE, foreign=1, clients=(2,), leases=("hours",), extreme_rates=1.0, no_heartbeat=0.9, die=0.0,
        reheartbeat=0.0),
    # One of our clients polls often, behind a foreign holder whose clock is slow.
    "foreign-drift": _bias(
        _CLEAN, _BESIDE, foreign=1, clients=(1,), keys=(1,), leases=("hours",), extreme_rates=1.0, no_heartbeat=1.0,
        die=0.0, skews=("right",), fail_fast=0.0, deadline=0.0, polls=3000.0, grants=2, foreign_heartbeats=(0,),
        foreign_work=(1.0,)),
    # Waiters whose monotonic clock stops, behind foreign holders that use up their lease.
    "foreign-dates": _bias(
        _CLEAN, _BESIDE, freeze=0.06, foreign=1, clients=(2, 3), leases=("short", "second"), die=0.0, skews=("right",),
        foreign_heartbeats=(0,), foreign_work=(1.0,), no_heartbeat=1.0, deadline=0.0),
    # As dynamolock: it writes back what its first look showed, and keeps the row.
    "foreign-go": _bias(
        _LATE, _BESIDE, foreign=2, clients=(2, 3), foreign_rules=("go",), leases=("short", "second"), delete_all=0.0),
    # As python-dynamodb-lock: every release deletes the row, and nothing that it does not know survives.
    "foreign-python": _bias(
        _LATE, _BESIDE, foreign=2, clients=(2, 3), foreign_rules=("python",), delete_all=1.0,
        leases=("short", "second")),
    # All of them at once, which no table should see.
    "foreign-mixed": _bias(
        _BESIDE, foreign=3, clients=(2, 3), foreign_rules=("java", "go", "python"), freeze=0.05, step=0.05,
        interrupt=0.2, leases=("short", "second", "medium")),
    "unreadable": _bias(_BESIDE, foreign=2, clients=(2,), unreadable=0.7),
    "handing-over": _bias(hand_over=0.8, commit=0.0, give_up=0.02),
    "handing-over-late": _bias(
        _LATE, hand_over=0.8, commit=0.0, reheartbeat=0.8, pair=0.8, copies=(2, 3), die=0.02,
        leases=("short", "second")),
    # Late copies of claims, and strings that also come late.
    "handing-over-deleted": _bias(
        _CLEAN, double=0.5, hand_over=0.8, delete_all=1.0, commit=0.0, copies=(8, 12), die=0.0, leases=("second",),
        clients=(1,), keys=(1,), skews=("right",), grants=10),
    # Unanswered renewals, held on through. The next client deletes the row, and late copies of the claim find none.
    "outages": _bias(
        _CLEAN, double=0.45, lost=0.5, hold_on=1.0, delete_all=1.0, no_heartbeat=0.0, die=0.0, leases=("short",),
        deadline=0.0, keys=(1,), hand_over=0.0, commit=0.0, skews=("right",), clients=(2,), reheartbeat=0.0, grants=12,
        fail_fast=0.1),
    "calm-handing-over": _bias(_CLEAN, hand_over=0.8, commit=0.0, deadline=0.5),
    "commits": _bias(_KEPT, commit=0.8, hand_over=0.0, give_up=0.02),
    "commits-late": _bias(
        _LATE, _KEPT, commit=0.9, hand_over=0.0, is_open=0.4, freeze=0.05, die=0.0, late_release=0.6,
        leases=("short", "second"), deadline=0.1),
    # Only the lock's own requests get lost, and late copies of the commit find the row unchanged.
    "commits-lost": _bias(
        _KEPT, lost=0.3, reply_lost=0.1, late=0.25, double=0.1, commit=0.9, hand_over=0.0, is_open=0.3, freeze=0.0,
        step=0.0, die=0.0, leases=("medium", "long"), forget=0.0),
    # Freezes in the middle of a commit, longer than DynamoDB remembers its client token.
    "commits-frozen": _bias(
        _KEPT, lost=0.02, reply_lost=0.2, late=0.1, double=0.1, freeze=0.2, commit=0.9, hand_over=0.0, is_open=0.9,
        die=0.0, leases=("long", "hours"), forget=0.0, late_release=0.0),
    "replacing": _bias(_LATE, replace=0.8, delete=0.2),
    "replacing-foreign": _bias(
        _LATE, _BESIDE, replace=0.9, foreign=2, clients=(2,), leases=("short", "second"), die=0.0, commit=0.0,
        hand_over=0.0, foreign_heartbeats=(2, 4)),
    "deadlines": _bias(deadline=1.0, no_heartbeat=0.0, give_up=0.02),
    "queue": _bias(_QUEUE, queue=0.8, fail_fast=0.15, clients=(3, 5, 8), grants=12),
    "queue-calm": _bias(
        _CLEAN, _QUEUE, queue=1.0, fail_fast=0.0, clients=(4, 8), grants=16, die=0.0, replace=0.0, hand_over=0.0,
        forget=0.0),
    # Tickets are taken, given up and claimed by requests that come late or twice.
    "queue-late": _bias(_LATE, _QUEUE, fail_fast=0.1, give_up=0.3, clients=(4, 6), grants=14, die=0.15),
    "queue-deaths": _bias(
        _QUEUE, die=0.4, give_up=0.3, clients=(4, 6), grants=14, freeze=0.06, leases=("short", "second")),
    "queue-foreign": _bias(_QUEUE, _BESIDE, foreign=2, clients=(3, 4), grants=10, leases=("short", "second")),
    # Dead waiters in a row that is free or has a dead holder.
    "queue-idle": _bias(
        _CLEAN, _QUEUE, dead=(1, 2, 5, 62, 63, 64), clients=(1, 3, 5), queue=1.0, fail_fast=0.0, replace=0.0,
        give_up=0.02, grants=8),
    "queue-full": _bias(_QUEUE, dead=(61, 63, 64), clients=(4, 6), grants=12, die=0.2, give_up=0.2, replace=0.02),
    "queue-forged": _bias(_QUEUE, forge=0.5, dead=(0, 3), clients=(3, 5), grants=12),
    # Callers that do not wait, and callers without the queue, beside those in it.
    "queue-beside": _bias(_CLEAN, _QUEUE, queue=0.5, fail_fast=0.5, clients=(4, 8), grants=14, replace=0.02),
    "queue-slow": _bias(_QUEUE, slow=0.4, clients=(3, 5), grants=12, die=0.02),
    "queue-freezes": _bias(_QUEUE, freeze=0.1, step=0.1, clients=(3, 5), grants=12, die=0.02),
    # Callers that poll or fail fast keep the lock busy, also as the majority. Some tickets are those of dead waiters.
    "queue-pollers": _bias(
        _QUEUE, pollers=0.6, queue=1.0, dead=(0, 1, 2, 64), clients=(5, 8), grants=24, leases=("second", "short"),
        replace=0.0, die=0.03),
    "queue-pollers-calm": _bias(
        _CLEAN, _QUEUE, pollers=0.4, queue=1.0, dead=(0, 1, 2, 64), clients=(5, 8), grants=24,
        leases=("second", "short"), replace=0.0, die=0.1, no_heartbeat=0.0),
    # The first one in the queue loses again and again.
    "queue-pollers-many": _bias(
        _CLEAN, _QUEUE, pollers=0.6, queue=1.0, clients=(10, 14), grants=80, leases=("second",), replace=0.0, die=0.02,
        no_heartbeat=0.0, waits=(20.0, 40.0), deadline=0.0),
    # Waits that are over before the patience of those who wait is.
    "queue-brief": _bias(
        _QUEUE, pollers=0.2, queue=1.0, waits=(0.3, 1.0, 1.5), dead=(0, 1, 2, 64), clients=(4, 6), grants=20,
        leases=("second",), replace=0.0, fail_fast=0.0),
    # Several that die at once, in the middle of others.
    "queue-dying": _bias(
        _CLEAN, _QUEUE, queue=1.0, fail_fast=0.0, replace=0.0, die=0.5, clients=(6, 9), grants=18,
        leases=("second", "short"), dead=(0, 2, 3), deadline=0.0),
    # The dead expire one by one, while those behind them lose their patience with the first.
    "queue-expiring": _bias(
        _CLEAN, _QUEUE, queue=1.0, fail_fast=0.0, replace=0.0, die=0.05, clients=(6, 9), grants=4, leases=("second",),
        dead=(2, 3, 4), apart=1.0, waits=(20.0, 40.0), deadline=0.0),
    "queue-throttled": _bias(_QUEUE, throttled=0.5, clients=(4, 6), grants=12, die=0.05, leases=("short", "second")),
    # The same outside a full queue, and with answers that are lost.
    "queue-throttled-full": _bias(
        _LATE, _QUEUE, throttled=0.4, dead=(0, 61, 63, 64), clients=(4, 6), grants=12, give_up=0.2, die=0.1,
        leases=("short", "second")),
    "queue-leaving": _bias(
        _CLEAN, _QUEUE, give_up=0.6, queue=1.0, fail_fast=0.0, clients=(6, 10), grants=12, die=0.0, replace=0.0),
    "several": _SEVERAL,
    "several-calm": _bias(
        _CLEAN, _SEVERAL, several=1.0, die=0.0, forget=0.0, no_heartbeat=0.0, fail_fast=0.1, clients=(4, 6)),
    "several-late": _bias(_SEVERAL, _LATE, give_up=0.2, commit=0.5),
    # Locks that are lost while others are waited for.
    "several-lost": _bias(
        _SEVERAL, no_heartbeat=0.8, freeze=0.08, step=0.05, fail_fast=0.1, deadline=0.1, leases=("second", "short"),
        clients=(4,), hold_on=0.3),
    "several-given-up": _bias(_SEVERAL, _LATE, give_up=0.6, die=0.02),
    "several-deaths": _bias(_SEVERAL, die=0.5, forget=0.2, clients=(4,)),
    "several-commits": _bias(
        _SEVERAL, lost=0.15, reply_lost=0.1, late=0.2, double=0.1, commit=0.9, is_open=0.4, freeze=0.02, step=0.0,
        die=0.0, forget=0.0, keys=(2, 3), leases=("short", "medium")),
    # Freezes in the middle of a commit, longer than DynamoDB remembers its client token.
    "several-commits-frozen": _bias(
        _SEVERAL, lost=0.02, reply_lost=0.2, late=0.1, double=0.1, freeze=0.2, commit=0.9, is_open=0.9, die=0.0,
        leases=("long", "hours"), forget=0.0, keys=(2,), clients=(2,), queue=0.0, fail_fast=0.6, grants=6),
    "permits": _bias(_PERMITS),
    "permits-long": _bias(_PERMITS, queue=0.0, leases=("long", "hours"), keys=(1, 2)),
    "permits-calm": _bias(_CLEAN, _PERMITS, queue=0.5, die=0.1),
    # Claims that land twice, before and after renewals of the entry.
    "permits-late": _bias(_LATE, _PERMITS, reheartbeat=0.8, pair=0.8, leases=("short", "second"), freeze=0.01),
    "permits-dying": _bias(
        _PERMITS, die=0.4, give_up=0.2, no_heartbeat=0.5, leases=("second", "short"), clients=(4, 6)),
    "permits-freezes": _bias(_PERMITS, freeze=0.15, step=0.15, no_heartbeat=0.5, lost=0.01, late=0.01, slow=0.02),
    "permits-corrections": _bias(_CORRECTIONS, _PERMITS, clients=(3, 4), leases=("short", "second", "medium")),
    "permits-slow": _bias(_PERMITS, skews=("slow",), no_heartbeat=0.9, die=0.2, freeze=0.01, slow=0.2),
    "permits-shortened": _bias(
        _LATE, _PERMITS, reheartbeat=1.0, other_lease=1.0, pair=0.6, no_heartbeat=0.8, freeze=0.01),
    # Unanswered renewals, held on through: the entry may be replaced, and a copy of the claim land.
    "permits-outages": _bias(
        _CLEAN, _PERMITS, double=0.45, lost=0.4, hold_on=1.0, no_heartbeat=0.0, die=0.0, leases=("short",),
        deadline=0.0, permits=(1, 2), clients=(3,), commit=0.0),
    "permits-commits": _bias(_LATE, _PERMITS, commit=0.8, is_open=0.5, give_up=0.02),
    # Callers with another N, some of which let in more than others expect.
    "permits-mixed": _bias(
        _LATE, _PERMITS, other_permits=0.5, die=0.2, no_heartbeat=0.6, clients=(5, 7), grants=18,
        leases=("second", "short")),
    # Late acts of handles that are lost, beside late copies of their claims.
    "permits-zombies": _bias(
        _CLEAN, _PERMITS, double=0.4, permits=(2, 3), no_heartbeat=1.0, late_release=0.9, commit=0.9, die=0.0,
        leases=("second",), deadline=0.0, grants=16, clients=(3,), reheartbeat=0.1, skews=("right",), is_open=0.9),
    "permits-queue": _bias(_PERMITS, queue=0.9, fail_fast=0.1, clients=(5, 8), grants=16, leases=("short", "second")),
    "permits-queue-calm": _bias(
        _CLEAN, _PERMITS, queue=1.0, fail_fast=0.0, clients=(5, 8), grants=20, die=0.0, forget=0.0,
        leases=("short", "second")),
    "permits-queue-late": _bias(
        _LATE, _PERMITS, queue=0.9, fail_fast=0.1, give_up=0.3, clients=(5, 7), grants=16, die=0.15,
        leases=("short", "second", "medium")),
    # Callers that do not wait take a permit between a waiter's look and its claim.
    "permits-queue-beside": _bias(
        _CLEAN, _PERMITS, queue=0.8, fail_fast=0.5, clients=(8, 12), grants=40, die=0.0, forget=0.0, leases=("second",),
        permits=(2, 3, 4), deadline=0.0, no_heartbeat=0.0),
    "permits-queue-pollers": _bias(
        _CLEAN, _PERMITS, pollers=0.4, queue=1.0, dead=(0, 1, 2), clients=(6, 10), grants=30, die=0.1,
        leases=("second",), permits=(2, 3, 4), no_heartbeat=0.0),
    # Who never waits is the majority, and takes one permit whenever one is free.
    "permits-pollers": _bias(
        _CLEAN, _PERMITS, pollers=0.8, queue=1.0, fail_fast=0.2, clients=(8, 12), grants=40, die=0.02, weights=1.0,
        heavy=0.25, leases=("second",), permits=(3, 4), deadline=0.0, no_heartbeat=0.0, old=0.0),
    # All are heavy, readers and writers, and some of the dead have tickets.
    "permits-heavy": _bias(
        _PERMITS, queue=0.8, clients=(5, 8), grants=24, weights=1.0, heavy=0.9, permits=(2, 3, 5),
        leases=("second", "short")),
    # Rows that change over, beside a version that knows no weights.
    "permits-beside-old": _bias(
        _LATE, _PERMITS, weights=1.0, old=0.5, clients=(5, 8), grants=24, keys=(1, 2, 3), permits=(2, 3),
        leases=("second", "short"), die=0.15),
    "permits-beside-given-up": _bias(
        _LATE, _PERMITS, weights=1.0, old=0.4, clients=(5, 8), grants=24, keys=(1, 2), permits=(2, 3), heavy=0.2,
        leases=("second",), give_up=0.4, late=0.3, reply_lost=0.2, queue=0.2, die=0.1, idle=0.0),
    "permits-queue-dying": _bias(
        _CLEAN, _PERMITS, queue=1.0, fail_fast=0.0, die=0.4, clients=(6, 10), grants=24, leases=("second", "short"),
        dead=(0, 2, 3), permits=(2, 3, 4), deadline=0.0),
    "permits-queue-idle": _bias(
        _CLEAN, _PERMITS, queue=1.0, dead=(1, 2, 5, 64), clients=(2, 4), fail_fast=0.0, give_up=0.02, grants=8,
        leases=("short", "second")),
    **_of_holds("holds", _HOLDS),
    **_of_holds("permit-holds", _PERMIT_HOLDS),
    # Leases of seconds beside leases of weeks, in rows that are reaped.
    "permit-holds-weeks": _bias(_PERMIT_HOLDS, _REAPED, leases=("weeks",), permits=(2, 3), park=0.8, queue=0.0),
    "interrupted-permit-holds": _bias(
        _PERMIT_HOLDS, _LATE, interrupt=0.4, give_up=0.0, adopt=0.4, park=0.8, reheartbeat=0.5, die=0.02),
    # Copies of a holder's claims, which land when an interrupted handover has given its permit back.
    "interrupted-permit-holds-claims": _bias(
        _CLEAN, _PERMIT_HOLDS, interrupt=0.35, late=0.35, double=0.2, reply_lost=0.3, adopt=0.0, park=1.0,
        by_string=0.1, by_holder=1.0, acquire_again=0.0, die=0.0, zombies=0.0, deadline=0.0, leases=("medium",),
        skews=("right",), clients=(0, 1), executions=(2, 3), permits=(2, 3)),
    "interrupted": _bias(interrupt=0.6, give_up=0.0, hand_over=0.25, commit=0.25, reheartbeat=0.7),
    # A clock 2.5 to 6 s fast in each new process, and give-backs that come when others have the lock.
    "given-back-late": _bias(
        _GIVEN_BACK_LATE, leases=("short", "second", "medium"), grants=10, clients=(3, 4), keys=(1,)),
    "given-back-late-queue": _bias(_QUEUE, _GIVEN_BACK_LATE, clients=(4, 6), grants=14, fail_fast=0.1),
    "given-back-late-permits": _bias(_PERMITS, _GIVEN_BACK_LATE, reheartbeat=0.5),
    "given-back-late-permit-holds": _bias(
        _PERMIT_HOLDS, _GIVEN_BACK_LATE, _ZOMBIES, die=0.3, by_string=0.7, park=0.8, adopt=0.4),
    "given-back-late-holds": _bias(_HOLDS, _GIVEN_BACK_LATE, die=0.3, by_string=0.7, park=0.8),
    "seconds-fast": _bias(_LATE, skews=("seconds",), die=0.5, no_heartbeat=0.6, freeze=0.01, step=0.0),
    # Two threads that renew one handle at once.
    "at-once": _bias(
        _LATE, reheartbeat=1.0, at_once=1.0, pair=0.5, other_lease=0.5, no_heartbeat=0.3, die=0.1, freeze=0.01,
        step=0.01, leases=("short", "second", "medium"), interrupt=0.05),
    # Freezes of any clocks and steps of the wall clock, in everything that renews, hands over and commits.
    "freezes-stepped": _bias(
        freeze=0.15, step=0.4, no_heartbeat=0.3, hand_over=0.25, commit=0.25, reheartbeat=0.6, interrupt=0.1, lost=0.01,
        late=0.01, slow=0.02),
    # Only exceptions that are thrown in, and late copies.
    "interrupted-late": _bias(
        _LATE, interrupt=0.7, give_up=0.0, hand_over=0.3, commit=0.3, reheartbeat=0.7, other_lease=0.7,
        leases=("short", "second"), freeze=0.0, step=0.0),
    "interrupted-calm": _bias(_CLEAN, interrupt=0.6, hand_over=0.2, commit=0.3, reheartbeat=0.5, die=0.02),
    "interrupted-events": _bias(_LATE, _EVENTS, interrupt=0.5, give_up=0.0, commit=0.5, die=0.02),
    "interrupted-queue": _bias(_QUEUE, interrupt=0.6, give_up=0.0, fail_fast=0.1, clients=(4, 6), grants=12, die=0.02),
    "interrupted-several": _bias(_SEVERAL, _LATE, interrupt=0.6, give_up=0.0, commit=0.5, die=0.02),
    "interrupted-permits": _bias(
        _PERMITS, _LATE, interrupt=0.6, give_up=0.0, commit=0.3, reheartbeat=0.7, die=0.02, leases=("short", "second")),
    "interrupted-holds": _bias(
        _HOLDS, _LATE, interrupt=0.4, give_up=0.0, adopt=0.4, park=0.8, reheartbeat=0.5, die=0.02),
    # Rows that are reaped while nobody uses them, and just when somebody does.
    "reaped": _bias(_REAPED, hand_over=0.25, keys=(1,)),
    "reaped-at-once": _bias(
        _LATE, _REAPED, ttls=(0,), idle=0.05, keys=(1,), leases=("second", "short"), no_heartbeat=0.6, freeze=0.05,
        hand_over=0.3, die=0.15),
    "reaped-events": _bias(_EVENTS, _REAPED, keys=(1,), next_event=0.1, windows=("short", "hour", "day")),
    "reaped-queue": _bias(_QUEUE, _REAPED, ttls=(0, 60), clients=(3, 5), grants=12),
    "reaped-permits": _bias(_PERMITS, _REAPED, leases=("second", "short", "hours")),
    "reaped-holds": _bias(_HOLDS, _REAPED, ttls=(0, 60), park=0.8, leases=("second", "short")),
    # Adopted holds are handed over again, and those hand-overs are interrupted.
    "interrupted-adopted": _bias(
        _HOLDS, interrupt=0.7, give_up=0.0, adopt=0.95, park=1.0, by_string=0.9, die=0.0, executions=(2, 3),
        release_again=0.6),
    "rates": _RATES,
    "rates-calm": _bias(_CLEAN, _RATES, _RIGHT, die=0.0, interrupt=0.0),
    "rates-clocks": _bias(
        _CLEAN, _RATES, skews=("minutes", "right", "fast", "slow"), step=0.05, die=0.05, interrupt=0.0),
    "rates-freezes": _bias(_CLEAN, _RATES, freeze=0.05, skews=("right",), step=0.02),
    "rates-late": _bias(_LATE, _RATES, late_give_backs=0.3, interrupt=0.2, give_up=0.1, skews=("right", "near")),
    "rates-slow": _bias(_RATES, slow=0.3, skews=("right",)),
    # Many requests that the network holds up, and delivers late.
    "rates-given-back": _bias(
        _LATE, _RATES, _RIGHT, interrupt=0.4, give_up=0.3, freeze=0.03, late_give_backs=0.4, clients=(8,), hurry=3.0,
        rate_waits=(2.0, 5.0), grants=250, rates=((5, 1.0, 1), (10, 1.0, 1))),
    # Processes that are stopped in their first read, for longer than starts are apart.
    "rates-first-read": _bias(
        _CLEAN, _RATES, _RIGHT, rates=((1, 10.0, 1), (1, 20.0, 1)), rate_waits=(0.0, 5.0), grants=80, hurry=1.0,
        stopped_reads=0.5, die=0.7, interrupt=0.0, clients=(3, 5), freeze=0.02),
    # Starts so far apart that a single one too many shows.
    "rates-rare": _bias(
        _LATE, _RATES, _RIGHT, rates=((1, 60.0, 1), (2, 120.0, 1)), rate_waits=(0.0, 30.0, 120.0), grants=60, hurry=3.0,
        interrupt=0.2, give_up=0.3, double=0.25, late_give_backs=0.2, reply_lost=0.2, clients=(3, 5)),
    # Waits during which the wall clock is stepped.
    "rates-stepped": _bias(
        _CLEAN, _RATES, rates=((1, 60.0, 1), (7, 60.0, 1)), rate_waits=(30.0, 120.0), grants=60, hurry=3.0, step=0.3,
        skews=("right",), interrupt=0.0, die=0.0),
    "rates-reset": _bias(_RATES, reset=0.05),
    "rates-stacked": _bias(_LATE, _RATES, refused_inside=0.4),
    "rates-one-a-day": _bias(
        _RATES, rates=((1, 86_400.0, 1), (7, 3600.0, 1)), grants=40, rate_waits=(0.0, 3600.0, 86_400.0)),
    # Quotas by burst, of which as many as they allow are wanted after a quiet time.
    "rates-quota": _bias(
        _RATES, rates=((5, 3600.0, 5), (12, 86_400.0, 12)), grants=150, rate_waits=(0.0, 0.0, 7200.0), hurry=4.0),
    "rates-crowd": _bias(_CLEAN, _RATES, _RIGHT, clients=(30,), grants=400, hurry=1.1, rates=((50, 1.0, 1),)),
    "rates-large": _bias(
        _CLEAN, _RATES, _RIGHT, rates=((50_000_000, 60.0, 1_000_000),), several_starts=1.0, clients=(8,), grants=250,
        hurry=5.0, rate_waits=(10.0, 20.0)),
    "odd": _bias(dateless=0.02, answered_twice=0.05),
    "events": _EVENTS,
    "events-calm": _bias(_CLEAN, _EVENTS, deadline=0.5),
    # First owners that are late: frozen beyond their lease, with requests that take long.
    "events-late": _bias(
        _LATE, _EVENTS, freeze=0.05, no_heartbeat=0.7, late_release=0.6, die=0.05, deadline=0.1,
        leases=("short", "second"), fail=0.15),
    # Windows that pass, so that an observed completion is present instead of absent.
    "events-passing": _bias(
        _LATE, _EVENTS, windows=("short",), next_event=0.0, keys=(1,), no_heartbeat=0.8, late_release=0.5, freeze=0.04,
        die=0.03, deadline=0.1, leases=("short", "second"), fail=0.1, grants=10),
    # Many callers that come when a window ends, to front ends that differ.
    "events-ends": _bias(
        _CLEAN, _EVENTS, windows=("short",), next_event=0.0, keys=(1,), clients=(5, 8), leases=("second",),
        fail_fast=0.6, fail=0.3, die=0.0, grants=24, pollers=0.9, front_ends=0.25),
    "events-commits": _bias(_LATE, _EVENTS, commit=0.9, is_open=0.5, freeze=0.03, deadline=0.1, fail=0.1),
    "events-odd": _bias(_EVENTS, dateless=0.02, answered_twice=0.05),
    # Two versions of the code with other validate= or result=, and an older library, on the same events.
    "events-versions": _bias(
        _LATE, _EVENTS, versions=("1:a", "2:", None), windows=("short",), next_event=0.0, keys=(1,), grants=14,
        leases=("short", "second"), fail=0.1, die=0.03, forgets=0.1, commit=0.3),
    # Rows that are erased while others take them, and erasures that come late and twice.
    "erased": _bias(_LATE, _KEPT, erases=0.3, keys=(1,), leases=("second", "short"), clients=(3, 4), grants=10),
    "erased-events": _bias(
        _LATE, _EVENTS, erases=0.25, next_event=0.1, keys=(1,), leases=("second", "short"), fail=0.1),
    "erased-permits": _bias(_LATE, _PERMITS, erases=0.3, leases=("second", "short")),
    # Events that are forgotten, while they are in progress and after it, and done again at once.
    "forgets": _FORGETS,
    "forgets-result": _bias(_LATE, _FORGETS, if_result=0.7),
    "forgets-calm": _bias(_CLEAN, _FORGETS, deadline=0.5),
    "forgets-late": _bias(
        _LATE, _FORGETS, no_heartbeat=0.7, late_release=0.6, freeze=0.05, die=0.05, deadline=0.1,
        leases=("short", "second"), fail=0.1, polls=30.0),
    # Completions that land late, while a take-over by forget is on its way.
    "forgets-take-over": _bias(
        _FORGETS, late=0.35, slow=0.4, double=0.1, forgets=0.6, leases=("second",), no_heartbeat=1.0, die=0.0,
        freeze=0.0, step=0.0, deadline=0.0, fail=0.0, commit=0.0, fail_fast=0.2, interrupt=0.0, give_up=0.0, forget=0.0,
        until_the_hour=0.0, windows=("hour",), ttls=(0,)),
    "forgets-given-up": _bias(_LATE, _FORGETS, interrupt=0.5, die=0.02, commit=0.3),
    "forgets-plain": _bias(_LATE, _FORGETS, event=0.5, die=0.15, dateless=0.02, answered_twice=0.03),
}  # fmt: skip

#: How often each bias is drawn if none is asked for.
WEIGHTS: dict[str, float] = {"mixed": 6, "foreign-drift": 0.05, "foreign-long": 0.3}
WEIGHTS |= dict.fromkeys(("stormy", "fast", "renewals", "shortened"), 3)
WEIGHTS |= dict.fromkeys(("calm", "given-up", "freezes", "events", "events-late", "events-passing"), 2)
assert WEIGHTS.keys() <= BIASES.keys()


def draw_bias(rng: random.Random) -> str:
    names = list(BIASES)
    return rng.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]


def settings_for(bias: str) -> Settings:
    return Settings(**BIASES[bias])


#: Seconds, at least one.
_LEASES: dict[str, Callable[[random.Random], float]] = {
    "second": lambda rng: rng.choice((1.0, 1.0, rng.uniform(1, 2))),
    "short": lambda rng: rng.uniform(2, 12),
    "quarter": lambda rng: 900.0,
    "weeks": lambda rng: rng.choice((1.0, rng.uniform(2, 12), rng.uniform(7, 21) * 86_400)),
    "medium": lambda rng: rng.choice((20.0, rng.uniform(10, 120))),
    "long": lambda rng: rng.choice((900.0, 3600.0, rng.uniform(120, 3600))),
    "hours": lambda rng: rng.choice((3600.0, rng.uniform(1800, 3600))),
}
#: The seconds by which a wall clock is off.
_SKEWS: dict[str, Callable[[random.Random], float]] = {
    "right": lambda rng: rng.uniform(-0.2, 0.2),
    "near": lambda rng: rng.uniform(-5, 5),
    "minutes": lambda rng: rng.choice((-1, 1)) * rng.uniform(30, 900),
    "fast": lambda rng: rng.choice((rng.uniform(2, 9), rng.uniform(2, 9), rng.uniform(5, 120))),
    "seconds": lambda rng: rng.uniform(2.5, 6),
    "edge": lambda rng: rng.uniform(2.5, 8),  # around the limit for corrections
    "slow": lambda rng: -rng.uniform(0.5, 15),
}


def draw_lease(rng: random.Random, kind: str) -> float:
    return _LEASES[kind](rng)


def draw_skew(rng: random.Random, kind: str) -> float:
    return _SKEWS[kind](rng)
