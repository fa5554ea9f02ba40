"""The requests as DynamoDB JSON: claim, take over, renew, release, read. By design, each has one condition.

| request      | condition                                                    | effect                                |
|--------------|--------------------------------------------------------------|---------------------------------------|
| claim        | no version (of any schema), or released                      | new owner, version, lease, token      |
| take over    | version = the one observed                                   | the same                              |
| … an event   | … and completedUntil absent, or as observed and passed       | the same; an old result goes (rule 11)|
| renew        | owner and token mine, not released, version < the new one    | new version and lease                 |
| resume, park | the same, with the owner seen                                | and a new owner                       |
| adopt        | the same                                                     | and the next token                    |
| release      | owner and token (or version) mine, not released              | released (event: completed) or deleted|
| read         | none (a consistent read)                                     | none                                  |

Forgetting an event has a request of its own (forget.py).

A hold has a *slot*: a row of its own, or an entry of a semaphore's row (permits.py). An Update knows how the owner,
version, token and expiry of its slot are written and compared. The requests themselves are written once, for any slot.

Every write asks for the existing row in case its condition fails. So a contended claim gets the holder's row in its
first reply. (Source: ReturnValuesOnConditionCheckFailure in UpdateItem, DynamoDB API reference.)
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64  # built in and free; base64 would import struct and re

from .row import RELEASED, Row, names_used, read_row, split_result
from .schema import RESULT_OF

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
    """Builds a write to a slot: here, to a row that has one holder.

    Its expressions name an attribute by the schema's field, as in ``#owner = :owner``: DynamoDB reserves 573 words.
    """

    #: The fields of a schema that expressions name. None of them begins with another one.
    named: tuple[str, ...] = (
        *("completed_until", "data", "held_ms", "lease", "owner", "released"),
        *("result", "token", "ttl", "version", "waiters"),
    )

    def __init__(self, place: Place) -> None:
        self.place = place
        self.names = {"#key": place.key_names[0]}  # besides the schema's
        self.values: Item = {}
        self.sets: list[str] = []
        self.removes: list[str] = []
        self.condition: list[str] = []

    def name(self, attribute: str) -> str:
        """Return a placeholder for a name that is not the schema's. It is short: an expression has at most 4 KB."""
        placeholder = f"#{len(self.names)}"
        self.names[placeholder] = attribute
        return placeholder

    def set(self, **fields: dict[str, Any]) -> None:
        """SET fields of the schema."""
        for field, value in fields.items():
            self.sets.append(f"#{field} = :{field}")
            self.values[f":{field}"] = value

    def expect(self, **fields: dict[str, Any] | None) -> None:
        """Require that fields of the schema have these values. None: that the attribute is absent."""
        for field, value in fields.items():
            if value is None:
                self.condition.append(f"attribute_not_exists(#{field})")
            else:
                self.condition.append(f"#{field} = :is_{field}")
                self.values[f":is_{field}"] = value

    def require(self, condition: str, **values: dict[str, Any]) -> None:
        """Add a condition. Its values are named as in the expression."""
        self.condition.append(condition)
        for name, value in values.items():
            self.values[f":{name}"] = value

    def store(
        self,
        content: Content,
        expiry_ms: int | None = None,
        completed_until: int | None = None,
        delete_data: bool = False,
    ) -> None:
        """SET the application's data and attributes. With an expiry, also SET the time to live, or REMOVE it."""
        ttl = None if expiry_ms is None else self.ttl(expiry_ms, completed_until, content.ttl)
        if ttl is not None:
            self.set(ttl=ttl)
        elif expiry_ms is not None:
            self.removes.append("#ttl")
        if delete_data:
            self.removes.append("#data")
        elif content.data is not None:
            self.values[":data"] = {"B": content.data}
            self.sets.append("#data = :data" if content.replace_data else "#data = if_not_exists(#data, :data)")
        for attribute, value in content.attributes.items():
            name = self.name(attribute)
            self.sets.append(f"{name} = :{name[1:]}")
            self.values[f":{name[1:]}"] = value

    def request(self, operation: str = "UpdateItem", **more: Any) -> Request:
        """Return the write. It declares only the names that its expressions use, because DynamoDB refuses others."""
        place = self.place
        update = f"SET {', '.join(self.sets)}" if self.sets else ""
        if self.removes:
            update = f"{update} REMOVE {', '.join(self.removes)}".lstrip()
        condition = " AND ".join(self.condition)
        text = f"{condition} {update}"
        used = {placeholder: name for placeholder, name in self.names.items() if placeholder in text}
        request = {
            "TableName": place.table,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names_used(self.named, place.schema, text) | used,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **more,
        }
        if operation != "PutItem":  # which has the key in its item
            request["Key"] = place.item_key
        if update:
            request["UpdateExpression"] = update
        if self.values:  # left out if empty, because DynamoDB refuses an empty map
            request["ExpressionAttributeValues"] = self.values
        return operation, request

    # -- how the slot's owner, version, token and expiry are written and compared

    def take(self, grant: Grant, row: Row | None, observed: str | None, queue: QueueCondition | None) -> None:
        """Write a new holder, with the next token, if nobody holds the slot; or over the version observed.

        row: the row observed, if any. queue: what is required of those who wait.
        """
        schema = self.place.schema
        self.hold(grant, None)
        self.values[":seed"] = {"N": str(grant.seed_ms)}
        self.next_token("if_not_exists(#token, :seed)")
        if schema.released is not None:
            self.removes.append("#released")
        if observed is not None:
            self.expect(version={"S": observed})
            return
        # A version under another schema's name belongs to a lock that this client cannot read. That lock is not free.
        free = f"attribute_not_exists(#version) AND {self.no_foreign_version()}"
        if schema.released is None:
            self.require(free)
        else:
            self.require(f"({free} OR #released = :released)", released={"S": RELEASED})

    def no_foreign_version(self) -> str:
        """Return the condition that there is no version under the name that another schema has for it."""
        return " AND ".join([f"attribute_not_exists({self.name(name)})" for name in self.place.schema.foreign_versions])

    def hold(self, grant: Grant, seen: str | None) -> None:
        """Write the version and lease of a grant, and its owner unless the slot has it (``seen``)."""
        fields = {} if seen == grant.owner else {"owner": {"S": grant.owner}}
        self.set(**fields, version={"S": grant.version}, lease=self.place.schema.write_lease(grant.lease_ms))

    def rise(self, grant: Grant, seen: str) -> None:
        """Continue the hold of the owner ``seen``: write a later version than the one in the slot."""
        self.hold(grant, seen)
        self.require("#version < :version")

    def next_token(self, last: str) -> None:
        """Write the token that comes after the last one."""
        self.sets.append(f"#token = {last} + :one")
        self.values[":one"] = {"N": "1"}

    def mine(self, owner: str, token: int | None, version: str | None = None) -> None:
        """Require that the slot is held under this owner, and this token or version."""
        fields: dict[str, dict[str, Any] | None] = {"owner": {"S": owner}}
        if token is not None:
            fields["token"] = {"N": str(token)}
        if version is not None:
            fields["version"] = {"S": version}
        if self.place.schema.released is not None:
            fields["released"] = None
        self.expect(**fields)

    def end(self, owner: str, format: str | None) -> None:
        """Release the slot that ``owner`` holds. format: of a semaphore's row."""
        self.set(released={"S": RELEASED})

    def ttl(self, expiry_ms: int, completed_until: int | None, ttl: int | None) -> dict[str, Any] | None:
        """Return the time to live: the later of expiry and completion, plus the configured seconds. None for no ttl."""
        seconds = self.place.schema.ttl_seconds if ttl is None else ttl
        if seconds is None:
            return None
        return {"N": str(max(-(-expiry_ms // 1000), completed_until or 0) + seconds)}


def bare_name(table: str) -> str:
    """Return the name of a table. ``table`` is its name or its ARN."""
    return table.rpartition("/")[2] if table.startswith("arn:") else table


class Place:
    """Where a hold is: in a row of its own. A permit's place, in permits.py, is an entry of a row.

    It knows the table, the names and values of the row's keys, and the schema that the row is written in. Its ``row``
    says what an item shows of it, and its ``update_type`` how its owner, version, token and expiry are written.
    """

    __slots__ = ("format", "item_key", "key", "key_names", "schema", "sort_key", "table", "where")

    noun = "lock"  # in errors
    permits: int | None = None  # how many may hold at once; None for a lock
    seal: str | None = None  # what the row has as its owner, if the row is not the holder's alone
    take = 1  # how many permits a holder takes
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
        self.table, self.schema = table, schema
        self.format: str | None = None  # of a semaphore's row, as it was seen last
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
        """Return the row of an item, None if there is no item. Raises LockFormatError if it is not a lock's."""
        return read_row(item, self.schema, self.key)

    def view(self, item: Item) -> Row:
        """Return the row of an item, without raising. What cannot be read in it is None, so never mine."""
        return Row(item, self.schema)

    def transact_item(self, owner: str, token: int) -> dict[str, Any]:
        """Return an Update for the application's own transaction. It sets the owner to itself while the lock is
        held."""
        update = self.update_type(self)
        update.set(owner={"S": self.seal or owner})
        update.mine(owner, token)
        return {"Update": update.request()[1]}


class Grant:
    """What a claim, take-over, replacement, renewal or adoption writes: the holder, and until when it holds the lock.

    expiry_ms: the expiry in ``version``, in epoch ms.
    seed_ms: the start of the tokens in a new row, in epoch ms.
    started: elapsed seconds, before its first send.
    may_land: whether it may have landed, or still land.
    struck: it is to be corrected, and never counts (rule 4 of protocol.py).
    """

    def __init__(
        self, owner: str, version: str, lease_ms: int, expiry_ms: int, seed_ms: int = 0, started: float = 0.0
    ) -> None:
        self.started = started
        self.may_land = True
        self.format: str | None = None  # of the semaphore's row that its claim writes
        self.struck = False
        self.owner = owner
        self.version = version
        self.lease_ms = lease_ms
        self.expiry_ms = expiry_ms
        self.seed_ms = seed_ms


class Completion:
    """What a release says about an event.

    until: the time until which the event counts as done, in epoch seconds.
    result: the text that duplicates get; None for none. made: by what settings, for RESULT_OF.
    """

    def __init__(self, until: int, result: str | None) -> None:
        self.until = until
        self.made, self.result = split_result(result)


class QueueCondition:
    """What a claim requires of those who wait, and what it leaves of them.

    tickets: the claim requires each of these tickets at its index, and removes them. Other tickets stay.
    alone: the claim requires that there are no others.
    behind: how many permits of a semaphore the claim leaves to those ahead. Those are what they take, not how many.
    """

    def __init__(self, tickets: dict[int, str], *, alone: bool = False, behind: int = 0) -> None:
        self.tickets = tickets
        self.alone = alone
        self.behind = behind

    def write(self, update: Update) -> None:
        """Write what the claim leaves, and its condition."""
        if not self.tickets:
            update.require("(attribute_not_exists(#waiters) OR #waiters = :nobody)", nobody={"L": []})
            return
        for index, ticket in self.tickets.items():
            update.require(f"#waiters[{index}] = :ticket{index}", **{f"ticket{index}": {"S": ticket}})
        for index in sorted(self.tickets, reverse=True):  # DynamoDB takes any order, but ministack removes one by one
            update.removes.append(f"#waiters[{index}]")
        if self.alone:
            update.require("size(#waiters) = :waiting", waiting={"N": str(len(self.tickets))})


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
    keeps_result: bool = False,
    queue: QueueCondition | None = None,
) -> Request:
    """Claim a free slot, or take one over under the version ``observed``.

    row: the row that was observed, if any.
    event: write only while its completion is as observed: absent (None), or ``completed_until``, which has passed.
    keeps_result: leave the result of that completion, because a duplicate may still be given it.
    queue: what the claim requires of those who wait. None: nothing.
    """
    update = place.update_type(place)
    update.take(grant, row, observed, queue)
    update.store(content, grant.expiry_ms, completed_until)
    if only_if_exists:
        update.require("attribute_exists(#key)")
    if event:
        update.expect(completed_until=None if completed_until is None else {"N": str(completed_until)})
        if completed_until is not None and not keeps_result:
            # Nobody is given its result any more, and each write is charged by the whole row.
            update.removes.append("#result")
    if queue is not None and place.schema.waiters is not None:
        queue.write(update)
    return update.request(ReturnValues="ALL_NEW")


def replace(
    place: Place, grant: Grant, content: Content, *, observed: Row | None, only_if_exists: bool = False
) -> Request:
    """Replace the whole row, under the version and token observed. This is the Java client's way: unknown columns go.

    Data that is not passed, and what belongs to an event (completedUntil, result), is carried over. A release keeps the
    version and token, and may have stored any of these. So the row must also still be released, or not, as observed.
    Its completion must be as observed, too: else a late replacement could bring back one that was forgotten.
    """
    schema = place.schema
    old: Item = {} if observed is None else observed.item
    token = grant.seed_ms if observed is None or observed.token is None else observed.token
    item: Item = {
        **place.item_key,
        **content.attributes,
        **{name: old[name] for name in (schema.completed_until, schema.result, RESULT_OF, schema.data) if name in old},
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
    done = old.get(schema.completed_until)
    update.expect(version=old.get(schema.version), token=old.get(schema.token), completed_until=done)
    if schema.released is not None:
        update.expect(released=old.get(schema.released))
    if only_if_exists:
        update.require("attribute_exists(#key)")
    return update.request("PutItem", Item=item)


def renew(
    place: Place,
    grant: Grant,
    *,
    token: int,
    completed_until: int | None,
    content: Content,
    delete_data: bool = False,
    seen: str | None = None,
    next_token: bool = False,
) -> Request:
    """Write a new version and lease for the slot that the owner of ``grant`` holds under ``token``.

    seen: the owner that the slot must have. The reply then has the row. None: the owner of ``grant``.
    next_token: raise the token.
    """
    update = place.update_type(place)
    update.mine(seen or grant.owner, token)
    update.rise(grant, seen or grant.owner)
    if next_token:
        update.next_token("#token")
    update.store(content, grant.expiry_ms, completed_until, delete_data)
    return update.request() if seen is None else update.request(ReturnValues="ALL_NEW")


def release(
    place: Place,
    *,
    owner: str,
    token: int | None = None,
    version: str | None = None,
    delete: bool = False,
    format: str | None = None,
    expiry_ms: int | None = None,
    completed_until: int | None = None,
    completion: Completion | None = None,
    content: Content | None = None,
    held_ms: int | None = None,
) -> Request:
    """Release the slot that ``owner`` holds under ``token``, or under ``version`` to give up a claim.

    format: of the semaphore's row in which the slot is. None: as it was seen last.
    expiry_ms: the expiry in the row's version. None leaves the ttl as it is, for a caller that does not know how long
        the row is needed: one that gives up a claim does not know until when the row's event counts as done.
    completion: the completion of an event, which is written to the row.
    content: what the application stores. None leaves what is stored.
    held_ms: how long the lock was held. None leaves what is stored.
    """
    update = place.update_type(place)
    update.mine(owner, token, version)
    if place.seal is None and (delete or place.schema.released is None):
        return update.request("DeleteItem")
    update.end(owner, format or place.format)
    if completion is not None:
        completed_until = completion.until
        update.set(completed_until={"N": str(completion.until)})
        if completion.result is None:
            update.removes.append("#result")
        else:
            update.set(result={"S": completion.result})
        if completion.made is not None:
            update.sets.append(f"{update.name(RESULT_OF)} = :made")
            update.values[":made"] = {"S": f"{completion.until}:{completion.made}"}
    # The ttl of a semaphore's row counts for its other entries, too.
    update.store(content or Content(), None if place.seal else expiry_ms, completed_until)
    if place.schema.held_ms is not None and held_ms is not None:
        update.set(held_ms={"N": str(held_ms)})
    return update.request()


def read(place: Place) -> Request:
    return "GetItem", {"TableName": place.table, "Key": place.item_key, "ConsistentRead": True}
