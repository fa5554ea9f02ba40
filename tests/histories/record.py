"""What callers write down, and how histories are made of it.

Each process of callers has a file of its own. A line is written before an operation is begun and after it has returned,
straight to the operating system, so that a kill of the process loses no line. Times are nanoseconds of the machine's
monotonic clock, which all its processes share.
"""

import itertools
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from lambda_lock import Lock

now = time.monotonic_ns

SLOW = 0.9  # seconds after which a client may have sent a request again: then a late copy of it may be on its way
AHEAD = 0.1  # seconds by which the time of a client may run ahead on a busy machine, which ends its holds early
SHORTEST_LEASE = 1_000_000_000  # nanoseconds, of the callers (caller.py), as in checker/model.go
OPEN = -1  # the return of an operation that never returned, as far as its caller knows


class Known(TypedDict, total=False):
    """What is known of some operations."""

    client: int
    token: int  # of the hold; of an adopt that was granted, the new one
    handed: int  # adopt: the token that was handed over
    owner: str
    value: str
    asked: bool
    take: int  # of a semaphore: how many permits the hold has
    resumed: bool  # of a semaphore: whether another attempt may have gone over the hold's handle


class Op(Known):
    """An operation as the checker reads it (``Operation`` in checker/model.go)."""

    kind: str
    outcome: str
    call: int
    end: int


def op(kind: str, outcome: str, call: int, end: int, **known: Unpack[Known]) -> Op:
    unknown: Known = {"client": 0, "token": 0, "handed": 0, "owner": "", "value": "", "asked": False, "take": 0}
    unknown |= {"resumed": False}
    return {"kind": kind, "outcome": outcome, "call": call, "end": end, **unknown, **known}


@dataclass
class History:
    """What the callers of one lock did and saw. ``calm``: whether nothing was lost, late or doubled meanwhile.

    permits: N of a semaphore; 0 for a lock.
    """

    lock: str
    calm: bool
    operations: list[Op]
    permits: int = 0

    def line(self) -> str:
        return json.dumps(vars(self))


