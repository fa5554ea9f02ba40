"""The schemas that are not the default. They load only where they are asked for."""

from __future__ import annotations

from .schema import JAVA

#: The schema of the Go client, cirello.io/dynamolock. It has no queue: a Go client that waits writes the columns of its
#: first poll back. For the same reason it has no rate limits.
GO = JAVA.replace(name="GO", lease_format="go", waiters=None, held_ms=None, next_at=None, last_take=None, rate=None)
#: The schema of python-dynamodb-lock, which deletes a row on release and always gives it an expiry_time.
PYTHON = GO.replace(
    name="PYTHON",
    partition_key="lock_key",
    sort_key="sort_key",
    sort_key_value="-",
    owner="owner_name",
    lease="lease_duration",
    lease_format="seconds",
    version="record_version_number",
    released=None,
    token="fencing_token",  # noqa: S106 - the name of an attribute
    ttl="expiry_time",
    ttl_seconds=3600,
    completed_until="completed_until",
    permits=None,
    permit_tokens=None,
    permit_takes=None,
    permits_taken=None,
)
