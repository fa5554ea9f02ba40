"""@with_lock and @deduplicate among Powertools' decorators of handlers and functions, in any order."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.middleware_factory import lambda_handler_decorator
from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent, event_source
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)
from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.envelopes import EventBridgeEnvelope
from aws_lambda_powertools.utilities.parser.models import (
    DynamoDBStreamRecordModel,
    EventBridgeModel,
    KinesisDataStreamRecord,
    SqsRecordModel,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from lambda_lock import (
    KeyTemplateError,
    LockNotGrantedError,
    current_dedup,
    current_lock,
    deduplicate,
    payload_hash,
    register_lambda_context,
    with_lock,
)
from lambda_lock.observe.log import logger as lock_logger
from rig import events
from tests.support.sampled import sampled

from .conftest import REMAINING, Context

Event = dict[str, Any]
Decorator = Callable[[Callable[..., Any]], Any]


class Detail(BaseModel):
    customer_id: str
    order_id: str


class Requested(EventBridgeModel):
    detail: Detail


@lambda_handler_decorator
def middleware(handler: Callable[..., Any], event: Any, context: Any) -> Any:
    return handler(event, context)


def requested(customer: str = "c-1", event_id: str | None = None) -> Event:
    return events.eventbridge({"customer_id": customer, "order_id": "o-1"}, event_id)


def stacked(order: list[Decorator], handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler under these decorators, the first outermost."""
    for decorator in reversed(order):
        handler = decorator(handler)
    return handler


def work(event: Event, context: Any) -> str:
    return "done"


@pytest.fixture
def once(store: DynamoDBPersistenceLayer) -> Decorator:
    """Powertools' own: an event is handled once."""
    made: Decorator = idempotent(config=IdempotencyConfig(event_key_jmespath="id"), persistence_store=store)
    return made


# Names


@pytest.mark.filterwarnings("ignore:No application metrics to publish")
@pytest.mark.parametrize("key", ["{event[detail][customer_id]}", "{detail[customer_id]}", "{context[aws_request_id]}"])
def test_above_decorators_of_powertools_names_are_those_that_these_give_them(key, logger, metrics, once, context):
    tracer = Tracer(service="orders")
    typed = event_source(data_class=EventBridgeEvent)
    stacks: tuple[list[Any], ...] = (
        [logger.inject_lambda_context],
        [tracer.capture_lambda_handler],
        [metrics.log_metrics(raise_on_empty_metrics=False)],
        [middleware],
        [typed],
        [tracer.capture_method],
        [once],
        [logger.inject_lambda_context, tracer.capture_lambda_handler, typed, middleware],
        [tracer.capture_method, logger.inject_lambda_context, typed],
    )
    for below in stacks:
        called = with_lock(key, wait=0)(stacked(below, lambda event, context: current_lock().key))
        expected = context.aws_request_id if key.startswith("{context") else "c-1"
        assert called(requested(), context) == expected


def test_a_name_that_only_a_handler_below_powertools_has_is_refused_with_a_remedy(logger):
    for decorator in (logger.inject_lambda_context, middleware, event_source(data_class=EventBridgeEvent)):
        handler = decorator(lambda placed, ctx: None)
        with pytest.raises(KeyTemplateError, match=r"takes the call, as \(event, context.*Write this decorator below"):
            with_lock("{placed[id]}")(handler)


# Any order

OTHERS = ("Logger", "Tracer", "Metrics", "middleware", "idempotent")


@pytest.fixture
def decorators(logger: Logger, metrics: Metrics, once: Decorator) -> dict[str, Decorator]:
    return {
        "Logger": logger.inject_lambda_context,
        "Tracer": Tracer(service="orders").capture_lambda_handler,
        "Metrics": metrics.log_metrics(raise_on_empty_metrics=False),
        "middleware": middleware,
        "idempotent": once,
    }


# For each choice of the others: those above the lock, the rest below it.
ABOVE = [
    tuple(name for name, chosen in zip(OTHERS, choice, strict=True) if chosen)
    for choice in itertools.product([True, False], repeat=len(OTHERS))
]

