"""ManualClock, which is moved by hand, and lambda_context, which counts down."""

from typing import Any

import pytest

from lambda_lock import LockClient, LockNotGrantedError
from lambda_lock.testing import ManualClock, in_memory, lambda_context
from tests.support.elsewhere import in_thread
from tests.support.waiting import wait_until

# -- the clock


def test_time_passes_on_all_hands_at_once_and_a_step_of_the_wall_clock_is_none():
    clock = ManualClock(1_000_000.0)
    before = clock.monotonic(), clock.boottime()
    clock.advance(2.5)
    clock.sleep(0.5)
    assert (clock.wall(), clock.monotonic() - before[0], clock.boottime() - before[1]) == (1_000_003.0, 3.0, 3.0)
    clock.step_wall(-3600)
    assert (clock.wall(), clock.monotonic() - before[0]) == (996_403.0, 3.0)


def test_however_short_a_sleep_is_time_goes_on():
    clock = ManualClock()
    for hand in (clock.wall, clock.monotonic):
        before = hand()
        clock.sleep(1e-15)
        assert hand() > before


def test_threads_move_the_clock_on_by_the_sum():
    clock = ManualClock(0.0)

    def move() -> None:
        for _ in range(1000):
            clock.advance(1.0)

    for ended in [in_thread(move) for _ in range(4)]:
        ended()
    assert clock.wall() == 4000.0


# -- the context


def test_the_time_left_counts_down_to_none():
    context = lambda_context(10)
    first = context.get_remaining_time_in_millis()
    assert 9_000 < first <= 10_000
    while context.get_remaining_time_in_millis() == first:
        pass
    assert context.get_remaining_time_in_millis() < first
    over = lambda_context(0.001)
    wait_until(lambda: over.get_remaining_time_in_millis() == 0)


def test_a_context_has_all_that_the_runtimes_has():
    from awslambdaric.lambda_context import LambdaContext

    real: Any = LambdaContext("id", None, {}, 0, "arn:aws:lambda:us-east-1:123456789012:function:f")
    context = lambda_context(5, function_name="f", request_id="id")
    assert {name for name in vars(real) if not name.startswith("_")} <= set(dir(context))
    assert context.identity.cognito_identity_id is context.identity.cognito_identity_pool_id is None
    assert (context.aws_request_id, context.invoked_function_arn) == (real.aws_request_id, real.invoked_function_arn)
    assert lambda_context().aws_request_id != lambda_context().aws_request_id


def test_a_lock_ends_with_the_invocation_and_bears_its_name():
    with in_memory(), LockClient() as client:
        lock = client.acquire("a", context=lambda_context(3, function_name="orders", request_id="7"))
        assert lock.lease_duration <= 3
        assert lock.owner.startswith("orders/7#")
        with pytest.raises(LockNotGrantedError, match="left"):
            client.acquire("b", context=lambda_context(0.5))
