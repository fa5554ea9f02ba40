"""What a signal handler raises is the application's, whatever its class is: it propagates, and nothing stays held."""

import functools
import itertools
import json
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.sampled import sampled
from tests.support.waiting import wait_until

from .rounds import PATIENCE
from .struck import CLIENTS, HANDLERS, LIMITS
from .test_stopping import is_free, let_go, worker

RELEASES = ("release", "the end of with_lock")
WHAT = {  # is raised in requests of each client
    "https": [*LIMITS],
    "boto3": ["a lost connection", "a time limit"],
    "the user's client, which retries": ["an alarm"],
    "one that retries in the standard mode": ["a time limit"],
}


def scenes(client: str) -> Iterator[tuple[str, str, str]]:
    """What is raised, by which handler, and in what."""
    yield from ((limit, "a function", act) for limit in WHAT[client] for act in ("acquire", *RELEASES))
    if client in ("https", "boto3"):
        yield from (("an alarm", handler, "acquire") for handler in HANDLERS)
        yield "a bad value", "a function", "injected"
    if client == "https":  # it is neither contention nor an outage
        raised, acts = ("an alarm", "contention of another lock"), ("try_acquire", "on_not_granted, on_unavailable")
        yield from ((limit, "a function", act) for limit, act in itertools.product(raised, acts))


def is_held(table: str, key: str) -> bool:
    return not is_free(table, key)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_strikes_a_claim_or_a_release_propagates_and_the_lock_is_free(client, table, wire):
    """The request was carried out, or is held up, and is not answered."""
    with worker(f"from tests.stopping import struck\nstruck.obey({client!r})") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for limit, handler, act in scenes(client):
            numbers, struck, key = itertools.count(1), threading.Event(), f"{act}: {limit}, by {handler}"
            is_release = act in RELEASES  # the claim is its first request

            def is_meant(_: object, least: int = 1 + is_release, numbers: Any = numbers, struck: Any = struck) -> bool:
                return next(numbers) >= least and not struck.is_set()  # also if it is sent again, by a busy machine

            times = 1 if act == "injected" else 100
            fault = (wire.hold if is_release else wire.delay_reply)("UpdateItem", when=is_meant, times=times)
            with let_go(fault):
                print(json.dumps([limit, handler, act, key]), file=process.stdin, flush=True)
                if is_release:
                    assert fault.reached.wait(PATIENCE), key
                else:
                    wait_until(functools.partial(is_held, table, key))
                struck.set()
                if act != "injected":
                    process.send_signal(signal.SIGUSR1)
                assert (key, process.stdout.readline()) == (key, "True\n")
                assert is_free(table, key), key


@pytest.mark.parametrize(("client", "limit"), sampled(2, [("https", "an alarm"), ("boto3", "a time limit")]))
def test_at_every_moment_of_a_block_it_propagates_and_closing_the_client_leaves_nothing_held(client, limit, table):
    script = f"from tests.stopping import struck\nstruck.take_and_release({client!r}, {limit!r}, 100)"
    with worker(script) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert out == "left: []\n"
