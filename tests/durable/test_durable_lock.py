"""One lock over the suspensions, replays and failures of a durable function."""

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock, create_autospec

import pytest
from aws_durable_execution_sdk_python.config import Duration, StepConfig, StepSemantics
from aws_durable_execution_sdk_python.context import DurableContext, durable_step
from aws_durable_execution_sdk_python.exceptions import StepError
from aws_durable_execution_sdk_python.types import StepContext

from lambda_lock import AsyncLockClient, LockArgumentError, LockClient, LockError, LockLostError, with_lock
from lambda_lock.durable import DurableLock, durable_lock
from tests.support.waiting import wait_until

from .executions import HOUR, ONCE, SECOND, SOON, error_of, names, outcome, result, within


def expire(client: LockClient, key: str) -> None:
    """Wait until the lease of ``key`` has run out."""
    wait_until(lambda: (record := client.get(key)) is not None and record.is_expired)


# From one invocation to the next


def test_a_block_keeps_one_token_over_four_invocations_in_at_most_11_requests(wire, wired, deploy, rows):
    tokens: list[int] = []
    ran: list[str] = []

    def handler(event: Any, context: DurableContext) -> int:
        with durable_lock(context, "a", lease_duration=HOUR, client=wired) as lock:
            tokens.append(lock.fencing_token)
            lock.step(lambda _: ran.append("one"), name="one")
            lock.wait(SECOND)
            lock.step(lambda _: ran.append("two"), name="two")
            lock.wait(SECOND)

            def third(step: StepContext) -> None:
                assert rows.is_held("a")
                ran.append(f"three, attempt {step.attempt}")
                if step.attempt == 1:
                    raise ValueError("the card was refused")

            lock.step(third, name="three", config=SOON)
        return lock.fencing_token

    executions = deploy(handler)
    ended = executions.ended()
    assert tokens == [result(ended)] * 4
    assert executions.invocations == 4
    assert ran == ["one", "two", "three, attempt 1", "three, attempt 2"]
    assert wire.count() <= 11
    assert not rows.is_held("a")
    assert [operation.name for operation in ended.operations] == [
        "name lock 'a'", "acquire lock 'a'", "one", None, "two", None, "three", "release lock 'a'"
    ]  # fmt: skip


def test_the_block_is_left_by_an_error_which_goes_on_unchanged(deploy, client, rows):
    def fail(_: DurableContext, lock: DurableLock) -> None:
        lock.step(lambda _: None)
        raise KeyError("no such order")

    ended = deploy(within(client, fail)).ended()
    assert error_of(ended) == ("KeyError", "'no such order'")
    assert not rows.is_held("a")
    assert ended.operations[-1].name == "release lock 'a'"


def test_a_replay_past_the_block_sends_nothing(wire, wired, deploy):
    counts: list[int] = []

    def handler(event: Any, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=HOUR, client=wired) as lock:
            lock.step(lambda _: None)
        counts.append(wire.count())
        context.wait(SECOND)
        context.wait(SECOND)

    deploy(handler).run()
    assert counts == [2, 2, 2]


def test_a_second_block_of_the_same_execution_takes_the_lock_anew(deploy, client):
    def wait(_: DurableContext, lock: DurableLock) -> int:
        lock.wait(SECOND)
        return lock.fencing_token

    block = within(client, wait)
    first, second = deploy(lambda event, context: [block(event, context) for _ in range(2)]).run()
    assert first < second


def test_locks_in_one_another_are_kept_together(deploy, client, rows):
    def both_held(_: StepContext) -> bool:
        return rows.is_held("a") and rows.is_held("b")

    def look(_: DurableContext, outer: DurableLock, inner: DurableLock) -> list[bool]:
        inner.wait(SECOND)
        return [inner.step(both_held), outer.step(both_held)]

    def act(context: DurableContext, outer: DurableLock) -> Any:
        return within(client, lambda _, inner: look(context, outer, inner), key="b")(None, context)

    assert deploy(within(client, act)).run() == [True, True]
    assert not rows.is_held("a")
    assert not rows.is_held("b")


# Suspensions


