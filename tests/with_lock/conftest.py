"""Each test begins as a fresh process does: outside Lambda, no invocation seen."""

from __future__ import annotations

import os

import pytest

from lambda_lock import invocation


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "LAMBDA_LOCK_", "_X_AMZN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(invocation, "_latest", None)
    monkeypatch.setattr(invocation, "_registered", None)
    monkeypatch.setattr(invocation, "_warned", False)
