"""Breaks recorded histories, each in a way that no lock can explain, to see whether the checker rejects them.

Each function returns the broken history. If there is no place for the fault, `_pick` raises NoPlaceError.
"""

import copy
import itertools
import random
from collections.abc import Callable
from typing import Any

from .record import History, Op, op

Break = Callable[[list[Op], random.Random], list[Op]]

BREAKS: dict[str, Break] = {}
_OF_PERMITS = {"a second holder", "a hold lost within its promise"}  # those that a semaphore cannot explain, either
_ENDINGS = ("release", "commit", "hand_over")


def breaks(name: str) -> Callable[[Break], Break]:
    def add(function: Break) -> Break:
        BREAKS[name] = function
        return function

    return add


class NoPlaceError(Exception):
    """The history has no place for the fault."""


def broken(history: History, name: str, source: random.Random) -> History | None:
    """A history with the fault of this name. None if the history has no place for it."""
    if history.permits and name not in _OF_PERMITS:
        return None
    try:
        operations = BREAKS[name](copy.deepcopy(history.operations), source)
    except NoPlaceError:
        return None
    return History(f"{history.lock}, with {name}", history.calm, operations, history.permits)


def _of(operations: list[Op], *kinds: str, outcome: str = "ok") -> list[Op]:
    return [each for each in operations if each["kind"] in kinds and each["outcome"] == outcome]


def _grants(operations: list[Op]) -> list[Op]:
    return _of(operations, "acquire", "adopt")


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
    if not choices:
        raise NoPlaceError
    return source.choice(choices)


def _pick_two(choices: list[Op], source: random.Random) -> Any:
    return _pick([*itertools.permutations(choices, 2)], source)


@breaks("a second holder")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    start, end, grant = _pick(_spans(operations), source)
    _shift(operations, grant["token"])
    second = op("acquire", "ok", start, end, client=999, token=grant["token"] + 1, owner="c999#second", take=100)
    return [*operations, second]


@breaks("a hold lost within its promise")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    start, end, grant = _pick(_spans(operations), source)
    return [*operations, op("renew", "lost", start, end, client=999, token=grant["token"])]


@breaks("a refusal that names one who does not hold the lock")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    start, end, _ = _pick(_spans(operations), source)
    return [*operations, op("acquire", "no", start, end, client=999, owner="c0#other", asked=True)]


@breaks("a refusal that names one who never asked")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    refusal = _pick(_of(operations, "acquire", outcome="no"), source)
    refusal["owner"], refusal["asked"] = "nobody", False
    return operations


@breaks("a token granted twice")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    first, second = _pick_two(_of(operations, "acquire"), source)
    second["token"] = first["token"]
    return operations


@breaks("a token lower than one before")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    grants = _grants(operations)
    pairs = [(one, two) for one in grants for two in grants if one["end"] < two["call"] and one["token"] < two["token"]]
    one, two = _pick(pairs, source)
    one["token"], two["token"] = two["token"], one["token"]
    return operations


def _late(kind: str, **more: Any) -> Break:
    """An act of an earlier hold, which succeeds after a later hold was granted."""

    def late(operations: list[Op], source: random.Random) -> list[Op]:
        old, new = sorted(_pick_two(_grants(operations), source), key=lambda grant: grant["token"])
        instant = new["end"] + 2
        return [*operations, op(kind, "ok", instant, instant + 10, client=999, token=old["token"], **more)]

    return late


breaks("a lock released by one who held it before")(_late("release"))
breaks("a lock renewed by one who held it before")(_late("renew"))
breaks("a lock that looks held to one who held it before")(_late("held"))
breaks("a commit by one who held the lock before")(_late("commit", value="late"))


@breaks("a string adopted twice")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    first = _pick(_of(operations, "adopt"), source)
    _shift(operations, first["token"])
    instant = first["end"] + 2
    second = op("adopt", "ok", instant, instant + 10, client=999, token=first["token"] + 1, handed=first["handed"])
    return [*operations, second]


@breaks("a read of what nobody wrote")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    read = _pick([each for each in operations if each["kind"] == "read"], source)
    read["value"] = "never written"
    return operations


@breaks("a read of what was overwritten")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    commits = sorted(_of(operations, "commit"), key=lambda each: each["call"])
    choices = [
        (read, old)
        for old, new in itertools.pairwise(commits)
        for read in operations
        if read["kind"] == "read" and old["end"] < new["call"] and new["end"] < read["call"]
    ]
    read, old = _pick(choices, source)
    read["value"] = old["value"]
    return operations


@breaks("a commit that was read and said that it was refused")
def _(operations: list[Op], source: random.Random) -> list[Op]:
    read = {each["value"] for each in operations if each["kind"] == "read"}
    commit = _pick([each for each in _of(operations, "commit") if each["value"] in read], source)
    commit["outcome"] = "refused"
    return operations
