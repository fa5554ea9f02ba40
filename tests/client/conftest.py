"""Clients on the real engine, and its rows, read without a client."""

from rig.wire import Request, Wire
from tests.support.clients import client, impatient, make, pytest_generate_tests, wired
from tests.support.elsewhere import start
from tests.support.fresh import fresh_process
from tests.support.rows import rows

__all__ = ["client", "fresh_process", "impatient", "make", "pytest_generate_tests", "rows", "start", "wired"]


def written(request: Request) -> set[str]:
    """The strings and numbers that a request writes or compares."""
    values = request.body.get("ExpressionAttributeValues", {})
    return {text for value in values.values() for text in value.values() if isinstance(text, str)}


def versions(wire: Wire) -> list[str]:
    """The versions of ours in the requests seen, in their order; one for each request that has any."""
    found = [sorted(text for text in written(request) if text.startswith("L1:")) for request in wire.requests]
    return [texts[-1] for texts in found if texts]
