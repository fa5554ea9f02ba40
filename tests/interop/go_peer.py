"""A stand-in for the Go client (cirello.io/dynamolock v5): its rows, and its behaviour as it was observed.

This is not the Go client itself, whose module is not available where these tests were written. The stand-in does what
can be observed in a table: rows, requests, how the client waits, and how it treats attributes that it does not know.
"""

import base64
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.exceptions import ClientError

from tests.interop.talk import Answer, Talker

_OWN = ("data", "ownerName", "leaseDuration", "recordVersionNumber", "isReleased", "key")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class LockNotGrantedError(Exception):
    """Somebody else holds the lock."""


@dataclass
class Held:
    """A lock as its holder knows it. keep: whether the row is kept when the lock is released."""

    key: str
    version: str
    data: bytes | None
    since: float
    keep: bool = True
    released: bool = False
    guard: threading.Lock = field(default_factory=threading.Lock)


class Seen:
    """A row as another client reads it."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.version = item.get("recordVersionNumber", {}).get("S", "")
        self.lease = _parse_duration(item.get("leaseDuration", {}).get("S", ""))
        self.owner = item.get("ownerName", {}).get("S", "")
        self.data: bytes | None = item.get("data", {}).get("B")
        self.released = "isReleased" in item
        self.others = {name: value for name, value in item.items() if name not in _OWN}
        self.since = time.monotonic()


class GoPeer(Talker):
    def open(self, *, table: str, lease: float, heartbeat: float, sort_key_name: str | None = None) -> None:
        self.dynamodb = boto3.client("dynamodb")
        self.table, self.lease = table, lease
        self.owner = _random_text()
        self.renewed: dict[str, Held] = {}
        threading.Thread(target=self._keep_renewing, args=(heartbeat,), daemon=True).start()

    def take(self, key: str, *, silent: bool, wait: float, refresh: float, **options: Any) -> Held:
        given: dict[str, str] = options.get("attributes") or {}
        others: dict[str, Any] = {name: {"S": value} for name, value in given.items()}
        data: str | None = options.get("data")
        started, patience = time.monotonic(), wait
        first: Seen | None = None
        while True:
            seen = self._get(key)
            if seen is not None:
                others = {**seen.others, **others}  # attributes that the first poll saw win over those of later ones
            held: Held | None = None
            if seen is None or seen.released:
                held = self._put(key, others, data, seen, "attribute_not_exists(#k) OR isReleased = :r", {":r": "1"})
            elif first is None and not wait:
                raise LockNotGrantedError("the lock is held, and no retry was requested")
            elif first is None or first.version != seen.version:
                patience += seen.lease if first is None else 0
                first = seen
            elif time.monotonic() - first.since > first.lease:
                condition = "attribute_exists(#k) AND recordVersionNumber = :v"
                held = self._put(key, others, data, seen, condition, {":v": seen.version})
            if held is not None:
                held.keep = options.get("keep", True)
                if not silent:
                    self.renewed[key] = held
                return held
            if time.monotonic() - started > patience:
                raise LockNotGrantedError("not granted within the time to wait")
            time.sleep(refresh)

    def give_back(self, handle: Held, data: str | None = None) -> bool:
        self.renewed.pop(handle.key, None)
        with handle.guard:
            handle.released = True
            if not handle.keep:
                return self._as_owner(self.dynamodb.delete_item, handle, {}, {})
            stored = {":d": {"B": data.encode()}} if data else {}
            text = "SET isReleased = :r" + (", #d = :d" if data else "")
            return self._update(handle, text, {":r": {"S": "1"}, **stored})

    def is_fresh(self, handle: Held) -> bool:
        return time.monotonic() - handle.since < 0.6 * self.lease

    def read(self, key: str, sort_key: str | None = None) -> Answer:
        seen = self._get(key)
        if seen is None:
            return {"absent": True}
        shown = {name: getattr(seen, name) for name in ("owner", "version", "lease")}
        data = None if seen.data is None else seen.data.decode()
        return shown | {"data": data, "others": ",".join(sorted(seen.others))}

    def _keep_renewing(self, period: float) -> None:
        while True:
            time.sleep(period)
            for held in list(self.renewed.values()):
                if not self._renew(held):
                    self.renewed.pop(held.key, None)

    def _renew(self, handle: Held) -> bool:
        with handle.guard:
            if handle.released:
                return True
            version, now = _new_version(), time.monotonic()
            values = {":l": {"S": _format_duration(self.lease)}, ":n": {"S": version}}
            if renewed := self._update(handle, "SET leaseDuration = :l, recordVersionNumber = :n", values):
                handle.version, handle.since = version, now
            return renewed

    def _get(self, key: str) -> Seen | None:
        reply = self.dynamodb.get_item(TableName=self.table, Key={"key": {"S": key}}, ConsistentRead=True)
        return Seen(reply["Item"]) if "Item" in reply else None

    def _put(self, key: str, others: Any, data: str | None, seen: Seen | None, when: str, texts: Any) -> Held | None:
        """Write the whole row again. Returns None if another client was faster."""
        stored = data.encode() if data is not None else None
        if seen is not None and seen.data is not None:
            stored = seen.data  # the client keeps the data, unless it is told to replace it
        version, now = _new_version(), time.monotonic()
        own = {"ownerName": self.owner, "leaseDuration": _format_duration(self.lease), "recordVersionNumber": version}
        item = {**others, "key": {"S": key}, **{name: {"S": text} for name, text in own.items()}}
        item |= {} if stored is None else {"data": {"B": stored}}
        values = {name: {"S": text} for name, text in texts.items()}
        written = self._send(self.dynamodb.put_item, when, {"#k": "key"}, values, Item=item)
        return Held(key, version, stored, now) if written else None

    def _update(self, handle: Held, expression: str, values: dict[str, Any]) -> bool:
        names = {"#d": "data"} if ":d" in values else {}
        return self._as_owner(self.dynamodb.update_item, handle, values, names, UpdateExpression=expression)

    def _as_owner(self, send: Callable[..., Any], handle: Held, values: Any, names: Any, **more: Any) -> bool:
        """Change the row under owner and version. Returns False if another client has the row now."""
        condition = "attribute_exists(#k) AND recordVersionNumber = :v AND ownerName = :o"
        values = {":o": {"S": self.owner}, ":v": {"S": handle.version}, **values}
        return self._send(send, condition, {"#k": "key", **names}, values, Key={"key": {"S": handle.key}}, **more)

    def _send(self, send: Callable[..., Any], condition: str, names: Any, values: Any, **more: Any) -> bool:
        """Send a write. Returns False if its condition does not hold."""
        terms = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
        try:
            send(TableName=self.table, ConditionExpression=condition, **terms, **more)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise
        return True


def _random_text() -> str:
    return base64.b32encode(os.urandom(32)).decode().rstrip("=")


def _new_version() -> str:
    return f"{time.time_ns()}:{_random_text()}"


def _format_duration(seconds: float) -> str:
    """Format a duration as Go does: 500ms, 2s, 1m30s, 2h0m0s."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest:g}s"


def _parse_duration(text: str) -> float:
    """Parse a duration as Go does. A lease that is absent or not a string counts as zero."""
    if text in ("", "0"):
        return 0.0
    if not re.fullmatch(r"([\d.]+(ns|us|µs|ms|s|m|h))+", text):
        raise ValueError(f'time: invalid duration "{text}"')
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ns|us|µs|ms|s|m|h)", text))


if __name__ == "__main__":
    GoPeer().talk()
