"""Real processes wait in order, and some of them are killed or frozen meanwhile."""

import itertools
import json
import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lambda_lock.core.row import TICKET_NAME, ticket_expiry
from tests.support.elsewhere import Start
from tests.support.rows import Rows
from tests.support.waiting import wait_until

from .waiter import Job

pytestmark = pytest.mark.plain  # the workers, which are other processes, use a LockClient

KEY = "a"
PROGRAM = Path(__file__).with_name("waiter.py")
WAITS = (0.3, 1.0, 1.5, 30.0)
LONG = 120.0  # seconds after which whoever was not granted is starved

Process = subprocess.Popen[str]


class Line:
    """The processes of a test, what they wrote, and who waits."""

    def __init__(self, rows: Rows, log: Path, start: Start) -> None:
        self.rows, self.log, self._start = rows, log, start
        self.log.touch()

    def start(self, **job: Any) -> Process:
        return self._start(PROGRAM, json.dumps(asdict(Job(KEY, str(self.log), **job))))

    def places(self) -> list[str]:
        """Who waits, as the row has it."""
        return [place["S"] for place in self.rows[KEY].get("waiters", {"L": []})["L"]]

    def names(self) -> list[str]:
        return [place[:TICKET_NAME] for place in self.places()]

    def kill_waiters(self, number: int, **job: Any) -> list[str]:
        """Kill processes while so many of their threads wait. Returns the names of their places."""
        threads = min(number, 8)
        doomed = [self.start(threads=threads, **job) for _ in range(number // threads)]
        wait_until(lambda: len(self.places()) == number, LONG)
        for process in doomed:
            process.kill()
            process.wait()
        names = self.names()
        assert len(names) == number
        return names

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def grants(self) -> list[dict[str, Any]]:
        """What was granted, in the order of the tokens."""
        return sorted((line for line in self.lines() if line["token"] is not None), key=lambda line: line["token"])

    def most_at_once(self) -> int:
        moments = [(grant["began"], 1) for grant in self.grants()] + [(grant["ended"], -1) for grant in self.grants()]
        return max(itertools.accumulate(change for _, change in sorted(moments)))


@pytest.fixture
def line(rows: Rows, tmp_path: Path, start: Start) -> Line:
    return Line(rows, tmp_path / "log", start)


def full(*values: Any) -> Any:
    """A case that takes half a minute or more: the dead had as long a lease as a place can have at first."""
    return pytest.param(*values, 60.0, marks=pytest.mark.slow)


BUSY: dict[str, list[dict[str, Any]]] = {
    "free": [],
    "pollers": [{"queue": False}] * 2,
    "fail-fast": [{"wait": 0}] * 2,
    "both": [{"queue": False}, {"wait": 0}],
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("permits", "dead", "busy", "their_wait"),
    [
        (None, 1, "free", 4.0),
        (None, 2, "both", 4.0),
        *(full(None, dead, busy) for dead in (1, 2, 64) for busy in ("free", "pollers", "fail-fast")),
        *(full(2, dead, busy) for dead in (1, 2) for busy in ("free", "both")),
    ],
)
def test_everybody_who_lives_is_granted_behind_waiters_that_were_killed(
    permits, dead, busy, their_wait, line, make, wire
):
    """their_wait: of the dead, in seconds. Their places count for no longer than that, and a second or two."""
    held = [make().acquire("a", permits=permits) for _ in range(permits or 1)]
    names = line.kill_waiters(dead, permits=permits, wait=their_wait)
    last = max(ticket_expiry(place) or 0 for place in line.places())
    others = [
        line.start(permits=permits, hold=(0.05, 0.05), pause=(0.1, 0.1), rounds=None, **job) for job in BUSY[busy]
    ]
    living = [line.start(permits=permits, wait=wait, rounds=3) for wait in WAITS]
    for lock in held:
        lock.release()
    assert [process.wait(LONG) for process in living] == [0] * len(living)
    if others:  # after the dead have expired it goes on without them, though others keep the lock busy
        wait_until(lambda: time.time() > last + 1, LONG)
        later = [line.start(permits=permits, wait=wait, rounds=3) for wait in WAITS]
        assert [process.wait(LONG) for process in later] == [0] * len(later)
        assert not set(line.names()) & set(names)
        living += later
    for process in others:
        process.terminate()
        process.wait(LONG)

    patient = {process.pid for process in living[WAITS.index(30.0) :: len(WAITS)]}
    assert not [written for written in line.lines() if written["pid"] in patient and written["token"] is None]
    mine = {process.pid for process in living}
    # Nobody who waits needs a second place, unless the first one was removed.
    assert all(len(written["names"]) <= 1 for written in line.lines() if written["pid"] in mine)
    assert not {name for grant in line.grants() for name in grant["names"]} & set(names)
    assert line.most_at_once() <= (permits or 1)

    wait_until(lambda: time.time() > last + 1, LONG)
    make().acquire("a", permits=permits, wait=30).release()
    assert line.places() == []
    client = make()
    wire.clear()
    client.acquire("a", permits=permits, wait=30).release()
    assert wire.count() == 2


@pytest.mark.long
def test_waiters_that_are_frozen_behind_a_holder_keep_their_tickets_and_turns(line, make):
    held, order = make().acquire("a"), list[Process]()
    for _ in range(4):
        order.append(line.start())
        wait_until(lambda: len(line.places()) == len(order), LONG)
    names = line.names()
    for process in order[:3]:
        process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)  # the freeze itself
    for process in order[:3]:
        process.send_signal(signal.SIGCONT)
    assert line.names() == names
    held.release()
    assert [process.wait(LONG) for process in order] == [0] * 4
    assert [grant["names"] for grant in line.grants()] == [[name] for name in names]
    assert [grant["pid"] for grant in line.grants()] == [process.pid for process in order]
