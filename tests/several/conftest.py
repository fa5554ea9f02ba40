"""The clients and rows of tests/client, for several locks at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from lambda_lock import MultiLock
from tests.support import clients
from tests.support.clients import impatient, make, pytest_generate_tests, wired
from tests.support.elsewhere import start
from tests.support.fresh import fresh_process
from tests.support.rows import rows

__all__ = ["client", "fresh_process", "impatient", "make", "pytest_generate_tests", "rows", "start", "wired"]

client = clients.client


class _Keeping(clients.KeepingClient):
    """Keeps what acquire_all returns too."""

    def acquire_all(self, keys: Iterable[str], **options: Any) -> MultiLock:
        locks = super().acquire_all(keys, **options)
        self.kept.append(locks)  # type: ignore[arg-type]
        return locks


@pytest.fixture(autouse=True)
def keeping(monkeypatch: pytest.MonkeyPatch) -> type[_Keeping]:
    monkeypatch.setattr(clients, "KeepingClient", _Keeping)
    return _Keeping
