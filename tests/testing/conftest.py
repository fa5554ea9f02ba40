"""Outside Lambda, without any environment: nothing but the memory is there to answer."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lambda_lock import invocation, set_default_client


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith(("AWS_", "LAMBDA_LOCK_"))]:
        if name != "LAMBDA_LOCK_ENGINE_BIN":
            monkeypatch.delenv(name)
    monkeypatch.setattr(invocation, "_latest", None)
    monkeypatch.setattr(invocation, "_registered", None)
    set_default_client(None)
    yield
    set_default_client(None)
