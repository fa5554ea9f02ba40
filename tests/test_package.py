"""The package's public names, asked for in any order."""

import ast
import difflib
import graphlib
import importlib.util
import pickle
import shutil
import subprocess
import sys

import pytest

import lambda_lock
from rig.engine import ROOT
from tests.support.public_api import COMMAND, SNAPSHOT, public_api


def test_the_public_names_and_their_signatures_change_by_decision_only():
    were, are = SNAPSHOT.read_text().splitlines(), public_api().splitlines()
    changes = list(difflib.unified_diff(were, are, "meant", "found", lineterm="", n=0))
    assert not changes, "\n".join(
        [
            "what users call has changed:",
            *changes,
            f"If this is meant: {COMMAND}. Then tell users in CHANGELOG.md (docs/stability.md: what may change).",
        ]
    )


def test_a_change_of_a_name_a_parameter_or_a_default_changes_the_text_of_the_public_names(tmp_path, monkeypatch):
    before = public_api()
    shutil.copytree(ROOT / "lambda_lock", tmp_path / "lambda_lock", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("tests.support.public_api.PACKAGE", tmp_path / "lambda_lock")
    for path, old, new in (
        ("client/lock.py", "def ensure(self, seconds: float)", "def ensure(self, seconds: int)"),
        ("client/lock.py", "def fencing_token(self)", "def token(self)"),  # of a private base
        ("client/settings.py", "lease_duration: float = 20.0", "lease_duration: float = 30.0"),
        ("core/protocol.py", "\nDECISION = ", "\nDECISION = 1 and "),  # a default that has a name
        ("client/options.py", "reentrant: bool", "reentrant: int"),  # what ** takes
        ("testing/memory.py", "def hold(", "def held("),  # of what a public function returns
        ("durable/lock.py", "def step(", "def steps("),
        ("durable/lock.py", "poll: float = 60", "poll: float = 6"),  # of what is overloaded
        ("errors.py", "class LockTimeoutError(LockNotGrantedError)", "class LockTimeoutError(LockError)"),
        ("core/schema.py", 'data="data"', 'data="payload"'),  # the row
    ):
        file = tmp_path / "lambda_lock" / path
        text = file.read_text()
        assert old in text, old
        file.write_text(text.replace(old, new, 1))
        assert public_api() != before, old
        file.write_text(text)


@pytest.mark.skipif(
    importlib.util.find_spec("aws_durable_execution_sdk_python") is not None, reason="the SDK is installed"
)
def test_the_lock_for_durable_functions_names_its_extra_where_the_sdk_is_missing():
    with pytest.raises(ImportError, match=r"pip install 'lambda-lock\[durable\]'"):
        importlib.import_module("lambda_lock.durable")


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="with_locks"):
        lambda_lock.with_locks  # noqa: B018


def test_importing_the_package_loads_none_of_its_parts():
    code = "import sys, lambda_lock; print([name for name in sys.modules if name.startswith('lambda_lock')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['lambda_lock']"


def test_all_of_a_module_can_be_imported_where_nothing_else_is_installed():
    code = "import sys; sys.modules['boto3'] = sys.modules['botocore'] = None; from lambda_lock.transport import *; "
    code += "from lambda_lock import *; print(HttpsTransport.__name__, LockClient.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "HttpsTransport LockClient", said.stderr


def test_the_names_for_checkers_are_those_at_run_time():
    errors = {name for name, value in vars(lambda_lock.errors).items() if _is_error(value)}
    elsewhere = [name for names in lambda_lock._WHERE.values() for name in names]
    assert {*elsewhere} | errors | {"__version__"} == set(lambda_lock.__all__)
    assert not errors & {*elsewhere}
    assert len(elsewhere) == len({*elsewhere})


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, lambda_lock.LockError)


def test_no_two_modules_need_each_other_also_not_for_types_or_within_a_function():
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (ROOT / "lambda_lock").rglob("*.py")
    }
    needs: dict[str, set[str]] = {name: set() for name in files}
    for name, file in files.items():
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.level:
                source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                found = {module if (module := f"{source}.{each.name}") in files else source for each in node.names}
                needs[name] |= found - {name}
    needs["lambda_lock"] = set()  # its names are loaded when they are asked for, and its modules ask for none
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError, which names them


def test_a_schema_and_a_record_can_be_pickled_and_compared(table):
    schema = pickle.loads(pickle.dumps(lambda_lock.JAVA))
    assert schema == lambda_lock.JAVA
    assert schema.replace(ttl="expires") != lambda_lock.JAVA
    with lambda_lock.LockClient() as client, client.acquire("a", data=b"x", attributes={"n": 1}):
        record = client.get("a")
        assert pickle.loads(pickle.dumps(record)) == record