each_order = pytest.mark.parametrize("above", sampled(5, zip(ABOVE)), ids=lambda names: "-".join(names) or "nothing")


def around(above: tuple[str, ...], own: Decorator, decorators: dict[str, Decorator]) -> list[Decorator]:
    """``own`` below those named and above the others."""
    below = [name for name in OTHERS if name not in above]
    return [*(decorators[name] for name in above), own, *(decorators[name] for name in below)]


@each_order
@pytest.mark.filterwarnings("ignore:No application metrics to publish")
def test_a_lock_is_held_in_the_handler_and_ends_with_its_deadline_wherever_it_stands(
    above, decorators, rows, other, context
):
    def handler(event: Event, context: Context) -> str:
        assert rows.is_held("c-1")
        assert 0 < current_lock().lease_duration <= REMAINING
        return "done"

    lock = with_lock("{detail[customer_id]}", wait=0)
    locked = stacked(around(above, lock, decorators), handler)
    assert locked(requested(), context) == "done"
    assert not rows.is_held("c-1")
    with other.acquire("c-1"), pytest.raises(LockNotGrantedError):
        locked(requested(), context)
    assert locked(requested(), context) == "done"


@each_order
@pytest.mark.filterwarnings("ignore:No application metrics to publish")
def test_an_event_is_done_once_wherever_deduplicate_stands(above, decorators, context):
    done = []

    def handler(event: Event, context: Context) -> str:
        done.append(current_dedup().lease_duration)
        if len(done) == 1:
            raise ValueError("the first time")
        return "done"

    handled = stacked(around(above, deduplicate("{id}", result="json"), decorators), handler)
    event = requested()
    with pytest.raises(ValueError, match="the first time"):
        handled(event, context)
    assert [handled(event, context), handled(event, context)] == ["done", "done"]
    assert len(done) == 2
    assert max(done) <= REMAINING


# Event source data classes and the Parser's models


@pytest.mark.parametrize(
    "parse",
    [event_source(data_class=EventBridgeEvent), event_parser(model=Requested), event_parser(model=EventBridgeModel)],
    ids=["data class", "model", "model with a dict"],
)
@pytest.mark.parametrize("key", ["{detail[customer_id]}", "{event[detail][customer_id]}", None], ids=str)
@pytest.mark.parametrize("lock_first", [True, False], ids=["lock above", "lock below"])
def test_keys_are_made_of_the_raw_event_above_and_of_the_parsed_one_below(parse, key, lock_first, context):
    def handler(event: Any, context: Any) -> tuple[str, float]:
        assert not isinstance(event, dict)
        return current_lock().key, current_lock().lease_duration

    lock = with_lock(key, key_jmespath=None if key else "detail.customer_id")
    held, lease = stacked([lock, parse] if lock_first else [parse, lock], handler)(requested("c-7"), context)
    assert held == "c-7"
    assert lease <= REMAINING


def test_below_an_envelope_the_key_is_made_of_what_was_in_it_and_above_it_of_the_event_as_it_came(context):
    parse: Decorator = event_parser(model=Detail, envelope=EventBridgeEnvelope)
    lock: Decorator = with_lock("{customer_id}")
    below, above = (
        stacked(order, lambda event, context: current_lock().key) for order in ([parse, lock], [lock, parse])
    )
    assert below(requested("c-7"), context) == "c-7"
    with pytest.raises(KeyTemplateError, match=r"no \[customer_id\]"):
        above(requested("c-7"), context)


def test_an_event_that_does_not_parse_costs_no_request_below_the_parser_and_two_above(wire, context):
    lock: Decorator = with_lock("{id}")
    parse: Decorator = event_parser(model=Requested)
    counts = []
    for order in ([parse, lock], [lock, parse]):
        wire.clear()
        with pytest.raises(ValidationError):
            stacked(order, work)(requested() | {"detail": {}}, context)
        counts.append(wire.count())
    assert counts == [0, 2]


