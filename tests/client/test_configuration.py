"""A table, a Region, credentials or permissions that are wrong, and what only a table shows: told with the remedy."""

import inspect
import os
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

from lambda_lock import AsyncLockClient, LockClient
from lambda_lock.client.settings import Settings
from lambda_lock.core.outcome import ServiceError
from lambda_lock.errors import LockArgumentError, LockConfigurationError, LockError, LockFormatError

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


CALLBACKS = {
    "a mock": Mock(return_value=False),
    "a mock of a function": Mock(plain, return_value=False),
    "a function that is mocked": create_autospec(plain, return_value=False),
    "an object with every attribute": Answering(),
}


@pytest.mark.parametrize("callback", CALLBACKS.values(), ids=[*CALLBACKS])
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
    ("act", "options", "kind", "says"),
    [
        ("heartbeat", {"lease_duration": 0.9}, LockArgumentError, ("lease_duration=0.9",)),
        ("heartbeat", {"lease_duration": NAN}, LockArgumentError, ("lease_duration=nan",)),
        ("heartbeat", {"lease_duration": "20"}, TypeError, ("lease_duration",)),
        (
            "heartbeat",
            {"data": b"x", "delete_data": True},
            LockArgumentError,
            ("data=", "delete_data=True", "not both"),
        ),
        ("heartbeat", {"lease_duration": 15}, LockArgumentError, ("heartbeat_period", "lease_duration=15", "7.5")),
        *((act, {"data": "text"}, TypeError, ("data must be bytes",)) for act in ("heartbeat", "release")),
        *((act, {"data": b"x" * 409_600}, LockArgumentError, ("409600",)) for act in ("heartbeat", "release")),
    ],
)
def test_a_heartbeat_with_bad_arguments_sends_nothing_and_loses_nothing(act, options, kind, says, wire, make):
    lock = make(heartbeat_period=10).acquire("a")
    wire.clear()
    refused(lambda: getattr(lock, act)(**options), kind, *says)
    assert wire.operations == []
    assert lock.is_held
    assert lock.lease_duration == 20
    assert lock.release() is True


# Arguments of a client: refused where it is built


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_a_misspelled_setting_is_refused_in_the_name_of_the_client(kind):
    refused(lambda: kind("locks", lease=30), TypeError, f"{kind.__name__}.__init__() got an unexpected", "'lease'")
    refused(lambda: kind("locks", "other"), TypeError, f"{kind.__name__}.__init__() takes from 1 to 2 positional")


@pytest.mark.parametrize("method", ["acquire", "adopt"])
def test_a_misspelled_option_is_refused_in_the_name_of_the_method(method, make):
    act = partial(getattr(make(), method), "a", lease=30)
    refused(act, TypeError, f"{method}() got an unexpected keyword argument 'lease'")


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
    says = (
        *("'no-such-table'", "was not found", "Create it", "LockTable", "LAMBDA_LOCK_TABLE"),
        f"in this account and Region {os.environ['AWS_REGION']}.",
        "lambda-lock table create no-such-table,",
    )
    for act in (client.acquire, client.try_acquire, client.get):
        error = refused(partial(act, "a"), LockConfigurationError, *says)
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


def test_without_region_the_error_says_how_to_give_one_and_which_variables_are_empty(make, homeless):
    act = partial(make().acquire, "a")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        homeless.delenv(name)
    assert "empty" not in str(refused(act, LockConfigurationError, "Region", "AWS_REGION"))
    for number, name in enumerate(("AWS_REGION", "AWS_DEFAULT_REGION")):
        homeless.setenv(name, "")
        words = ("AWS_REGION is set, but empty", "AWS_DEFAULT_REGION is set, but empty")
        refused(act, LockConfigurationError, "Region", *words[: number + 1])


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


def test_a_table_with_other_keys_is_named_with_the_remedy(engine, new_table, make):
    name = new_table("pk", "sk")
    says = (repr(name), "key schema", "partition_key_name=", "sort_key_name=")
    for client in (make(name), make(name, partition_key_name="pk")):
        for act in (client.acquire, client.get):
            error = refused(partial(act, "a"), LockConfigurationError, *says)
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


# Permissions: tests/permissions has those that each call needs


def test_a_denied_claim_names_the_permission_and_holds_nothing(table, wire, wired, rows):
    wire.answer(400, "AccessDeniedException", times=INF)
    says = ("dynamodb:UpdateItem", repr(table), "missing", "GetItem, PutItem, UpdateItem and DeleteItem")
    for acquire in (wired.acquire, wired.try_acquire):
        error = refused(partial(acquire, "a"), LockConfigurationError, *says)
        assert isinstance(error.__cause__, ServiceError)
    assert wired.held() == ()
    assert rows.get("a") is None


def test_a_row_whose_version_is_no_string_is_left_alone(client, rows):
    rows.put("a", recordVersionNumber={"N": "5"}, leaseDuration={"S": "1"})
    before = rows["a"]
    for act in (lambda: client.acquire("a"), lambda: client.get("a")):
        refused(act, LockFormatError, "'a'", "recordVersionNumber", "left alone")
    assert rows["a"] == before
