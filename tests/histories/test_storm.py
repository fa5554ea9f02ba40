"""Each fault of the storm does what its name says, seen from both ends."""

import http.client
import json
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest

from lambda_lock import LockClient
from rig.engine import Engine, client_environment, request_headers
from tests.support.clients import make
from tests.support.waiting import wait_until

from .storm import FAULTS, Storm

__all__ = ["make"]

QUICK = (0.001, 0.002)


@contextmanager
def storm(engine: Engine, *faults: str) -> Iterator[Storm]:
    """A network on which every request meets one of these faults."""
    weights = dict.fromkeys(faults, 1000 // len(faults))
    with Storm(engine.url, 1, faults=weights, slow=QUICK, late=QUICK) as running:
        running.stormy = True
        yield running


def count_up(url: str, table: str) -> str:
    """Add one to a number by one request. Returns what its sender makes of the answer."""
    request: dict[str, object] = {"TableName": table, "Key": {"key": {"S": "counter"}}, "ReturnValues": "ALL_NEW"}
    request |= {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)) as connection:
        try:
            connection.request("POST", "/", json.dumps(request), request_headers("UpdateItem"))
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return "cut"
    checksum = response.headers.get("x-amz-crc32")
    if not body or checksum not in (None, str(zlib.crc32(body))):
        return "unusable"
    return str(response.status)


def counted(engine: Engine, table: str) -> int:
    return sum(int(item["n"]["N"]) for item in engine.scan(table))


EFFECTS = {
    "cut before": ("cut", 0),
    "cut after": ("cut", 1),
    "reply delayed beyond the time-out": ("200", 1),
    "request delayed beyond the time-out": ("200", 1),
    "cut, and delivered late": ("cut", 1),
    "doubled at once": ("200", 2),
    "doubled late": ("200", 2),
    "delayed a little": ("200", 1),
    "throttled": ("400", 0),
    "500": ("500", 0),
    "500 after it was carried out": ("500", 1),
    "503": ("503", 0),
    "wrong checksum": ("unusable", 1),
    "damaged body": ("unusable", 1),
    "half a reply": ("cut or unusable", 1),
    "slow bytes": ("200", 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_does_what_its_name_says(engine, table, fault):
    with storm(engine, fault) as network:
        answer, times = EFFECTS[fault]
        assert count_up(network.url, table) in answer.split(" or ")
        wait_until(lambda: counted(engine, table) == times)
        assert network.counts[fault] == 1
        network.silence()  # only what the storm says by itself passes
        expected = answer if fault in ("throttled", "500", "503") else "cut"
        assert count_up(network.url, table) == expected


def test_a_calm_network_changes_nothing_but_in_a_blackout_or_in_silence(engine, table):
    with storm(engine, *FAULTS) as network:
        network.stormy = False
        assert count_up(network.url, table) == "200"
        assert counted(engine, table) == 1
        assert network.counts == {"requests": 1}
        network.black_out(0.3)
        assert count_up(network.url, table) == "cut"
        wait_until(lambda: count_up(network.url, table) == "200")
        assert counted(engine, table) == 2
        network.silence()
        assert count_up(network.url, table) == "cut"
        network.speak()
        assert count_up(network.url, table) == "200"
        assert counted(engine, table) == 4, "what is asked in silence is carried out"


def test_a_lock_is_taken_and_released_through_every_fault_at_once(engine, table, make, monkeypatch):
    with Storm(
        engine.url, 1, faults={**FAULTS, "cut before": 100, "cut after": 100}, slow=QUICK, late=QUICK
    ) as network:
        network.stormy = True
        for name, value in client_environment(network.url).items():
            monkeypatch.setenv(name, value)
        client: LockClient = make(lease_duration=3)
        tokens = []
        for _ in range(20):
            with client.acquire("a", wait=60) as lock:
                tokens.append(lock.fencing_token)
        assert tokens == sorted(set(tokens))
