import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib import request

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock.errors import LockArgumentError, LockConfigurationError
from lambda_lock.transport import BotoTransport, HttpsTransport, choose
from lambda_lock.transport.choice import proxy_variable
from lambda_lock.transport.endpoint import Endpoint

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
LAMBDA = KEYS | {"AWS_REGION": "eu-west-1", "AWS_SESSION_TOKEN": "c"}
LOCAL = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
SNAPSTART = {
    "AWS_REGION": "eu-west-1",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9001/2021-04-23/credentials",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN": "x",
}


def chosen(**arguments: Any) -> HttpsTransport | BotoTransport:
    return choose(now=time.time, **arguments)


def over_boto3(**arguments: Any) -> BotoTransport:
    transport = chosen(**arguments)
    assert isinstance(transport, BotoTransport)
    return transport


def over_https(**arguments: Any) -> HttpsTransport:
    transport = chosen(**arguments)
    assert isinstance(transport, HttpsTransport)
    return transport


def set_all(environment: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)


@pytest.fixture
def home(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a file into the home directory."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "latin-1")
        return path

    return write


@pytest.mark.parametrize(
    ("environ", "name", "reason"),
    [
        (LAMBDA, "https", "AWS_ACCESS_KEY_ID"),
        (SNAPSTART, "https", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        (KEYS | {"AWS_DEFAULT_REGION": "eu-west-1"}, "https", "AWS_ACCESS_KEY_ID"),
        (LAMBDA | SNAPSTART, "https", "AWS_ACCESS_KEY_ID"),
        (LAMBDA | {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, "https", "AWS_ACCESS_KEY_ID"),
        (LAMBDA | {"AWS_ENDPOINT_URL": "http://127.0.0.1/gateway"}, "boto3", "path"),
        (LAMBDA | {"HTTPS_PROXY": "http://proxy:1"}, "boto3", "HTTPS_PROXY"),
        (LAMBDA | {"https_proxy": "http://proxy:1"}, "boto3", "https_proxy"),
        (LAMBDA | {"HTTPS_PROXY": "http://proxy:1", "https_proxy": ""}, "https", "AWS_ACCESS_KEY_ID"),
        (LAMBDA | {"HTTP_PROXY": "http://proxy:1"}, "https", "AWS_ACCESS_KEY_ID"),
        (LAMBDA | {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": ".amazonaws.com"}, "https", "AWS_ACCESS_KEY_ID"),
        (LAMBDA | {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "*"}, "https", "AWS_ACCESS_KEY_ID"),
        ({"AWS_REGION": "eu-west-1"}, "boto3", "no credentials"),
        (SNAPSTART | {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "a:role"}, "boto3", "no credentials"),
        *((LAMBDA | {"AWS_ACCOUNT_ID_ENDPOINT_MODE": mode}, "boto3", mode) for mode in ("required", "REQUIRED")),
        (LAMBDA | {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "preferred"}, "https", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_the_environment_decides(bare_environment, environ, name, reason):
    set_all(bare_environment, **environ)
    transport = chosen()
    assert transport.name == name
    assert reason in transport.reason


@pytest.mark.parametrize(
    ("variables", "section", "reason"),
    [
        ({"AWS_PROFILE": "dev"}, "profile dev", "AWS_PROFILE is set"),
        ({"AWS_DEFAULT_PROFILE": "dev"}, "profile dev", "AWS_DEFAULT_PROFILE is set"),
        ({}, "default", "Region"),
    ],
)
def test_a_profile_and_a_config_file_that_alone_gives_the_region_go_to_boto3_also_beside_keys(
    bare_environment, home, variables, section, reason
):
    home(".aws/config", f"[{section}]\nregion = eu-north-1\n")
    set_all(bare_environment, **KEYS, **variables)
    transport = over_boto3()
    assert reason in transport.reason
    assert transport.client.meta.region_name == "eu-north-1"


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", None])
@pytest.mark.parametrize(
    "text",
    [
        "[default]\n  region = x\n  Endpoint_URL: http://127.0.0.1:9\n",
        '[profile "default"]\nendpoint_url=http://127.0.0.1:9',
        "[default]\nservices = here\n[services here]\ndynamodb =\n  endpoint_url = http://127.0.0.1:9\n",
        "[profile other]\nregion = x\n[default]\nuse_fips_endpoint = true\n",
    ],
)
def test_an_endpoint_in_the_default_profile_is_that_of_boto3(bare_environment, home, variable, text):
    path = home("settings" if variable else ".aws/config", text)
    set_all(bare_environment, **LAMBDA, **({variable: str(path)} if variable else {}))
    transport = over_boto3()
    theirs = boto3.Session().client("dynamodb", region_name="eu-west-1").meta.endpoint_url
    assert "sets" in transport.reason
    assert transport.client.meta.endpoint_url == theirs != "https://dynamodb.eu-west-1.amazonaws.com"


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
def test_certificates_of_the_default_profile_are_those_of_boto3(bare_environment, home, variable):
    path = home("settings", "[default]\nca_bundle = /somewhere.pem\n")
    set_all(bare_environment, **LAMBDA, **{variable: str(path)})
    assert chosen().reason == f"{path} sets ca_bundle"


@pytest.mark.parametrize(
    "text",
    [
        "[default]\nregion = eu-north-1\noutput = json\n# endpoint_url = http://127.0.0.1:9\n",
        "[profile other]\nendpoint_url = http://127.0.0.1:9\nca_bundle = x\n",
        "[default]\nregion = eu-north-1\n  [profile other]\n[other]\nendpoint_url = http://127.0.0.1:9\n",
    ],
)
def test_other_settings_of_the_files_and_files_that_cannot_be_opened_leave_boto3_out(bare_environment, home, text):
    path = home("config", text)
    for file in (path, path.parent):
        set_all(bare_environment, **LAMBDA, AWS_CONFIG_FILE=str(file))
        assert chosen().name == "https"


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
@pytest.mark.parametrize(
    "text",
    [
        "\xff\x00 no text",
        "[default]\n[default]\n",
        "[other]\ns3 =\n  what\n",
        "region = x\n",
        "\xef\xbb\xbf[default]\nregion = x\n",
    ],
)
def test_a_file_that_cannot_be_read_as_settings_is_refused_as_by_boto3(bare_environment, home, variable, text):
    set_all(bare_environment, **LAMBDA, **{variable: str(home("settings", text))})
    with pytest.raises(LockConfigurationError, match="Unable to parse config file"):
        chosen()


@pytest.mark.parametrize("region", ["local", "fips-us-east-1", "us-west-2-fips"])
def test_a_pseudo_region_has_the_endpoint_that_boto3_gives_it(bare_environment, region):
    set_all(bare_environment, **LAMBDA | {"AWS_REGION": region})
    transport = over_boto3()
    assert region in transport.reason
    theirs = boto3.Session().client("dynamodb", region_name=region).meta.endpoint_url
    assert transport.client.meta.endpoint_url == theirs


def test_aws_region_comes_before_the_one_that_boto3_knows_over_both_transports(bare_environment):
    set_all(bare_environment, **LAMBDA, AWS_DEFAULT_REGION="eu-west-2")
    assert over_https().region == "eu-west-1"
    set_all(bare_environment, HTTPS_PROXY="http://127.0.0.1:9")
    assert over_boto3().client.meta.region_name == "eu-west-1"


def test_a_credentials_file_comes_before_the_container_as_in_the_sdks(bare_environment, home):
    home(".aws/credentials", "[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    set_all(bare_environment, **SNAPSTART)
    assert chosen().name == "boto3"


def test_arguments_beat_the_environment(bare_environment):
    set_all(bare_environment, **LAMBDA, **LOCAL)
    transport = over_https(region_name="eu-2", endpoint_url="http://127.0.0.1:2")
    assert (transport.region, transport.endpoint.url) == ("eu-2", "http://127.0.0.1:2")
    bare_environment.setenv("AWS_REGION", "local")  # any Region beside an endpoint
    transport = over_https()
    assert (transport.region, transport.endpoint.url) == ("local", LOCAL["AWS_ENDPOINT_URL"])


@pytest.mark.parametrize(
    ("own", "arguments", "region"),
    [("eu-west-3", {}, "eu-west-3"), ("eu-west-3", {"region_name": "eu-west-2"}, "eu-west-2"), (None, {}, "eu-west-1")],
)
def test_a_session_is_used_with_its_own_region_unless_one_is_given_and_else_with_aws_region(
    bare_environment, own, arguments, region
):
    set_all(bare_environment, **LAMBDA)
    transport = over_boto3(boto3_session=boto3.Session(region_name=own), **arguments)
    assert transport.client.meta.region_name == region


def test_a_client_is_used_as_it_is(bare_environment):
    client = boto3.client("dynamodb", region_name="eu-west-3")
    transport = over_boto3(boto3_client=client)
    assert transport.client is client
    assert transport.reason == "boto3_client was passed"


@pytest.mark.parametrize("other", [{"region_name": "eu-west-1"}, {"endpoint_url": "http://h"}, {"boto3_session": "x"}])
def test_a_client_excludes_what_it_has_itself(bare_environment, other):
    client = boto3.client("dynamodb", region_name="eu-west-3")
    with pytest.raises(LockArgumentError, match=next(iter(other))):
        chosen(boto3_client=client, **other)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: object(), r"boto3\.client"),
        (lambda: "dynamodb", r"boto3\.client"),
        (lambda: boto3, r"boto3\.client"),
        (lambda: boto3.client("sqs", region_name="eu-west-1"), "sqs"),
        (lambda: boto3.resource("dynamodb", region_name="eu-west-1"), "resource"),
        (lambda: boto3.resource("dynamodb", region_name="eu-west-1").Table("locks"), "resource"),
        (lambda: boto3.resource("dynamodb", region_name="eu-west-1").meta.client, "rewrites the values"),
    ],
)
def test_what_is_no_client_or_session_is_a_type_error_that_says_what_it_is(bare_environment, make, said):
    with pytest.raises(TypeError, match=said):
        chosen(boto3_client=make())
    with pytest.raises(TypeError, match=r"boto3_session must be a boto3\.Session"):
        chosen(boto3_session=make())


def test_no_credentials_anywhere_is_an_error_with_the_remedy(bare_environment, stub):
    set_all(bare_environment, AWS_REGION="eu-west-1", AWS_ENDPOINT_URL=stub.url)
    with pytest.raises(LockConfigurationError, match="credentials"):
        chosen().send("GetItem", {"TableName": "locks", "Key": {"key": {"S": "a"}}}, timeout=20)
    assert stub.requests == []


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        (LAMBDA | {"AWS_PROFILE": "nobody"}, "nobody"),
        (LAMBDA | {"AWS_REGION": "eu west"}, "Region"),
        (LAMBDA | {"AWS_ENDPOINT_URL": "localhost:8000"}, "endpoint"),
        (KEYS, "AWS_REGION"),
    ],
)
def test_what_leads_nowhere_is_refused_at_once(bare_environment, environ, says):
    set_all(bare_environment, **environ)
    with pytest.raises(LockConfigurationError, match=says):
        chosen()


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (LAMBDA | {"AWS_PROFILE": "dev"}, "AWS_PROFILE is set"),
        (LAMBDA | {"HTTPS_PROXY": "http://proxy"}, "HTTPS_PROXY is set"),
        (KEYS, "no Region"),
        (KEYS | {"AWS_REGION": ""}, "no Region .*; AWS_REGION is set, but empty:"),
        ({"AWS_REGION": "eu-west-1"}, "no credentials"),
    ],
)
def test_without_boto3_the_error_says_what_was_found_and_both_remedies(bare_environment, environ, found):
    set_all(bare_environment, **environ)
    bare_environment.setitem(sys.modules, "boto3", None)
    bare_environment.delitem(sys.modules, "lambda_lock.transport.boto", raising=False)
    with pytest.raises(LockConfigurationError, match=found) as caught:
        chosen()
    assert "lambda-lock[boto3]" in str(caught.value)
    assert "AWS_ACCESS_KEY_ID" in str(caught.value)


def test_the_choice_is_logged_at_debug(bare_environment, caplog):
    set_all(bare_environment, **LAMBDA)
    with caplog.at_level(logging.DEBUG, "lambda_lock"):
        transport = chosen()
    assert [record.getMessage() for record in caplog.records] == [f"transport https: {transport.reason}"]


NAMES = st.sampled_from(
    ["example.org", "db.example.org", "localhost", "127.0.0.1", "xexample.org", "org", "EXAMPLE.org"]
)
EXCEPTED = st.builds(
    lambda dot, name, port, space: f"{space}{dot}{name}{port}{space}",
    st.sampled_from(["", "."]),
    NAMES | st.just("*") | st.just(""),
    st.sampled_from(["", ":8000"]),
    st.sampled_from(["", " "]),
)


@given(NAMES, st.sampled_from(["", ":8000", ":1"]), st.lists(EXCEPTED, max_size=3))
def test_no_proxy_is_read_as_the_standard_library_reads_it(host, port, excepted):
    text = ",".join(excepted)
    endpoint = Endpoint(f"http://{host}{port}")
    bypassed = request.proxy_bypass_environment(endpoint.authority, {"no": text})  # type: ignore[attr-defined]
    variable = proxy_variable(endpoint, {"http_proxy": "http://proxy", "no_proxy": text})
    assert (variable is None) == bool(bypassed)
