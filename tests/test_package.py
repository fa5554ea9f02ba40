"""The package's public names, asked for in any order."""

from __future__ import annotations

import importlib.util
import pickle
import pkgutil
import shutil
import subprocess
import sys
import types

import pytest

import lambda_lock


@pytest.mark.parametrize("name", lambda_lock.__all__)
def test_a_public_name_is_what_it_says_also_when_everything_is_imported(name: str) -> None:
    left_out = ["lambda_lock.durable"] if importlib.util.find_spec("aws_durable_execution_sdk_python") is None else []
    if shutil.which("node") is None:  # which the CDK runs in
        left_out.append("lambda_lock.cdk")
    for module in pkgutil.walk_packages(lambda_lock.__path__, "lambda_lock.", onerror=lambda _: None):
        if not module.name.startswith(tuple(left_out)):
            importlib.import_module(module.name)
    assert not isinstance(getattr(lambda_lock, name), types.ModuleType)


@pytest.mark.skipif(
    importlib.util.find_spec("aws_durable_execution_sdk_python") is not None, reason="the SDK is installed"
)
def test_the_lock_for_durable_functions_names_its_extra_where_the_sdk_is_missing() -> None:
    with pytest.raises(ImportError, match=r"pip install 'lambda-lock\[durable\]'"):
        importlib.import_module("lambda_lock.durable")


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="with_locks"):
        lambda_lock.with_locks  # noqa: B018


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import sys, lambda_lock; print([name for name in sys.modules if name.startswith('lambda_lock')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['lambda_lock._version', 'lambda_lock']"


def test_all_of_a_module_can_be_imported_where_nothing_else_is_installed() -> None:
    code = "import sys; sys.modules['boto3'] = sys.modules['botocore'] = None; from lambda_lock.transport import *; "
    code += "from lambda_lock import *; print(HttpsTransport.__name__, LockClient.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "HttpsTransport LockClient", said.stderr


def test_the_names_for_checkers_are_those_at_run_time() -> None:
    assert set(lambda_lock._WHERE) | {"__version__"} == set(lambda_lock.__all__)


def test_a_schema_can_be_pickled_compared_and_changed() -> None:
    schema = pickle.loads(pickle.dumps(lambda_lock.JAVA))
    assert schema == lambda_lock.JAVA
    assert schema.replace(ttl="expires") != lambda_lock.JAVA


def test_a_record_can_be_pickled(table: str) -> None:
    with lambda_lock.LockClient() as client, client.acquire("a", data=b"x", attributes={"n": 1}):
        record = client.get("a")
        assert pickle.loads(pickle.dumps(record)) == record
