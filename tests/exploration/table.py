"""The table as it was at some point: each content gets a number, and each request on it is carried out once."""

import functools
import re
from typing import Any

from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled, TransportError
from lambda_lock.core.permits import entries_of, hold_of
from lambda_lock.core.row import base_of
from lambda_lock.core.schema import JAVA
from lambda_lock.testing.table import Table
from tests.simulation.network import REMEMBERED

from .canonical import form_of
from .process import KEY

APPLICATION = f"application-{KEY}"
NO_ANSWER = 0  # the number of the outcome "no answer"

_Done = frozenset[tuple[str, int]]
_Fenced = frozenset[tuple[str, int]]

assert REMEMBERED > 60, "explored lives are shorter, so a client token is never forgotten"


class Numbers:
    """A number for each of many keys, and what each of them stands for: itself, or what it is given."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.all: list[Any] = []

    def of(self, key: Any, value: Any = None) -> int:
        number = self._numbers.setdefault(key, len(self.all))
        if number == len(self.all):
            self.all.append(key if value is None else value)
        return number


class Tables:
    """Numbers for rows, contents, requests and outcomes. Equal ones have equal numbers.

    ignored: attributes that no process of the case reads. They are not kept.
    """

    def __init__(self, ignored: frozenset[str]) -> None:
        self._ignored = ignored
        self.known: dict[int, Any] = {}  # for canonical.py: the rows, by identity
        self._rows, self._contents, self._requests, self._outcomes = (Numbers() for _ in range(4))
        self.items: list[Any] = self._rows.all
        # The lock's row, the application's, the commits that were carried out (their client tokens and requests), and
        # the fenced attempts (their owners and tokens): a later attempt of the same hold has landed.
        self.contents: list[tuple[int, int, _Done, _Fenced]] = self._contents.all
        self.requests: list[tuple[str, dict[str, Any]]] = self._requests.all
        self.outcomes: list[tuple[Any, ...]] = self._outcomes.all
        self._limit = functools.cache(lambda request: _required_token(*self.requests[request]))
        self.outcome = self._outcomes.of
        #: Carries a request out on a content. Returns the content after it, and the outcome without its Date.
        self.apply = functools.cache(self._apply)
        self.outcome(("no answer",))

    def row(self, item: Any) -> int:
        if item is None:
            return -1
        number = self._rows.of(form_of({name: item[name] for name in sorted(item)}, {}), item)
        self.known.setdefault(id(self.items[number]), ("row", number))
        return number

    def item(self, row: int) -> Any:
        return None if row < 0 else self.items[row]

    def content(self, lock: Any, application: Any, done: _Done = frozenset(), fenced: _Fenced = frozenset()) -> int:
        return self._contents.of((self.row(lock), self.row(application), done, fenced))

    def lock(self, content: int) -> Any:
        return self.item(self.contents[content][0])

    def request(self, operation: str, request: dict[str, Any]) -> int:
        return self._requests.of((operation, form_of(request, self.known)), (operation, request))

    def is_futile(self, request: int, content: int) -> bool:
        """Whether the request can never be carried out any more: it requires a token below the row's. Tokens rise."""
        token = (self.lock(content) or {}).get(JAVA.token)
        return token is not None and int(token["N"]) > self._limit(request)

    def make(self, outcome: int) -> Any:
        """What the process is told."""
        kind, *what = self.outcomes[outcome]
        if kind == "no answer":
            return TransportError(True)
        if kind == "reply":
            return Reply(self.item(what[0]), what[1])
        if kind == "refused":
            return ConditionFailed(self.item(what[0]), what[1])
        if kind == "cancelled":
            return TransactionCanceled(list(what[0]), [self.item(row) for row in what[1]], what[2])
        return ServiceError(what[0], "", retryable=what[1], date=what[2])

    def conflict(self, request: int) -> tuple[Any, ...]:
        """The outcome, without its Date, of a transaction that another one prevents."""
        count = len(self.requests[request][1]["TransactItems"])
        return "cancelled", ("None",) * (count - 1) + ("TransactionConflict",), (-1,) * count

    def _apply(self, content: int, number: int) -> tuple[int, tuple[Any, ...]]:
        operation, request = self.requests[number]
        lock, application, done, fenced = self.contents[content]
        table = Table()
        for name, row in ((KEY, lock), (APPLICATION, application)):
            table.store((name,), self.item(row))
        table.done = {token: self.requests[one][1]["TransactItems"] for token, one in done}
        try:
            shown = table.apply(operation, request)
        except ConditionFailed as refused:
            return content, ("refused", self.row(refused.item))
        except TransactionCanceled as refused:
            return content, ("cancelled", tuple(refused.reasons), tuple(self.row(item) for item in refused.items))
        except ServiceError as error:
            return content, ("error", error.code, error.retryable)
        if operation == "TransactWriteItems" and request["ClientRequestToken"] not in dict(done):
            done |= {(request["ClientRequestToken"], number)}
        for item in table.items():
            for name in self._ignored & item.keys():
                del item[name]
        fenced |= _fenced(self.item(lock), table.get(KEY), request)
        after = self.content(table.get(KEY), table.get(APPLICATION), done, fenced)
        return after, ("reply", self.row(shown))


