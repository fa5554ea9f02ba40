"""How a block is left: by suspension, errors, pauses, stops, time-outs and branches that nobody waits for."""

import contextvars
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from aws_durable_execution_sdk_python import exceptions
from aws_durable_execution_sdk_python.config import CompletionConfig, Duration, NestingType, ParallelConfig
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.types import StepContext
from aws_durable_execution_sdk_python_testing.executor import Executor

from lambda_lock import LockLostError
from lambda_lock.durable import DurableLock, durable_lock
from lambda_lock.durable.lock import BlockEnd, block_end
from rig.wire import Wire
from tests.support.waiting import DEADLINE, wait_until

from .executions import HOUR, SECOND, SOON, error_of, names, result, within

FIRST = ParallelConfig(completion_config=CompletionConfig.first_successful())
FOR_GOOD = exceptions.BotoClientError("", exceptions.DurableApiErrorCategory.EXECUTION)


@pytest.fixture
def retried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The testing package waits 5 s in real time before it runs a failed invocation again."""
    monkeypatch.setattr(Executor, "RETRY_BACKOFF_SECONDS", 0)


# Errors that end the execution, or only the invocation


def test_an_execution_that_fails_for_good_releases_without_an_operation(deploy, client, rows):
    def fail(_: DurableContext, lock: DurableLock) -> None:
        lock.step(lambda _: None, name="one")
        raise exceptions.ExecutionError("no way on")

    ended = deploy(within(client, fail)).ended()
    assert error_of(ended)[0] == "ExecutionError"
    assert names(ended) == ["name lock 'a'", "acquire lock 'a'", "one"]
    assert not rows.is_held("a")


def test_a_replay_that_takes_another_way_fails_for_good_and_releases_by_string(deploy, client, rows):
    def go(_: DurableContext, lock: DurableLock) -> None:
        lock.step(lambda _: None, name=f"invocation {executions.invocations}")
        lock.wait(SECOND)

    executions = deploy(within(client, go))
    ended = executions.ended()
    assert error_of(ended)[0] == "NonDeterministicExecutionError"
    assert names(ended)[-1] == "invocation 1"
    assert not rows.is_held("a")


@pytest.mark.usefixtures("retried_at_once")
def test_an_invocation_that_is_run_again_keeps_the_lock(deploy, client, rows):
    tokens: list[int] = []

    def work(_: DurableContext, lock: DurableLock) -> bool:
        tokens.append(lock.fencing_token)
        lock.step(lambda _: None)
        if executions.invocations == 1:
            raise exceptions.InvocationError("try again")
        return lock.step(lambda _: rows.is_held("a"))

    executions = deploy(within(client, work))
    assert executions.run() is True
    assert len(tokens) == 2
    assert len(set(tokens)) == 1


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, BlockEnd.FINISHED),
        (ValueError(), BlockEnd.FINISHED),
        (exceptions.SuspendExecution(""), BlockEnd.SUSPENDED),
        (KeyboardInterrupt(), BlockEnd.SUSPENDED),
        (GeneratorExit(), BlockEnd.SUSPENDED),  # of a generator that was left early, or whose caller was suspended
        (exceptions.InvocationError(""), BlockEnd.SUSPENDED),
        (exceptions.ExecutionError(""), BlockEnd.CUT_OFF),
        (exceptions.NonDeterministicExecutionError(""), BlockEnd.CUT_OFF),
        (exceptions.OrphanedChildException("", "1"), BlockEnd.CUT_OFF),
        (FOR_GOOD, BlockEnd.CUT_OFF),
        (exceptions.BackgroundThreadError("", exceptions.BotoClientError("")), BlockEnd.SUSPENDED),
        (exceptions.BackgroundThreadError("", FOR_GOOD), BlockEnd.CUT_OFF),
        (exceptions.BackgroundThreadError("", ValueError()), BlockEnd.SUSPENDED),
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

    def act(_: DurableContext, lock: DurableLock) -> list[int]:
        lock.step(work, name="one")
        return [lock.fencing_token, lock.step(lambda _: int(rows["a"]["fencingToken"]["N"]))]

    executions = deploy(within(client, act))
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


# Branches


@pytest.mark.parametrize("nesting", [NestingType.NESTED, NestingType.FLAT])
def test_branches_have_locks_of_their_own_over_their_own_suspensions(deploy, client, rows, nesting):
    def work(context: DurableContext, lock: DurableLock) -> bool:
        for _ in range(2):
            lock.step(lambda _: None)
            lock.wait(SECOND)
        return lock.step(lambda _: rows.is_held(lock.key))

    branches = [functools.partial(within(client, work, key=key), None) for key in "abc"]
    config = ParallelConfig(nesting_type=nesting)
    assert deploy(lambda _, context: context.parallel(branches, config=config).get_results()).run() == [True] * 3
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

    def work(_: StepContext) -> None:
        running.set()
        assert go_on.wait(DEADLINE)

    slow: Any = functools.partial(within(client, lambda _, lock: lock.step(work, name="slow work")), None)

    def quick(context: DurableContext) -> None:
        assert running.wait(DEADLINE)

    def handler(event: Any, context: DurableContext) -> bool:
        context.parallel([slow, quick], config=FIRST)
        held = rows.is_held("a")
        go_on.set()
        return held

    assert deploy(handler).run() is True
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


def test_a_suspended_branch_that_nobody_waits_for_any_more_keeps_its_lock_until_the_lease_ends(
    deploy, client, rows, make
):
    sleep = within(client, lambda context, _: context.create_callback(name="never").result(), lease_duration=3)
    suspended: Any = functools.partial(sleep, None)

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


def cut_off(wire: Wire, now: bool, **which: Any) -> None:
    """Begin an outage now, or end it."""
    wire.clear()
    if now:
        wire.unavailable(times=float("inf"), **which)


def test_an_outage_at_a_step_is_a_failed_attempt_of_the_step(deploy, wire, impatient):
    ran: list[int] = []

    def act(_: DurableContext, lock: DurableLock) -> None:
        lock.wait(SECOND)
        cut_off(wire, executions.invocations == 2)
        lock.step(lambda step: ran.append(step.attempt), config=SOON)

    executions = deploy(within(impatient, act))
    executions.run()
    assert ran == [2]


def test_an_outage_at_a_suspension_leaves_the_lease_of_the_last_renewal(deploy, wire, impatient, caplog):
    caplog.set_level("INFO", "lambda_lock")

    def act(context: DurableContext, lock: DurableLock) -> list[int]:
        cut_off(wire, executions.invocations == 1)
        context.wait(SECOND)
        return [lock.fencing_token, lock.step(lambda _: lock.fencing_token)]

    executions = deploy(within(impatient, act))
    before, after = executions.run()
    assert before == after
    assert "lock 'a' was not renewed for the suspension" in caplog.text


@pytest.mark.usefixtures("retried_at_once")
@pytest.mark.parametrize("around", [False, True], ids=["its own", "of the block around it"])
def test_a_wait_that_the_lease_no_longer_covers_is_not_begun_in_an_outage(deploy, wire, impatient, around):
    def act(context: DurableContext, lock: DurableLock) -> int:
        context.wait(SECOND)
        cut_off(wire, executions.invocations == 2, when=lambda request: "'a'" in str(request.body))
        lock.wait(Duration.from_minutes(59))
        return executions.invocations

    inner = within(impatient, act, key="b")
    executions = deploy(within(impatient, (lambda context, _: inner(None, context)) if around else act))
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
    def act(_: DurableContext, lock: DurableLock) -> str:
        lock.step(lambda _: None)
        cut_off(wire, executions.invocations == 1)
        return "done"

    executions = deploy(within(impatient, act))
    assert executions.run() == "done"
    assert executions.invocations == 2
    assert not rows.is_held("a")


def test_a_release_that_is_refused_9_times_does_not_fail_the_execution(deploy, wire, make, rows, caplog):
    """The 8 pauses between the tries, of 2 to 256 s, are 8.5 minutes."""

    def act(_: DurableContext, lock: DurableLock) -> str:
        lock.step(lambda _: None)
        wire.answer(400, "AccessDeniedException", times=float("inf"))
        return "done"

    executions = deploy(within(make(), act))
    assert executions.run() == "done"
    assert executions.invocations == 9
    assert rows.is_held("a")
    assert "lock 'a' was not released; its lease will run out by itself" in caplog.text
