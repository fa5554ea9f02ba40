"""Each mistake is noticed by the sweep that is meant for it, so a sweep that finds nothing says something."""

from __future__ import annotations

import pytest

from tests.prove.mistakes import planted

from . import cancelling
from .mistakes import MISTAKES
from .sweep import course, sweep
from .test_drivers import stage as stage

pytestmark = [pytest.mark.planted, pytest.mark.ministack_only(reason="its table has a name of its own")]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_drivers_is_noticed(name, stage, capfd):
    change, swept, within = MISTAKES[name]
    operation, _, fault = swept.partition(": ")
    with planted(change):
        if fault == "cancellation":
            found = sweep(swept, lambda first: cancelling.course(stage.rows, operation, first), most=1)
        else:
            found = sweep(swept, lambda first: course(stage, operation, fault, first, within=within), most=1)
    assert found.troubles, f"{found.played} points did not show: {name}"
