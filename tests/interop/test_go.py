"""Only the Go client (here its stand-in) carries every attribute along, and may set one back to an older value."""

import pytest

from lambda_lock import GO
from rig.wire import Wire
from tests.support.waiting import DEADLINE

from .peers import GO_STAND_IN
from .test_sharing import take

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kind", [GO_STAND_IN], ids=str, indirect=True)]


def test_tokens_rise_over_its_holds_because_it_carries_them_along(client, peer, rows):
    first = client.acquire("k")
    first.release()
    take(peer)
    assert rows["k"]["fencingToken"] == {"N": str(first.fencing_token)}
    peer.ask("release", key="k")
    with client.acquire("k", wait=0) as second:
        assert second.fencing_token == first.fencing_token + 1


def test_a_waiting_one_may_turn_a_token_back_and_our_claim_works_all_the_same(
    client, kind, shared, start, engine, rows
):
    """It writes the attributes that its first poll saw. So tokens need not rise if it holds the lock in between."""
    with Wire(engine.url) as wire:
        peer = start(kind, shared, endpoint=wire.url)
        first = client.acquire("k")
        polled = wire.delay_reply("GetItem", seconds=0)
        peer.tell("acquire", key="k", wait=DEADLINE, refresh=2.0)
        assert polled.finished.wait(DEADLINE)
        first.release()
        between = client.acquire("k", wait=0)
        assert between.fencing_token == first.fencing_token + 1
        between.release()
        assert peer.answer().get("granted")
        assert rows["k"]["fencingToken"] == {"N": str(first.fencing_token)}
        peer.ask("release", key="k")
    with client.acquire("k", wait=0) as again:
        assert again.fencing_token == first.fencing_token + 1
        assert client.try_acquire("k") is None


@pytest.mark.parametrize(("lease", "written"), [(1.5, "1500ms"), (2, "2s"), (90, "90s")])
def test_leases_are_written_as_durations_that_it_reads(shared, make, peer, rows, lease, written):
    with make(shared, GO, lease_duration=lease).acquire("k"):
        assert rows["k"]["leaseDuration"] == {"S": written}
        assert peer.ask("read", key="k")["lease"] == lease
