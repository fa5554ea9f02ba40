"""Powertools idempotency on a handler, used as in its documentation."""

from __future__ import annotations

import os
import sys

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent

from benchmarks.cold_start.contestants.harness import Context, held


@idempotent(  # type: ignore[type-var]  # the context is a stand-in
    persistence_store=DynamoDBPersistenceLayer(table_name=os.environ["BENCHMARK_TABLE"]),
    config=IdempotencyConfig(event_key_jmespath="id"),
)
def handler(event: dict[str, str], context: Context) -> None:
    held()


handler({"id": sys.argv[1]}, Context())
