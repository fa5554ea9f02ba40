"""The conditions and effects of the five requests on the in-memory table, which others compare with a real engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock.core import requests
from lambda_lock.core.other_schemas import GO, PYTHON
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.requests import Completion, Content, Place, encode_data
from lambda_lock.core.row import Row, make_version
from lambda_lock.core.schema import JAVA
from lambda_lock.testing.table import Table

from .driver import refused

PLACE = Place("locks", JAVA, "key", "k", None, None)
E = 1_800_000_000_000


def version(expiry_ms: int = E, digit: str = "0") -> str:
    return make_version(expiry_ms, digit * 32)


def claim(place: Place = PLACE, *, content: Content | None = None, **changes: Any) -> requests.Request:
    granted: dict[str, Any] = {"owner": "me#1", "version": version(), "lease_ms": 10_000}
    granted |= {"expiry_ms": E, "seed_ms": 5000}
    names = ("observed", "only_if_exists", "event", "completed_until")
    options = {name: changes.pop(name) for name in names if name in changes}
    return requests.claim(place, requests.Grant(**(granted | changes)), content or Content(ttl=60), **options)


def renew(**changes: Any) -> requests.Request:
    granted: dict[str, Any] = {"owner": "me#1", "version": version(E + 1), "lease_ms": 10_000, "expiry_ms": E + 1}
    granted |= {name: changes.pop(name) for name in granted if name in changes}
    wanted: dict[str, Any] = {"token": 5001, "completed_until": None, "content": Content(ttl=60)}
    return requests.renew(PLACE, requests.Grant(**granted), **(wanted | changes))


def release(**changes: Any) -> requests.Request:
    content = Content(ttl=60)
    wanted: dict[str, Any] = {"owner": "me#1", "token": 5001, "delete": False, "expiry_ms": E, "content": content}
    return requests.release(PLACE, **(wanted | changes))


@pytest.fixture
def locks() -> Table:
    return Table()


def test_a_claim_of_nothing_writes_the_row(locks):
    item = locks.apply(*claim(content=Content(encode_data(b"hello"), attributes={"colour": {"S": "red"}}, ttl=60)))
    assert item == {
        "key": {"S": "k"},
        "ownerName": {"S": "me#1"},
        "recordVersionNumber": {"S": version()},
        "leaseDuration": {"S": "10000"},
        "fencingToken": {"N": "5001"},
        "ttl": {"N": str(E // 1000 + 60)},
        "data": {"B": "aGVsbG8="},
        "colour": {"S": "red"},
    }


def test_a_claim_of_a_held_row_is_refused_and_shows_it(locks):
    held = locks.apply(*claim())
    assert refused(locks, claim(owner="you#1", version=version(digit="1"))).item == held


def test_a_claim_of_a_released_row_keeps_the_data_and_raises_the_token(locks):
    locks.apply(*claim(content=Content(encode_data(b"kept"))))
    locks.apply(*release())
    item = locks.apply(*claim(owner="you#1", version=version(digit="1")))
    assert item["fencingToken"] == {"N": "5002"}
    assert item["data"] == {"B": encode_data(b"kept")}
    assert "isReleased" not in item


def test_data_that_must_not_be_replaced_is_written_only_where_there_is_none(locks):
    content = Content(encode_data(b"first"), replace_data=False)
    locks.apply(*claim(content=content))
    locks.apply(*release())
    item = locks.apply(*claim(content=Content(encode_data(b"second"), replace_data=False)))
    assert item["data"] == {"B": encode_data(b"first")}


def test_a_take_over_needs_the_version_observed(locks):
    locks.apply(*claim())
    refused(locks, claim(owner="you#1", version=version(digit="2"), observed=version(digit="1")))
    item = locks.apply(*claim(owner="you#1", version=version(digit="2"), observed=version()))
    assert item["ownerName"] == {"S": "you#1"}


def test_a_claim_of_what_must_exist_makes_no_row(locks):
    assert refused(locks, claim(only_if_exists=True)).item is None
    assert locks.items() == []


@pytest.mark.parametrize(
    "changes",
    [{"owner": "you#1"}, {"token": 5000}, {"version": version()}, {"version": version(E - 1)}],
    ids=["another's", "another token", "the same version", "an older version"],
)
def test_a_renewal_is_refused(locks, changes):
    held = locks.apply(*claim())
    refused(locks, renew(**changes))
    assert locks.get("k") == held


def test_a_renewal_of_a_released_or_deleted_row_is_refused(locks):
    locks.apply(*claim())
    locks.apply(*release())
    refused(locks, renew())
    locks.apply(*claim())
    locks.apply(*release(token=5002, delete=True))
    refused(locks, renew(token=5002))
    assert locks.items() == []


def test_a_renewal_changes_version_lease_ttl_and_data_alone(locks):
    before = locks.apply(*claim())
    locks.apply(*renew(lease_ms=20_000, content=Content(encode_data(b"new"), ttl=None)))
    after = locks.get("k")
    assert after == {
        **{name: value for name, value in before.items() if name != "ttl"},
        "recordVersionNumber": {"S": version(E + 1)},
        "leaseDuration": {"S": "20000"},
        "data": {"B": encode_data(b"new")},
    }
    locks.apply(*renew(version=version(E + 2), delete_data=True))
    assert "data" not in locks.get("k")


def test_a_release_keeps_the_version_and_is_carried_out_once(locks):
    locks.apply(*claim())
    locks.apply(*release())
    item = locks.get("k")
    assert item["isReleased"] == {"S": "1"}
    assert item["recordVersionNumber"] == {"S": version()}
    refused(locks, release())


def test_a_release_under_a_version_leaves_any_other_alone(locks):
    locks.apply(*claim())
    refused(locks, release(token=None, version=version(digit="1")))
    locks.apply(*release(token=None, version=version()))


def test_python_rows_are_deleted_on_release_and_always_have_a_ttl():
    locks = Table("lock_key", "sort_key")
    place = Place("locks", PYTHON, "lock_key", "k", "sort_key", "-")
    item = locks.apply(*claim(place, content=Content()))
    assert item is not None
    assert item["expiry_time"] == {"N": str(E // 1000 + 3600)}
    assert item["lease_duration"] == {"N": "10"}
    locks.apply(*requests.release(place, owner="me#1", token=5001, delete=False, expiry_ms=E, content=Content()))
    assert locks.items() == []


def test_the_ttl_is_the_later_of_expiry_and_completion_and_never_early(locks):
    locks.apply(*claim(expiry_ms=E + 1))
    assert locks.get("k")["ttl"] == {"N": str(E // 1000 + 1 + 60)}
    locks.apply(*renew(version=version(E + 2), completed_until=E // 1000 + 500))
    assert locks.get("k")["ttl"] == {"N": str(E // 1000 + 560)}


@given(st.sampled_from([JAVA, GO, PYTHON]), st.binary(max_size=20), st.booleans())
def test_what_a_claim_writes_is_read_back(schema, data, replace):
    locks = Table("key", "sort")
    place = Place("locks", schema, "key", "k", "sort", "s")
    item = locks.apply(*claim(place, content=Content(encode_data(data), replace_data=replace)))
    assert item is not None
    row = Row(item, schema)
    assert (row.owner, row.version, row.expiry_ms, row.lease_ms, row.token) == ("me#1", version(), E, 10_000, 5001)
    assert not row.is_free


# -- events: DONE is the time at which a completion ends

DONE = E // 1000 + 500


def completed(locks: Table, until: int = DONE, result: str | None = '"paid"') -> None:
    """Leave a row with a completed event."""
    locks.apply(*claim(event=True))
    locks.apply(*release(completion=Completion(until, result)))


def test_a_completion_is_written_by_the_release_with_the_result_and_a_ttl_after_it(locks):
    before = locks.apply(*claim(event=True))
    locks.apply(*release(completion=Completion(DONE, '"paid"')))
    assert locks.get("k") == {
        **before,
        "isReleased": {"S": "1"},
        "completedUntil": {"N": str(DONE)},
        "result": {"S": '"paid"'},
        "ttl": {"N": str(DONE + 60)},
    }


def test_a_completion_without_a_result_leaves_none_of_an_earlier_one(locks):
    completed(locks)
    locks.apply(*claim(event=True, completed_until=DONE, version=version(digit="1")))
    locks.apply(*release(token=5002, completion=Completion(DONE + 1000, None)))
    item = locks.get("k")
    assert "result" not in item
    assert item["completedUntil"] == {"N": str(DONE + 1000)}


def test_a_release_of_a_failed_event_completes_nothing_and_the_next_delivery_may_claim_it(locks):
    locks.apply(*claim(event=True))
    locks.apply(*release())
    refused(locks, release(completion=Completion(DONE, None)))  # what was released is not completed any more
    assert "completedUntil" not in locks.get("k")
    locks.apply(*claim(event=True, version=version(digit="1")))


@pytest.mark.parametrize("changes", [{"owner": "you#1"}, {"token": 5000}], ids=["another's", "another token"])
def test_a_late_owner_neither_completes_nor_releases_what_another_owns(locks, changes):
    held = locks.apply(*claim(event=True))
    refused(locks, release(completion=Completion(DONE, None), **changes))
    assert locks.get("k") == held


@pytest.mark.parametrize("seen", [None, DONE - 1, DONE + 1], ids=["none", "an earlier one", "a later one"])
def test_an_event_is_claimed_only_as_completed_as_it_was_seen(locks, seen):
    completed(locks)
    assert refused(locks, claim(event=True, completed_until=seen, version=version(digit="1"))).item == locks.get("k")
    locks.apply(*claim(event=True, completed_until=DONE, version=version(digit="1")))


def test_an_event_that_was_seen_completed_is_not_claimed_where_that_is_gone(locks):
    refused(locks, claim(event=True, completed_until=DONE))


def test_a_late_take_over_of_an_event_does_not_undo_its_completion_which_kept_the_version(locks):
    completed(locks)
    late: dict[str, Any] = {"owner": "you#1", "version": version(digit="2"), "observed": version()}
    refused(locks, claim(event=True, **late))
    locks.apply(*claim(**late))  # a plain lock's: it requires only the version


def test_a_plain_lock_on_an_event_s_row_leaves_completion_and_result_alone(locks):
    completed(locks)
    locks.apply(*claim(owner="you#1", version=version(digit="1")))
    locks.apply(*release(owner="you#1", token=5002, completed_until=DONE))
    item = locks.get("k")
    assert (item["completedUntil"], item["result"], item["ttl"]) == (
        {"N": str(DONE)},
        {"S": '"paid"'},
        {"N": str(DONE + 60)},
    )


def test_a_claim_of_an_event_keeps_its_ttl_behind_the_completion_that_it_saw(locks):
    completed(locks)
    item = locks.apply(*claim(event=True, completed_until=DONE, version=version(digit="1")))
    assert item["ttl"] == {"N": str(DONE + 60)}


# -- the table itself


@pytest.mark.parametrize(
    ("operation", "request_"),
    [("Query", {}), ("GetItem", {"ProjectionExpression": "a"}), ("UpdateItem", {"ReturnValues": "UPDATED_NEW"})],
)
def test_what_the_table_does_not_do_is_a_clear_error(operation, request_):
    with pytest.raises(NotImplementedError):
        Table().apply(operation, {"Key": PLACE.item_key, **request_})


@pytest.mark.parametrize("key", [{}, {"key": {"S": ""}}, {"key": {"S": "k"}, "more": {"S": "k"}}])
def test_what_is_no_key_of_the_table_is_refused(key):
    with pytest.raises(ServiceError):
        Table().apply("GetItem", {"Key": key})


WRONG_CONDITIONS = ["size(a, b)", "a = b c", "a = :b"]
WRONG_UPDATES = ["SET a[0] = b", "ADD a b", "REMOVE a, a", "REMOVE key", "REMOVE a.b", "REMOVE a.b, a"]
WRONG_UPDATES += ["SET a = a.b", "SET a = b"]


@pytest.mark.parametrize(
    "request_",
    [
        *({"ConditionExpression": condition} for condition in WRONG_CONDITIONS),
        *({"UpdateExpression": update} for update in WRONG_UPDATES),
        {"ExpressionAttributeNames": {"#a": "a"}},
    ],
)
def test_what_is_no_expression_is_refused(request_):
    with pytest.raises(ServiceError):
        Table().apply("UpdateItem", {"Key": PLACE.item_key, **request_})
