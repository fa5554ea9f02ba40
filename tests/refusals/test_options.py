"""Options that are out of range or of the wrong type: each is told with its remedy, before anything is sent."""

from __future__ import annotations

import asyncio
import enum
import functools
import re
from decimal import Decimal
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, LockArgumentError, LockClient, deduplicate, with_lock

NAN, INF = float("nan"), float("inf")


def refused(options: dict[str, Any], kind: type[Exception], *words: str) -> Any:
    """A row: the options, and the error that they are answered with. Its id is the same in each process."""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(options))
    text = re.sub(r"\{([^{}:]+)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)
    return pytest.param(options, kind, words, id=text[:50])


# -- acquire ----------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1


RESERVED = [
    "key", "ownerName", "leaseDuration", "recordVersionNumber", "isReleased", "data", "fencingToken", "ttl",
    "completedUntil", "result",
]  # fmt: skip


OF_ACQUIRE = [
    refused({"key": ""}, LockArgumentError, "key is empty", "Give each lock a name"),
    refused({"key": "k" * 2049}, LockArgumentError, "key", "kkkk", "2049 bytes", "2048", "hash"),
    refused({"key": "ü" * 1025}, LockArgumentError, "2050 bytes"),
    refused({"key": "lone \ud800"}, LockArgumentError, "key", "surrogate"),
    refused({"lease_duration": 0.5}, LockArgumentError, "lease_duration=0.5", "1 to"),
    refused({"lease_duration": 0}, LockArgumentError, "lease_duration=0", "pass 1 to"),
    refused({"lease_duration": -20}, LockArgumentError, "lease_duration=-20", "1 to"),
    refused({"lease_duration": NAN}, LockArgumentError, "lease_duration=nan", "1 to"),
    refused({"lease_duration": INF}, LockArgumentError, "lease_duration=inf", "1 to"),
    refused({"lease_duration": 1e12}, LockArgumentError, "lease_duration=1000000000000.0", "1 to"),
    refused({"wait": -1}, LockArgumentError, "wait=-1", "pass 0 to 31536000 seconds"),
    refused({"wait": NAN}, LockArgumentError, "wait=nan", "0 to"),
    refused({"wait": -INF}, LockArgumentError, "wait=-inf", "0 to"),
    refused({"reserve": -1}, LockArgumentError, "reserve=-1", "0 to"),
    refused({"reserve": INF}, LockArgumentError, "reserve=inf", "0 to"),
    refused({"refresh_period": 0}, LockArgumentError, "refresh_period=0", "0.01 to"),
    refused({"refresh_period": NAN}, LockArgumentError, "refresh_period=nan"),
    refused({"safe_time": 0}, LockArgumentError, "safe_time=0", "lease_duration=20"),
    refused({"safe_time": 20}, LockArgumentError, "safe_time=20", "lease_duration=20"),
    refused({"safe_time": NAN}, LockArgumentError, "safe_time=nan"),
    refused({"sort_key": "s"}, LockArgumentError, "sort_key='s'", "sort_key_name"),
    refused({"data": b"x" * 409_600}, LockArgumentError, "data", "409600", "reference"),
    refused({"attributes": {"text": "x" * 409_600}}, LockArgumentError, "attributes", "409600", "reference"),
    refused({"data": b"x" * 210_000, "attributes": {"more": b"x" * 210_000}}, LockArgumentError, "409600", "reference"),
    refused({"attributes": {"": 1}}, LockArgumentError, "attribute", "''", "1 to 255"),
    refused({"attributes": {"odd": "lone \ud800"}}, LockArgumentError, "'odd'", "surrogate"),
    refused({"attributes": {"odd": [{"lone \ud800": 1}]}}, LockArgumentError, "'odd'", "surrogate"),
    refused({"attributes": {"lone \ud800": 1}}, LockArgumentError, "attributes", "surrogate"),
    refused({"attributes": {"n" * 256: 1}}, LockArgumentError, "attribute", "1 to 255"),
    refused({"key": None}, TypeError, "key must be a str, not None"),
    refused({"key": 5}, TypeError, "key must be a str, not 5 (int)"),
    refused({"key": b"a"}, TypeError, "key", "str", "b'a'"),
    refused({"lease_duration": "20"}, TypeError, "lease_duration", "'20'"),
    refused({"lease_duration": True}, TypeError, "lease_duration", "True"),
    refused({"lease_duration": Decimal(20)}, TypeError, "lease_duration", "Decimal"),
    refused({"wait": "1"}, TypeError, "wait must be a number of seconds, not '1'"),
    refused({"wait": True}, TypeError, "number of seconds, not True"),
    refused({"reserve": "1"}, TypeError, "reserve", "'1'"),
    refused({"refresh_period": "1"}, TypeError, "refresh_period", "'1'"),
    refused({"safe_time": "1"}, TypeError, "safe_time", "'1'"),
    refused({"data": "text"}, TypeError, "data must be bytes, not str: encode it first"),
    refused({"data": 5}, TypeError, "data must be bytes", "int"),
    refused({"attributes": {5: 1}}, TypeError, "attribute", "5", "str"),
    refused({"attributes": "colour"}, TypeError, "attributes", "not str"),
    refused({"attributes": [("colour", "red")]}, TypeError, "attributes"),
    refused({"attributes": {"colour": Colour.RED}}, TypeError, "'colour'", "Colour", "str, numbers"),
    refused({"attributes": {"colour": object()}}, TypeError, "'colour'", "object"),
    refused({"attributes": {"odd": 1j}}, TypeError, "'odd'", "complex"),
    refused({"attributes": {"odd": NAN}}, TypeError, "'odd'", "nan", "finite"),
    refused({"attributes": {"odd": [INF]}}, TypeError, "'odd'", "inf", "finite"),
    refused({"attributes": {"odd": Decimal("NaN")}}, TypeError, "'odd'", "NaN", "finite"),
    refused({"attributes": {"odd": set()}}, TypeError, "'odd'", "must not be empty"),
    refused({"attributes": {"odd": {1, "a"}}}, TypeError, "'odd'", "set"),
    refused({"attributes": {"odd": {True}}}, TypeError, "'odd'", "set"),
    refused({"attributes": {"odd": {"in": {1: 2}}}}, TypeError, "'odd'", "keys must be str"),
    refused({"context": object()}, TypeError, "context", "Lambda context"),
    refused({"on_danger": "call me", "safe_time": 1}, TypeError, "on_danger", "'call me'"),
    refused({"on_lost": 5}, TypeError, "on_lost", "5"),
    *(refused({"attributes": {name: "mine"}}, LockArgumentError, repr(name), "another name") for name in RESERVED),
]


@pytest.mark.parametrize(("options", "kind", "words"), OF_ACQUIRE)
def test_an_acquire_with_a_bad_option_sends_nothing_and_holds_nothing(options, kind, words, client, sent, told):
    asynchronous = AsyncLockClient.over(client)
    options = {"key": "a", **options}
    said = told(kind, lambda: client.acquire(**options), *words)
    assert told(kind, lambda: asyncio.run(asynchronous.acquire(**options)), *words) == said
    assert sent == []
    assert client.held() == ()


def test_a_bad_value_is_a_value_error_too():
    assert issubclass(LockArgumentError, ValueError)


# -- a client ---------------------------------------------------------------------------------------------------------

OF_A_CLIENT = [
    refused({"table": ""}, LockArgumentError, "table=''", "3 to 255"),
    refused({"table": "no spaces"}, LockArgumentError, "table='no spaces'", "3 to 255"),
    refused({"table": "t" * 256}, LockArgumentError, "3 to 255"),
    refused({"table": 5}, TypeError, "table", "5"),
    refused({"lease_duration": 0.99}, LockArgumentError, "lease_duration=0.99"),
    refused({"lease_duration": NAN}, LockArgumentError, "lease_duration=nan"),
    refused({"lease_duration": None}, TypeError, "lease_duration must be a number", "None"),
    refused(
        {"heartbeat_period": 11},
        LockArgumentError,
        "heartbeat_period=11",
        "lease_duration=20",
        "Pass at most 10, 0 for no heartbeat, or None",
    ),
    refused({"heartbeat_period": -1}, LockArgumentError, "heartbeat_period=-1"),
    refused({"heartbeat_period": NAN}, LockArgumentError, "heartbeat_period=nan"),
    refused({"heartbeat_period": "5"}, TypeError, "heartbeat_period", "'5'"),
    refused({"refresh_period": 0}, LockArgumentError, "refresh_period=0"),
    refused({"safe_time": 20}, LockArgumentError, "safe_time=20"),
    refused({"owner_prefix": ""}, LockArgumentError, "owner_prefix is empty"),
    refused({"owner_prefix": "o" * 513}, LockArgumentError, "owner_prefix", "513 bytes", "512"),
    refused({"owner_prefix": 5}, TypeError, "owner_prefix", "5"),
    refused({"ttl": -1}, LockArgumentError, "ttl=-1", "0 or more"),
    refused({"ttl": 1.5}, TypeError, "ttl", "1.5"),
    refused({"ttl": True}, TypeError, "ttl", "True"),
    refused({"partition_key_name": ""}, LockArgumentError, "partition_key_name=''", "1 to 255"),
    refused({"partition_key_name": 5}, TypeError, "partition_key_name", "5"),
    refused({"partition_key_name": "heldMs"}, LockArgumentError, "partition_key_name='heldMs'", "locks write"),
    refused({"sort_key_name": "n" * 256}, LockArgumentError, "sort_key_name"),
    refused({"sort_key_name": "data"}, LockArgumentError, "sort_key_name='data'", "locks write"),
    refused({"observation_cache_size": 0}, LockArgumentError, "observation_cache_size=0", "1 or more"),
    refused({"schema": "JAVA"}, TypeError, "schema", "'JAVA'", "must be lambda_lock's JAVA, GO or PYTHON"),
    refused({"transport": object()}, TypeError, "transport", "send"),
]


@pytest.mark.parametrize(("options", "kind", "words"), OF_A_CLIENT)
def test_a_client_with_a_bad_option_is_not_built(options, kind, words, told):
    for client in (LockClient, AsyncLockClient):
        told(kind, functools.partial(client, **options), *words)


# -- decorators -------------------------------------------------------------------------------------------------------

ANSWERS = "on_not_granted= must be 'raise', 'skip' or a function"
OF_WITH_LOCK = [refused({"on_not_granted": wrong}, TypeError, ANSWERS) for wrong in ("ignore", None, True, 5)]
OF_DEDUPLICATE = [
    *(refused({"window": wrong}, LockArgumentError, "window=") for wrong in (0, -1, 0.5, INF, NAN, -INF, 1e300)),
    *(refused({"window": wrong}, TypeError, "window must be a number of sec") for wrong in (True, "60", None, b"1")),
    *(refused({"scope": wrong}, TypeError, "scope") for wrong in (5, b"s")),
    *(refused({"scope": wrong}, LockArgumentError, "scope") for wrong in ("x" * 2049, "\ud800")),
    *(refused({"result": wrong}, TypeError, "must be None or 'json'") for wrong in ("yaml", True, "", {"json": True})),
    *(
        refused({"on_duplicate": wrong}, TypeError, "on_duplicate= must be 'return', 'raise' or a function")
        for wrong in ("skip", None, True, 5, "")
    ),
    *(refused({"on_not_granted": wrong}, TypeError, ANSWERS) for wrong in ("return", None, True, 5)),
]


@pytest.mark.parametrize(
    ("decorator", "options", "kind", "words"),
    [pytest.param(with_lock, *row.values, id=f"with_lock-{row.id}") for row in OF_WITH_LOCK]
    + [pytest.param(deduplicate, *row.values, id=f"deduplicate-{row.id}") for row in OF_DEDUPLICATE],
)
def test_a_bad_option_of_a_decorator_is_told_before_there_is_a_function(decorator, options, kind, words, told):
    told(kind, functools.partial(decorator, "k", **options), *words)
