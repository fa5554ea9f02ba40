"""The records of one batch: each under its dedup and its lock, as long as there is time, and what has to come back."""

from __future__ import annotations

import threading
from contextvars import copy_context

from ..client import checks
from ..decorators.deduplicate import DAY, deduplicate
from ..decorators.functions import check_function, check_result, is_async
from ..decorators.with_lock import with_lock
from ..errors import LockNotGrantedError
from ..keys.compile import compile_key
from ..keys.parameters import Parameters, name_of
from ..observe.log import logger, tell
from ..runtime import invocation
from ..runtime.timeline import elapsed
from .source import Failed, Queue, Stream, records_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal, Never, TypeAlias, TypedDict, Unpack

    from ..client.lock_client import LockClient
    from ..keys.compile import Key
    from ..keys.parameters import KeyBuilder
    from ..runtime.invocation import Invocation
    from .source import Record
    from .visibility import RetryVisibility, Visibility

    RecordHandler: TypeAlias = Callable[[Record], object]
    Response: TypeAlias = dict[str, list[dict[str, str]]]

    class RecordOptions(TypedDict, total=False):
        """What all batches take; process_sqs says what each means."""

        lock_key: Key | None
        max_workers: int
        window: float
        scope: str | None
        result: Literal["json"] | None
        wait: float | None
        reserve: float | None
        lease_duration: float | None
        refresh_period: float | None
        client: LockClient | None


_LEAST_LEFT = 1.0  # seconds, for a record to be started
_HEADROOM = 1.5  # times the longest record so far


def process_sqs(
    event: Any,
    record_handler: RecordHandler,
    *,
    context: Any,
    dedup_key: Key | None = "{messageId}",
    retry_visibility: RetryVisibility | None = None,
    **options: Unpack[RecordOptions],
) -> Response:
    """Do the messages of a batch from SQS, each once; gives what the handler returns to Lambda.

    record_handler: a plain function that is called with each record, as Lambda has it.
    context: the handler's second argument: no record is started that cannot finish before its deadline. It is started
        if one and a half times as long as the longest record took so far, at least 1 s, is left.
    dedup_key: what makes two deliveries the same event (see deduplicate): a template over the record, a function of it,
        or payload_hash(); None: no dedup. The default is right on FIFO queues too: SQS's own deduplication id is unique
        for five minutes only. lock_key: in the same way, what must not run at once; None: no lock.
    max_workers: how many records run side by side, in threads. Records with a lock key, an event or a FIFO message
        group in common run one after another, in their order.
    wait: seconds to wait for a record's lock or event; 0: one try. It is the time of the whole batch.
    window, scope, result: as for deduplicate. reserve, lease_duration, refresh_period, client: as for with_lock.
    retry_visibility: seconds after which returned messages are seen again, in place of what is left of the queue's
        visibility time-out; or a function of the record and its error (None: not started) that gives them, None leaves
        it. 0 to 43,200; needs boto3, and the permission sqs:ChangeMessageVisibility on the queue.

    A record comes back (by its messageId in batchItemFailures) if its handler raised, if its lock or event is somebody
    else's, if its key cannot be built, or if too little time was left; on a FIFO queue with it what follows in its
    message group. It is logged why. Lambda deletes all others. Each return uses up a receive of maxReceiveCount.

    Raises LockArgumentError for an event that is no batch of SQS, and what deduplicate and with_lock raise when
    decorating: nothing has run then, and the whole batch comes back.
    """
    batch = _Batch(Queue(), record_handler, dedup_key, **options)
    return batch.run(event, context, _visibility(retry_visibility))


def process_stream(
    event: Any,
    record_handler: RecordHandler,
    *,
    context: Any,
    dedup_key: Key | None = "{eventID}",
    **options: Unpack[RecordOptions],
) -> Response:
    """`process_sqs` for the records of Kinesis and DynamoDB streams.

    Lambda goes on from the first record that comes back, and delivers all after it again: so nothing is started after a
    failure, and only its sequence number is returned. With max_workers, records of one partition key (or one item) run
    in their order.
    """
    return _Batch(Stream(), record_handler, dedup_key, **options).run(event, context, None)


