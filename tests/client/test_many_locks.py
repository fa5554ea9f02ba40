"""More locks than a client can renew in time: those that can be kept are kept, and a warning comes before a loss."""

import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from lambda_lock import Lock, LockClient
from lambda_lock.runtime import heartbeat
from rig.engine import ROOT
from tests.support.waiting import wait_until

LINK = 0.2  # seconds for which each reply is held
LEASE = 5.0
BOUND = int(heartbeat._MOST_SENDERS * LEASE / LINK)  # renewals of all threads in one lease


def _hold(client: LockClient, count: int) -> list[Lock]:
    """Take locks, some at a time."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda number: client.acquire(f"a{number}"), range(count)))


@pytest.mark.long
def test_of_twice_as_many_locks_as_can_be_kept_over_a_slow_link_most_of_a_half_is_kept(wire, make, caplog):
    """By the ends of their leases alone, all were lost: each renewal was sent when it was just too late."""
    caplog.set_level(logging.WARNING, "lambda_lock")
    locks = _hold(make(lease_duration=LEASE), 2 * BOUND)
    wire.delay_reply("UpdateItem", seconds=LINK, times=float("inf"))
    until = time.monotonic() + 4 * LEASE
    while time.monotonic() < until:
        held = sum(lock.is_held for lock in locks)
        time.sleep(0.5)  # nothing can be waited for: several leases
    assert BOUND / 3 <= held <= BOUND
    told = [record.__dict__["lock_event"] for record in caplog.records]
    assert told.index("renewals_late") < told.index("lost")
    assert told.count("renewals_late") == 1


class _Asked:
    """A lock whose renewal waits until it is let go. ``renewed`` are the names of all, in their order."""

    def __init__(self, name: str, renewed: list[str], go: threading.Event, *, sends: bool = True) -> None:
        self._name, self._renewed, self._go, self._sends = name, renewed, go, sends
        self.begun = threading.Event()

    def renew(self) -> bool:
        self.begun.set()
        assert self._go.wait(30)
        self._renewed.append(self._name)
        return self._sends


class _Client:
    """What has renewals sent."""


def test_a_lock_that_can_hardly_be_kept_any_more_waits_for_those_that_can(monkeypatch):
    monkeypatch.setattr(heartbeat, "_MOST_SENDERS", 1)
    client, go = _Client(), threading.Event()
    renewals, renewed = heartbeat.Renewals(client), list[str]()
    asked = [(name, _Asked(name, renewed, go)) for name in ("first", "too late", "soon", "later")]
    renewals.put(asked[0][1], 60)
    assert asked[0][1].begun.wait(30)
    for (_, lock), left in zip(asked[1:], (0.0, 60, 90), strict=True):
        renewals.put(lock, left)
    go.set()
    wait_until(lambda: len(renewed) == 4)
    assert renewed == ["first", "soon", "later", "too late"]
    renewals.close()


def _is_done(renewals: heartbeat.Renewals, name: str, renewed: list[str]) -> bool:
    return name in renewed and len(renewals._idle) == len(renewals.senders)


def test_a_renewal_that_was_not_sent_says_nothing_of_how_long_one_takes():
    client, go, renewed = _Client(), threading.Event(), list[str]()
    go.set()
    renewals = heartbeat.Renewals(client)
    for name, sends in (("sent", True), ("released", False)):
        lock, before = _Asked(name, renewed, go, sends=sends), renewals._takes
        renewals.put(lock, 60)
        wait_until(partial(_is_done, renewals, name, renewed))
        assert (renewals._takes > before) is sends
    renewals.close()


def test_a_lock_that_is_late_but_alone_is_renewed_all_the_same(wire, make):
    lock = make(heartbeat_period=0.2).acquire("a", lease_duration=2)
    wire.delay_reply("UpdateItem", seconds=1.5)  # it learns that a renewal takes long
    wait_until(lambda: wire.count("UpdateItem") >= 6)
    assert lock.is_held


def test_the_page_has_the_numbers_of_locks_that_a_client_can_keep():
    page = (ROOT / "docs" / "workers.md").read_text()
    rows = re.findall(r"^\| (\d+) ms \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for milliseconds, *written in rows:
        found = [f"{heartbeat._MOST_SENDERS * lease * 1000 // int(milliseconds):,}" for lease in (5, 20, 60)]
        assert found == written
