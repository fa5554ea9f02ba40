"""What tests of decorated functions share: a process that has seen nothing, somebody else, a context, an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lambda_lock import LockClient, default_client, invocation, set_default_client


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outside Lambda, no invocation seen, no default client."""
    monkeypatch.setattr(invocation, "_latest", None)
    monkeypatch.setattr(invocation, "_registered", None)
    monkeypatch.setattr(invocation, "_warned", False)
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


class Context:
    """A Lambda context with so many seconds left."""

    function_name = "orders"
    aws_request_id = "request-1"

    def __init__(self, remaining: float = 60.0) -> None:
        self.remaining = remaining

    def get_remaining_time_in_millis(self) -> int:
        return int(self.remaining * 1000)


class Boom(Exception):
    pass
