"""Histories of events that are made, shared and forgotten over HTTP, while requests are lost, doubled and late.

Callers ask for the result of an event, and make it if there is none; others forget it, whatever it is or if it is one
that somebody was given. All write down what they called, what they were answered, and when. The judge needs no model:
it compares times.

- **Stale**: a forget has returned (True, or False of whatever it is), and a caller that asks after that is given a
  result whose making began before that forget was called.
- **Erased**: an event was done for certain (somebody was given a result that another had made), and was made again, and
  no forget of it was under way in between. A late copy of an earlier forget did that, or a forget of another result.
- **Denied**: a forget of one result said False, and others were given that result before and after.
- **Two at once**: two made the result of one event at the same time, within their leases.
"""

import itertools
import logging
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from lambda_lock import LockClient, LockError, LockNotGrantedError, TransportError, deduplicate

_LEASE = 2.0  # seconds; no making takes as long
OPEN = float("inf")  # the end of a making that goes on, and of a forget that may still be carried out


@dataclass
class Made:
    """One making of a result, from its begin to its end."""

    begun: float
    ended: float = OPEN


@dataclass
class Asked:
    """One call: which making's result it was given, and whether it made that itself."""

    call: float
    end: float
    number: int
    own: bool


@dataclass
class Forgot:
    """One forget.

    said: True, False, or None if it met an event in progress, or its outcome is unknown. number: of the making whose
    result was to be forgotten; None: whatever it is.
    """

    call: float
    end: float
    said: bool | None
    number: int | None = None


@dataclass
class History:
    """What callers did with one event."""

    made: dict[int, Made] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    forgot: list[Forgot] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)  # results that nobody made


def play(url: str, table: str, seconds: float, seed: int, askers: int = 4, forgetters: int = 2) -> History:
    """Let callers ask for one event and forget it for some seconds. Each has a client of its own."""
    history, end, guard = History(), time.monotonic() + seconds, threading.Lock()
    clients = [LockClient(table, endpoint_url=url, lease_duration=_LEASE) for _ in range(askers + forgetters)]

    def ask(client: LockClient, source: random.Random) -> None:
        numbers: list[int] = []

        def until_the_hour(result: object) -> float:  # so that many completions end in the same second
            return 7200 - int(time.time()) % 3600

        @deduplicate(
            "{key}", scope="", result="json", wait=1, refresh_period=0.05, window=until_the_hour, client=client
        )
        def make(key: str) -> int:
            with guard:
                number = len(history.made)
                history.made[number] = Made(time.monotonic())
            numbers.append(number)
            time.sleep(source.choice((0.0, 0.01, 0.1)))
            history.made[number].ended = time.monotonic()
            return number

        while time.monotonic() < end:
            call = time.monotonic()
            try:
                number = make("event")
            except LockError:
                continue
            if number not in history.made:
                history.odd.append(f"odd: a call was given {number!r}")
                continue
            history.asked.append(Asked(call, time.monotonic(), number, number in numbers))
            time.sleep(source.uniform(0, 0.02))

    def forget(client: LockClient, source: random.Random) -> None:
        while time.monotonic() < end:
            number = None
            if history.asked and source.random() < 0.6:  # the newest, or the one before
                number = max(history.asked[-1].number - source.choice((0, 0, 1)), 0)
            meant: dict[str, Any] = {} if number is None else {"if_result": number}
            forgot = Forgot(time.monotonic(), OPEN, None, number)
            try:
                forgot.said = client.forget("event", wait=source.choice((0, 0, 0.3)), **meant)
                forgot.end = time.monotonic()
            except LockNotGrantedError:  # it may have forgotten what was done, unanswered, and then met a new run
                forgot.end = time.monotonic()
            except TransportError:
                pass  # it may be carried out whenever
            history.forgot.append(forgot)
            time.sleep(source.uniform(0.1, 0.8))  # time for copies that come late, while no forget is under way

    roles: list[Any] = [ask] * askers + [forget] * forgetters
    threads = [
        threading.Thread(target=role, args=(client, random.Random(seed * 100 + place)), daemon=True)
        for place, (role, client) in enumerate(zip(roles, clients, strict=True))
    ]
    log = logging.getLogger("lambda_lock")
    log.disabled, before = True, log.disabled
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        log.disabled = before
        for client in clients:
            client.close(release=False)
    return history


def judge(history: History) -> list[str]:
    """What is wrong with a history."""
    found = list(history.odd)
    over = [each for each in history.forgot if each.said or (each.said is False and each.number is None)]
    for asked in history.asked:
        begun = history.made[asked.number].begun
        latest = max((each.call for each in over if each.end < asked.call), default=-1.0)
        if begun < latest:
            found.append(f"stale: a call at {asked.call:.3f} was given what was begun at {begun:.3f}")
    shared = [each for each in history.asked if not each.own]
    for number, made in history.made.items():
        known = max((each for each in shared if each.end < made.begun), key=lambda each: each.end, default=None)
        if known is not None and not any(
            each.call < made.begun and each.end > known.call and each.number in (None, known.number)
            for each in history.forgot
        ):
            found.append(
                f"erased: {number} was made at {made.begun:.3f}, and {known.number} was known at {known.end:.3f}"
            )
    for forgot in history.forgot:
        given = [each for each in shared if each.number == forgot.number]
        before, after = (each.end < forgot.call for each in given), (each.call > forgot.end for each in given)
        if forgot.said is False and any(before) and any(after):
            found.append(f"denied: {forgot.number} was there at {forgot.call:.3f}, and was not forgotten")
    makings: list[Any] = sorted((made.begun, made.ended) for made in history.made.values() if made.ended != OPEN)
    for (_, ended), (begun, _) in itertools.pairwise(makings):
        if begun < ended:
            found.append(f"two at once: one began at {begun:.3f}, another ended at {ended:.3f}")
    return found
