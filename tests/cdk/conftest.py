"""The CDK runs in Node. Without Node, these tests cannot even be imported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import aws_cdk as cdk

    from lambda_lock.cdk import LockTable

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


@pytest.fixture
def stack() -> cdk.Stack:
    """A stack that can be deployed to any account and Region."""
    from tests.cdk.apps import new_stack  # here and below: only where there is Node

    return new_stack()


@pytest.fixture
def home() -> cdk.Stack:
    """A stack in an account and a Region."""
    from tests.cdk.apps import in_an_account

    return in_an_account()


@pytest.fixture
def locks(stack: cdk.Stack) -> LockTable:
    """A lock table in ``stack``, without options."""
    from lambda_lock.cdk import LockTable

    return LockTable(stack, "Locks")
