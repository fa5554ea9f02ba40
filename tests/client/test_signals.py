"""What signal handlers, finalizers and forked children may do in the middle of anything else: nothing hangs."""

import os
import threading
from typing import Any
from unittest.mock import Mock

import pytest

from lambda_lock import transport
from lambda_lock.errors import ClientClosedError
from lambda_lock.runtime.signalsafe import Caller, Flag, Turn
from lambda_lock.runtime.timeline import SystemClock
from tests.support.elsewhere import in_child, in_thread

PATIENCE = 60  # seconds: what hangs, hangs for ever


CLOSE_SCRIPT = """
import signal, sys
from lambda_lock import LockClient
from lambda_lock.errors import ClientClosedError

client = LockClient(refresh_period=0.05)
signal.signal(signal.SIGTERM, lambda *_: client.close())
print("waiting", flush=True)
try:
    client.acquire("a", wait=1000)
except ClientClosedError:
    print("closed")
"""


def test_a_signal_handler_that_closes_the_client_ends_a_wait(client, start):
    with client.acquire("a"):
        process = start("-c", CLOSE_SCRIPT)
        assert process.stdout.readline() == "waiting\n"
        process.terminate()
        rest, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest) == (0, "closed\n")


def test_a_lock_may_be_asked_from_within_a_look_at_the_clocks(make, monkeypatch):
    """As a finalizer does that the collector runs there."""
    clock, asked = SystemClock(), list[bool]()
    lock, monotonic = make(clock=clock, heartbeat_period=0).acquire("a"), clock.monotonic

    def asks() -> float:
        if not asked:
            asked.append(False)  # it is asked once, and not from within itself
            asked.append(lock.is_held)
        return monotonic()

    monkeypatch.setattr(clock, "monotonic", asks)
    assert in_thread(lambda: lock.is_held)()
    assert asked == [False, True]


def test_a_child_that_is_forked_while_a_thread_chooses_the_transport_can_choose_its_own(client, rows, monkeypatch):
    choosing, go_on, parent, choose = threading.Event(), threading.Event(), os.getpid(), transport.choose

    def choose_slowly(**arguments: Any) -> Any:
        if os.getpid() == parent:
            choosing.set()
            go_on.wait(PATIENCE)
        return choose(**arguments)

    monkeypatch.setattr(transport, "choose", choose_slowly)
    result = in_thread(lambda: client.acquire("parent").release())
    assert choosing.wait(10)
    child = in_child(lambda: client.acquire("child").release())
    assert child() is True
    go_on.set()
    assert result() is True


def test_a_client_may_be_closed_while_its_transport_is_chosen(client, monkeypatch):
    """As a signal handler does: it runs on the thread that chooses, in the middle of it."""
    choose = transport.choose

    def choose_and_close(**arguments: Any) -> Any:
        client.close()
        return choose(**arguments)

    monkeypatch.setattr(transport, "choose", choose_and_close)
    with pytest.raises(ClientClosedError):
        in_thread(lambda: client.acquire("a"))()


def test_threads_that_come_at_once_choose_one_transport(make, monkeypatch):
    choose, gate = Mock(side_effect=transport.choose), threading.Barrier(8)
    monkeypatch.setattr(transport, "choose", choose)
    client = make()
    answers = [in_thread(lambda: gate.wait(PATIENCE) >= 0 and client.transport) for _ in range(8)]
    assert len({id(answer()) for answer in answers}) == 1
    choose.assert_called_once()


def test_the_transport_that_a_signal_handler_chose_meanwhile_is_the_one(client, monkeypatch):
    choose, nested = transport.choose, list[object]()

    def choose_within(**arguments: Any) -> Any:
        if not nested:
            nested.append(None)
            nested.append(client.transport)
        return choose(**arguments)

    monkeypatch.setattr(transport, "choose", choose_within)
    assert in_thread(lambda: client.transport)() is nested[1]
    assert client.transport is nested[1]


def test_a_flag_wakes_all_who_wait_and_those_who_come_later_do_not_wait():
    flag = Flag()
    assert not flag.wait(0)
    waiting = [in_thread(lambda: flag.wait(PATIENCE)) for _ in range(5)]
    flag.set()
    assert all(result() for result in waiting)
    assert flag.wait(PATIENCE)


def test_a_turn_is_one_holders_until_that_one_gives_it_back_or_is_gone():
    turn, mine, another, third = Turn(), Caller(), Caller(), Caller()
    assert turn.take(mine)
    assert turn.take(mine)
    assert not turn.take(another)
    turn.give_back(another)
    assert not turn.take(another)
    turn.give_back(mine)
    assert turn.take(another)
    assert not turn.take(third)
    del another  # as where an interrupt kept it from being given back
    assert turn.take(third)
