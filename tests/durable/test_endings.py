"""How a block is left: by suspension, errors, pauses, stops, time-outs and branches that nobody waits for."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from aws_durable_execution_sdk_python.config import CompletionConfig, Duration, NestingType, ParallelConfig, StepConfig
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.exceptions import (
    BackgroundThreadError,
    BotoClientError,
    DurableApiErrorCategory,
    ExecutionError,
    InvocationError,
    NonDeterministicExecutionError,
    OrphanedChildException,
    SuspendExecution,
)
from aws_durable_execution_sdk_python.retries import RetryDecision
from aws_durable_execution_sdk_python.types import StepContext
from aws_durable_execution_sdk_python_testing.executor import Executor

from lambda_lock import LockLostError
from lambda_lock.durable import DurableLock, durable_lock
from lambda_lock.durable.lock import BlockEnd, block_end
from tests.support.waiting import DEADLINE, wait_until

from .executions import Executions, deploy, error_of, result

__all__ = ["deploy"]
Deploy = Callable[..., Executions]
SECOND = Duration.from_seconds(1)
SOON = StepConfig(retry_strategy=lambda _, attempts: RetryDecision.retry(SECOND))
FIRST = ParallelConfig(completion_config=CompletionConfig.first_successful())
HOUR = 3600


def names(ended: Any) -> list[str]:
    return [operation.name for operation in ended.operations if operation.name]


@pytest.fixture
def retried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The testing package waits 5 s in real time before it runs a failed invocation again."""
    monkeypatch.setattr(Executor, "RETRY_BACKOFF_SECONDS", 0)


# Errors that end the execution, or only the invocation


def test_an_execution_that_fails_for_good_releases_without_an_operation(deploy, client, rows):
    def handler(event: Any, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            lock.step(lambda _: None, name="one")
            raise ExecutionError("no way on")

    executions = deploy(handler)
    ended = executions.end(executions.start())
    assert error_of(ended)[0] == "ExecutionError"
    assert names(ended) == ["name lock 'a'", "acquire lock 'a'", "one"]
    assert not rows.is_held("a")


def test_a_replay_that_takes_another_way_fails_for_good_and_releases_by_string(deploy, client, rows):
    def handler(event: Any, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            lock.step(lambda _: None, name=f"invocation {executions.invocations}")
            lock.wait(SECOND)

    executions = deploy(handler)
    ended = executions.end(executions.start())
    assert error_of(ended)[0] == "NonDeterministicExecutionError"
    assert names(ended)[-1] == "invocation 1"
    assert not rows.is_held("a")


@pytest.mark.usefixtures("retried_at_once")
def test_an_invocation_that_is_run_again_keeps_the_lock(deploy, client, rows):
    tokens: list[int] = []

    def handler(event: Any, context: DurableContext) -> bool:
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            tokens.append(lock.fencing_token)
            lock.step(lambda _: None)
            if executions.invocations == 1:
                raise InvocationError("try again")
            return lock.step(lambda _: rows.is_held("a"))

    executions = deploy(handler)
    assert executions.run() is True
    assert len(tokens) == 2
    assert len(set(tokens)) == 1


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, BlockEnd.FINISHED),
        (ValueError(), BlockEnd.FINISHED),
        (SuspendExecution(""), BlockEnd.SUSPENDED),
        (KeyboardInterrupt(), BlockEnd.SUSPENDED),
        (GeneratorExit(), BlockEnd.SUSPENDED),  # of a generator that was left early, or whose caller was suspended
        (InvocationError(""), BlockEnd.SUSPENDED),
        (ExecutionError(""), BlockEnd.CUT_OFF),
        (NonDeterministicExecutionError(""), BlockEnd.CUT_OFF),
        (OrphanedChildException("", "1"), BlockEnd.CUT_OFF),
        (BotoClientError("", DurableApiErrorCategory.EXECUTION), BlockEnd.CUT_OFF),
        (BackgroundThreadError("", BotoClientError("")), BlockEnd.SUSPENDED),
        (BackgroundThreadError("", BotoClientError("", DurableApiErrorCategory.EXECUTION)), BlockEnd.CUT_OFF),
        (BackgroundThreadError("", ValueError()), BlockEnd.SUSPENDED),
    ],
    ids=repr,
)
def test_each_way_out_of_a_block_has_its_ending(error, ending):
    assert block_end(error) is ending


