"""What must hold of orders that an event source has brought, judged from the engine's data alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Order = dict[str, Any]  # handlers/orders.py says what is in it; ``group`` is the message group on a FIFO queue
Notes = Sequence[Mapping[str, Any]]
Effects = Mapping[str, Mapping[str, int]]  # how often which effect of an order happened

POISON = ["raise before"] * 1000  # a plan that no queue outlives


class Run(NamedTuple):
    """One run of an order's work, from its first note to its last."""

    order: str
    entered: int
    last: int
    well: bool  # it reached its end


def runs(notes: Notes) -> list[Run]:
    """The runs in a journal, in the order in which they were entered."""
    of_run: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for note in notes:
        if "order" in note:
            of_run.setdefault((note["order"], note["run"]), []).append(note)
    found = []
    for (order, _), seen in of_run.items():
        times = [note["at"] for note in seen]
        found.append(Run(order, min(times), max(times), any(note["what"] == "left" for note in seen)))
    return sorted(found, key=lambda run: run.entered)


def open_processes(notes: Notes) -> list[int]:
    """The processes of the invocations that have not ended. One that was killed never does."""
    ended = {note["invocation"] for note in notes if note["what"] == "ended"}
    return [note["pid"] for note in notes if note["what"] == "began" and note["invocation"] not in ended]


def deliveries(notes: Notes) -> int:
    """How often messages were handed to a function."""
    return sum(len(note["receives"]) for note in notes if note["what"] == "began")


def returns(notes: Notes) -> int:
    """How often a function named messages in batchItemFailures."""
    return sum(len(note["returned"]) for note in notes if note["what"] == "ended")


def wrongs(sent: Iterable[Order], notes: Notes, effects: Effects, dead: Iterable[str] = ()) -> list[str]:
    """Everything that must not be. ``sent``: in this order; twice is once. ``dead``: who is among the dead letters."""
    orders = {order["id"]: order for order in sent}
    seen = runs(notes)
    return [
        *_not_done(orders, seen, effects),
        *_miscounted(orders, seen, effects),
        *_two_inside(orders, seen),
        *_out_of_order(orders, seen),
        *_wrongly_dead(orders, dead),
    ]


def _not_done(orders: Mapping[str, Order], seen: Sequence[Run], effects: Effects) -> Iterator[str]:
    """What is committed is done, whatever becomes of the run afterwards."""
    done = {run.order for run in seen if run.well} | {name for name, counts in effects.items() if "committed" in counts}
    yield from (f"never done: {name}" for name in orders if name not in done and not _is_poison(orders[name]))


def _miscounted(orders: Mapping[str, Order], seen: Sequence[Run], effects: Effects) -> Iterator[str]:
    """A committed effect happens once; so does a plain one, and again after each run that broke off behind it.

    A run may break off for another's sake as well: the process of all workers of a batch dies with one of them.
    """
    for name, order in orders.items():
        commit = bool(order.get("commit"))
        behind_it = ("between",) if commit else ("between", "after")
        plain = 1 + sum(step.endswith(behind_it) for step in order.get("plan", ()))
        expected = {"effects": 0 if _is_poison(order) else plain, "committed": int(commit)}
        counted = {what: effects.get(name, {}).get(what, 0) for what in expected}
        broken = sum(run.order == name and not run.well for run in seen) - len(order.get("plan", ()))
        more = counted["effects"] - expected["effects"]
        if counted["committed"] != expected["committed"] or not 0 <= more <= max(broken, 0):
            yield f"miscounted: {name} has {counted}, not {expected}"


def _two_inside(orders: Mapping[str, Order], seen: Sequence[Run]) -> Iterator[str]:
    for one, other in itertools.combinations(seen, 2):
        customer = orders[one.order]["customer"]
        if customer == orders[other.order]["customer"] and other.entered <= one.last:
            yield f"two inside for {customer}: {one} and {other}"


def _out_of_order(orders: Mapping[str, Order], seen: Sequence[Run]) -> Iterator[str]:
    """In a group nothing is begun before what was sent before it is done, or dead."""
    done_at = {run.order: run.last for run in seen if run.well}
    before: dict[str, list[str]] = {}  # by group, as far as sent
    for name, order in orders.items():
        group = order.get("group")
        if group is None or _is_poison(order):
            continue
        earlier = before.setdefault(group, [])
        for begun in [run.entered for run in seen if run.order == name][:1]:
            undone = [other for other in earlier if done_at.get(other, begun) >= begun]
            yield from (f"out of order: {name} before {other}" for other in undone)
        earlier.append(name)


def _wrongly_dead(orders: Mapping[str, Order], dead: Iterable[str]) -> Iterator[str]:
    expected, found = sorted(name for name, order in orders.items() if _is_poison(order)), sorted(dead)
    if expected != found:
        yield f"dead letters: {found}, not {expected}"


def _is_poison(order: Order) -> bool:
    return order.get("plan") is POISON
