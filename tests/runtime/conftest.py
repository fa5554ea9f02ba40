"""Lambda environments whose functions lock on the real engine, over the wire."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.engine import Ministack, client_environment
from rig.lambda_runtime import Invocation, LambdaEnvironment
from rig.managed_instances import ManagedInstance
from rig.wire import Wire
from tests.support.rows import rows

__all__ = ["rows"]

HANDLERS = Path(__file__).parent / "handlers"
LONG = 60.0  # a timeout that no test reaches
Start = Callable[..., LambdaEnvironment]


@pytest.fixture
def start(engine: Ministack, table: str, wire: Wire) -> Iterator[Start]:
    """Starts environments of handlers/locking.py; LAMBDA_LOCK_TABLE and the endpoint are set, to the wire."""
    environments: list[LambdaEnvironment] = []

    def make(handler: str = "locking.handler", *, lease: float = 20, **options: Any) -> LambdaEnvironment:
        variables = client_environment(wire.url) | {"LAMBDA_LOCK_TABLE": table, "LEASE": str(lease)}
        variables |= options.pop("environment", {})
        environments.append(LambdaEnvironment(handler, HANDLERS, environment=variables, **options))
        return environments[-1]

    yield make
    for environment in environments:
        environment.close()


@pytest.fixture
def go_on(tmp_path: Path) -> Path:
    """The file for which handlers wait."""
    return tmp_path / "go-on"


def holding(
    where: LambdaEnvironment | ManagedInstance, go_on: Path, seconds: float = LONG, request_id: str = "r-1", of: int = 1
) -> Invocation:
    """An invocation that has the lock of its order, and keeps it until it may go on."""
    invocation = where.invoke({"id": of, "until": str(go_on)}, seconds, request_id=request_id)
    where.wait_for_line(f"holding {request_id}")
    return invocation
