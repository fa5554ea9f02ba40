"""A table, a Region, credentials or permissions that are wrong, and what only a table shows: told with the remedy."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import Mock, create_autospec

import boto3
import pytest

from lambda_lock import AsyncLockClient, LockClient
from lambda_lock.client.settings import Settings
from lambda_lock.core.outcome import ServiceError
from lambda_lock.errors import LockArgumentError, LockConfigurationError, LockError, LockFormatError
from rig.engine import REGION, Ministack
from tests.support.clients import Make

NAN, INF = float("nan"), float("inf")


def refused(act: Callable[[], object], kind: type[Exception], *says: str) -> Exception:
    with pytest.raises(kind) as caught:
        act()
    for words in says:
        assert words in str(caught.value)
    return caught.value


class Answering:
    """It has every attribute, as a proxy or a stand-in does."""

    def __getattr__(self, name: str) -> object:
        return object()

    def __call__(self, *_: object) -> bool:
        return False


def plain(lock: object = None) -> bool:
    return False


@pytest.mark.parametrize(
    "callback",
    [
        Mock(return_value=False),
        Mock(plain, return_value=False),
        create_autospec(plain, return_value=False),
        Answering(),
    ],
    ids=["a mock", "a mock of a function", "a function that is mocked", "an object with every attribute"],
)
def test_a_callback_whose_parameters_are_not_known_is_accepted(callback, client):
    options = {"on_lost": callback, "on_danger": callback, "safe_time": 1, "cancel_check": callback}
    assert client.acquire("a", **options).release()


def test_the_configured_names_of_both_keys_are_reserved(engine, table, make):
    client = make(partition_key_name="pk", sort_key_name="sk")
    for name in ("pk", "sk"):
        act = partial(client.acquire, "a", sort_key="s", attributes={name: 1})
        refused(act, LockArgumentError, repr(name))


@pytest.mark.parametrize("sort_key", ["", "s" * 1025])
def test_a_sort_key_that_dynamodb_would_refuse_is_refused(sort_key, make):
    refused(lambda: make(sort_key_name="sk").acquire("a", sort_key=sort_key), LockArgumentError, "sort_key")


def test_a_table_with_a_sort_key_needs_one(make):
    refused(lambda: make(sort_key_name="sk").acquire("a"), LockArgumentError, "'sk'", "pass sort_key=")
    refused(lambda: make(sort_key_name="sk").acquire("a", sort_key=5), TypeError, "sort_key", "5")


def test_get_looks_at_its_arguments_as_acquire_does(wire, wired):
    refused(lambda: wired.get(""), LockArgumentError, "key is empty")
    refused(lambda: wired.get(5), TypeError, "key")
    refused(lambda: wired.get("a", sort_key="s"), LockArgumentError, "sort_key='s'")
    assert wire.operations == []


# Arguments of a held lock: the lock stays as it is


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"lease_duration": 0.9}, LockArgumentError, ("lease_duration=0.9",)),
        ({"lease_duration": NAN}, LockArgumentError, ("lease_duration=nan",)),
        ({"lease_duration": "20"}, TypeError, ("lease_duration",)),
        ({"data": "text"}, TypeError, ("data must be bytes",)),
        ({"data": b"x" * 409_600}, LockArgumentError, ("409600",)),
        ({"data": b"x", "delete_data": True}, LockArgumentError, ("data=", "delete_data=True", "not both")),
        ({"lease_duration": 15}, LockArgumentError, ("heartbeat_period", "lease_duration=15", "7.5")),
    ],
)
def test_a_heartbeat_with_bad_arguments_sends_nothing_and_loses_nothing(options, kind, says, wire, make):
    lock = make(heartbeat_period=10).acquire("a")
    wire.clear()
    refused(lambda: lock.heartbeat(**options), kind, *says)
    assert wire.operations == []
    assert lock.is_held
    assert lock.lease_duration == 20
    assert lock.release() is True


def test_a_release_with_bad_arguments_leaves_the_lock_held(wire, wired):
    lock = wired.acquire("a")
    wire.clear()
    refused(lambda: lock.release(data="text"), TypeError, "data must be bytes")
    refused(lambda: lock.release(data=b"x" * 409_600), LockArgumentError, "409600")
    assert wire.operations == []
    assert lock.is_held
    assert lock.release() is True


def test_a_lease_under_the_clients_heartbeat_period_is_refused(wire, make):
    client = make(heartbeat_period=8)
    refused(lambda: client.acquire("a", lease_duration=10), LockArgumentError, "heartbeat_period=8", "5", "None")
    assert wire.operations == []


# Arguments of a client: refused where it is built


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_a_misspelled_setting_is_refused_in_the_name_of_the_client(kind):
    refused(lambda: kind("locks", lease=30), TypeError, f"{kind.__name__}.__init__() got an unexpected", "'lease'")
    refused(lambda: kind("locks", "other"), TypeError, f"{kind.__name__}.__init__() takes from 1 to 2 positional")


def test_a_misspelled_option_is_refused_in_the_name_of_the_method(make):
    async def acquire() -> None:
        await AsyncLockClient.over(make()).acquire("a", lease=30)  # type: ignore[call-arg]

    refused(lambda: asyncio.run(acquire()), TypeError, "acquire() got an unexpected keyword argument 'lease'")
    refused(lambda: make().acquire("a", lease=30), TypeError, "acquire() got an unexpected keyword argument 'lease'")
    refused(lambda: make().adopt("a", lease=30), TypeError, "adopt() got an unexpected keyword argument 'lease'")


def test_the_signature_of_a_client_names_its_settings():
    assert inspect.signature(LockClient) == inspect.signature(Settings)
    assert inspect.signature(LockClient).parameters["lease_duration"].default == 20.0


# What is around: table, Region, credentials, permissions


def test_without_a_table_the_error_says_how_to_name_one(make, monkeypatch):
    monkeypatch.delenv("LAMBDA_LOCK_TABLE")
    refused(lambda: make().acquire("a"), LockConfigurationError, "LockClient(table)", "LAMBDA_LOCK_TABLE")


def test_a_table_of_the_environment_that_is_no_name_is_refused(make, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", "no spaces")
    refused(lambda: make().acquire("a"), LockArgumentError, "'no spaces'", "3 to 255")


def test_an_unknown_table_is_named_with_the_remedy(make):
    client = make("no-such-table")
    for act in (lambda: client.acquire("a"), lambda: client.try_acquire("a"), lambda: client.get("a")):
        error = refused(
            act,
            LockConfigurationError,
            *("'no-such-table'", "was not found", "Create it", "LockTable", "LAMBDA_LOCK_TABLE"),
            f"in this account and Region {os.environ['AWS_REGION']}.",
            "lambda-lock table create no-such-table,",
        )
        assert isinstance(error, LockError)
        assert error.key == "a"
        assert isinstance(error.__cause__, ServiceError)
        assert error.__cause__.code == "ResourceNotFoundException"
    assert client.held() == ()


def test_the_command_for_an_unknown_table_makes_one_that_this_client_can_use(make):
    client = make("no-such-table", partition_key_name="id", sort_key_name="part")
    refused(
        lambda: client.acquire("a", sort_key="b"),
        LockConfigurationError,
        "lambda-lock table create no-such-table --partition-key id --sort-key part",
    )


@pytest.fixture
def homeless(table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    """No file of a home directory, no instance metadata."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


