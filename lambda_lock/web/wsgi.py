"""IdempotencyWsgi: the answers of a WSGI application, once for each key."""

from __future__ import annotations

import io
from http import HTTPStatus
from urllib.parse import quote

from .once import LARGEST, LONGEST_BODY, Answer, Headers, Middleware, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class IdempotencyWsgi(Middleware):
    """IdempotencyMiddleware for WSGI applications: Flask, Django and others.

    app: the application.
    methods, header, caller, required: as for IdempotencyMiddleware, and so are its other options. A function as
        ``caller`` is given the WSGI environment.

    Raises what IdempotencyMiddleware does.

    Example: ``app.wsgi_app = IdempotencyWsgi(app.wsgi_app)``
    """

    __module__ = "lambda_lock.web"  # a part of the default scope
    _count, _other = 2, "IdempotencyMiddleware"

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve a request."""
        request = _Request(self._app, environ, start_response, self._header)
        if self._passes(request):
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        request.read()
        answer = self._once(request)
        if answer.given is None:  # it is sent already
            return []
        status, headers, content = answer.given
        start_response(status, headers)
        return [content]


class _Request(Request):
    def __init__(self, app: WSGIApplication, environ: Any, start_response: StartResponse, header: str) -> None:
        self._app, self.source, self._start_response = app, environ, start_response
        pairs = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        pairs += [("Content-Type", environ[name]) for name in ("CONTENT_TYPE",) if environ.get(name)]
        self.view = {**environ, "headers": Headers(pairs, header.lower())}
        self.method = environ["REQUEST_METHOD"].upper()
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        self.path = quote(path.encode("latin-1", "replace"))
        self.query = sorted(environ.get("QUERY_STRING", "").split("&"))
        self.body = None

    def read(self) -> None:
        """Read the body, which the application may read once more."""
        environ = self.source
        length = environ.get("CONTENT_LENGTH") or ""
        in_chunks = LONGEST_BODY + 1 if environ.get("wsgi.input_terminated") else 0  # some servers give their end
        size = int(length) if length.isdecimal() else in_chunks
        body = bytes(environ["wsgi.input"].read(min(size, LONGEST_BODY + 1)))
        if len(body) <= LONGEST_BODY and (not length or len(body) == size):
            self.body = body
            self.source = environ | {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}

    def answer(self) -> Answer:
        """Call the application. An answer that cannot be kept is sent here, while the request counts as running."""
        head: list[Any] = []
        parts: list[bytes] = []
        write: Any = None
        gone: list[OSError] = []

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            if exc_info and write is not None:
                raise exc_info[1].with_traceback(exc_info[2])
            head[:] = [status, headers]
            return parts.append

        def send(part: bytes) -> None:
            try:
                write(part)
            except OSError as error:
                gone.append(error)
                raise

        found: Any = self._app(self.source, start)
        size, why = 0, ""
        try:
            for part in found:
                size += len(part)
                if not why and (why := _lost(head, found, size)):
                    write = self._start_response(*head)
                    for earlier in parts:
                        send(earlier)
                (send if why else parts.append)(part)
        except OSError as error:
            if error not in gone:  # else the work is done, and the client is not there any more
                raise
        finally:
            if hasattr(found, "close"):
                found.close()
        if not head:
            raise TypeError("the WSGI application did not call start_response")
        if write is not None:
            return Answer(head[0], None, lost=why)
        status, headers = head
        body = b"".join(parts)
        return Answer(status, (status, headers, body), headers, body)

    def replayed(self, status: int | str, headers: list[tuple[str, str]], content: Any) -> Any:
        return status if isinstance(status, str) else f"{status} {HTTPStatus(status).phrase}", headers, content


def _lost(head: list[Any], found: Any, size: int) -> str:
    """Why an answer of which ``size`` bytes are there cannot be kept. "": nothing is known against it."""
    if size > LARGEST:
        return "is too large to be stored"
    names = {name.lower() for name, _ in head[1]} if head else set()
    is_whole = isinstance(found, (list, tuple)) or not getattr(found, "streaming", True)  # of Django
    return "" if is_whole or "content-length" in names else "is a stream"
