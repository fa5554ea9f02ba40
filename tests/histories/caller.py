"""A process of callers that use locks at random and record what they see: ``python -m tests.histories.caller orders``.

``orders`` is a JSON object (`Orders`). The process ends by itself when the round is over.
"""

import contextlib
import faulthandler
import gc
import http.client
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lambda_lock import Lock, LockClient
from lambda_lock.errors import CommitRefusedError, LockError, LockLostError, LockNotGrantedError, TransportError
from rig.engine import request_headers
from tests.simulation.mutations import broken
from tests.support.clocks import SkewedClock

from .record import Recorder, now

LOCKS, REGISTERS = "locks", "registers"  # the tables of the locks, and of what commits write
_OLD = 10.0  # seconds after which a string that was handed over is not adopted any more


@dataclass(frozen=True)
class Plan:
    """What a round is like.

    seconds: how long callers begin operations.
    keys: how many locks are in use at once.
    rotation: seconds after which they are replaced by others, so that a history stays short.
    calm: nothing goes wrong. Otherwise the network is faulty, and processes and the engine are killed.
    mutation: the name of a rule of the protocol that is broken (tests/simulation/mutations.py), or "".
    """

    engine: str
    seed: int
    seconds: float = 60.0
    calm: bool = False
    processes: int = 4
    threads: int = 8
    keys: int = 24
    rotation: float = 15.0
    mutation: str = ""


@dataclass(frozen=True)
class Orders:
    """What the callers of one process are to do."""

    number: int  # of the process; its callers are numbered from number * threads
    plan: Any  # a Plan, here or in weights.py
    engine: int  # the engine's own port, for reads
    record: str  # the file to write
    strings: str  # the folder for strings of locks that are handed over
    start: int  # of the round, as an instant of the monotonic clock in nanoseconds
    end: int


