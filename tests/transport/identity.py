"""A program that says for each of many environments whom a lock speaks as, and whom boto3.

It reads a JSON list of cases from its input: {"environ": {...}, "files": {path below the home directory: text}}. "@" in
a value is the URL of its credential endpoint, "~" at its begin stays as it is. It prints a list of
[ours, boto3's], where each is [URL, Region, access key, proxy, certificates] or a text: "boto3", or the error.
"""

import functools
import json
import logging
import os
import pathlib
import sys
import tempfile
import time
from typing import Any

import boto3
import botocore.hooks
import botocore.loaders
import botocore.session

from lambda_lock.errors import LockError
from lambda_lock.transport import HttpsTransport, choice
from lambda_lock.transport import endpoint as endpoints

from .conftest import Stub, answer, say

LOADER = botocore.loaders.create_loader()
# Each session registers the same handlers, which is half of its time: what is found out of them is the same each time.
botocore.hooks.accepts_kwargs = functools.cache(botocore.hooks.accepts_kwargs)
_ALIASER = botocore.hooks.EventAliaser
_alias = functools.cache(functools.partial(_ALIASER._alias_event_name, _ALIASER(None)))
_ALIASER._alias_event_name = lambda _, name: _alias(name)
KEYS = {"AccessKeyId": "CONTAINER", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}


class Stopped(BaseException):
    pass


def ours() -> Any:
    try:
        transport = choice._https(endpoints.region(None, os.environ), None, time.time, logging.getLogger())
        if not isinstance(transport, HttpsTransport):
            return "boto3"
        key = transport._credentials.get(time.time(), time.monotonic() + 5).access_key
    except LockError as error:
        return f"raises {error}"
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE") or True
    return [transport.endpoint.url.rstrip("/"), transport.region, key, None, bundle]


def theirs() -> Any:
    sent: list[Any] = []

    def stop(request: Any, **_: Any) -> None:
        sent.append(request)
        raise Stopped

    try:
        made = botocore.session.Session()
        made.register_component("data_loader", LOADER)  # the models are read once
        client = boto3.Session(botocore_session=made).client("dynamodb", region_name=endpoints.region(None, os.environ))
        client.meta.events.register("before-send", stop)
        client.get_item(TableName="locks", Key={"key": {"S": "a"}})
    except Stopped:
        pass
    except Exception as error:  # noqa: BLE001 - whatever it is
        return f"raises {type(error).__name__}: {error}"
    scope = sent[0].headers["Authorization"].decode().partition("Credential=")[2].split("/")
    session = client._endpoint.http_session
    url = sent[0].url
    return [url.rstrip("/"), scope[2], scope[0], session._proxy_config.proxy_url_for(url), session._verify]


def main() -> None:
    bare = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG", "LC_ALL")}
    said = []
    with Stub() as server:
        server.otherwise = say(answer(KEYS))
        for case in json.load(sys.stdin):
            with tempfile.TemporaryDirectory() as home:
                for path, text in case["files"].items():
                    file = pathlib.Path(home, path)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(text.encode("latin-1"))
                given = {name: value.replace("@", f"{server.url}/") for name, value in case["environ"].items()}
                os.environ.clear()
                os.environ.update({**bare, "HOME": home, "HERE": home, "AWS_EC2_METADATA_DISABLED": "true", **given})
                chosen = ours()
                said.append([chosen, theirs() if isinstance(chosen, list) else None])
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
