"""The demo's tables in the engine, and every write to the lock table as its stream tells it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from rig.engine import REGION, EngineError, Ministack

from .evidence import Change, Entry, entry
from .handlers import EVENTS, JOURNAL, LEDGER

LOCKS = "locks"

_LOOK = 0.03  # seconds between two reads of the stream

Item = dict[str, dict[str, Any]]


def create(engine: Ministack) -> str:
    """Make the tables. Returns the ARN of the lock table's stream."""
    engine.create_table(LEDGER)
    engine.create_table(JOURNAL)
    request = {
        "TableName": LOCKS,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    }
    arn: str = engine.dynamodb("CreateTable", request)["TableDescription"]["LatestStreamArn"]
    return arn


def journal(engine: Ministack, began: float) -> list[Entry]:
    return sorted((entry(item, began) for item in engine.scan(JOURNAL)), key=lambda line: line.at)


def ledger(engine: Ministack) -> dict[str, list[str]]:
    return {item["key"]["S"]: [event["S"] for event in item["events"]["L"]] for item in engine.scan(LEDGER)}


def held(engine: Ministack) -> list[str]:
    """The keys of the locks that somebody holds."""
    return sorted(item["key"]["S"] for item in engine.scan(LOCKS) if _is_held(item))


class Watch:
    """Reads the lock table's stream while the story plays, as a context manager. ``tell`` is called with each change of
    a lock; the rows of events are left out.

    ``began`` (epoch seconds) may be set until the first lock is taken.
    """

    def __init__(self, engine: Ministack, stream: str, tell: Callable[[Change], None]) -> None:
        self.began = time.time()
        self._streams = _Streams(engine.port)
        self._stream = stream
        self._tell = tell
        self._changes: list[Change] = []
        self._news = threading.Condition()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._thread.join()

    @property
    def changes(self) -> list[Change]:
        with self._news:
            return list(self._changes)

    def end(self) -> None:
        """Read what is still there, and no more. Wakes the callers of `wait_for`."""
        self._ending.set()
        with self._news:
            self._news.notify_all()

    def wait_for(self, wanted: Callable[[Change], bool], timeout: float) -> None:
        """Wait for a change that is ``wanted``, past or future. TimeoutError if none comes in so many seconds."""
        with self._news:
            self._news.wait_for(lambda: self._ending.is_set() or any(map(wanted, self._changes)), timeout)
            if not any(map(wanted, self._changes)):
                raise TimeoutError(f"what the story waits for did not happen within {timeout:.0f} s")

    def _read(self) -> None:
        shard = self._streams.ask("DescribeStream", StreamArn=self._stream)["StreamDescription"]["Shards"][0]
        place = {"StreamArn": self._stream, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = self._streams.ask("GetShardIterator", **place)["ShardIterator"]
        last = False
        while not last:
            last = self._ending.wait(_LOOK)  # what was written before the end is still read
            page = self._streams.ask("GetRecords", ShardIterator=iterator)
            iterator = page["NextShardIterator"]
            for record in page["Records"]:
                change = _change(record["dynamodb"], time.time() - self.began)
                if not change.key.startswith(f"{EVENTS}#"):
                    self._add(change)

    def _add(self, change: Change) -> None:
        with self._news:
            self._changes.append(change)
            self._news.notify_all()
        self._tell(change)


class _Streams:
    """The Streams API, over one connection; for one thread."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        scope = f"Credential=test/20260101/{REGION}/dynamodb/aws4_request"
        self._headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0",  # the engine checks nothing
        }

    def ask(self, operation: str, **request: Any) -> dict[str, Any]:
        target = {"X-Amz-Target": f"DynamoDBStreams_20120810.{operation}"}
        self._connection.request("POST", "/", json.dumps(request), self._headers | target)
        response = self._connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise EngineError(f"{operation}: {response.status} {body.decode(errors='replace')}")
        reply: dict[str, Any] = json.loads(body)
        return reply


def _change(record: dict[str, Any], at: float) -> Change:
    new: Item = record["NewImage"]
    old: Item | None = record.get("OldImage")
    same = old is not None and old.get("fencingToken") == new["fencingToken"]
    return Change(
        at=at,
        kind="granted" if not same else "renewed" if _is_held(new) else "released",
        key=new["key"]["S"],
        owner=new["ownerName"]["S"],
        token=int(new["fencingToken"]["N"]),
        took_over=not same and old is not None and _is_held(old),
    )


def _is_held(row: Item) -> bool:
    return "recordVersionNumber" in row and "isReleased" not in row
