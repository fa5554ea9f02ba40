"""Standard queues: each order is done exactly once, even if deliveries come twice, overlap, come late or never end.

maxReceiveCount is chosen so that contention alone does not send a message to the dead-letter queue. It is the number of
messages that contend for one lock at a time. For that, the visibility timeout must be longer than any process holds the
lock. A process that was killed holds it until two seconds after its lease. Poison messages have locks of their own,
because each of their runs counts as one more. If the visibility timeout is shorter than an invocation, each time it
passes uses up a receive. So in tests with a visibility timeout of a second, for speed, maxReceiveCount is out of reach.
"""

import pytest

from . import judge
from .judge import Order

PATIENT = 100  # a maxReceiveCount for tests in which messages come again often, for other reasons
SLOW = 3  # additional receives, for a machine on which a batch now and then outlasts the visibility timeout
CONTENDED = {"ended": 1}  # an order waits for this, so that another batch contends with it


def orders(count: int, customers: int, **more: object) -> list[Order]:
    return [{"id": f"o-{number}", "customer": f"c-{number % customers}", **more} for number in range(count)]


def test_an_order_that_was_sent_twice_is_done_once(open_shop):
    shop = open_shop("orders.decorated", dedup_key="order#{body[id]}")
    sent = orders(8, customers=8, seconds=0.1)
    assert judge.deliveries(shop.serve(*sent, *sent, dead_letter_after=PATIENT, batch_size=4)) >= 16


def test_a_message_that_comes_again_while_its_handler_works_is_not_worked_on_twice(open_shop):
    shop = open_shop(timeout=20, lock_key=None)
    assert judge.returns(shop.serve(*orders(1, customers=1, until={"ended": 2}), dead_letter_after=PATIENT)) >= 2


@pytest.mark.long
def test_deliveries_that_contend_come_back_until_each_had_its_turn(open_shop):
    shop = open_shop()
    shop.warm_up()
    sent = orders(24, customers=3, seconds=0.1)
    sent[0]["until"] = CONTENDED
    assert judge.returns(shop.serve(*sent, visibility=2, dead_letter_after=24 // 3 + SLOW, batch_size=5)) > 0


def test_a_returned_message_comes_back_as_soon_as_it_was_asked_for(open_shop):
    shop = open_shop("orders.decorated", retry_visibility=1, max_workers=4)
    sent = orders(12, customers=2, seconds=0.1)
    sent[0]["until"] = CONTENDED
    assert judge.returns(shop.serve(*sent, visibility=300, dead_letter_after=12 // 2 + SLOW, batch_size=4)) > 0


@pytest.mark.long
def test_what_breaks_off_is_done_later_and_what_was_done_is_not_repeated(open_shop):
    shop = open_shop("orders.decorated", timeout=3, lease_duration=1)
    plans = [
        ["exit before"],
        ["raise before", "kill between"],
        ["hang before"],
        ["raise between", "raise after"],
        ["hang between"],
        ["exit after"],
        ["raise answering"],
        ["exit answering"],
    ]
    sent: list[Order] = []
    for number, plan in enumerate(plans):
        order = {"id": f"o-{number}", "customer": f"c-{number}", "plan": plan}
        sent += [
            order,
            order | {"id": f"committed-{number}", "commit": True},
            order | {"id": f"well-{number}", "plan": []},
        ]
    notes = shop.serve(*sent, dead_letter_after=PATIENT, batch_size=3)
    assert len(judge.open_processes(notes)) >= 10  # they killed themselves, or were killed at their timeout


@pytest.mark.long
def test_a_batch_that_runs_out_of_time_returns_the_rest_and_is_not_killed(open_shop):
    shop = open_shop(timeout=4)
    notes = shop.serve(*orders(4, customers=4, seconds=1.3), visibility=2, dead_letter_after=PATIENT)
    assert judge.open_processes(notes) == []
    assert judge.returns(notes) > 0


@pytest.mark.long
def test_only_poison_goes_to_the_dead_letter_queue(open_shop):
    shop = open_shop()
    shop.warm_up()
    poison = [{"id": f"poison-{number}", "customer": f"p-{number}", "plan": judge.POISON} for number in range(2)]
    sent = orders(12, customers=6, seconds=0.1)
    sent[0]["until"] = CONTENDED
    receives = 12 // 6 + SLOW
    assert (
        judge.returns(shop.serve(*sent[:6], *poison, *sent[6:], visibility=2, dead_letter_after=receives, batch_size=2))
        > 2 * receives
    )


@pytest.mark.parametrize(
    ("count", "options", "wrongs"),
    [
        (2, {"lock_key": None}, ["two inside for c-0"]),
        (1, {"lock_key": None, "dedup_key": None, "timeout": 20}, ["miscounted: o-0 has {'effects': 2", "two inside"]),
    ],
    ids=["no lock", "no dedup"],
)
def test_without_a_lock_or_dedup_two_runs_are_under_way_at_once_and_what_comes_twice_is_done_twice(
    open_shop, count, options, wrongs
):
    shop = open_shop(**options)
    queue = shop.queue(*orders(count, customers=1, until={"entered": 2}), dead_letter_after=PATIENT)
    shop.cloud.subscribe(queue, shop.function, batch_size=1)
    shop.settle(queue)
    found = shop.wrongs(queue)
    assert [any(text.startswith(wrong) for text in found) for wrong in wrongs] == [True] * len(wrongs)
    assert len(found) == len(wrongs)