def _fenced(old: Any, new: Any, request: dict[str, Any]) -> _Fenced:
    """The attempts that this write fences, if any: another one of the hold resumes, or its string is released."""
    if old and new and "permits" in old and "permits" in new:
        before, after = (set(entries_of(item, JAVA)) for item in (old, new))
        left = set(map(hold_of, after))
        fenced = [name for name in before - after if hold_of(name) in left or is_by_string(request)]
        gone = {name: entries_of(old, JAVA)[name] for name in fenced}
        return frozenset((f"{one.prefix}#{name}", one.token) for name, one in gone.items() if one and one.token)
    if not old or not new or JAVA.released in old or JAVA.token not in old:
        return frozenset()
    before, after = old[JAVA.owner]["S"], new[JAVA.owner]["S"]
    passed_on = before != after and base_of(before) == base_of(after) and old[JAVA.token] == new.get(JAVA.token)
    return frozenset({(before, int(old[JAVA.token]["N"]))} if passed_on or is_by_string(request) else ())


def is_by_string(update: dict[str, Any]) -> bool:
    """Whether this releases a hold by its string: only then an update names isReleased, but no ttl and no version.

    A permit's has the token alone, and does not say for how long it was held. One that gives up a claim has a version.
    """
    names = set(update.get("ExpressionAttributeNames", {}).values())
    if str(JAVA.permit_tokens) in names:
        is_end = update.get("UpdateExpression", "").count("#t.#mine") == 1 and JAVA.token not in names
        return is_end and ":is_token" in update["ExpressionAttributeValues"] and JAVA.held_ms not in names
    return JAVA.released in names and not {JAVA.ttl, JAVA.version} & names


def conjuncts(condition: str) -> list[str]:
    """The parts of a condition that must all hold. Empty if it is an OR of parts."""
    depth, parts = 0, [""]
    for word in re.split(r"( AND | OR |[()])", condition):
        depth += (word == "(") - (word == ")")
        if word == " OR " and not depth:
            return []
        if word == " AND " and not depth:
            parts.append("")
        else:
            parts[-1] += word
    return parts


def _required_token(operation: str, request: dict[str, Any]) -> float:
    """The row's token that a request requires, as one of the conditions that must all hold. Infinity: none."""
    if operation == "TransactWriteItems":
        return min(_required_token("UpdateItem", item["Update"]) for item in request["TransactItems"])
    for part in conjuncts(request.get("ConditionExpression", "")):
        name, _, value = part.partition(" = ")
        if request.get("ExpressionAttributeNames", {}).get(name) == JAVA.token and " " not in value:
            return int(request["ExpressionAttributeValues"][value]["N"])
    return float("inf")