def test_a_suspension_begins_with_the_full_lease(deploy, client, rows):
    """Here that of a callback. The lease is neither cut to the invocation, whose context says 15 minutes or less."""

    def approved(context: DurableContext, lock: DurableLock) -> Any:
        lock.step(lambda _: None)
        return context.create_callback(name="approval").result()

    executions = deploy(within(client, approved, lease_duration=4 * HOUR))
    arn = executions.start()
    callback = executions.runner.wait_for_callback(arn, name="approval")
    wait_until(lambda: rows.expiry("a") > time.time() + 4 * HOUR - 60)
    executions.runner.send_callback_success(callback, b'"yes"')
    assert executions.end(arn).error is None


def test_a_suspension_is_renewed_and_the_lock_is_released_also_where_no_step_ran(deploy, client, rows):
    versions: list[str] = []
    look = dict.fromkeys((2, 3, 4), lambda: versions.append(rows.version("a")))

    def wait_three_times(context: DurableContext, lock: DurableLock) -> None:
        for _ in range(3):
            context.wait(SECOND)

    deploy(within(client, wait_three_times), at=look).run()
    assert len(versions) == 3
    assert versions == sorted(set(versions))
    assert not rows.is_held("a")


BRIEF, LONG = {"key": "a", "lease_duration": 60}, {"key": "b"}


@pytest.mark.parametrize(
    ("outer", "inner", "which", "child"),
    [(BRIEF, LONG, 0, False), (BRIEF, LONG, 1, False), (BRIEF, LONG, 1, True), (LONG, BRIEF, 0, False)],
    ids=["its own", "of a block around it", "of a block around its context", "of a block within"],
)
def test_a_wait_is_refused_if_a_lease_does_not_cover_it(deploy, client, outer, inner, which, child):
    def act(context: DurableContext, around: DurableLock) -> None:
        wait = within(client, lambda _, lock: (around, lock)[which].wait(Duration.from_seconds(56)), **inner)
        if child:
            context.run_in_child_context(lambda nested: wait(None, nested))
        else:
            wait(None, context)

    ended = deploy(within(client, act, **outer)).ended()
    kind, message = error_of(ended)
    assert child or kind == "LockArgumentError"
    assert "is longer than the lease of durable lock 'a' covers" in message
    assert "lease_duration=61 or more" in message
    assert [operation.name for operation in ended.operations if operation.operation_type.value == "WAIT"] == []


def test_a_block_that_was_left_is_around_no_other(deploy, client):
    brief = within(client, lambda *_: None, lease_duration=10)
    long = within(client, lambda _, lock: lock.wait(Duration.from_seconds(56)), key="b")
    assert deploy(lambda event, context: [brief(event, context), long(event, context)]).run() == [None, None]


def test_a_wait_takes_the_sdk_s_duration(deploy, client):
    assert deploy(within(client, lambda _, lock: lock.wait(5))).fail()[0] == "TypeError"


# A lease that runs out


def test_a_lease_that_ran_out_without_a_taker_is_no_loss(deploy, client, rows):
    def act(context: DurableContext, lock: DurableLock) -> list[int]:
        context.wait(SECOND)
        context.step(lambda _: expire(client, "a"))
        return [lock.fencing_token, lock.step(lambda _: int(rows["a"]["fencingToken"]["N"]))]

    before, after = deploy(within(client, act, lease_duration=1)).run()
    assert before == after


def test_a_lock_that_was_taken_over_is_lost_for_good_and_its_steps_do_not_run(deploy, client, make, rows):
    taker = make()
    attempts: list[int] = []

    def act(context: DurableContext, lock: DurableLock) -> list[str]:
        context.wait(SECOND)
        context.step(lambda _: taker.acquire("a", lease_duration=HOUR).owner)
        outcomes = [outcome(lambda: lock.step(lambda _: attempts.append(1), config=SOON))]
        context.wait(SECOND)  # on the replay the step fails in the same way, from its checkpoint
        return [*outcomes, outcome(lambda: lock.step(lambda _: attempts.append(2), config=SOON))]

    assert deploy(within(client, act, lease_duration=1)).run() == ["LockLostError", "LockLostError"]
    assert attempts == []
    assert rows.is_held("a")  # by the taker: the release found that


# What runs in a step


