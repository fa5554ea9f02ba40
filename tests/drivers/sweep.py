"""Sweeps: all points of an operation, one after the other, in another process, because that may hang or crash."""

import faulthandler
import json
import math
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.support.instants import points_of

from .faults import FAULTS, play
from .scenes import OPERATIONS, DoubleHolderError, Stage, begin, judge

T = TypeVar("T")
PATIENCE = 60  # seconds after which a point counts as hanging
_SPOILT = 9  # status of a process that had a trouble: what that left behind would be taken for troubles of other points
_PROBED = 25  # after so many points, the heartbeat of the process must still renew


@dataclass
class Swept:
    """The results of a sweep."""

    name: str
    points: int = 0
    played: int = 0
    double_holders: int = 0
    troubles: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


#: Plays all points from the one with this number on, and yields what is new, as JSON: how many points there are, which
#: one comes next, what happened at it, what was wrong.
Steps = Callable[[int], Iterator[dict[str, Any]]]


def course(
    stage: Stage,
    operation: str,
    fault: str,
    first: int = 0,
    within: tuple[str, ...] = ("",),
    seed: int | None = None,
    one_in: int = 1,
) -> Iterator[dict[str, Any]]:
    """Play a fault at each point of an operation, in the modules whose paths begin like this.

    seed: of a random order. None: they come in the order of the code.
    one_in: play one point in so many.
    """
    what, kind = OPERATIONS[operation], FAULTS[fault]
    for _ in range(2):  # the first time, modules are loaded
        scene = stage.play(what)
        found = points_of(lambda: scene.run(what.act))  # noqa: B023
        what.done(scene)
        judge(scene, what)
    found = [point for point in found if str(point).startswith(within) and not str(point).startswith(kind.spared)]
    found = ordered(found[::one_in], seed)

    def one(number: int) -> Counter[str]:
        counts = play(stage, what, kind, found[number]).counts
        if (number + 1) % _PROBED == 0 or number + 1 == len(found):
            probe(stage)
        return counts

    yield from told(found, first, one)


def told(points: Sequence[object], first: int, one: Callable[[int], Counter[str]]) -> Iterator[dict[str, Any]]:
    """Play the points from the first one on, each by its number, and yield the news of them (`Steps`)."""
    yield {"points": len(points)}
    for number in range(first, len(points)):
        yield {"at": number, "name": str(points[number])}
        try:
            yield {"counts": one(number)}
        except DoubleHolderError as error:
            yield {"wrong": str(error), "double": True}
        except Exception as error:  # noqa: BLE001 - told, and the next point is played
            yield {"wrong": "".join(traceback.format_exception(error))}


def ordered(points: list[T], seed: int | None) -> list[T]:
    """In a random order from this seed, or as they are."""
    return points if seed is None else random.Random(seed).sample(points, len(points))


def probe(stage: Stage) -> None:
    """The heartbeat of this process still renews."""
    scene = stage.play(OPERATIONS["close"])
    scene.run(OPERATIONS["close"].act)
    judge(scene, OPERATIONS["close"])


def sweep(name: str, steps: Steps, until: float = math.inf, most: int = 3) -> Swept:
    """Run a course in a process of its own. Where that hangs, crashes or has a trouble, another one goes on after it.

    until: by the monotonic clock, when no further point is played.
    """
    swept, first, crashes = Swept(name), 0, 0
    while len(swept.troubles) < most:
        at, status = _run(swept, steps, first, until)
        if status == 0:
            break
        number = at.get("at")
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _SPOILT:
            pass  # it is among the troubles
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV and crashes < 3:
            crashes += 1
            swept.counts["crashes of the interpreter"] += 1
        else:
            swept.troubles.append(f"{name}, {at.get('name', 'before the first point')}: hangs or died, status {status}")
        if number is None:
            break
        first = number + 1
    return swept


def _run(swept: Swept, steps: Steps, first: int, until: float) -> tuple[dict[str, Any], int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(writer, steps, first, until)
    os.close(writer)
    at: dict[str, Any] = {}
    with os.fdopen(reader) as lines:
        for line in lines:
            news = json.loads(line)
            swept.points = news.get("points", swept.points)
            if "at" in news:
                at = news
                swept.played += 1
            swept.counts.update(news.get("counts", {}))
            if "wrong" in news:
                swept.double_holders += "double" in news
                swept.troubles.append(f"{swept.name}, {at['name']}: {news['wrong']}")
    return at, os.waitpid(pid, 0)[1]


def _child(writer: int, steps: Steps, first: int, until: float) -> None:
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, chain=True)  # tells where it hangs, and ends
        signal.alarm(PATIENCE)
        begin()
        for news in steps(first):
            signal.alarm(PATIENCE)
            os.write(writer, json.dumps(news).encode() + b"\n")
            if "wrong" in news:
                os._exit(_SPOILT)
            if "counts" in news and time.monotonic() > until:
                break
        status = 0
    except BaseException:  # noqa: BLE001 - told, and the process ends
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
