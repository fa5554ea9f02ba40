"""The cases: the same deliveries for both libraries, and the expected outcome."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

from rig.engine import ROOT
from rig.lambda_runtime import LambdaEnvironment, TimedOut

from .contestants import Event, Receipt
from .run import Gate, Run

LEASE = 2.0  # seconds that the first owner has left, in cases in which its time runs out


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a case. ``got``: in words. ``fault``: what was lost or repeated, "" if nothing was."""

    got: str
    fault: str = ""


@dataclasses.dataclass(frozen=True)
class Case:
    """One case.

    effects: the right number of effects. timed: whether to measure the CPU time. Cases that wait or need a wire are not
    timed.
    """

    title: str
    play: Callable[[Run], Outcome]
    effects: int = 1
    timed: bool = True


def new(run: Run) -> Outcome:
    handler, event = run.first.once(run.work), run.event()
    with run.measured():
        got = run.deliver("first", handler, event)
    return Outcome(got)


def duplicate(run: Run) -> Outcome:
    event = run.event()
    run.deliver("first", run.first.once(run.work), event)
    handler = run.second.once(run.work)
    with run.measured():
        got = run.deliver("duplicate", handler, event)
    return Outcome(f"the duplicate {got}")


def cached(run: Run) -> Outcome:
    handler, event = run.first.cached(run.work), run.event()
    run.deliver("first", handler, event)
    with run.measured():
        got = run.deliver("duplicate", handler, event)
    return Outcome(f"the duplicate {got}")


def running(run: Run) -> Outcome:
    gate, event = Gate(), run.event()

    def slow(event: Event) -> str:
        gate.wait()
        return run.work(event)

    first = run.start("first", run.first.once(slow), event)
    gate.reached()
    handler = run.second.once(run.work)
    with run.measured():
        got = run.deliver("duplicate", handler, event)
    gate.open()
    first.end()
    return Outcome(f"the duplicate got {got}", "" if run.was_refused(got) else "it was not refused")


def customer(run: Run) -> Outcome:
    gate, one, other = Gate(), run.event("c-1"), run.event("c-1")

    def slow(event: Event) -> str:
        with run.inside():
            gate.wait()
            run.effects.add(event)
        return "done"

    handlers = run.first.exclusive(slow), run.second.exclusive(run.work)
    with run.measured():
        first = run.start("first", handlers[0], one)
        gate.reached()
        got = run.deliver("second", handlers[1], other)
        gate.open()
        first.end()
        if run.was_refused(got):
            run.deliver("second, again", handlers[1], other)
    if run.most_at_once > 1:
        return Outcome("both ran at once", "no exclusion")
    return Outcome(f"the second got {got}, and ran when delivered again")


def fails(run: Run) -> Outcome:
    calls: list[Event] = []

    def flaky(event: Event) -> str:
        calls.append(event)
        if len(calls) == 1:
            raise ValueError("the first time")
        return run.work(event)

    handler, event = run.first.once(flaky), run.event()
    with run.measured():
        got = run.deliver("first", handler, event)
        again = run.deliver("retry", handler, event)
    return Outcome(f"{got}, then {again}")


def late_owner(run: Run) -> Outcome:
    """The first is still running when its time is over. A second takes over and ends. Then the first ends."""
    return _late(run, lambda: "first")


def late_failure(run: Run) -> Outcome:
    """The same as late_owner, but the first ends with an error."""

    def fail() -> str:
        raise ValueError("late")

    return _late(run, fail)


def _late(run: Run, end_of_first: Callable[[], str]) -> Outcome:
    gate, event = Gate(), run.event()

    def slow(event: Event) -> str:
        run.work(event)
        run.say("first", f"works, and has {LEASE:g} s left")
        gate.wait()
        run.say("first", "ends")
        return end_of_first()

    def quick(event: Event) -> str:
        run.work(event)
        run.say("second", "works")
        return "second"

    with run.measured():
        first = run.start("first", run.first.once(slow), event, LEASE)
        gate.reached()
        handler = run.second.once(quick)
        before = run.redeliver("second", handler, event)
        gate.open()
        first.end()
        effects = run.effects_seen()
        after = run.deliver("duplicate", handler, event)
    if run.effects_seen() > effects:
        return Outcome("the duplicate ran again", "the late error deleted the record")
    fault = "" if after == before else "the late result replaced the second's"
    return Outcome(f"the duplicate {after}", fault)


def late_commit(run: Run) -> Outcome:
    gate, event = Gate(), run.event()

    def slow(event: Event) -> str:
        gate.wait()
        return "first"

    first = run.start("first", run.first.committing(slow, run.effects.item), event, LEASE)
    gate.reached()
    with run.measured():
        run.redeliver("second", run.second.committing(lambda event: "second", run.effects.item), event)
        gate.open()
        got = first.end()
    twice = run.effects_seen() > 1
    return Outcome(f"the late first {got}", "written a second time" if twice else "")


