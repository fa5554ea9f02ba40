"""Only python-dynamodb-lock always has a sort key and an expiry time, and deletes the row on release."""

import time

import pytest

from lambda_lock import PYTHON

from .peers import PYTHON_CLIENT

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kind", [PYTHON_CLIENT], ids=str, indirect=True)]


def test_our_rows_have_the_expiry_time_that_it_cannot_do_without_even_where_ttl_is_none(client, peer, rows):
    with client.acquire("k"):
        assert int(rows["k"]["expiry_time"]["N"]) >= time.time() + 3600
        assert "error" not in peer.ask("read", key="k")


def test_leases_are_written_in_whole_seconds_rounded_down(shared, make, peer, rows):
    with make(shared, PYTHON, lease_duration=2.9).acquire("k") as lock:
        assert lock.lease_duration == 2
        assert peer.ask("read", key="k")["lease"] == 2
