"""These tests run outside Lambda and without environment variables, so only the memory can answer."""

from collections.abc import Iterator

import pytest

from lambda_lock import set_default_client
from tests.support.fresh import clear_environment, forget_invocations


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    clear_environment(monkeypatch)
    forget_invocations(monkeypatch)
    set_default_client(None)
    yield
    set_default_client(None)
