"""idempotent_request: the answers of a Lambda proxy handler, or of a route, once for each key."""

from __future__ import annotations

import base64
import copy
import json
import sys
from collections.abc import Mapping
from functools import wraps
from urllib.parse import quote

from ..decorators import kinds
from ..decorators.functions import check_function, check_result, is_async, refuse_bare
from ..keys.arguments import raw_event
from .once import KEY_HEADER, Answer, Headers, Request, lasting, once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar, Unpack

    from .once import RequestOptions, Text

    P = ParamSpec("P")
    R = TypeVar("R")

_POWERTOOLS = "aws_lambda_powertools.event_handler.api_gateway"
_OF_REQUESTS = ("headers", "multiValueHeaders", "requestContext")


def idempotent_request(
    key: Text, *, caller: Text | None = None, **options: Unpack[RequestOptions]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Answer each request once: whoever repeats it with its key is given the same answer.

    For a Lambda proxy handler (REST API, HTTP API, load balancer, function URL, VPC Lattice), plain or async; a route
    or a middleware of Powertools' resolvers; and a middleware of Chalice.

    key: a template of the event's fields, in which the names of headers have any case
        (``"{headers[idempotency-key]}"``), or a plain function of the event that returns a str.
    caller: who calls: the same (``"{requestContext[authorizer][jwt][claims][sub]}"``). Keys of different callers are
        different. None: all callers share the keys, and get each other's answers.
    wait, window, store, scope, client: as for IdempotencyMiddleware, and so are its other options. The scope's default
        is that of deduplicate(). A plain handler takes a LockClient.

    What is refused and what is kept is said for IdempotencyMiddleware. An answer is of the kind that the function
    returns: a dict for API Gateway, or a Response of Powertools or Chalice.

    Decorating raises TypeError for what cannot be decorated and for arguments of the wrong type, and KeyTemplateError
    for a template that cannot be read. A call raises TypeError if it is not for a request.

    Example::

        @idempotent_request("{headers[idempotency-key]}")
        def handler(event, context): ...
    """
    refuse_bare(key, idempotent_request)

    def decorate(func: Callable[..., Any]) -> Any:
        check_function(func, "idempotent_request")
        kind = _AsyncRequest if is_async(func) else _Request
        answered = once(func, key, awaited=is_async(func), caller=caller, **options)

        @wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            return answered(kind(func, args, kwargs)).given

        @wraps(func)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return (await answered(kind(func, args, kwargs))).given

        return awaited if is_async(func) else decorated

    return decorate


class _Request(Request):
    """A request as an event. func, args, kwargs: what is called for it."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        given = (*args, *kwargs.values())
        self.context = next((one for one in given if hasattr(one, "get_remaining_time_in_millis")), None)
        self._app: Any = None  # of Powertools
        self._chalice = False
        event = self._event()
        several = event.get("multiValueHeaders") or {}
        single = {name: value for name, value in (event.get("headers") or {}).items() if name not in several}
        self._several = bool(several) and "headers" not in event
        pairs = [
            (name, str(value))
            for headers in (several, single)
            for name, values in headers.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        self.view = self.source = {**event, "headers": Headers(pairs, KEY_HEADER)}
        about = event.get("requestContext") or {}
        of_http = about.get("http") or {}
        self.method = str(of_http.get("method") or event.get("httpMethod") or event.get("method") or "").upper()
        path = str(event.get("rawPath") or event.get("path") or event.get("raw_path") or "").partition("?")[0]
        self.path = quote(path, errors="replace")
        body = event.get("body") or ""
        if event.get("isBase64Encoded") or event.get("is_base64_encoded"):
            body = base64.b64decode(body)
        self.body = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        if "rawQueryString" in event:
            self.query = sorted(str(event["rawQueryString"]).split("&"))
        else:
            names = ("multiValueQueryStringParameters", "queryStringParameters", "query_string_parameters")
            self.query = next((event[name] for name in names if event.get(name)), None)

    def _event(self) -> Mapping[str, Any]:
        # Only what is passed as Lambda does it: a route's own arguments may be what a client has sent.
        by_name = (self.kwargs["event"],) if self.context is not None and "event" in self.kwargs else ()
        one: Any
        for one in map(raw_event, (*self.args[:2], *by_name)):
            if isinstance(one, Mapping) and any(name in one for name in _OF_REQUESTS):
                return one
            if hasattr(one, "to_original_event"):
                self._chalice, self.context = True, self.context or getattr(one, "lambda_context", None)
                event: Mapping[str, Any] = one.to_original_event()
                return event
        self._app = _resolver()
        found = raw_event(getattr(self._app, "current_event", None))
        if not isinstance(found, Mapping):
            raise TypeError(
                "@idempotent_request was called without a request: decorate a handler of API Gateway, a load balancer "
                "or a function URL, a route of Powertools, or a middleware of Chalice. Other applications take "
                "IdempotencyMiddleware or IdempotencyWsgi"
            )
        self.context = self.context or getattr(self._app, "lambda_context", None)
        return found

    def answer(self) -> Any:
        return self._made_of(self.func(*self.args, **self.kwargs))

    def _made_of(self, result: Any) -> Answer:
        check_result(result, self.func, "@idempotent_request", is_event=True)
        route = None if self._app is None else self._app.context.get("_route")
        status: Any = 200 if route is None else int(route.status_code)
        content = result
        if kinds.kind_of(type(result)) is not None:
            status, content = result.status_code, copy.copy(result)
            content.headers = dict(lasting(result.headers.items()))
            if hasattr(content, "cookies"):
                content.cookies = []
        elif self._app is not None and isinstance(result, tuple) and len(result) == 2:
            status = result[1]
        elif isinstance(result, Mapping) and "statusCode" in result and self._app is None:
            status = result["statusCode"]
            content = {name: value for name, value in result.items() if name != "cookies"}
            for name in ("headers", "multiValueHeaders"):
                if content.get(name):
                    content[name] = dict(lasting(content[name].items()))
        return Answer(int(status), result, content=content)

    def replayed(self, status: int | str, headers: list[tuple[str, str]], content: Any) -> Any:
        if kinds.kind_of(type(content)) is not None:
            content.headers |= headers
            return content
        if self._app is not None:
            if isinstance(content, tuple) and len(content) == 2:
                content = content[0]
            return self._response(int(status), "application/json", headers, content)
        if isinstance(content, dict) and "statusCode" in content:
            name = "headers" if content.get("headers") or not content.get("multiValueHeaders") else "multiValueHeaders"
            return content | {name: (content.get(name) or {}) | self._as(name, headers)}
        body = content if isinstance(content, str) else json.dumps(content)  # as API Gateway reads such a result
        return self._proxy(200, [("Content-Type", "application/json"), *headers], body)

    def refused(self, status: int, headers: list[tuple[str, str]], body: str) -> Any:
        (_, content_type), *more = headers
        return self._response(status, content_type, more, body)

    def _response(self, status: int, content_type: str, headers: list[tuple[str, str]], body: Any) -> Any:
        if self._app is not None:
            return sys.modules[_POWERTOOLS].Response(status, content_type, body, dict(headers))
        if self._chalice:
            return sys.modules["chalice.app"].Response(body, {"Content-Type": content_type, **dict(headers)}, status)
        return self._proxy(status, [("Content-Type", content_type), *headers], body)

    def _proxy(self, status: int, headers: list[tuple[str, str]], body: str) -> dict[str, Any]:
        # A load balancer that gives several values of a header reads no others.
        name = "multiValueHeaders" if self._several else "headers"
        return {"statusCode": status, name: self._as(name, headers), "body": body, "isBase64Encoded": False}

    @staticmethod
    def _as(name: str, headers: list[tuple[str, str]]) -> dict[str, Any]:
        return {header: value if name == "headers" else [value] for header, value in headers}


class _AsyncRequest(_Request):
    async def answer(self) -> Any:
        return self._made_of(await self.func(*self.args, **self.kwargs))


def _resolver() -> Any:
    """The resolver of Powertools that calls this route or middleware. None if none does."""
    frame: Any = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("aws_lambda_powertools.event_handler."):
            for name in ("app", "self"):
                if hasattr(found := frame.f_locals.get(name), "current_event"):
                    return found
        frame = frame.f_back
    return None
