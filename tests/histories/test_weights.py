"""Permits of more than one, and readers and a writer, while the network fails and processes are killed and frozen."""

import dataclasses
from typing import Any

import pytest

from rig.engine import Engine

from .judge import judge as porcupine
from .weights import PERMITS, Plan, Round, histories_of, judge, play

SECOND = 1_000_000_000


@pytest.mark.long
def test_never_more_than_n_permits_are_held_and_nothing_is_left_of_the_dead(engine: Engine, table: str) -> None:
    found = play(engine, table, Plan(seed=1, seconds=4.0, processes=3))
    assert found.wrong == []
    assert found.happened["more than one"] > 0
    assert found.happened["killed"] + found.happened["frozen"] > 0
    assert found.peaks["gpus"] > 1


@pytest.mark.prove
def test_porcupine_finds_one_order_of_all_that_was_told_and_none_with_one_permit_too_many(engine, table):
    found = play(engine, table, Plan(seed=2, seconds=4.0, processes=3))
    judgement = porcupine(found.histories)
    assert judgement.listed == []
    assert judgement.legal == len(PERMITS)
    overbooked = [dataclasses.replace(each, permits=found.peaks[each.lock] - 1) for each in found.histories]
    assert porcupine(overbooked).illegal == len(PERMITS)


RULES = [
    "a claim that asks for one permit, whatever it takes",
    "a claim that does not count what it takes",
    "a release that takes off one permit, whatever it had",
    "what the dead had not given back",
    "a sum that does not count at all",
    "one who takes more let into a row that does not count weights",
]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_shows(rule, engine, new_table):
    rounds = (play(engine, new_table(), Plan(seed, mutation=rule)) for seed in range(10))
    assert any(each.wrong for each in rounds), f"10 rounds did not show: {rule}"


@pytest.mark.prove
def test_porcupine_notices_a_broken_rule(engine, new_table):
    rounds = (play(engine, new_table(), Plan(seed, mutation=RULES[0])) for seed in range(10))
    assert any(porcupine(each.histories).illegal for each in rounds)


class Lines:
    """Writes what a process would have written, for a judge."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, Any]] = []

    def granted(self, at: int, key: str, token: int, take: int, until: int, **more: Any) -> None:
        learnt = {"token": token, "take": take, "attempt": token, **more}
        self.did(at, "acquire", key, token, "ok", learnt, {})
        self.lines.append((0, ["held", at * SECOND, at * SECOND, key, token, token, until * SECOND]))

    def did(
        self, at: int, kind: str, key: str, token: int, outcome: str, learnt: dict[str, Any], known: dict[str, Any]
    ) -> None:
        number = len(self.lines)
        self.lines.append((0, ["begin", number, at * SECOND, kind, key, token, known]))
        self.lines.append((0, ["end", number, at * SECOND, outcome, learnt]))

    def ended(self, at: int, kind: str, key: str, token: int, outcome: str = "ok") -> None:
        self.did(at, kind, key, token, outcome, {}, {"token": token})

    def judged(self) -> Round:
        judge(self.lines, found := Round())
        return found


def test_the_judge_adds_up_what_is_held_at_once():
    lines = Lines()
    lines.granted(1, "gpus", token=11, take=3, until=20)
    lines.granted(2, "gpus", token=12, take=2, until=20)
    lines.ended(3, "release", "gpus", token=12)
    lines.granted(4, "gpus", token=13, take=2, until=9)
    lines.granted(9, "gpus", token=14, take=2, until=20)  # at the end of what 13 was promised
    found = lines.judged()
    assert (found.wrong, found.peaks) == ([], {"gpus": PERMITS["gpus"]})
    lines.granted(10, "gpus", token=15, take=1, until=20)
    lines.granted(1, "config", token=11, take=100, until=20)
    lines.granted(2, "config", token=12, take=1, until=20)
    assert [each.partition(",")[0] for each in lines.judged().wrong] == [
        "too many: 6 of 5 of gpus at 10000000000",
        "too many: 101 of 100 of config at 2000000000",
    ]


@pytest.mark.prove
def test_porcupine_reads_what_the_judge_reads():
    lines = Lines()
    lines.granted(1, "gpus", token=11, take=3, until=20)
    lines.granted(2, "gpus", token=12, take=2, until=20)
    lines.ended(3, "hand_over", "gpus", token=12, outcome="unknown")
    lines.did(4, "resume", "gpus", 12, "resumed", {"take": 2, "attempt": 13}, {"token": 12})
    lines.did(5, "resume", "gpus", 12, "released", {}, {"token": 12})
    lines.granted(6, "gpus", token=14, take=2, until=20)
    lines.ended(7, "release", "gpus", token=14, outcome="unknown")
    lines.granted(8, "gpus", token=15, take=2, until=9)
    lines.granted(10, "gpus", token=16, take=2, until=20)
    assert porcupine(histories_of(lines.lines)).listed == []
    lines.granted(11, "gpus", token=17, take=1, until=20)
    assert porcupine(histories_of(lines.lines)).illegal == 1


def test_the_judge_rejects_a_loss_before_the_end_that_was_promised_unless_somebody_resumed():
    for resumed, wrong in ((False, ["lost early"]), (True, [])):
        lines = Lines()
        lines.granted(1, "gpus", token=11, take=3, until=20, is_resumed=resumed)
        lines.ended(5, "renew", "gpus", token=11, outcome="lost")
        assert [each.partition(":")[0] for each in lines.judged().wrong] == wrong


def test_the_judge_counts_the_newest_attempt_of_a_hold():
    lines = Lines()
    lines.granted(1, "gpus", token=11, take=3, until=20)
    lines.ended(2, "resume", "gpus", token=11)
    lines.granted(3, "gpus", token=12, take=5, until=20)
    assert lines.judged().wrong == []


def test_an_attempt_that_goes_on_with_a_shorter_lease_ends_what_the_one_before_was_promised():
    lines = Lines()
    lines.granted(1, "gpus", token=11, take=3, until=20)
    lines.did(2, "acquire", "gpus", 18, "ok", {"token": 11, "take": 3, "attempt": 18, "is_resumed": True}, {})
    lines.lines.append((0, ["held", 2 * SECOND, 2 * SECOND, "gpus", 18, 11, 4 * SECOND]))
    lines.granted(5, "gpus", token=12, take=5, until=20)
    found = lines.judged()
    assert found.wrong == []
    assert min(each["call"] for each in found.histories[0].operations if each["kind"] == "expire") == 4 * SECOND
