"""The requests as DynamoDB JSON: claim, take over, renew, release, read. By design, each has one condition.

| request      | condition                                                    | effect                                |
|--------------|--------------------------------------------------------------|---------------------------------------|
| claim        | no version (of any schema), or released                      | new owner, version, lease, token      |
| take over    | version = the one observed                                   | the same                              |
| … an event   | … and completedUntil absent, or as observed and passed       | the same                              |
| renew        | owner and token mine, not released, version < the new one    | new version and lease                 |
| resume, park | the same, with the owner seen                                | and a new owner                       |
| adopt        | the same                                                     | and the next token                    |
| release      | owner and token (or version) mine, not released              | released (event: completed) or deleted|
| read         | none (a consistent read)                                     | none                                  |

A hold has a *slot*: a row of its own, or an entry of a semaphore's row (permits.py). An Update knows how the owner,
version, token and expiry of its slot are written and compared. The requests themselves are written once, for any slot.

Every write asks for the existing row in case its condition fails. So a contended claim gets the holder's row in its
first reply. (Source: ReturnValuesOnConditionCheckFailure in UpdateItem, DynamoDB API reference.)
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64  # built in and free; base64 would import struct and re

from .row import RELEASED, Row, read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    from .outcome import Item
    from .schema import Schema

    Request: TypeAlias = tuple[str, dict[str, Any]]


class Content:
    """What the application stores in the row, along with the lock.

    data: base64 text; None leaves what is stored.
    replace_data: if False, ``data`` is written only if none is stored.
    attributes: additional attributes as DynamoDB JSON.
    ttl: seconds from the expiry to the time to live; None for no time to live.
    """

    __slots__ = ("attributes", "data", "replace_data", "ttl")

    def __init__(
        self,
        data: str | None = None,
        replace_data: bool = True,
        attributes: Mapping[str, dict[str, Any]] | None = None,
        ttl: int | None = None,
    ) -> None:
        self.data = data
        self.replace_data = replace_data
        self.attributes = attributes or {}
        self.ttl = ttl


def encode_data(data: bytes | bytearray) -> str:
    """Return bytes as DynamoDB JSON represents them: as base64 text."""
    return b2a_base64(data, newline=False).decode()


def decode_data(text: str) -> bytes:
    """Return the bytes that DynamoDB JSON represents as ``text``."""
    return a2b_base64(text)


class Update:
    """Builds an UpdateItem of a slot: here, of a row that has one holder. Names and values are placeholders, because
    DynamoDB reserves 573 words."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.names: dict[str, str] = {}
        self.placeholders: dict[str, str] = {}  # by attribute
        self.values: Item = {}
        self.sets: list[str] = []
        self.removes: list[str] = []

    def name(self, attribute: str) -> str:
        placeholder = self.placeholders.get(attribute)
        if placeholder is None:
            placeholder = self.placeholders[attribute] = f"#n{len(self.names)}"
            self.names[placeholder] = attribute
        return placeholder

    def value(self, value: dict[str, Any]) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def set(self, attribute: str, value: dict[str, Any], template: str | None = None) -> str:
        """SET the attribute. Return the value's placeholder, for use in the condition."""
        name, placeholder = self.name(attribute), f":v{len(self.values)}"
        self.values[placeholder] = value
        what = placeholder if template is None else template.format(name=name, value=placeholder)
        self.sets.append(f"{name} = {what}")
        return placeholder

    def remove(self, attribute: str, index: str = "") -> None:
        self.removes.append(self.name(attribute) + index)

    def set_ttl(self, expiry_ms: int, completed_until: int | None, ttl: int | None) -> None:
        value = self.ttl(expiry_ms, completed_until, ttl)
        if value is None:
            self.remove(self.place.schema.ttl)
        else:
            self.set(self.place.schema.ttl, value)

    def store(self, content: Content) -> None:
        """SET the application's data and attributes."""
        data = self.place.schema.data
        if content.data is not None:
            template = None if content.replace_data else "if_not_exists({name}, {value})"
            self.set(data, {"B": content.data}, template)
        for attribute, value in content.attributes.items():
            self.set(attribute, value)

    def equals(self, attribute: str, value: dict[str, Any]) -> str:
        return f"{self.name(attribute)} = {self.value(value)}"

    def is_as_observed(self, attribute: str, value: dict[str, Any] | None) -> str:
        if value is None:
            return f"attribute_not_exists({self.name(attribute)})"
        return self.equals(attribute, value)

    def exists(self) -> str:
        return f"attribute_exists({self.name(self.place.key_names[0])})"

    def request(self, condition: list[str], **more: Any) -> Request:
        clauses = [("SET ", self.sets), ("REMOVE ", self.removes)]
        expression = " ".join([clause + ", ".join(parts) for clause, parts in clauses if parts])
        return "UpdateItem", self.write(condition, UpdateExpression=expression, **more)

    def write(self, condition: list[str], **more: Any) -> dict[str, Any]:
        """Return the fields of a write under a condition."""
        request = {
            "TableName": self.place.table,
            "Key": self.place.item_key,
            "ConditionExpression": " AND ".join(condition),
            "ExpressionAttributeNames": self.names,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **more,
        }
        if self.values:  # left out if empty, because DynamoDB refuses an empty map
            request["ExpressionAttributeValues"] = self.values
        return request

    # -- how the slot's owner, version, token and expiry are written and compared

    def grant(self, grant: Grant, row: Row | None) -> None:
        """Write a new holder, with the next token. row: the row observed, if any."""
        self.hold(grant.version, grant.lease_ms, grant.owner)
        one = self.value({"N": "1"})
        self.set(self.place.schema.token, {"N": str(grant.seed_ms)}, "if_not_exists({name}, {value}) + " + one)

    def take(self, row: Row | None, observed: str | None, queue: QueueCondition | None) -> list[str]:
        """Return the condition of a claim, that nobody holds the slot; or of a take-over of the version observed.

        row: the row observed, if any. queue: what is required of those who wait.
        """
        schema = self.place.schema
        if schema.released is not None:
            self.remove(schema.released)
        if observed is not None:
            return [self.equals(schema.version, {"S": observed})]
        # A version under another schema's name belongs to a lock that this client cannot read. That lock is not free.
        versions = (schema.version, *schema.foreign_versions)
        no_version = " AND ".join([f"attribute_not_exists({self.name(name)})" for name in versions])
        if schema.released is None:
            return [no_version]
        return [f"({no_version} OR {self.equals(schema.released, {'S': RELEASED})})"]

    def hold(self, version: str, lease_ms: int, owner: str | None = None) -> str:
        """Write a version and lease, and an owner if it changes. Return the placeholder of what versions are compared
        with."""
        schema = self.place.schema
        if owner is not None:
            self.set(schema.owner, {"S": owner})
        new = self.set(schema.version, {"S": version})
        self.set(schema.lease, schema.write_lease(lease_ms))
        return new

    def version(self) -> str:
        """Return the path that versions are compared with."""
        return self.name(self.place.schema.version)

    def mine(self, owner: str, token: int | None, version: str | None = None) -> list[str]:
        """Return the condition that the slot is held under this owner, and this token or version."""
        schema = self.place.schema
        mine = [self.equals(schema.owner, {"S": owner})]
        if token is not None:
            mine.append(self.equals(schema.token, {"N": str(token)}))
        if version is not None:
            mine.append(self.equals(schema.version, {"S": version}))
        return mine + self.not_released()

    def not_released(self) -> list[str]:
        released = self.place.schema.released
        return [] if released is None else [f"attribute_not_exists({self.name(released)})"]

    def end(self) -> None:
        """Release the slot."""
        assert self.place.schema.released is not None, "rows of this schema are deleted on release"
        self.set(self.place.schema.released, {"S": RELEASED})

    def ttl(self, expiry_ms: int, completed_until: int | None, ttl: int | None) -> dict[str, Any] | None:
        """Return the time to live: the later of expiry and completion, plus the configured seconds. None for no ttl."""
        seconds = self.place.schema.ttl_seconds if ttl is None else ttl
        if seconds is None:
            return None
        return {"N": str(max(-(-expiry_ms // 1000), completed_until or 0) + seconds)}


class Place:
    """Where a hold is: in a row of its own. A permit's place, in permits.py, is an entry of a row.

    It knows the table, the names and values of the row's keys, and the schema that the row is written in. Its ``row``
    says what an item shows of it, and its ``update_type`` how its owner, version, token and expiry are written.
    """

    __slots__ = ("item_key", "key", "key_names", "schema", "sort_key", "table", "where")

    noun = "lock"  # in errors
    permits: int | None = None  # how many may hold at once; None for a lock
    seal: str | None = None  # what the row has as its owner, if the row is not the holder's alone
    update_type = Update  # builds the writes to this slot

    def __init__(
        self,
        table: str,
        schema: Schema,
        partition_key_name: str,
        key: str,
        sort_key_name: str | None,
        sort_key: str | None,
    ) -> None:
        self.table = table
        self.schema = schema
        self.key = key
        self.sort_key = sort_key
        self.where = (key, sort_key)
        self.item_key: Item = {partition_key_name: {"S": key}}
        self.key_names: tuple[str, ...] = (partition_key_name,)
        if sort_key_name is not None:
            self.item_key[sort_key_name] = {"S": sort_key}
            self.key_names = (partition_key_name, sort_key_name)

    def is_of(self, item: Item | None) -> bool:
        """Return whether an item can be here: it has this key, or there is no item."""
        return not item or all(item.get(name) == value for name, value in self.item_key.items())

    def row(self, item: Item | None) -> Row | None:
        """Return the row of an item, None if there is no item. Raises LockFormatError for what is not a lock's."""
        return read_row(item, self.schema, self.key)

    def view(self, item: Item) -> Row:
        """Return the row of an item as it is. Anything unreadable in it is not mine."""
        return Row(item, self.schema)

    def transact_item(self, owner: str, token: int) -> dict[str, Any]:
        """Return an Update for the application's own transaction. It sets the owner to itself while the lock is
        held."""
        update = self.update_type(self)
        update.set(self.schema.owner, {"S": self.seal or owner})
        return {"Update": update.request(update.mine(owner, token))[1]}


class Grant:
    """What a claim, take-over, replacement or adoption writes: the row's new holder, and until when it holds the lock.

    expiry_ms: the expiry in ``version``, in epoch ms.
    seed_ms: the start of the tokens in a new row, in epoch ms.
    """

    __slots__ = ("expiry_ms", "lease_ms", "owner", "seed_ms", "version")

    def __init__(self, owner: str, version: str, lease_ms: int, expiry_ms: int, seed_ms: int) -> None:
        self.owner = owner
        self.version = version
        self.lease_ms = lease_ms
        self.expiry_ms = expiry_ms
        self.seed_ms = seed_ms


class Completion:
    """What a release says about an event.

    until: the time until which the event counts as done, in epoch seconds.
    result: the text that duplicates get; None for none.
    """

    __slots__ = ("result", "until")

    def __init__(self, until: int, result: str | None) -> None:
        self.until = until
        self.result = result


class QueueCondition:
    """What a claim requires of those who wait, and what it leaves of them.

    tickets: the claim requires each of these tickets at its index, and removes them. Whoever else is there stays.
    alone: there are no others.
    behind: how many permits of a semaphore the claim leaves to those ahead.
    """

    __slots__ = ("alone", "behind", "tickets")

    def __init__(self, tickets: dict[int, str], *, alone: bool = False, behind: int = 0) -> None:
        self.tickets = tickets
        self.alone = alone
        self.behind = behind

    def write(self, update: Update, waiters: str) -> str:
        """Write what the claim leaves, and return its condition."""
        name = update.name(waiters)
        if not self.tickets:
            return f"(attribute_not_exists({name}) OR {update.equals(waiters, {'L': []})})"
        condition = [f"{name}[{index}] = {update.value({'S': ticket})}" for index, ticket in self.tickets.items()]
        for index in sorted(self.tickets, reverse=True):  # DynamoDB takes any order, but ministack removes one by one
            update.remove(waiters, f"[{index}]")
        if self.alone:
            condition.append(f"size({name}) = {update.value({'N': str(len(self.tickets))})}")
        return " AND ".join(condition)


NOBODY_WAITS = QueueCondition({}, alone=True)


def claim(
    place: Place,
    grant: Grant,
    content: Content,
    *,
    observed: str | None = None,
    row: Row | None = None,
    only_if_exists: bool = False,
    event: bool = False,
    completed_until: int | None = None,
    queue: QueueCondition | None = None,
) -> Request:
    """Claim a free slot, or take one over under the version ``observed``.

    row: the row that was observed, if any.
    event: write only while the event's completion is as observed: absent (``completed_until`` None), or
        ``completed_until``, which has passed.
    queue: what it requires of those who wait. None: nothing.
    """
    schema = place.schema
    update = place.update_type(place)
    update.grant(grant, row)
    update.set_ttl(grant.expiry_ms, completed_until, content.ttl)
    update.store(content)
    condition = update.take(row, observed, queue)
    if only_if_exists:
        condition.append(update.exists())
    if event:
        completed = None if completed_until is None else {"N": str(completed_until)}
        condition.append(update.is_as_observed(schema.completed_until, completed))
    if queue is not None and schema.waiters is not None:
        condition.append(queue.write(update, schema.waiters))
    return update.request(condition, ReturnValues="ALL_NEW")


def replace(
    place: Place, grant: Grant, content: Content, *, observed: Row | None, only_if_exists: bool = False
) -> Request:
    """Replace the whole row, under the version and token observed. This is the Java client's way: unknown columns go.

    Data that is not passed, and what belongs to an event (completedUntil, result), is carried over. A release keeps the
    version and token, and may have stored any of these. So the row must also still be released, or not, as observed.
    """
    schema = place.schema
    old: Item = {} if observed is None else observed.item
    token = grant.seed_ms if observed is None or observed.token is None else observed.token
    item: Item = {
        **place.item_key,
        **content.attributes,
        **{name: old[name] for name in (schema.completed_until, schema.result, schema.data) if name in old},
        schema.owner: {"S": grant.owner},
        schema.version: {"S": grant.version},
        schema.lease: schema.write_lease(grant.lease_ms),
        schema.token: {"N": str(token + 1)},
    }
    if content.data is not None and (content.replace_data or schema.data not in old):
        item[schema.data] = {"B": content.data}
    update = Update(place)
    ttl = update.ttl(grant.expiry_ms, observed.completed_until if observed else None, content.ttl)
    if ttl is not None:
        item[schema.ttl] = ttl
    observable = [name for name in (schema.version, schema.token, schema.released) if name is not None]
    condition = [update.is_as_observed(name, old.get(name)) for name in observable]
    if only_if_exists:
        condition.append(update.exists())
    request = update.write(condition, Item=item)
    del request["Key"]
    return "PutItem", request


def renew(
    place: Place,
    *,
    owner: str,
    token: int,
    version: str,
    lease_ms: int,
    expiry_ms: int,
    completed_until: int | None,
    content: Content,
    delete_data: bool = False,
    seen: str | None = None,
    next_token: bool = False,
) -> Request:
    """Write a new version and lease for the slot that ``owner`` holds under ``token``.

    seen: the owner in the row, if the hold goes on from there as ``owner``. The reply then has the row.
    next_token: raise the token.
    """
    schema = place.schema
    update = place.update_type(place)
    new = update.hold(version, lease_ms, None if seen in (None, owner) else owner)
    if next_token:
        update.set(schema.token, {"N": "1"}, "{name} + {value}")
    update.set_ttl(expiry_ms, completed_until, content.ttl)
    if delete_data:
        update.remove(schema.data)
    else:
        update.store(content)
    condition = update.mine(seen or owner, token)
    condition.append(f"{update.version()} < {new}")
    return update.request(condition) if seen is None else update.request(condition, ReturnValues="ALL_NEW")


def release(
    place: Place,
    *,
    owner: str,
    token: int | None = None,
    version: str | None = None,
    delete: bool = False,
    expiry_ms: int | None = None,
    completed_until: int | None = None,
    completion: Completion | None = None,
    content: Content,
    held_ms: int | None = None,
) -> Request:
    """Release the slot that ``owner`` holds under ``token``, or under ``version`` to give up a claim.

    expiry_ms: the expiry in the row's version. None leaves the ttl as it is, for those who do not know how long the
        row is needed: who gives up a claim does not know until when the row's event counts as done.
    completion: the completion of an event, which is written to the row.
    held_ms: how long the lock was held. None leaves what is stored.
    """
    schema = place.schema
    update = place.update_type(place)
    condition = update.mine(owner, token, version)
    if place.seal is None and (delete or schema.released is None):
        return "DeleteItem", update.write(condition)
    update.end()
    if completion is not None:
        completed_until = completion.until
        update.set(schema.completed_until, {"N": str(completion.until)})
        if completion.result is None:
            update.remove(schema.result)
        else:
            update.set(schema.result, {"S": completion.result})
    if expiry_ms is not None and place.seal is None:  # the ttl of a semaphore's row counts for its other entries, too
        update.set_ttl(expiry_ms, completed_until, content.ttl)
    update.store(content)
    if schema.held_ms is not None and held_ms is not None:
        update.set(schema.held_ms, {"N": str(held_ms)})
    return update.request(condition)


def unguarded_item(place: Place) -> dict[str, Any]:
    """Return an Update that is never refused and changes nothing that locks use."""
    names = {"#n0": "lambdaLockDisabled"}
    return {
        "Update": {
            "TableName": place.table,
            "Key": place.item_key,
            "UpdateExpression": "REMOVE #n0",
            "ExpressionAttributeNames": names,
        }
    }


def commit(items: list[dict[str, Any]], last: Request, client_token: str) -> Request:
    """Carry out the application's writes and the lock's ``last`` write, all or none. The same client token means the
    same commit."""
    return "TransactWriteItems", {"TransactItems": [*items, {"Update": last[1]}], "ClientRequestToken": client_token}


def read(place: Place) -> Request:
    return "GetItem", {"TableName": place.table, "Key": place.item_key, "ConsistentRead": True}
