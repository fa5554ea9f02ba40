"""ManualClock, which is moved by hand, and lambda_context, which counts down."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from lambda_lock import LockArgumentError, LockClient, LockNotGrantedError
from lambda_lock.testing import ManualClock, in_memory, lambda_context

# -- the clock


def test_time_passes_on_all_hands_at_once_and_by_nothing_else():
    clock = ManualClock(1_000_000.0)
    before = clock.monotonic(), clock.boottime()
    clock.advance(2.5)
    clock.sleep(0.5)
    assert (clock.wall(), clock.monotonic() - before[0], clock.boottime() - before[1]) == (1_000_003.0, 3.0, 3.0)


def test_a_step_of_the_wall_clock_is_no_time_that_passes():
    clock = ManualClock(1_000_000.0)
    before = clock.monotonic()
    clock.step_wall(-3600)
    assert (clock.wall(), clock.monotonic()) == (996_400.0, before)


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

    threads = [threading.Thread(target=move) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.wall() == 4000.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda clock: clock.advance(-1), LockArgumentError, "time does not go back"),
        (lambda clock: clock.sleep(-1), LockArgumentError, "time does not go back"),
        (lambda clock: clock.advance(math.inf), LockArgumentError, "finite"),
        (lambda clock: clock.step_wall(math.nan), LockArgumentError, "finite"),
        (lambda clock: clock.advance("1"), TypeError, "number of seconds"),
        (lambda clock: clock.step_wall(True), TypeError, "number of seconds"),
        (lambda clock: ManualClock("now"), TypeError, "wall must be"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_time_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(ManualClock())


# -- the context


def test_the_time_left_counts_down():
    context = lambda_context(10)
    first = context.get_remaining_time_in_millis()
    assert 9_000 < first <= 10_000
    while context.get_remaining_time_in_millis() == first:
        pass
    assert context.get_remaining_time_in_millis() < first


def test_an_invocation_whose_time_is_over_has_none_left():
    context = lambda_context(0.001)
    while context.get_remaining_time_in_millis() > 0:
        pass
    assert context.get_remaining_time_in_millis() == 0


def test_a_context_has_all_that_the_runtimes_has():
    from awslambdaric.lambda_context import LambdaContext

    real: Any = LambdaContext("id", None, {}, 0, "arn:aws:lambda:us-east-1:123456789012:function:f")
    context = lambda_context(5, function_name="f", request_id="id")
    assert {name for name in vars(real) if not name.startswith("_")} <= set(dir(context))
    assert context.identity.cognito_identity_id is context.identity.cognito_identity_pool_id is None
    assert (context.aws_request_id, context.invoked_function_arn) == (real.aws_request_id, real.invoked_function_arn)


def test_each_invocation_has_a_request_id_of_its_own():
    assert lambda_context().aws_request_id != lambda_context().aws_request_id


def test_a_lock_ends_with_the_invocation_and_bears_its_name():
    with in_memory(), LockClient() as client:
        lock = client.acquire("a", context=lambda_context(3, function_name="orders", request_id="7"))
        assert lock.lease_duration <= 3
        assert lock.owner.startswith("orders/7#")
        with pytest.raises(LockNotGrantedError, match="left"):
            client.acquire("b", context=lambda_context(0.5))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"remaining": -1}, LockArgumentError, "remaining=-1 is out of range: pass 0 to 900"),
        ({"remaining": 901}, LockArgumentError, "remaining=901"),
        ({"remaining": math.nan}, LockArgumentError, "remaining=nan"),
        ({"remaining": "30"}, TypeError, "remaining must be"),
        ({"function_name": ""}, LockArgumentError, "function_name is empty"),
        ({"function_name": None}, TypeError, "function_name must be a str"),
        ({"request_id": 7}, TypeError, "request_id must be a str"),
        ({"tenant_id": 7}, TypeError, "tenant_id must be a str"),
        ({"tenant_id": ""}, LockArgumentError, "tenant_id is empty"),
    ],
)
def test_a_context_that_cannot_be_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        lambda_context(**arguments)
