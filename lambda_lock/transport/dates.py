"""Two date formats, read as epoch seconds. datetime, email and calendar would add about 5 ms to a cold start."""

from __future__ import annotations

import re  # the Lambda runtime has it loaded

_WEEKDAYS = ("Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, ")
_MONTHS = (" Jan ", " Feb ", " Mar ", " Apr ", " May ", " Jun ", " Jul ", " Aug ", " Sep ", " Oct ", " Nov ", " Dec ")

# RFC 3339, as credential endpoints write it ("2026-11-21T04:49:13Z", "2026-11-21T04:49:13.250+00:00").
_ISO = r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):?(\d\d))"


def http_date(text: str | None) -> int | None:
    """Return the epoch seconds of a Date header, or None if it is missing or cannot be read.

    Only RFC 9110's IMF-fixdate is read, the only form that a server may send ("Sat, 21 Nov 2026 04:49:13 GMT").
    """
    # The text is cut at fixed places, because compiling a pattern would add 0.7 ms to each cold start.
    if text is None or len(text) != 29 or text[:5] not in _WEEKDAYS or text[7:12] not in _MONTHS:
        return None
    if text[16] != " " or text[19] != ":" or text[22] != ":" or text[25:] != " GMT":
        return None
    day, year, hour, minute, second = text[5:7], text[12:16], text[17:19], text[20:22], text[23:25]
    if not (text.isascii() and (day + year + hour + minute + second).isdigit()):
        return None
    return _epoch(int(year), _MONTHS.index(text[7:12]) + 1, int(day), int(hour), int(minute), int(second))


def iso_date(text: str) -> int | None:
    """Return the epoch seconds of an RFC 3339 time without fractions, or None if it cannot be read."""
    match = re.fullmatch(_ISO, text, re.ASCII)
    if not match:
        return None
    seconds = _epoch(*(int(match[group]) for group in range(1, 7)))
    if seconds is None or not match[7]:
        return seconds
    offset = int(match[8]) * 3600 + int(match[9]) * 60
    return seconds - offset if match[7] == "+" else seconds + offset


def _epoch(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    # 60 is a leap second. Days are not checked against the month: only a broken server would send a wrong one.
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour <= 23 and minute <= 59 and second <= 60):
        return None
    if month <= 2:  # let the year start in March, so that the leap day is its last day
        year, month = year - 1, month + 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
    return ((days * 24 + hour) * 60 + minute) * 60 + second
