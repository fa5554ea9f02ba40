"""The waker of the shop's table, on the engine: unmodified awslambdaric, the table's stream and a queue.

The engine feeds it as Lambda does, with the filters of the construct. But it goes on in the stream whatever the
function answers, so a record that is named in ``batchItemFailures`` does not come again. And it does not check which
state machine a task token is of.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from lambda_lock.waker.function import FILTERS
from rig.cloud import ACCOUNT, Function
from rig.engine import REGION

from .conftest import LOCK_ACTIONS, Shop

# A task token names no state machine, and the engine does not look it up, as AWS does. So it checks the action alone.
ANSWERS = {"Action": ["states:SendTaskSuccess"], "Resource": "*"}
_VISIBILITY = 5  # seconds; 90 in the construct
_TIMEOUT = 60


@contextmanager
def waker(shop: Shop) -> Iterator[Function]:
    """A waker that may do what the construct allows, and wakes all state machines of the engine."""
    cloud = shop.cloud
    queue = cloud.queue("waker", visibility=_VISIBILITY)
    environment = {"LAMBDA_LOCK_TABLE": shop.locks, "LAMBDA_LOCK_WAKE_QUEUE": queue.url, "SHOP": shop.table}
    locks = {"Action": LOCK_ACTIONS, "Resource": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{shop.locks}"}
    allow = [locks, {"Action": ["sqs:SendMessage"], "Resource": queue.arn}, ANSWERS]
    function = cloud.function(
        "fragile_waker.handler", shop.folder, timeout=_TIMEOUT, environment=environment, allow=allow
    )
    cloud.subscribe(queue, function)
    client = cloud.client("lambda")
    mapping = client.create_event_source_mapping(
        EventSourceArn=stream_of(shop),
        FunctionName=function.name,
        StartingPosition="TRIM_HORIZON",
        FunctionResponseTypes=["ReportBatchItemFailures"],
        FilterCriteria={"Filters": [{"Pattern": json.dumps(each)} for each in FILTERS]},
    )
    try:
        yield function
    finally:
        client.delete_event_source_mapping(UUID=mapping["UUID"])


def stream_of(shop: Shop) -> str:
    """The stream of the lock table, which is switched on where it is not."""
    tables = shop.cloud.client("dynamodb")
    found = tables.describe_table(TableName=shop.locks)["Table"]
    if not found.get("StreamSpecification", {}).get("StreamEnabled"):
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        found = tables.update_table(TableName=shop.locks, StreamSpecification=stream)["TableDescription"]
    return str(found["LatestStreamArn"])