# Pause, time-out (a stop is among the tests with processes)


def test_a_paused_execution_keeps_its_lock_with_the_full_lease(deploy, client, rows):
    running, go_on = threading.Event(), threading.Event()

    def work(_: StepContext) -> None:
        running.set()
        assert go_on.wait(DEADLINE)

    def handler(event: Any, context: DurableContext) -> list[int]:
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            lock.step(work, name="one")
            return [lock.fencing_token, lock.step(lambda _: int(rows["a"]["fencingToken"]["N"]))]

    executions = deploy(handler)
    arn = executions.start()
    assert running.wait(DEADLINE)
    pause = threading.Thread(target=lambda: executions.runner.pause_execution(arn))
    pause.start()
    wait_until(lambda: executions.runner._store.load(arn).is_paused)
    go_on.set()
    pause.join(DEADLINE)
    assert rows.expiry("a") > time.time() + HOUR - 60
    assert client.try_acquire("a") is None
    executions.runner.resume_execution(arn)
    before, after = result(executions.end(arn))
    assert before == after
    assert executions.invocations == 2
    assert not rows.is_held("a")


def test_an_execution_that_times_out_leaves_its_lock_to_the_lease(deploy, client, make):
    def handler(event: Any, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=3, client=client):
            context.create_callback(name="never").result()

    executions = deploy(handler)
    ended = executions.end(executions.start(timeout=1))
    assert ended.error is not None
    assert "timed out" in (ended.error.message or "")
    with make().acquire("a", wait=DEADLINE) as lock:
        assert lock.is_held


# Branches


@pytest.mark.parametrize("nesting", [NestingType.NESTED, NestingType.FLAT])
def test_branches_have_locks_of_their_own_over_their_own_suspensions(deploy, client, rows, nesting):
    def branch(key: str) -> Callable[[DurableContext], bool]:
        def run(context: DurableContext) -> bool:
            with durable_lock(context, key, lease_duration=HOUR, client=client) as lock:
                lock.step(lambda _: None)
                lock.wait(SECOND)
                lock.step(lambda _: None)
                lock.wait(SECOND)
                return lock.step(lambda _: rows.is_held(key))

        return run

    def handler(event: Any, context: DurableContext) -> list[bool]:
        return context.parallel(
            [branch("a"), branch("b"), branch("c")], config=ParallelConfig(nesting_type=nesting)
        ).get_results()

    assert deploy(handler).run() == [True, True, True]
    assert not any(rows.is_held(key) for key in "abc")


def test_branches_within_a_block_verify_its_lock_in_steps_of_their_own(deploy, wire, wired):
    """All threads of an invocation share one attempt: two would refuse each other."""
    ran: list[int] = []

    def handler(event: Any, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=HOUR, client=wired) as lock:
            lock.wait(SECOND)

            def branch(number: int) -> Callable[[DurableContext], None]:
                def work(_: StepContext) -> None:
                    lock.raise_if_lost()
                    ran.append(number)

                def run(context: DurableContext) -> None:
                    context.step(work)
                    context.wait(SECOND)
                    context.step(work)

                return run

            context.parallel([branch(number) for number in range(5)])

    executions = deploy(handler)
    executions.run()
    assert sorted(ran) == sorted([*range(5)] * 2)