@pytest.mark.parametrize(
    "parse", [event_source(data_class=EventBridgeEvent), event_parser(model=Requested)], ids=["data class", "model"]
)
@pytest.mark.parametrize("key", ["{id}", payload_hash("detail"), payload_hash("detail[order_id]", "id")])
def test_an_event_is_the_same_event_whether_it_is_parsed_or_not(parse, key, context):
    done, event, once = [], requested(), deduplicate(key, scope="orders")
    for order in ([once, parse], [parse, once]):
        stacked(order, lambda event, context: done.append(event))(event, context)
    assert len(done) == 1


class Open(BaseModel):
    """A model that keeps what it is given beyond its fields."""

    model_config = ConfigDict(extra="allow")
    customer_id: str


@pytest.mark.parametrize("key", [{"key": "{order_id}"}, {"key_jmespath": "order_id"}], ids=["template", "jmespath"])
def test_a_key_can_be_made_of_a_field_that_a_model_allows_and_does_not_declare(key):
    @with_lock(**key)
    def handler(event: Open) -> str:
        return current_lock().key

    assert handler(Open(customer_id="c-1", order_id="o-1")) == "o-1"  # type: ignore[call-arg]


def test_events_that_differ_in_an_undeclared_field_are_not_one_event():
    first, second = (Open(customer_id="c-1", order_id=name) for name in ("o-1", "o-2"))  # type: ignore[call-arg]
    assert payload_hash()(first) != payload_hash()(second)
    assert payload_hash()(first) == payload_hash()({"customer_id": "c-1", "order_id": "o-1"})


@pytest.mark.parametrize(
    ("model", "event"),
    [
        (EventBridgeModel, events.load("eventbridge")),
        (SqsRecordModel, events.load("sqs")["Records"][0]),
        (KinesisDataStreamRecord, events.load("kinesis")["Records"][0]),
        (DynamoDBStreamRecordModel, events.load("dynamodb_stream")["Records"][0]),
    ],
    ids=["eventbridge", "sqs", "kinesis", "streams"],
)
def test_a_whole_model_can_be_hashed(model, event):
    assert payload_hash()(model.model_validate(event)) == payload_hash()(model.model_validate(event))


# Idempotency


def test_under_idempotent_a_duplicate_takes_no_lock_and_above_it_waits_for_one(once, other, context):
    lock = with_lock("{detail[customer_id]}", wait=0)
    below, above, event = stacked([once, lock], work), stacked([lock, once], work), requested()
    assert below(event, context) == "done"
    with other.acquire("c-1"):
        assert below(event, context) == "done"
        with pytest.raises(LockNotGrantedError):
            above(event, context)


SKIPPING = with_lock("{detail[customer_id]}", wait=0, on_not_granted="skip")


def test_a_lock_that_is_skipped_under_idempotent_loses_the_event(once, other, context):
    handler, event = stacked([once, SKIPPING], work), requested()
    with other.acquire("c-1"):
        assert handler(event, context) is None
    assert handler(event, context) is None


def test_a_lock_that_is_skipped_under_deduplicate_loses_the_event_too(other, context):
    handler, event = stacked([deduplicate("{id}", result="json"), SKIPPING], work), requested()
    with other.acquire("c-1"):
        assert handler(event, context) is None
    assert handler(event, context) is None


def test_a_lock_that_is_refused_under_idempotent_or_skipped_above_it_leaves_the_event_open(once, other, context):
    refused, skipped = (
        stacked(order, work) for order in ([once, with_lock("{detail[customer_id]}", wait=0)], [SKIPPING, once])
    )
    event = requested()
    with other.acquire("c-1"):
        with pytest.raises(LockNotGrantedError):
            refused(event, context)
        assert skipped(event, context) is None
    assert skipped(event, context) == refused(event, context) == "done"


