"""Waiting first come, first served, on the real engine."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lambda_lock import LockTimeoutError
from tests.support.faults import held_up
from tests.support.rows import Rows
from tests.support.waiting import wait_until


def waiting(rows: Rows, key: str = "a") -> int:
    return len(rows[key].get("waiters", {"L": []})["L"])


@pytest.mark.parametrize("permits", [None, 2])
def test_waiters_are_served_in_the_order_in_which_they_came(permits, make, rows):
    held, order = [make().acquire("a", permits=permits) for _ in range(permits or 1)], list[int]()
    leave = threading.Event()

    def take(number: int) -> None:
        with make().acquire("a", permits=permits, wait=60):
            order.append(number)
            leave.wait(0.05)  # so that the next one gets its permit

    with ThreadPoolExecutor(5) as pool:
        taken = []
        for number in range(5):
            taken.append(pool.submit(take, number))
            wait_until(lambda: waiting(rows) == len(taken))
        assert make().get("a").waiters == 5
        with pytest.raises(LockTimeoutError, match="and 5 wait before this one") as refused:
            make().acquire("a", permits=permits, wait=0.1)
        assert refused.value.ahead == 5
        held[0].release()
        for future in taken:
            future.result(60)
    assert order == [0, 1, 2, 3, 4]
    assert waiting(rows) == 0


@pytest.mark.parametrize("of", ["client", "acquire"])
def test_queue_false_takes_no_ticket(of, make, rows, wire):
    held, client = make().acquire("a"), make(**({"queue": False} if of == "client" else {}))
    options: dict[str, Any] = {"queue": False} if of == "acquire" else {}
    polled = wire.delay_reply("GetItem", seconds=0)
    with held_up(polled, lambda: client.acquire("a", wait=60, refresh_period=0.05, **options)) as later:
        assert "waiters" not in rows["a"]
        held.release()
    later().release()
    assert not any("list_append" in str(request.body) for request in wire.requests)


@pytest.mark.parametrize("waiters", [{"S": "x"}, {"N": "4"}, {"L": [{"N": "1"}]}, {"L": [{"S": "x"}] * 3000}])
def test_waiters_that_cannot_be_read_count_as_nobody_and_are_logged_once(waiters, make, rows, caplog):
    make().acquire("a").release()
    rows.change("a", waiters=waiters)
    client = make()
    with caplog.at_level(logging.WARNING, "lambda_lock"):
        for _ in range(3):
            client.acquire("a", wait=30).release()
    assert [record.lock_event for record in caplog.records] == ["waiters_unreadable"]
    assert "the attribute waiters of lock 'a' is not a list of at most 64 tickets" in caplog.text
    assert rows["a"]["waiters"] == waiters
    assert client.get("a").waiters == 0
