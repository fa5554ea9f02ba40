"""The lock table itself: create it, see whether it exists, check it.

These functions are for administration and need more than a lock's four permissions. In production, the CDK construct or
a template creates the table; these functions are for tests, scripts and the command line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping  # loaded by every Python
from contextlib import contextmanager  # the Lambda runtime has it loaded

from .client import checks
from .core.outcome import (
    ConditionFailed,
    ServiceError,
    TransactionCanceled,
    TransportError,
    another_answer,
    unusable,
)
from .errors import LockArgumentError, LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .transport import Transport

_POLL = 0.25  # seconds between two looks at a table that is being created
_SEND = 10.0  # seconds for one request
_TRIES = 5
_STARTING = 5.0  # seconds of trying again while no connection is accepted: a local engine may have just been started


def create_table(
    name: str,
    *,
    read_capacity: int | None = None,
    write_capacity: int | None = None,
    tags: Mapping[str, str] | None = None,
    partition_key_name: str = "key",
    sort_key_name: str | None = None,
    ttl: str | None = "ttl",
    wait: float = 60.0,
    region_name: str | None = None,
    endpoint_url: str | None = None,
    transport: Transport | None = None,
) -> None:
    """Create a lock table and wait until it is active.

    name: the table's name, 3 to 255 letters, digits, '_', '-' and '.'.
    read_capacity, write_capacity: provisioned capacity units, 1 or more. Pass both, or neither for on-demand billing.
    tags: the table's tags, from names to values.
    partition_key_name: the name of the partition key, a string attribute.
    sort_key_name: the name of the sort key, a string attribute; None for a table without a sort key.
    ttl: the attribute for DynamoDB's time to live; None for none.
    wait: how long to wait until the table is active, in seconds, 0 or more. Time to live is switched on after that, so
        with 0 there is no wait and no time to live.
    region_name, endpoint_url, transport: as for LockClient.

    Returns None. Needs dynamodb:CreateTable, DescribeTable, UpdateTimeToLive and, with tags, TagResource.

    Raises LockConfigurationError if the table exists, if DynamoDB refuses a request (a permission is missing), if the
    table is not active in time, or if the Region, endpoint or credentials cannot be used. Raises TransportError if
    DynamoDB does not answer. Raises LockArgumentError or TypeError for bad arguments.

    Example::

        create_table("locks", tags={"team": "orders"})
    """
    checks.table_name(name)
    checks.seconds("wait", wait, least=0.0)
    roles = {checks.attribute_name("partition_key_name", partition_key_name): "HASH"}
    if sort_key_name is not None:
        if sort_key_name == partition_key_name:
            raise LockArgumentError(f"sort_key_name={sort_key_name!r} is the partition key already: use another name")
        roles[checks.attribute_name("sort_key_name", sort_key_name)] = "RANGE"
    request: dict[str, Any] = {
        "TableName": name,
        "KeySchema": [{"AttributeName": key, "KeyType": role} for key, role in roles.items()],
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in roles],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if (read_capacity is None) != (write_capacity is None):
        raise LockArgumentError(
            f"read_capacity={read_capacity!r} and write_capacity={write_capacity!r}: pass both, or neither"
        )
    if read_capacity is not None:
        request["BillingMode"] = "PROVISIONED"
        request["ProvisionedThroughput"] = {
            "ReadCapacityUnits": checks.whole("read_capacity", read_capacity, least=1),
            "WriteCapacityUnits": checks.whole("write_capacity", write_capacity, least=1),
        }
    if ttl is not None and checks.attribute_name("ttl", ttl) in (partition_key_name, sort_key_name):
        raise LockArgumentError(f"ttl={ttl!r} is a key of the table: name another attribute, which holds a number")
    if tags is not None:
        request["Tags"] = _tags(tags)
    with _opened(transport, region_name, endpoint_url) as opened:
        _send(opened, "CreateTable", request, repeated="ResourceInUseException")
        if not wait:
            return
        end = time.monotonic() + wait
        while _status(opened, name) != "ACTIVE":
            if time.monotonic() >= end:
                raise LockConfigurationError(
                    f"table {name!r} was not active after {wait:g} s: check its status, or pass a longer wait="
                )
            time.sleep(_POLL)
        if ttl is not None:
            _set_time_to_live(opened, name, ttl)


def table_exists(
    name: str, *, region_name: str | None = None, endpoint_url: str | None = None, transport: Transport | None = None
) -> bool:
    """Return whether the table exists and is active.

    name: the table's name.
    region_name, endpoint_url, transport: as for LockClient.

    Returns True for an active table, also while it is being updated, and False otherwise. Needs dynamodb:DescribeTable.

    Raises LockConfigurationError if DynamoDB refuses the request (a permission is missing) or if the Region, endpoint
    or credentials cannot be used. Raises TransportError if DynamoDB does not answer. Raises LockArgumentError or
    TypeError for bad arguments.

    Example::

        if not table_exists("locks"):
            create_table("locks")
    """
    checks.table_name(name)
    with _opened(transport, region_name, endpoint_url) as opened:
        return _status(opened, name) in ("ACTIVE", "UPDATING")


def check_table(
    name: str,
    *,
    partition_key_name: str = "key",
    sort_key_name: str | None = None,
    ttl: str | None = "ttl",
    region_name: str | None = None,
    endpoint_url: str | None = None,
    transport: Transport | None = None,
) -> None:
    """Check that a table is suitable for locks: its keys, its time to live, and that it is not a multi-Region table.

    name: the table's name.
    partition_key_name: the expected name of the partition key.
    sort_key_name: the expected name of the sort key; None if the table should not have one.
    ttl: the attribute expected for time to live; None if time to live should be off.
    region_name, endpoint_url, transport: as for LockClient.

    Returns None if everything is right. Needs dynamodb:DescribeTable and DescribeTimeToLive.

    Raises LockConfigurationError that lists everything that is wrong, or if the table does not exist; also if DynamoDB
    refuses a request (a permission is missing) or if the Region, endpoint or credentials cannot be used. Raises
    TransportError if DynamoDB does not answer. Raises LockArgumentError or TypeError for bad arguments.

    Example::

        check_table("locks", partition_key_name="id", ttl="expires")
    """
    checks.table_name(name)
    with _opened(transport, region_name, endpoint_url) as opened:
        table = _describe(opened, name)
        if table is None:
            region = f"Region {getattr(opened, 'region', None) or ''}".rstrip()
            raise LockConfigurationError(
                f"there is no table {name!r} in this account and {region}: create it (lambda-lock table create), or "
                "check the Region and the endpoint"
            )
        faults = _key_faults(table, partition_key_name, sort_key_name)
        is_strong = table.get("MultiRegionConsistency") == "STRONG"
        regions = [replica["RegionName"] for replica in table.get("Replicas", [])]
        if is_strong:
            faults.append(
                f"it has multi-Region strong consistency, with replicas in {', '.join(regions)}: there is no time to "
                "live and no transaction, so rows stay and commit is refused. Locks were not tried on such tables"
            )
        elif regions:
            faults.append(f"it is replicated to {', '.join(regions)}: two Regions would each grant the same lock")
        if not is_strong:  # else it cannot have a time to live
            found = _time_to_live(opened, name)
            if found != ttl:
                but = "but should be" if None in (found, ttl) else "not"
                now, wanted = ("off" if attribute is None else f"on {attribute!r}" for attribute in (found, ttl))
                faults.append(f"its time to live is {now}, {but} {wanted}")
    if faults:
        raise LockConfigurationError(f"table {name!r} is not suitable for locks: {'; '.join(faults)}")


def restored_to(
    name: str, *, region_name: str | None = None, endpoint_url: str | None = None, transport: Transport | None = None
) -> float | None:
    """Return the time that a table was restored to, in epoch seconds. None if DynamoDB knows of no restore.

    name: the table's name.
    region_name, endpoint_url, transport: as for LockClient.

    Needs dynamodb:DescribeTable. Raises LockConfigurationError also if there is no such table, and otherwise what
    `table_exists` raises.

    Example::

        moment = restored_to("locks-restored")
    """
    checks.table_name(name)
    with _opened(transport, region_name, endpoint_url) as opened:
        summary = _send(opened, "DescribeTable", {"TableName": name})["Table"].get("RestoreSummary") or {}
        moment: Any = summary.get("RestoreDateTime")  # a number; boto3 makes a datetime of it
        when: float | None = moment.timestamp() if hasattr(moment, "timestamp") else moment
        return when


def set_time_to_live_and_tags(
    name: str,
    *,
    ttl: str | None = "ttl",
    tags: Mapping[str, str] | None = None,
    region_name: str | None = None,
    endpoint_url: str | None = None,
    transport: Transport | None = None,
) -> None:
    """Set what a restore does not restore: the time to live, and tags.

    name: the table's name.
    ttl: the attribute for DynamoDB's time to live; None: leave it as it is.
    tags: tags to add, from names to values; None: none.
    region_name, endpoint_url, transport: as for LockClient.

    Returns None. Needs dynamodb:DescribeTimeToLive and UpdateTimeToLive, and with tags DescribeTable and TagResource.
    Raises what `create_table` raises.

    Example::

        set_time_to_live_and_tags("locks-restored", tags={"team": "orders"})
    """
    checks.table_name(name)
    if ttl is not None:
        checks.attribute_name("ttl", ttl)
    listed = _tags(tags or {})
    with _opened(transport, region_name, endpoint_url) as opened:
        if ttl is not None and _time_to_live(opened, name) != ttl:
            _set_time_to_live(opened, name, ttl)
        if listed:
            arn = _send(opened, "DescribeTable", {"TableName": name})["Table"]["TableArn"]
            _send(opened, "TagResource", {"ResourceArn": arn, "Tags": listed}, name=name)


def _time_to_live(transport: Transport, name: str) -> str | None:
    """Return the attribute of a table's time to live. None if it is off."""
    description = _send(transport, "DescribeTimeToLive", {"TableName": name}).get("TimeToLiveDescription", {})
    is_on = description.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    return description.get("AttributeName") if is_on else None


