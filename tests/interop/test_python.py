"""Only python-dynamodb-lock always has a sort key and an expiry time, and deletes the row on release."""

from __future__ import annotations

import time

import pytest

from lambda_lock import PYTHON

from .peers import PYTHON_CLIENT
from .test_sharing import TRY, take

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kind", [PYTHON_CLIENT], ids=str, indirect=True)]


def test_our_rows_have_the_expiry_time_that_it_cannot_do_without_even_where_ttl_is_none(client, peer, rows):
    with client.acquire("k"):
        assert int(rows["k"]["expiry_time"]["N"]) >= time.time() + 3600
        assert "error" not in peer.ask("read", key="k")


def test_rows_of_the_python_client_go_when_we_release_them_as_when_it_does(client, peer, rows):
    take(peer)
    peer.ask("release", key="k")
    assert rows.get("k") is None
    client.acquire("k", wait=0).release()
    assert rows.get("k") is None


def test_leases_are_written_in_whole_seconds_rounded_down(shared, make, peer, rows):
    with make(shared, PYTHON, lease_duration=2.9).acquire("k") as lock:
        assert lock.lease_duration == 2
        assert peer.ask("read", key="k")["lease"] == 2


def test_a_sort_key_under_another_name_is_shared_one_by_one(kind, make_table, make, start):
    table = make_table(PYTHON, sort_key="part")
    peer = start(kind, table, sort_key_name="part")
    client = make(table, PYTHON, sort_key_name="part")
    take(peer, sort_key="1")
    assert client.try_acquire("k", sort_key="1") is None
    with client.acquire("k", wait=0):
        assert peer.ask("acquire", key="k", **TRY)["error"] == "ACQUIRE_TIMEOUT"
