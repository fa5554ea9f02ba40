"""Each mistake is shown by workers of one shape, so workers of which nothing stays say something."""

import pytest

from . import rounds
from .mistakes import MISTAKES
from .rounds import play

ROUNDS = 20  # of which one must show it: the signal comes at a random moment, and one mistake shows in 1 of 40 workers

pytestmark = pytest.mark.planted


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.usefixtures("table")
def test_a_mistake_in_the_end_of_a_process_is_noticed(name, monkeypatch):
    monkeypatch.setattr(rounds, "PATIENCE", 10)  # seconds: some of them hang
    assert any(play(MISTAKES[name].shape, seed, name).wrong["worker"] for seed in range(ROUNDS))
