from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock.transport.answers import http_date
from lambda_lock.transport.credentials import iso_date

SECONDS = st.integers(min_value=-62135596800, max_value=253402300799)  # the years 1 to 9999


@given(SECONDS)
def test_a_date_header_is_read_as_the_standard_library_reads_it(seconds):
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    text = text if len(text) == 29 else text[:12] + text[12:].zfill(17)  # not every platform pads a year before 1000
    assert http_date(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "now", "1795236553", "Sat, 21 Nov 2026 04:49:13 +0000", "x Sat, 21 Nov 2026 04:49:13 GMT"),
        *(f"Sat, {moment} GMT" for moment in ("21 Nov 26 04:49:13", "21 Nov 2026 24:00:00", "00 Nov 2026 04:49:13")),
        "Sat, 21 Now 2026 04:49:13 GMT",
    ],
)
def test_a_date_header_that_is_none_gives_none(text):
    assert http_date(text) is None


@given(st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)), st.integers(-1439, 1439))
def test_an_iso_time_is_read_as_the_standard_library_reads_it(moment, minutes):
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    whole = (moment.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert iso_date(moment.isoformat()) == whole


@pytest.mark.parametrize("text", ["2026-11-21T04:49:13Z", "2026-11-21T04:49:13.999Z", "2026-11-21T06:49:13+0200"])
def test_an_iso_time_may_end_in_z_or_an_offset(text):
    assert iso_date(text) == 1795236553


@pytest.mark.parametrize("text", ["", "2026-11-21", "2026-11-21T04:49:13", "2026-13-21T04:49:13Z", "tomorrow"])
def test_an_iso_time_that_is_none_gives_none(text):
    assert iso_date(text) is None
