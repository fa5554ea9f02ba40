"""cfn-lint and the CDK's own check find no mistake in the templates of the docs, and in those that the construct makes.

`make templates` turns the CDK's check on: it fails each synthesis of a template in which it finds one.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from lambda_lock.cdk import LockTable
from rig.engine import ROOT
from tests.cdk.apps import in_an_account, new_function, synthesized
from tests.cdk.forms import FORMS, NEWEST_PYTHON

_PROGRAM = os.environ.get("LAMBDA_LOCK_CFN_LINT", "")
_WRITTEN = [*sorted((ROOT / "docs" / "deploy").glob("*.yaml")), *sorted((ROOT / "docs" / "templates").glob("*.yaml"))]

pytestmark = pytest.mark.skipif(not _PROGRAM, reason="make templates installs cfn-lint and runs this")


def _findings(template: Path) -> set[tuple[str, str]]:
    """The rules that found something, each with the resource."""
    done = subprocess.run([_PROGRAM, "--format", "json", str(template)], capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return {(each["Rule"]["Id"], str(each["Location"]["Path"][1])) for each in found}


@pytest.mark.parametrize("template", _WRITTEN, ids=lambda path: path.name)
def test_cfn_lint_finds_nothing_in_the_templates_of_the_docs(template):
    assert _findings(template) == set()


@pytest.mark.parametrize("form", FORMS)
def test_cfn_lint_finds_nothing_in_what_the_construct_makes_but_what_the_cdk_does_for_each_function(form, tmp_path):
    stack, template = in_an_account(), tmp_path / "template.json"
    FORMS[form](stack)
    template.write_text(json.dumps(synthesized(stack)))
    found = _findings(template)
    assert {rule for rule, _ in found} == ({"W3005"} if form == "with_a_waker" else set())
    assert all(resource.startswith("LocksWakerFunction") for _, resource in found)


def test_cfn_lint_says_the_same_of_a_function_without_locks_and_sees_a_mistake(tmp_path):
    stack, template = in_an_account(), tmp_path / "template.json"
    new_function(stack, initial_policy=[])
    LockTable(stack, "Locks", wake=NEWEST_PYTHON).connect(new_function(stack, "Connected"))
    made = synthesized(stack)
    made["Resources"]["LocksTable84FB9352"]["Properties"]["BillingMode"] = "GRATIS"
    template.write_text(json.dumps(made))
    found = _findings(template)
    assert ("E3030", "LocksTable84FB9352") in found
    assert any(resource.startswith("Connected") for rule, resource in found if rule == "W3005")


def test_the_cdks_own_check_fails_the_synthesis_for_a_mistake_that_cfn_lint_does_not_know(tmp_path):
    stack, template, kind = in_an_account(), tmp_path / "template.json", "AWS::GameLift::Fleet"
    ports = {"FromPort": 2000, "ToPort": 1000, "IpRange": "10.0.0.0/8", "Protocol": "UDP"}
    fleet = {"Name": "fleet", "EC2InboundPermissions": [ports]}
    template.write_text(json.dumps({"Resources": {"Fleet": {"Type": kind, "Properties": fleet}}}))
    assert _findings(template) == set()
    cdk.CfnResource(stack, "Fleet", type=kind, properties=fleet)
    with pytest.raises(RuntimeError, match="port range is inverted"):
        synthesized(stack)
