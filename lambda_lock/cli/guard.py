"""Refuses what a local engine must not answer: requests of web pages, and those for what it is not there for.

The engine answers every Origin and every Host. So a page that a developer opens could send it requests, and a page
whose own name leads to 127.0.0.1 ("DNS rebinding") could read the answers. And some of its services run code.

The text of this module runs in the engine's own interpreter, as its `sitecustomize`, before the engine itself. So it
imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

HEALTH = "/_ministack/health"
PAGE = {"Origin": "http://example.com"}  # a header of requests that web pages send
# Nobody can register the last one: containers reach the machine they run on by it.
_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\]|host\.docker\.internal)(:\d{1,5})?", re.IGNORECASE)
# How X-Amz-Target begins, for services that have no paths.
_TARGETS = {"dynamodb": "DynamoDB_20120810", "dynamodbstreams": "DynamoDBStreams_20120810", "sqs": "AmazonSQS"}

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]


def reason_to_refuse(scope: dict[str, Any], services: Collection[str]) -> str | None:
    """Return why a request is refused, or None. ``scope`` is that of ASGI."""
    headers: dict[str, list[str]] = {}
    for name, value in scope.get("headers", ()):
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    if "origin" in headers or "sec-fetch-site" in headers:
        return "it comes from a web page, and this engine is not for browsers"
    hosts = headers.get("host", [])
    if len(hosts) != 1 or not _LOCAL.fullmatch(hosts[0]):
        return "its Host header does not name this machine: call the engine at 127.0.0.1, as its URL says"
    asked, targets = (scope.get("method"), scope["path"]), headers.get("x-amz-target", [])
    if not _TARGETS.keys() >= {*services} or asked == ("GET", HEALTH):
        return None
    ours = {_TARGETS[service] for service in services}
    is_ours = len(targets) == 1 and targets[0].partition(".")[0] in ours
    if asked != ("POST", "/") or scope.get("query_string") or not is_ours:
        return f"this engine has no other service than {', '.join(services)}"
    return None


def guarded(app: App, services: Collection[str], name: str) -> App:
    """The application behind the check. Each refusal has this name, by which the one who started it knows it."""

    async def check(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        why = None if scope["type"] == "lifespan" else reason_to_refuse(scope, services)
        if why is None:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            said = {"__type": "com.amazon.coral.service#AccessDeniedException", "message": f"request refused: {why}"}
            body = json.dumps(said | {"engine": name}).encode()
            headers = {"content-type": "application/x-amz-json-1.0", "content-length": str(len(body))}
            headers["date"] = formatdate(usegmt=True)
            encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": 403, "headers": encoded})
            await send({"type": "http.response.body", "body": body})

    return check


def install(services: Collection[str], name: str) -> None:
    """Let this interpreter serve applications only behind the check. Nothing happens where no server is installed."""
    try:
        import hypercorn.asyncio as server
    except ImportError:  # another Python than the engine's
        return
    serve = server.serve

    async def serve_guarded(app: App, *arguments: Any, **options: Any) -> None:
        await serve(guarded(app, services, name), *arguments, **options)

    server.serve = serve_guarded


def is_ours(refusal: bytes, folder: Path) -> bool:
    """Whether it was the engine started in ``folder`` that refused a request so. Another may have taken its port."""
    return f'"engine": {json.dumps(folder.name)}'.encode() in refusal


def environment(
    folder: Path, inherited: Mapping[str, str], services: Collection[str] = ("dynamodb",)
) -> dict[str, str]:
    """What an engine that is started in ``folder`` needs in its environment, to be behind the check.

    That is the little of ``inherited`` that lets a Python start. No other variable reaches the engine, so no secret of
    the shell does.

    services: those that it starts. With one that has paths (``lambda``), every path is answered.
    """
    code, modules = folder / "guard", inherited.get("PYTHONPATH")  # by the latter the engine may be found
    code.mkdir(exist_ok=True)
    text = Path(__file__).read_text(encoding="utf-8") + f"\n\ninstall({sorted(services)}, {folder.name!r})\n"
    (code / "sitecustomize.py").write_text(text, encoding="utf-8")
    return {
        **needed(inherited),
        "PYTHONPATH": f"{code}{os.pathsep}{modules}" if modules else str(code),
        "SERVICES": ",".join(services),
        "BIND_HOST": "127.0.0.1",  # otherwise it listens on all interfaces
        "MINISTACK_HOST": "127.0.0.1",
        "LOG_LEVEL": "WARNING",
        "TMPDIR": str(folder),
        "STATE_DIR": str(folder / "state"),
        "DOCKER_HOST": "unix:///nonexistent",  # it would remove containers that look like its own
        "IOT_MTLS_ENABLED": "0",  # these would listen on further ports
        "SFTP_ENABLED": "0",
    }


def needed(inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables without which a program may not start."""
    names = ("PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PATHEXT")
    return {name: value for name, value in inherited.items() if name.upper() in names}
