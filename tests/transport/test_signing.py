"""What boto3 raises before it has sent anything: refusals by the services that have the credentials, and the like."""

import asyncio
import itertools
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import ClientError

from lambda_lock import AsyncLockClient, LockClient, deduplicate, with_lock
from lambda_lock.errors import LockConfigurationError, TransportError
from lambda_lock.table import check_table
from lambda_lock.transport import BotoTransport, ConditionFailed
from tests.support.saying import Saying

from .conftest import Say, Stub, answer, error, fails, get, over_boto3, say

ROLE = "arn:aws:iam::123456789012:role/locks"


def xml(status: int, text: str) -> Say:
    return say(answer(text.encode(), status, headers={"Content-Type": "text/xml"}))


GRANTED = xml(
    200,
    f"""<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIDSTS</AccessKeyId>
<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
<Expiration>{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>""",
)


def refusal(status: int, code: str, message: str = "No.") -> Say:
    return xml(status, f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>")


@pytest.fixture
def sts(bare_environment: pytest.MonkeyPatch, tmp_path: Path, stub: Stub) -> Iterator[Stub]:
    """The security token service of a pod on EKS, where a token in a file is exchanged for keys. It refuses."""
    (tmp_path / "token").write_text("a token")
    with Stub() as server:
        server.otherwise = refusal(403, "AccessDenied")
        token = str(tmp_path / "token")
        urls = {"AWS_ENDPOINT_URL_STS": server.url, "AWS_ENDPOINT_URL_DYNAMODB": stub.url, "AWS_REGION": "eu-west-1"}
        own = {"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": ROLE, "AWS_MAX_ATTEMPTS": "1"}
        for name, value in (urls | own).items():
            bare_environment.setenv(name, value)
        yield server


def acquired() -> None:
    with LockClient("locks") as client:
        client.acquire("a", wait=5)


def acquired_async() -> None:
    async def run() -> None:
        async with AsyncLockClient("locks") as client:
            await client.acquire("a", wait=5)

    asyncio.run(run())


def deduplicated() -> None:
    @deduplicate("a", client=LockClient("locks"))
    def work() -> None:
        """It does not run."""

    work()


CALLS: dict[str, Callable[[], object]] = {
    "acquire": acquired,
    "acquire, awaited": acquired_async,
    "get": lambda: LockClient("locks").get("a"),
    "rate_limit": lambda: LockClient("locks").rate_limit("a", 1, per=60),
    "acquire_all": lambda: LockClient("locks").acquire_all(["a", "b"], wait=5),
    "permits": lambda: LockClient("locks").acquire("a", wait=5, permits=2),
    "deduplicate": deduplicated,
    "holder": lambda: LockClient("locks").acquire("a", holder="an execution"),
    "check_table": lambda: check_table("locks"),
    "forget": lambda: LockClient("locks").forget("a"),
}


CODES = (
    "AccessDenied",
    "ExpiredTokenException",
    "InvalidIdentityToken",
    "ResourceNotFoundException",
    "ValidationError",
)


@pytest.mark.parametrize(
    ("call", "code"), [*zip(CALLS, CODES * 2, strict=True), *itertools.product(["acquire"], CODES[1:])]
)
def test_a_refusal_of_the_credentials_is_told_at_once_and_whole(sts, stub, call, code):
    message = "There is no key or table"
    sts.otherwise = refusal(403, code, message)
    with pytest.raises(LockConfigurationError, match="STS refused AssumeRoleWithWebIdentity") as caught:
        CALLS[call]()
    assert f"{code}: {message}" in str(caught.value)
    assert "'locks'" not in str(caught.value)
    assert len(sts.requests) == 1  # nothing was sent, so nothing is given back
    assert stub.requests == []


@pytest.mark.parametrize(
    "said", [refusal(400, "Throttling"), refusal(500, "InternalFailure"), refusal(503, "ServiceUnavailable")]
)
def test_throttled_credentials_are_an_outage_in_which_nothing_was_sent(sts, stub, said):
    sts.otherwise = said
    transport = over_boto3(stub.url)
    assert "nothing was sent to DynamoDB: STS refused" in str(fails(transport, ambiguous=False))
    sts.otherwise = GRANTED
    get(transport)
    assert b"AKIDSTS" in stub.requests[0]


def test_credentials_that_do_not_answer_are_an_outage_in_which_nothing_was_sent(sts, stub, bare_environment):
    bare_environment.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")
    assert "nothing was sent to DynamoDB" in str(fails(over_boto3(stub.url), ambiguous=False))


def test_a_function_does_not_run_without_its_lock_because_its_role_was_refused(sts):
    ran = []

    @with_lock("a", client=LockClient("locks"), on_unavailable="run")
    def work() -> None:
        ran.append(1)

    with pytest.raises(LockConfigurationError, match="STS refused"):
        work()
    assert ran == []


@pytest.fixture
def with_program(bare_environment: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Makes boto3 ask a program for credentials."""

    def configure(command: str) -> None:
        (tmp_path / "config").write_text(f"[default]\ncredential_process = {command}\n")
        bare_environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        bare_environment.setenv("AWS_REGION", "eu-west-1")

    return configure


@pytest.mark.parametrize("act", [acquired, acquired_async])
@pytest.mark.parametrize(("from_", "says"), [("sts", "STS refused"), ("with_program", "/nowhere")])
def test_credentials_that_are_refused_or_missing_are_logged_as_one_failed_acquire(request, caplog, act, from_, says):
    source = request.getfixturevalue(from_)
    if from_ == "with_program":
        source("/nowhere/credentials")
    with caplog.at_level(logging.INFO, "lambda_lock"), pytest.raises(LockConfigurationError, match=says):
        act()
    assert [each.__dict__["lock_event"] for each in caplog.records if each.name == "lambda_lock"] == ["failed"]


def test_a_token_file_that_is_missing_is_named(sts, bare_environment):
    bare_environment.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token")
    with pytest.raises(LockConfigurationError, match=r"FileNotFoundError: .*/nowhere/token"):
        acquired()
    assert sts.requests == []


@pytest.mark.parametrize("program", ["sys.exit('no ticket')", "print('{}')", "print('no JSON')"])
def test_a_program_for_credentials_that_fails_is_a_configuration_error(with_program, stub, program):
    with_program(f'"{sys.executable}" -c "import sys; {program}"')
    with pytest.raises(LockConfigurationError, match="nothing was sent"):
        get(over_boto3(stub.url))


def refreshed(refresh: Callable[[], Any], stub: Stub, **config: Any) -> BotoTransport:
    """A transport through the user's client, whose credentials come from a function of the application."""
    session = botocore.session.Session()
    expired = datetime.now(UTC) - timedelta(hours=1)
    session._credentials = RefreshableCredentials("a", "b", "c", expired, refresh, "own")
    client = boto3.Session(botocore_session=session, region_name="eu-west-1").client(
        "dynamodb", endpoint_url=stub.url, config=Config(**config)
    )
    return BotoTransport(client)


@pytest.mark.parametrize("kind", [RuntimeError, OSError, KeyError])
def test_what_the_applications_refresher_raises_is_a_configuration_error_with_its_cause(bare_environment, stub, kind):
    raised = kind("the vault is sealed")

    def refresh() -> Any:
        raise raised

    with pytest.raises(LockConfigurationError, match=f"{kind.__name__}: .*the vault is sealed") as caught:
        get(refreshed(refresh, stub))
    assert caught.value.__cause__ is raised
    assert stub.requests == []


def test_a_resource_that_another_service_does_not_find_is_not_the_table(bare_environment, stub):
    def refresh() -> Any:
        raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no secret"}}, "GetSecretValue")

    transport = refreshed(refresh, stub)
    client = LockClient("locks", transport=transport)
    with pytest.raises(LockConfigurationError, match=r"refused GetSecretValue.*no secret"):
        client.acquire("a")
    with pytest.raises(LockConfigurationError, match="refused GetSecretValue"):
        check_table("locks", transport=transport)


def test_a_second_try_within_the_client_that_cannot_be_signed_leaves_the_first_ambiguous(bare_environment, stub):
    stub.script = [say(error("InternalServerError", status=500))]

    def refresh() -> Any:
        if stub.requests:
            raise RuntimeError("the vault is sealed")
        soon = datetime.now(UTC) + timedelta(seconds=60)  # to be refreshed before each request
        return {"access_key": "a", "secret_key": "b", "token": "c", "expiry_time": soon.isoformat()}

    transport = refreshed(refresh, stub, retries={"total_max_attempts": 3, "mode": "standard"})
    assert "the vault is sealed" in str(fails(transport, ambiguous=True))
    assert len(stub.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind"), [(403, LockConfigurationError), (429, TransportError), (503, TransportError)]
)
def test_a_container_endpoint_behind_boto3_is_judged_by_its_status(sts, bare_environment, stub, status, kind):
    bare_environment.delenv("AWS_WEB_IDENTITY_TOKEN_FILE")
    bare_environment.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{sts.url}/role")
    bare_environment.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    sts.otherwise = say(answer({"code": "no"}, status, headers={"Content-Type": "application/json"}))
    with pytest.raises(kind, match="nothing was sent") as caught:
        over_boto3(stub.url)
    assert isinstance(caught.value, LockConfigurationError) or not caught.value.ambiguous


def test_many_transports_leave_one_pair_of_hooks_in_a_client(keys, stub):
    client = boto3.client("dynamodb", region_name="eu-west-1", endpoint_url=stub.url)
    called: list[int] = []
    client.meta.events.register("before-send.dynamodb", lambda **_: called.append(1))
    for _ in range(3):
        get(BotoTransport(client))
    assert len(called) == 3
    events = client.meta.events._emitter._handlers.prefix_search("before-send.dynamodb")
    assert sum(getattr(handler, "__module__", "") == "lambda_lock.transport.signing" for handler in events) == 1


def unsent() -> LockConfigurationError:
    refused = LockConfigurationError("the credentials were refused")
    refused.is_unsent = True
    return refused


def test_a_claim_is_given_back_where_only_its_last_send_was_certainly_not_sent():
    transport = Saying(TransportError(True), unsent(), ConditionFailed(None, None))
    with pytest.raises(LockConfigurationError, match="refused"):
        LockClient("locks", transport=transport).acquire("a", wait=5)
    claim, again, released = (request["UpdateExpression"] for request in transport.requests)
    assert claim == again
    assert released != claim


def test_a_claim_is_given_back_after_an_error_that_does_not_say_whether_it_was_sent():
    transport = Saying(LockConfigurationError("wrong"), ConditionFailed(None, None))
    with pytest.raises(LockConfigurationError, match="wrong"):
        LockClient("locks", transport=transport).acquire("a")
    assert len(transport.requests) == 2
