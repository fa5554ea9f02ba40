"""Machines that are suspended with their memory: a MicroVM of Lambda, a paused virtual machine, a laptop.

docs/where-it-runs.md says what to do: release before the suspension, and verify after it what was still held.
"""

import os
import signal
from pathlib import Path

import pytest

from lambda_lock import LockLostError
from tests.support.clocks import StandingClock
from tests.support.waiting import wait_until

pytestmark = pytest.mark.plain  # both faces have the threads of the session for renewals

# A server, whose hooks are lines on its standard input.
SERVER = """
import sys
from lambda_lock import LockError, current_lock, default_client, set_default_client, with_lock

@with_lock("job")
def work():
    print("holding", flush=True)
    for hook in sys.stdin:
        if hook == "suspend\\n":
            default_client().close()
        if hook == "resume\\n":
            set_default_client(None)
        print(hook.strip(), current_lock().is_held, flush=True)
        if hook == "end\\n":
            return
        try:
            current_lock().raise_if_lost()
        except LockError as error:
            print(type(error).__name__, flush=True)

work()
work()
"""


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_what_is_released_before_a_suspension_is_free_during_it_and_can_be_taken_anew_after_it(
    table, make, rows, start
):
    server = start("-c", SERVER)

    def said(hook: str, *lines: str) -> None:
        print(hook, file=server.stdin, flush=True)
        assert [server.stdout.readline() for _ in lines] == [f"{line}\n" for line in lines]

    assert server.stdout.readline() == "holding\n"
    said("suspend", "suspend False", "LockLostError")
    os.kill(server.pid, signal.SIGSTOP)
    wait_until(lambda: stopped(server.pid))
    lock = make().acquire("job", wait=0)
    os.kill(server.pid, signal.SIGCONT)
    said("resume", "resume False", "LockLostError")
    assert lock.is_held
    lock.release()
    said("end", "end False", "holding")
    said("end", "end True")
    assert server.wait(30) == 0
    assert not rows.is_held("job")


# A machine that came back with all clocks where they stood: no time has passed for it


def test_a_renewal_after_the_suspension_tells_the_truth_where_no_clock_does(make, client):
    lock = make(clock=StandingClock(), lease_duration=2, heartbeat_period=0).acquire("a")
    with client.acquire("a", wait=30):
        assert lock.is_held  # it believes so
        with pytest.raises(LockLostError):
            lock.heartbeat()
        assert not lock.is_held
        assert lock.lost
