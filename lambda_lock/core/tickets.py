"""Tickets of those who wait: how they are written, taken, renewed and returned. row.py reads them.

Loaded when an acquire has to wait. core/queue.py has the rules.
"""

from __future__ import annotations

from .requests import Update
from .row import DIGITS, MOST_WAITERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .requests import Place, Request


def make_ticket(name: str, expiry: int) -> str:
    """Return a ticket in the queue: its name, and its expiry in epoch seconds, to the base 36 (until 2038-12-23)."""
    digits = ""
    for _ in range(6):
        expiry, digit = divmod(expiry, 36)
        digits = DIGITS[digit] + digits
    return name + digits


def take_ticket(place: Place, mine: str) -> Request:
    """Append a ticket to those who wait: only while the lock is held or somebody waits, and never to a missing row."""
    schema = place.schema
    assert schema.waiters is not None, "this schema has no queue"
    update = Update(place)
    waiters = update.name(schema.waiters)
    none, one = update.value({"L": []}), update.value({"L": [{"S": mine}]})
    update.sets.append(f"{waiters} = list_append(if_not_exists({waiters}, {none}), {one})")
    most, zero = update.value({"N": str(MOST_WAITERS)}), update.value({"N": "0"})
    held = " AND ".join(update.not_released())
    condition = [
        f"attribute_exists({update.name(schema.version)})",
        f"({held} OR size({waiters}) > {zero})",
        f"NOT contains({waiters}, {update.value({'S': mine})})",
        f"(attribute_not_exists({waiters}) OR size({waiters}) < {most})",
    ]
    return update.request(condition, ReturnValues="ALL_NEW")


def renew_ticket(place: Place, index: int, old: str, mine: str) -> Request:
    """Write a ticket over another one: over my own to renew it, or over one that has expired."""
    schema = place.schema
    assert schema.waiters is not None, "this schema has no queue"
    update = Update(place)
    waiters, new = update.name(schema.waiters), update.value({"S": mine})
    update.sets.append(f"{waiters}[{index}] = {new}")
    condition = [f"{waiters}[{index}] = {update.value({'S': old})}", f"NOT contains({waiters}, {new})"]
    return update.request(condition, ReturnValues="ALL_NEW")


def return_ticket(place: Place, index: int, mine: str) -> Request:
    """Remove a ticket from those who wait."""
    schema = place.schema
    assert schema.waiters is not None, "this schema has no queue"
    update = Update(place)
    update.remove(schema.waiters, f"[{index}]")
    return update.request([f"{update.name(schema.waiters)}[{index}] = {update.value({'S': mine})}"])
