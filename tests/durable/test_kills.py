"""Processes of a durable function are killed at the worst moments, and others go on."""

import signal

import pytest

from tests.support.waiting import wait_until

KILLED = -signal.SIGKILL


@pytest.mark.parametrize(
    ("kill", "ran"),
    [
        ("acquire a", ["one", "two"]),  # the lock is taken, and nobody knows
        ("one", ["one", "one", "two"]),  # in a step
        ("renew_and_end a", ["one", "two"]),  # renewed, and not suspended yet
        ("two", ["one", "two", "two"]),  # in a step, by an attempt that resumed
        ("release a", ["one", "two"]),  # released, and nobody knows
    ],
)
def test_an_execution_goes_on_with_its_lock_in_another_process(service, rows, kill, ran):
    arn = service.start({"kill": kill})
    first, last = service.end(arn)
    assert first == last == {"a": int(rows["a"]["fencingToken"]["N"])}
    assert service.exits.count(KILLED) == 1
    assert service.ran() == ran
    assert not rows.is_held("a")


@pytest.mark.parametrize("kill", ["acquire a", "acquire b", "one", "renew_and_end b", "release b"])
def test_an_execution_goes_on_with_several_locks_in_another_process(service, rows, kill):
    """What it kills is done for one of two keys: the first that is taken, or the first that is renewed and released."""
    first, last = service.end(service.start({"keys": ["b", "a"], "kill": kill}))
    assert first == last == {key: int(rows[key]["fencingToken"]["N"]) for key in ("a", "b")}
    assert service.exits.count(KILLED) == 1
    assert service.ran() == (["one"] if kill == "one" else []) + ["one", "two"]
    assert not rows.is_held("a")
    assert not rows.is_held("b")


@pytest.mark.parametrize(("event", "processes", "requests"), [({}, 2, 5), ({"kill": "two"}, 3, 7)])
def test_two_cold_processes_send_5_requests_and_one_that_is_killed_adds_2(service, wire, event, processes, requests):
    """Claim and renewal; then read, resume and release. Each process begins without knowing DynamoDB's time."""
    service.end(service.start(event))
    assert len(service.exits) == processes
    assert wire.count() == requests


def test_nobody_else_gets_the_lock_of_an_execution_that_is_stopped_before_its_lease_ends(service, client, rows):
    arn = service.start({"for ever": True})
    wait_until(lambda: len(service.exits) == 2, 60)
    service.client.stop_durable_execution(DurableExecutionArn=arn)
    assert service.status(arn) == "STOPPED"
    assert rows.is_held("a")
    assert client.try_acquire("a") is None
