"""Runs the records of one batch, and says which of them have to come back.

Each record runs under its dedup and its lock, as long as there is enough time left.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from functools import wraps

from ..client import checks
from ..client.options import LOCK, RECORD, checked
from ..decorators.deduplicate import DAY, deduplicate
from ..decorators.functions import check_called, check_function, check_result, is_async
from ..decorators.with_lock import with_lock
from ..errors import (
    KeyTemplateError,
    LockArgumentError,
    LockConfigurationError,
    LockError,
    LockNotGrantedError,
    RateLimitedError,
)
from ..keys.compile import Compiled, compile_key
from ..keys.parameters import Parameters, name_of
from ..observe.observer import package
from ..runtime import invocation
from ..runtime.timeline import elapsed
from .source import QueueSource, StreamSource, chains_of, deliveries_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Literal, Never, TypeAlias, Unpack

    from ..client.lock_client import LockClient
    from ..client.options import CommonOptions
    from ..decorators.types import StoredOptions
    from ..keys.compile import Key, Keys
    from ..runtime.invocation import Invocation
    from .source import Delivery, Record, Source
    from .visibility import RetryVisibility, Visibility

    RecordHandler: TypeAlias = Callable[[Record], object]
    Response: TypeAlias = dict[str, list[dict[str, str]]]
    KafkaResponse: TypeAlias = dict[str, list[dict[str, dict[str, str | int]]]]

    class RecordOptions(StoredOptions, CommonOptions, total=False):
        """The options that all batches share. process_sqs describes them."""

        lock_key: Keys | None
        permits: int | None
        take: int | Callable[[Record], int] | None
        shared: bool | None
        rate: tuple[Key, int, float] | Sequence[tuple[Key, int, float]] | None
        on_bad_key: Literal["raise", "skip"]
        max_workers: int
        window: float
        wait: float | None
        client: LockClient | None


_CONTENDED = (LockNotGrantedError, RateLimitedError)  # the client has logged them already
_LEAST_LEFT = 1.0  # seconds: with less time left, no record is started
_HEADROOM = 1.5  # a record is started if the longest one so far would fit this many times into the time left


def process_sqs(
    event: Any,
    record_handler: RecordHandler,
    *,
    context: Any,
    dedup_key: Key | None = "{messageId}",
    retry_visibility: RetryVisibility | None = None,
    **options: Unpack[RecordOptions],
) -> Response:
    """Process the messages of a batch from SQS, each of them once. Returns the answer for Lambda.

        def handler(event, context):
            return process_sqs(event, order, context=context, lock_key="customer#{body[customer_id]}")

    event: the event of the invocation, as Lambda passes it or as Powertools' SQSEvent. Or the list of records that
        EventBridge Pipes passes to its target.
    record_handler: a plain function of one record. It is called with the record as the dict that Lambda passed.
    context: the handler's second argument; None: the one that register_lambda_context() was given, if any. A record is
        started only if enough time is left: one and a half times the duration of the longest record so far, and at
        least 1 s. What a record waited for its slot (``rate``) does not count.
    dedup_key: says which deliveries are the same event (see deduplicate). A template over the record, a function of the
        record, or payload_hash(); None: no dedup. The default is right for FIFO queues too, because SQS's own
        deduplication id is unique for five minutes only.
    lock_key: says which records must not run at the same time. A template, a function or payload_hash(), as for
        dedup_key; a list of these: several locks at once, as for with_lock; None: no lock.
    permits, take, shared: how many records of one lock_key may run at once, how many of these permits a record takes,
        and whether it reads or writes, as for with_lock. take may be a function of the record. None: one at a time.
    rate: a key, a limit and seconds (per): at most so many records start in so many seconds, over all functions that
        use the key (see rate_limit; the key is a template or function, as for lock_key). A list of these: all of them,
        each with a key of its own. A record that cannot start in the time left, less ``reserve``, comes back when its
        turn is, and so does what follows it in a FIFO group. That needs what retry_visibility needs. None: no limit.
    on_bad_key: what is done with a record of which a key or ``validate`` cannot be built, because a field is missing,
        say. "raise": it failed, and comes back. "skip": it counts as done, with a warning, and record_handler is not
        called. A function says so by KeyTemplateError, or by returning ""; after other errors the record comes back.
    max_workers: the number of records that run at the same time, in threads; 1 or more. Records that have a lock key,
        an event or a FIFO message group in common run one after another, in their order.
    wait: seconds to wait for a record's lock or event, 0 or more; 0: try once; None: as for with_lock. The wait uses up
        the time of the whole batch.
    window: seconds for which an event counts as done, 1 or more, as for deduplicate.
    scope: the prefix of the keys under which events are stored, as for deduplicate.
    result: how to store what record_handler returns for the event's duplicates, as for deduplicate; None stores
        nothing.
    validate: the fields of a record in which two deliveries with one dedup_key must not differ, as for deduplicate. A
        record that differs comes back.
    reserve: seconds that record_handler needs after the grant, 0 or more; None: as for with_lock.
    lease_duration: seconds that a lease lasts, 1 or more; None: the client's.
    refresh_period: the longest pause between two polls, in seconds, 0.01 or more; None: the client's.
    client: the LockClient; None: default_client(), which reads LAMBDA_LOCK_TABLE.
    retry_visibility: seconds after which returned messages become visible again, instead of the rest of the queue's
        visibility timeout; 0 to 43,200 (SQS API reference, ChangeMessageVisibility), fractions are dropped, and what
        is above 0 is at least 1. "retry_after": when it may be the turn of a message whose lock or event is held; the
        others keep the queue's. Or a function of the record, as it was delivered, and its error that returns a number
        of seconds. The error is None for a record that was not started. If the function returns None, or with the
        default None, the queue's visibility timeout stays. Needs boto3, and the permission
        sqs:ChangeMessageVisibility on the queue.

    Returns the messageIds of the records that come back, as batchItemFailures. A record comes back

    - if its handler raised an error, or returned what has not run yet, such as a generator;
    - if its lock or its event is held elsewhere, or could not be acquired because of an error;
    - if its key cannot be built (see on_bad_key);
    - if too little time was left, so it was not started;
    - on a FIFO queue, if it follows one of these in its message group.

    The reason is logged. Lambda deletes all other messages. Each return uses up one receive of maxReceiveCount.

    If no record was done, and every one that was started failed with LockConfigurationError (a permission or the table
    is missing), that is raised instead. All records come back as well, and the invocation counts as an error. A
    record whose own key is unusable does not count as such a failure.

    These errors are raised before any record runs, so the whole batch comes back: LockArgumentError for an event that
    is not a batch from SQS, and for a number out of range. TypeError for an argument of the wrong type, and for a
    record_handler that is async, a generator or a class, or that cannot be called with one record. KeyTemplateError
    for a template that cannot be read. LockConfigurationError if retry_visibility is given and boto3 is not installed.
    """
    batch = _Batch("process_sqs", QueueSource(), record_handler, dedup_key, retry_visibility, **options)
    return batch.run(event, context)


def process_stream(
    event: Any,
    record_handler: RecordHandler,
    *,
    context: Any,
    dedup_key: Key | None = "{eventID}",
    **options: Unpack[RecordOptions],
) -> Response:
    """Process the records of a batch from Kinesis or a DynamoDB stream, each of them once.

        def handler(event, context):
            return process_stream(event, change, context=context, lock_key="order#{dynamodb[Keys][order_id][S]}")

    The arguments and errors are those of `process_sqs`, without retry_visibility. The default dedup_key is the eventID.

    Returns the sequence number of the first record that comes back, as batchItemFailures. Lambda continues from that
    record and delivers everything after it again, so no record is started after a failure. With max_workers, records of
    one partition key (or of one item) still run in their order.

    EventBridge Pipes passes a list of records, and is told the eventID of each record that comes back.
    """
    return _Batch("process_stream", StreamSource(), record_handler, dedup_key, **options).run(event, context)


def sqs_batch(
    *bare: Never,
    dedup_key: Key | None = "{messageId}",
    retry_visibility: RetryVisibility | None = None,
    **options: Unpack[RecordOptions],
) -> Callable[[RecordHandler], Callable[[Any, Any], Response]]:
    """Turn a function of one record into a Lambda handler. This is `process_sqs` as a decorator.

        @sqs_batch(lock_key="customer#{body[customer_id]}")
        def handler(record):
            ...

    The arguments are those of `process_sqs`, without event, record_handler and context. The handler is called with
    event and context. It returns and raises what process_sqs does. Wrong settings are raised when decorating.
    """
    _refuse_bare(bare, "sqs_batch", "order#{body[id]}")
    return _decorator("sqs_batch", QueueSource(), dedup_key, retry_visibility, options)


def process_kafka(
    event: Any,
    record_handler: RecordHandler,
    *,
    context: Any,
    dedup_key: Key | None = "{topic}#{partition}#{offset}",
    **options: Unpack[RecordOptions],
) -> KafkaResponse:
    """Process the records of a batch from Kafka (Amazon MSK or self-managed), each of them once.

        def handler(event, context):
            return process_kafka(event, order, context=context, lock_key="customer#{value[customer_id]}")

    The arguments and errors are those of `process_sqs`, without retry_visibility. Templates, payload_hash() and
    ``validate`` see the record's ``key`` and ``value`` decoded from base64: ``{key}`` is the text, ``{value[id]}`` a
    field of the JSON. record_handler, and a function as a key, get the record as Lambda passed it. The default
    dedup_key is the record's place. It is reused if a topic is deleted and made anew, and clusters may share it.

    Returns the first record that comes back of each partition, as batchItemFailures: an object with the partition
    (``"topic-0"``) and the offset. Lambda continues each partition from there, so no record of it is started after a
    failure; other partitions continue. With max_workers, records of one partition and key, and those of one partition
    without a key, still run in their order.

    EventBridge Pipes passes a list of records, and reads no answer for Kafka. If one comes back then, LockError is
    raised instead, from the record's error, and Pipes delivers the whole batch again.
    """
    from .kafka import KafkaSource

    return _Batch("process_kafka", KafkaSource(), record_handler, dedup_key, **options).run(event, context)


def kafka_batch(
    *bare: Never,
    dedup_key: Key | None = "{topic}#{partition}#{offset}",
    **options: Unpack[RecordOptions],
) -> Callable[[RecordHandler], Callable[[Any, Any], KafkaResponse]]:
    """Turn a function of one record into a Lambda handler. This is `process_kafka` as a decorator.

        @kafka_batch(lock_key="customer#{value[customer_id]}")
        def handler(record):
            ...

    The arguments are those of `process_kafka`, which are those of `process_sqs`, without event, record_handler and
    context. The handler is called with event and context. It returns and raises what process_kafka does. Wrong settings
    are raised when decorating.
    """
    _refuse_bare(bare, "kafka_batch", "order#{value[id]}")
    from .kafka import KafkaSource

    return _decorator("kafka_batch", KafkaSource(), dedup_key, None, options)


def _refuse_bare(bare: tuple[object, ...], decorator: str, key: str) -> None:
    if bare:
        raise TypeError(
            f"{decorator} takes its settings as keyword arguments: write @{decorator}(), or "
            f"@{decorator}(lock_key={key!r})"
        )


def _decorator(
    name: str, source: Source, dedup_key: Key | None, retry_visibility: RetryVisibility | None, options: RecordOptions
) -> Callable[[RecordHandler], Callable[[Any, Any], dict[str, list[dict[str, Any]]]]]:
    def decorate(record_handler: RecordHandler) -> Callable[[Any, Any], dict[str, list[dict[str, Any]]]]:
        batch = _Batch(name, source, record_handler, dedup_key, retry_visibility, **options)

        def handler(event: Any, context: Any) -> dict[str, list[dict[str, Any]]]:
            return batch.run(event, context)

        # Not functools.wraps: it would give the handler the signature of record_handler.
        for part in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(handler, part, getattr(record_handler, part, getattr(handler, part)))
        handler.lambda_lock_batch = source.decorator  # type: ignore[attr-defined]  # which decorators above it refuse
        return handler

    return decorate


class _Batch:
    """How to process batches of one kind: the record handler with its dedup and its lock.

    called: the public name that the application used.
    """

    def __init__(
        self,
        called: str,
        source: Source,
        record_handler: RecordHandler,
        dedup_key: Key | None,
        retry_visibility: RetryVisibility | None = None,
        /,
        *,
        lock_key: Keys | None = None,
        permits: int | None = None,
        take: int | Callable[[Record], int] | None = None,
        shared: bool | None = None,
        rate: tuple[Key, int, float] | Sequence[tuple[Key, int, float]] | None = None,
        on_bad_key: Literal["raise", "skip"] = "raise",
        max_workers: int = 1,
        window: float = DAY,
        scope: str | None = None,
        result: Any = None,
        validate: Sequence[str] | None = None,
        wait: float | None = 0,
        client: LockClient | None = None,
        **options: Unpack[CommonOptions],
    ) -> None:
        timing = checked(RECORD, {"wait": wait, **options}, called, _Batch.__init__.__kwdefaults__)
        if isinstance(record_handler, type) or not callable(record_handler):
            raise TypeError(f"record_handler must be a function of one record, got {record_handler!r}")
        check_function(record_handler, called)
        if is_async(record_handler):
            raise TypeError(
                "record_handler must be a plain function, got an async def function, which would never be awaited: "
                "write def instead of async def"
            )
        if not Parameters(record_handler, follow_wrapped=False).take(1):
            name = name_of(record_handler)
            raise TypeError(
                f"record_handler is called with one record and nothing else, but {name}() cannot be called like that. "
                f"Write it as {name}(record). The function that Lambda calls with event and context is another one: "
                f"it calls {source.function}" + (f", or @{source.decorator} makes it" if source.decorator else "")
            )
        if on_bad_key not in ("raise", "skip"):
            raise TypeError(f"on_bad_key= of {called} must be 'raise' or 'skip', got {on_bad_key!r}")
        rates: list[Any] = list(rate) if isinstance(rate, list) else [] if rate is None else [rate]
        if rate == [] or not all(isinstance(each, tuple) and len(each) == 3 for each in rates):
            raise TypeError(
                f"rate= must be (key, limit, per), such as ('api', 10, 1), or a list of these, got {rate!r}"
            )
        self.called = called
        self.source = source
        self.visibility: Visibility | None = None
        if source.has_visibility and (retry_visibility is not None or rate is not None):
            from .visibility import Visibility

            self.visibility = Visibility(retry_visibility, has_rate=bool(rates))
        self.skips = on_bad_key == "skip"
        self.max_workers = checks.whole("max_workers", max_workers, least=1)
        # Of the record that this thread runs. delivery: the record. began: when it began, or its slot if there is a
        # rate. bad_key: the error of its key or of validate=, if one cannot be built.
        self.now: Any = threading.local()
        # Records that share one of these keys run one after another.
        self.in_common: list[tuple[str, Callable[[Delivery], str]]] = []

        # The keys are of the record as it was delivered, and the record handler is given the record itself.
        @wraps(record_handler)
        def work(_: object) -> object:
            if rate is not None:
                self.now.began = elapsed()
            result = record_handler(self.now.delivery.record)
            check_result(result, record_handler, called, is_event=True)
            return result

        work.__qualname__ = name_of(record_handler)  # an object and a partial function have none to copy
        self.handler: Callable[[Any], object] = work

        def bad(_: object, error: KeyTemplateError) -> object:
            self.now.bad_key = error
            raise error

        def of_record(key: Any, kind: str = "") -> Callable[[object], str]:
            """The key of the record that this thread runs. kind: of what it is the key, if records may share it."""
            build, is_function = compile_key(record_handler, key, None), not isinstance(key, (str, Compiled))

            def build_key(delivery: Delivery) -> str:
                return build((delivery.given if is_function else delivery.view,), {})

            if kind:
                self.in_common.append((kind, build_key))

            def key_now(_: object) -> str:
                try:
                    return build_key(self.now.delivery)
                except KeyTemplateError as error:
                    self.now.bad_key = error
                    raise

            return key_now

        if rates:  # innermost, because the work must follow its slot at once; of several, the narrowest
            from ..decorators.rate_limit import rate_limit

            for key, limit, per in sorted(rates, key=lambda each: checks.seconds("per", each[2], least=1e-6)):
                self.handler = rate_limit(of_record(key), limit, per=per, reserve=timing.get("reserve"), client=client)(
                    self.handler
                )
        common: dict[str, Any] = {"client": client, **timing}  # to a record's lock and event
        weight: dict[str, Any] = {"permits": permits, "take": take, "shared": shared}
        for name, value in weight.items():
            if value is not None and lock_key is None:
                raise LockArgumentError(
                    f"{name}={value} says how lock_key= is held: pass lock_key, or leave {name} out"
                )
        sound = checked(LOCK, {**weight, "take": None if callable(take) else take})
        if callable(take):
            check_called(work, "take", take)
            weight["take"] = wraps(take)(lambda _: take(self.now.delivery.given))
        # Records of which two can run at once, each with its permits, do not run one after another.
        kind = "lock" if sound["permits"] is None or 2 * (sound["take"] or 1) > sound["permits"] else ""
        if isinstance(lock_key, (list, tuple)):
            self.handler = with_lock([of_record(key, "lock") for key in lock_key], **common, **weight)(self.handler)
        elif lock_key is not None:
            self.handler = with_lock(of_record(lock_key, kind), **common, **weight)(self.handler)
        if dedup_key is not None:  # outermost, because a duplicate needs no lock
            common |= {"window": window, "scope": scope, "result": result, "validate": validate}
            common |= {"on_bad_key": bad if self.skips else "raise"}
            self.handler = deduplicate(of_record(dedup_key, "event"), **common)(self.handler)

    def run(self, event: object, context: object) -> dict[str, list[dict[str, Any]]]:
        deliveries, source = deliveries_of(event, self.source)
        found = invocation.find((), {}, context)
        token = invocation.enter(found)
        try:
            run = _Run(self, deliveries, found)
            if self.max_workers == 1:
                run.chain(range(len(deliveries)))
            else:
                from concurrent.futures import ThreadPoolExecutor

                with ThreadPoolExecutor(self.max_workers, thread_name_prefix="lambda_lock-batch") as pool:
                    # Each chain gets a copy of the context, so the application's ContextVars are there in the threads.
                    chains = chains_of(deliveries, self.in_common)
                    for running in [pool.submit(copy_context().run, run.chain, chain) for chain in chains]:
                        running.result()
        finally:
            invocation.leave(token)
        if run.failed:
            errors = list(run.failed.values())
            contended = sum(isinstance(error, _CONTENDED) for error in errors)
            idle = sum(error is None for error in errors)
            message = "%d of %d records come back: %d contended, %d failed, %d not started"
            failed = len(errors) - contended - idle
            package.tell("records_returned", message, len(errors), len(deliveries), contended, failed, idle)
        returned = sorted(run.first.values() if source.has_checkpoint else run.failed)
        if self.visibility is not None and returned:
            self.visibility.change([(deliveries[index].given, run.failed[index]) for index in returned])
        run.raise_misconfigured()
        if returned and not source.reads_answer:
            raise LockError(
                f"{len(run.failed)} of {len(deliveries)} records come back, and the whole batch with them: "
                f"{source.sender} reads no answer for {source.name}. What was done is a duplicate "
                "then, unless dedup_key=None"
            ) from next((error for error in run.failed.values() if error is not None), None)
        return {"batchItemFailures": [{"itemIdentifier": deliveries[index].identifier} for index in returned]}


class _Run:
    """One batch in progress.

    failed: the records that come back, by index, each with its error; None: it was not started.
    """

    def __init__(self, batch: _Batch, deliveries: list[Delivery], found: Invocation | None) -> None:
        self.batch = batch
        self.deliveries = deliveries
        self.invocation = found
        self.failed: dict[int, Exception | None] = {}
        self.first: dict[str | None, int] = {}  # by part whose order is kept: the lowest index that failed
        self.longest = 0.0
        self._changing = threading.Lock()

    def chain(self, indices: Iterable[int]) -> None:
        """Run records one after another."""
        batch, now = self.batch, self.batch.now
        deadline = None if self.invocation is None else self.invocation.deadline
        for index in indices:
            delivery = now.delivery = self.deliveries[index]
            order, now.began, now.bad_key = delivery.order, elapsed(), None
            with self._changing:
                is_cut_off = order is not None and index > self.first.get(order, index)
                needed = max(_LEAST_LEFT, _HEADROOM * self.longest)
            if is_cut_off or (deadline is not None and deadline - now.began < needed):
                # A record behind one that the rate refused has no start either: its turn comes after that one's.
                before = self.failed.get(self.first.get(order, index)) if is_cut_off else None
                self.fail(index, order, before if isinstance(before, RateLimitedError) else None)
                continue
            try:
                batch.handler(delivery.view)
            except Exception as error:  # noqa: BLE001 - after any error this record comes back and the others continue
                identifier = delivery.identifier
                if batch.skips and error is now.bad_key:
                    message = "record %s is skipped, and does not come back, as on_bad_key='skip' asks for: %s"
                    package.tell("record_skipped", message, identifier, error, record=identifier)
                    continue
                self.fail(index, order, error)
                if not isinstance(error, _CONTENDED):
                    message = "record %s failed and comes back: %s"
                    package.tell("record_failed", message, identifier, error, cause=error, record=identifier)
            with self._changing:
                self.longest = max(self.longest, elapsed() - now.began)

    def fail(self, index: int, order: str | None, error: Exception | None) -> None:
        with self._changing:
            self.failed[index] = error
            self.first[order] = min(index, self.first.get(order, index))

    def raise_misconfigured(self) -> None:
        """Raise LockConfigurationError if no record was done, and each one that was started failed with it. The others
        were not started, because of these failures or for lack of time."""
        errors = [error for _, error in sorted(self.failed.items()) if error is not None]
        if errors and len(self.failed) == len(self.deliveries) and all(map(_is_misconfigured, errors)):
            raise errors[0]


def _is_misconfigured(error: Exception) -> bool:
    # An argument error about a key concerns one record: others would not fail with it.
    of_a_record = isinstance(error, LockArgumentError) and error.key is not None
    return isinstance(error, LockConfigurationError) and not of_a_record