@pytest.mark.parametrize("lock_first", [True, False], ids=["lock above", "lock below"])
def test_an_idempotent_function_and_a_lock_share_the_keyword_and_the_context(lock_first, store, context):
    config = IdempotencyConfig(event_key_jmespath="id", lambda_context=context)
    once = idempotent_function(data_keyword_argument="order", config=config, persistence_store=store)
    lock = with_lock("{order[customer_id]}")
    done = []

    def settle(*, order: Event) -> dict[str, Any]:
        done.append(current_lock().lease_duration)
        return {"key": current_lock().key}

    settled = stacked([lock, once] if lock_first else [once, lock], settle)
    register_lambda_context(context)
    for _ in range(2):
        assert settled(order={"id": "o-1", "customer_id": "c-1"}) == {"key": "c-1"}
    assert len(done) == 1
    assert done[0] <= REMAINING


# Logger


@pytest.fixture
def our_messages(logger: Logger) -> Iterator[None]:
    """lambda_lock's messages go where the Logger's go, in its form."""
    before = lock_logger.handlers[:], lock_logger.level, lock_logger.propagate
    copy_config_to_registered_loggers(logger, include={"lambda_lock"})
    yield
    lock_logger.handlers[:], level, lock_logger.propagate = before
    lock_logger.setLevel(level)  # not by the attribute: a logger remembers which levels are enabled


@pytest.mark.usefixtures("our_messages")
@pytest.mark.parametrize("logger_first", [True, False], ids=["Logger above", "Logger below"])
def test_messages_bear_the_requests_id_where_the_logger_stands_above_the_lock(
    logger_first, logger, written, other, context
):
    order: list[Decorator] = [logger.inject_lambda_context, with_lock("{detail[customer_id]}", wait=0)]
    if not logger_first:
        order.reverse()
    with other.acquire("c-1"), pytest.raises(LockNotGrantedError):
        stacked(order, work)(requested(), context)
    line = written.saying("is held by")
    assert line["name"] == "lambda_lock"
    assert line["lock_key"] == "c-1"
    assert ("function_request_id" in line) == logger_first
    if logger_first:
        assert line["function_request_id"] == context.aws_request_id


# Metrics


def test_metrics_are_written_after_the_release_where_they_stand_above_the_lock(metrics, rows, context, monkeypatch):
    held_when_written = []

    class Watching:
        def write(self, text: str) -> None:
            if "_aws" in text:
                held_when_written.append(rows.is_held("c-1"))

        def flush(self) -> None: ...

    def handler(event: Event, context: Context) -> None:
        metrics.add_metric(name="Orders", unit=MetricUnit.Count, value=1)

    lock = with_lock("{detail[customer_id]}")
    monkeypatch.setattr(sys, "stdout", Watching())
    stacked([metrics.log_metrics, lock], handler)(requested(), context)
    stacked([lock, metrics.log_metrics], handler)(requested(), context)
    assert held_when_written == [False, True]


@pytest.mark.parametrize("metrics_first", [True, False], ids=["Metrics above", "Metrics below"])
def test_a_metric_of_what_was_refused_is_written_where_metrics_stand_above_the_lock(
    metrics_first, metrics, other, context, capsys
):
    def refused(event: Event, context: Context, error: Exception) -> str:
        metrics.add_metric(name="Refused", unit=MetricUnit.Count, value=1)
        return "refused"

    lock = with_lock("{detail[customer_id]}", wait=0, on_not_granted=refused)
    order: list[Decorator] = [metrics.log_metrics, lock]
    if not metrics_first:
        order.reverse()
    with other.acquire("c-1"):
        assert stacked(order, work)(requested(), context) == "refused"
    assert ("Refused" in capsys.readouterr().out) == metrics_first


# Event handlers


def test_a_route_finds_the_registered_context(context):
    app = APIGatewayHttpResolver()

    @app.post("/customers/<customer_id>/invoices")
    @with_lock("{customer_id}")
    def invoice(customer_id: str) -> dict[str, Any]:
        return {"key": current_lock().key, "lease": current_lock().lease_duration}

    def handler(event: Event, context: Context) -> Any:
        register_lambda_context(context)
        return app.resolve(event, context)  # type: ignore[arg-type]

    answer = json.loads(handler(events.load("api_gateway_http"), context)["body"])
    assert answer["key"] == "c-42"
    assert answer["lease"] <= REMAINING
