"""What is loaded in Lambda's INIT, so that the first invocation finds it there."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cold_start.tls import TlsTerminator
from rig.engine import ROOT, Ministack, client_environment, free_port
from rig.lambda_runtime import FunctionError, LambdaEnvironment
from tests.support.installed import finish
from tests.support.sampled import sampled

HANDLERS = Path(__file__).parent / "handlers"
SECRET = "3ecret/of+the+environment"
SECONDS = 15.0  # less than the lease, so that no renewal is needed
TYPES = ("on-demand", "provisioned-concurrency", "snap-start")
TRANSPORT = {f"lambda_lock.transport.{name}" for name in ("choice", "credentials", "https", "http1", "answers")}

Run = Callable[..., dict[str, Any]]

# Two copies of an initialised process, as two environments that were restored from one snapshot.
RESTORED_TWICE = """
import os, at_init
for number in range(2):
    if not os.fork():
        os.environ["_X_AMZN_TRACE_ID"] = f"Root={number}"
        print(at_init.handler({"id": str(number)}, None)["version"], flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture
def run(engine: Ministack, table: str) -> Run:
    """Runs the function under awslambdaric, once; gives what it tells of INIT and of its first invocation."""

    def run(initialization: str, kind: str = "plain", url: str = engine.url, **variables: str) -> dict[str, Any]:
        environment = variables_of(initialization, kind, url, table) | variables
        with LambdaEnvironment("at_init.handler", HANDLERS, environment=environment) as function:
            told: dict[str, Any] = function.invoke({"id": "1"}, SECONDS).result()
        assert engine.scan(table), "no lock was taken"
        return told

    return run


def variables_of(initialization: str, kind: str, url: str, table: str) -> dict[str, str]:
    of_lambda = {"AWS_LAMBDA_INITIALIZATION_TYPE": initialization, "AWS_SECRET_ACCESS_KEY": SECRET}
    own = {"LAMBDA_LOCK_TABLE": table, "KIND": kind, "PYTHONDONTWRITEBYTECODE": "1"}
    return client_environment(url) | of_lambda | own


KINDS = ("given", "set", "async", "several", "several-async")


@pytest.mark.parametrize(
    ("initialization", "kind"), [*zip(TYPES * 2, KINDS, strict=False), *((each, "plain") for each in TYPES)]
)
def test_the_first_invocation_imports_nothing(run, initialization, kind):
    told = run(initialization, kind)
    assert told["new"] == []
    assert set(told["init"]) >= TRANSPORT
    if kind == "plain":
        assert (told["at_init"]["sockets"], told["after"]["sockets"]) == (0, 1)
        assert told["after"]["secret"], "the search finds no secret that is there"
        assert not (told["at_init"]["secret"] and initialization == "snap-start"), "the snapshot has a secret"


@pytest.mark.long
@pytest.mark.parametrize("initialization", TYPES)
def test_the_first_invocation_over_tls_imports_nothing(run, initialization, engine, tmp_path):
    with TlsTerminator(engine.port, tmp_path) as terminator:
        told = run(initialization, url=terminator.url, AWS_CA_BUNDLE=str(terminator.authority))
    assert told["new"] == []
    assert "ssl" in told["init"]
    assert bool(told["at_init"]["contexts"]) == (initialization != "snap-start")
    assert told["after"]["contexts"]


def test_copies_of_one_snapshot_write_different_versions(engine, table):
    environment = variables_of("snap-start", "plain", engine.url, table)
    environment |= {"PATH": os.environ["PATH"], "PYTHONPATH": f"{HANDLERS}{os.pathsep}{ROOT}"}
    versions = finish([Path(sys.executable), "-c", RESTORED_TWICE], environment).split()
    assert len({version.rpartition(":")[2] for version in versions}) == 2


def test_outside_lambda_nothing_is_loaded_before_the_first_lock(run):
    told = run("")
    assert not TRANSPORT & set(told["init"])
    assert set(told["new"]) >= TRANSPORT


def test_an_environment_that_changed_since_is_what_counts(run, engine):
    told = run("on-demand", "moved", url=f"http://127.0.0.1:{free_port()}", MOVED_TO=engine.url)
    assert told["version"]


_FAILURES: list[tuple[str, dict[str, str]]] = [
    ("LAMBDA_LOCK_TABLE", {"LAMBDA_LOCK_TABLE": ""}),
    ("AWS_REGION", {"AWS_REGION": "", "AWS_DEFAULT_REGION": ""}),
    ("credentials", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}),
    ("which is not installed", {"AWS_PROFILE": "orders"}),
    ("AWS_CA_BUNDLE", {"AWS_CA_BUNDLE": "/nowhere", "AWS_ENDPOINT_URL": "https://localhost"}),
    ("endpoint URL", {"AWS_ENDPOINT_URL": "localhost:8000"}),
]


@pytest.mark.parametrize(
    ("initialization", "named", "variables"),
    sampled(
        3, ((kind, *failure) for kind, failure in zip(TYPES * 3, [*_FAILURES[:1] * 3, *_FAILURES[1:]], strict=False))
    ),
)
def test_what_fails_in_init_is_raised_by_the_first_lock(initialization, named, variables, engine, table, tmp_path):
    if "AWS_PROFILE" in variables:
        (tmp_path / "boto3.py").write_text("raise ModuleNotFoundError('No module named boto3', name='boto3')\n")
        variables = variables | {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, HANDLERS, ROOT)))}

    def error(initialization: str) -> str:
        environment = variables_of(initialization, "plain", engine.url, table) | variables
        with LambdaEnvironment("at_init.handler", HANDLERS, environment=environment) as function:
            first = function.invoke({"id": "1"}, SECONDS)
            with pytest.raises(FunctionError) as raised:
                first.result()
            assert first.pid is not None, "INIT failed"
            return str(raised.value)

    raised = error(initialization)
    assert raised.startswith("LockConfigurationError")
    assert named in raised
    assert raised == error("")
