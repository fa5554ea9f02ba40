"""Options that are out of range or of the wrong type: each is told with its remedy, before anything is sent."""

import asyncio
import datetime
import enum
import functools
from decimal import Decimal

import pytest

from lambda_lock import AsyncLockClient, LockArgumentError, LockClient, deduplicate, with_lock

from .conftest import refused

NAN, INF = float("nan"), float("inf")
MINUTE = datetime.timedelta(minutes=1)


# -- acquire ----------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1


RESERVED = (
    *("key", "ownerName", "leaseDuration", "recordVersionNumber", "isReleased", "data", "fencingToken", "ttl"),
    *("completedUntil", "result"),
)
OUT_OF_RANGE = (
    *(("lease_duration", wrong, "pass 1 to") for wrong in (0.5, 0, -20, NAN, INF, 1e12)),
    *(("wait", wrong, "pass 0 to 31536000 seconds") for wrong in (-1, NAN, -INF)),
    *(("reserve", wrong, "pass 0 to") for wrong in (-1, INF)),
    *(("refresh_period", wrong, "pass 0.01 to") for wrong in (0, NAN)),
    *(("safe_time", wrong, "lease_duration=20") for wrong in (0, 20)),
    ("safe_time", NAN, "pass 0 to"),
    ("wait", 1e9, "pass 0 to 31536000 seconds (365 days)"),  # and not 3.1536e+07
)
NO_ATTRIBUTES = (
    (Colour.RED, "Colour", "str, numbers"),
    (datetime.date(2026, 1, 1), "is a date", "use str, numbers"),
    (object(), "object"),
    (1j, "complex"),
    *((wrong, text, "finite") for wrong, text in ((NAN, "nan"), ([INF], "inf"), (Decimal("NaN"), "NaN"))),
    (set(), "must not be empty"),
    ({1, "a"}, "set"),
    ({True}, "set"),
    ({"in": {1: 2}}, "keys must be str"),
)

OF_ACQUIRE = [
    *refused(
        LockArgumentError,
        ({"key": ""}, "key is empty", "Give each lock a name"),
        ({"key": "k" * 2049}, "key", "kkkk", "2049 bytes", "2048", "hash"),
        ({"key": "ü" * 1025}, "2050 bytes"),
        ({"key": "lone \ud800"}, "key", "surrogate"),
        *(({name: wrong}, f"{name}={wrong!r}", words) for name, wrong, words in OUT_OF_RANGE),
        ({"sort_key": "s"}, "sort_key='s'", "sort_key_name"),
        ({"data": b"x" * 409_600}, "data", "409600", "reference"),
        ({"attributes": {"text": "x" * 409_600}}, "attributes", "409600", "reference"),
        ({"data": b"x" * 210_000, "attributes": {"more": b"x" * 210_000}}, "409600", "reference"),
        ({"attributes": {"": 1}}, "attribute", "''", "1 to 255"),
        ({"attributes": {"odd": "lone \ud800"}}, "'odd'", "surrogate"),
        ({"attributes": {"odd": [{"lone \ud800": 1}]}}, "'odd'", "surrogate"),
        ({"attributes": {"lone \ud800": 1}}, "attributes", "surrogate"),
        ({"attributes": {"n" * 256: 1}}, "attribute", "1 to 255"),
        *(({"attributes": {name: "mine"}}, repr(name), "another name") for name in RESERVED),
        ({"permits": 0}, "permits=0", "pass 1 to 100, or None"),
        ({"permits": 500}, "divide the work among several"),
        (
            {"permits": 2, "delete_on_release": True},
            *("delete_on_release=True is not possible with permits=2", "Leave delete_on_release out"),
        ),
        ({"holder": ""}, "holder is empty: pass a"),
        ({"on_danger": print}, "on_danger would never be called", "pass safe_time= as well"),
    ),
    *refused(
        TypeError,
        *(({"key": wrong}, f"key must be a str, not {wrong!r} ({type(wrong).__name__})") for wrong in (None, 5, b"a")),
        ({"key": ["a", "b"]}, "['a', 'b']", "acquire_all takes a list"),
        *(
            ({name: "1"}, f"{name} must be a number of seconds, not '1'")
            for name in ("lease_duration", "wait", "reserve", "refresh_period", "safe_time")
        ),
        ({"lease_duration": True}, "lease_duration", "True"),
        ({"lease_duration": Decimal(20)}, "lease_duration", "Decimal"),
        ({"wait": True}, "number of seconds, not True"),
        ({"wait": MINUTE}, "wait must be a number of seconds"),
        ({"data": "text"}, "data must be bytes, not str: encode it first"),
        ({"data": 5}, "data must be bytes", "int"),
        ({"attributes": {5: 1}}, "attribute", "5", "str"),
        ({"attributes": "colour"}, "attributes", "not str"),
        ({"attributes": [("colour", "red")]}, "attributes"),
        *(({"attributes": {"odd": wrong}}, "attribute 'odd'", *words) for wrong, *words in NO_ATTRIBUTES),
        ({"context": object()}, "context", "Lambda context"),
        ({"context": {}}, "Pass the handler's second"),
        ({"on_danger": "call me", "safe_time": 1}, "on_danger", "'call me'"),
        ({"on_lost": 5}, "on_lost", "5"),
        ({"on_lost": lambda: None}, "on_lost must be a function that takes the Lock"),
        ({"cancel_check": lambda lock: False}, "cancel_check must be a function that takes nothing"),
        ({"permits": "5"}, "permits must be an int, not '5'"),
        ({"holder": 5}, "holder must be a str, not 5"),
    ),
]


