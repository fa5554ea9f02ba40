"""Breaks recorded histories, each in a way that no lock can explain, to see whether the checker rejects them.

Each function returns the broken history, or None where the history has no place for its fault.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable
from typing import Any

from .record import History, Op, op

Break = Callable[[list[Op], random.Random], list[Op] | None]

BREAKS: dict[str, Break] = {}
_ENDINGS = ("release", "commit", "hand_over")


def breaks(name: str) -> Callable[[Break], Break]:
    def add(function: Break) -> Break:
        BREAKS[name] = function
        return function

    return add


def broken(history: History, name: str, source: random.Random) -> History | None:
    """A history with the fault of this name, or None where there is no place for it."""
    operations = BREAKS[name](copy.deepcopy(history.operations), source)
    if operations is None:
        return None
    return History(f"{history.lock}, with {name}", history.calm, operations)


def _grants(operations: list[Op]) -> list[Op]:
    return [each for each in operations if each["kind"] in ("acquire", "adopt") and each["outcome"] == "ok"]


def _spans(operations: list[Op]) -> list[tuple[int, int, Op]]:
    """For each hold that was seen held: an instant after its grant, and a later one at which it is still valid.

    No ending of it has begun by then, and nobody has begun to adopt it.
    """
    spans = []
    for grant in _grants(operations):
        token = grant["token"]
        looks = [each for each in operations if each["kind"] == "held" and each["token"] == token]
        ends = [
            each["call"]
            for each in operations
            if (each["kind"] in _ENDINGS and each["token"] == token)
            or (each["kind"] == "adopt" and each["handed"] == token)
        ]
        until = min([max((reading["call"] for reading in looks), default=0), *ends])
        if until > grant["end"] + 10:
            spans.append((grant["end"] + 2, until - 2, grant))
    return spans


def _shift(operations: list[Op], above: int) -> None:
    """Make room for one more token."""
    for each in operations:
        each["token"] += each["token"] > above
        each["handed"] += each["handed"] > above


def _pick(choices: list[Any], source: random.Random) -> Any:
    return source.choice(choices) if choices else None


@breaks("a second holder")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    if (span := _pick(_spans(operations), source)) is None:
        return None
    start, end, grant = span
    _shift(operations, grant["token"])
    second = op("acquire", "ok", start, end, client=999, token=grant["token"] + 1, owner="c999#second")
    return [*operations, second]


@breaks("a hold lost within its promise")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    if (span := _pick(_spans(operations), source)) is None:
        return None
    start, end, grant = span
    return [*operations, op("renew", "lost", start, end, client=999, token=grant["token"])]


@breaks("a refusal that names one who does not hold the lock")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    if (span := _pick(_spans(operations), source)) is None:
        return None
    start, end, _grant = span
    return [*operations, op("acquire", "no", start, end, client=999, owner="c0#other", asked=True)]


@breaks("a refusal that names one who never asked")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    refusals = [each for each in operations if each["kind"] == "acquire" and each["outcome"] == "no"]
    if (refusal := _pick(refusals, source)) is None:
        return None
    refusal["owner"], refusal["asked"] = "nobody", False
    return operations


@breaks("a token granted twice")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    grants = [each for each in _grants(operations) if each["kind"] == "acquire"]
    if len(grants) < 2:
        return None
    first, second = source.sample(grants, 2)
    second["token"] = first["token"]
    return operations


@breaks("a token lower than one before")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    grants = _grants(operations)
    pairs = [(one, two) for one in grants for two in grants if one["end"] < two["call"] and one["token"] < two["token"]]
    if (pair := _pick(pairs, source)) is None:
        return None
    one, two = pair
    one["token"], two["token"] = two["token"], one["token"]
    return operations


def _after_the_next(operations: list[Op], source: random.Random) -> tuple[int, int] | None:
    """A token, and an instant by which a later one has been granted."""
    grants = _grants(operations)
    if len(grants) < 2:
        return None
    one, two = sorted(source.sample(grants, 2), key=lambda grant: grant["token"])
    return one["token"], two["end"] + 2


def _late(kind: str, **more: Any) -> Break:
    def late(operations: list[Op], source: random.Random) -> list[Op] | None:
        if (found := _after_the_next(operations, source)) is None:
            return None
        token, instant = found
        return [*operations, op(kind, "ok", instant, instant + 10, client=999, token=token, **more)]

    return late


breaks("a lock released by one who held it before")(_late("release"))
breaks("a lock renewed by one who held it before")(_late("renew"))
breaks("a lock that looks held to one who held it before")(_late("held"))
breaks("a commit by one who held the lock before")(_late("commit", value="late"))


@breaks("a string adopted twice")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    adoptions = [each for each in _grants(operations) if each["kind"] == "adopt"]
    if (first := _pick(adoptions, source)) is None:
        return None
    _shift(operations, first["token"])
    instant = first["end"] + 2
    second = op("adopt", "ok", instant, instant + 10, client=999, token=first["token"] + 1, handed=first["handed"])
    return [*operations, second]


@breaks("a read of what nobody wrote")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    if (read := _pick([each for each in operations if each["kind"] == "read"], source)) is None:
        return None
    read["value"] = "never written"
    return operations


@breaks("a read of what was overwritten")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    commits = sorted((each for each in operations if each["kind"] == "commit" and each["outcome"] == "ok"), key=_call)
    choices = [
        (read, old)
        for old, new in itertools.pairwise(commits)
        for read in operations
        if read["kind"] == "read" and old["end"] < new["call"] and new["end"] < read["call"]
    ]
    if (choice := _pick(choices, source)) is None:
        return None
    read, old = choice
    read["value"] = old["value"]
    return operations


@breaks("a commit that was read and said that it was refused")
def _(operations: list[Op], source: random.Random) -> list[Op] | None:
    read = {each["value"] for each in operations if each["kind"] == "read"}
    commits = [
        each for each in operations if each["kind"] == "commit" and each["outcome"] == "ok" and each["value"] in read
    ]
    if (commit := _pick(commits, source)) is None:
        return None
    commit["outcome"] = "refused"
    return operations


def _call(each: Op) -> int:
    return each["call"]
