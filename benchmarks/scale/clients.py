"""The lives of clients: ours is the shipped protocol, and the older ones follow the rules in their sources.

The older ones read, and write if the lock is free: three requests for a lock and its release. While it is held, they
read again after a fixed period. Sources: AmazonDynamoDBLockClient.acquireLock (refreshPeriod, 1 s by default),
dynamolock's Client.acquireLock (the same), python_dynamodb_lock's acquire_lock (retry_period, by default the heartbeat
period of 5 s, on a schedule that begins with the call).

Powertools' idempotency does not wait: it writes under a condition, and raises IdempotencyAlreadyInProgressError if that
is refused. At the end it stores the result with a second write (DynamoDBPersistenceLayer._put_record, _update_record).
"""

from __future__ import annotations

from typing import Any

from lambda_lock.core import acquire, keep
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Wait
from lambda_lock.core.queue import Queue
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import LockError

from .world import REFUSED, Ask, Life, World

LEASE = 20.0  # seconds
PERIODS = {"Java, Go": 1.0, "Python": 5.0}
POWERTOOLS = "Powertools idempotency"
RETRIES = {"Java, Go": 8, "Python": 10, POWERTOOLS: 10}  # of the SDKs (Go's fewer): after them the client gives up
_FIRST_RETRY, _LONGEST_RETRY = 0.05, 20.0  # seconds, with full jitter
OURS = {"lambda_lock": True, "lambda_lock, queue=False": False}


def life(who: str, world: World, key: str, wait: float, hold: float) -> Life:
    """Wait for the lock at most so long, hold it, and release it. All in seconds."""
    if who in OURS:
        return _ours(world, key, wait, hold, queue=OURS[who])
    if who == POWERTOOLS:
        return _powertools(world, key, hold)
    return _older(world, key, wait, hold, PERIODS[who], RETRIES[who])


def _ours(world: World, key: str, wait: float, hold: float, *, queue: bool) -> Life:
    started, memory = world.now, ClientMemory(10)
    wanted = AcquireRequest(
        Place("locks", JAVA, "key", key, None, None),
        f"i-{world.entropy.nonce()}",
        int(LEASE * 1000),
        Content(),
        wait_until=started + wait,
        waits=True,
        queue=Queue if queue else None,
    )
    try:
        held = yield from acquire.acquire(wanted, Conversation(memory, world.entropy, world.reading()))
    except (LockError, ServiceError) as error:
        world.fail(type(error).__name__)
        return
    world.granted(world.now - started)
    yield Wait(hold)
    try:
        yield from keep.release(held, Conversation(memory, world.entropy, world.reading()))
    except (LockError, ServiceError) as error:
        world.fail(f"release: {type(error).__name__}")


def _older(world: World, key: str, wait: float, hold: float, period: float, retries: int) -> Life:
    table, started, tries = _Rows(world), world.now, 0
    while True:
        row = yield from _ask(world, table.read(key), retries)
        if row is REFUSED:
            world.fail("refused by DynamoDB")
            return
        if row is None and (yield from _ask(world, table.put(key), retries)) is True:
            break
        tries += 1
        # Java and Go sleep for the period; Python until the next moment of its schedule
        pause = period if period < PERIODS["Python"] else max(started + tries * period - world.now, 0.0)
        if world.now + pause > started + wait:
            world.fail("LockTimeoutError")
            return
        yield Wait(pause)
    world.granted(world.now - started)
    yield Wait(hold)
    if (yield from _ask(world, table.delete(key), retries)) is REFUSED:
        world.fail("release: refused by DynamoDB")


def _powertools(world: World, key: str, hold: float) -> Life:
    table, started = _Rows(world), world.now
    got = yield from _ask(world, table.put(key), RETRIES[POWERTOOLS])
    if got is not True:
        world.fail("refused by DynamoDB" if got is REFUSED else "IdempotencyAlreadyInProgressError")
        return
    world.granted(world.now - started)
    yield Wait(hold)
    if (yield from _ask(world, table.complete(key), RETRIES[POWERTOOLS])) is REFUSED:
        world.fail("result: refused by DynamoDB")


def _ask(world: World, ask: Ask, retries: int) -> Any:
    """Send a request, and again as the SDK does."""
    for number in range(retries + 1):
        answer = yield ask
        if answer is not REFUSED:
            return answer
        if number < retries:
            yield Wait(world.rng.random() * min(_LONGEST_RETRY, _FIRST_RETRY * 2**number))
    return REFUSED


class _Rows:
    """The other clients' requests. Their rows are only there or not: a holder that dies is not simulated."""

    def __init__(self, world: World) -> None:
        self._table = world.table

    def read(self, key: str) -> Ask:
        return False, lambda: self._table.get(key)

    def put(self, key: str) -> Ask:
        def put() -> bool:
            if self._table.get(key) is not None:
                return False
            self._table.store((key,), {"key": {"S": key}})
            return True

        return True, put

    def complete(self, key: str) -> Ask:
        done = {"key": {"S": key}, "status": {"S": "COMPLETED"}}
        return True, lambda: self._table.store((key,), done)

    def delete(self, key: str) -> Ask:
        return True, lambda: self._table.store((key,), None)
