"""What must hold of orders that an event source has brought, judged from the engine's data alone."""

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
    number: int  # how often the order was begun, this time included
    entered: int
    last: int
    kinds: frozenset[str]  # of its notes
    cut_off: bool  # it was the last of its worker in an invocation that was killed

    @property
    def well(self) -> bool:
        """Whether it did all its work."""
        return not self.kinds.isdisjoint(("left", "committed"))

    @property
    def settled(self) -> bool:
        """Whether the order is certainly complete in the lock table, so that nothing may run it again.

        A commit completes it. Otherwise the worker completes it after the run's last note, and may be killed before it
        does. A later note of that worker shows that it was not.
        """
        return "committed" in self.kinds or ("left" in self.kinds and not self.cut_off)


def runs(notes: Notes) -> list[Run]:
    """The runs in a journal, in the order in which they were entered."""
    killed = {note["invocation"] for note in open_invocations(notes)}
    of_run: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    latest: dict[tuple[str, int], int] = {}  # of each worker of each invocation
    for note in notes:
        if "order" in note:
            of_run.setdefault((note["order"], note["run"]), []).append(note)
            worker = note["invocation"], note["worker"]
            latest[worker] = max(note["at"], latest.get(worker, note["at"]))
    found = []
    for (order, number), seen in of_run.items():
        times = [note["at"] for note in seen]
        invocation, worker_id = seen[0]["invocation"], seen[0]["worker"]
        cut_off = invocation in killed and latest[invocation, worker_id] == max(times)
        kinds = frozenset(note["what"] for note in seen)
        found.append(Run(order, int(number), min(times), max(times), kinds, cut_off))
    return sorted(found, key=lambda run: run.entered)


def open_invocations(notes: Notes) -> list[Mapping[str, Any]]:
    """The first notes of the invocations that have not ended. One that was killed never does."""
    ended = {note["invocation"] for note in notes if note["what"] == "ended"}
    return [note for note in notes if note["what"] == "began" and note["invocation"] not in ended]


def open_processes(notes: Notes) -> list[int]:
    """The processes of the invocations that have not ended."""
    return [note["pid"] for note in open_invocations(notes)]


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
    """What is committed is done, no matter how the run ends afterwards."""
    done = {run.order for run in seen if run.well} | {name for name, counts in effects.items() if "committed" in counts}
    yield from (f"never done: {name}" for name in orders if name not in done and not _is_poison(orders[name]))


def _miscounted(orders: Mapping[str, Order], seen: Sequence[Run], effects: Effects) -> Iterator[str]:
    """A committed effect happens once; so does a plain one, and again after each run that broke off behind it.

    A run may break off for another's sake as well, before its plan or beyond it: the process of all workers of a batch
    dies with one of them. It may even have reached its end, and not have completed the order yet. Once a run is
    settled, nothing is repeated.
    """
    for name, order in orders.items():
        own = [run for run in seen if run.order == name]
        commit = bool(order.get("commit"))
        behind_it = ("between",) if commit else ("between", "after")
        planned = [number for number, step in enumerate(order.get("plan", ()), 1) if step.endswith(behind_it)]
        expected = {"effects": 0 if _is_poison(order) else 1 + len(planned), "committed": int(commit)}
        counted = {what: effects.get(name, {}).get(what, 0) for what in expected}
        unsettled = itertools.takewhile(lambda run: not run.settled, own)
        more = sum(run.number not in planned and not _fails_before(order, run) for run in unsettled)
        fewer = len(planned) - sum(run.number in planned and "breaks off" in run.kinds for run in own)
        allowed = range(expected["effects"] - fewer, expected["effects"] + more + 1)
        if counted["committed"] != expected["committed"] or counted["effects"] not in allowed:
            yield f"miscounted: {name} has {counted}, not {expected}"


def _fails_before(order: Order, run: Run) -> bool:
    """Whether the run can have had no effect, by its plan."""
    plan = order.get("plan", ())
    return run.number <= len(plan) and bool(plan[run.number - 1].endswith("before"))


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
