"""The two libraries, each used as its documentation recommends: what a user writes in either for the same purpose.

Powertools: the Lambda context is registered, records are kept for a day, and the local cache is off, except in the case
about it. lambda_lock: events count as done for a day, and their results are stored, as Powertools always does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from aws_lambda_powertools.utilities.idempotency.serialization.dataclass import DataclassSerializer

from lambda_lock import AsyncLockClient, LockClient, LockNotGrantedError, current_dedup, deduplicate, with_lock

Event = dict[str, Any]
Work = Callable[[Event], object]
Handler = Callable[[Event, Any], object]
AsyncWork = Callable[[Event], Coroutine[Any, Any, object]]
AsyncHandler = Callable[[Event, Any], Coroutine[Any, Any, object]]
Item = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

DAY = 86_400


@dataclass
class Receipt:
    """A result that JSON cannot represent as it is."""

    number: str


class LambdaLock:
    """One Lambda environment with lambda_lock."""

    title = "lambda_lock"
    table = "locks"
    partition_key = "key"
    claim = "UpdateItem"
    refused: tuple[type[Exception], ...] = (LockNotGrantedError,)

    def __init__(self, url: str) -> None:
        self._client = LockClient(self.table, endpoint_url=url)
        self._async_client = AsyncLockClient.over(self._client)

    def close(self) -> None:
        self._client.close(release=False)

    def once(self, work: Work) -> Handler:
        return self._once(work)

    def _once(self, work: Work, **options: Any) -> Handler:
        def handler(event: Event, context: Any) -> object:
            return work(event)

        made: Handler = deduplicate("{id}", window=DAY, result="json", scope="orders", client=self._client, **options)(
            handler
        )
        return made

    def exclusive(self, work: Work) -> Handler:
        """Each event once, and one event at a time per customer."""

        @deduplicate("{id}", window=DAY, result="json", scope="orders", client=self._client)
        @with_lock("{detail[customer_id]}", wait=0, client=self._client)
        def handler(event: Event, context: Any) -> object:
            return work(event)

        return handler

    def committing(self, work: Work, effect: Callable[[Event], Item]) -> Handler:
        """The effect is an item of a transaction. If the library can, the completion is in the same transaction."""

        @deduplicate("{id}", window=DAY, scope="orders", client=self._client)
        def handler(event: Event, context: Any) -> object:
            result = work(event)
            current_dedup().commit([effect(event)])
            return result

        return handler

    def nested(self, work: Work) -> Handler:
        @deduplicate("{order[order_id]}", window=DAY, result="json", scope="step", client=self._client)
        def step(order: Event, event: Event) -> object:
            return work(event)

        @deduplicate("{id}", window=DAY, result="json", scope="orders", client=self._client)
        def handler(event: Event, context: Any) -> object:
            return step(event["detail"], event)

        return handler

    def asynchronous(self, work: AsyncWork) -> AsyncHandler:
        @deduplicate("{id}", window=DAY, result="json", scope="orders", client=self._async_client)
        async def handler(event: Event, context: Any) -> object:
            return await work(event)

        return handler

    def validated(self, work: Work) -> Handler:
        """It notices a duplicate whose payload is different."""
        return self._once(work, validate=["detail"])

    def answered(self, work: Work, answer: Callable[[object], object]) -> Handler:
        """A function creates the duplicate's answer from the stored result."""

        def on_duplicate(event: Event, context: Any, error: Any) -> object:
            return answer(error.result)

        @deduplicate("{id}", window=DAY, result="json", scope="orders", client=self._client, on_duplicate=on_duplicate)
        def handler(event: Event, context: Any) -> object:
            return work(event)

        return handler

    def cached(self, work: Work) -> Handler:
        """It remembers results in the Lambda environment."""
        return self._once(work, cache_size=256)

    def modelled(self, work: Callable[[Event], Receipt]) -> Handler:
        """The result is a Receipt, which the duplicate gets too."""

        @deduplicate("{id}", window=DAY, result="json", scope="orders", client=self._client)
        def handler(event: Event, context: Any) -> Receipt:
            return work(event)

        return handler

    def unstorable(self, work: Work) -> Handler:
        """The result cannot be stored."""
        return self.once(work)


