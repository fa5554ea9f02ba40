"""`LockClient.list`: the records of a table or of one of its partitions, page by page. Loaded when it is used."""

from __future__ import annotations

from ..core.outcome import unusable
from ..core.requests import Place
from ..core.row import Row
from ..errors import LockConfigurationError
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..core.outcome import Item, Reply
    from ..core.requests import Request
    from ..core.schema import Schema
    from .record import LockRecord
    from .session import Session

MOST_PAGES = 100_000  # of one list: a page has up to 1 MB (API reference, Scan), so this is 100 GB


class Pages:
    """`request` returns the request for the next page, or None after the last. `records` yields those in a reply.

    A list ends, whatever the answers say: pages that lead in a circle are noticed, and there are at most MOST_PAGES.
    """

    def __init__(
        self, table: str, schema: Schema, partition_key_name: str, sort_key_name: str | None, key: str | None
    ) -> None:
        self.place = Place(table, schema, partition_key_name, key or "", sort_key_name, None)
        self._names = (partition_key_name, sort_key_name)
        self._request: dict[str, Any] | None = {"TableName": table, "ConsistentRead": True}
        self._operation = "Scan"
        self._count = 0
        self._mark: object = None  # where a page began: the last one whose number was a power of two
        if key is not None:
            self._operation = "Query"
            self._request |= {
                "KeyConditionExpression": "#k = :k",
                "ExpressionAttributeNames": {"#k": partition_key_name},
                "ExpressionAttributeValues": {":k": {"S": key}},
            }

    def request(self) -> Request | None:
        return None if self._request is None else (self._operation, self._request)

    def records(self, reply: Reply) -> Iterator[LockRecord]:
        from .record import LockRecord

        for place, item in self.rows(reply):
            row = Row(item, self.place.schema)
            if row.version is not None:  # else it is not a lock's row, or written in another schema
                yield LockRecord(row, place, reply.date)

    def rows(self, reply: Reply) -> Iterator[tuple[Place, Item]]:
        """All rows in a reply, also those that are not a lock's, and where they are."""
        page: dict[str, Any] = reply.item or {}
        self._request = self._next(self._request or {}, page.get("LastEvaluatedKey"))
        for item in page.get("Items", []):
            partition_key_name, sort_key_name = self._names
            key = self._key_of(item, partition_key_name)
            sort_key = None if sort_key_name is None else self._key_of(item, sort_key_name)
            place = Place(self.place.table, self.place.schema, partition_key_name, key, sort_key_name, sort_key)
            yield place, item

    def _next(self, request: dict[str, Any], last: Any) -> dict[str, Any] | None:
        """Return the request for the next page, or None after the last.

        An answer that does not lead to a new page is refused: the same pages would be requested for ever. A circle is
        found by comparing with one page alone, after at most three times its length (Brent's algorithm).
        """
        if last is None:
            return None
        names = {name for name in self._names if name is not None}
        if not isinstance(last, dict) or names - last.keys() or last == self._mark:
            raise unusable("a page of a Scan or Query does not say where the next page begins")
        self._count += 1
        if self._count >= MOST_PAGES:
            raise unusable(f"a Scan or Query has more than {MOST_PAGES} pages")
        if self._count & (self._count - 1) == 0:
            self._mark = last
        return {**request, "ExclusiveStartKey": last}

    def _key_of(self, item: Item, name: str) -> str:
        key: str | None = item.get(name, {}).get("S")
        if key is None:
            raise LockConfigurationError(
                f"table {self.place.table!r} does not have the key {name!r} (string). Set partition_key_name= and "
                "sort_key_name= (or LAMBDA_LOCK_PARTITION_KEY, LAMBDA_LOCK_SORT_KEY) to the table's own names"
            )
        return key


def pages_of(session: Session, key: str | None) -> Pages:
    """What `LockClient.list` reads, page by page."""
    session.check_open()
    if key is not None:
        checks.key_text("key", key)
    table, partition_key_name, sort_key_name = session.settings.names()
    return Pages(table, session.settings.schema, partition_key_name, sort_key_name, key)
