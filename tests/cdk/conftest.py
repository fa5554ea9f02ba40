"""The CDK runs in Node. Without Node, these tests cannot even be imported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_REASON = "the CDK needs Node (node is not on the PATH)"


class _WithoutNode(pytest.Module):
    def collect(self) -> list[pytest.Item]:
        if os.environ.get("CI") == "true":
            raise self.CollectError(f"CI must have what the tests need: {_REASON}")
        pytest.skip(_REASON, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if shutil.which("node") is not None:
        return None
    module: pytest.Module = _WithoutNode.from_parent(parent, path=module_path)
    return module
