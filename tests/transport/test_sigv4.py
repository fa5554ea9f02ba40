import time

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock.transport.credentials import Credentials
from lambda_lock.transport.endpoint import Endpoint
from lambda_lock.transport.https import signed

VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
HOSTS = st.sampled_from(
    ["dynamodb.eu-west-1.amazonaws.com", "localhost", "127.0.0.1", "[::1]", "a_b.example", "MiXed.Org"]
)
PORTS = st.sampled_from(["", ":80", ":443", ":8000", ":65535"])
HEADER_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


def botocore_headers(
    url: str, headers: dict[str, str], body: bytes, keys: Credentials, region: str, now: int
) -> dict[str, str]:
    """The headers that botocore adds to the same request, signed at a given time."""
    auth = SigV4Auth(BotoCredentials(keys.access_key, keys.secret_key, keys.token), "dynamodb", region)
    others = {name: value for name, value in headers.items() if name != "Host"}
    request = AWSRequest("POST", url, headers=others, data=body)
    request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    auth._modify_request_before_signing(request)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(text, request))
    return dict(request.headers.items())


def our_headers(headers: dict[str, str], body: bytes, keys: Credentials, region: str, now: int) -> dict[str, str]:
    """The headers of the lines that we send, which begin with those given."""
    lines = signed(tuple(headers.items()), body, credentials=keys, region=region, now=now).split("\r\n")
    assert lines.pop() == ""
    names_and_values = [line.partition(": ")[::2] for line in lines]
    assert names_and_values[: len(headers)] == list(headers.items())
    return dict(names_and_values)


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=HOSTS,
    port=PORTS,
    slash=st.sampled_from(["", "/"]),
    body=st.binary(max_size=400),
    target=VISIBLE,
    value=HEADER_VALUES,
    keys=st.builds(Credentials, VISIBLE, VISIBLE, st.none() | VISIBLE),
    region=st.from_regex(r"[a-z]{2}-[a-z]{1,9}-[1-9]", fullmatch=True),
    now=st.integers(min_value=0, max_value=253402300799),
)
def test_a_request_is_signed_as_botocore_signs_it(scheme, host, port, slash, body, target, value, keys, region, now):
    url = f"{scheme}://{host}{port}{slash}"
    headers = {"Host": Endpoint(url).authority, "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    headers["X-Anything"] = value
    expected = botocore_headers(url, headers, body, keys, region, now)
    ours = our_headers(headers, body, keys, region, now)
    for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
        assert ours.get(name) == expected.get(name)


def test_the_signing_key_follows_secret_region_and_day():
    url = "https://dynamodb.eu-west-1.amazonaws.com"
    headers = {"Host": Endpoint(url).authority}
    cases = [("a", "eu-west-1", 0), ("b", "eu-west-1", 0), ("b", "us-east-1", 0), ("b", "us-east-1", 86400)]
    for secret, region, now in cases * 2:
        keys = Credentials("id", secret)
        expected = botocore_headers(url, headers, b"{}", keys, region, now)
        assert our_headers(headers, b"{}", keys, region, now)["Authorization"] == expected["Authorization"]
