"""Whatever a server answers, each operation ends within its bound, with a result or a documented error."""

from pathlib import Path

import pytest

from lambda_lock import LockClient, TransportError
from lambda_lock.client import listing
from lambda_lock.transport import Credentials, HttpsTransport
from rig.engine import ROOT
from tests.support.saying import Saying

from . import bounds
from .liar import KINDS, Answer
from .operations import OPERATIONS
from .play import MOST_TAKEN, Play, drawn, perform
from .scene import Script

pytestmark = pytest.mark.filterwarnings("ignore:the handle of lock:ResourceWarning")  # operations leave it held

PAGE = Path(ROOT, "docs", "safety-bounds.md")


@pytest.mark.parametrize(
    "seeds",
    [
        *(range(at, at + 25) for at in range(0, 100, 25)),
        *(pytest.param(range(at, at + 400), marks=pytest.mark.prove) for at in range(10_000, 14_000, 400)),
    ],
    ids=str,
)
def test_operations_end_within_their_bounds_whatever_is_answered(seeds, server):
    for seed in seeds:
        outcome = perform(drawn(seed), server)
        assert not outcome.failure, f"python -m tests.fuzzing --play {seed}: {drawn(seed)}\n{outcome.failure}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_throttle_for_ever_ends_each_operation(name, server):
    for kind in ("throttled", "unheard"):
        outcome = perform(Play(name, Script((Answer(kind, 0),), None, (0.0, 0.5))), server)
        assert not outcome.failure
        assert not outcome.double_holders


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if not operation.sync_only])
def test_each_operation_succeeds_on_an_honest_server(name, server):
    outcome = perform(Play(name, Script()), server)
    assert not outcome.failure
    assert outcome.error in ("", "LockLostError", "LockNotGrantedError", "RateLimitedError")


@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_can_be_sent(kind, server):
    outcome = perform(Play("acquire a held row", Script((Answer(kind, 7),), 2)), server)
    assert not outcome.failure


@pytest.mark.parametrize("kind", ["endless chunks", "endless head", "too long"])
def test_no_answer_is_read_beyond_a_limit(kind, server):
    transport = HttpsTransport("eu-west-1", f"http://127.0.0.1:{server.port}", Credentials("AKIA", "secret"))
    server.next, server.most_sent = Answer(kind, 0), 0
    with pytest.raises(TransportError, match=r"more than|Content-Length"):
        transport.send("Scan", {"TableName": "locks"}, timeout=60)
    transport.close()
    assert server.most_sent <= MOST_TAKEN


@pytest.mark.parametrize(
    ("circle", "says", "pages"),
    [*((circle, "next page", 3 * circle + 1) for circle in (1, 2, 3, 7)), (10**9, "more than 50 pages", 50)],
)
def test_a_list_ends_whose_pages_lead_in_a_circle_or_have_no_end(circle, says, pages, monkeypatch):
    monkeypatch.setattr(listing, "MOST_PAGES", 50)
    table = Saying(*({"Items": [], "LastEvaluatedKey": {"key": {"S": str(at % circle)}}} for at in range(100)))
    with pytest.raises(TransportError, match=says):
        list(LockClient("locks", transport=table).list())
    assert len(table.requests) <= pages


def test_the_page_shows_the_bounds():
    found = [(name, bound(bounds.AVERAGE), bound(0.0)) for name, bound in bounds.SHOWN.items()]
    assert [line for line in PAGE.read_text().splitlines() if line.startswith("| `")] == [
        f"| `{name}` | {usual.requests:,} | {unlucky.requests:,} | {usual.seconds:.1f} |"
        for name, usual, unlucky in found
    ]
