"""Plays schedules of a scenario, and judges each."""

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from rig.engine import Engine
from tests.prove import bench

from .scenarios import Scenario
from .scheduler import Choice
from .world import World, world

Plan = dict[int, int]


@dataclass
class Played:
    """One schedule. wrong: what it has shown. places: where threads were switched."""

    scenario: str
    policy: str
    plan: Plan
    choices: list[Choice]
    wrong: list[str]
    double_holders: int
    requests: int
    places: list[str]

    def figures(self, http: bool) -> bench.Figures:
        return {
            "schedules": 1,
            "schedules with two switches": int(len(self.plan) == 2),
            "schedules over HTTP": int(http),
            "requests": self.requests,
            "failed": int(bool(self.wrong)),
            bench.DOUBLE_HOLDERS: self.double_holders,
            "pairs": {self.scenario: 1},
        }

    def story(self) -> str:
        switches = ", then ".join(self.places) or "nowhere"
        played = f"{self.scenario} (policy {self.policy}, plan {self.plan}, switched at {switches})"
        return f"{played}: {'; '.join(self.wrong)}"


def play(scenario: Scenario, plan: Plan, policy: str, every: str, engine: Engine | None = None) -> Played:
    """One schedule, from its preparation to its judgement."""
    with world(policy, every, engine) as made:
        made.do(functools.partial(scenario.prepare, made))
        run = made.scheduler.run([functools.partial(act, made) for act in scenario.acts], plan)
        wrong = list(run.troubles)
        if not wrong:  # otherwise its threads may be stuck
            wrong += _judge(scenario, made, run.results)
            wrong += made.false_holders
        places = [choice.where for choice in run.choices if choice.point in plan]
        false = len(made.false_holders)
        return Played(scenario.name, policy, plan, run.choices, wrong, false, made.requests, places)


def _judge(scenario: Scenario, made: World, results: list[object]) -> Iterator[str]:
    made.pass_time(scenario.settle)
    try:
        yield from scenario.judge(made, results)
    except Exception as error:  # noqa: BLE001 - nothing that the judge asks for may raise
        yield f"the judge was stopped by {error!r}"
    told = made.told
    if not scenario.may_lose and "lost" in (*told.log, *told.hooks, *told.callbacks):
        yield f"a loss was told: log {told.log}, hooks {told.hooks}, callbacks {told.callbacks}"
    if not scenario.may_lose and made.kept is not None and made.kept.lost:
        yield "the handle says that it was lost"
    made.do(made.client.close)
    made.pass_time(3.0)
    yield from told.faults
    if left := [name for name in made.scheduler.running if name in ("lambda_lock-callback", "lambda_lock-hooks")]:
        yield f"threads did not end: {left}"


def once(scenario: Scenario, policy: str, every: str, engine: Engine | None = None, first: str = "") -> Iterator[Plan]:
    """The plans with at most one switch: each point of the run without any, and each thread that could go on there.

    first: switches in the function of this name come first.
    """
    play(scenario, {}, policy, every, engine)  # imports what is imported late
    yield {}
    choices = play(scenario, {}, policy, every, engine).choices
    for choice in sorted(choices, key=lambda choice: first not in choice.where):
        for other in choice.others:
            yield {choice.point: other}


def again(scenario: Scenario, policy: str, every: str, within: str) -> Iterator[Plan]:
    """The plans with two switches, of which the first is at a place with ``within`` in it."""
    for plan in once(scenario, policy, every, first=within):
        first = play(scenario, plan, policy, every)
        if any(within in place for place in first.places):
            later = [choice for choice in first.choices if choice.point > max(plan)]
            yield from (plan | {choice.point: other} for choice in later for other in choice.others)


def twice(scenario: Scenario, policy: str, every: str, source: random.Random) -> Iterator[Played]:
    """Schedules with two switches, drawn at random, without an end. Each first switch is also played alone."""
    plans = [plan for plan in once(scenario, policy, every) if plan]
    while plans:
        plan = source.choice(plans)
        played = play(scenario, plan, policy, every)
        yield played
        later = [choice for choice in played.choices if choice.point > max(plan)]
        for choice in source.sample(later, min(_SECONDS, len(later))):
            yield play(scenario, plan | {choice.point: source.choice(choice.others)}, policy, every)


_SECONDS = 8  # second switches that are drawn for each first one
