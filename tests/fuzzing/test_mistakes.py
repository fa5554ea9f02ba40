"""Each mistake that is planted fails in a few plays or inputs."""

import random

import pytest

from lambda_lock import LockError
from tests.prove.mistakes import planted

from .mistakes import FED, PLAYED
from .operations import OPERATIONS
from .play import Play, perform, shrunk
from .scene import scripted
from .targets import TARGETS

pytestmark = [pytest.mark.prove, pytest.mark.filterwarnings("ignore:the handle of lock:ResourceWarning")]

MOST_PLAYS = 300


@pytest.mark.parametrize("name", PLAYED)
def test_a_mistake_is_seen_by_plays_and_shrunk(name, server):
    mistake, operation, reason, kinds = PLAYED[name]
    assert operation in OPERATIONS
    with planted(mistake):
        for seed in range(MOST_PLAYS):
            play = Play(operation, scripted(random.Random(seed), kinds))
            outcome = perform(play, server)
            if outcome.failure:
                break
        assert outcome.failure.startswith(reason), f"after {seed + 1} plays: {outcome}"
        least = shrunk(play, outcome, server)
        print(f"{name}: after {seed + 1} plays: {outcome.reason}; {least}")
        assert perform(least, server).failure
    assert not perform(least, server).failure


@pytest.mark.parametrize("name", FED)
def test_a_mistake_is_seen_by_inputs(name):
    mistake, fed = FED[name]
    with planted(mistake), pytest.raises(Exception) as caught:  # noqa: PT011  # whatever is not documented
        TARGETS[fed].draw(1, examples=300)
    assert not isinstance(caught.value, LockError)
    print(f"{name}: {caught.value!r:.200}")
