"""What a function's first lock loads: modules are counted, not milliseconds, so that a slow machine changes nothing."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from benchmarks.cold_start.tls import TlsTerminator
from rig.engine import ROOT, Ministack, client_environment
from rig.events import eventbridge
from rig.lambda_runtime import LambdaEnvironment
from tests.cold_start.allowed import PACKAGE, STANDARD, TLS
from tests.support.installed import finish, install_alone

HANDLERS = Path(__file__).parent / "handlers"
NEVER = {
    *("asyncio", "aws_lambda_powertools", "boto3", "botocore", "calendar", "concurrent", "dataclasses", "datetime"),
    *("email", "http", "inspect", "jmespath", "queue", "random", "tempfile", "typing", "urllib", "uuid"),
}

# Takes a lock and says where the library came from and what was loaded for it.
SCRIPT = """
import sys
before = set(sys.modules)
import lambda_lock
alone = set(sys.modules)

@lambda_lock.with_lock("order#{id}")
def work(event):
    return set(sys.modules)

held = work({"id": "1"})
import json
print(json.dumps([lambda_lock.__file__, sorted(alone - before), sorted(held - before)]))
"""


@pytest.fixture
def loaded(engine: Ministack, table: str) -> Callable[..., dict[str, list[str]]]:
    """Runs the function under awslambdaric; gives the modules there before it, while it held its lock, and after."""

    def run(url: str, **variables: str) -> dict[str, list[str]]:
        environment = client_environment(url) | {"LAMBDA_LOCK_TABLE": table} | variables
        with LambdaEnvironment("first_lock.handler", HANDLERS, environment=environment) as function:
            modules: dict[str, list[str]] = function.invoke(eventbridge({"customer_id": "c-1"})).result()
            assert function.lines == []
        assert engine.scan(table), "no lock was taken"
        return modules

    return run


def roots(modules: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def refuse_unlisted(modules: dict[str, list[str]], *allowed: Iterable[str]) -> None:
    """Fail where the function's lock loaded what no allowed list has, or its release anything."""
    added = set(modules["held"]) - set(modules["before"]) - {"first_lock"}
    unlisted = sorted(added.difference(*allowed))
    assert not unlisted, (
        f"the first lock now loads {', '.join(unlisted)}. Find who imports it with 'python -X importtime', and import "
        "it where it is used, or do without. If every function must have it, add it to tests/cold_start/allowed.py "
        "with the reason and its cost, and to docs/cold-start.md"
    )
    assert not roots(added) & NEVER
    assert modules["released"] == modules["held"], "the release loads more"


def test_the_first_lock_loads_only_what_is_listed(loaded, engine):
    refuse_unlisted(loaded(engine.url), STANDARD, PACKAGE)


def test_the_first_lock_over_tls_loads_only_tls_in_addition_and_all_that_is_listed(loaded, engine, tmp_path):
    with TlsTerminator(engine.port, tmp_path) as terminator:
        modules = loaded(terminator.url, AWS_CA_BUNDLE=str(terminator.authority))
    refuse_unlisted(modules, STANDARD, PACKAGE, TLS)
    assert "ssl" in modules["held"]
    # Accelerators are built in, or named otherwise, in some builds of Python.
    pure = {name for name in {*STANDARD, *TLS, *PACKAGE} if name not in sys.builtin_module_names and name[0] != "_"}
    accelerators = {"array", "binascii", "errno", "select", "zlib"}
    assert pure - accelerators <= set(modules["held"]), "take it off tests/cold_start/allowed.py"


def test_importing_the_package_loads_nothing_else_and_the_first_lock_no_boto3_where_it_is_installed(engine, table):
    assert importlib.util.find_spec("boto3"), "boto3 must be there, or this shows nothing"
    _, alone, held = run_script(Path(sys.executable), engine, table, PYTHONPATH=str(ROOT))
    assert set(alone) <= {"__future__", "lambda_lock"}
    assert not roots(held) & NEVER


@pytest.mark.long
def test_the_wheel_alone_takes_a_lock_in_a_bare_virtual_environment(engine, table, tmp_path):
    python = install_alone(tmp_path)
    origin, _, held = run_script(python, engine, table)
    assert Path(origin).is_relative_to(python.parent.parent)
    assert not roots(held) & NEVER
    assert len(engine.scan(table)) == 1


def run_script(python: Path, engine: Ministack, table: str, **variables: str) -> tuple[str, list[str], list[str]]:
    # Outside Lambda, all is loaded at once.
    in_lambda = {"AWS_LAMBDA_FUNCTION_NAME": "first-lock", "LAMBDA_LOCK_TABLE": table, "PATH": os.environ["PATH"]}
    environment = client_environment(engine.url) | in_lambda | variables
    origin, alone, held = json.loads(finish([python, "-P", "-c", SCRIPT], environment))
    return origin, alone, held
