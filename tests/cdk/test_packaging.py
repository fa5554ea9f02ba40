"""The CDK's snippet of docs/packaging.md deploys the folder that the page builds."""

from __future__ import annotations

import re

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_

from rig.engine import ROOT
from tests.cdk.apps import policies, the_only

_PAGE = (ROOT / "docs" / "packaging.md").read_text()


@pytest.mark.skipif(not hasattr(lambda_.Runtime, "PYTHON_3_13"), reason="the oldest CDK does not know Python 3.13")
def test_the_snippet_deploys_the_folder_and_connects_the_function(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "app.py").write_text((ROOT / "docs" / "packaging" / "app.py").read_text())
    (snippet,) = re.findall(r"^```py\n((?:(?!^```).)*?aws_cdk.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    snippet = snippet.replace('"package"', repr(str(tmp_path / "package")))  # Node has a working directory of its own
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path / "out"), analytics_reporting=False), "Stack")
    exec(compile(snippet, "docs/packaging.md", "exec"), {"self": stack})
    properties = the_only(stack, "AWS::Lambda::Function")["Properties"]
    assert properties["Architectures"] == ["arm64"]
    assert "LAMBDA_LOCK_TABLE" in properties["Environment"]["Variables"]
    assert policies(stack)
    (asset,) = (tmp_path / "out").glob("asset.*/app.py")
    assert asset.read_text() == (tmp_path / "package" / "app.py").read_text()
