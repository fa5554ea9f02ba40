"""Other clients and ours contend for one lock, and some leave it unrenewed. No increment is lost."""

import time
from collections.abc import Callable

import pytest

from tests.support.waiting import wait_until

from .peers import JAVA_CLIENT, KINDS, Answer, Peer

pytestmark = pytest.mark.long

LEASE = 1.0
ABANDON = 0.1  # the share of grants that are abandoned, as in a crash
DEFAULT_LEASE = 20.0  # of our, the Java and the Go client; the Python client's is 30
MOST_RUNS = 10  # a short run beside a busy machine may end before anybody was granted a lock
COMPRESSION = DEFAULT_LEASE / LEASE


def tallies(running: list[tuple[Peer, str]], enough: Callable[[list[Answer]], object], **terms: float) -> list[Answer]:
    """What each peer has counted in its table, after as many runs as it takes until that is enough."""
    found: list[Answer] = [{"done": 0, "abandoned": 0} for _ in running]
    for _ in range(MOST_RUNS):
        for peer, counters in running:
            peer.tell("count", key="k", counters=counters, **terms)
        time.sleep(terms["seconds"])  # the run itself; there is nothing to observe before its end
        for tally, (peer, _) in zip(found, running, strict=True):
            answer = peer.answer()
            assert "error" not in answer, answer
            tally |= {name: tally[name] + answer[name] for name in tally}
        if enough(found):
            break
    return found


@pytest.mark.parametrize("minutes", [2, pytest.param(60, marks=[pytest.mark.prove, pytest.mark.timeout(600)])])
def test_minutes_of_mixed_contention_lose_no_increment(minutes, engine, make_table, start):
    """Leases of one second instead of twenty compress the time. The three other clients run at the same time."""
    running: list[tuple[Peer, str]] = []
    for kind in KINDS:
        table = make_table(kind.schema)
        counters = engine.create_table(f"{table}-counter")
        for each, options in ((kind, {}), (None, {"schema": kind.schema.name})) * 2:
            running.append((start(each, table, lease=LEASE, heartbeat=LEASE / 4, **options), counters))
    tables = {counters for _, counters in running}
    terms = {"seconds": minutes * 60 / COMPRESSION, "wait": LEASE, "refresh": 0.05, "abandon": ABANDON}
    found = tallies(running, lambda _: all(map(engine.scan, tables)), **terms)
    for table in tables:
        mine = [tally for (_, counters), tally in zip(running, found, strict=True) if counters == table]
        [row] = engine.scan(table)
        assert int(row["n"]["N"]) == sum(tally["done"] for tally in mine), mine
        assert any(tally["done"] for tally in mine), mine
        if minutes > 2:  # too short a run may pass one of them by
            assert all(tally["done"] for tally in mine), mine
            assert sum(tally["abandoned"] for tally in mine), mine


@pytest.mark.parametrize("dead", [1, 2])
def test_behind_waiters_that_were_killed_both_clients_are_granted_the_lock(dead, engine, make_table, start):
    table = make_table(JAVA_CLIENT.schema)
    counters = engine.create_table(f"{table}-counter")
    lease = {"lease": 2.0, "heartbeat": 0.5}
    running = [(start(kind, table, **lease), counters) for kind in (JAVA_CLIENT, None, None)]
    holder, doomed = start(None, table, **lease), [start(None, table, **lease) for _ in range(dead)]
    assert "granted" in holder.ask("acquire", key="k", wait=0, refresh=0.1)
    for peer in doomed:
        peer.tell("acquire", key="k", wait=60, refresh=0.1)
    wait_until(lambda: len(engine.scan(table)[0].get("waiters", {"L": []})["L"]) == dead)
    for peer in doomed:
        peer.kill()
    assert holder.ask("release", key="k") == {"released": True}
    terms = {"seconds": 4, "wait": 30, "refresh": 0.05, "abandon": 0}
    found = tallies(running, lambda found: all(tally["done"] for tally in found), **terms)
    [row] = engine.scan(counters)
    assert int(row["n"]["N"]) == sum(tally["done"] for tally in found)
    assert all(tally["done"] for tally in found), found
    assert not any(row.get("waiters", {"L": []})["L"] for row in engine.scan(table))  # Java's release deletes the row