class Recorder:
    """Writes what the callers of one process do. For all its threads."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = itertools.count()

    def begin(self, kind: str, lock: str, client: int, **known: Any) -> int:
        """Note that an operation is about to begin. Returns its number.

        known: what the checker is to know of it (`Op`), and for an acquire ``wait``, the seconds that it may wait.
        """
        number = next(self._numbers)
        self._write(["begin", number, now(), kind, lock, client, known])
        return number

    def end(self, number: int, outcome: str, **learnt: Any) -> None:
        """Note how it ended, as its caller was told."""
        self._write(["end", number, now(), outcome, learnt])

    def held(self, lock: str, client: int, token: int, call: int, end: int, remaining: float) -> None:
        """Note that a lock said, between the instants ``call`` and ``end``, that it is held, and for how long."""
        self._write(["held", call, end, lock, client, token, call + int(remaining * 1e9)])

    def look(self, lock: Lock, client: int) -> None:
        """Look at a lock, and note what it says if it says that it is held."""
        call = now()
        held, remaining = lock.is_held, lock.remaining
        if held:
            self.held(lock.key, client, lock.fencing_token, call, now(), remaining)

    def trouble(self, text: str) -> None:
        """Note something that no caller may see, such as an error that is not documented."""
        self._write(["trouble", now(), text])

    def _write(self, line: list[Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


@dataclass
class Recording:
    """The histories of a round, and what else was found in it."""

    histories: list[History] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # "acquire ok" -> how many
    troubles: list[str] = field(default_factory=list)
    grants: int = 0
    slow: int = 0  # operations that took longer than a quiet network lets them take
    double_holders: list[str] = field(default_factory=list)

    @property
    def operations(self) -> int:
        """How many operations on locks callers began: reads of registers and looks at handles are not among them."""
        return sum(count for name, count in self.outcomes.items() if not name.startswith(("held ", "read ")))


def read(paths: Iterable[Path | tuple[Path, int]], calm: bool, restarts: Iterable[tuple[int, int]] = ()) -> Recording:
    """Make histories of the files of a round. They count as calm only if no operation was slow, either.

    paths: the files; with an instant, what was written until then.
    restarts: when the engine was restarted, from and to. DynamoDB remembers the client token of a transaction for ten
        minutes; the engines forget it then. A commit that is sent again after it was carried out is then refused, as if
        the lock had been lost. So what it says is taken as unknown.
    """
    recording = Recording()
    locks: dict[str, list[Op]] = defaultdict(list)
    promises: dict[str, dict[int, int]] = defaultdict(dict)
    for each in paths:
        lines = _lines(*each) if isinstance(each, tuple) else _lines(each)
        _read_file(lines, recording, locks, promises)
    for lock, operations in sorted(locks.items()):
        for start, end in restarts:
            _forget_tokens(operations, start, end)
        _complete(operations, promises[lock])
        recording.double_holders += [f"{lock}: {each}" for each in double_holders(operations, promises[lock])]
        recording.histories.append(History(lock, calm and not recording.slow, operations))
    return recording


def _read_file(
    lines: Iterable[list[Any]], recording: Recording, locks: dict[str, list[Op]], promises: dict[str, dict[int, int]]
) -> None:
    begun: dict[int, tuple[int, str, str, int, dict[str, Any]]] = {}
    for line in lines:
        match line:
            case ["begin", number, call, kind, lock, client, known]:
                begun[number] = (call, kind, lock, client, known)
            case ["end", number, end, outcome, learnt]:
                call, kind, lock, client, known = begun.pop(number)
                recording.slow += end - call > (SLOW + known.pop("wait", 0)) * 1e9
                recording.outcomes[f"{kind} {outcome}"] += 1
                recording.grants += kind in ("acquire", "adopt") and outcome == "ok"
                if outcome == "unknown":
                    end = OPEN
                _add(locks[lock], op(kind, outcome, call, end, client=client, **known | learnt))
            case ["held", call, end, lock, client, token, until]:
                recording.outcomes["held ok"] += 1
                locks[lock].append(op("held", "ok", call, end, client=client, token=token))
                promises[lock][token] = max(until, promises[lock].get(token, 0))
            case ["trouble", _, text]:
                recording.troubles.append(text)
    for call, kind, lock, client, known in begun.values():  # the process died
        recording.outcomes[f"{kind} unknown"] += 1
        known.pop("wait", None)
        _add(locks[lock], op(kind, "unknown", call, OPEN, client=client, **known))


def _lines(path: Path, stop: float = math.inf) -> Iterator[list[Any]]:
    with path.open("rb") as file:
        for text in file:
            if not text.endswith(b"\n"):  # a kill cannot cut a line, but a full disk can
                continue
            line = json.loads(text)
            if line[0] == "trouble" or line[2] <= stop:  # an instant
                yield line


def _add(operations: list[Op], each: Op) -> None:
    """Add an operation, unless it says nothing about the lock: it failed, or it changes nothing and had no reply.

    An acquire stays until `_complete`: it shows who asked.
    """
    silent = each["outcome"] == "failed" or (
        each["outcome"] == "unknown" and each["kind"] in ("renew", "read", "hand_over")
    )
    if silent and each["kind"] != "acquire":
        return
    if silent:
        each["outcome"] = "unknown"
    operations.append(each)


def _forget_tokens(operations: list[Op], start: int, end: int) -> None:
    for each in operations:
        if (each["kind"], each["outcome"]) == ("commit", "lost") and each["call"] <= end and start <= each["end"]:
            each["outcome"], each["end"] = "unknown", OPEN


def _complete(operations: list[Op], promises: dict[int, int]) -> None:
    """Add the ends of validity, and say of each refusal whether the owner that it names had asked for the lock by then,
    and of each adopt that was lost whether somebody may have taken over what it had adopted.

    The library sums its time over looks at several clocks (lambda_lock/core/lease.py). A process that is suspended in
    the middle of such a look counts that moment twice. So a loss that is told up to AHEAD before the end of the promise
    counts as told at its end. Nobody else may have the lock before, all the same.

    An acquire of unknown outcome is dropped at the end: if anything, it leaves a lock that nobody holds, and the model
    allows for that wherever it can be seen (``orphan`` in checker/model.go).
    """
    for each in operations:
        if (each["kind"], each["outcome"]) == ("adopt", "lost"):
            each["asked"] = _was_asked_for(operations, each["call"] + SHORTEST_LEASE, each["end"])
    asked: dict[str, int] = {}
    over: dict[int, int] = {}
    for each in operations:
        if each["kind"] == "acquire":
            name = f"c{each['client']}"
            asked[name] = min(each["call"], asked.get(name, each["call"]))
        if (each["kind"], each["outcome"]) in (("release", "ok"), ("commit", "ok"), ("commit", "refused")):
            over[each["token"]] = each["end"]
    for each in list(operations):
        if each["kind"] in ("acquire", "adopt") and each["outcome"] == "ok":
            until = max(promises.get(each["token"], 0), each["call"])
            if over.get(each["token"], until + 1) > until:  # a hold that was given back in time does not expire
                operations.append(op("expire", "ok", until, OPEN, client=each["client"], token=each["token"]))
        if each["kind"] in ("renew", "hand_over") and each["outcome"] == "lost":
            until = promises.get(each["token"], 0)
            if 0 <= until - each["end"] <= AHEAD * 1e9:
                each["end"] = until + 1
        if each["kind"] == "acquire" and each["outcome"] == "no":
            # A hold that is resumed keeps the prefix that names its caller.
            began = asked.get(each["owner"].partition("#")[0])
            each["asked"] = began is not None and began <= each["end"]
    operations[:] = [each for each in operations if (each["kind"], each["outcome"]) != ("acquire", "unknown")]
    operations.sort(key=lambda each: each["call"])


def _was_asked_for(operations: list[Op], since: int, until: int) -> bool:
    """Whether anybody asked for the lock in this time, with any outcome."""
    return since <= until and any(
        each["kind"] == "acquire" and each["call"] <= until and (each["end"] == OPEN or each["end"] >= since)
        for each in operations
    )


def double_holders(operations: list[Op], promises: dict[int, int]) -> list[str]:
    """The pairs of holds that were valid at once for certain, by nothing but their times.

    A hold is valid for certain from the return of its grant to the call of its last act, or to the end of what its
    holder was promised at its last look, whichever is first.
    """
    ends: dict[int, int] = {}
    for each in operations:
        if each["kind"] in ("release", "commit", "hand_over"):
            ends[each["token"]] = min(each["call"], ends.get(each["token"], each["call"]))
    holds = sorted(
        (each["end"], min(promises[each["token"]], ends.get(each["token"], promises[each["token"]])), each["token"])
        for each in operations
        if each["kind"] in ("acquire", "adopt") and each["outcome"] == "ok" and each["token"] in promises
    )
    found = []
    latest = (0, 0, 0)
    for start, end, token in holds:
        if start < latest[1] and start < end:
            found.append(f"tokens {latest[2]} and {token} for {(min(end, latest[1]) - start) / 1e9:.3f} s")
        latest = max(latest, (start, end, token), key=lambda hold: hold[1])
    return found
