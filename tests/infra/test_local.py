"""What is different on an engine, and that nothing else is; and what the command says where something is missing."""

import copy
import json
import subprocess
import sys
from typing import Any

from rig.engine import ROOT

from .conftest import LOCAL, Assembly

NOT_TLS = {"Bool": {"aws:SecureTransport": "false"}}


def alike(assembly: Assembly) -> dict[str, Any]:
    """The template without what may differ."""
    template = copy.deepcopy(assembly.template)
    template.pop("Parameters", None)  # the version of the bootstrapping
    template.pop("Rules", None)
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::Lambda::LayerVersion":
                del properties["Content"]["S3Bucket"]
            case "AWS::Lambda::Function":
                del properties["Code"], properties["Runtime"]
                for name in LOCAL:
                    properties["Environment"]["Variables"].pop(name, None)
            case "AWS::SQS::QueuePolicy" | "AWS::SNS::TopicPolicy":
                statements = properties["PolicyDocument"]["Statement"]
                statements[:] = [each for each in statements if each.get("Condition") != NOT_TLS]
            case "AWS::CloudWatch::Alarm" if resource["Properties"].get("Namespace") in (None, "lambda_lock"):
                for name in ("Metrics", "Namespace", "MetricName", "Statistic", "Period"):
                    properties.pop(name, None)
            case _:
                pass
    return template


def test_nothing_else_differs_on_an_engine(account, local):
    assert alike(local) == alike(account)


def test_an_account_asks_for_tls_and_for_a_bootstrapped_region(account, local):
    def asking(assembly: Assembly) -> int:
        policies = [*assembly.of("AWS::SQS::QueuePolicy").values(), *assembly.of("AWS::SNS::TopicPolicy").values()]
        return sum(each.get("Condition") == NOT_TLS for one in policies for each in one["PolicyDocument"]["Statement"])

    assert asking(account) == len(account.of("AWS::SQS::Queue")) + len(account.of("AWS::SNS::Topic"))
    assert asking(local) == 0
    assert "BootstrapVersion" in account.template["Parameters"]
    assert "Parameters" not in local.template


def test_a_function_on_an_engine_runs_under_awslambdaric_and_finds_the_engine(local):
    for function in local.of("AWS::Lambda::Function").values():
        assert function["Runtime"] == "provided.al2023"
        assert LOCAL.items() <= function["Environment"]["Variables"].items()


def test_without_node_the_local_deployment_says_what_to_install(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "rig.deploy"], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "install Node 22 or newer" in done.stderr


def test_the_command_line_is_pinned_and_its_lock_names_no_registry():
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    assert packages["node_modules/aws-cdk"]["version"] == wanted
    assert all("integrity" in each for name, each in packages.items() if name)
    assert not any("resolved" in each for each in packages.values())
