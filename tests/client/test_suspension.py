"""Machines that are suspended with their memory: a MicroVM of Lambda, a paused virtual machine, a laptop.

docs/where-it-runs.md says what to do: release before the suspension, and verify after it what was still held.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lambda_lock import ClientClosedError, LockLostError
from rig.engine import ROOT
from tests.support.clocks import StandingClock
from tests.support.elsewhere import in_thread
from tests.support.waiting import wait_until

from .conftest import reading

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


def test_what_is_released_before_a_suspension_is_free_during_it_and_can_be_taken_anew_after_it(table, make, rows):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def hook(name: str) -> None:
            print(name, file=server.stdin, flush=True)

        assert server.stdout.readline() == "holding\n"
        hook("suspend")
        assert server.stdout.readline() == "suspend False\n"
        assert server.stdout.readline() == "LockLostError\n"
        os.kill(server.pid, signal.SIGSTOP)
        wait_until(lambda: stopped(server.pid))
        lock = make().acquire("job", wait=0)
        os.kill(server.pid, signal.SIGCONT)
        hook("resume")
        assert server.stdout.readline() == "resume False\n"
        assert server.stdout.readline() == "LockLostError\n"
        assert lock.is_held
        lock.release()
        hook("end")
        assert server.stdout.readline() == "end False\n"
        assert server.stdout.readline() == "holding\n"
        hook("end")
        assert server.stdout.readline() == "end True\n"
    assert server.returncode == 0
    assert not rows.is_held("job")


def test_an_acquire_that_waits_when_the_machine_is_to_be_suspended_ends_without_the_lock(make, rows):
    holder, waiting = make().acquire("a"), make()

    def wait() -> object:
        with pytest.raises(ClientClosedError):
            waiting.acquire("a", wait=30)
        return None

    ended = in_thread(wait)
    wait_until(lambda: "waiters" in rows["a"])
    waiting.close()
    ended()
    holder.release()
    assert not rows.is_held("a")


# A machine that came back with all clocks where they stood: no time has passed for it


def test_a_renewal_after_the_suspension_tells_the_truth_where_no_clock_does(make, client):
    lock = make(clock=StandingClock(), lease_duration=2, heartbeat_period=0).acquire("a")
    with client.acquire("a", wait=30):
        assert reading(lock).is_held  # it believes so
        with pytest.raises(LockLostError):
            lock.heartbeat()
        assert not reading(lock).is_held
        assert lock.lost


def test_a_renewal_after_a_short_suspension_goes_on_with_the_lock(make, client):
    lock = make(clock=StandingClock(), heartbeat_period=0).acquire("a")
    lock.heartbeat()
    assert lock.is_held
    assert client.try_acquire("a") is None