def test_a_running_branch_that_nobody_waits_for_any_more_releases_its_lock(deploy, client, rows):
    running, go_on = threading.Event(), threading.Event()

    def slow(context: DurableContext) -> None:
        def work(_: StepContext) -> None:
            running.set()
            assert go_on.wait(DEADLINE)

        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            lock.step(work, name="slow work")

    def quick(context: DurableContext) -> None:
        assert running.wait(DEADLINE)

    def handler(event: Any, context: DurableContext) -> bool:
        context.parallel([slow, quick], config=FIRST)
        held = rows.is_held("a")
        go_on.set()
        return held

    executions = deploy(handler)
    ended = executions.end(executions.start())
    assert result(ended) is True
    wait_until(lambda: not rows.is_held("a"))


def test_a_branch_that_outlives_the_block_finds_its_lock_lost(deploy, client, make):
    """By default, parallel ends with the first branch that fails. Steps of the others run on, without the lock."""
    running, go_on, taker, lost = threading.Event(), threading.Event(), make(), threading.Event()

    def failing(_: DurableContext) -> None:
        assert running.wait(DEADLINE)
        raise ValueError("no such order")

    def handler(event: Any, context: DurableContext) -> int:
        def work(_: StepContext) -> None:
            lock.raise_if_lost()
            running.set()
            assert go_on.wait(DEADLINE)
            with pytest.raises(LockLostError, match="was left"):
                lock.raise_if_lost()
            lost.set()

        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            batch = context.parallel([lambda branch: branch.step(work), failing])
        with taker.acquire("a", wait=0):
            go_on.set()
            assert lost.wait(DEADLINE)
        return batch.failure_count

    assert deploy(handler).run() == 1


def test_a_block_whose_parallel_waits_for_all_branches_is_left_after_them(deploy, client, rows):
    running = threading.Event()
    held: list[bool] = []

    def failing(_: DurableContext) -> None:
        assert running.wait(DEADLINE)
        raise ValueError("no such order")

    def handler(event: Any, context: DurableContext) -> int:
        def work(_: StepContext) -> None:
            lock.raise_if_lost()
            running.set()
            held.append(rows.is_held("a"))

        def slow(branch: DurableContext) -> None:
            branch.step(work)
            branch.wait(SECOND)  # until long after the other branch has failed
            branch.step(work)

        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            config = ParallelConfig(completion_config=CompletionConfig.all_completed())
            return context.parallel([slow, failing], config=config).failure_count

    assert deploy(handler).run() == 1
    assert held == [True, True]


def test_a_suspended_branch_that_nobody_waits_for_any_more_keeps_its_lock_until_the_lease_ends(
    deploy, client, rows, make
):
    def suspended(context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=3, client=client):
            context.create_callback(name="never").result()

    def quick(context: DurableContext) -> None:
        context.step(lambda _: wait_until(lambda: rows.get("a") is not None and "/" in rows["a"]["ownerName"]["S"]))
        context.wait(SECOND)

    def handler(event: Any, context: DurableContext) -> bool:
        context.parallel([suspended, quick], config=FIRST)
        return context.step(lambda _: rows.is_held("a"))

    assert deploy(handler).run() is True
    with make().acquire("a", wait=DEADLINE) as lock:
        assert lock.is_held


# Outages


def test_an_outage_at_a_step_is_a_failed_attempt_of_the_step(deploy, wire, impatient):
    ran: list[int] = []

    def handler(event: Any, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=HOUR, client=impatient) as lock:
            lock.wait(SECOND)
            if executions.invocations == 2:
                wire.unavailable(times=float("inf"))
            if executions.invocations == 3:
                wire.clear()
            lock.step(lambda step: ran.append(step.attempt), config=SOON)

    executions = deploy(handler)
    executions.run()
    assert ran == [2]


def test_an_outage_at_a_suspension_leaves_the_lease_of_the_last_renewal(deploy, wire, impatient, caplog):
    caplog.set_level("INFO", "lambda_lock")

    def handler(event: Any, context: DurableContext) -> list[int]:
        with durable_lock(context, "a", lease_duration=HOUR, client=impatient) as lock:
            if executions.invocations == 1:
                wire.unavailable(times=float("inf"))
            else:
                wire.clear()
            context.wait(SECOND)
            return [lock.fencing_token, lock.step(lambda _: lock.fencing_token)]

    executions = deploy(handler)
    before, after = executions.run()
    assert before == after
    assert "lock 'a' was not renewed for the suspension" in caplog.text


