"""The lock table itself, on the real engine: creating it, looking for it, checking it."""

import gc
import itertools
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pytest

from lambda_lock import LockClient
from lambda_lock.core.outcome import ConditionFailed, TransactionCanceled
from lambda_lock.errors import LockArgumentError, LockConfigurationError, TransportError
from lambda_lock.table import check_table, create_table, table_exists
from lambda_lock.transport import choose
from rig.engine import EngineError, Ministack
from rig.wire import Answer
from tests.support.saying import Saying

ALWAYS = float("inf")


@pytest.fixture
def name(engine: Ministack, table: str) -> Iterator[str]:
    """The name of a table that does not exist. If a test creates it, it is deleted after the test."""
    fresh = f"{table}-made"
    yield fresh
    with suppress(EngineError):
        engine.delete_table(fresh)


def described(engine: Ministack, name: str) -> Any:
    return engine.dynamodb("DescribeTable", {"TableName": name})["Table"]


def time_to_live(engine: Ministack, name: str) -> Any:
    return engine.dynamodb("DescribeTimeToLive", {"TableName": name})["TimeToLiveDescription"]


def set_time_to_live(engine: Ministack, name: str, attribute: str) -> None:
    specification = {"Enabled": True, "AttributeName": attribute}
    engine.dynamodb("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification})


# create_table


def test_a_table_made_by_default_is_on_demand_active_and_fits(engine, name):
    create_table(name)
    table = described(engine, name)
    assert table["TableStatus"] == "ACTIVE"
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]
    assert table["AttributeDefinitions"] == [{"AttributeName": "key", "AttributeType": "S"}]
    assert time_to_live(engine, name) == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    check_table(name)
    with LockClient(name) as client, client.acquire("a"):
        pass


@pytest.mark.ministack_only("BillingModeSummary")
def test_capacity_can_be_provisioned(engine, name):
    create_table(name, read_capacity=3, write_capacity=4)
    table = described(engine, name)
    assert table["BillingModeSummary"]["BillingMode"] == "PROVISIONED"
    assert table["ProvisionedThroughput"].items() >= {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}.items()