@pytest.mark.parametrize(("options", "kind", "words"), OF_ACQUIRE)
def test_an_acquire_with_a_bad_option_sends_nothing_and_holds_nothing(options, kind, words, client, memory, told):
    asynchronous = AsyncLockClient.over(client)
    options = {"key": "a", **options}
    said = told(kind, lambda: client.acquire(**options), *words)
    assert told(kind, lambda: asyncio.run(asynchronous.acquire(**options)), *words) == said
    assert memory.requests == ()
    assert client.held() == ()


def test_a_bad_value_is_a_value_error_too():
    assert issubclass(LockArgumentError, ValueError)


# -- a client ---------------------------------------------------------------------------------------------------------

OF_A_CLIENT = [
    *refused(
        LockArgumentError,
        ({"table": ""}, "table=''", "3 to 255"),
        ({"table": "no spaces"}, "table='no spaces'", "3 to 255"),
        ({"table": "t" * 256}, "3 to 255"),
        ({"table": "arn:aws:lambda:eu-west-1:123456789012:function:x"}, "is not a valid table name"),
        *(({"lease_duration": wrong}, f"lease_duration={wrong}") for wrong in (0.99, NAN)),
        ({"lease_duration": 1e9}, "pass 1 to 31622400 seconds (366 days)"),
        (
            {"heartbeat_period": 11},
            *("heartbeat_period=11", "lease_duration=20", "Pass at most 10, 0 for no heartbeat, or None"),
        ),
        *(({"heartbeat_period": wrong}, f"heartbeat_period={wrong}") for wrong in (-1, NAN)),
        ({"refresh_period": 0}, "refresh_period=0"),
        ({"safe_time": 20}, "safe_time=20"),
        ({"owner_prefix": ""}, "owner_prefix is empty"),
        ({"owner_prefix": "o" * 513}, "owner_prefix", "513 bytes", "512"),
        ({"ttl": -1}, "ttl=-1", "0 or more"),
        ({"partition_key_name": ""}, "partition_key_name=''", "1 to 255"),
        ({"partition_key_name": "heldMs"}, "partition_key_name='heldMs'", "locks write"),
        ({"sort_key_name": "n" * 256}, "sort_key_name"),
        ({"sort_key_name": "data"}, "sort_key_name='data'", "locks write"),
        ({"observation_cache_size": 0}, "observation_cache_size=0", "1 or more"),
    ),
    *refused(
        TypeError,
        ({"table": 5}, "table must be a str", "5"),
        ({"lease_duration": None}, "lease_duration must be a number", "None"),
        ({"heartbeat_period": "5"}, "heartbeat_period", "'5'"),
        ({"owner_prefix": 5}, "owner_prefix", "5"),
        *(({"ttl": wrong}, f"ttl must be an int, not {wrong}") for wrong in (0.5, 1.5, True)),
        ({"partition_key_name": 5}, "partition_key_name", "5"),
        ({"schema": "JAVA"}, "schema", "'JAVA'", "must be lambda_lock's JAVA, GO or PYTHON"),
        ({"transport": object()}, "transport", "send"),
        ({"transport": "https"}, "Pass a boto3 client as boto3_client="),
        ({"logger": "x"}, "logger must have", "logging.getLogger(name)"),
        ({"clock": 5}, "clock must have monotonic()", "ManualClock"),
    ),
]


@pytest.mark.parametrize(("options", "kind", "words"), OF_A_CLIENT)
def test_a_client_with_a_bad_option_is_not_built(options, kind, words, told):
    for client in (LockClient, AsyncLockClient):
        told(kind, functools.partial(client, **options), *words)


# -- decorators -------------------------------------------------------------------------------------------------------

ANSWERS = "on_not_granted= must be 'raise', 'skip' or a function"
DUPLICATES = "on_duplicate= must be 'return', 'raise' or a function"
OF_WITH_LOCK = refused(
    TypeError, *(({"on_not_granted": wrong}, ANSWERS) for wrong in ("ignore", None, True, 5, {"statusCode": 409}))
)
OF_DEDUPLICATE = [
    *refused(
        LockArgumentError,
        *(({"window": wrong}, f"window={wrong!r}", "pass 1 to") for wrong in (0, -1, 0.5, INF, NAN, -INF, 1e300)),
        ({"window": 1e9}, "pass 1 to 315360000 seconds (3650 days)"),
        *(({"scope": wrong}, "scope") for wrong in ("x" * 2049, "\ud800")),
    ),
    *refused(
        TypeError,
        *(({"window": wrong}, "window must be a number of seconds") for wrong in (True, "1d", None, b"1", MINUTE)),
        *(({"scope": wrong}, "scope") for wrong in (5, b"s")),
        *(({"result": wrong}, "must be None or 'json'", "dump(val") for wrong in ("pickle", True, "", {"json": True})),
        *(({"on_duplicate": wrong}, DUPLICATES) for wrong in ("skip", None, True, 5, "")),
        *(({"on_not_granted": wrong}, ANSWERS) for wrong in ("return", None, True, 5)),
    ),
]


@pytest.mark.parametrize(
    ("decorator", "options", "kind", "words"),
    [
        pytest.param(decorator, *row.values, id=f"{decorator.__name__}-{row.id}")
        for decorator, rows in ((with_lock, OF_WITH_LOCK), (deduplicate, OF_DEDUPLICATE))
        for row in rows
    ],
)
def test_a_bad_option_of_a_decorator_is_told_before_there_is_a_function(decorator, options, kind, words, told):
    told(kind, functools.partial(decorator, "k", **options), *words)
