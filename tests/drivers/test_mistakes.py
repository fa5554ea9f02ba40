"""Each mistake is noticed by the sweep that is meant for it, so a sweep that finds nothing says something."""

from functools import partial

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
    steps = partial(course, stage, operation, fault, within=within)
    if fault == "cancellation":
        steps = partial(cancelling.course, stage.rows, operation)
    with planted(change):
        found = sweep(swept, steps, most=1)
    assert found.troubles, f"{found.played} points did not show: {name}"
