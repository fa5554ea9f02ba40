"""Rows whose waiters no waiter of the run wrote: the dead from before it, and lists that are forged."""

from typing import Any

from lambda_lock.core.row import MOST_WAITERS, make_version
from lambda_lock.core.tickets import make_ticket

from . import permits
from .clocks import EPOCH
from .world import World

WAITERS, HELD_MS = "waiters", "heldMs"


def begin(world: World, key: str) -> None:
    """Start with a row in which dead waiters have tickets. It was released, or its holder is dead."""
    dead = world.rng.choice(world.settings.dead)
    if not dead:
        return
    left = world.rng.choice((-60, 3, 12, 31, 31, 90))  # seconds that their tickets count; a wrong clock dated the last
    ago = world.rng.choice((0.0, 2.0, 60.0, 86_400.0))
    left_of = [left] * dead
    if world.settings.apart and world.rng.random() < world.settings.apart:
        left_of = [31, *(world.rng.randint(2, 12) for _ in range(dead - 1))]
    item: dict[str, Any] = {
        "key": {"S": key},
        "ownerName": {"S": "before#1"},
        "leaseDuration": {"S": "5000"},
        "recordVersionNumber": {"S": make_version(int((EPOCH + 5 - ago) * 1000), "0" * 32)},
        "fencingToken": {"N": "7"},
        WAITERS: {"L": [{"S": make_ticket(f"dead-{at:03}", int(EPOCH) + left)} for at, left in enumerate(left_of)]},
    }
    if world.permits:
        item = permits.sealed(item, world)
    elif world.rng.random() < 0.6:
        item |= {"isReleased": {"S": "1"}, HELD_MS: {"N": "300"}}
    world.table.store(world.table.key(item, False), item)


def forge(world: World, key: str) -> None:
    """Write waiters, and sometimes how long the last holder held, as no client would."""
    row, rng = world.table.get(key), world.rng
    if row is None:
        return
    tickets = list(row.get(WAITERS, {"L": []}).get("L", []))
    soon = int(EPOCH + world.now) + 30
    waiters: dict[str, Any] | None = rng.choice(
        (
            None,
            {"L": []},
            {"L": tickets[1:]},
            {"L": tickets[::-1]},
            {"L": [*tickets, *tickets]},
            {"L": [{"S": "forged-1"}, *tickets]},
            {"L": [{"S": f"forged-{number}"} for number in range(MOST_WAITERS)]},
            {"L": [{"S": make_ticket("forged-1", soon)}, *tickets]},
            {"L": [{"S": make_ticket(f"f{number:07}", soon)} for number in range(MOST_WAITERS)]},
            {"L": [{"S": f"f{number}"} for number in range(200)]},
            {"L": [*tickets, {"N": "1"}]},
            {"L": [{"S": "x" * 2000}]},
            {"S": "nobody"},
            {"N": "3"},
            {"NULL": True},
        )
    )
    changed: dict[str, Any] = {**row, WAITERS: waiters}
    if rng.random() < 0.3:
        changed[HELD_MS] = {"N": rng.choice(("0", "1", "-5", "1e30", "999999999999999", "0.5"))}
    item = {name: value for name, value in changed.items() if value is not None}
    world.table.store(world.table.key(item, False), item)
    world.judge.changed[key] = world.now
    world.judge.line.forged(key, row, item)
    world.trace("somebody", f"forges waiters={str(waiters)[:80]}")
