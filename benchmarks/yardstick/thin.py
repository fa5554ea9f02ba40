"""The thinnest honest clients: the claim and the release that this library sends, with its conditions and nonces.

Both sign with a cached key, read the Date of each answer and its JSON, and compute until when the lock is valid.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import socket
import time
from typing import Any

_REGION, _TABLE = os.environ["AWS_REGION"], os.environ["BENCHMARK_TABLE"]
_ACCESS, _SECRET = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
_TOKEN = os.environ["AWS_SESSION_TOKEN"]
_AUTHORITY = os.environ["AWS_ENDPOINT_URL"].rpartition("/")[2]
_HOST, _, _PORT = _AUTHORITY.partition(":")
_JSON, _TARGET = "application/x-amz-json-1.0", "DynamoDB_20120810.UpdateItem"
_SIGNED = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_FREE = (
    "((attribute_not_exists(#version) AND attribute_not_exists(#1)) OR #released = :released) AND "
    "(attribute_not_exists(#waiters) OR #waiters = :nobody)"
)
_CLAIM = (
    "SET #owner = :owner, #version = :version, #lease = :lease, #token = if_not_exists(#token, :seed) + :one "
    "REMOVE #released"
)
_MINE = "#owner = :is_owner AND #token = :is_token AND attribute_not_exists(#released)"
_NAMES = {
    "#lease": "leaseDuration",
    "#owner": "ownerName",
    "#released": "isReleased",
    "#token": "fencingToken",
    "#version": "recordVersionNumber",
    "#waiters": "waiters",
    "#1": "record_version_number",
}
_ENDED = {"#owner": "ownerName", "#released": "isReleased", "#token": "fencingToken", "#held_ms": "heldMs"}
_NAMES_TEXT, _ENDED_TEXT = (json.dumps(names, separators=(",", ":")) for names in (_NAMES, _ENDED))
_CLAIM_TEXT = (
    f'{{"TableName":"{_TABLE}","ConditionExpression":"{_FREE}","ExpressionAttributeNames":{_NAMES_TEXT},'
    f'"ReturnValuesOnConditionCheckFailure":"ALL_OLD","ReturnValues":"ALL_NEW","UpdateExpression":"{_CLAIM}",'
)
_RELEASE_TEXT = (
    f'{{"TableName":"{_TABLE}","ConditionExpression":"{_MINE}","ExpressionAttributeNames":{_ENDED_TEXT},'
    '"ReturnValuesOnConditionCheckFailure":"ALL_OLD",'
    '"UpdateExpression":"SET #released = :released, #held_ms = :held_ms",'
)


class Signer:
    """SigV4 for an UpdateItem, with the key of the day."""

    def __init__(self) -> None:
        self._day, self._key = "", b""

    def sign(self, body: bytes) -> tuple[str, str]:
        """The values of X-Amz-Date and Authorization."""
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time()))
        if self._day != moment[:8]:
            self._day, self._key = moment[:8], f"AWS4{_SECRET}".encode()
            for part in (self._day, _REGION, "dynamodb", "aws4_request"):
                self._key = hmac.digest(self._key, part.encode(), "sha256")
        canonical = (
            f"POST\n/\n\ncontent-type:{_JSON}\nhost:{_AUTHORITY}\nx-amz-date:{moment}\nx-amz-security-token:{_TOKEN}\n"
            f"x-amz-target:{_TARGET}\n\n{_SIGNED}\n{hashlib.sha256(body).hexdigest()}"
        )
        scope = f"{self._day}/{_REGION}/dynamodb/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key, text.encode(), "sha256").hex()
        return (
            moment,
            f"AWS4-HMAC-SHA256 Credential={_ACCESS}/{scope}, SignedHeaders={_SIGNED}, Signature={signature}",
        )


def _epoch(text: str) -> int:
    year, month, day = int(text[12:16]), _MONTHS.index(text[8:11]) // 3 + 1, int(text[5:7])
    if month <= 2:
        year, month = year - 1, month + 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
    return ((days * 24 + int(text[17:19])) * 60 + int(text[20:22])) * 60 + int(text[23:25])


class Grant:
    """What a claim writes, and until when it is valid."""

    def __init__(self) -> None:
        now = time.time()
        self.seed = str(int(now * 1000))
        self.expiry = int((now + 22) * 1000)
        self.version = f"L1:{self.expiry:013d}:{os.urandom(16).hex()}"
        self.owner = f"host/{os.getpid()}#{os.urandom(16).hex()}"
        self.token = ""
        self.valid_until = 0.0

    def take(self, answer: dict[str, Any], date: int) -> None:
        row = answer["Attributes"]
        assert row["recordVersionNumber"]["S"] == self.version
        self.token = row["fencingToken"]["N"]
        self.valid_until = time.monotonic() + min(20, self.expiry / 1000 - date - 1.5) * 0.999


class RawSocket:
    """Requests as text, and the answer's head taken apart by hand."""

    def __init__(self) -> None:
        self._signer = Signer()
        self._socket = socket.create_connection((_HOST, int(_PORT)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def cycle(self) -> None:
        grant, key = Grant(), json.dumps("order#1")
        grant.take(
            *self._send(
                f'{_CLAIM_TEXT}"Key":{{"key":{{"S":{key}}}}},"ExpressionAttributeValues":{{":owner":{{"S":'
                f'"{grant.owner}"}},":version":{{"S":"{grant.version}"}},":lease":{{"S":"20000"}},":seed":{{"N":'
                f'"{grant.seed}"}},":one":{{"N":"1"}},":released":{{"S":"1"}},":nobody":{{"L":[]}}}}}}'
            )
        )
        self._send(
            f'{_RELEASE_TEXT}"Key":{{"key":{{"S":{key}}}}},"ExpressionAttributeValues":{{":is_owner":{{"S":'
            f'"{grant.owner}"}},":is_token":{{"N":"{grant.token}"}},":released":{{"S":"1"}},":held_ms":{{"N":"3"}}}}}}'
        )

    def _send(self, text: str) -> tuple[dict[str, Any], int]:
        body = text.encode()
        moment, signature = self._signer.sign(body)
        head = (
            f"POST / HTTP/1.1\r\nHost: {_AUTHORITY}\r\nContent-Type: {_JSON}\r\nX-Amz-Target: {_TARGET}\r\n"
            f"X-Amz-Date: {moment}\r\nX-Amz-Security-Token: {_TOKEN}\r\nAuthorization: {signature}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._socket.settimeout(1.0)
        self._socket.sendall(head.encode() + body)
        data = self._socket.recv(65536)
        while (at := data.find(b"\r\n\r\n")) < 0:
            data += self._socket.recv(65536)
        said = data[:at].decode("latin-1")
        headers = {}
        for line in said.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        content, length = data[at + 4 :], int(headers["content-length"])
        while len(content) < length:
            content += self._socket.recv(65536)
        if said[9:12] != "200":
            raise RuntimeError(said)
        return json.loads(content), _epoch(headers["date"])


class HttpClient:
    """Requests as dicts, json.dumps and http.client: what one writes in an afternoon."""

    def __init__(self) -> None:
        self._signer = Signer()
        self._connection = http.client.HTTPConnection(_HOST, int(_PORT), timeout=1)
        self._connection.connect()  # which sets TCP_NODELAY

    def cycle(self) -> None:
        grant, key = Grant(), {"key": {"S": "order#1"}}
        grant.take(
            *self._send(
                {
                    "TableName": _TABLE,
                    "ConditionExpression": _FREE,
                    "ExpressionAttributeNames": _NAMES,
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    "ReturnValues": "ALL_NEW",
                    "Key": key,
                    "UpdateExpression": _CLAIM,
                    "ExpressionAttributeValues": {
                        ":owner": {"S": grant.owner},
                        ":version": {"S": grant.version},
                        ":lease": {"S": "20000"},
                        ":seed": {"N": grant.seed},
                        ":one": {"N": "1"},
                        ":released": {"S": "1"},
                        ":nobody": {"L": []},
                    },
                }
            )
        )
        self._send(
            {
                "TableName": _TABLE,
                "ConditionExpression": _MINE,
                "ExpressionAttributeNames": _ENDED,
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                "Key": key,
                "UpdateExpression": "SET #released = :released, #held_ms = :held_ms",
                "ExpressionAttributeValues": {
                    ":is_owner": {"S": grant.owner},
                    ":is_token": {"N": grant.token},
                    ":released": {"S": "1"},
                    ":held_ms": {"N": "3"},
                },
            }
        )

    def _send(self, request: dict[str, Any]) -> tuple[dict[str, Any], int]:
        body = json.dumps(request, separators=(",", ":")).encode()
        moment, signature = self._signer.sign(body)
        headers = {
            "Host": _AUTHORITY,
            "Content-Type": _JSON,
            "X-Amz-Target": _TARGET,
            "X-Amz-Date": moment,
            "X-Amz-Security-Token": _TOKEN,
            "Authorization": signature,
        }
        self._connection.request("POST", "/", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content)
        return json.loads(content), _epoch(answer.headers["date"])
