"""Permits of more than one, and readers and a writer, over HTTP: ``python -m tests.histories.weights --rounds 20``.

Processes of callers take permits of a few keys while requests are lost, doubled and late, and while processes are
killed (SIGKILL) and frozen (SIGSTOP). Each notes what it was granted, and for how long its handle said that it is held.
The judge knows nothing of the protocol. It adds up, from outside, what was held at the same time:

- **Too many**: more than N permits of a key were held at one instant.
- **Lost early**: a holder that nobody resumed was told that its permits are lost, though they had been promised longer.
- **Left**: when all is over, nobody can take all N within bounded time, or the row's count is not zero after that.

Of a hold that is resumed, the newest attempt counts, from its grant on (docs/holds.md). Porcupine reads the same lines,
and looks for one order of all that callers were told (checker/permits.go).
"""

import argparse
import dataclasses
import itertools
import json
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lambda_lock import Lock, LockClient
from lambda_lock.core.lease import GRACE
from lambda_lock.core.row import LONGEST_BELIEVED
from lambda_lock.errors import LockLostError, LockNotGrantedError, TransportError
from rig.engine import Engine, Ministack

from . import caller
from .caller import Orders
from .judge import judge as porcupine
from .record import AHEAD, History, Op, Recorder, now, op
from .rounds import Crew, frozen
from .storm import Storm

_LEASES = (1.0, 1.5, 2.5)
_WAITS = (0.0, 0.0, 0.0, 0.2, 1.5)
_BUSY = 20.0  # seconds that a busy machine may take beyond what the protocol allows
_FAULTS = {"cut after": 25, "cut before": 15, "cut, and delivered late": 15, "doubled late": 40, "doubled at once": 25}
#: The options of those who want each key: few and many permits, and readers and a writer.
WANTS: dict[str, list[dict[str, Any]]] = {
    "gpus": [{"permits": 5, "take": take} for take in (1, 1, 2, 3, 5)],
    "config": [{"shared": shared} for shared in (True, True, True, False)],
    "mixed": [{"permits": 3}, {"permits": 3, "take": 1}, {"permits": 3, "take": 2}],  # some say nothing of weights
}
Lines = list[tuple[int, Any]]  # of all processes, each with the number of its process
PERMITS = {"gpus": 5, "config": 100, "mixed": 3}


@dataclass(frozen=True)
class Plan:
    """A round. seconds: how long processes are killed and frozen. mutation: a rule that is broken, or ""."""

    seed: int
    seconds: float = 8.0
    processes: int = 4
    threads: int = 5
    mutation: str = ""
    table: str = ""


class Caller:
    """A thread that takes permits, works, and gives them back in one of several ways."""

    def __init__(self, orders: Orders, number: int, recorder: Recorder, stop: threading.Event) -> None:
        self.orders, self.stop, self.recorder = orders, stop, recorder
        self.attempts = itertools.count(number * 1_000_000)
        self.number = number % orders.plan.threads  # processes have the same holders
        self.random = random.Random(f"{orders.plan.seed}-{self.number}-{orders.number}")
        self.client = LockClient(
            orders.plan.table,
            owner_prefix=f"c{self.number}",
            lease_duration=self.random.choice(_LEASES),
            heartbeat_period=self.random.choice((None, 0)),
            refresh_period=0.2,
        )

    def run(self) -> None:
        try:
            while not self.stop.is_set() and now() < self.orders.end:
                self._acquire(self.random.choice([*WANTS]))
        except BaseException:
            self.recorder.trouble(traceback.format_exc())
            raise

    def _acquire(self, key: str) -> None:
        options = dict(self.random.choice(WANTS[key]))
        if self.random.random() < 0.2:
            options["holder"] = f"{self.number}, {options}"  # a holder takes as many each time
        wait, queue = self.random.choice(_WAITS), self.random.random() < 0.8
        number = self.recorder.begin("acquire", key, next(self.attempts))
        try:
            lock = self.client.acquire(key, wait=wait, queue=queue, **options)
        except (LockNotGrantedError, TransportError) as error:
            self.recorder.end(number, type(error).__name__)
            return
        attempt = next(self.attempts)
        held_by = "holder" in options
        self.recorder.end(number, "ok", token=lock.fencing_token, take=lock.take, attempt=attempt, is_resumed=held_by)
        self._work(lock, attempt)

    def _work(self, lock: Lock, attempt: int) -> None:
        self.recorder.look(lock, attempt)
        while self.random.random() < 0.6 and not self.stop.is_set():
            if self.random.random() < 0.4:
                self._act("renew", lock, attempt, lock.heartbeat)
            else:
                time.sleep(self.random.choice((0.01, 0.05, 0.05, 0.3, 1.5)))
            self.recorder.look(lock, attempt)
        way = self.random.random()
        if way < 0.65:
            self._act("release", lock, attempt, lock.release)
        elif way < 0.9:
            self._hand_over(lock, attempt)
        # else the permits are kept until their lease ends, and the handle is forgotten

    def _hand_over(self, lock: Lock, attempt: int) -> None:
        """Hand it over, and release it or go on with it, by its string."""
        string = self._act("hand_over", lock, attempt, lock.hand_over)
        if not isinstance(string, str):
            return
        number = self.recorder.begin("resume", lock.key, attempt, token=lock.fencing_token)
        try:
            if self.random.random() < 0.4:
                self.recorder.end(number, "released" if self.client.release(string) else "gone")
                return
            resumed = self.client.resume(string)
        except (LockLostError, LockNotGrantedError, TransportError) as error:
            self.recorder.end(number, type(error).__name__)
            return
        attempt = next(self.attempts)
        self.recorder.end(number, "resumed", take=resumed.take, attempt=attempt)
        self._work(resumed, attempt)

    def _act(self, kind: str, lock: Lock, attempt: int, act: Any) -> Any:
        number = self.recorder.begin(kind, lock.key, attempt, token=lock.fencing_token)
        try:
            given = act()
        except (LockLostError, TransportError) as error:
            self.recorder.end(number, "lost" if isinstance(error, LockLostError) else "unknown")
            return error
        self.recorder.end(number, "lost" if given is False else "ok")
        return given


