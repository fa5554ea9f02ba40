"""Each test begins as a fresh process does: outside Lambda, no invocation seen."""

from __future__ import annotations

import pytest

from lambda_lock import with_lock
from tests.support.decorated import Decorator, as_async, other
from tests.support.fresh import clear_environment, forget_invocations

__all__ = ["other"]

Locked = Decorator


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_environment(monkeypatch)
    forget_invocations(monkeypatch)


@pytest.fixture(params=["def", "async def"])
def locked(request: pytest.FixtureRequest) -> Locked:
    """@with_lock for a plain function, or for an async def function that does the same. Neither needs an await."""
    return with_lock if request.param == "def" else as_async(with_lock)
