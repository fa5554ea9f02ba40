"""idempotent_request on the events of each service, and on what handlers and routes return."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2, event_source
from pydantic import BaseModel

from lambda_lock import AsyncLockClient, KeyTemplateError, set_default_client
from lambda_lock.testing import lambda_context
from lambda_lock.web import idempotent_request
from tests.support.elsewhere import ran

from .conftest import http, rest

pytestmark = pytest.mark.usefixtures("table")

KEY = {"Idempotency-Key": "k-1"}
SEVERAL = {name: [value] for name, value in KEY.items()}
POST = {"httpMethod": "POST", "path": "/orders", "isBase64Encoded": False, "body": '{"id": 1}'}
ELB = {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:us-east-1:1:targetgroup/a/b"}}
ALB: dict[str, Any] = POST | {"requestContext": ELB, "headers": KEY, "queryStringParameters": {"a": "1"}}
ALB_MULTI: dict[str, Any] = POST | {"requestContext": ELB, "multiValueHeaders": SEVERAL}
ALB_MULTI["multiValueQueryStringParameters"] = {"a": ["1"]}
LATTICE_1 = {"raw_path": "/orders?a=1", "method": "POST", "headers": KEY, "body": "e30=", "is_base64_encoded": True}
LATTICE_2 = {"version": "2.0", "path": "/orders", "method": "POST", "headers": SEVERAL, "body": "{}"}
LATTICE_2 |= {"queryStringParameters": {"a": ["1"]}, "requestContext": {"region": "us-east-1"}}
REST = rest({"id": 1}) | {"headers": KEY, "multiValueHeaders": SEVERAL}
EVENTS = {
    "REST API": REST,
    "HTTP API": http({"id": 1}, **{"idempotency-key": "k-1"}),
    "load balancer": ALB,
    "load balancer, several values": ALB_MULTI,
    "Lattice 1": LATTICE_1,
    "Lattice 2": LATTICE_2,
}


class Handler:
    def __init__(self, result: Any, key: Any = "{headers[idempotency-key]}", **options: Any) -> None:
        self.count = 0

        @idempotent_request(key, **options)
        def handler(event: Any, context: Any) -> Any:
            self.count += 1
            return result

        self.handler = handler

    def __call__(self, event: Any) -> Any:
        return self.handler(event, lambda_context(30))


def replayed(answer: Any) -> bool:
    headers = answer.get("headers") or answer["multiValueHeaders"]
    return headers.get("Idempotent-Replayed") in ("true", ["true"])


CREATED = {"statusCode": 201, "headers": {"X-A": "1", "date": "now"}, "body": "created"}


@pytest.mark.parametrize("service", EVENTS)
def test_each_service_s_requests_are_answered_once(service):
    handler, event = Handler(CREATED), EVENTS[service]
    assert handler(event) is CREATED
    assert handler(event) == CREATED | {"headers": {"X-A": "1", "Idempotent-Replayed": "true"}}
    assert handler(event | {"body": '{"id": 2}', "is_base64_encoded": False})["statusCode"] == 422
    moved = event | {name: "/elsewhere" for name in ("path", "rawPath", "raw_path") if name in event}
    assert handler(moved) is CREATED
    assert handler.count == 2


def test_a_load_balancer_that_reads_several_values_is_given_them():
    several: Any = {"statusCode": 200, "multiValueHeaders": {"X-A": ["1", "2"], "Set-Cookie": ["a=1"]}, "body": ""}
    handler = Handler(several)
    handler(ALB_MULTI)
    assert handler(ALB_MULTI)["multiValueHeaders"] == {"X-A": ["1", "2"], "Idempotent-Replayed": ["true"]}
    refused = handler(ALB_MULTI | {"multiValueHeaders": {}})
    assert refused["statusCode"] == 400


@pytest.mark.parametrize(
    ("headers", "several"),
    [
        ({"Idempotency-Key": "a", "idempotency-key": "b"}, {}),
        ({"Idempotency-Key": "b"}, {"Idempotency-Key": ["a", "b"]}),
        (None, {"Idempotency-Key": ["a", "a"]}),
        (None, None),
        ({}, {}),
    ],
)
def test_a_key_that_is_missing_or_repeated_in_any_case_is_400(headers, several):
    handler = Handler(CREATED)
    assert handler(REST | {"headers": headers, "multiValueHeaders": several})["statusCode"] == 400
    assert handler.count == 0


@pytest.mark.parametrize(
    ("result", "body"), [({"a": 1}, '{"a": 1}'), ("text", "text"), ([1, 2], "[1, 2]"), (None, "null")]
)
def test_a_result_that_api_gateway_would_make_an_answer_of_is_replayed_as_that_answer(result, body):
    handler, event = Handler(result), EVENTS["HTTP API"]
    assert handler(event) == result
    again = handler(event)
    assert (again["statusCode"], again["body"]) == (200, body)
    assert again["headers"] == {"Content-Type": "application/json", "Idempotent-Replayed": "true"}


def test_cookies_of_an_http_api_are_not_kept():
    handler, event = Handler({**CREATED, "cookies": ["a=1"]}), EVENTS["HTTP API"]
    assert handler(event)["cookies"] == ["a=1"]
    assert "cookies" not in handler(event)


def test_a_body_in_base64_is_compared_as_what_it_says_and_other_bytes_as_they_are():
    handler, event = Handler(CREATED), EVENTS["HTTP API"]
    handler(event)
    encoded = base64.b64encode(b'{ "id":1.0}').decode()
    assert replayed(handler(event | {"body": encoded, "isBase64Encoded": True}))
    headers = {"idempotency-key": "k-2", "content-type": "application/octet-stream"}
    binary = {"headers": headers, "isBase64Encoded": True}
    for text in (b'{"a": 1}', b"\xff"):
        handler(event | binary | {"body": base64.b64encode(text).decode(), "rawPath": f"/{len(text)}"})
    spaced = {"body": base64.b64encode(b'{"a":1}').decode(), "rawPath": "/8"}
    assert handler(event | binary | spaced)["statusCode"] == 422


def test_parameters_of_a_query_may_come_in_another_order():
    handler, event = Handler(CREATED), EVENTS["HTTP API"]
    handler(event | {"rawQueryString": "a=1&b=2"})
    assert replayed(handler(event | {"rawQueryString": "b=2&a=1"}))
    assert handler(event | {"rawQueryString": "a=1&b=3"})["statusCode"] == 422


def test_callers_by_claim_and_by_function():
    event = EVENTS["HTTP API"]
    for caller in ("{requestContext[authorizer][jwt][claims][sub]}", lambda event: event["requestContext"]["sub"]):
        handler = Handler(CREATED, caller=caller, scope=f"{callable(caller)}")
        for sub in ("a", "b", "a", 7):
            claims = {"sub": sub, "authorizer": {"jwt": {"claims": {"sub": sub}}}}
            handler(event | {"requestContext": event["requestContext"] | claims})
        assert handler.count == 3


def test_a_key_may_be_a_function_of_the_event_whose_headers_have_any_case():
    handler = Handler(CREATED, key=lambda event, context: event["headers"].get("IDEMPOTENCY-key"))
    handler(REST)
    assert replayed(handler(REST))
    assert handler(REST | {"headers": {}, "multiValueHeaders": {}})["statusCode"] == 400


def test_a_method_and_an_event_class_are_handlers_too():
    class Api:
        count = 0

        @idempotent_request("{headers[idempotency-key]}")
        def handler(self, event: Any, context: Any) -> Any:
            self.count += 1
            return CREATED

    @event_source(data_class=APIGatewayProxyEventV2)
    @idempotent_request("{headers[idempotency-key]}")
    def of_class(event: APIGatewayProxyEventV2, context: Any) -> Any:
        return {"statusCode": 201, "body": event.raw_path}

    api, event = Api(), EVENTS["HTTP API"]
    for handler in (api.handler, of_class):
        _, again = (handler(event, lambda_context(30)) for _ in range(2))  # type: ignore[arg-type]
        assert replayed(again)
    assert api.count == 1


def test_an_async_handler_has_an_async_client():
    @idempotent_request("{headers[idempotency-key]}")
    async def handler(event: Any, context: Any) -> Any:
        await asyncio.sleep(0)
        return CREATED

    async def both() -> Any:
        set_default_client(AsyncLockClient())
        return [await handler(REST, lambda_context(30)) for _ in range(2)]

    first, again = asyncio.run(both())
    assert (first, replayed(again)) == (CREATED, True)


# Powertools


class Order(BaseModel):
    id: int


@pytest.mark.parametrize(
    ("result", "status"),
    [
        *(({"a": 1}, 202), (({"a": 1}, 418), 418), ([{"a": 1}], 202)),
        (Response(201, "text/plain", "text", {"X-A": ["1", "2"]}), 201),
    ],
)
def test_what_a_route_of_powertools_returns_is_replayed_with_its_status(result, status):
    app, count = APIGatewayRestResolver(), []

    @app.post("/orders", status_code=202)
    @idempotent_request("{headers[idempotency-key]}")
    def order() -> Any:
        count.append(1)
        return result

    first, again = (app.resolve(REST, lambda_context(30)) for _ in range(2))  # type: ignore[arg-type]
    assert (first["statusCode"], again["statusCode"]) == (status, status)
    assert (first["body"], len(count)) == (again["body"], 1)
    assert again["multiValueHeaders"].pop("Idempotent-Replayed") == ["true"]
    assert again["multiValueHeaders"] == first["multiValueHeaders"]


def test_a_body_that_a_route_of_powertools_takes_is_never_taken_for_the_event():
    app, count = APIGatewayRestResolver(enable_validation=True), []

    def order(event: Any) -> dict[str, Any]:
        count.append(event)
        return {"a": 1}

    order.__annotations__["event"] = Annotated[dict[str, Any], Body()]  # Powertools reads no text of a wrapped function
    once = idempotent_request("{headers[idempotency-key]}", caller="{requestContext[authorizer][principalId]}")
    app.post("/orders")(once(order))

    def ask(caller: str, body: Any) -> Any:
        given = REST | {"headers": {**KEY, "Content-Type": "application/json"}, "body": json.dumps(body)}
        given["requestContext"] = REST["requestContext"] | {"authorizer": {"principalId": caller}}
        return app.resolve(given, lambda_context(30))  # type: ignore[arg-type]

    forged = {"headers": KEY, "requestContext": {"authorizer": {"principalId": "anna"}}}
    anna, eve = ask("anna", {"a": 1}), ask("eve", forged)
    assert (anna["statusCode"], eve["statusCode"]) == (200, 200), (anna, eve)
    assert len(count) == 2


# Mistakes


def test_what_is_not_called_for_a_request_is_told():
    handler = Handler(CREATED)
    with pytest.raises(TypeError, match="was called without a request"):
        handler({"Records": []})


def test_mistakes_are_told_when_decorating():
    def handler(event: Any, context: Any) -> Any: ...

    with pytest.raises(TypeError, match="needs a key"):

        @idempotent_request
        def bare(event: Any, context: Any) -> Any: ...

    with pytest.raises(KeyTemplateError, match="cannot be read"):
        idempotent_request("{headers.key}")(handler)
    with pytest.raises(TypeError, match="key= must be a template"):
        idempotent_request(5)(handler)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="decorates functions"):
        idempotent_request("{headers[a]}")(Order)


def test_an_answer_of_a_generator_is_refused_as_for_events():
    handler = Handler(part for part in "ab")
    with pytest.raises(TypeError, match="has not run yet"):
        handler(REST)


# What it costs


def test_a_plain_handler_loads_no_asyncio():
    code = "import sys; from lambda_lock.web import IdempotencyWsgi, idempotent_request; print(*sys.modules)"
    assert "asyncio" not in ran(code).split()
