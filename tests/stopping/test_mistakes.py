"""Each mistake is shown by workers of one shape, so workers of which nothing stays say something."""

from __future__ import annotations

import pytest

from lambda_lock import LockClient

from . import __main__
from .__main__ import play
from .mistakes import MISTAKES

WORKERS = 60  # of which one must show it: the signal comes at a random moment

pytestmark = pytest.mark.planted


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_end_of_a_process_is_noticed(name, table, monkeypatch):
    monkeypatch.setattr(__main__, "PATIENCE", 10)  # seconds: some of them hang
    shape = MISTAKES[name].shape
    with LockClient(table) as client:
        assert any(play(shape, f"{shape} {number}", client, name) for number in range(WORKERS))
