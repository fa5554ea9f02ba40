"""Mistakes that are planted, so that the fuzzing is known to see some: each must fail in a few plays or inputs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from lambda_lock import LockError
from lambda_lock.batch import source
from lambda_lock.core import lease

from .liar import Liar
from .operations import OPERATIONS
from .play import Play, perform, shrunk
from .scene import scripted
from .targets import TARGETS

pytestmark = [pytest.mark.prove, pytest.mark.filterwarnings("ignore:the handle of lock:ResourceWarning")]

MOST_PLAYS = 300
_validity = lease.validity
_records_of = source.records_of


def _next(self: Any, request: dict[str, Any], last: Any) -> dict[str, Any] | None:
    match last:
        case {"key": {"S": str()}}:  # anything else would end the server's thread
            return {**request, "ExclusiveStartKey": last}
    return None


def _unchecked(event: Any, source: Any) -> Any:
    found = event.get("Records") if isinstance(event, dict) else None
    return found if isinstance(found, list) else _records_of(event, source)


def _patch(name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch(f"lambda_lock.{name}", value)


# By what is wrong: the mistake, the operation that shows it, the reason that is given, and what is answered.
PLAYED: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str, str, tuple[str, ...]]] = {
    "an acquire writes as long as rows contradict it": (
        _patch("core.acquire.STEPS", 10**6),
        "acquire",
        "no bound",
        ("contradiction",),
    ),
    "a renewal goes above what is shown for ever": (
        _patch("core.keep.STEPS", 10**6),
        "heartbeat",
        "no bound",
        ("overtaken",),
    ),
    "a resume follows each name that is shown": (
        _patch("core.resume.STEPS", 10**6),
        "release by string",
        "no bound",
        ("overtaken",),
    ),
    "a decision takes a minute": (
        _patch("core.keep.DECISION", 60.0),
        "release",
        "no bound",
        ("throttled", "lost reply"),
    ),
    "a list follows its pages for ever": (_patch("client.record.Pages._next", _next), "list", "no bound", ("pages",)),
    "answers are not checked": (
        _patch("runtime.drive._answers", lambda *_: True),
        "get",
        "undocumented",
        ("any reasons", "any JSON"),
    ),
    "a status line may have no status": (
        _patch("transport.http1._STATUS", re.compile(rb"HTTP/1\.([01]) ?(\d*).*|.*")),
        "get",
        "undocumented",
        ("first line", "flipped"),
    ),
    "a head is not checked for its grammar": (
        _patch("transport.http1._fields", lambda lines: dict(line.decode().lower().split(": ") for line in lines)),
        "prewarm",
        "undocumented",
        ("first line", "flipped", "chunked nonsense"),
    ),
    "validity outlasts the lease": (
        _patch("core.lease.validity", lambda *args: _validity(*args) + 15.0),
        "acquire",
        "two holders",
        ("throttled", "lost reply", "cut"),
    ),
}
# By what is wrong: the mistake, and the target that shows it.
FED: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "the fields of a string are not checked": (
        _patch("core.handover._checked", lambda fields: fields),
        "hand-over strings",
    ),
    "a lease may have any digits": (
        _patch("core.schema._LEASE_FORMATS", {"ms": lambda value: int(value["S"])}),
        "rows",
    ),
    "a record is not checked": (_patch("batch.process.records_of", _unchecked), "batches"),
}


@pytest.mark.parametrize("name", PLAYED)
def test_a_mistake_is_seen_by_plays_and_shrunk(name: str, server: Liar) -> None:
    plant, operation, reason, kinds = PLAYED[name]
    assert operation in OPERATIONS
    with plant():
        for seed in range(MOST_PLAYS):
            play = Play(operation, scripted(random.Random(seed), kinds))
            outcome = perform(play, server)
            if outcome.failure:
                break
        assert outcome.failure.startswith(reason), f"after {seed + 1} plays: {outcome}"
        least = shrunk(play, outcome, server)
        print(f"{name}: after {seed + 1} plays: {outcome.reason}; {least}")
        assert perform(least, server).failure
    assert not perform(least, server).failure


@pytest.mark.parametrize("name", FED)
def test_a_mistake_is_seen_by_inputs(name: str) -> None:
    plant, fed = FED[name]
    with plant(), pytest.raises(Exception) as caught:  # noqa: PT011  # whatever is not documented
        TARGETS[fed].draw(1, examples=300)
    assert not isinstance(caught.value, LockError)
    print(f"{name}: {caught.value!r:.200}")