def test_without_region_the_error_says_how_to_give_one(make, homeless):
    homeless.delenv("AWS_REGION")
    homeless.delenv("AWS_DEFAULT_REGION")
    refused(lambda: make().acquire("a"), LockConfigurationError, "Region", "AWS_REGION")


def test_an_empty_region_is_said_to_be_empty(make, homeless):
    homeless.setenv("AWS_REGION", "")
    homeless.delenv("AWS_DEFAULT_REGION")
    refused(lambda: make().acquire("a"), LockConfigurationError, "Region", "AWS_REGION is set, but empty")
    homeless.setenv("AWS_DEFAULT_REGION", "")
    refused(
        lambda: make().acquire("a"),
        LockConfigurationError,
        "AWS_REGION is set, but empty",
        "AWS_DEFAULT_REGION is set, but empty",
    )


def test_an_empty_region_counts_as_unset(make, homeless):
    homeless.setenv("AWS_REGION", "")
    assert make().acquire("a").is_held


def test_without_credentials_the_error_says_how_to_give_them(make, homeless, wire):
    homeless.delenv("AWS_ACCESS_KEY_ID")
    homeless.delenv("AWS_SECRET_ACCESS_KEY")
    client = make()
    refused(lambda: client.acquire("a"), LockConfigurationError, "redentials", "AWS_")
    assert wire.operations == []
    assert client.held() == ()


def test_half_a_key_pair_is_named(make, homeless, wire):
    homeless.delenv("AWS_SECRET_ACCESS_KEY")
    refused(lambda: make().acquire("a"), LockConfigurationError, "AWS_SECRET_ACCESS_KEY")
    assert wire.operations == []


def test_region_and_endpoint_of_the_wrong_type_are_refused_at_the_first_use(make):
    refused(lambda: make(region_name=5).acquire("a"), TypeError, "egion", "int")
    refused(lambda: make(endpoint_url=5).acquire("a"), TypeError, "endpoint_url", "int")


def test_an_endpoint_that_is_no_url_is_refused(make):
    refused(lambda: make(endpoint_url="nowhere").acquire("a"), LockConfigurationError, "'nowhere'", "http(s)://host")


