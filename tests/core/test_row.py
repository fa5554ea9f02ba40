"""Rows and schemas: what is read, refused and written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock.core.other_schemas import GO, PYTHON
from lambda_lock.core.row import Row, expiry_of, make_version, read_row
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import LockArgumentError, LockFormatError

NONCE = "0123456789abcdef" * 2
expiries = st.integers(min_value=0, max_value=9_999_999_999_999)
nonces = st.text("0123456789abcdef", min_size=32, max_size=32)


@given(expiries, nonces)
def test_a_version_carries_its_expiry(expiry, nonce):
    assert expiry_of(make_version(expiry, nonce)) == expiry


@given(expiries, nonces, expiries, nonces)
def test_versions_sort_by_expiry_as_strings(one, nonce, other, other_nonce):
    if one < other:
        assert make_version(one, nonce) < make_version(other, other_nonce)


@pytest.mark.parametrize(
    "version",
    [
        "",
        "6f1c6b1e-8d2b-4a0e-9f0e-0c7a2d0d4a11",
        "1795223051234567890:K5QXAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        f"L2:1800000000000:{NONCE}",
        f"L1:180000000000:{NONCE}",
        f"L1:18000000000000:{NONCE}",
        f"L1:180000000000x:{NONCE}",
        f"L1:-80000000000 :{NONCE}",
        f"L1:1800000000000;{NONCE}",
        f"L1:1800000000000:{NONCE[:-1]}",
        f"L1:1800000000000:{NONCE[:-1]}G",
        f"L1:1800000000000:{NONCE.upper()}",
        f"l1:1800000000000:{NONCE}",
        f" L1:1800000000000:{NONCE}",
        "L1:\u0661800000000000:" + NONCE,
    ],
)
def test_a_version_that_is_not_ours_has_no_expiry(version):
    assert expiry_of(version) is None


@given(st.text(max_size=60))
def test_no_text_breaks_the_reading_of_a_version(version):
    expiry = expiry_of(version)
    assert expiry is None or version.startswith(f"L1:{expiry:013d}:")


@given(st.integers(min_value=1000, max_value=10**10), st.sampled_from([JAVA, GO, PYTHON]))
def test_a_lease_is_read_as_it_was_written(lease_ms, schema):
    rounded = schema.round_lease(lease_ms)
    assert lease_ms - 1000 < rounded <= lease_ms
    assert schema.read_lease(schema.write_lease(rounded)) == rounded


@pytest.mark.parametrize(
    ("text", "lease_ms"),
    [
        *(("20s", 20_000), ("1m30s", 90_000), ("2h0m0s", 7_200_000), ("500ms", 500), ("1.5s", 1500), (".5s", 500)),
        *(("1h1m1.001s", 3_661_001), ("1ns", 1), ("1500us", 2), ("1500\u00b5s", 2)),
    ],
)
def test_go_durations_are_read_and_rounded_up(text, lease_ms):
    assert GO.read_lease({"S": text}) == lease_ms


NO_DURATION = ["", "20000", "0", "-5s", "5 s", "s", "1.2.3s", "5d", "5sm", "1m30", "."]
OF_NOTHING = ["0s", "0h0m0s", "0.0s"]
BEYOND_ALL_BOUNDS = ["9" * 400 + "s", "9" * 5000 + "h"]


@pytest.mark.parametrize("text", [*NO_DURATION, *OF_NOTHING, *BEYOND_ALL_BOUNDS])
def test_a_go_duration_that_cannot_be_read_is_none(text):
    assert GO.read_lease({"S": text}) is None


JAVA_LEASES = ["20s", "", "2000.5", "-1", "\u0662", "0", "00", "9" * 20, "9" * 400, "9" * 5000]
PYTHON_LEASES = ["-1", "1E13", "0", "-0", "-5", "0E+5", "1E+400", "9" * 400, "NaN", "Infinity"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *((JAVA, {"S": text}) for text in JAVA_LEASES),
        *((PYTHON, {"N": number}) for number in PYTHON_LEASES),
        *((JAVA, {"N": "20000"}), (PYTHON, {"S": "20"}), (JAVA, None), (PYTHON, None)),
    ],
)
def test_a_lease_that_cannot_be_read_is_none(schema, value):
    assert schema.read_lease(value) is None


@given(st.text(alphabet="0123456789.hmsnu\u00b5-+ e", max_size=20))
def test_no_text_breaks_the_reading_of_a_lease(text):
    for schema in (JAVA, GO):
        lease_ms = schema.read_lease({"S": text})
        assert lease_ms is None or lease_ms >= 0


def row(**attributes: Any) -> Row:
    return Row({"key": {"S": "k"}, **attributes}, JAVA)


def test_an_item_without_a_version_is_free():
    assert row().is_free
    assert row(ownerName={"S": "someone"}).is_free


def test_a_row_with_a_version_is_held_until_it_is_released():
    version = {"S": make_version(1_800_000_000_000, NONCE)}
    assert not row(recordVersionNumber=version).is_free
    assert row(recordVersionNumber=version, isReleased={"S": "1"}).is_free


@pytest.mark.parametrize("value", [{"S": "0"}, {"S": ""}, {"N": "1"}, {"BOOL": True}])
def test_released_is_nothing_but_the_string_1(value):
    assert not row(recordVersionNumber={"S": "v"}, isReleased=value).is_free


def test_a_row_of_the_python_schema_is_never_released():
    item = {"record_version_number": {"S": "v"}, "isReleased": {"S": "1"}}
    assert not Row(item, PYTHON).is_free


def test_a_lease_that_cannot_be_read_is_an_error_that_names_row_holder_and_value():
    held = row(recordVersionNumber={"S": "v"}, ownerName={"S": "go-7"}, leaseDuration={"S": "20s"})
    with pytest.raises(LockFormatError, match=r"'orders'.*'go-7'.*leaseDuration.*20s") as caught:
        held.require_lease("orders")
    assert caught.value.key == "orders"


def test_a_version_that_is_not_a_string_is_an_error_that_names_the_row():
    with pytest.raises(LockFormatError, match=r"'orders'.*recordVersionNumber"):
        read_row({"key": {"S": "orders"}, "recordVersionNumber": {"N": "1"}}, JAVA, "orders")


@pytest.mark.parametrize("item", [None, {}])
def test_no_item_is_no_row(item):
    assert read_row(item, JAVA, "k") is None


@pytest.mark.parametrize(("number", "token"), [("7", 7), ("1800000000001", 1800000000001), ("7.0", 7), ("1E+3", 1000)])
def test_a_token_is_read_in_any_notation_of_a_number(number, token):
    assert row(fencingToken={"N": number}).token == token


def test_a_schema_is_immutable_and_replace_gives_a_copy():
    with pytest.raises(AttributeError, match="replace"):
        JAVA.ttl = "expires"
    changed = JAVA.replace(ttl="expires")
    assert (changed.ttl, JAVA.ttl) == ("expires", "ttl")


def test_a_schema_refuses_unknown_fields_formats_and_equal_names():
    with pytest.raises(LockArgumentError, match="no field colour"):
        JAVA.replace(colour="red")
    with pytest.raises(LockArgumentError, match="lease_format='days'"):
        JAVA.replace(lease_format="days")
    with pytest.raises(LockArgumentError, match="same attribute name"):
        JAVA.replace(ttl="data")


def test_a_python_lease_is_rounded_up():
    assert PYTHON.read_lease({"N": "0.0001"}) == 1
    assert PYTHON.read_lease({"N": "1.0005"}) == 1001


TOKENS = ["7.5", "0.1", "-5", "-1E+3", "9" * 38, "-" + "9" * 38, "1E+38", "1E+125", "1E+999999999", "1E-130", "--7"]
TOKENS += ["", "NaN", "1_0"]


@pytest.mark.parametrize("value", [*({"N": token} for token in TOKENS), {"S": "7"}, {"NULL": True}, {"L": []}])
def test_a_token_that_cannot_be_counted_on_from_is_an_error_with_the_remedy(value):
    damaged = row(fencingToken=value)
    assert damaged.token is None
    assert damaged.unreadable() == ("fencingToken",)
    with pytest.raises(LockFormatError, match=r"'orders'.*fencingToken.*[Dd]elete the row") as caught:
        damaged.require_token("orders")
    assert caught.value.key == "orders"


@given(st.integers(min_value=0, max_value=10**37 - 1))
def test_a_token_is_read_exactly(token):
    assert row(fencingToken={"N": str(token)}).token == token
    assert row(fencingToken={"N": f"{token}.0"}).token == token


@pytest.mark.parametrize("until", ["9" * 30, "1E+30", "1.5", "-1"])
def test_a_completion_that_is_no_time_cannot_be_read(until):
    assert row(completedUntil={"N": until}).completed_until is None
    assert row(completedUntil={"N": until}).unreadable() == ("completedUntil",)


def test_a_readable_row_has_nothing_unreadable():
    assert row().unreadable() == ()
    assert row(fencingToken={"N": "7"}, completedUntil={"N": "1800000000"}).unreadable() == ()
    released = row(recordVersionNumber={"S": "v"}, isReleased={"S": "1"}, leaseDuration={"S": "0"})
    assert released.unreadable() == ()  # the lease of a free lock does not matter
