"""The string: any change on its way is noticed before anything is sent."""

import string as characters
from binascii import b2a_base64, crc32
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lambda_lock import JAVA, LockClient
from lambda_lock.core.handover import read_handover, write_handover
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import Hold
from lambda_lock.core.requests import Place
from lambda_lock.errors import LockFormatError

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


def hold_of(key: str, sort_key: str | None, owner: str, token: int, lease_ms: int, permits: int | None = None) -> Hold:
    hold = Hold.__new__(Hold)
    hold.place = Place("locks", JAVA, "key", key, "sort" if sort_key else None, sort_key)
    hold.owner, hold.token, hold.lease_ms = owner, token, lease_ms
    if permits is not None:
        hold.place = PermitPlace(hold.place, permits, owner)
    return hold


holds = st.builds(
    hold_of,
    texts,
    st.none() | texts,
    texts,
    st.integers(1, 2**53),
    st.integers(1000, 10**9),
    st.none() | st.integers(1, 100),
)
handed_over = holds.map(write_handover)


def is_refused(text: Any) -> None:
    with pytest.raises(LockFormatError):
        read_handover(text, "locks")


@given(holds)
def test_what_is_written_is_read(hold):
    text = write_handover(hold)
    assert set(text) <= set(characters.ascii_letters + characters.digits + "+/=.")
    read = read_handover(text, "locks")
    assert (read.table, read.key, read.sort_key) == ("locks", hold.place.key, hold.place.sort_key)
    assert (read.owner, read.token, read.lease_ms) == (hold.owner, hold.token, hold.lease_ms)


@given(handed_over, st.data())
def test_what_is_changed_cut_or_put_in_is_noticed(text, data):
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    changed = text[:start] + data.draw(st.text(max_size=5)) + text[end:]
    assume(changed != text)
    is_refused(changed)


@settings(max_examples=20)  # of about 130 texts each
@given(handed_over)
def test_every_other_last_digit_is_noticed(text):
    """The last characters of a base64 text bear bits that mean nothing, hexadecimal digits come in two sizes."""
    encoded = text.split(".")[1].rstrip("=")
    last = len("LH1.") + len(encoded) - 1
    for at in (last, len(text) - 1):
        for other in characters.ascii_letters + characters.digits + "+/_ ":
            if other != text[at]:
                is_refused(text[:at] + other + text[at + 1 :])
    if text.rpartition(".")[2].upper() != text.rpartition(".")[2]:
        is_refused(text.rpartition(".")[0] + "." + text.rpartition(".")[2].upper())


@given(st.text() | st.binary() | st.none() | st.integers())
def test_anything_else_is_refused(text):
    is_refused(text)


@pytest.mark.parametrize(
    "fields",
    [
        "[]", "{}", "null", "1", '["locks","a",null,"me#1",1]', '["locks","a",null,"me#1","1",1000]',
        '["locks",1,null,"me#1",1,1000]', '["locks","a",null,null,1,1000]', '["locks","a",null,"me#1",true,1000]',
        '["locks","a",null,"me#1",1.5,1000]', '["locks","a",null,"me#1",1,1000,0]', "[" * 5000,
        '["locks","a",null,"me#1",1,1000,101]', '["locks","a",null,"me#1",1,1000,true]',
        '["locks","a",null,"me#1",1,1000,null]', '["locks","a",null,"me#1",1,1000,1,1]',
    ],
)  # fmt: skip
def test_fields_that_are_no_lock_s_are_refused_even_with_a_right_checksum(fields):
    text = fields.encode()
    is_refused(f"LH1.{b2a_base64(text, newline=False).decode()}.{crc32(text):08x}")


@pytest.mark.parametrize("text", ["garbage", "", "a.b", "a.b.c", "LH1.WzE.0", "LH1.AAAA.00000000", "x" * 200])
def test_the_error_speaks_of_the_string_and_not_of_how_it_was_read(text):
    with pytest.raises(LockFormatError) as caught:
        LockClient("locks").adopt(text)
    shown = repr(text[:20]) + ("…" if len(text) > 20 else "")
    assert str(caught.value) == (
        f"token={shown} did not come from hand_over(), or was cut or changed on its way. Pass the string on unchanged"
    )
    assert isinstance(caught.value.__cause__, ValueError)
