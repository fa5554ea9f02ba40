"""Rows that no client of ours wrote: an error that names row and remedy, and never a loop or a grant."""

import time
from typing import Any

import pytest

from lambda_lock.errors import LockFormatError
from tests.support.waiting import wait_until

from .test_listing import held_row

HANDFUL = 8  # requests

BAD_TOKENS = [{"S": "7"}, {"N": "7.5"}, {"N": "9" * 38}, {"N": "1E+40"}, {"BOOL": True}, {"SS": ["7"]}]
HIGHEST = {"S": f"L1:9999999999999:{'f' * 32}"}  # a version


@pytest.mark.parametrize("token", BAD_TOKENS, ids=str)
@pytest.mark.parametrize("state", ["new", "released", "dead"])
@pytest.mark.parametrize("replace", [False, True])
def test_a_free_lock_whose_token_cannot_be_counted_on_is_not_granted(token, state, replace, wire, wired, rows):
    if state == "new":
        rows.put("a", fencingToken=token)
    elif state == "released":
        rows.put("a", **held_row(fencingToken=token, isReleased={"S": "1"}))
    else:
        rows.put_held("a", expires_at=time.time() - 10)
        rows.change("a", fencingToken=token)
    with pytest.raises(LockFormatError, match=r"'a' has a fencingToken.*[Dd]elete the row") as caught:
        wired.acquire("a", wait=0, replace=replace)
    assert caught.value.key == "a"
    assert len(wire.requests) <= 3
    assert "isReleased" in rows["a"] or state != "released"
    assert rows["a"].get("ownerName") in (None, {"S": "somebody#1"}) or "isReleased" in rows["a"]


@pytest.mark.parametrize("lease", ["0", "-1", "9" * 400, "20s"])
def test_a_held_row_with_a_lease_of_nothing_is_not_taken(lease, wire, wired, rows):
    rows.put("a", **held_row(leaseDuration={"S": lease}))
    with pytest.raises(LockFormatError, match="leaseDuration"):
        wired.acquire("a", wait=0)
    assert rows["a"]["ownerName"] == {"S": "somebody#1"}
    assert wire.count() == 1


def test_a_lock_whose_version_none_can_be_above_is_lost_and_starves_no_other(wire, wired, rows):
    told: list[Any] = []
    lock = wired.acquire("a", lease_duration=4, on_lost=told.append)
    other = wired.acquire("b", lease_duration=4)
    rows.change("a", recordVersionNumber=HIGHEST)
    wire.clear()
    wait_until(lambda: told)
    assert lock.lost
    assert len([request for request in wire.requests if request.body["Key"] == {"key": {"S": "a"}}]) <= HANDFUL
    renewed = other.version
    wait_until(lambda: other.version != renewed)
    assert other.is_held
