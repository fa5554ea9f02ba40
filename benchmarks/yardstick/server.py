"""A server on loopback that answers as DynamoDB does to claims and releases of one key, with DynamoDB's seven headers.

It takes no part in the count: `python -m benchmarks.yardstick.server` is a process of its own. It prints its port.
"""

from __future__ import annotations

import email.utils
import json
import socket
import threading
import uuid
import zlib
from typing import Any

_TOKEN = 1_795_845_109_102


def _answer(rows: dict[str, dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """Carry an UpdateItem out. Conditions are not checked: nobody contends."""
    values = request.get("ExpressionAttributeValues", {})
    row = rows.setdefault(request["TableName"], {"key": request["Key"]["key"], "fencingToken": {"N": str(_TOKEN)}})
    if ":version" not in values:
        row["isReleased"] = {"S": "1"}
        return {}
    row |= {
        "ownerName": values.get(":owner", row.get("ownerName")),
        "recordVersionNumber": values[":version"],
        "leaseDuration": values[":lease"],
        "fencingToken": {"N": str(int(row["fencingToken"]["N"]) + (":one" in values))},
        "heldMs": {"N": "3"},
    }
    row.pop("isReleased", None)
    return {"Attributes": row} if request.get("ReturnValues") == "ALL_NEW" else {}


def _serve(peer: socket.socket, rows: dict[str, dict[str, Any]]) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with peer, peer.makefile("rb") as stream:
        while stream.readline():
            length = 0
            while (line := stream.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    length = int(line[15:])
            out = json.dumps(_answer(rows, json.loads(stream.read(length))), separators=(",", ":")).encode()
            identity = f"{uuid.uuid4().hex}{uuid.uuid4().hex}".upper()[:52]
            head = (
                f"HTTP/1.1 200 OK\r\nServer: Server\r\nDate: {email.utils.formatdate(usegmt=True)}\r\n"
                f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(out)}\r\nConnection: keep-alive\r\n"
                f"x-amzn-RequestId: {identity}\r\nx-amz-crc32: {zlib.crc32(out)}\r\n\r\n"
            )
            peer.sendall(head.encode() + out)


def main() -> None:
    rows: dict[str, dict[str, Any]] = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            peer, _ = server.accept()
            threading.Thread(target=_serve, args=(peer, rows), daemon=True).start()


if __name__ == "__main__":
    main()