@pytest.mark.usefixtures("retried_at_once")
def test_a_wait_that_the_lease_no_longer_covers_is_not_begun_in_an_outage(deploy, wire, impatient):
    def handler(event: Any, context: DurableContext) -> int:
        with durable_lock(context, "a", lease_duration=HOUR, client=impatient) as lock:
            context.wait(SECOND)
            if executions.invocations == 2:
                wire.unavailable(times=float("inf"))
            else:
                wire.clear()
            lock.wait(Duration.from_minutes(59))
            return executions.invocations

    executions = deploy(handler)
    assert executions.run() == 4  # the one in the outage failed, and was run again


@pytest.mark.usefixtures("retried_at_once")
def test_a_wait_that_the_lease_of_the_block_around_it_no_longer_covers_is_not_begun_in_an_outage(
    deploy, wire, impatient
):
    def handler(event: Any, context: DurableContext) -> int:
        with (
            durable_lock(context, "a", lease_duration=HOUR, client=impatient),
            durable_lock(context, "b", lease_duration=HOUR, client=impatient) as inner,
        ):
            context.wait(SECOND)
            if executions.invocations == 2:
                wire.unavailable(times=float("inf"), when=lambda request: "'a'" in str(request.body))
            else:
                wire.clear()
            inner.wait(Duration.from_minutes(59))
            return executions.invocations

    executions = deploy(handler)
    assert executions.run() == 4  # the one in the outage failed, and was run again


def test_a_wait_in_a_branch_does_not_end_the_attempt_of_the_block_around_it(deploy, client):
    """Another branch may be at work under it."""
    begun, waits = threading.Event(), threading.Event()

    def work(_: StepContext, lock: DurableLock) -> bool:
        lock.raise_if_lost()
        before = client.held()
        begun.set()
        assert waits.wait(DEADLINE)
        return [held for held in client.held() if held.key == "a"] == [held for held in before if held.key == "a"]

    def handler(event: Any, context: DurableContext) -> list[Any]:
        def at_work(branch: DurableContext) -> bool:
            return branch.step(lambda step: work(step, lock))

        def waiting(branch: DurableContext) -> None:
            with durable_lock(branch, "b", lease_duration=HOUR, client=client) as inner:
                assert begun.wait(DEADLINE)
                try:
                    inner.wait(SECOND)
                finally:
                    waits.set()

        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            variables = contextvars.copy_context()
            branches = [at_work, lambda branch: variables.run(waiting, branch)]
            return context.parallel(branches).get_results()

    assert deploy(handler).run() == [True, None]


def test_a_release_is_tried_again_after_an_outage(deploy, wire, impatient, rows):
    def handler(event: Any, context: DurableContext) -> str:
        with durable_lock(context, "a", lease_duration=HOUR, client=impatient) as lock:
            lock.step(lambda _: None)
            if executions.invocations == 1:
                wire.unavailable(times=float("inf"))
            else:
                wire.clear()
        return "done"

    executions = deploy(handler)
    assert executions.run() == "done"
    assert executions.invocations == 2
    assert not rows.is_held("a")


def test_a_release_that_is_refused_9_times_does_not_fail_the_execution(deploy, wire, make, rows, caplog):
    """The 8 pauses between the tries, of 2 to 256 s, are 8.5 minutes."""
    client = make()

    def handler(event: Any, context: DurableContext) -> str:
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            lock.step(lambda _: None)
            wire.answer(400, "AccessDeniedException", times=float("inf"))
        return "done"

    executions = deploy(handler)
    assert executions.run() == "done"
    assert executions.invocations == 9
    assert rows.is_held("a")
    assert "lock 'a' was not released; its lease will run out by itself" in caplog.text
