"""One request, answered once: its key, its payload, and what comes of it, whatever the framework.

This is `@deduplicate` around a function that makes the answer to a request. `asgi`, `wsgi` and `events` say what a
request and an answer are for them.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import reduce
from http import HTTPStatus

from ..decorators import kinds
from ..decorators.deduplicate import DAY, deduplicate
from ..decorators.functions import is_async
from ..errors import KeyTemplateError
from ..keys.arguments import builder, from_template, quoted, scalar_text, scoped
from ..keys.parameters import Parameters
from ..observe.observer import package
from .context import application

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Literal, TypeAlias, TypedDict, Unpack

    from ..client.async_client import AsyncLockClient
    from ..client.lock_client import LockClient
    from ..errors import LockNotGrantedError

    #: A template, or a function of the request, and of its context if it takes two arguments.
    Text: TypeAlias = str | Callable[..., object]
    Pairs: TypeAlias = Iterable[tuple[str, str]]

    class RequestOptions(TypedDict, total=False):
        """What all three take besides."""

        wait: float | None
        window: float
        store: Callable[[int], bool] | None
        client: LockClient | AsyncLockClient | None
        scope: str | None
        reserve: float | None
        lease_duration: float | None
        sort_key: str | None
        on_unavailable: Literal["raise", "run"]


KEY_HEADER = "idempotency-key"
#: Characters of an answer as it is stored. A row has 400 KB, with its key and the lock's attributes.
LARGEST = 350 * 1024
LONGEST_BODY = 10 * 1024 * 1024  # bytes of a request, as API Gateway takes them: it is read before it is answered
#: Of one exchange: connections (RFC 9110, section 7.6.1), times, and what is for one client's session.
_PASSING = {
    *("age", "connection", "date", "keep-alive", "proxy-authenticate", "proxy-connection", "server-timing"),
    *("set-cookie", "te", "trailer", "transfer-encoding", "upgrade", "x-amzn-requestid", "x-amzn-trace-id"),
}
_NOT_KEPT = (408, 409, 425, 429)
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')  # a string of RFC 8941
_BARE = re.compile(r"[!#-~](?:[ -~]*[!-~])?")


class Headers(dict[str, str]):
    """The headers of a request by their names, in whatever case. A repeated one has its values joined.

    strict: the names of those that are read as keys: what cannot be one is "".
    """

    def __init__(self, pairs: Pairs, strict: str) -> None:
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            found.setdefault(name.lower(), []).append(value)
        super().__init__({name: ", ".join(values) for name, values in found.items()})
        for name in {strict, KEY_HEADER} & found.keys():
            self[name] = _key_in(found[name])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


def _key_in(values: list[str]) -> str:
    """The key that a header names, quoted or not. "" if it names none, or several."""
    text = values[0].strip(" \t") if len(values) == 1 else ""
    if quoted_text := _QUOTED.fullmatch(text):
        return re.sub(r"\\(.)", r"\1", quoted_text[1])
    return text if _BARE.fullmatch(text) else ""


class Answer:
    """What a request is answered.

    given: what the first caller gets, as its adapter wants it. stored: what is kept for the others, as JSON. lost: why
    it cannot be kept; None if it can.
    """

    __slots__ = ("given", "lost", "status", "stored")

    def __init__(self, status: int | str, given: Any, headers: Pairs = (), content: Any = None, lost: str = "") -> None:
        self.status = int(str(status)[:3])
        self.given = given
        self.stored: dict[str, Any] = {"status": status}
        if not lost:
            try:
                kept = {"headers": lasting(headers), "content": kinds.dump(content)}
                size = len(json.dumps(kept))
                lost = f"would be stored in {size} characters, and at most {LARGEST} can be" if size > LARGEST else ""
            except Exception as error:  # noqa: BLE001 - the application's, or a type that cannot be stored
                lost = kinds.why(error)
        self.stored |= {"lost": True} if lost else kept
        self.lost = lost


class _Stored:
    """The serializer of answers. What it loads is the stored value itself, which `once` replays."""

    @staticmethod
    def dump(answer: Answer | dict[str, Any]) -> dict[str, Any]:
        return answer.stored if isinstance(answer, Answer) else answer

    @staticmethod
    def load(stored: dict[str, Any]) -> dict[str, Any]:
        return stored


def lasting(headers: Pairs) -> list[tuple[str, str]]:
    """The headers without those of one exchange."""
    return [(name, value) for name, value in headers if name.lower() not in _PASSING]


class Request:
    """What an adapter knows of a request.

    source: what functions are given; view: what templates name; both with its context. method, path: a part of its key.
    query, body: what must be the same under one key. body: None if it is too long, or not all there.
    """

    source: Any
    view: Mapping[str, Any]
    context: object = None
    method: str
    path: str
    query: object
    body: bytes | None

    def answer(self) -> Any:
        """Carry it out. Returns the Answer, or what is awaited for it."""
        raise NotImplementedError

    def replayed(self, status: int | str, headers: list[tuple[str, str]], content: Any) -> Any:
        """What a caller gets who is given what was kept."""
        raise NotImplementedError

    def refused(self, status: int, headers: list[tuple[str, str]], body: str) -> Any:
        """What a caller gets whose request is not carried out."""
        content = body.encode()
        return self.replayed(
            status, [*headers, ("Content-Length", str(len(content)))], b"" if self.method == "HEAD" else content
        )

    def payload(self) -> dict[str, Any]:
        """What is compared. JSON counts as what it says. Bytes that are something else are not read as JSON."""
        content_type, body = self.view["headers"].get("content-type", ""), self.body or b""
        is_json = not content_type or "json" in content_type.lower()
        return {"query": self.query, "body": body if is_json else memoryview(body)}


def refuse(request: Any, status: int, detail: str, *headers: tuple[str, str]) -> Answer:
    """The answer to a request that is not carried out, as problem details (RFC 9457)."""
    body = json.dumps({"title": HTTPStatus(status).phrase, "status": status, "detail": detail})
    given = request.refused(status, [("Content-Type", "application/problem+json"), *headers], body)
    return Answer(status, given, lost="is a refusal")


def once(
    named: Any,
    key: Text,
    *,
    awaited: bool,
    caller: Text | None = None,
    store: Any = None,
    **options: Any,
) -> Callable[..., Any]:
    """A function of a Request that gives its Answer.

    named: gives the scope its name. awaited: whether the answer is. The rest as `IdempotencyMiddleware` says.
    """
    if store is not None and (not callable(store) or is_async(store) or not Parameters(store).take(1)):
        raise TypeError(
            f"store= must be a plain function of the status, such as lambda status: status < 400, got {store!r}"
        )
    read_key, read_caller = _text("key", key), None if caller is None else _text("caller", caller)
    told: list[str] = []

    def key_of(request: Request, payload: object, context: object) -> str:
        if request.body is None:
            raise KeyTemplateError("the body is not there", field="body")
        parts = [f"{request.method} {request.path}"]
        if read_caller is not None:
            try:
                name = read_caller(request)
            except KeyTemplateError as error:
                raise KeyTemplateError(f"who calls is not known: {error}", field="caller") from error
            parts.append(hashlib.sha256(name.encode()).hexdigest()[:32])  # it may be a secret, such as an API key
        return reduce(lambda inner, outer: scoped(outer, inner), reversed(parts), read_key(request))

    def is_kept(answer: Answer) -> bool:
        kept: bool = answer.status < 500 and answer.status not in _NOT_KEPT if store is None else store(answer.status)
        if kept and answer.lost and not told:
            told.append(answer.lost)
            message = "an answer with status %s %s: its request counts as done, and duplicates are answered 409"
            package.tell("answer_not_kept", message, answer.status, answer.lost)
        return kept

    def replay(request: Any, payload: object, context: object, *, error: Any) -> Answer:
        stored = error.result or {"lost": True}
        if "lost" in stored:
            return refuse(request, 409, "This request was carried out before. Its answer could not be kept.")
        content = kinds.load(stored["content"])
        headers = [*((name, value) for name, value in stored["headers"]), ("Idempotent-Replayed", "true")]
        return Answer(stored["status"], request.replayed(stored["status"], headers, content), lost="is a replay")

    def running(request: Request, payload: object, context: object, *, error: LockNotGrantedError) -> Answer:
        seconds = int(min(max(1, -(-(error.retry_after or 1) // 1)), DAY))
        detail = "A request with this key is being carried out. Repeat yours later."
        return refuse(request, 409, detail, ("Retry-After", str(seconds)))

    def mismatch(request: Request, payload: object, context: object, *, error: object) -> Answer:
        return refuse(request, 422, "The key was used for a request with another payload.")

    def bad_key(request: Request, payload: object, context: object, *, error: KeyTemplateError) -> Answer:
        if error.field == "body":
            return refuse(request, 413, f"A request with a key is sent whole, and has at most {LONGEST_BODY} bytes.")
        if error.field == "caller":
            return refuse(request, 400, "The request does not say who calls.")
        return refuse(request, 400, "The header of the key must be there once, with printable ASCII characters.")

    async def run_awaited(request: Request, payload: object, context: object) -> Any:
        return await request.answer()

    def run_plain(request: Request, payload: object, context: object) -> Any:
        return request.answer()

    run: Callable[..., Any] = run_awaited if awaited else run_plain
    run.__module__ = str(getattr(named, "__module__", None) or "lambda_lock.web")
    run.__qualname__ = run.__name__ = str(getattr(named, "__qualname__", type(named).__name__))
    decorated = deduplicate(
        key_of,
        result=_Stored(),
        validate=["payload[query]", "payload[body]"],
        done_if=is_kept,
        on_duplicate=replay,
        on_not_granted=running,
        on_bad_key=bad_key,
        on_mismatch=mismatch,
        **options,
    )(run)
    return lambda request: decorated(request, request.payload(), request.context)


def _text(name: str, given: Any) -> Callable[[Request], str]:
    """What reads a text from a request. Raises TypeError, and KeyTemplateError for a template that cannot be read."""
    if isinstance(given, str):
        made_by = f"{name}={quoted(given)}"
        from_view = builder(made_by, from_template, given, Parameters(lambda event, context=None: None), made_by)
        return lambda request: from_view((request.view, request.context), {})
    count = 0
    if callable(given) and not is_async(given):
        count = next((number for number in (2, 1) if Parameters(given).take(number)), 0)
    if not count:
        raise TypeError(f"{name}= must be a template or a plain function of the request, got {given!r}")
    build = builder(f"{name}=", lambda: lambda args, kwargs: scalar_text(given(*args)))
    return lambda request: build((request.source, request.context)[:count], {})


class Middleware:
    """What the middlewares have in common. _count: arguments that the application takes; _other: the other class."""

    _count: int
    _other: str

    def __init__(
        self,
        app: Any,
        *,
        methods: Iterable[str] = ("POST", "PATCH"),
        header: str = "Idempotency-Key",
        caller: Text | None = None,
        required: bool = False,
        **options: Unpack[RequestOptions],
    ) -> None:
        name: Any = header
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name, re.ASCII):
            raise TypeError(f"header= must be the name of a header, such as 'Idempotency-Key', got {header!r}")
        given: Any = methods
        found = () if isinstance(given, str) or not hasattr(given, "__iter__") else tuple(given)
        if not found or not all(isinstance(method, str) and method.isalpha() for method in found):
            raise TypeError(f"methods= must be a list of methods, such as ('POST', 'PATCH'), got {methods!r}")
        self._app, self._header, self._required = application(app, self._count, self._other), header, required
        self._methods = {method.upper() for method in found}
        key, awaited = f"{{headers[{header}]}}", self._count == 3
        self._once = once(type(self), key, awaited=awaited, caller=caller, **options)

    def _passes(self, request: Request) -> bool:
        """Whether it is none of those that count."""
        is_named = self._required or self._header in request.view["headers"]
        return request.method not in self._methods or not is_named
