"""The databases that are compared: the library's own in memory, and engines over HTTP. Each carries out a case."""

import http.client
import json
import os
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lambda_lock.core.outcome import ConditionFailed, ServiceError, TransactionCanceled
from lambda_lock.testing.table import Database
from rig.engine import Engine, request_headers

Item: TypeAlias = dict[str, Any]
Request: TypeAlias = tuple[str, dict[str, Any]]

#: The tables of all cases, by name: each key with its type.
TABLES = {
    "locks": {"key": "S"},
    "sorted": {"key": "S", "sort": "S"},
    "python": {"lock_key": "S", "sort_key": "S"},
    "orders": {"id": "N"},
}
UNSUPPORTED = "NotImplementedError"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request, in a form that is equal for equal outcomes.

    error: the name of the error; "" if the request was carried out.
    shown: the item or items in the answer. rows: what is in each table of the case afterwards.
    why: what the error says, in words that every database chooses for itself.
    """

    error: str
    shown: Any
    rows: Any = None
    why: str = field(default="", compare=False)

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"{self.error or 'done'}{why}, shows {json.dumps(self.shown)}, leaves {json.dumps(self.rows)}"


@dataclass(frozen=True)
class Case:
    """Requests that are carried out one after the other, on tables that are empty before."""

    requests: list[Request] = field(default_factory=list)

    @property
    def tables(self) -> list[str]:
        return sorted({name for request in self.requests for name in _tables_of(request)})


def _tables_of(request: Request) -> list[str]:
    operation, content = request
    if operation != "TransactWriteItems":
        return [content["TableName"]]
    return [inner["TableName"] for item in content["TransactItems"] for inner in item.values()]


class InMemory:
    """The tables of lambda_lock.testing."""

    name = "lambda_lock.testing"

    def __init__(self) -> None:
        self._database = Database({})
        self.clear([])

    def apply(self, request: Request) -> Outcome:
        try:
            return Outcome("", plain(self._database.apply(*request, 0.0) or None))
        except ConditionFailed as refused:
            return Outcome("ConditionalCheckFailedException", plain(refused.item or None))
        except TransactionCanceled as canceled:
            reasons = zip(canceled.reasons, canceled.items, strict=True)
            shown = [[code, plain(item or None)] for code, item in reasons]
            return Outcome("TransactionCanceledException", shown, why=self._why(canceled, request[1]))
        except ServiceError as error:
            return Outcome(error.code, None, why=str(error))
        except NotImplementedError:
            return Outcome(UNSUPPORTED, None)

    def _why(self, canceled: TransactionCanceled, request: dict[str, Any]) -> str:
        """Why writes of a canceled transaction are invalid: the error that each has on its own, too."""
        found = []
        for reason, item in zip(canceled.reasons, request["TransactItems"], strict=True):
            if reason == "ValidationError":
                ((name, write),) = item.items()
                found.append(self.apply((f"{name}Item", write)).why)
        return "; ".join(found)

    def rows(self, table: str) -> list[Item]:
        found = self._database.find(table)
        return _in_order([] if found is None else found.items())

    def clear(self, tables: list[str]) -> None:
        self._database = Database({name: tuple(keys) for name, keys in TABLES.items()})


class Real:
    """An engine, over one connection that stays open."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=60)
        self._run, self._cases = os.urandom(4).hex(), 0
        self._engine = engine
        for table in TABLES:
            self._make_anew(table)  # another test may have left it

    def apply(self, request: Request) -> Outcome:
        operation, content = request
        if "ClientRequestToken" in content:  # an engine remembers those of cases before
            token = f"{content['ClientRequestToken'][:20]}-{self._run}{self._cases}"
            content = content | {"ClientRequestToken": token}
        status, answer = self._send(operation, content)
        if status == 200:
            return Outcome("", plain(answer.get("Item") or answer.get("Attributes") or None))
        code = answer.get("__type", f"{status}").rpartition("#")[2]
        if "CancellationReasons" in answer:
            reasons = answer["CancellationReasons"]
            return Outcome(code, [[reason.get("Code"), plain(reason.get("Item") or None)] for reason in reasons])
        why = answer.get("message") or answer.get("Message") or ""
        return Outcome(code, plain(answer.get("Item") or None), why=why)

    def rows(self, table: str) -> list[Item]:
        _, answer = self._send("Scan", {"TableName": table, "ConsistentRead": True})
        return _in_order(answer["Items"])

    def clear(self, tables: list[str]) -> None:
        self._cases += 1
        for table in tables:
            rows = self.rows(table)
            if any(not item.keys() >= TABLES[table].keys() for item in rows):  # ministack lets an update remove a key
                self._make_anew(table)
                continue
            for item in rows:
                self._send("DeleteItem", {"TableName": table, "Key": {key: item[key] for key in TABLES[table]}})

    def close(self) -> None:
        for table in TABLES:
            self._send("DeleteTable", {"TableName": table})
        self._connection.close()

    def _make_anew(self, table: str) -> None:
        self._send("DeleteTable", {"TableName": table})
        (kind,) = set(TABLES[table].values())
        self._engine.create_table(table, *TABLES[table], kind=kind)

    def _send(self, operation: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            return self._once(operation, content)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):  # it had been idle
            self._connection.close()
            return self._once(operation, content)

    def _once(self, operation: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self._connection.request("POST", "/", json.dumps(content).encode(), request_headers(operation))
        response = self._connection.getresponse()
        return response.status, json.loads(response.read() or b"{}")


Compared: TypeAlias = InMemory | Real


def _in_order(items: list[Item]) -> list[Item]:
    return sorted((plain(item) for item in items), key=json.dumps)


def plain(item: Item | None) -> Any:
    """An item in a form that is equal for equal items: sets have no order, nor do names. Texts of numbers count."""
    return None if item is None else {name: _plain(item[name]) for name in sorted(item)}


def _plain(value: Any) -> Any:
    if len(value) != 1:
        return value
    ((kind, content),) = value.items()
    if kind == "M":
        return {kind: plain(content)}
    if kind == "L":
        return {kind: [_plain(element) for element in content]}
    if kind in ("SS", "BS", "NS"):
        return {kind: sorted(content)}
    return {kind: content}
