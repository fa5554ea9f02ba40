"""Handlers as Powertools' users write them, with locks."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent, event_source
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambda_lock import current_dedup, current_lock, deduplicate, with_lock

logger = Logger(service="orders")
tracer = Tracer()
metrics = Metrics(namespace="orders", service="orders")


@metrics.log_metrics
@logger.inject_lambda_context
@tracer.capture_lambda_handler
@event_source(data_class=EventBridgeEvent)
@with_lock("{detail[customer_id]}", wait=0)
def handler(event: EventBridgeEvent, context: LambdaContext) -> dict[str, Any]:
    metrics.add_metric(name="Orders", unit=MetricUnit.Count, value=1)
    logger.info("handling")
    return {"key": current_lock().key, "lease": current_lock().lease_duration, "owner": current_lock().owner}


LEASES: list[float] = []


@deduplicate("{messageId}")
@with_lock("{body[customer_id]}", wait=0)
def record_handler(record: SQSRecord, lambda_context: LambdaContext) -> None:
    LEASES.extend([current_dedup().lease_duration, current_lock().lease_duration])


def batch(event: dict[str, Any], context: LambdaContext) -> Any:
    LEASES.clear()
    answer = process_partial_response(event, record_handler, BatchProcessor(EventType.SQS), context)
    return {**answer, "leases": LEASES}


copy_config_to_registered_loggers(logger, include={"lambda_lock"})  # at the end: the decorators have registered it
