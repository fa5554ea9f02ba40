"""Each test begins as a fresh process does: outside Lambda, no invocation seen."""

from __future__ import annotations

import pytest

from tests.support.fresh import clear_environment, forget_invocations


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_environment(monkeypatch)
    forget_invocations(monkeypatch)