class Powertools:
    """One Lambda environment with the idempotency utility."""

    title = "Powertools"
    table = "idempotency"
    partition_key = "id"
    claim = "PutItem"
    refused: tuple[type[Exception], ...] = (IdempotencyAlreadyInProgressError,)

    def __init__(self, url: str) -> None:
        self._client = boto3.client("dynamodb", endpoint_url=url)
        self._stores: dict[str, DynamoDBPersistenceLayer] = {}

    def close(self) -> None:
        self._client.close()

    def _once(self, **options: Any) -> Callable[[Handler], Handler]:
        config = _config("id", **options)
        store = self._store(", ".join(["id", *options]))
        made: Callable[[Handler], Handler] = idempotent(config=config, persistence_store=store)
        return made

    def _once_by(self, argument: str, config: IdempotencyConfig, **options: Any) -> Callable[[F], F]:
        made: Callable[[F], F] = idempotent_function(
            data_keyword_argument=argument, config=config, persistence_store=self._store(argument), **options
        )
        return made

    def _store(self, use: str) -> DynamoDBPersistenceLayer:
        """The store for one use, as a module would have it.

        Uses do not share a store, because it keeps its first configuration and adds a hook to the client.
        """
        if use not in self._stores:
            self._stores[use] = DynamoDBPersistenceLayer(table_name=self.table, boto3_client=self._client)
        return self._stores[use]

    def once(self, work: Work, **options: Any) -> Handler:
        @self._once(**options)
        def handler(event: Event, context: Any) -> object:
            return work(event)

        return handler

    def exclusive(self, work: Work) -> Handler:
        """Each event once. Powertools has nothing that keeps two events of one customer from running at once."""
        return self.once(work)

    def committing(self, work: Work, effect: Callable[[Event], Item]) -> Handler:
        @self._once()
        def handler(event: Event, context: Any) -> object:
            result = work(event)
            self._client.transact_write_items(TransactItems=[effect(event)])
            return result

        return handler

    def nested(self, work: Work) -> Handler:
        config = _config("order_id")

        @self._once_by("order", config)
        def step(*, order: Event, event: Event) -> object:
            return work(event)

        @self._once()
        def handler(event: Event, context: Any) -> object:
            config.register_lambda_context(context)
            return step(order=event["detail"], event=event)

        return handler

    def asynchronous(self, work: AsyncWork) -> AsyncHandler:
        config = _config("id")

        @self._once_by("event", config)
        async def step(*, event: Event) -> object:
            return await work(event)

        async def handler(event: Event, context: Any) -> object:
            config.register_lambda_context(context)
            return await step(event=event)

        return handler

    def validated(self, work: Work) -> Handler:
        return self.once(work, payload_validation_jmespath="detail")

    def answered(self, work: Work, answer: Callable[[object], object]) -> Handler:
        return self.once(work, response_hook=lambda response, record: answer(response))

    def cached(self, work: Work) -> Handler:
        return self.once(work, use_local_cache=True)

    def unstorable(self, work: Work) -> Handler:
        return self.once(work)

    def modelled(self, work: Callable[[Event], Receipt]) -> Handler:
        config = _config("id")

        @self._once_by("event", config, output_serializer=DataclassSerializer(Receipt))
        def step(*, event: Event) -> Receipt:
            return work(event)

        def handler(event: Event, context: Any) -> object:
            config.register_lambda_context(context)
            return step(event=event)

        return handler


def _config(key: str, **options: Any) -> IdempotencyConfig:
    return IdempotencyConfig(event_key_jmespath=key, expires_after_seconds=DAY, **options)


CONTESTANTS: dict[str, type[LambdaLock] | type[Powertools]] = {"lambda_lock": LambdaLock, "powertools": Powertools}
