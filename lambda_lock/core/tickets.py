"""Tickets of those who wait: how they are written, taken, renewed and returned. row.py reads them.

Loaded when an acquire has to wait. core/queue.py has the rules.
"""

from __future__ import annotations

from .requests import Update
from .row import DIGITS, MOST_WAITERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .requests import Place, Request


def make_ticket(name: str, expiry: int, take: int = 1) -> str:
    """Return a ticket in the queue: its name, its expiry in epoch seconds, and what it takes unless that is 1.

    Both numbers are to the base 36, in 6 digits (until 2038-12-23) and 2.
    """
    return name + _digits(expiry, 6) + (_digits(take, 2) if take > 1 else "")


def _digits(number: int, count: int) -> str:
    digits = ""
    for _ in range(count):
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits


def take_ticket(place: Place, mine: str) -> Request:
    """Append a ticket to those who wait: only while the lock is held or somebody waits, and never to a missing row."""
    update = Update(place)
    update.sets.append("#waiters = list_append(if_not_exists(#waiters, :none), :new)")
    update.values |= {":none": {"L": []}, ":new": {"L": [{"S": mine}]}}
    update.require("attribute_exists(#version)")
    held = "" if place.schema.released is None else "attribute_not_exists(#released) OR "
    update.require(f"({held}size(#waiters) > :zero)", zero={"N": "0"})
    update.require("NOT contains(#waiters, :mine)", mine={"S": mine})
    update.require("(attribute_not_exists(#waiters) OR size(#waiters) < :most)", most={"N": str(MOST_WAITERS)})
    return update.request(ReturnValues="ALL_NEW")


def renew_ticket(place: Place, index: int, old: str, mine: str) -> Request:
    """Write a ticket over another one: over my own to renew it, or over one that has expired."""
    update = Update(place)
    update.sets.append(f"#waiters[{index}] = :new")
    update.values[":new"] = {"S": mine}
    update.require(f"#waiters[{index}] = :old", old={"S": old})
    update.require("NOT contains(#waiters, :new)")
    return update.request(ReturnValues="ALL_NEW")


def return_ticket(place: Place, index: int, mine: str) -> Request:
    """Remove a ticket from those who wait."""
    update = Update(place)
    update.removes.append(f"#waiters[{index}]")
    update.require(f"#waiters[{index}] = :mine", mine={"S": mine})
    return update.request()
