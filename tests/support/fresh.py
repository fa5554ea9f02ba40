"""A fresh process: without settings from the environment, and without traces of earlier tests."""

import os

import pytest

from lambda_lock.runtime import invocation


def clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all variables of AWS, Lambda and lambda_lock, except the one that names the engine's program."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "LAMBDA_LOCK_", "_X_AMZN_"))]:
        if name != "LAMBDA_LOCK_ENGINE_BIN":
            monkeypatch.delenv(name)


def forget_invocations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "_latest", None)
    monkeypatch.setattr(invocation, "_registered", None)
    monkeypatch.setattr(invocation, "_warned", False)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process outside Lambda that has seen no invocation."""
    forget_invocations(monkeypatch)