def sqs_batch(
    *bare: Never,
    dedup_key: Key | None = "{messageId}",
    retry_visibility: RetryVisibility | None = None,
    **options: Unpack[RecordOptions],
) -> Callable[[RecordHandler], Callable[[Any, Any], Response]]:
    """Make a Lambda handler of a function of one record: `process_sqs` as a decorator, with its arguments."""
    if bare:
        raise TypeError(
            "sqs_batch takes its settings as keyword arguments: write @sqs_batch(), or "
            "@sqs_batch(lock_key='order#{body[id]}')"
        )
    visibility = _visibility(retry_visibility)

    def decorate(record_handler: RecordHandler) -> Callable[[Any, Any], Response]:
        batch = _Batch(Queue(), record_handler, dedup_key, **options)

        def handler(event: Any, context: Any) -> Response:
            return batch.run(event, context, visibility)

        # Not functools.wraps: that would say that the handler takes what record_handler takes.
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(handler, name, getattr(record_handler, name, getattr(handler, name)))
        return handler

    return decorate


def _visibility(wanted: RetryVisibility | None) -> Visibility | None:
    if wanted is None:
        return None
    from .visibility import Visibility

    return Visibility(wanted)


class _Batch:
    """How batches of one kind are done."""

    def __init__(
        self,
        source: Queue | Stream,
        record_handler: RecordHandler,
        dedup_key: Key | None,
        *,
        lock_key: Key | None = None,
        max_workers: int = 1,
        window: float = DAY,
        scope: str | None = None,
        result: Literal["json"] | None = None,
        wait: float | None = 0,
        reserve: float | None = None,
        lease_duration: float | None = None,
        refresh_period: float | None = None,
        client: LockClient | None = None,
    ) -> None:
        if isinstance(record_handler, type) or not callable(record_handler):
            raise TypeError(f"record_handler must be a function of one record, got {record_handler!r}")
        check_function(record_handler, "sqs_batch")
        if is_async(record_handler):
            raise TypeError(
                "record_handler must be a plain function, got an async def function, which would never be awaited: "
                "write def instead of async def"
            )
        if not Parameters.of(record_handler, follow_wrapped=False).take(1):
            name = name_of(record_handler)
            raise TypeError(
                f"record_handler is called with one record and nothing else, but {name}() cannot be called like that. "
                f"Write it as {name}(record). The function that Lambda calls with event and context is another one: "
                "it calls process_sqs, or @sqs_batch makes it"
            )
        self.source = source
        self.max_workers = checks.whole("max_workers", max_workers, least=1)
        # Records that have one of these in common run one after another.
        self.in_common: list[KeyBuilder] = [
            compile_key(record_handler, key, None) for key in (dedup_key, lock_key) if key is not None
        ]
        common: dict[str, Any] = {
            "client": client,
            "wait": wait,
            "reserve": reserve,
            "lease_duration": lease_duration,
            "refresh_period": refresh_period,
        }
        handler: Callable[[Record], object] = record_handler
        if lock_key is not None:
            handler = with_lock(lock_key, **common)(handler)
        if dedup_key is not None:  # outermost: a duplicate needs no lock
            handler = deduplicate(dedup_key, window=window, scope=scope, result=result, **common)(handler)
        self.handler = handler

    def run(self, event: object, context: object, visibility: Visibility | None) -> Response:
        records = records_of(event, self.source)
        found = invocation.find((), {}, context)
        token = invocation.enter(found)
        try:
            run = _Run(self, records, found)
            if self.max_workers == 1:
                run.chain(range(len(records)))
            else:
                run.side_by_side(self.chains(records))
        finally:
            invocation.leave(token)
        run.tell()
        returned = self.source.returned(run.failed)
        if visibility is not None and returned:
            visibility.change([(records[index], run.errors.get(index)) for index in returned])
        return {"batchItemFailures": [{"itemIdentifier": self.source.identifier(records[index])} for index in returned]}

    def chains(self, records: list[Record]) -> list[list[int]]:
        """The indices of records that must run one after another, for each such set, all in their order."""
        before = list(range(len(records)))  # for each record an earlier one of its chain, or itself
        first: dict[object, int] = {}  # with this name

        def head(index: int) -> int:
            while before[index] != index:
                index = before[index]
            return index

        for index, record in enumerate(records):
            for name in self.names(record):
                one, other = head(index), head(first.setdefault(name, index))
                before[max(one, other)] = min(one, other)
        chains: dict[int, list[int]] = {}
        for index in range(len(records)):
            chains.setdefault(head(index), []).append(index)
        return list(chains.values())

    def names(self, record: Record) -> list[object]:
        """What a record may have in common with others."""
        names: list[object] = []
        group = self.source.group(record)
        if group is not None:
            names.append(("group", group))
        for number, build_key in enumerate(self.in_common):
            try:
                names.append((number, build_key((record,), {})))
            except Exception:  # noqa: BLE001, S112 - raised again, and reported, when this record's turn comes
                continue
        return names


