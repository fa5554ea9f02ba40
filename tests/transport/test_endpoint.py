import itertools

import botocore.session
import pytest
from botocore.endpoint_provider import EndpointProvider

from lambda_lock.errors import LockConfigurationError
from lambda_lock.transport.endpoint import Endpoint, configured_url, region, resolve

LOADER = botocore.session.get_session().get_component("data_loader")
PARTITIONS = LOADER.load_data("partitions")
RULES = EndpointProvider(LOADER.load_service_model("dynamodb", "endpoint-rule-set-1"), PARTITIONS)
REGIONS = [
    name for partition in PARTITIONS["partitions"] for name in partition["regions"] if not name.endswith("-global")
]
BOTH = {"AWS_ENDPOINT_URL_DYNAMODB": "http://a", "AWS_ENDPOINT_URL": "http://b"}
UNKNOWN = ["xx-new-1", "eu-future-9", "us-gov-new-1", "cn-new-1", "us-iso-new-1", "us-isob-new-1", "eu-isoe-new-2"]


def test_botocore_knows_enough_regions_to_compare_with():
    assert len(REGIONS) > 40


@pytest.mark.parametrize("name", REGIONS + UNKNOWN)
def test_each_region_has_the_endpoint_that_botocore_gives_it(name):
    for fips, dualstack in itertools.product([False, True], repeat=2):
        expected = RULES.resolve_endpoint(Region=name, UseFIPS=fips, UseDualStack=dualstack).url
        flags = {"AWS_USE_FIPS_ENDPOINT": str(fips), "AWS_USE_DUALSTACK_ENDPOINT": "true" if dualstack else "no"}
        assert resolve(name, None, flags) == expected


@pytest.mark.parametrize("name", ["aws-global", "eu-west1", "euwest", "eu-west-1a", "EU-WEST-1", "localhost"])
def test_a_name_that_is_not_a_regions_gives_no_host(name):
    with pytest.raises(LockConfigurationError, match="AWS_REGION"):
        resolve(name, None, {})
    assert resolve(name, "http://127.0.0.1:8000", {}) == "http://127.0.0.1:8000"


@pytest.mark.parametrize("flag", ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"])
def test_a_flag_beside_a_configured_endpoint_is_refused(flag):
    with pytest.raises(LockConfigurationError, match=flag):
        resolve("eu-west-1", "http://localhost:8000", {flag: "true"})


def test_the_region_comes_from_the_argument_before_the_environment():
    both = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}
    assert region("eu-west-3", both) == "eu-west-3"
    assert region(None, both) == "eu-west-1"
    assert region(None, {"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2"}) == "eu-west-2"
    assert region(None, {}) is None


@pytest.mark.parametrize(
    "name", ["eu west 1", "eu-west-1.evil.example", "eu-west-1/", "-eu", "eu-west-1\n", "é", "a" * 64]
)
def test_a_region_that_is_no_host_label_is_refused(name):
    with pytest.raises(LockConfigurationError, match="Region"):
        region(name, {})
    with pytest.raises(LockConfigurationError, match="Region"):
        region(None, {"AWS_REGION": name})


@pytest.mark.parametrize(
    ("argument", "environ", "expected"),
    [
        ("http://c", BOTH, "http://c"),
        (None, BOTH, "http://a"),
        (None, BOTH | {"AWS_ENDPOINT_URL_DYNAMODB": ""}, "http://b"),
        (None, {}, None),
        (None, BOTH | {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, None),
        ("http://c", BOTH | {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "http://c"),
    ],
)
def test_the_endpoint_comes_from_the_most_special_setting_and_the_argument_is_never_ignored(
    argument, environ, expected
):
    assert configured_url(argument, environ) == expected


@pytest.mark.parametrize(
    ("url", "tls", "host", "port", "authority", "path"),
    [
        ("https://dynamodb.eu-west-1.amazonaws.com", True, "dynamodb.eu-west-1.amazonaws.com", 443, None, "/"),
        ("http://localhost:8000", False, "localhost", 8000, "localhost:8000", "/"),
        ("HTTP://LocalHost:80/", False, "localhost", 80, "localhost", "/"),
        ("http://127.0.0.1:443", False, "127.0.0.1", 443, "127.0.0.1:443", "/"),
        ("https://[::1]:8000/", True, "::1", 8000, "[::1]:8000", "/"),
        ("https://my_host/a/b?c=d", True, "my_host", 443, "my_host", "/a/b?c=d"),
    ],
)
def test_an_url_is_taken_apart(url, tls, host, port, authority, path):
    endpoint = Endpoint(url)
    assert (endpoint.tls, endpoint.host, endpoint.port, endpoint.path) == (tls, host, port, path)
    assert endpoint.authority == (authority or host)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "localhost:8000",
            "ftp://host",
            "https://",
            "https://user:pw@host",
            "https://host?x",
            "https://é",
            "https://-",
        ),
        *("https://host:0", "https://host:65536", "https://host:x", "http://[::1"),
        *("https://ho st", "https://host/\r\nX: y", "https://host\n"),
    ],
)
def test_a_malformed_endpoint_is_refused(url):
    with pytest.raises(LockConfigurationError, match="endpoint"):
        Endpoint(url)


def test_an_endpoint_that_is_no_text_is_a_type_error():
    with pytest.raises(TypeError, match="endpoint_url"):
        Endpoint(8000)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="region_name"):
        region(1, {})  # type: ignore[arg-type]
