"""The whole stack, judged by Porcupine. ``python -m tests.histories`` does the same for minutes or hours."""

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.support.installed import finish

from .__main__ import KINDS, main
from .breaking import BREAKS, broken
from .caller import Plan
from .judge import CheckerMissingError, checker, judge
from .rounds import play
from .test_record import busy_lock

pytestmark = pytest.mark.prove
SOURCES = Path(__file__).with_name("checker")


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    """The checker. Without Go the tests are skipped. In CI, Go must build it."""
    try:
        checker()
    except CheckerMissingError as error:
        if os.environ.get("CI") and shutil.which("go"):
            raise
        pytest.skip(str(error))


def test_the_checker_accepts_and_rejects_known_histories_and_agrees_with_a_trial_of_every_order():
    finish(["go", "test", "-buildvcs=false", "-vet=off", "."], dict(os.environ), cwd=SOURCES)


def test_a_history_without_faults_is_legal():
    judgement = judge([busy_lock()])
    assert (judgement.histories, judgement.legal) == (1, 1)
    assert judgement.operations == len(busy_lock().operations)


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_history_is_rejected(name):
    found = broken(busy_lock(), name, random.Random(1))
    assert found is not None
    assert judge([found]).illegal == 1


def check_round(plan: Plan) -> None:
    played = play(plan)
    recording = played.recording
    assert recording.grants > 0
    assert played.faults["requests"] > 0
    assert (recording.double_holders, recording.troubles) == ([], [])
    judgement = judge(recording.histories)
    assert judgement.listed == []
    assert judgement.legal == judgement.histories > 0
    source = random.Random(plan.seed)
    doubled = [found for each in recording.histories if (found := broken(each, "a second holder", source))]
    assert judge(doubled).illegal == len(doubled) > 0


@pytest.mark.ministack_only("starts an engine of its own")
@pytest.mark.parametrize("calm", [True, False], ids=["calm", "faulty"])
def test_what_callers_of_the_whole_stack_see_is_legal(calm):
    check_round(Plan("ministack", seed=1, seconds=3, calm=calm, processes=2, threads=6, keys=6))


@pytest.mark.dynamodb_local_only
def test_what_callers_see_is_legal_on_dynamodb_local():
    check_round(Plan("dynamodb-local", seed=1, seconds=10, processes=2, threads=6, keys=6))


def test_callers_notice_broken_rules():
    assert KINDS["callers"].mutants
    assert main(["--mutants", "--only", "callers", "--engine", "ministack", "--seconds", "30"]) == 0