def time_out(run: Run) -> Outcome:
    """A real invocation hangs until Lambda kills its process. The event is delivered again."""
    assert run.engine is not None
    event = run.event()
    variables = run.engine.environment() | {"BENCHMARK_CONTESTANT": run.name}
    with LambdaEnvironment("benchmarks/idempotency/function.handler", ROOT, environment=variables) as environment:
        run.say("first", "hangs until Lambda kills it")
        try:
            environment.invoke(event, LEASE).result()
        except TimedOut as error:
            run.say("first", error.type)
    with run.measured():
        got = run.redeliver("second", run.second.once(run.work), event)
    freed = run.timeline[-1][0] - run.timeline[-3][0]
    return Outcome(f"the next {got}, {freed:.0f} s after the timeout")


def lost_reply(run: Run) -> Outcome:
    handler, event = run.first.once(run.work), run.event()
    run.lose_reply_of_claim()
    with run.measured():
        got = run.deliver("first", handler, event, LEASE)
    if not run.was_refused(got):
        return Outcome(f"the first {got}")
    run.redeliver("retry", handler, event)
    return Outcome(f"{got} until its time is over", "refused by its own record")


def nested(run: Run) -> Outcome:
    handler, event = run.first.nested(run.work), run.event()
    with run.measured():
        run.deliver("first", handler, event)
        got = run.deliver("duplicate", handler, event)
    return Outcome(f"the duplicate {got}")


def asynchronous(run: Run) -> Outcome:
    async def work(event: Event) -> str:
        await asyncio.sleep(0)
        return run.work(event)

    function, event = run.first.asynchronous(work), run.event()
    with run.measured():
        got = run.deliver("first", lambda event, context: asyncio.run(function(event, context)), event)
    return Outcome(got, "" if got.startswith("returned") else "async functions are not supported")


def other_payload(run: Run) -> Outcome:
    event = run.event()
    run.deliver("first", run.first.validated(run.work), event)
    handler, other = run.second.validated(run.work), event | {"detail": {"customer_id": "c-7"}}
    with run.measured():
        got = run.deliver("duplicate", handler, other)
    return Outcome(f"the duplicate {got}", "" if not got.startswith("returned") else "the difference is not seen")


def hook(run: Run) -> Outcome:
    event = run.event()
    run.deliver("first", run.first.once(run.work), event)
    handler = run.second.answered(run.work, lambda result: f"{result} before")
    with run.measured():
        got = run.deliver("duplicate", handler, event)
    return Outcome(f"the duplicate {got}")


def unstorable(run: Run) -> Outcome:
    """The result is not what JSON can represent, and no annotation says so."""

    def work(event: Event) -> object:
        run.work(event)
        return {1j}

    handler, event = run.first.unstorable(work), run.event()
    with run.measured():
        first = run.deliver("first", handler, event)
        got = run.deliver("retry", handler, event)
    fault = "" if first.startswith("returned") else "an error after the work"
    return Outcome(f"the first {first}, the next {got}", fault)


def model(run: Run) -> Outcome:
    def work(event: Event) -> Receipt:
        run.work(event)
        return Receipt("r-1")

    handler, event = run.first.modelled(work), run.event()
    with run.measured():
        first = run.deliver("first", handler, event)
        got = run.deliver("duplicate", handler, event)
    return Outcome(f"the first {first}, the duplicate {got}", "" if "r-1" in got else "not stored")


CASES = {
    "new": Case("A new event", new),
    "duplicate": Case("A duplicate of an event that is done", duplicate),
    "cached": Case("The same in one environment, with the local caches", cached),
    "running": Case("A duplicate while the event is in progress", running),
    "customer": Case("Two events of one customer at once", customer, effects=2),
    "fails": Case("The handler fails and is retried", fails),
    "late-owner": Case("The first ends after its time, and after a second", late_owner, effects=2, timed=False),
    "late-failure": Case("The same, but the first ends with an error", late_failure, effects=2, timed=False),
    "late-commit": Case("The same, with the effect in a transaction", late_commit, timed=False),
    "time-out": Case("A timeout, and the event is delivered again", time_out, timed=False),
    "lost-reply": Case("The reply to the first write is lost", lost_reply, timed=False),
    "nested": Case("A step inside a handler, then a duplicate", nested),
    "async": Case("An async def function", asynchronous),
    "other-payload": Case("A known id with another payload", other_payload),
    "hook": Case("A function creates the duplicate's answer", hook),
    "model": Case("A result that is a data class", model),
    "unstorable": Case("A result that cannot be stored", unstorable),
}
