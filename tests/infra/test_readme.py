"""What infra/README.md says that the app costs is what the template has; the flags of cdk.json are the recommended."""

import json
import re
import tarfile
from importlib.metadata import files
from pathlib import Path
from typing import Any

from rig.engine import ROOT

from .conftest import CONTEXT

_README = (ROOT / "infra" / "README.md").read_text()


def _row(about: str) -> list[str]:
    (line,) = re.findall(rf"^\| {about}.*$", _README, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_alarms_cost_what_the_page_says(account):
    """CloudWatch charges for each metric that an alarm watches, and not for the expression that adds them up."""
    watched = 0
    for alarm in account.of("AWS::CloudWatch::Alarm").values():
        watched += sum("MetricStat" in each for each in alarm.get("Metrics", [])) or 1
    _, number, price, costs = _row("alarms")
    assert (number, price) == (str(watched), "$0.10")
    assert costs == f"${watched * 0.10:.2f}"


def test_the_metrics_of_locks_are_as_many_as_the_page_says(account):
    most = 4 * (1 + len(account.of("AWS::Lambda::Function")))
    assert f"at most {most}, four for the table" in " ".join(_README.split())
    assert f"at most ${most * 0.30:.2f}" in " ".join(_README.split())


BY_USE = """
    CDK::Metadata DynamoDB::GlobalTable Events::Rule IAM::Policy IAM::Role Lambda::EventInvokeConfig
    Lambda::EventSourceMapping Lambda::Function Lambda::LayerVersion Lambda::Permission Logs::LogGroup SNS::Topic
    SNS::TopicPolicy SQS::Queue SQS::QueuePolicy
"""


def test_nothing_else_costs_without_use(account):
    """All is billed by use, but for alarms and dashboards. A new kind of resource: look up its price."""
    known = {f"AWS::{kind}" for kind in (*BY_USE.split(), "CloudWatch::Alarm", "CloudWatch::Dashboard")}
    assert {each["Type"] for each in account.resources.values()} <= known
    assert len(account.of("AWS::CloudWatch::Dashboard")) == int(_row("dashboard")[1])


def test_the_page_names_what_lies_beside_it():
    beside = {path.name for path in (ROOT / "infra").iterdir() if not path.name.startswith("_")} - {"README.md"}
    for name in beside:
        assert f"`{name}" in _README, name


def test_the_flags_are_those_that_the_cdk_recommends():
    (archive,) = (file.locate() for file in files("aws-cdk-lib") or [] if file.name.endswith(".jsii.tgz"))
    with tarfile.open(Path(str(archive))) as package:
        flags: Any = package.extractfile("package/recommended-feature-flags.json")
        recommended = json.load(flags)
    assert {name: CONTEXT.get(name) for name in recommended} == recommended