class Caller:
    """One line of execution that uses locks."""

    def __init__(self, orders: Orders, number: int, recorder: Recorder, stop: threading.Event) -> None:
        self.orders, self.number, self.recorder, self.stop = orders, number, recorder, stop
        self.random = random.Random(f"{orders.plan.seed}-{number}")
        self.written = 0
        self.engine = http.client.HTTPConnection("127.0.0.1", orders.engine, timeout=2)
        entropy = self.random.random
        self.renewing = entropy() < 0.6
        self.client = LockClient(
            LOCKS,
            owner_prefix=f"c{number}",
            lease_duration=self.random.choice([1.0, 1.5, 2.0, 3.0]),
            heartbeat_period=None if self.renewing else 0,
            refresh_period=self.random.choice([0.1, 0.3, 1.0]),
            clock=SkewedClock(self.random.uniform(-300, 300)) if entropy() < 0.25 else None,
        )

    def run(self) -> None:
        try:
            while not self.stop.is_set() and now() < self.orders.end:
                if self.random.random() < 0.15 and (found := self._find_string()):
                    self._adopt(*found)
                else:
                    self._acquire(self._pick())
        except BaseException:
            self.recorder.trouble(traceback.format_exc())
            raise

    # Beginnings

    def _pick(self) -> str:
        """A lock of those in use now. Some are wanted much more than others."""
        turn = int((now() - self.orders.start) / 1e9 / self.orders.plan.rotation)
        return f"{turn}-{int(self.orders.plan.keys * self.random.random() ** 2)}"

    def _acquire(self, key: str) -> None:
        wait = self.random.choice([0, 0, 0, 0.15, self.random.uniform(0.3, 3.0)])
        number = self.recorder.begin("acquire", key, self.number, wait=wait)
        try:
            lock = self.client.acquire(key, wait=wait, queue=self.random.random() < 0.8)
        except LockNotGrantedError as error:
            self.recorder.end(number, "no" if error.holder else "failed", owner=error.holder or "")
        except TransportError as error:
            self.recorder.end(number, _failure(error))
        else:
            self.recorder.end(number, "ok", token=lock.fencing_token, owner=lock.owner)
            self._work(lock)

    def _adopt(self, key: str, token: int, string: str) -> None:
        number = self.recorder.begin("adopt", key, self.number, handed=token)
        try:
            lock = self.client.adopt(string)
        except LockLostError:
            self.recorder.end(number, "lost")
        except (TransportError, LockNotGrantedError) as error:
            self.recorder.end(number, _failure(error))
        else:
            self.recorder.end(number, "ok", token=lock.fencing_token)
            self._work(lock)

    # The life of a lock

    def _work(self, lock: Lock) -> None:
        self.recorder.look(lock, self.number)
        while self.random.random() < 0.7 and not self.stop.is_set():
            act = self.random.choices([self._read, self._renew, self._pause], [5, 3, 3])[0]
            act(lock)
            self.recorder.look(lock, self.number)
        endings = [self._release, self._commit, self._hand_over, self._refuse, self._forget]
        self.random.choices(endings, [50, 25, 14, 4, 5])[0](lock)

    def _read(self, lock: Lock) -> None:
        """Read the register straight from the engine: what is stored, not what the network makes of it."""
        request = {"TableName": REGISTERS, "Key": {"key": {"S": lock.key}}, "ConsistentRead": True}
        number = self.recorder.begin("read", lock.key, self.number)
        try:
            self.engine.request("POST", "/", json.dumps(request), request_headers("GetItem"))
            response = self.engine.getresponse()
            body = json.loads(response.read())
            if response.status != 200:
                raise ValueError(body)
        except (OSError, http.client.HTTPException, ValueError):
            self.engine.close()
            self.recorder.end(number, "failed")
            return
        self.recorder.end(number, "ok", value=body.get("Item", {}).get("value", {}).get("S", ""))

    def _record(self, kind: str, lock: Lock, act: Callable[[], Any], **known: Any) -> Any:
        """Carry out an act on a lock, and record it. Returns what it gave, or what it raised."""
        number = self.recorder.begin(kind, lock.key, self.number, token=lock.fencing_token, **known)
        try:
            given = act()
        except (LockLostError, CommitRefusedError, TransportError) as error:
            told = "lost" if isinstance(error, LockLostError) else "refused"
            self.recorder.end(number, _failure(error) if isinstance(error, TransportError) else told)
            return error
        self.recorder.end(number, "ok")
        return given

    def _renew(self, lock: Lock) -> None:
        self._record("renew", lock, lock.heartbeat)

    def _pause(self, lock: Lock) -> None:
        """Most pauses are short, a few outlast the lease."""
        long = self.random.random() < 0.06
        self.stop.wait(self.random.uniform(0.5, 4.0) if long else self.random.uniform(0.0, 0.02))

    # Endings

    def _release(self, lock: Lock) -> None:
        number = self.recorder.begin("release", lock.key, self.number, token=lock.fencing_token)
        self.recorder.end(number, self._released(lock))

    def _released(self, lock: Lock) -> str:
        """Release it, if need be several times, which is one operation: the answer is about all of them."""
        ambiguous = False
        while True:
            try:
                return "ok" if lock.release() else "lost"
            except TransportError as error:
                ambiguous = ambiguous or error.ambiguous
                if self.random.random() < 0.5:
                    return "unknown" if ambiguous else "failed"

    def _commit(self, lock: Lock, condition: dict[str, str] | None = None) -> None:
        self.written += 1
        value = f"{self.number}.{self.written}"
        item = {"key": {"S": lock.key}, "value": {"S": value}}
        put = {"TableName": REGISTERS, "Item": item} | (condition or {})
        writes = "" if condition else value
        error = self._record("commit", lock, lambda: lock.commit([{"Put": put}]), value=writes)
        if isinstance(error, TransportError) and self.random.random() < 0.5:
            number = self.recorder.begin("release", lock.key, self.number, token=lock.fencing_token)
            said = self._released(lock)
            # After a commit of unknown outcome, it only says that the lock is released now.
            self.recorder.end(number, "over" if error.ambiguous and said in ("ok", "lost") else said)

    def _refuse(self, lock: Lock) -> None:
        """A commit whose items cannot be written."""
        self._commit(lock, {"ConditionExpression": "attribute_exists(nothing)"})

    def _hand_over(self, lock: Lock) -> None:
        string = self._record("hand_over", lock, lock.hand_over)
        if isinstance(string, str):
            for copy in range(2 if self.random.random() < 0.3 else 1):
                self._leave_string(lock.key, lock.fencing_token, copy, string)
            self.stop.wait(self.random.uniform(0.0, 0.3))  # by then, another may have adopted it
            self.recorder.look(lock, self.number)

    def _forget(self, lock: Lock) -> None:
        """Keep neither the lock nor its row: its lease ends by itself. The caller drops the handle on its return."""

    def _leave_string(self, key: str, token: int, copy: int, string: str) -> None:
        hidden = Path(self.orders.strings, f".{key}_{token}_{copy}_{self.number}")
        hidden.write_text(string)
        hidden.rename(Path(self.orders.strings, f"{key}_{token}_{copy}"))

    def _find_string(self) -> tuple[str, int, str] | None:
        """Take a string that some process has left. Nobody else finds it from now on."""
        names = [name for name in os.listdir(self.orders.strings) if not name.startswith(".")]
        if not names:
            return None
        path = Path(self.orders.strings, self.random.choice(names))
        mine = path.with_name(f".{path.name}_{self.number}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(mine)
            string, age = mine.read_text(), time.time() - mine.stat().st_mtime
            mine.unlink()
            key, token, _ = path.name.split("_")
            return (key, int(token), string) if age < _OLD else None
        return None


def _failure(error: LockError) -> str:
    return "unknown" if getattr(error, "ambiguous", True) else "failed"


def work(orders: Orders, caller: type[Any]) -> None:
    """Let the callers of one process work, each on a thread, until the round is over or SIGTERM comes."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    recorder = Recorder(Path(orders.record))  # its file says that this process has started
    faulthandler.register(signal.SIGUSR1)
    warnings.simplefilter("ignore", ResourceWarning)  # locks are forgotten on purpose
    first = orders.number * orders.plan.threads
    callers = [caller(orders, first + place, recorder, stop) for place in range(orders.plan.threads)]
    with broken(orders.plan.mutation or None):
        threads = [threading.Thread(target=caller.run, daemon=True) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)  # a signal is handled in between
    gc.collect()
    for caller in callers:
        caller.client.close(release=False)


def main(text: str, plan: type[Any] = Plan, caller: type[Any] = Caller) -> None:
    fields: dict[str, Any] = json.loads(text)
    work(Orders(**fields | {"plan": plan(**fields["plan"])}), caller)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
