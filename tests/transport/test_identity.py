"""A lock is taken where boto3 would, and as whom boto3 would: botocore itself is asked, for many environments."""

import json
import random
import subprocess
import sys

import pytest

DEFAULT = "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n"
ENDPOINT = "endpoint_url = http://127.0.0.1:9\n"
#: For each variable, the values that it may have. One that is left out is not set.
VARIABLES = {
    "AWS_ACCESS_KEY_ID": ["ENVIRONMENT", "ENVIRONMENT", "ENVIRONMENT", ""],
    "AWS_SECRET_ACCESS_KEY": ["s", "s", "s", "s", ""],
    "AWS_SESSION_TOKEN": ["t", ""],
    "AWS_SECURITY_TOKEN": ["u", ""],
    "AWS_REGION": ["eu-west-1"] * 4 + ["us-gov-west-1", "cn-north-1", "us-isof-south-1", "eusc-de-east-1", ""],
}
PATHS = ["$HERE/other", "${HERE}/other", "~/other", "$NOWHERE/other", ""]
PROXIES = ("HTTPS_PROXY", "https_proxy", "Https_Proxy", "HTTPS_proxy", "HTTP_PROXY", "Http_proxy")
#: Those that are mostly not set.
RARE = {
    "AWS_DEFAULT_REGION": ["eu-west-2", ""],
    "AWS_PROFILE": ["default", "dev", ""],
    "AWS_DEFAULT_PROFILE": ["dev", ""],
    **dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), PATHS),
    "BOTO_CONFIG": ["~/other", "$HERE/boto", ""],
    "AWS_CREDENTIAL_FILE": ["~/original", ""],
    "AWS_ENDPOINT_URL": ["http://127.0.0.1:1", "https://localhost/", ""],
    "AWS_ENDPOINT_URL_DYNAMODB": ["http://127.0.0.1:2", ""],
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": ["true", "TRUE", " true", "1", ""],
    "AWS_USE_FIPS_ENDPOINT": ["true", "True", " true", "true ", "1", "yes", ""],
    "AWS_USE_DUALSTACK_ENDPOINT": ["true", "TRUE", " true", "\ttrue", ""],
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": ["preferred", "DISABLED", "required", "what", ""],
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": ["@role", "@role", "@role", ""],
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": [""],
    "AWS_CONTAINER_AUTHORIZATION_TOKEN": ["x", ""],
    **{name: ["/nowhere", ""] for name in ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")},
    "AWS_ROLE_ARN": ["arn:aws:iam::1:role/x"],
    "AWS_CREDENTIAL_EXPIRATION": ["2099-01-01T00:00:00Z", ""],
    **{name: ["/nowhere.pem"] for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")},
    "AWS_RETRY_MODE": ["adaptive"],
    "AWS_DEFAULTS_MODE": ["in-region"],
    "AWS_AUTH_SCHEME_PREFERENCE": ["sigv4a,sigv4"],
    "AWS_SIGV4A_SIGNING_REGION_SET": ["*"],
    **{name: [f"http://127.0.0.1:{port}", ""] for port, name in enumerate(PROXIES, 3)},
    "REQUEST_METHOD": ["GET"],
    "NO_PROXY": ["*", ".amazonaws.com", "127.0.0.1", ""],
    "no_proxy": ["api.aws", ""],
    "No_Proxy": ["*", ""],
}
FILES = {
    ".aws/config": [
        DEFAULT,
        *(f"[{name}]\n{ENDPOINT}" for name in ("default", "profile default", "profile 'default'", "profile def\\ault")),
        *(f"[{name}]\n{ENDPOINT}" for name in ('profile "def"ault', "profile\tdefault", "default ", "Default")),
        f"[profile dev]\n{ENDPOINT}",
        *(f"[default]\n{setting}\n  [profile dev]\n{ENDPOINT}" for setting in ("region = x", "output =")),
        f"  [default]\n  {ENDPOINT}",
        "[default] ; mine\nEndpoint_URL : http://127.0.0.1:9\n",
        *(f"\xef\xbb\xbf[default]\n{ENDPOINT}", f"[default]\r\n{ENDPOINT}"),
        "[default]\nservices = here\n[services here]\ndynamodb =\n  endpoint_url = http://127.0.0.1:9\n",
        *(
            f"[default]\n{name} = {value}\n"
            for name, value in (
                *(("services", "nowhere"), ("use_fips_endpoint", "true"), ("use_dualstack_endpoint", "True")),
                *(("ignore_configured_endpoint_urls", "true"), ("ca_bundle", "/nowhere.pem")),
                ("account_id_endpoint_mode", "required"),
            )
        ),
        "[default]\nregion = eu-north-1\nretry_mode = adaptive\n",
        *("[default]\ns3 =\n  what\n", "[default]\nwhat\n", "endpoint_url = http://127.0.0.1:9\n", "\xff\xfe\x00", ""),
    ],
    ".aws/credentials": [DEFAULT, f"[default]\n{ENDPOINT}", f"[profile default]\n{ENDPOINT}", "[dev]\n", "what", ""],
    "other": [DEFAULT, f"[default]\n{ENDPOINT}", "[Credentials]\naws_access_key_id = B2\naws_secret_access_key = s\n"],
    "boto": ["[Credentials]\naws_access_key_id = B3\naws_secret_access_key = s\n"],
    ".boto": ["[Credentials]\naws_access_key_id = B4\naws_secret_access_key = s\n", "[Boto]\n", "what"],
    "original": ["AWSAccessKeyId=E\nAWSSecretKey=s\n"],
}
BASES = [
    {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "ENVIRONMENT", "AWS_SECRET_ACCESS_KEY": "s"},
    {"AWS_REGION": "eu-west-1", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "@role"},
]
NAMING_FILES = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "BOTO_CONFIG")
Case = dict[str, dict[str, str]]


def judge(cases: list[Case]) -> None:
    """Compare the two for each case. Enough of them go without boto3."""
    program = [sys.executable, "-m", "tests.transport.identity"]
    done = subprocess.run(program, input=json.dumps(cases), stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    said = json.loads(done.stdout)
    assert [each for each in zip(cases, said, strict=True) if each[1][1] not in (None, each[1][0])] == []
    assert sum(theirs is not None for _, theirs in said) > 40


def case(environ: dict[str, str], **files: str) -> Case:
    return {"environ": environ, "files": files}


@pytest.mark.long
def test_each_variable_and_each_file_means_what_it_means_to_boto3():
    cases = [case(base | {name: value}) for base in BASES for name, values in RARE.items() for value in values]
    cases += [case(base, **{path: text}) for base in BASES for path, texts in FILES.items() for text in texts]
    named = [{name: value} for name in NAMING_FILES for value in RARE[name]]
    judge(cases + [case(base | each, other=text) for base in BASES for each in named for text in FILES["other"]])


def test_no_mixture_of_variables_and_files_leads_elsewhere_than_boto3():
    chance = random.Random(0)
    cases = []
    for _ in range(200):
        environ = {name: chance.choice(values) for name, values in VARIABLES.items() if chance.random() < 0.85}
        if chance.random() < 0.4:
            environ.pop("AWS_ACCESS_KEY_ID", None)
            environ.pop("AWS_SECRET_ACCESS_KEY", None)
            environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "@role"
        environ |= {name: chance.choice(values) for name, values in RARE.items() if chance.random() < 0.06}
        files = {path: chance.choice(texts) for path, texts in FILES.items() if chance.random() < 0.1}
        cases.append(case(environ, **files))
    judge(cases)
