"""Errors, reprs and the log do not show secrets, and show other people's text on one line."""

import logging
import pickle
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from lambda_lock.decorators.disabled import StandIn
from lambda_lock.errors import LockError, LockFormatError, LockNotGrantedError
from lambda_lock.observe.log import shown
from lambda_lock.observe.observer import package
from lambda_lock.transport import Credentials, Reply, choose
from lambda_lock.transport.credentials import ContainerCredentials
from tests.support.stand_ins import made

from .conftest import answer, cut, error, fails, get, over_boto3, patient, say
from .test_answers import now, refused, row

SECRET = "hunter2"
FORGED = "x\n2026-11-21 WARNING lock 'b' is lost\x1b[2J\u2028"


def shows(error: BaseException) -> str:
    """Everything that a log would show of the error, with its causes."""
    return "".join(traceback.format_exception(error)) + repr(error)


def raised(call: Callable[[], object], kind: type[BaseException] = LockError) -> BaseException:
    with pytest.raises(kind) as caught:
        call()
    return caught.value


# Secrets


@pytest.mark.parametrize(
    "said",
    [
        *(answer({"SecretAccessKey": SECRET}, status) for status in (403, 503)),
        answer({"AccessKeyId": "a", "SecretAccessKey": SECRET}),
        answer({"AccessKeyId": SECRET, "SecretAccessKey": "b\n", "Expiration": "2026-11-21T05:49:13Z"}),
        answer(f'{{"SecretAccessKey": "{SECRET}" '.encode()),
        answer(f'{{"SecretAccessKey": "{SECRET}"'.encode() + b"\xff}"),
        answer(f'"{SECRET}"'.encode()),
        answer(b"[" * 100_000),
        f"{SECRET}\r\n\r\n".encode(),
        *(
            f"HTTP/1.1 200 OK\r\n{head}{SECRET}\r\n\r\n".encode()
            for head in ("", "Content-Length: ", "Transfer-Encoding: ", "Transfer-Encoding: chunked\r\n\r\n")
        ),
    ],
)
def test_no_error_shows_what_a_credentials_endpoint_answered(stub, said):
    stub.otherwise = say(said, close=True)
    source = ContainerCredentials({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{stub.url}/role?token={SECRET}"})
    assert SECRET not in shows(raised(lambda: source.get(1, time.monotonic() + 20)))


@pytest.mark.parametrize(
    "url",
    [
        *(f"{start}user:{SECRET}@host:80" for start in ("http://", "x//", "", "http:/", "http:\\\\")),
        f"http://user:{SECRET}/@host",
        f"user:{SECRET}@host//path",
    ],
)
@pytest.mark.parametrize("environ", [{}, {"AWS_USE_FIPS_ENDPOINT": "true"}])
def test_no_error_shows_the_password_of_an_endpoint(keys, url, environ):
    for name, value in environ.items():
        keys.setenv(name, value)
    keys.setenv("AWS_ENDPOINT_URL", url)
    caught = raised(lambda: choose(now=time.time))
    assert SECRET not in shows(caught)
    assert "host" in str(caught)
    assert SECRET not in shows(raised(lambda: choose(now=time.time, endpoint_url=url, boto3_client="x")))


@pytest.mark.parametrize("port", ["1", "the stub's"])
@pytest.mark.parametrize("user", ["", f"user:{SECRET}@"])
def test_no_error_of_boto3_shows_the_password_of_an_endpoint_or_carries_the_request(keys, stub, user, port):
    keys.setenv("AWS_SESSION_TOKEN", SECRET)
    stub.otherwise = cut
    with closing(over_boto3(f"http://{user}127.0.0.1:{port if port == '1' else stub.port}")) as transport:
        caught = raised(lambda: get(transport, 3))
    assert SECRET not in shows(caught) + carried(caught)


def test_the_reason_for_boto3_does_not_show_what_stands_in_an_endpoints_path(keys):
    keys.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:1/?token={SECRET}")
    with closing(choose(now=time.time)) as transport:
        assert transport.reason == "the endpoint at 127.0.0.1:1 has a path"


@pytest.mark.parametrize("status", [200, 400, 502])
@pytest.mark.parametrize("said", [SECRET, f'["{SECRET}"]', f'{{"x": "{SECRET}"', f'{{"Item": "{SECRET}"}}'])
def test_no_error_shows_what_another_server_answered(stub, client, status, said):
    stub.otherwise = say(answer(said.encode(), status))
    assert SECRET not in shows(raised(lambda: client.get("a")))


def test_no_error_shows_the_items_of_a_commit(stub, client):
    quoted = f"1 validation error detected: Value '[{{'S': '{SECRET}'}}]' at 'transactItems' failed: too many"
    stub.otherwise = say(error("ValidationException", quoted))

    def refused(item: Any) -> BaseException:
        return raised(lambda: made(StandIn, "a", client=client).commit([item]))

    def put(key: Any) -> Any:
        return {"Put": {"TableName": "orders", "Item": {"id": {"S": key}}}}

    for item in (put(SECRET), put({SECRET: SECRET}), SECRET, {"Put": {}, "Item": SECRET}, [SECRET]):
        assert SECRET not in shows(refused(item))
    assert "at 'transactItems' failed: too many" in str(refused(put(SECRET)))
    assert SECRET not in shows(raised(lambda: client.acquire("a", attributes=[SECRET]), TypeError))


@pytest.mark.parametrize(
    ("code", "quoted", "left"),
    [
        ("InvalidSignatureException", "No match.\n\nThe Canonical String is\n'x-amz-security-token:{}'", "match."),
        ("IncompleteSignatureException", "Authorization header requires 'Date'. Authorization={}", "requires 'Date'."),
        ("ValidationException", 'Bad: {{"X-Amz-Security-Token": "{}"}}', "Bad:"),
        ("ThrottlingException", "Too much of AWS4-HMAC-SHA256 Credential={}", "Too much of"),
    ],
)
def test_no_error_shows_the_headers_that_dynamodb_quotes(stub, client, code, quoted, left):
    stub.otherwise = say(error(code, quoted.format(SECRET)))
    caught = raised(lambda: client.get("a"))
    assert SECRET not in shows(caught)
    assert left in str(caught)


def test_what_dynamodb_says_about_a_role_for_authorization_is_shown(stub, client):
    said = "User: arn:aws:sts::1:assumed-role/authorization-x-amz-api/f is not authorized to perform: dynamodb:GetItem"
    stub.otherwise = say(error("AccessDeniedException", said))
    assert said in str(raised(lambda: client.get("a")))


def carried(error: BaseException | None) -> str:
    """What an error and its causes have in their attributes."""
    found = ""
    while error is not None:
        found += repr(vars(error)) + repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def test_no_error_carries_the_lines_of_a_credentials_file(keys, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        keys.delenv(name)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(f"[default]\naws_secret_access_key {SECRET}\n")
    caught = raised(lambda: choose(now=time.time))
    assert "Unable to parse" in str(caught)
    assert SECRET not in shows(caught) + carried(caught)


def test_no_error_carries_a_token_that_is_not_text(tmp_path):
    (tmp_path / "token").write_bytes(SECRET.encode() + b"\xff")
    named = {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token")}
    source = ContainerCredentials(named | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1"})
    caught = raised(lambda: source.get(1, time.monotonic() + 20))
    assert "is not UTF-8" in str(caught)
    assert SECRET not in shows(caught) + carried(caught)


def test_no_error_carries_an_answer_that_is_not_json(stub, https):
    for said in (SECRET.encode(), SECRET.encode() + b"\xff"):
        stub.otherwise = say(answer(said))
        assert SECRET not in carried(raised(lambda: get(https)))


def test_a_repr_shows_names_and_no_values():
    assert repr(Reply({"key": {"S": SECRET}}, 5)) == "Reply(['key'], date=5)"
    assert repr(Reply(None, None)) == "Reply(None, date=None)"
    assert SECRET not in repr(Credentials("a", SECRET, SECRET))


# Other people's text


def test_the_name_of_a_holder_cannot_break_the_line_of_an_error_or_the_log(stub, https, caplog):
    stub.otherwise = say(refused(Item=row(ownerName={"S": FORGED})))
    client = patient(https)
    with caplog.at_level(logging.DEBUG, "lambda_lock"):
        caught = raised(lambda: client.acquire("a", wait=0), LockNotGrantedError)
    assert isinstance(caught, LockNotGrantedError)
    assert caught.holder == FORGED  # as data, it is unchanged
    assert str(caught).isprintable()
    assert r"held by x\n2026-11-21" in str(caught)
    assert str(pickle.loads(pickle.dumps(caught))) == str(caught)
    assert caplog.records
    assert all(record.getMessage().isprintable() for record in caplog.records)
    stub.otherwise = say(now({"Item": row(ownerName={"S": FORGED})}))
    assert repr(client.get("a")).isprintable()
    client.close(release=False)


def test_what_dynamodb_or_a_proxy_says_is_on_one_line(stub, https):
    stub.script = [say(error("ValidationException", FORGED)), say(error(FORGED, FORGED))]
    for _ in range(2):
        caught = raised(lambda: patient(https).get("a"))
        assert str(caught).isprintable()
        assert str(caught.__cause__).isprintable()
    stub.otherwise = say(answer(b"", headers={"Content-Type": "text/plain\t\xa0x"}))
    assert str(fails(https, ambiguous=True)).isprintable()


def test_arguments_of_a_message_are_on_one_line_and_others_as_they_are(caplog):
    forged = FORGED, ValueError(FORGED), FORGED, ValueError(FORGED)
    package.tell("record_failed", "%s %s %r %r %d", *forged, 5, key=FORGED)
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert record.getMessage().count(r"x\n2026-11-21") == 4
    assert record.lock_key == FORGED
    plain = ValueError("plain")
    assert shown(plain) is plain
    assert shown("plain") == "plain"
    assert shown(5) == 5


def test_an_error_is_no_longer_than_a_line_can_be():
    error = LockFormatError("x" * 400_000)
    assert len(str(error)) < 10_000
    assert str(error).endswith("… (400000 characters)")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
