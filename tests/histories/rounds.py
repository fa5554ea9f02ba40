"""A round: an engine, a network, and many processes of callers, which are killed and frozen while they work."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rig.engine import ROOT, Engine, client_environment, inherited_environment
from tests.prove import bench

from .caller import LOCKS, REGISTERS, Orders, Plan
from .engines import ENGINES, Lasting
from .record import Recording, now, read
from .storm import Storm

_PATIENCE = 45.0  # seconds after the end of a round within which its processes have ended
_LOOK = 0.25
_STARTING = 60.0  # seconds within which the callers have started, on a busy machine


@dataclass
class Round:
    """What happened in a round."""

    plan: Plan
    recording: Recording
    faults: Counter[str] = field(default_factory=Counter)  # on the network
    killed: int = 0
    frozen: int = 0
    restarts: int = 0

    @property
    def figures(self) -> bench.Figures:
        faults = self.faults.copy()
        return {
            "requests on the network": faults.pop("requests", 0),
            "faults": faults,
            "engines restarted": self.restarts,
            "processes of callers": {"killed": self.killed, "frozen": self.frozen},
            "real kills and freezes": self.killed + self.frozen,
        }

    @property
    def wrong(self) -> dict[str, list[str]]:
        """Nothing that the recording does not have."""
        return {}


def play(plan: Plan) -> Round:
    """Play a round, and collect its histories. Raises EngineError where its engine fails."""
    with tempfile.TemporaryDirectory(prefix="lambda-lock-histories-") as folder, ENGINES[plan.engine]() as engine:
        engine.create_table(LOCKS)
        engine.create_table(REGISTERS)
        with Network(engine.url, plan) as network:
            crew = Crew(plan, Path(folder), engine, network.urls)
            try:
                mishaps = Mishaps(plan, engine, network, crew)
                crew.start()
                mishaps.happen()
                troubles = crew.finish()
            finally:
                crew.kill()
        faults = network.counts
        # A network that was slow by itself has made clients send again, and their first requests were late.
        calm = plan.calm and not faults["slow by itself"]
        recording = read(sorted(crew.records.iterdir()), calm, mishaps.restarts)
        recording.troubles += troubles
        return Round(plan, recording, faults, mishaps.killed, mishaps.frozen, len(mishaps.restarts))


class Network(contextlib.ExitStack):
    """Two proxies."""

    def __init__(self, upstream: str, plan: Plan) -> None:
        super().__init__()
        self._proxies = [self.enter_context(Storm(upstream, plan.seed * 10 + place)) for place in range(2)]
        self.urls = [proxy.url for proxy in self._proxies]
        for proxy in self._proxies:
            proxy.stormy = not plan.calm

    @property
    def counts(self) -> Counter[str]:
        return sum((proxy.counts for proxy in self._proxies), Counter())

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """What the engine answers within this context never reaches a caller; requests reach the engine."""
        for proxy in self._proxies:
            proxy.silence()
        yield
        for proxy in self._proxies:
            proxy.speak()

    def black_out(self, seconds: float) -> None:
        for proxy in self._proxies:
            proxy.black_out(seconds)


class Crew:
    """The processes of callers. One that was killed is replaced."""

    def __init__(
        self, plan: Any, folder: Path, engine: Engine, urls: list[str], program: str = "tests.histories.caller"
    ) -> None:
        self.records = folder / "records"
        self._strings = folder / "strings"
        self._logs = folder / "logs"
        for each in (self.records, self._strings, self._logs):
            each.mkdir()
        self._plan, self._engine, self._urls, self._program = plan, engine, urls, program
        self._started = 0
        self._start = now()
        self.end = 0
        self.running: list[subprocess.Popen[bytes]] = []
        self._first: set[subprocess.Popen[bytes]] = set()

    def start(self) -> None:
        """Start the callers. The round begins when all of them are there, however busy the machine is."""
        self._start = now()
        self.end = self._start + int((_STARTING + self._plan.seconds) * 1e9)
        for _ in range(self._plan.processes):
            self.add()
        self._first = set(self.running)
        self.wait()
        self.end = now() + int(self._plan.seconds * 1e9)

    def wait(self) -> None:
        """Wait until all that were started are there."""
        latest = now() + _STARTING * 1e9
        while len(list(self.records.iterdir())) < self._started and now() < latest:
            time.sleep(_LOOK / 5)

    def add(self) -> None:
        number = self._started
        self._started += 1
        orders = Orders(
            number=number,
            plan=self._plan,
            engine=self._engine.port,
            record=str(self.records / f"{number:05}"),
            strings=str(self._strings),
            start=self._start,
            end=self.end,
        )
        environment = inherited_environment() | client_environment(self._urls[number % len(self._urls)])
        command = [sys.executable, "-m", self._program, json.dumps(asdict(orders))]
        with (self._logs / f"{number:05}").open("wb") as log:
            self.running.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))

    def replace(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.running.remove(process)
        self.add()

    def finish(self) -> list[str]:
        """Wait for the callers. Returns what is wrong with those that did not end as they should."""
        troubles = []
        time.sleep(max(0.0, (self.end - now()) / 1e9))
        for process in self._first & set(self.running):
            process.send_signal(signal.SIGTERM)  # they do not know when the round ends; those started later do
        looks = int(_PATIENCE / _LOOK)
        while looks > 0 and any(process.poll() is None for process in self.running):
            time.sleep(_LOOK)
            looks -= 1  # looks are counted, not seconds: the machine may have stood still
        for process in self.running:
            if process.poll() is None:
                troubles.append("a process of callers did not end: an operation hangs; its threads:")
                process.send_signal(signal.SIGUSR1)  # it prints where its threads are
                time.sleep(1.0)
                process.kill()
                process.wait()
            elif process.returncode:
                troubles.append(f"a process of callers ended with status {process.returncode}")
        troubles += [text for log in sorted(self._logs.iterdir()) if (text := log.read_text(errors="replace").strip())]
        return troubles

    def kill(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


class Mishaps:
    """What happens to processes while they work."""

    def __init__(self, plan: Plan, engine: Lasting, network: Network, crew: Crew) -> None:
        self._plan, self._engine, self._network, self._crew = plan, engine, network, crew
        self._random = random.Random(f"mishaps-{plan.seed}")
        self.killed = self.frozen = 0
        self.restarts: list[tuple[int, int]] = []  # from and to

    def happen(self) -> None:
        """Let things happen until the round is over."""
        mishaps = [self._kill, self._freeze, self.restart, self._black_out]
        while (left := (self._crew.end - now()) / 1e9) > 0:
            time.sleep(min(left, self._random.uniform(1.0, 5.0)))
            if not self._plan.calm and now() < self._crew.end:
                self._random.choices(mishaps, [35, 35, 8, 15])[0]()

    def _kill(self) -> None:
        self._crew.replace(self._random.choice(self._crew.running))
        self.killed += 1

    def _freeze(self) -> None:
        with frozen(self._random.choice(self._crew.running)):
            time.sleep(self._random.uniform(0.2, 6.0))
        self.frozen += 1

    def restart(self) -> None:
        """Restart the engine, in silence: it may lose what it answers meanwhile."""
        started = now()
        with self._network.silence():
            self._engine.restart()
        self.restarts.append((started, now()))

    def _black_out(self) -> None:
        self._network.black_out(self._random.uniform(0.3, 7.0))


@contextlib.contextmanager
def frozen(process: subprocess.Popen[bytes]) -> Iterator[None]:
    os.kill(process.pid, signal.SIGSTOP)  # a child that has ended keeps its id until it is waited for
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)
