"""A few rounds of each kind of fault, and what their judge sees. `tests.histories --only runtime` plays hundreds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.engine import Engine
from tests.histories.__main__ import main
from tests.histories.caller import LOCKS, REGISTERS
from tests.histories.judge import judge
from tests.support.rows import Rows

from . import rounds
from .rounds import KINDS, MUTANTS, Plan, Stage, play


@pytest.fixture
def tables(engine: Engine, table: str) -> Iterator[None]:
    """The tables of the rounds. ``table`` lets the environment of this process point at the engine."""
    for name in (LOCKS, REGISTERS):
        engine.create_table(name)
    yield
    for name in (LOCKS, REGISTERS):
        engine.delete_table(name)


@pytest.fixture
def stage(engine: Engine, tables: None, tmp_path: Path) -> Stage:
    return Stage(Plan("kill", seed=1), engine, tmp_path)


@pytest.mark.prove
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_holds_beside_another_and_nothing_is_left_held_or_lost(kind, engine):
    played = play(Plan(kind, seed=1, share=0.5), engine)
    recording = played.recording
    assert (recording.double_holders, recording.troubles) == ([], [])
    assert not any(played.wrong.values()), played.wrong
    assert recording.grants > 0
    assert judge(recording.histories).listed == []


@pytest.mark.prove
def test_functions_notice_broken_rules():
    assert MUTANTS
    assert main(["--mutants", "--only", "runtime", "--at-once", "2"]) == 0


def test_a_work_that_is_not_there_is_lost(stage, engine):
    works = {"works": {"L": [{"S": "there"}, {"S": "twice"}, {"S": "twice"}]}}
    engine.dynamodb("PutItem", {"TableName": REGISTERS, "Item": {"key": {"S": stage.key}, **works}})
    stage.done += [("with_lock", name) for name in ("there", "twice", "missing")]
    rounds.compare_works(stage)
    assert stage.round.lost == ["with_lock missing: there 0 times", "with_lock twice: there 2 times"]
    assert any(stage.round.wrong.values())


def test_a_lock_that_nobody_can_take_in_time_is_not_free(stage, engine):
    stage.patience = 0.5
    Rows(engine, LOCKS).put_foreign(stage.key, lease_seconds=600)
    rounds.take_the_lock(stage)
    assert len(stage.round.not_free) == 1
    assert any(stage.round.wrong.values())
