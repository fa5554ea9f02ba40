"""A process as it begins: nothing of it was set by the environment or seen by an earlier test."""

from __future__ import annotations

import os

import pytest

from lambda_lock.runtime import invocation


def clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of AWS, Lambda and lambda_lock is in the environment, but for where the engine's program is."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "LAMBDA_LOCK_", "_X_AMZN_"))]:
        if name != "LAMBDA_LOCK_ENGINE_BIN":
            monkeypatch.delenv(name)


def forget_invocations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "_latest", None)
    monkeypatch.setattr(invocation, "_registered", None)
    monkeypatch.setattr(invocation, "_warned", False)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside Lambda, no invocation seen."""
    forget_invocations(monkeypatch)
