"""The Lambda context for web applications, whose code is not handed one.

An adapter turns an event into a request and keeps the context beside it. These middlewares find it there, and enter its
invocation for the request: locks of the request then end with the invocation's deadline.
"""

from __future__ import annotations

import json  # the Lambda runtime has these three loaded
import os
import time

from ..keys.parameters import Parameters
from ..runtime import invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
    from typing import Any, TypeAlias, TypeVar
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    T = TypeVar("T")
    Message: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Message]]
    Send: TypeAlias = Callable[[Message], Awaitable[None]]

# Where the adapters put the context.
_IN_SCOPE = ("aws.context", "lambda.context")  # Mangum, Zappa
_IN_ENVIRON = ("serverless.context", "apig_wsgi.context", "awsgi.context", "lambda.context")
# The Lambda Web Adapter writes it into this header, as JSON. It replaces what a client sent under the name.
_HEADER = b"x-amzn-lambda-context"
_LONGEST = 900_000  # milliseconds: the longest timeout of a function (AWS Lambda Developer Guide, "Lambda quotas")


class LambdaContextMiddleware:
    """Lets the code of an ASGI application find its Lambda context, as if it had been passed on.

    app: the application.
    web_adapter: whether the context is read from the header of the Lambda Web Adapter as well. Only with that adapter
        before the application: without it, whoever sends a request could write the header. Outside Lambda it is not
        read.

    The context is found where Mangum or Zappa put it, and counts for the request only, so requests that run at the same
    time each have their own deadline. Without one, what encloses the request counts, such as the adapter's function if
    it is decorated. Behind the web adapter nothing does.

    Raises TypeError if ``app`` cannot be called or is a WSGI application, or ``web_adapter`` is not a bool.

    Example: ``app.add_middleware(LambdaContextMiddleware)``
    """

    def __init__(self, app: Callable[[Any, Any, Any], Awaitable[None]], *, web_adapter: bool = False) -> None:
        self._app = _checked(app, web_adapter, 3)
        self._web_adapter = web_adapter

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request, a websocket, or the application's lifespan."""
        header = dict(scope.get("headers", ())).get(_HEADER, b"") if self._web_adapter else None
        token = invocation.replace(_found(scope, _IN_SCOPE, header))
        try:
            await self._app(scope, receive, send)
        finally:
            invocation.leave(token)


class LambdaContextWsgi:
    """LambdaContextMiddleware for WSGI applications, under serverless-wsgi, apig-wsgi, aws-wsgi and Zappa.

    app: the application.
    web_adapter: as for LambdaContextMiddleware.

    The context counts while the application is called, and while its response is read.

    Raises TypeError if ``app`` cannot be called or is an ASGI application, or ``web_adapter`` is not a bool.

    Example: ``app.wsgi_app = LambdaContextWsgi(app.wsgi_app)``
    """

    def __init__(self, app: WSGIApplication, *, web_adapter: bool = False) -> None:
        self._app = _checked(app, web_adapter, 2)
        self._web_adapter = web_adapter

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve a request."""
        header = (
            environ.get("HTTP_X_AMZN_LAMBDA_CONTEXT", "").encode("latin-1", "replace") if self._web_adapter else None
        )
        found = _found(environ, _IN_ENVIRON, header)
        response = _within(found, self._app, environ, start_response)
        # Nothing of the application runs while a list is read, and servers look at its length.
        return response if found is None or isinstance(response, (list, tuple)) else _Response(found, response)


class _Response:
    """A response whose parts the application makes while they are read, each within the invocation.

    The invocation is left between two parts: the server's thread may do other things there.
    """

    def __init__(self, found: invocation.Invocation, parts: Iterable[bytes]) -> None:
        self._found = found
        self._parts = parts
        self._left: Iterator[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._left is None:
            self._left = _within(self._found, iter, self._parts)
        part: bytes = _within(self._found, next, self._left)
        return part

    def close(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            _within(self._found, close)


class _HeaderContext:
    """The context that the Lambda Web Adapter wrote into its header.

    deadline: epoch milliseconds, by the machine's wall clock.
    """

    def __init__(self, deadline: int, request_id: object, tenant_id: object) -> None:
        self._deadline = deadline
        self.aws_request_id = _plain(request_id)
        self.tenant_id = _plain(tenant_id)

    def get_remaining_time_in_millis(self) -> float:
        """The time left. Infinite (not known) if no invocation has it: a clock was stepped, or the header was not
        written by the adapter."""
        left = self._deadline - int(time.time() * 1000)
        return left if 0 < left <= _LONGEST else float("inf")


def _checked(app: Any, web_adapter: object, count: int) -> Any:
    """Return ``app``. Raises what `application` does, and TypeError if ``web_adapter`` is not a bool."""
    if not isinstance(web_adapter, bool):  # the text "false" of a variable would be true
        raise TypeError(f"web_adapter must be True or False, not {web_adapter!r} ({type(web_adapter).__name__})")
    return application(app, count, "LambdaContextWsgi" if count == 3 else "LambdaContextMiddleware")


def application(app: Any, count: int, other: str) -> Any:
    """Return ``app``. Raises TypeError if it cannot be called with ``count`` arguments, but is of the other kind.

    other: the class that wraps applications of the other kind.
    """
    if not callable(app):
        raise TypeError(f"app must be the application to call, not {app!r} ({type(app).__name__})")
    takes = Parameters(app if hasattr(app, "__code__") else app.__call__, follow_wrapped=False)
    if not isinstance(app, type) and takes.take(5 - count) and not takes.take(count):
        kind = "a WSGI" if count == 3 else "an ASGI"
        raise TypeError(f"app is {kind} application, which is called with {5 - count} arguments: wrap it in {other}")
    return app


def _found(places: Mapping[str, object], names: tuple[str, ...], header: bytes | None) -> invocation.Invocation | None:
    """The invocation of a request: by an adapter's own object, or else by the header.

    header: None if it is not to be read, and empty if there is none.
    """
    for name in names:
        if name in places:
            return invocation.read(places[name]) or invocation.enclosing()
    if header is None or not os.environ.get("AWS_LAMBDA_FUNCTION_NAME"):
        return invocation.enclosing()
    # Never the enclosing one: uvicorn serves a connection's later requests in a copy of an earlier one's ContextVars.
    return invocation.read(_context_of(header))


def _context_of(header: bytes) -> _HeaderContext | None:
    """The context in the adapter's header. None if the header is not one that the adapter writes."""
    try:
        said = json.loads(header)
    except (ValueError, RecursionError):
        return None
    deadline = said.get("deadline") if isinstance(said, dict) else None
    if isinstance(deadline, bool) or not isinstance(deadline, int):
        return None
    return _HeaderContext(deadline, said.get("request_id"), said.get("tenant_id"))


def _plain(text: object) -> str | None:
    """A text that can be stored and logged. None for anything else, which the adapter does not write."""
    return text if isinstance(text, str) and text.isprintable() else None


def _within(found: invocation.Invocation | None, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function within an invocation, or within none."""
    token = invocation.replace(found)
    try:
        return function(*arguments)
    finally:
        invocation.leave(token)
