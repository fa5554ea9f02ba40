"""What the functions of web frameworks return: it is given back as what it is, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import chalice.app
import flask
import pytest
from aws_lambda_powertools.event_handler import Response as PowertoolsResponse
from aws_lambda_powertools.shared.cookies import Cookie
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from lambda_lock import LockFormatError, deduplicate

BINARY = bytes(range(256))
EVENT = {"id": "e-1"}
pytestmark = pytest.mark.usefixtures("table")


def starlette(made: Response) -> Response:
    made.set_cookie("a", "1")
    made.set_cookie("b", "2")
    return made


def of_flask() -> flask.Response:
    made = flask.Response(BINARY, 201, {"X-A": "1"}, mimetype="image/png")
    made.headers.add("X-A", "2")
    made.set_cookie("a", "1")
    return made


def seen(value: Any) -> Any:
    """All that a response says, in the words of its own framework."""
    if isinstance(value, Response):
        return value.status_code, value.raw_headers, bytes(value.body)
    if isinstance(value, flask.Response):
        return value.status, list(value.headers), value.get_data()
    if isinstance(value, (PowertoolsResponse, chalice.app.Response)):
        return vars(value)
    return [seen(part) for part in value] if isinstance(value, (tuple, list)) else value


WEB: list[Any] = [
    ({"error": "gone"}, 404),
    ("text", HTTPStatus.CREATED, [("X-A", "1")]),
    ({"body": [1, ("a", b"\xff\x00")]}, 200, {"X-A": "1"}),
    {"lambda_lock": "tuple", "value": [1]},
    ({"lambda_lock": "starlette", "class": ["os", "system"], "value": {}}, 200),
    starlette(JSONResponse({"a": "é"}, 201)),
    starlette(Response(BINARY, 200, {"content-type": "image/png"})),
    Response(memoryview(BINARY)),
    PlainTextResponse("", 204),
    of_flask(),
    (flask.Response("text", "299 As One Likes"), 201),
    flask.Response(),
    PowertoolsResponse(201, "application/json", {"a": (1, 2)}, {"X-A": ["1", "2"]}),
    PowertoolsResponse(200, "image/png", BINARY),
    chalice.app.Response({"a": 1}, {"X-A": ["1", "2"]}, 201),
]


@pytest.mark.parametrize("cache_size", [0, 10])
@pytest.mark.parametrize("result", WEB, ids=lambda result: type(result).__name__)
def test_what_a_route_returns_is_given_back_as_what_it_is(result, cache_size, once, caplog):
    before = seen(result)
    handler = once("{id}", result="json", cache_size=cache_size)(lambda event: result)
    assert handler(EVENT) is result
    for again in (handler(EVENT), handler(EVENT)):
        assert type(again) is type(result)
        assert seen(again) == before == seen(result)
    assert caplog.records == []


def parts() -> Iterator[bytes]:
    yield b"a"


REFUSED: list[Any] = [
    StreamingResponse(parts()),
    FileResponse(__file__),
    flask.Response(parts()),
    (flask.Response(parts()), 200),
    (Decimal(1), 200),
    ({1: "a"}, 200),
    PowertoolsResponse(200, "application/json", Decimal(1)),
    PowertoolsResponse(200, cookies=[Cookie("a", "1")]),
    chalice.app.Response(object()),
]


@pytest.mark.parametrize("result", REFUSED, ids=lambda result: type(result).__name__)
def test_a_response_that_cannot_be_given_back_is_refused_at_the_first_call_and_its_event_is_not_done(
    result, once, rows
):
    handler = once("{id}", scope="", result="json")(lambda event: result)
    with pytest.raises(TypeError, match=r"a result .*so duplicates of the event could not be given it\. Return"):
        handler(EVENT)
    assert "completedUntil" not in rows["e-1"]


@pytest.mark.parametrize("kind", [Response, JSONResponse, flask.Response, PowertoolsResponse[dict[str, int]]])
def test_a_response_may_be_named_as_the_type(kind, once):
    def annotated(event: Any) -> Any:
        return JSONResponse({"a": 1}, 201)

    annotated.__annotations__["return"] = kind
    for handler in (deduplicate("{id}", result="json")(annotated), deduplicate("{id}", result=kind)(annotated)):
        assert handler({"id": str(kind)}).status_code == handler({"id": str(kind)}).status_code == 201


@pytest.mark.parametrize("kind", [tuple[flask.Response, int], dict[str, int] | Response])
def test_a_type_with_a_response_in_it_is_refused_when_decorating(kind):
    with pytest.raises(TypeError, match="cannot be stored"):
        deduplicate("{id}", result=kind)


@pytest.mark.parametrize(
    "text",
    [
        *('{"lambda_lock":"os","value":{},"class":["os","system"]}', '{"lambda_lock":"starlette","value":{}}'),
        *('{"lambda_lock":"tuple"}', '{"lambda_lock":["tuple"],"value":[]}', '{"lambda_lock":"base64","value":1}'),
    ],
)
def test_a_stored_text_that_says_of_no_result_is_an_error(text, rows):
    handler = deduplicate("{id}", scope="", result="json")(lambda event: 1)
    handler(EVENT)
    rows.change("e-1", result={"S": text})
    with pytest.raises(LockFormatError, match="'e-1' cannot be loaded"):
        handler(EVENT)


def test_a_class_that_is_no_response_is_never_made(rows):
    handler = deduplicate("{id}", scope="", result="json")(lambda event: PlainTextResponse("a"))
    handler(EVENT)
    text = rows["e-1"]["result"]["S"].replace('["starlette.responses","PlainTextResponse"]', '["subprocess","Popen"]')
    assert "Popen" in text
    rows.change("e-1", result={"S": text})
    assert type(handler(EVENT)) is Response
