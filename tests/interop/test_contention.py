"""Other clients and ours contend for one lock, and some leave it unrenewed. No increment is lost."""

from __future__ import annotations

import time

import pytest

from tests.support.waiting import wait_until

from .peers import JAVA_CLIENT, KINDS, Answer, Peer

pytestmark = pytest.mark.long

LEASE = 1.0
ABANDON = 0.1  # the share of grants that are abandoned, as in a crash
DEFAULT_LEASE = 20.0  # of our, the Java and the Go client; the Python client's is 30
MOST_RUNS = 10  # a short run beside a busy machine may end before anybody was granted a lock
COMPRESSION = DEFAULT_LEASE / LEASE


@pytest.mark.parametrize("minutes", [2, pytest.param(60, marks=[pytest.mark.prove, pytest.mark.timeout(600)])])
def test_minutes_of_mixed_contention_lose_no_increment(minutes, engine, make_table, start):
    """Leases of one second instead of twenty compress the time. The three other clients run at the same time."""
    seconds = minutes * 60 / COMPRESSION
    counters: dict[str, str] = {}
    running: list[tuple[str, Peer]] = []
    for kind in KINDS:
        table = make_table(kind.schema)
        counters[kind.name] = engine.create_table(f"{table}-counter")
        for each, options in ((kind, {}), (None, {"schema": kind.schema.name})) * 2:
            running.append((kind.name, start(each, table, lease=LEASE, heartbeat=LEASE / 4, **options)))
    terms = {"seconds": seconds, "wait": LEASE, "refresh": 0.05, "abandon": ABANDON}
    tallies: list[tuple[str, Answer]] = []
    for _ in range(MOST_RUNS):
        for name, peer in running:
            peer.tell("count", key="k", counters=counters[name], **terms)
        time.sleep(seconds)  # the run itself; there is nothing to observe before its end
        tallies += [(name, peer.answer()) for name, peer in running]
        if all(engine.scan(table) for table in counters.values()) or any("error" in tally for _, tally in tallies):
            break
    for name, table in counters.items():
        mine = [tally for owner, tally in tallies if owner == name]
        assert not [tally for tally in mine if "error" in tally], mine
        [row] = engine.scan(table)
        assert int(row["n"]["N"]) == sum(int(tally["done"]) for tally in mine), mine
        assert any(tally["done"] for tally in mine), mine
        if minutes > 2:  # too short a run may pass one of them by
            assert all(tally["done"] for tally in mine), mine
            assert sum(tally["abandoned"] for tally in mine), mine


@pytest.mark.parametrize("dead", [1, 2])
def test_behind_waiters_that_were_killed_both_clients_are_granted_the_lock(dead, engine, make_table, start):
    table = make_table(JAVA_CLIENT.schema)
    counters = engine.create_table(f"{table}-counter")
    lease = {"lease": 2.0, "heartbeat": 0.5}
    theirs, ours = start(JAVA_CLIENT, table, **lease), [start(None, table, **lease) for _ in range(2)]
    holder, doomed = start(None, table, **lease), [start(None, table, **lease) for _ in range(dead)]
    assert "granted" in holder.ask("acquire", key="k", wait=0, refresh=0.1)
    for peer in doomed:
        peer.tell("acquire", key="k", wait=60, refresh=0.1)
    wait_until(lambda: len(engine.scan(table)[0].get("waiters", {"L": []})["L"]) == dead)
    for peer in doomed:
        peer.kill()
    assert holder.ask("release", key="k") == {"released": True}
    running = [theirs, *ours]
    tallies: list[Answer] = [{"done": 0} for _ in running]
    for _ in range(MOST_RUNS):
        for peer in running:
            peer.tell("count", key="k", counters=counters, seconds=4, wait=30, refresh=0.05, abandon=0)
        for tally, peer in zip(tallies, running, strict=True):
            answer = peer.answer()
            assert "error" not in answer, answer
            tally["done"] += answer["done"]
        if all(tally["done"] for tally in tallies):
            break
    [row] = engine.scan(counters)
    assert int(row["n"]["N"]) == sum(tally["done"] for tally in tallies)
    assert all(tally["done"] for tally in tallies), tallies
    assert not any(row.get("waiters", {"L": []})["L"] for row in engine.scan(table))  # Java's release deletes the row
