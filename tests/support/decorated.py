"""Shared by tests of decorated functions: a fresh process, another client, and an error to raise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lambda_lock import LockClient, default_client, set_default_client

from .fresh import forget_invocations


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process outside Lambda that has seen no invocation and has no default client."""
    forget_invocations(monkeypatch)
    set_default_client(None)
    yield
    default_client().close(release=False)
    set_default_client(None)


@pytest.fixture
def other(table: str) -> Iterator[LockClient]:
    """Another client of the same table, independent of the decorators' client."""
    client = LockClient(table, owner_prefix="other")
    yield client
    client.close(release=False)  # not with a release: the wire for its requests may be gone


class Boom(Exception):
    pass