@dataclass
class Hold:
    """What was granted: from when to when each attempt counted, by its number. over: those that count no more.

    promised: until when the last look of the newest attempt says that it is held: a resume may make the lease shorter.
    granted: when that attempt was told of it.
    """

    take: int = 0
    counted: dict[int, tuple[int, int]] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    is_resumed: bool = False
    promised: int = 0
    granted: int = 0

    def begin(self, attempt: int, begun: int, at: int) -> None:
        """An attempt that was begun at one instant was granted at another. Those before it count no more."""
        self.end_all(begun)
        self.counted[attempt] = (at, at)
        self.promised, self.granted = begun, at

    def end(self, attempt: int, at: int) -> None:
        since, until = self.counted.get(attempt, (at, at))
        self.counted[attempt] = (since, min(until, at))
        self.over.add(attempt)

    def end_all(self, at: int) -> None:
        for attempt in self.counted.keys() - self.over:
            self.end(attempt, at)

    def extend(self, attempt: int, until: int) -> None:
        if attempt in self.counted and attempt not in self.over:
            since, before = self.counted[attempt]
            self.counted[attempt] = (since, max(before, until))
            self.promised = max(until, self.promised)


@dataclass
class Round:
    """What happened, and what is wrong with it. peaks: by key, the most permits that were held at one instant.

    histories: of each key, for Porcupine.
    """

    histories: list[History] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    peaks: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def judge(lines: Lines, found: Round, permits: Mapping[str, int] = PERMITS) -> None:
    """Add up what the lines of the processes, in the order of their times, say was held at the same time.

    In the histories of the keys, all attempts of a hold are one hold. It is promised until the last look of the newest
    says. A loss that is told up to AHEAD before that counts as told at its end (record.py). What was asked for without
    an answer gives nobody a permit.
    """
    holds: dict[tuple[str, int], Hold] = defaultdict(Hold)
    begun: dict[tuple[int, int], tuple[str, str, int, dict[str, Any]]] = {}
    told: dict[str, list[Op]] = defaultdict(list)
    for process, line in lines:
        match line:
            case ["begin", number, at, kind, key, attempt, known]:
                begun[process, number] = (kind, key, at, known)
                if kind in ("release", "hand_over"):
                    holds[key, known["token"]].end(attempt, at)
                elif kind == "resume":
                    holds[key, known["token"]].end_all(at)
                    holds[key, known["token"]].is_resumed = True
            case ["end", number, at, outcome, learnt]:
                kind, key, since, known = begun.pop((process, number))
                found.happened[f"{kind} {outcome}"] += 1
                token = int(learnt.get("token") or known.get("token") or 0)
                hold = holds[key, token]
                if "take" in learnt:
                    hold.begin(learnt.get("attempt", token), since, at)
                    hold.take, hold.is_resumed = learnt["take"], hold.is_resumed or learnt.get("is_resumed", False)
                    told[key].append(op(kind, "ok", since, at, token=token, take=hold.take))
                    found.happened["more than one"] += hold.take > 1
                elif kind in ("release", "resume") or (outcome == "lost" and kind != "acquire"):
                    said = {"ok": "ok", "released": "ok", "lost": "lost"}.get(outcome, "unknown")
                    end = since if said == "unknown" else at
                    told[key].append(op("release" if kind == "resume" else kind, said, since, end, token=token))
                    until = max((end for _, end in hold.counted.values()), default=0)
                    if said == "lost" and not hold.is_resumed and at < until - AHEAD * 1e9:
                        found.wrong.append(f"lost early: {(key, token)}, {(until - at) / 1e9:.3f} s before its end")
            case ["held", since, at, key, attempt, token, until]:
                holds[key, token].extend(attempt, until)
                told[key].append(op("held", "ok", since, at, token=token))
            case ["trouble", _, text]:
                found.wrong.append(text)
    for kind, key, at, known in begun.values():  # the process died
        if kind in ("release", "resume"):
            told[key].append(op("release", "unknown", at, at, token=known["token"]))
    for (key, token), hold in holds.items():
        if hold.promised:
            told[key].append(op("expire", "ok", hold.promised, max(hold.promised, hold.granted), token=token))
    for key, operations in told.items():
        for each in operations:
            hold = holds[key, each["token"]]
            if each["outcome"] == "lost" and 0 <= hold.promised - each["end"] <= AHEAD * 1e9:
                each["end"] = hold.promised + 1
            each["resumed"] = hold.is_resumed
        operations.sort(key=lambda each: each["call"])
    found.histories = [History(key, False, operations, permits[key]) for key, operations in told.items()]
    _add_up(holds, found, permits)


