import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import botocore.session
import pytest

from lambda_lock.errors import LockConfigurationError, TransportError
from lambda_lock.transport import ServiceError
from lambda_lock.transport.credentials import ContainerCredentials, Credentials, EnvironmentCredentials

from .conftest import EPOCH, Say, Stub, answer, cut, error, get, say

KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}


def soon() -> float:
    """A deadline for the current step."""
    return time.monotonic() + 20


def grant(name: str, ends: str = "2026-11-21T05:49:13Z", token: str | None = "token") -> Say:
    """The endpoint's answer. By default, the credentials expire an hour after EPOCH."""
    fields = {"AccessKeyId": name, "SecretAccessKey": "secret", "Token": token, "Expiration": ends}
    return say(answer({name: value for name, value in fields.items() if value is not None}))


def container(stub: Stub, **environ: str) -> ContainerCredentials:
    full = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{stub.url}/role?a=b"}
    return ContainerCredentials(full | environ, logging.getLogger("lambda_lock"))


def held_up(said: Say) -> tuple[threading.Event, threading.Event, list[Say]]:
    """An answer that is held up: an event for its request, and one that lets it go."""
    asked, go_on = threading.Event(), threading.Event()

    def hold(stub: Stub, connection: socket.socket) -> bool:
        asked.set()
        assert go_on.wait(20)
        return said(stub, connection)

    return asked, go_on, [hold]


# Static and environment


def test_static_credentials_are_their_own_source():
    keys = Credentials("AKID", "secret", "token")
    assert keys.get(0, soon()) is keys
    assert keys.expire() is False
    assert "secret" not in repr(keys)


@pytest.mark.parametrize(
    ("access_key", "secret_key", "token", "name"),
    [
        ("", "s", None, "access key"),
        ("a", "", None, "secret"),
        ("a\n", "s", None, "access"),
        ("a", "s s", None, "secret"),
        ("a", "s", "t\r\nX: y", "token"),
        ("a", "é", None, "secret"),
    ],
)
def test_credentials_that_were_badly_copied_are_refused_without_showing_them(access_key, secret_key, token, name):
    with pytest.raises(LockConfigurationError, match=name):
        Credentials(access_key, secret_key, token)


def test_the_environment_is_read_again_at_each_use_and_badly_copied_keys_are_refused_until_they_are_correct():
    environ = dict(KEYS)
    source = EnvironmentCredentials(environ)
    first = source.get(0, soon())
    assert (first.access_key, first.secret_key, first.token) == ("AKID", "secret", "token")
    environ["AWS_ACCESS_KEY_ID"] = "other"
    del environ["AWS_SESSION_TOKEN"]
    second = source.get(0, soon())
    assert (second.access_key, second.token) == ("other", None)
    assert source.get(0, soon()) is second  # nothing has changed, so nothing is checked again
    environ |= KEYS
    assert source.get(0, soon()).token == "token"
    environ["AWS_SECRET_ACCESS_KEY"] = "not a secret"
    for _ in range(2):
        with pytest.raises(LockConfigurationError, match="secret key"):
            source.get(0, soon())
    environ["AWS_SECRET_ACCESS_KEY"] = "secret"
    assert source.get(0, soon()).secret_key == "secret"


@pytest.mark.parametrize(
    "tokens",
    [
        *({"AWS_SECURITY_TOKEN": "old"}, {"AWS_SESSION_TOKEN": "new"}),
        *({"AWS_SECURITY_TOKEN": old, "AWS_SESSION_TOKEN": "new"} for old in ("old", "")),
    ],
)
def test_the_session_token_is_the_one_that_botocore_takes(bare_environment, tokens):
    for name, value in (KEYS | {"AWS_SESSION_TOKEN": ""} | tokens).items():
        bare_environment.setenv(name, value)
    theirs = botocore.session.get_session().get_credentials()
    assert EnvironmentCredentials().get(0, soon()).token == theirs.token


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("value", [None, ""])
def test_an_environment_with_half_a_key_names_the_other_half(name, value):
    environ = KEYS | {name: value}
    if value is None:
        del environ[name]
    with pytest.raises(LockConfigurationError, match=f"^{name} is not set"):
        EnvironmentCredentials(environ).get(0, soon())


# The container endpoint


def test_the_endpoint_is_asked_once_and_then_again_before_the_end(stub):
    stub.script = [grant("first"), grant("second", ends="2026-11-21T06:49:13.5+00:00")]
    source = container(stub)
    assert source.get(EPOCH, soon()).access_key == "first"
    assert source.get(EPOCH + 2999, soon()).access_key == "first"
    source._asked -= 3600  # the source's own clock; time does not pass in tests
    assert source.get(EPOCH + 3001, soon()).access_key == "second"
    assert source.get(EPOCH + 3002, soon()).access_key == "second"
    assert len(stub.requests) == 2
    assert stub.requests[0].startswith(b"GET /role?a=b HTTP/1.1\r\n")
    assert b"Authorization" not in stub.requests[0]


def test_the_authorization_token_is_sent_and_its_file_comes_first_and_is_read_at_each_fetch(stub, tmp_path):
    stub.otherwise = grant("a")
    file = tmp_path / "token"
    container(stub, AWS_CONTAINER_AUTHORIZATION_TOKEN="Basic abc").get(EPOCH, soon())
    source = container(stub, AWS_CONTAINER_AUTHORIZATION_TOKEN="x", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(file))
    for token in ("one", "two"):
        file.write_text(token)
        source.get(EPOCH, soon())
        source.expire()
    for request, sent in zip(stub.requests, (b"Basic abc", b"one", b"two"), strict=True):
        assert b"\r\nAuthorization: %s\r\n" % sent in request