class _Run:
    """One batch under way. ``failed``: what comes back; ``errors``: why, by index, where it is an error and not the
    time."""

    def __init__(self, batch: _Batch, records: list[Record], found: Invocation | None) -> None:
        self.batch = batch
        self.records = records
        self.invocation = found
        self.failed = Failed()
        self.errors: dict[int, Exception] = {}
        self.longest = 0.0
        self._changing = threading.Lock()

    def side_by_side(self, chains: list[list[int]]) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.batch.max_workers, thread_name_prefix="lambda_lock-batch") as pool:
            # A copy of the context for each: the application's ContextVars reach its threads.
            for running in [pool.submit(copy_context().run, self.chain, chain) for chain in chains]:
                running.result()

    def chain(self, indices: Iterable[int]) -> None:
        """Run records one after another."""
        for index in indices:
            group = self.batch.source.group(self.records[index])
            if self.may_start(index, group):
                self.attempt(index, group)
            else:
                self.fail(index, group, None)

    def may_start(self, index: int, group: str | None) -> bool:
        with self._changing:
            if self.batch.source.is_cut_off(index, group, self.failed):
                return False
            needed = max(_LEAST_LEFT, _HEADROOM * self.longest)
        deadline = None if self.invocation is None else self.invocation.deadline
        return deadline is None or deadline - elapsed() >= needed  # also once it has passed: remaining() is None then

    def attempt(self, index: int, group: str | None) -> None:
        started = elapsed()
        try:
            result = self.batch.handler(self.records[index])
            check_result(result, self.batch.handler, "sqs_batch")
        except Exception as error:  # noqa: BLE001 - whatever it is, this record comes back, and the others go on
            self.fail(index, group, error)
        with self._changing:
            self.longest = max(self.longest, elapsed() - started)

    def fail(self, index: int, group: str | None, error: Exception | None) -> None:
        with self._changing:
            self.failed.add(index, group)
            if error is not None:
                self.errors[index] = error
        if error is None or isinstance(error, LockNotGrantedError):
            return  # contention: the client has said so
        identifier = self.batch.source.identifier(self.records[index])
        message = "record %s failed and comes back: %s"
        tell(logger, "record_failed", message, identifier, error, cause=error, record=identifier)

    def tell(self) -> None:
        returned = len(self.failed.indices)
        if not returned:
            return
        contended = sum(isinstance(error, LockNotGrantedError) for error in self.errors.values())
        tell(
            logger,
            "records_returned",
            "%d of %d records come back: %d contended, %d failed, %d not started",
            returned,
            len(self.records),
            contended,
            len(self.errors) - contended,
            returned - len(self.errors),
        )
