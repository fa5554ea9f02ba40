"""IdempotencyMiddleware: the answers of an ASGI application, once for each key."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from .once import LARGEST, LONGEST_BODY, Answer, Headers, Middleware, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .context import Message, Receive, Send

    App = Callable[[Any, Any, Any], Awaitable[None]]


class IdempotencyMiddleware(Middleware):
    """Answers each request of an ASGI application once: whoever repeats it with its key is given the same answer.

    app: the application.
    methods: the methods of requests that count. All others pass.
    header: the name of the header with the key, which a client makes up for what it wants done once.
    caller: who calls: a template (``"{headers[x-api-key]}"``), or a plain function of the ASGI scope that returns a
        str. Keys of different callers are different. None: all callers share the keys, and get each other's answers.
    required: whether a request without the header is refused (400). If not, it passes.
    wait: seconds to wait while the same request is being carried out. 0: answer 409 at once.
    window: seconds for which an answer is kept, 1 second to 10 years.
    store: a plain function of the status: whether an answer is kept. None: below 500, without 408, 409, 425 and 429.
        An answer that is not kept is given, and the next request with the key is carried out.
    scope: a prefix of the stored key. None: the Lambda function's name, and the middleware's. Outside Lambda, pass one
        if several services share a table.
    client: the AsyncLockClient. None: default_client(). An IdempotencyWsgi takes a LockClient.
    reserve, lease_duration, sort_key, on_unavailable: as for deduplicate().

    A duplicate gets status, body and headers, and ``Idempotent-Replayed: true``. Headers of one exchange (Date,
    Connection, …) and cookies are not kept. Refusals are problem details in JSON: 400 for a key that cannot be used,
    422 for one that came with another payload (query, body), 409 with Retry-After for one whose request is being
    carried out. Method and path belong to the key.

    An answer that cannot be kept (a stream, one above 350 KB) passes, which a warning tells once. Its request counts as
    done, and duplicates are answered 409. A request with a key has at most 10 MiB, read before it is answered.

    Raises TypeError if ``app`` cannot be called or is a WSGI application, and for arguments of the wrong type.

    Example: ``app.add_middleware(IdempotencyMiddleware, caller="{headers[x-api-key]}")``
    """

    __module__ = "lambda_lock.web"  # a part of the default scope
    _count, _other = 3, "IdempotencyWsgi"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request, a websocket, or the application's lifespan."""
        request = None if scope["type"] != "http" else _Request(self._app, scope, receive, send, self._header)
        if request is None or self._passes(request):
            await self._app(scope, receive, send)
            return
        if not await request.read():
            return
        try:
            answer = await self._once(request)
            for message in answer.given:
                await send(message)
        except BaseException:
            await request.abandon()
            raise
        await request.finish()


class _Request(Request):
    def __init__(self, app: App, scope: Message, receive: Receive, send: Send, header: str) -> None:
        self._app, self.source, self._receive, self._send = app, scope, receive, send
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope.get("headers", ())]
        self.view = {**scope, "headers": Headers(pairs, header.lower())}
        self.method, self.path = scope["method"].upper(), quote(scope["path"], errors="replace")
        self.query = sorted(scope.get("query_string", b"").decode("latin-1").split("&"))
        self.body = None
        self._task: asyncio.Task[None] | None = None
        self._messages: list[Message] = []
        self._unsent = self._messages
        self._size, self._lost, self._is_read, self._is_gone = 0, "", False, False

    async def read(self) -> bool:
        """Read the body. Whether the client is still there."""
        parts, size, more = [], 0, True
        while more and size <= LONGEST_BODY:
            message = await self._receive()
            if message["type"] != "http.request":
                return False
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
        if size <= LONGEST_BODY:
            self.body = b"".join(parts)
        return True

    async def answer(self) -> Answer:
        """Call the application until its answer is there. What it does then, it does while the answer is sent.

        An answer that cannot be kept is sent here, while the request counts as running.
        """
        self._whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = asyncio.Event()
        known = self.source.get("extensions") or {}  # of the server's, some are other ways to answer
        self.source["extensions"] = {name: known[name] for name in known if not name.startswith("http.response.")}

        async def serve() -> None:
            try:
                await self._app(self.source, self._read_again, self._collect)
            finally:
                self._ended()

        self._task = asyncio.create_task(serve())
        await self._whole
        head, *parts = self._messages or [{"status": 500}]
        if not parts or parts[-1].get("more_body"):
            await asyncio.wait([self._task])
            if not self._is_gone:  # else the work is done, and nobody is there to be told how it ended
                self._task.result()  # raises the application's error
            self._lost = self._lost or "was not ended"
        if self._lost:
            return Answer(head["status"], self._unsent, lost=self._lost)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.get("headers", ())]
        body = b"".join([part.get("body", b"") for part in parts])
        return Answer(head["status"], self._messages, headers, body)

    async def finish(self) -> None:
        """Let the application end: its answer is sent."""
        if self._task is not None:
            self._sent.set()
            await self._task

    async def abandon(self) -> None:
        """Let the application end: nobody waits for its answer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _read_again(self) -> Message:
        if self._is_read:
            return await self._receive()
        self._is_read = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def _collect(self, message: Message) -> None:
        more = bool(message.get("more_body"))
        if self._lost:
            self._messages[1:] = [message]
            await self._pass_on(message)
        else:
            self._messages.append(message)
            self._size += len(message.get("body", b""))
            self._lost = self._why_not(more)
            if self._lost:
                self._unsent = []
                for earlier in self._messages:
                    await self._pass_on(earlier)
        if message["type"] == "http.response.body" and not more:
            self._ended()
            if not self._lost:
                await self._sent.wait()

    async def _pass_on(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:
            self._is_gone = True
            raise

    def _why_not(self, more: bool) -> str:
        if self._size > LARGEST:
            return "is too large to be stored"
        names = {name.lower() for name, _ in self._messages[0].get("headers", ())}
        return "is a stream" if more and b"content-length" not in names else ""

    def _ended(self) -> None:
        if not self._whole.done():
            self._whole.set_result(None)

    def replayed(self, status: int | str, headers: list[tuple[str, str]], content: Any) -> Any:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return [
            {"type": "http.response.start", "status": status, "headers": raw},
            {"type": "http.response.body", "body": content, "more_body": False},
        ]