def test_a_step_runs_as_the_sdk_s_own_with_name_config_and_errors(deploy, client):
    @durable_step
    def add(step: StepContext, one: int, other: int) -> int:
        return one + other

    def fail(_: StepContext) -> None:
        raise ZeroDivisionError("by hand")

    def act(_: DurableContext, lock: DurableLock) -> list[Any]:
        added = lock.step(add(1, 2))
        once = StepConfig(ONCE.retry_strategy, StepSemantics.AT_MOST_ONCE_PER_RETRY)
        with pytest.raises(StepError) as failed:
            lock.step(fail, name="fails", config=once)
        return [added, failed.value.error_type]

    ended = deploy(within(client, act)).ended()
    assert result(ended) == [3, "ZeroDivisionError"]
    assert [operation.name for operation in ended.operations][2:4] == ["add", "fails"]


def test_another_lock_that_is_lost_in_a_step_is_an_ordinary_error(deploy, client):
    def lose(_: StepContext) -> None:
        raise LockLostError("another lock", key="b")

    def act(_: DurableContext, lock: DurableLock) -> str | None:
        with pytest.raises(StepError) as lost:
            lock.step(lose, config=ONCE)
        return lost.value.error_type

    assert deploy(within(client, act)).run() == "lambda_lock.errors.LockLostError"


def test_decorators_in_a_step_find_the_deadline(deploy, client, make):
    inner = make()

    @with_lock("inner", client=inner, lease_duration=30 * 60)
    def charge() -> float:
        (lock,) = inner.held()
        return lock.lease_duration

    assert deploy(within(client, lambda _, lock: lock.step(lambda _: charge()))).run() <= 15 * 60


# Wrong use


def test_a_lock_is_used_within_its_block_only(deploy, client):
    def handler(event: Any, context: DurableContext) -> list[str]:
        made = durable_lock(context, "a", lease_duration=60, client=client)
        errors = []

        def note(act: Callable[[], object]) -> None:
            try:
                act()
            except LockError as error:
                errors.append(type(error).__name__)

        note(lambda: made.step(lambda _: None))
        note(lambda: made.fencing_token)
        with made as lock:
            note(lambda: made.__enter__())
        note(lambda: lock.step(lambda _: None))
        note(lambda: lock.wait(SECOND))
        note(lock.raise_if_lost)
        note(lock.transact_item)
        note(lambda: made.__enter__())
        return errors

    closed, lost = "LockAlreadyReleasedError", "HoldLostError"  # which is a LockLostError
    assert deploy(handler).run() == [closed, closed, closed, closed, closed, lost, lost, closed]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"func": None}, "func must be a function that takes the StepContext, not None (NoneType)"),
        ({"config": {"serdes": None}}, "config must be a StepConfig of the SDK, not {'serdes': None} (dict)"),
    ],
)
def test_a_step_that_cannot_run_is_an_error_before_its_operation(deploy, client, given, message):
    """Within the operation, the SDK's own retries would take it for a failure of the step."""
    executions = deploy(within(client, lambda _, lock: lock.step(**({"func": lambda _: None} | given))))
    ended = executions.ended()
    assert error_of(ended) == ("TypeError", message)
    assert executions.invocations == 1
    assert names(ended)[2:] == ["release lock 'a'"]


@pytest.mark.parametrize("mock", [MagicMock(spec=DurableContext), create_autospec(DurableContext, instance=True)])
def test_a_mock_of_a_context_is_refused(client, mock):
    """It says that it is an instance, and answers each operation with another mock."""
    with pytest.raises(TypeError, match="context must be the DurableContext"):
        durable_lock(mock, "a", lease_duration=60, client=client)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key": 7}, TypeError, "key must be a str"),
        ({"key": []}, LockArgumentError, "keys is empty"),
        ({"key": ["a", 7]}, TypeError, "keys[1] must be a str"),
        ({"lease_duration": 0}, LockArgumentError, "lease_duration=0 is out of range"),
        ({"wait": -1}, LockArgumentError, "wait=-1 is out of range"),
        ({"poll": 0.5}, LockArgumentError, "poll=0.5 is out of range"),
        ({"client": "locks"}, TypeError, "client= must be a LockClient"),
        ({"client": AsyncLockClient()}, TypeError, "client= must be a LockClient"),
        ({"context": object()}, TypeError, "context must be the DurableContext"),
    ],
)
def test_bad_input_is_an_error_before_anything_is_sent(deploy, wire, options, error, message):
    given: dict[str, Any] = {"key": "a", "lease_duration": 60} | options
    kind, told = deploy(lambda _, context: durable_lock(**({"context": context} | given))).fail()
    assert (kind, message in told) == (error.__name__, True)
    assert wire.count() == 0