@pytest.mark.parametrize("content", [None, "a\nb"])
def test_a_token_file_that_cannot_be_used_is_named(stub, tmp_path, content):
    file = tmp_path / "token"
    if content:
        file.write_text(content)
    with pytest.raises(LockConfigurationError, match="token"):
        container(stub, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(file)).get(EPOCH, soon())
    assert stub.requests == []


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.170.3", "[fd00::1]", "10.0.0.1"),
        *("example.com", "127.evil.example", "localhost.example", "127.0.0.1.example"),
    ],
)
def test_credentials_are_not_asked_of_any_host_without_tls(host):
    with pytest.raises(LockConfigurationError, match="https"):
        ContainerCredentials({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{host}/"}).get(EPOCH, soon())


@pytest.mark.parametrize(
    "uri",
    [
        *("http://169.254.170.2/", "http://169.254.170.23/v1", "http://[fd00:ec2::23]/v1"),
        *("http://127.8.9.1:1/", "http://[::1]:1", "http://localhost:1/", "https://no-such-host.invalid/"),
    ],
)
def test_the_hosts_of_the_sdks_may_be_asked(uri):
    source = ContainerCredentials({"AWS_CONTAINER_CREDENTIALS_FULL_URI": uri})
    with pytest.raises(TransportError) as caught:  # this address is allowed, but no time is left to ask it
        source.get(EPOCH, time.monotonic())
    assert caught.value.ambiguous is False


def test_a_relative_uri_is_the_ecs_agents():
    source = ContainerCredentials({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1"})
    with pytest.raises(TransportError, match=r"http://169\.254\.170\.2/v2/credentials/1"):
        source.get(EPOCH, time.monotonic())


@pytest.mark.parametrize(
    "refusal",
    [
        say(answer({"message": "who are you"}, 403)),
        *(say(answer(b"<html>")), say(answer({"AccessKeyId": "a"})), say(answer([]))),
        *(grant("a", ends="tomorrow"), grant("a b")),
        grant("a", ends="2026-11-21T04:49:13Z"),  # in this very second
    ],
)
def test_an_endpoint_that_gives_no_credentials_is_a_clear_error(stub, refusal):
    stub.script = [refusal]
    with pytest.raises(LockConfigurationError):
        container(stub).get(EPOCH, soon())


@pytest.mark.parametrize("failure", [cut, say(answer(b"", 500)), say(answer(b"", 429))])
def test_an_endpoint_that_fails_for_now_is_not_ambiguous(stub, failure):
    stub.script = [failure, grant("a")]
    source = container(stub)
    with pytest.raises(TransportError, match="nothing was sent to DynamoDB") as caught:
        source.get(EPOCH, soon())
    assert caught.value.ambiguous is False
    assert source.get(EPOCH, soon()).access_key == "a"


def test_credentials_that_are_still_good_are_used_with_a_warning_while_the_endpoint_fails(stub, caplog):
    stub.script = [grant("a"), say(answer(b"", 500)), say(answer(b"", 500))]
    source = container(stub)
    source.get(EPOCH, soon())
    source._asked -= 3600
    assert source.get(EPOCH + 3300, soon()).access_key == "a"
    assert source.get(EPOCH + 3301, soon()).access_key == "a"  # without another request so soon
    assert len(stub.requests) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    with pytest.raises(TransportError, match="HTTP 500"):  # they have expired
        source.get(EPOCH + 3600, soon())


def test_only_one_of_many_threads_asks_for_new_credentials(stub):
    _, go_on, stub.script = held_up(grant("a"))
    source = container(stub)
    with ThreadPoolExecutor(8) as threads:
        results = [threads.submit(source.get, EPOCH, soon()) for _ in range(8)]
        go_on.set()
        assert {result.result().access_key for result in results} == {"a"}
    assert len(stub.requests) == 1


def test_a_thread_without_time_left_does_not_wait_for_the_one_that_asks(stub):
    source = container(stub)
    source._asking.acquire()  # another thread has it
    begin = time.monotonic()
    for late in (0.0, 0.5, 60.0):
        with pytest.raises(TransportError, match="another thread was still fetching") as caught:
            source.get(EPOCH, time.monotonic() - late)
        assert not caught.value.ambiguous
    assert time.monotonic() < begin + 1


def test_a_thread_does_not_wait_for_a_refresh_while_there_are_good_credentials(stub):
    asked, go_on, held = held_up(grant("b", ends="2026-11-21T06:49:13Z"))
    stub.script = [grant("a"), *held]
    source = container(stub)
    source.get(EPOCH, soon())
    source._asked -= 3600
    with ThreadPoolExecutor(1) as threads:
        refreshing = threads.submit(source.get, EPOCH + 3300, soon())
        assert asked.wait(20)
        source._asked -= 3600
        assert source.get(EPOCH + 3300, soon()).access_key == "a"
        go_on.set()
        assert refreshing.result().access_key == "b"


def test_credentials_that_dynamodb_calls_expired_are_fetched_anew(stub, connect):
    stub.script = [grant("a"), say(error("ExpiredTokenException")), grant("b"), say(answer())]
    transport = connect(stub.url, container(stub), now=lambda: EPOCH)
    with pytest.raises(ServiceError) as caught:
        get(transport)
    assert caught.value.retryable is True
    get(transport)
    assert b"Credential=b/" in stub.requests[3]


def test_a_request_is_not_sent_when_its_credentials_cannot_be_had(stub, connect):
    stub.script = [say(answer({}, 404))]
    with pytest.raises(LockConfigurationError, match="404"):
        get(connect(stub.url, container(stub), now=lambda: EPOCH))
    assert len(stub.requests) == 1  # the endpoint's
