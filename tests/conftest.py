"""Fixtures for all tests: one engine for each process, a table of its own for each test that asks for one."""

import functools
import gc
import itertools
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from rig.engine import DynamoDBLocal, Engine, Ministack, client_environment
from rig.wire import Wire
from tests.support.fresh import clear_environment
from tests.support.rewriting import rewrite_once
from tests.support.signals import signals, signals_restored

# No test asserts time: a slow machine must not make a property fail. CI plays more examples, the same each time.
settings.register_profile(
    "untimed",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    max_examples=100 if "CI" in os.environ else 30,
)
settings.load_profile("untimed")

# The CDK checks each template against CloudFormation's rules: 4 s for the first one, and twice the time for each other.
# `make templates` turns that on.
os.environ.setdefault("CDK_VALIDATION", "false")

# A shell starts what runs in the background (CI, nohup) with these ignored, and programs of tests would inherit it.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)

# LAMBDA_LOCK_ENGINE says which engine the tests use; with DynamoDB Local only the tests that use one run.
_ENGINES: dict[str, Callable[[], Engine]] = {
    "ministack": functools.partial(Ministack, services=("dynamodb", "dynamodbstreams", "sqs")),
    "dynamodb-local": DynamoDBLocal,
}
_ENGINE = os.environ.get("LAMBDA_LOCK_ENGINE") or "ministack"

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    if _ENGINE not in _ENGINES:
        raise pytest.UsageError(f"LAMBDA_LOCK_ENGINE is {_ENGINE!r}, which is not one of {', '.join(_ENGINES)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not _runs_on_the_engine(item)])
    items[:] = filter(_runs_on_the_engine, items)
    group = _grouping(config)
    sizes = Counter(group(item.nodeid) for item in items)
    # The largest first, so that no worker begins a large one at the end.
    items.sort(key=lambda item: (_file(item.nodeid) != _FIRST, -sizes[group(item.nodeid)]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collection, which takes a fifth of the time: nearly all objects made here stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    _read_models_once()
    # The collector need not look again at some hundred thousand objects of modules, whenever a test collects.
    if sys.version_info < (3, 14):  # there Hypothesis finds no reference to its Random among frozen objects, and warns
        gc.freeze()


def pytest_unconfigure() -> None:
    """Close the socket that X-Ray's SDK opens when it is imported, as by Powertools, and never closes."""
    xray = sys.modules.get("aws_xray_sdk.core")
    if xray is not None:
        xray.xray_recorder.emitter._socket.close()


def _read_models_once() -> None:
    """Each session of boto3 reads the same megabyte of JSON, which is most of what it costs."""
    loaders = sys.modules.get("botocore.loaders")
    if loaders is not None:
        loaders.JSONFileLoader.load_file = staticmethod(functools.cache(loaders.JSONFileLoader().load_file))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    if len(specs) > 1:
        rewrite_once(config.args)


_FIRST = "tests/interop/test_contention.py"  # begun before others, because one of its tests waits for three minutes


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers get whole files (``--dist loadfile``), or test by test where each takes long (``--dist load``).

    So what the tests of a file share is made once, and tests that wait run beside those of other files, which may not.
    Groups of files go to one worker in any case. xdist's own groups (marks) do not work with pytest 9.2: xdist writes
    them where a node's id is read no more.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # they are sorted already
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = _grouping(config)
    return scheduling


def _grouping(config: pytest.Config) -> Callable[[str], str]:
    """How to find a test's group, by the test's id: the tests that one process runs."""
    if config.getoption("dist", "no") == "load":
        return lambda nodeid: _slow_to_start(nodeid) or nodeid
    return lambda nodeid: _slow_to_start(nodeid) or _file(nodeid)


def _slow_to_start(nodeid: str) -> str | None:
    """The group of a test that shares what is slow to start with those of other files."""
    folder = nodeid.split("/")[1]
    if folder in ("cdk", "infra"):
        return "cdk"  # Node
    if folder == "interop" and "java" in nodeid:
        return "java"  # a JVM
    if folder in ("event_sources", "permissions", "step_functions"):
        return folder  # an engine with functions, or with roles
    return None


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _runs_on_the_engine(item: pytest.Item) -> bool:
    if _ENGINE == "ministack":
        return item.get_closest_marker("dynamodb_local_only") is None
    if item.get_closest_marker("dynamodb_local_only"):
        return True
    return item.get_closest_marker("ministack_only") is None and "engine" in getattr(item, "fixturenames", ())


@pytest.fixture(autouse=True)
def signals_stay_as_they_were() -> Iterator[None]:
    """No test leaves signals blocked or ignored: programs of later tests of this worker would inherit that."""
    before = signals()
    with signals_restored():
        yield
        after = signals()
    assert after == before


@pytest.fixture
def face() -> str:
    """Whether a test's clients are of LockClient ("plain"), or of AsyncLockClient, with each call awaited."""
    return "plain"


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A running DynamoDB. Tests share it: each uses a table of its own."""
    with _ENGINES[_ENGINE]() as running:
        yield running


@pytest.fixture
def table(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a new, empty table; the environment of this process points at it, as a Lambda function's would."""
    clear_environment(monkeypatch)
    created = engine.create_table(f"locks-{next(_numbers)}")
    for name, value in (engine.environment() | {"LAMBDA_LOCK_TABLE": created}).items():
        monkeypatch.setenv(name, value)
    return created


@pytest.fixture
def new_table(engine: Engine) -> Callable[..., str]:
    """Creates a table, as `Engine.create_table` does, under a name that no other has."""

    def create(*keys: str, **options: str) -> str:
        return engine.create_table(f"table-{next(_numbers)}", *keys, **options)

    return create


@pytest.fixture
def wire(engine: Engine, table: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A proxy before the engine, at which requests are counted and faults injected. AWS_ENDPOINT_URL leads to it."""
    with Wire(engine.url) as proxy:
        for name, value in client_environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield proxy
