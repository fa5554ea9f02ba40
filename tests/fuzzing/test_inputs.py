"""Whatever a target is fed, only documented errors come out, and it ends."""

import time

import pytest

from lambda_lock import KeyTemplateError
from lambda_lock.keys.compile import compile_key

from . import guide
from .targets import TARGETS

pytestmark = pytest.mark.filterwarnings("ignore:the handle of lock:ResourceWarning")  # operations leave it held

LOADING_BOTO3 = ("environment", "files")  # each of their inputs takes a tenth of a second or more


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("seed", "few", "many"), [(1, 3, 25), pytest.param(2, 60, 1500, marks=pytest.mark.prove)], ids=["some", "much"]
)
def test_hostile_input_leads_to_documented_errors_alone(name, seed, few, many):
    TARGETS[name].draw(seed, examples=few if name in LOADING_BOTO3 else many)


def test_a_target_can_be_fed_again_and_again():
    fed = TARGETS["hand-over strings"]
    assert fed.draw(1, examples=5) + fed.draw(2, examples=5) >= 10
    fed.feed(bytes(100))


@pytest.mark.long
def test_targets_that_share_a_short_time_are_each_fed_by_one_process():
    names = ["hand-over strings", "JMESPath", "tables"]
    reports: list[guide.Report] = []
    guide.run_all(names, time.monotonic() + 1.0, 1, reports)
    assert [report.name for report in reports] == names
    assert all(report.inputs and not report.failure for report in reports)


@pytest.mark.parametrize("expression", ["!" * 3000, "[" * 3000, "(" * 3000, "9" * 5000, f"a[{'9' * 5000}]"])
def test_a_jmespath_expression_that_is_nested_too_deep_or_has_too_many_digits_is_refused(expression):
    def handler(event: object) -> None:
        """It is not called."""

    with pytest.raises(KeyTemplateError, match="not a valid JMESPath"):
        compile_key(handler, None, expression)
