"""Tests that use moto: locks are answered by it in all its forms, and nothing reaches AWS from a test."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambda_lock import (
    AsyncLockClient,
    CommitRefusedError,
    LockAlreadyReleasedError,
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    current_dedup,
    current_lock,
    deduplicate,
    default_client,
    with_lock,
)
from lambda_lock.table import create_table, table_exists
from lambda_lock.testing import lambda_context
from tests.support.installed import finish
from tests.support.sampled import sampled

REGION = "eu-west-1"


@pytest.fixture(autouse=True)
def nothing_reaches_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Real keys of a developer, and a network in which only this machine can be reached."""
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": REGION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", "locks")
    asked: list[object] = []
    look_up = socket.getaddrinfo

    def local(host: Any, *more: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in ("127.0.0.1", "localhost"):
            asked.append(name)
            raise OSError(f"no test may reach {name}")
        return look_up(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", local)
    yield
    assert asked == []


def make_table() -> None:
    key = {"AttributeName": "key"}
    schema = {"KeySchema": [key | {"KeyType": "HASH"}], "AttributeDefinitions": [key | {"AttributeType": "S"}]}
    boto3.client("dynamodb").create_table(TableName="locks", BillingMode="PAY_PER_REQUEST", **schema)


@pytest.fixture
def mocked() -> Iterator[None]:
    with mock_aws():
        make_table()
        yield


def exercise(client: LockClient, table: str = "locks") -> None:
    """A grant, contention, a wait, a refused commit and a semaphore, as DynamoDB answers them."""
    with client.acquire("a") as lock:
        lock.heartbeat(data=b"x")
        for wait in (0.0, 0.3):
            with pytest.raises(LockNotGrantedError) as refused:
                client.acquire("a", wait=wait)
            assert refused.value.holder == lock.owner
    put = {"TableName": table, "Item": {"key": {"S": "mine"}}, "ConditionExpression": "attribute_exists(paid)"}
    with pytest.raises(CommitRefusedError):
        client.acquire("a").commit([{"Put": put}])
    client.acquire("a").commit([{"Put": {"TableName": table, "Item": {"key": {"S": "mine"}}}}])
    with client.acquire("api", permits=2), client.acquire("api", permits=2):
        assert client.try_acquire("api", permits=2) is None
    with client.acquire_all(["c", "b"]) as several:
        assert several.keys == ("b", "c")
    assert client.adopt(client.acquire("a").hand_over()).release()
    assert {record.key for record in client.list()} >= {"a", "b", "c", "api"}


@with_lock("order-{id}", wait=0)
def handler(event: Any, context: Any) -> str:
    assert current_lock().is_held
    return "done"


@deduplicate("{id}", result="json")
def once(event: Any, context: Any) -> int:
    if event.get("commits"):
        put = {"TableName": "locks", "Item": {"key": {"S": "effect"}}}
        current_dedup().commit([{"Put": put}], result=event["n"])
    return int(event["n"])


# -- the forms of moto, and the ways to a client


@pytest.mark.parametrize("way", sampled(2, zip(["default", "table", "client", "session"])))
def test_within_a_context_every_client_is_answered(way):
    with mock_aws():
        make_table()
        made = {
            "default": default_client,
            "table": lambda: LockClient("locks"),
            "client": lambda: LockClient("locks", boto3_client=boto3.client("dynamodb")),
            "session": lambda: LockClient("locks", boto3_session=boto3.Session()),
        }[way]()
        exercise(made)


@mock_aws
def test_within_a_decorated_test_default_and_async_clients_are_answered():
    async def contend() -> None:
        async with AsyncLockClient("locks") as client, await client.acquire("a") as lock:
            with pytest.raises(LockNotGrantedError) as refused:
                await client.acquire("a", wait=0)
            assert refused.value.holder == lock.owner

    make_table()
    with default_client().acquire("order-1"), pytest.raises(LockNotGrantedError):
        handler({"id": 1}, lambda_context())
    assert handler({"id": 1}, lambda_context()) == "done"
    asyncio.run(contend())


@pytest.mark.usefixtures("mocked")
@pytest.mark.parametrize("commits", [False, True])
def test_an_event_is_done_once(commits):
    assert [once({"id": 1, "n": number, "commits": commits}, lambda_context()) for number in (7, 8)] == [7, 7]


@mock_aws
def test_tables_are_made_in_moto():
    create_table("locks")
    assert table_exists("locks")
    exercise(LockClient("locks"))


# -- its beginning and end


def test_what_was_learned_from_moto_is_forgotten_and_the_next_request_goes_where_the_environment_says(
    engine, monkeypatch
):
    client = LockClient("locks")
    with mock_aws():
        make_table()
        left = client.acquire("a", lease_duration=600)
    for name, value in engine.environment().items():
        monkeypatch.setenv(name, value)
    engine.create_table("locks")
    try:
        with client.acquire("a", wait=0) as lock:
            assert [row["key"]["S"] for row in engine.scan("locks")] == ["a"]
            with pytest.raises(LockAlreadyReleasedError):
                left.release()
            with mock_aws(), pytest.MonkeyPatch.context() as without:
                without.delenv("AWS_ENDPOINT_URL")
                make_table()
                assert client.get("a") is None
            assert lock.is_held
            assert lock.owner == client.get("a").owner  # type: ignore[union-attr]
    finally:
        client.close()
        engine.delete_table("locks")


@deduplicate("{id}", result="json", cache_size=10)
def remembered(event: Any, context: Any) -> int:
    return int(event["n"])


def test_a_client_serves_one_test_after_another_which_find_no_event_done_by_another():
    """Also where nothing was sent between the two, so that no request found moto inactive."""
    for number in (1, 2):
        with mock_aws():
            make_table()
            for call in (remembered, remembered, once):
                assert call({"id": 1, "n": number}, lambda_context()) == number


@pytest.mark.parametrize("release", [True, False], ids=["outside", "in the next test"])
def test_a_lock_that_is_left_in_moto_is_not_released_elsewhere(release):
    client = LockClient("locks")
    with mock_aws():
        make_table()
        lock = client.acquire("a")
    if release:
        with pytest.raises(LockAlreadyReleasedError):
            lock.release()
    with mock_aws():
        make_table()
        with client.acquire("a", wait=0):
            assert client.held() != ()
            assert lock not in client.held()
            with pytest.raises(LockAlreadyReleasedError):
                lock.release()


def test_what_is_held_stays_held_where_moto_keeps_its_tables():
    """As between setUp and the test of a class that is decorated with mock_aws."""
    client, mock = LockClient("locks"), mock_aws()
    mock.start()
    make_table()
    lock = client.acquire("a")
    mock.stop(remove_data=False)
    mock.start(reset=False)
    try:
        assert client.try_acquire("a") is None
        assert lock.release()
    finally:
        mock.stop()


def test_a_local_engine_stays_reachable_for_a_client_that_names_it(engine, table):
    with mock_aws(), LockClient(table, endpoint_url=engine.url) as client:
        exercise(client, table)


# -- why it cannot


@pytest.mark.usefixtures("mocked")
def test_a_missing_table_or_region_is_named_at_once(monkeypatch):
    with pytest.raises(LockConfigurationError, match="nothing-here"):
        LockClient("nothing-here").acquire("a")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    with pytest.raises(LockConfigurationError, match="no Region is configured"):
        LockClient("locks").acquire("a")


@pytest.mark.usefixtures("mocked")
def test_answers_without_a_content_type_are_motos_before_version_5_2():
    client = boto3.client("dynamodb")

    def forget_type(response_dict: dict[str, Any], **_: Any) -> None:
        response_dict["headers"].pop("Content-Type", None)

    client.meta.events.register("before-parse.dynamodb", forget_type)
    assert "content-type" not in client.list_tables()["ResponseMetadata"]["HTTPHeaders"]
    with LockClient("locks", boto3_client=client).acquire("a") as lock:
        assert lock.is_held
        with pytest.raises(LockNotGrantedError):
            LockClient("locks", boto3_client=client).acquire("a", wait=0)


_BEFORE_MOTO = """
import boto3
session = boto3.Session(region_name="eu-west-1")
client = session.client("dynamodb")
from moto import mock_aws
from moto.core import patch_client
from lambda_lock import LockClient, LockConfigurationError
with mock_aws():
    for given in ({"boto3_client": client}, {"boto3_session": session}):
        try:
            LockClient("locks", **given).acquire("a")
        except LockConfigurationError as error:
            assert list(given)[0] in str(error) and "made before moto was imported" in str(error), error
        else:
            raise AssertionError(given)
    patch_client(client)
    try:
        LockClient("locks", boto3_client=client).acquire("a")
    except LockConfigurationError as error:
        assert "not found" in str(error), error
"""


@pytest.mark.long
def test_a_client_that_moto_cannot_answer_is_refused_and_told_the_remedy():
    finish([sys.executable, "-c", _BEFORE_MOTO], dict(os.environ))


_SERVER = """
from moto import mock_aws
from lambda_lock import LockClient
with mock_aws():
    with LockClient().acquire("a") as lock:
        assert LockClient().get("a").owner == lock.owner
"""


@pytest.mark.long
def test_motos_server_is_used_where_it_runs_as_one(engine, table):
    # Whatever listens at the endpoint: here it is the engine.
    moto = {"TEST_SERVER_MODE": "true", "TEST_SERVER_MODE_ENDPOINT": engine.url, "MOTO_CALL_RESET_API": "false"}
    region = dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), engine.environment()["AWS_REGION"])
    finish([sys.executable, "-c", _SERVER], {**os.environ, **moto, **region, "LAMBDA_LOCK_TABLE": table})
    assert [row["key"]["S"] for row in engine.scan(table)] == ["a"]
