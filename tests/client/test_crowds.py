"""Nobody starves: one who waits beside a crowd of processes, which ask for the same key in every other way."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import LockClient
from tests.support.elsewhere import Start
from tests.support.waiting import wait_until

from .waiter import Job

pytestmark = [pytest.mark.plain, pytest.mark.long]  # the crowd, which is other processes, uses a LockClient

PROGRAM = Path(__file__).with_name("waiter.py")
KEY = "config"
LENGTH = 14  # characters of a ticket that takes one
PATIENCE = 120.0  # seconds: whoever is not let in by then starves
#: What each of a crowd does for ever. It pauses, because an engine on a small machine must serve all of them.
LIFE: dict[str, Any] = {"rounds": None, "lease": 10.0, "hold": (0.1, 0.4), "pause": (0.0, 1.0), "retry": (0.0, 1.0)}
#: The options of its acquires, by kind. Those of writers take all that there is.
KINDS: dict[str, dict[str, Any]] = {
    "tries": {"shared": True, "wait": 0},
    "polls": {"shared": True, "wait": 0.5, "queue": False},
    "short waits": {"shared": True, "wait": 0.2},
    "long waits": {"shared": True, "wait": 60},
    "holders": {"shared": True, "wait": 0, "holder": True},
    "writers": {"shared": False, "wait": 60},
    "writers that try": {"shared": False, "wait": 0},
    "writers that poll": {"shared": False, "wait": 0.5, "queue": False},
}


@contextmanager
def crowd(
    start: Start, file: Path, kind: str, processes: int, each: int, until: Callable[[], bool] | None = None
) -> Iterator[None]:
    """So many processes of so many threads, which are at work before this goes on. At the end they are killed.

    until: what shows that they are at work. None: grants.
    """
    file.touch()
    job = json.dumps(asdict(Job(KEY, str(file), threads=each, **KINDS[kind], **LIFE)))
    started = [start(PROGRAM, job) for _ in range(processes)]
    wait_until(until or (lambda: len(grants(file)) >= 2 * processes), PATIENCE)
    yield
    for process in started:
        process.kill()
        process.wait()


def grants(file: Path) -> list[tuple[float, float]]:
    """When each was asked for, and granted."""
    written = map(json.loads, file.read_text().splitlines())
    return [(each["asked"], each["began"]) for each in written if each["token"] is not None]


def stands_in_line(rows: Any, shared: bool) -> bool:
    """Whether a reader waits, or a writer. Its ticket has a length of its own (docs/row-format.md)."""
    return any((len(each["S"]) == LENGTH) == shared for each in rows[KEY].get("waiters", {"L": []})["L"])


def passed(file: Path, rows: Any, client: LockClient, shared: bool) -> int:
    """How many asked after the one who acquires stood in line, and were let in before it."""
    came: list[float] = []

    def wait() -> None:
        with client.acquire(KEY, shared=shared, wait=PATIENCE):
            came.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_until(lambda: came or stands_in_line(rows, shared), PATIENCE)
    in_line = time.monotonic()
    waiter.join(PATIENCE)
    assert came, "it was not let in"
    return sum(asked > in_line and granted < came[0] for asked, granted in grants(file))


@pytest.mark.parametrize(
    ("kind", "each"), [("tries", 25), ("holders", 8), ("polls", 5), ("short waits", 5), ("long waits", 5)]
)
def test_a_writer_beside_a_crowd_of_readers_is_let_in_once_those_ahead_of_it_have_left(
    kind, each, table, rows, tmp_path, start
):
    with LockClient(table) as client, crowd(start, tmp_path / "grants", kind, 2, each):
        for _ in range(2):
            assert passed(tmp_path / "grants", rows, client, shared=False) == 0


@pytest.mark.parametrize("kind", ["writers", "writers that try", "writers that poll"])
def test_a_reader_beside_a_stream_of_writers_is_let_in_once_those_ahead_of_it_have_left(
    kind, table, rows, tmp_path, start
):
    with LockClient(table) as client, crowd(start, tmp_path / "grants", kind, 2, 4):
        for _ in range(2):
            assert passed(tmp_path / "grants", rows, client, shared=True) == 0


def test_a_writer_that_dies_in_line_costs_the_readers_its_ticket_once(table, rows, tmp_path, start):
    """The ticket counts for 10 to 35 s after its last renewal."""
    with LockClient(table) as client, client.acquire(KEY, shared=True, lease_duration=600):
        with crowd(start, tmp_path / "grants", "writers", 1, 1, until=lambda: stands_in_line(rows, shared=False)):
            assert client.try_acquire(KEY, shared=True) is None
        # It is killed.
        assert client.try_acquire(KEY, shared=True) is None
        client.acquire(KEY, shared=True, wait=PATIENCE).release()
        client.acquire(KEY, shared=True, wait=0).release()