def test_a_table_with_other_keys_is_named_with_the_remedy(engine, table, make):
    name = engine.create_table(f"{table}-other", "pk", "sk")
    for client in (make(name), make(name, partition_key_name="pk")):
        for act in (lambda client=client: client.acquire("a"), lambda client=client: client.get("a")):
            error = refused(
                act, LockConfigurationError, repr(name), "key schema", "partition_key_name=", "sort_key_name="
            )
            assert isinstance(error.__cause__, ServiceError)
    assert engine.scan(name) == []


def test_attributes_that_only_dynamodb_can_measure_are_its_refusal_in_our_words(wire, wired):
    wire.answer(400, "ValidationException", "UpdateItem")
    error = refused(lambda: wired.acquire("a"), LockConfigurationError, "'a'", "ValidationException")
    assert isinstance(error.__cause__, ServiceError)


@pytest.mark.parametrize("code", ["UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"])
def test_refused_credentials_are_no_outage(code, wire, wired, rows):
    wire.answer(400, code, times=INF)
    error = refused(lambda: wired.acquire("a"), LockConfigurationError, "credentials were refused", "AWS_SESSION_TOKEN")
    assert isinstance(error.__cause__, ServiceError)
    assert rows.get("a") is None


# Permissions, as the engine's own IAM has them


@pytest.fixture(scope="module")
def guarded() -> Iterator[Ministack]:
    with Ministack(auth=True) as engine:
        engine.create_table("locks")
        yield engine


Allow = Callable[..., LockClient]


@pytest.fixture
def allow(guarded: Ministack, make: Make, monkeypatch: pytest.MonkeyPatch) -> Allow:
    """A client of a new user who may do just these actions on the table."""
    place = {"endpoint_url": guarded.url, "region_name": REGION}
    iam = boto3.client("iam", **place, aws_access_key_id="test", aws_secret_access_key="test")

    def build(*actions: str) -> LockClient:
        name = f"user-{os.urandom(4).hex()}"
        iam.create_user(UserName=name)
        if actions:
            allowed = ", ".join(f'"dynamodb:{action}"' for action in actions)
            resource = f"arn:aws:dynamodb:{REGION}:000000000000:table/locks"
            statement = f'{{"Effect": "Allow", "Action": [{allowed}], "Resource": "{resource}"}}'
            policy = f'{{"Version": "2012-10-17", "Statement": [{statement}]}}'
            iam.put_user_policy(UserName=name, PolicyName="locks", PolicyDocument=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        monkeypatch.setenv("AWS_ENDPOINT_URL", guarded.url)
        return make("locks")

    return build


def denied(act: Callable[[], object], action: str) -> None:
    error = refused(
        act,
        LockConfigurationError,
        f"dynamodb:{action}",
        "'locks'",
        "missing",
        "GetItem, PutItem, UpdateItem and DeleteItem",
    )
    assert isinstance(error.__cause__, ServiceError)


def test_a_denied_claim_names_the_permission_and_holds_nothing(allow, guarded):
    client = allow("GetItem")
    denied(lambda: client.acquire("a"), "UpdateItem")
    denied(lambda: client.try_acquire("a"), "UpdateItem")
    assert client.held() == ()
    assert guarded.scan("locks") == []


@pytest.mark.long
def test_a_denied_read_names_the_permission(allow):
    client = allow()
    denied(lambda: client.get("a"), "GetItem")


@pytest.mark.long
def test_a_denied_poll_is_an_error_at_once(allow):
    holder = allow("UpdateItem", "GetItem")
    with holder.acquire("polled"):
        client = allow("UpdateItem")
        denied(lambda: client.acquire("polled", wait=60), "GetItem")


def test_a_denied_deletion_leaves_the_lock_to_be_released_otherwise(allow):
    client = allow("UpdateItem")
    lock = client.acquire("deleted", delete_on_release=True)
    denied(lock.release, "DeleteItem")
    assert not lock.is_held
    assert lock.release(delete=False) is True


def test_the_documented_permissions_suffice(allow):
    client = allow("GetItem", "UpdateItem", "DeleteItem", "PutItem")
    with client.acquire("b", data=b"x", delete_on_release=True) as lock:
        lock.heartbeat(data=b"y")
        record = client.get("b")
        assert record is not None
        assert record.data == b"y"
    assert client.get("b") is None


def test_a_row_whose_version_is_no_string_is_left_alone(client, rows):
    rows.put("a", recordVersionNumber={"N": "5"}, leaseDuration={"S": "1"})
    before = rows["a"]
    for act in (lambda: client.acquire("a"), lambda: client.get("a")):
        refused(act, LockFormatError, "'a'", "recordVersionNumber", "left alone")
    assert rows["a"] == before