def _set_time_to_live(transport: Transport, name: str, ttl: str) -> None:
    update = {"TableName": name, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": ttl}}
    _send(transport, "UpdateTimeToLive", update, repeated="ValidationException")


def _tags(tags: object) -> list[dict[str, str]]:
    if not isinstance(tags, Mapping):
        raise TypeError(f"tags must be a dict from names to values, not {tags!r} ({type(tags).__name__})")
    for key, value in tags.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"tags: the name {key!r} and its value {value!r} must both be str")
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _key_faults(table: dict[str, Any], partition_key_name: str, sort_key_name: str | None) -> list[str]:
    types = {definition["AttributeName"]: definition["AttributeType"] for definition in table["AttributeDefinitions"]}
    keys = {key["KeyType"]: key["AttributeName"] for key in table["KeySchema"]}
    faults = []
    for role, name, wanted in (("HASH", "partition key", partition_key_name), ("RANGE", "sort key", sort_key_name)):
        found = keys.get(role)
        if found is None and wanted is not None:
            faults.append(f"it has no {name}, but should have {wanted!r}")
        elif wanted is None and found is not None:
            faults.append(f"it has the {name} {found!r}, but should have none")
        elif found != wanted:
            faults.append(f"its {name} is {found!r}, not {wanted!r}")
        elif found is not None and types[found] != "S":
            faults.append(f"its {name} {found!r} has type {types[found]}, not S (string)")
    return faults


