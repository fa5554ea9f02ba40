"""What tests of decorated functions share: a process that has seen nothing, somebody else, an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lambda_lock import LockClient, default_client, set_default_client

from .fresh import forget_invocations


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outside Lambda, no invocation seen, no default client."""
    forget_invocations(monkeypatch)
    set_default_client(None)
    yield
    default_client().close(release=False)
    set_default_client(None)


@pytest.fixture
def other(table: str) -> Iterator[LockClient]:
    """Another client of the same table, with nothing to do with the decorators'."""
    client = LockClient(table, owner_prefix="other")
    yield client
    client.close(release=False)  # the wire that its requests went over may be gone


class Boom(Exception):
    pass
