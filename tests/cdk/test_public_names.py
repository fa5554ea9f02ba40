"""The package's public names, once all of it is imported. It is here because that loads the CDK."""

import importlib
import importlib.util
import pkgutil
import types

import pytest

import lambda_lock


@pytest.fixture(scope="module")
def everything() -> None:
    left_out = "lambda_lock.durable" if importlib.util.find_spec("aws_durable_execution_sdk_python") is None else "-"
    for module in pkgutil.walk_packages(lambda_lock.__path__, "lambda_lock.", onerror=lambda _: None):
        if not module.name.startswith(left_out):
            importlib.import_module(module.name)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("name", lambda_lock.__all__)
def test_a_public_name_is_what_it_says_also_when_everything_is_imported(name):
    assert not isinstance(getattr(lambda_lock, name), types.ModuleType)