def _describe(transport: Transport, name: str) -> dict[str, Any] | None:
    try:
        table: dict[str, Any] = _send(transport, "DescribeTable", {"TableName": name})["Table"]
    except LockConfigurationError as error:
        if isinstance(error.__cause__, ServiceError) and error.__cause__.code == "ResourceNotFoundException":
            return None
        raise
    return table


def _status(transport: Transport, name: str) -> object:
    table = _describe(transport, name)
    return None if table is None else table["TableStatus"]


@contextmanager
def _opened(transport: Transport | None, region_name: str | None, endpoint_url: str | None) -> Iterator[Transport]:
    """Yield the transport that was passed. If none was, yield a new one and close its connections afterwards.

    Raises TransportError if an answer does not describe a table. Another server than DynamoDB may send one.
    """
    made = None
    if transport is None:
        from .transport import choose

        made = transport = choose(region_name=region_name, endpoint_url=endpoint_url, now=time.time)
    checks.transport(transport)
    try:
        yield transport
    except (AttributeError, KeyError, TypeError) as error:
        raise unusable("it does not describe a table") from error
    finally:
        if made is not None:
            made.close()


def _send(
    transport: Transport,
    operation: str,
    request: dict[str, Any],
    *,
    repeated: str | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Send a request. Repeat it a few times without an answer, and for some seconds while no connection is accepted.

    name: the table's, if the request does not have it.
    repeated: the error code that shows, after an unanswered send, that the earlier send was carried out.

    Raises LockConfigurationError if DynamoDB refuses the request, and TransportError if it does not answer.
    """
    unclear = False
    tries = 0
    starting = time.monotonic() + _STARTING
    while True:
        tries += 1
        try:
            answer: dict[str, Any] = transport.send(operation, request, timeout=_SEND).item or {}
        except TransportError as error:
            unclear = unclear or error.ambiguous
            if tries >= _TRIES and (error.ambiguous or time.monotonic() >= starting):
                raise
        except ServiceError as error:
            if unclear and error.code == repeated:
                return {}
            unclear = unclear or error.retryable
            if not error.retryable or tries >= _TRIES:
                raise LockConfigurationError(
                    f"{operation} on table {name or request['TableName']!r} was refused: {error}"
                ) from error
        except (ConditionFailed, TransactionCanceled):  # nothing here has a condition
            raise another_answer(operation) from None
        else:
            return answer
        time.sleep(_POLL)