def histories_of(lines: Lines, permits: Mapping[str, int] = PERMITS) -> list[History]:
    """The histories of these keys, as the checker reads them (checker/permits.go)."""
    judge(lines, found := Round(), permits)
    return found.histories


def _add_up(holds: dict[tuple[str, int], Hold], found: Round, permits: Mapping[str, int]) -> None:
    changes: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for (key, token), hold in holds.items():
        for begin, end in hold.counted.values():
            if begin < end:
                changes[key] += [(begin, hold.take, token), (end, -hold.take, token)]
    for key, each in changes.items():
        taken = 0
        for at, change, token in sorted(each):  # who leaves at an instant leaves before who comes
            taken += change
            found.peaks[key] = max(taken, found.peaks.get(key, 0))
            if taken > permits[key]:
                found.wrong.append(f"too many: {taken} of {permits[key]} of {key} at {at}, when {token} came")


def _time_of(line: Any) -> int:
    """When a line was written. What is held is known at the end of a look."""
    return int(line[1] if line[0] == "trouble" else line[2])


def _trouble(crew: Crew, source: random.Random, happened: Counter[str]) -> None:
    """Kill one process and start another in its place, or freeze one for a while. Then all are there again."""
    process = source.choice(crew.running)
    if source.random() < 0.5:
        crew.replace(process)
        crew.wait()
        happened["killed"] += 1
    else:
        with frozen(process):
            time.sleep(source.choice((0.3, 1.2, 4.0)))
        happened["frozen"] += 1


def play(engine: Engine, table: str, plan: Plan) -> Round:
    """Play a round in a table of the engine, and judge it."""
    found, source, plan = Round(), random.Random(plan.seed), dataclasses.replace(plan, table=table)
    with (
        tempfile.TemporaryDirectory() as folder,
        Storm(engine.url, plan.seed, faults=_FAULTS, late=(0.05, 1.5)) as storm,
    ):
        storm.stormy = True
        crew = Crew(plan, Path(folder), engine, [storm.url], "tests.histories.weights")
        try:
            crew.start()
            while now() < crew.end:
                time.sleep(source.uniform(0.2, 1.0))
                _trouble(crew, source, found.happened)
            found.wrong += crew.finish()
        finally:
            crew.kill()
        paths = sorted(crew.records.iterdir())
        lines = [(int(path.name), json.loads(line)) for path in paths for line in path.read_text().splitlines()]
    lines.sort(key=lambda each: _time_of(each[1]))
    judge(lines, found)
    _take_all(engine, table, found)
    return found


def _take_all(engine: Engine, table: str, found: Round) -> None:
    """Everybody is gone: one who wants all permits gets them, once what the dead left is over."""
    patience = max(_LEASES) + GRACE + LONGEST_BELIEVED + _BUSY
    with LockClient(table, endpoint_url=engine.url, refresh_period=0.2) as client:
        for key, permits in PERMITS.items():
            try:
                lock = client.acquire(key, permits=permits, take=permits, wait=patience)
                taken = [client.get(key).taken]  # type: ignore[union-attr]
                lock.release()
                if (record := client.get(key)) is None or [*taken, record.taken] != [permits, 0]:
                    found.wrong.append(f"left: {key} says {record}")
            except Exception:  # noqa: BLE001 - whatever keeps the row from being used again is wrong
                found.wrong.append(f"left: {key}: {traceback.format_exc()}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories.weights", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    options = parser.parse_args(arguments)
    wrong = False
    with Ministack() as engine:
        os.environ.update(engine.environment())
        for seed in range(options.seed, options.seed + options.rounds):
            played = play(engine, engine.create_table(f"weights-{seed}"), Plan(seed))
            listed = [f"{each['result']} to Porcupine: {each['lock']}" for each in porcupine(played.histories).listed]
            print(f"seed {seed}: peaks {played.peaks}", *played.wrong, *listed, sep="\n  ", flush=True)
            wrong = wrong or bool(played.wrong or listed)
    return int(wrong)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        caller.main(sys.argv[1], Plan, Caller)
    sys.exit(main(sys.argv[1:]))
