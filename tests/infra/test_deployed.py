"""The end of a beginner's path: the sample app, deployed to an engine by the CDK's command line, and used.

`make deploy-local` does far more with it. tests/docs/test_beginner.py has the path up to here.
"""

from __future__ import annotations

import shutil
import sys

import pytest

from rig.cdk import DEPLOYED, Cdk
from rig.cloud import Cloud
from rig.engine import Ministack
from rig.sample import Sample

from .conftest import LOCAL


@pytest.mark.long
@pytest.mark.ministack_only("functions")
def test_the_sample_is_deployed_and_its_report_runs_under_a_lock(local, tmp_path):
    with Ministack(auth=True, services=DEPLOYED) as engine, Cloud(engine) as cloud:
        assembly = tmp_path / "assembly"
        shutil.copytree(local.folder, assembly)
        here = (engine.url, sys.executable, str(tmp_path / "opt" / "python"))
        for template in assembly.glob("*.template.json"):  # synthesized once for all tests, for no engine in particular
            text = template.read_text()
            for value, ours in zip(LOCAL.values(), here, strict=True):
                text = text.replace(f'"{value}"', f'"{ours}"')
            template.write_text(text)
        sample = Sample(cloud, Cdk(cloud, tmp_path, LOCAL).deploy(assembly))
        sample.unpack_layer(tmp_path / "opt")
        assert sample.function("Report").invoke({}) == "reported"
        assert sample.postings("report#nightly") != []
        (row,) = engine.scan(sample.lock_table)
        assert "isReleased" in row