@pytest.mark.ministack_only("tags")
def test_a_table_has_the_tags_it_was_given(engine, name):
    create_table(name, tags={"team": "orders", "stage": ""})
    tags = engine.dynamodb("ListTagsOfResource", {"ResourceArn": described(engine, name)["TableArn"]})["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "orders", "stage": ""}


def test_keys_have_the_names_they_were_given(engine, name):
    names: dict[str, Any] = {"partition_key_name": "pk", "sort_key_name": "sk"}
    create_table(name, **names, ttl="expires")
    table = described(engine, name)
    kinds = {each["AttributeName"]: each["KeyType"] for each in table["KeySchema"]}
    assert kinds == {"pk": "HASH", "sk": "RANGE"}
    assert {entry["AttributeType"] for entry in table["AttributeDefinitions"]} == {"S"}
    assert time_to_live(engine, name)["AttributeName"] == "expires"
    check_table(name, **names, ttl="expires")
    with LockClient(name, **names) as client:
        assert client.acquire("a", sort_key="one").release() is True


def test_without_waiting_one_request_is_sent(wire, name):
    create_table(name, wait=0)
    assert wire.operations == ["CreateTable"]


def test_without_ttl_there_is_no_time_to_live(engine, name):
    create_table(name, ttl=None)
    assert time_to_live(engine, name)["TimeToLiveStatus"] == "DISABLED"
    check_table(name, ttl=None)


def changed(change: Callable[[dict[str, Any]], object], answer: Answer) -> Answer:
    """The answer with another description of the table."""
    body = json.loads(answer.body)
    change(body.get("Table", body))
    headers = [(name, value) for name, value in answer.headers if name.lower() in ("content-type", "date")]
    return Answer(answer.status, headers, json.dumps(body).encode())


def with_status(status: str) -> Callable[[Answer], Answer]:
    """The engine's tables are active at once, and until they are deleted. DynamoDB's are not."""
    return partial(changed, lambda table: table.update(TableStatus=status))


def test_a_table_is_waited_for_and_gets_its_time_to_live_once_it_is_active(wire, name):
    wire.answer(400, "ResourceNotFoundException", "DescribeTable")  # it is not to be seen yet
    wire.alter_reply(with_status("CREATING"), "DescribeTable", times=2)
    create_table(name)
    assert wire.operations == ["CreateTable", *(["DescribeTable"] * 4), "UpdateTimeToLive"]


def test_a_wait_that_runs_out_says_so(wire, name):
    wire.alter_reply(with_status("CREATING"), "DescribeTable", times=ALWAYS)
    words = r"was not active after 0\.3 s: check its status, or pass a longer wait="
    with pytest.raises(LockConfigurationError, match=words):
        create_table(name, wait=0.3)
    assert "UpdateTimeToLive" not in wire.operations


def test_a_table_that_is_there_is_not_made_again(table):
    with pytest.raises(LockConfigurationError, match=f"CreateTable on table '{table}' was refused: ResourceInUse"):
        create_table(table, sort_key_name="sk")
    check_table(table, ttl=None)


@pytest.mark.parametrize(
    ("operation", "refused"),
    [("CreateTable", False), ("DescribeTable", False), ("UpdateTimeToLive", False), ("UpdateTimeToLive", True)],
)
def test_a_reply_that_is_lost_is_no_failure(operation, refused, engine, wire, name):
    """DynamoDB refuses to enable a time to live twice. The engine does not."""
    wire.drop_reply(operation)
    if refused:
        wire.answer(400, "ValidationException", operation)
    create_table(name)
    assert wire.count(operation) == 2
    assert time_to_live(engine, name)["TimeToLiveStatus"] == "ENABLED"


def test_a_refusal_without_a_lost_reply_is_one(wire, name):
    wire.answer(400, "ValidationException", "UpdateTimeToLive")
    with pytest.raises(LockConfigurationError, match="UpdateTimeToLive on table"):
        create_table(name)


def test_throttling_passes_and_an_outage_is_an_error_after_a_few_tries(wire, name):
    wire.throttle("CreateTable", times=2)
    create_table(name)
    assert wire.count("CreateTable") == 3
    wire.drop_request(times=ALWAYS)
    with pytest.raises(TransportError):
        create_table(name)
    assert 2 <= wire.count("CreateTable") - 3 <= 10


ACTIVE = {"TableStatus": "ACTIVE", "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}]}
OTHER = {"KeyType": "HASH", "AttributeName": "other"}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        *itertools.product(
            [create_table, table_exists, check_table],
            [
                {}, {"Table": []}, {"Table": "x"}, {"Table": {}},
                ConditionFailed(None, None), TransactionCanceled([], [], None),
            ],
        ),
        *(
            (check_table, {"Table": {**ACTIVE, **more}})
            for more in ({}, {"KeySchema": [7]}, {"KeySchema": [OTHER], "Replicas": [{}]})
        ),
        (check_table, {"Table": {**ACTIVE, "KeySchema": []}, "TimeToLiveDescription": []}),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)  # fmt: skip
def test_an_answer_that_describes_no_table_is_a_transport_error(ask, answer):
    server = Saying(answer)
    with pytest.raises(TransportError, match=r"does not describe a table|belongs to another request"):
        ask("locks", transport=server)
    assert len(server.requests) <= 2


NOT_YET = TransportError(False, "nothing was sent: connection refused")


def test_an_engine_that_is_only_just_starting_is_waited_for(name):
    with closing(choose(now=time.time)) as server:
        create_table(name, transport=Saying(*[NOT_YET] * 8, server))
        assert table_exists(name)


@pytest.mark.long
def test_an_engine_that_never_starts_is_an_error_after_some_seconds(name):
    never = Saying(NOT_YET)
    with pytest.raises(TransportError, match="connection refused"):
        create_table(name, transport=never)
    assert 5 < len(never.requests) < 30


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": "a"}, LockArgumentError, "table='a'"),
        ({"name": "not a table"}, LockArgumentError, "3 to 255"),
        ({"name": 5}, TypeError, "table must be a str"),
        ({"read_capacity": 5}, LockArgumentError, "write_capacity=None: pass both"),
        ({"write_capacity": 5}, LockArgumentError, "read_capacity=None and write_capacity=5: pass both"),
        ({"read_capacity": 0, "write_capacity": 1}, LockArgumentError, "read_capacity=0"),
        ({"read_capacity": 1, "write_capacity": -1}, LockArgumentError, "write_capacity=-1"),
        ({"read_capacity": 1.5, "write_capacity": 1}, TypeError, "read_capacity must be an int"),
        ({"tags": ["team"]}, TypeError, "tags must be a dict"),
        ({"tags": {"team": 1}}, TypeError, "tags: the name 'team'"),
        ({"partition_key_name": ""}, LockArgumentError, "partition_key_name=''"),
        ({"partition_key_name": None}, TypeError, "partition_key_name"),
        ({"sort_key_name": "x" * 256}, LockArgumentError, "sort_key_name="),
        ({"sort_key_name": "key"}, LockArgumentError, "sort_key_name='key' is the partition key"),
        ({"ttl": ""}, LockArgumentError, "ttl=''"),
        ({"ttl": 5}, TypeError, "ttl must be a str"),
        ({"ttl": "key"}, LockArgumentError, "ttl='key' is a key"),
        ({"ttl": "sk", "sort_key_name": "sk"}, LockArgumentError, "ttl='sk' is a key"),
        ({"wait": -1}, LockArgumentError, "wait=-1"),
        *(({"wait": wrong}, TypeError, "wait must be a number") for wrong in (None, "long")),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(arguments, error, words, wire, name):
    with pytest.raises(error) as caught:
        create_table(**{"name": name} | arguments)
    assert words in str(caught.value)
    assert wire.operations == []


# table_exists


def test_a_table_exists_once_it_is_active(engine, wire, table, name):
    assert table_exists(table) is True
    assert table_exists(name) is False
    assert wire.operations == ["DescribeTable", "DescribeTable"]
    for status, exists in (("CREATING", False), ("DELETING", False), ("UPDATING", True)):
        wire.alter_reply(with_status(status), "DescribeTable")
        assert table_exists(table) is exists


@pytest.mark.ministack_only("Regions apart")
def test_a_table_is_looked_for_where_one_says(table, wire, engine):
    assert table_exists(table, endpoint_url=engine.url) is True
    assert wire.operations == []
    assert table_exists(table, region_name="eu-west-1", endpoint_url=wire.url) is False
    with closing(choose(endpoint_url=engine.url, now=time.time)) as transport:
        assert table_exists(table, transport=transport) is True


# check_table


def test_what_is_not_there_does_not_fit(name):
    where = f"there is no table '{name}' in this account and Region {os.environ['AWS_REGION']}"
    with pytest.raises(LockConfigurationError, match=f"{where}: create it.*lambda-lock table create"):
        check_table(name)


def test_a_table_that_fits_is_checked_with_two_reads(wire, table):
    check_table(table, ttl=None)
    assert wire.operations == ["DescribeTable", "DescribeTimeToLive"]


@pytest.mark.parametrize(
    ("keys", "wanted", "fault"),
    [
        (("pk", None), {}, "its partition key is 'pk', not 'key'"),
        (("key", None), {"partition_key_name": "pk"}, "its partition key is 'key', not 'pk'"),
        (("key", "sk"), {}, "it has the sort key 'sk', but should have none"),
        (("key", None), {"sort_key_name": "sk"}, "it has no sort key, but should have 'sk'"),
        (("key", "sk"), {"sort_key_name": "part"}, "its sort key is 'sk', not 'part'"),
    ],
)
def test_other_keys_do_not_fit(keys, wanted, fault, engine, name):
    engine.create_table(name, *keys)
    with pytest.raises(LockConfigurationError, match=f"^table '{name}' is not suitable for locks: {fault}$"):
        check_table(name, ttl=None, **wanted)


@pytest.mark.parametrize(("role", "key"), [("partition key", "key"), ("sort key", "sk")])
def test_a_key_that_is_no_string_does_not_fit(role, key, wire, new_table):
    def number(table: dict[str, Any]) -> None:
        for attribute in table["AttributeDefinitions"]:
            if attribute["AttributeName"] == key:
                attribute["AttributeType"] = "N"

    wire.alter_reply(partial(changed, number), "DescribeTable")
    with pytest.raises(LockConfigurationError, match=f"its {role} '{key}' has type N, not S \\(string\\)$"):
        check_table(new_table("key", "sk"), sort_key_name="sk", ttl=None)


@pytest.mark.parametrize(
    ("enabled", "wanted", "fault"),
    [
        (None, "ttl", "its time to live is off, but should be on 'ttl'"),
        ("expires", "ttl", "its time to live is on 'expires', not on 'ttl'"),
        ("ttl", None, "its time to live is on 'ttl', but should be off"),
    ],
)
def test_a_table_whose_time_to_live_is_not_the_wanted_one_does_not_fit(enabled, wanted, fault, engine, table):
    if enabled is not None:
        set_time_to_live(engine, table, enabled)
    with pytest.raises(LockConfigurationError, match=f"for locks: {fault}$"):
        check_table(table, ttl=wanted)


@pytest.mark.ministack_only("replicas")
def test_a_replicated_table_does_not_fit(engine, name):
    engine.create_table(name)
    for region in ("eu-west-1", "eu-central-1"):
        engine.dynamodb("UpdateTable", {"TableName": name, "ReplicaUpdates": [{"Create": {"RegionName": region}}]})
    with pytest.raises(LockConfigurationError, match=r"replicated to .*eu-west-1.*: two Regions would each grant"):
        check_table(name, ttl=None)


def test_a_table_with_strong_consistency_over_regions_is_told_what_it_lacks(wire, table):
    replicas = [{"RegionName": region} for region in ("us-east-2", "us-west-2")]
    strong = partial(changed, lambda table: table.update(Replicas=replicas, MultiRegionConsistency="STRONG"))
    wire.alter_reply(strong, "DescribeTable")
    wire.answer(400, "ValidationException", "DescribeTimeToLive", times=ALWAYS)  # a feature that it does not have
    with pytest.raises(LockConfigurationError, match="us-east-2, us-west-2: there is no time to live") as caught:
        check_table(table)
    assert "no transaction, so rows stay and commit is refused" in str(caught.value)
    assert "would each grant" not in str(caught.value)
    assert "should be on 'ttl'" not in str(caught.value)


@pytest.mark.ministack_only("replicas")
def test_all_that_does_not_fit_is_named_at_once(engine, name):
    engine.create_table(name, "pk", "sk")
    engine.dynamodb("UpdateTable", {"TableName": name, "ReplicaUpdates": [{"Create": {"RegionName": "eu-west-1"}}]})
    before = described(engine, name), time_to_live(engine, name)
    words = "its partition key is .*; it has the sort key .*; it is replicated to .*; its time to live is [^;]*$"
    with pytest.raises(LockConfigurationError, match=f"for locks: {words}"):
        check_table(name)
    assert (described(engine, name), time_to_live(engine, name)) == before


# Errors of all three functions

CALLS: list[Callable[..., object]] = [create_table, table_exists, check_table]


@pytest.mark.parametrize("call", CALLS)
def test_a_permission_that_is_missing_is_named(call, wire, table):
    wire.answer(400, "AccessDeniedException", times=ALWAYS)
    operation = "CreateTable" if call is create_table else "DescribeTable"
    with pytest.raises(LockConfigurationError, match=f"{operation} on table '{table}' was refused: AccessDenied"):
        call(table)
    assert wire.count() == 1


def test_the_connection_is_closed_in_the_end(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what earlier tests left behind
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in CALLS:
            call(name)
            gc.collect()
            assert not any(issubclass(each.category, ResourceWarning) for each in caught), call


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_transport_no_name_or_no_region_is_refused(call, wire, table, monkeypatch):
    with pytest.raises(TypeError, match="transport must have send"):
        call(table, transport="https")
    with pytest.raises(LockArgumentError, match="is not a valid table name"):
        call("?")
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(variable)
    with pytest.raises(LockConfigurationError, match="Region"):
        call(table)
    assert wire.operations == []
