"""Processes that start things at a rate, on a real engine, of which some are killed and some are frozen."""

import signal
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.plain  # the workers, which are other processes, use a LockClient

WORKER = Path(__file__).with_name("worker.py")
LIMIT = 20
#: Seconds' worth of starts too many that a busy machine may show: half a second of patience, and a process that waits
#: for a processor between its start and its note.
BUSY = 3.0


def times(file: Path) -> list[float]:
    return sorted(map(float, file.read_text().split()))


def wait_for(file: Path, more: int) -> None:
    """Wait for so many more starts."""
    least = len(times(file)) + more
    wait_until(lambda: len(times(file)) >= least)


def excess(starts: list[float], burst: int) -> float:
    """By how many seconds' worth of starts any window has more than its time allows, and the burst."""
    worst, least = 0.0, float("inf")
    for number, at in enumerate(starts):
        least = min(least, number - at * LIMIT)
        worst = max(worst, number + 1 - at * LIMIT - least - burst)
    return worst / LIMIT


def test_the_judge_sees_starts_that_come_too_often():
    evenly = [number / LIMIT for number in range(200)]
    assert excess(evenly, 1) == pytest.approx(0, abs=1e-6)
    assert excess(sorted(evenly * 2), 1) > BUSY


@pytest.mark.long
@pytest.mark.parametrize("burst", [1, 5])
def test_processes_keep_a_rate_together_while_some_are_killed_and_frozen(engine, table, tmp_path, burst, start):
    file, frozen = tmp_path / "starts", 0
    file.touch()
    processes = [start(WORKER, file, LIMIT, burst) for _ in range(6)]
    for number, process in enumerate(processes[:4]):
        wait_for(file, 20)
        if number % 2:
            process.kill()
            continue
        process.send_signal(signal.SIGSTOP)
        frozen += 1
        wait_for(file, 40)
        process.send_signal(signal.SIGCONT)
    wait_for(file, 40)
    # Who is frozen between its start and its note writes down when it thawed.
    assert excess(times(file), burst) <= BUSY + frozen / LIMIT
