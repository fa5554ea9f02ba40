"""Other clients and ours at one lock, all at once, some of which leave it unrenewed: no increment is lost."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rig.engine import Ministack

from .conftest import Start
from .peers import KINDS, Peer

LEASE = 1.0
ABANDON = 0.1  # of all grants: whoever gets one leaves it as a crash does
DEFAULT_LEASE = 20.0  # ours, Java's and Go's; Python's is 30
COMPRESSION = DEFAULT_LEASE / LEASE


@pytest.mark.parametrize(
    "minutes",
    [
        2,
        pytest.param(10, marks=pytest.mark.slow),
        pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_minutes_of_mixed_contention_lose_no_increment(
    minutes: int, engine: Ministack, make_table: Callable[..., str], start: Start
) -> None:
    """Compressed by leases of one second in place of twenty. The three other clients are tried side by side."""
    seconds = minutes * 60 / COMPRESSION
    counters: dict[str, str] = {}
    running: list[tuple[str, Peer]] = []
    for kind in KINDS:
        table = make_table(kind.schema)
        counters[kind.name] = engine.create_table(f"{table}-counter")
        terms = {"lease": LEASE, "heartbeat": LEASE / 4}
        for _ in range(2):
            running.append((kind.name, start(kind, table, **terms)))
            running.append((kind.name, start(None, table, schema=kind.schema.name, **terms)))
    for name, peer in running:
        peer.tell("count", key="k", counters=counters[name], seconds=seconds, wait=LEASE, refresh=0.05, abandon=ABANDON)
    time.sleep(seconds)  # the run itself: nothing can be observed before its end
    tallies = [(name, peer.answer()) for name, peer in running]
    for name, table in counters.items():
        mine = [tally for owner, tally in tallies if owner == name]
        assert not [tally for tally in mine if "error" in tally], mine
        [row] = engine.scan(table)
        assert int(row["n"]["N"]) == sum(int(tally["done"]) for tally in mine), mine
        assert any(tally["done"] for tally in mine), mine
        if minutes >= 10:  # too short a run may pass one of them by
            assert all(tally["done"] for tally in mine), mine
            assert sum(tally["abandoned"] for tally in mine), mine
