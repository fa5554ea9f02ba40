"""The five requests as DynamoDB's JSON: claim, take over, renew, release, read. DESIGN: each has one condition.

| request   | condition                                                  | effect                                   |
|-----------|------------------------------------------------------------|------------------------------------------|
| claim     | no version (of any schema), or released                    | new owner, version, lease, token         |
| take over | version = the one observed                                 | the same                                 |
| renew     | owner and token mine, not released, version < the new one  | new version and lease                    |
| release   | owner and token (or version) mine, not released            | released, or gone                        |
| read      | consistent                                                 | nothing                                  |

Every write asks for what stood there when its condition fails, so a contended claim has the holder's row in its very
first reply. (ReturnValuesOnConditionCheckFailure: DynamoDB API reference, UpdateItem.)
"""

from __future__ import annotations

from binascii import b2a_base64  # built in: costs nothing, base64 would import struct and re

from .row import RELEASED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    from .outcome import Item
    from .row import Schema

    Request: TypeAlias = tuple[str, dict[str, Any]]


class Place:
    """Where a lock's row stands: table, key names and values, and the schema it is written in."""

    __slots__ = ("item_key", "key", "key_names", "schema", "sort_key", "table", "where")

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


class Content:
    """What the application wants in the row beside the lock.

    data: base64 text, None to leave what is stored. replace_data False writes data only where none is stored.
    attributes: DynamoDB's JSON. ttl: seconds added to the expiry, None for no time to live.
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


def encode_data(data: bytes) -> str:
    """Bytes as DynamoDB's JSON has them."""
    return b2a_base64(data, newline=False).decode()


class _Update:
    """An UpdateItem in the making: names and values are placeholders, since DynamoDB reserves 573 words."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.names: dict[str, str] = {}
        self.values: Item = {}
        self.sets: list[str] = []
        self.removes: list[str] = []

    def name(self, attribute: str) -> str:
        placeholder = f"#n{len(self.names)}"
        for known, name in self.names.items():
            if name == attribute:
                return known
        self.names[placeholder] = attribute
        return placeholder

    def value(self, value: dict[str, Any]) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def set(self, attribute: str, value: dict[str, Any], template: str = "{value}") -> str:
        """SET the attribute; returns the value's placeholder, for use in the condition."""
        name, placeholder = self.name(attribute), self.value(value)
        self.sets.append(f"{name} = " + template.format(name=name, value=placeholder))
        return placeholder

    def remove(self, attribute: str) -> None:
        self.removes.append(self.name(attribute))

    def set_ttl(self, expiry_ms: int, completed_until: int | None, ttl: int | None) -> None:
        """The later of expiry and completion plus the configured time, or no ttl at all."""
        schema = self.place.schema
        seconds = schema.ttl_seconds if ttl is None else ttl
        if seconds is None:
            self.remove(schema.ttl)
            return
        end = max(-(-expiry_ms // 1000), completed_until or 0)
        self.set(schema.ttl, {"N": str(end + seconds)})

    def not_released(self) -> list[str]:
        released = self.place.schema.released
        return [] if released is None else [f"attribute_not_exists({self.name(released)})"]

    def request(self, condition: list[str], **more: Any) -> Request:
        expression = "SET " + ", ".join(self.sets)
        if self.removes:
            expression += " REMOVE " + ", ".join(self.removes)
        return "UpdateItem", _write(self, condition, UpdateExpression=expression, **more)


def _write(update: _Update, condition: list[str], **more: Any) -> dict[str, Any]:
    return {
        "TableName": update.place.table,
        "Key": update.place.item_key,
        "ConditionExpression": " AND ".join(condition),
        "ExpressionAttributeNames": update.names,
        "ExpressionAttributeValues": update.values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **more,
    }


def claim(
    place: Place,
    *,
    owner: str,
    version: str,
    lease_ms: int,
    expiry_ms: int,
    seed_ms: int,
    content: Content,
    observed: str | None = None,
    only_if_exists: bool = False,
) -> Request:
    """Claim a free lock, or take over under the version ``observed``. ``seed_ms`` starts a new row's tokens."""
    schema = place.schema
    update = _Update(place)
    update.set(schema.owner, {"S": owner})
    update.set(schema.version, {"S": version})
    update.set(schema.lease, schema.write_lease(lease_ms))
    one = update.value({"N": "1"})
    update.set(schema.token, {"N": str(seed_ms)}, "if_not_exists({name}, {value}) + " + one)
    update.set_ttl(expiry_ms, None, content.ttl)
    if content.data is not None:
        update.set(
            schema.data, {"B": content.data}, "{value}" if content.replace_data else "if_not_exists({name}, {value})"
        )
    for attribute, value in content.attributes.items():
        update.set(attribute, value)
    if schema.released is not None:
        update.remove(schema.released)
    condition = [
        _is_free(update) if observed is None else f"{update.name(schema.version)} = {update.value({'S': observed})}"
    ]
    if only_if_exists:
        condition.append(f"attribute_exists({update.name(place.key_names[0])})")
    return update.request(condition, ReturnValues="ALL_NEW")


def _is_free(update: _Update) -> str:
    schema = update.place.schema
    # A version under another schema's name is a lock that this client cannot read, which is not the same as a free one.
    no_version = " AND ".join(
        f"attribute_not_exists({update.name(name)})" for name in (schema.version, *schema.foreign_versions)
    )
    if schema.released is None:
        return no_version
    return f"({no_version} OR {update.name(schema.released)} = {update.value({'S': RELEASED})})"


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
) -> Request:
    """A new version and lease for the lock that ``owner`` holds under ``token``."""
    schema = place.schema
    update = _Update(place)
    new = update.set(schema.version, {"S": version})
    update.set(schema.lease, schema.write_lease(lease_ms))
    update.set_ttl(expiry_ms, completed_until, content.ttl)
    if delete_data:
        update.remove(schema.data)
    elif content.data is not None:
        update.set(schema.data, {"B": content.data})
    mine = _is_mine(update, owner, token)
    return update.request([*mine, *update.not_released(), f"{update.name(schema.version)} < {new}"])


def release(
    place: Place,
    *,
    owner: str,
    token: int | None = None,
    version: str | None = None,
    delete: bool,
    expiry_ms: int,
    completed_until: int | None = None,
    content: Content,
) -> Request:
    """Release what ``owner`` holds under ``token``, or (giving up a claim) under ``version``."""
    schema = place.schema
    update = _Update(place)
    mine = _is_mine(update, owner, token)
    if version is not None:
        mine.append(f"{update.name(schema.version)} = {update.value({'S': version})}")
    condition = [*mine, *update.not_released()]
    if delete or schema.released is None:
        return "DeleteItem", _write(update, condition)
    update.set(schema.released, {"S": RELEASED})
    update.set_ttl(expiry_ms, completed_until, content.ttl)
    if content.data is not None:
        update.set(schema.data, {"B": content.data})
    return update.request(condition)


def _is_mine(update: _Update, owner: str, token: int | None) -> list[str]:
    schema = update.place.schema
    mine = [f"{update.name(schema.owner)} = {update.value({'S': owner})}"]
    if token is not None:
        mine.append(f"{update.name(schema.token)} = {update.value({'N': str(token)})}")
    return mine


def read(place: Place) -> Request:
    return "GetItem", {"TableName": place.table, "Key": place.item_key, "ConsistentRead": True}
