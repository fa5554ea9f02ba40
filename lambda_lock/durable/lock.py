"""The block of a durable lock, and what runs in it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from enum import Enum
from types import TracebackType
from typing import Any, Required, Self, TypedDict, TypeVar, Unpack, overload

from aws_durable_execution_sdk_python import exceptions
from aws_durable_execution_sdk_python.config import Duration, StepConfig
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.retries import RetryDecision, RetryPresets
from aws_durable_execution_sdk_python.types import StepContext

from ..client import checks
from ..client.lock_client import LockClient
from ..client.options import LOCK, checked
from ..decorators.guard import default_client
from ..errors import LockAlreadyReleasedError, LockArgumentError, LockConfigurationError, LockError, LockLostError
from ..runtime import invocation
from .acquiring import LATE, Polling, acquire, label
from .holds import DurableHold, HoldLostError, Holds

T = TypeVar("T")
_LOST = f"{HoldLostError.__module__}.{HoldLostError.__qualname__}"  # as the SDK writes the type of an error
_RELEASE_TRIES = 9  # within 9 minutes; after them the lock is left to its lease
#: The blocks that this thread is in, the outermost first.
_entered: ContextVar[tuple[Block, ...]] = ContextVar("entered")


class Options(TypedDict, total=False):
    """What `durable_lock` takes besides the context and the key."""

    lease_duration: Required[float]
    wait: float | None
    poll: float
    client: LockClient | None


class PermitOptions(Options, total=False):
    """What `durable_lock` takes for a single key."""

    permits: int | None
    take: int | None
    shared: bool | None


@overload
def durable_lock(context: DurableContext, key: str, **options: Unpack[PermitOptions]) -> DurableLock: ...
@overload
def durable_lock(
    context: DurableContext, key: list[str] | tuple[str, ...], **options: Unpack[Options]
) -> DurableMultiLock: ...
def durable_lock(
    context: DurableContext,
    key: str | list[str] | tuple[str, ...],
    *,
    lease_duration: float,
    wait: float | None = None,
    poll: float = 60,
    permits: int | None = None,
    take: int | None = None,
    shared: bool | None = None,
    client: LockClient | None = None,
) -> DurableLock | DurableMultiLock:
    """Hold the lock ``key`` in a ``with`` block of a durable function, over suspensions, replays and killed attempts.

    context: the DurableContext of the handler, of a child context or of a branch.
    key: 1 to 2,048 bytes of UTF-8. The same in every replay. A list or tuple of 1 to 50 different keys, in any order:
        all of them are held, or none. They are taken in one order, so that no two executions wait for each other.
    lease_duration: seconds, 1 or more. It must outlast the longest suspension within the block, with retries, callbacks
        and pauses of the execution. If a function is killed for good, others wait that long.
    wait: seconds to wait for the lock, or for all, 0 or more. 0: try each once. None and inf: until the execution times
        out. While it waits, the execution is suspended.
    poll: seconds between two tries, 1 or more. After a hundred times as many seconds, pauses become a hundredth of the
        time waited, at most a day. While other locks are held, by the same block or by those around it, a pause is at
        least 5 s shorter than their leases, but never under 1 s, and each try renews them. Where the table has a waker,
        the execution sleeps instead, until it is called or a time-out of an hour to a day is over.
    permits: hold a permit of the semaphore ``key``, of which this many are held at once: 1 to 100. Pass the same
        everywhere. Each block has a permit of its own. Of a single key only. None: a lock.
    take: how many of the permits the block takes, 1 to ``permits``. None: one. `LockClient.acquire` says more.
    shared: True: hold the key beside other readers. False: alone, as the writer. None: neither. Not together with
        permits or take.
    client: the LockClient. None: default_client(), which reads LAMBDA_LOCK_TABLE.

    Returns the DurableLock, for several keys the DurableMultiLock. It acquires when its block is entered, in one
    operation and one more for each key, and releases in another, however often it is tried and the block replayed. Each
    sleep is three operations.

    - Left by return or error: released, in a step. If that gets no answer within 9 minutes, it is logged, and the lock
      is left to its lease.
    - Left by suspension: renewed to the full lease. No operation is made.
    - Left by an error that fails the execution for good, or in a branch that its ``parallel`` no longer waits for:
      released, without an operation.

    Raises TypeError and LockArgumentError for bad input. Entering raises LockNotGrantedError if ``wait=0`` finds the
    lock held, LockTimeoutError if the wait ran out, TransportError if it ran out in an outage, LockConfigurationError
    if a block around this one has the lock, and otherwise what LockClient.acquire raises. What was taken of several
    keys is then released.

    Example::

        with durable_lock(context, f"order#{event['order']}", lease_duration=3 * 3600) as lock:
            lock.step(lambda _: charge(event["order"], lock.fencing_token))
            lock.wait(Duration.from_hours(2))
            lock.step(lambda _: ship(event["order"], lock.fencing_token))
    """
    if not issubclass(type(context), DurableContext):  # isinstance is true of a mock with this spec
        raise TypeError(
            f"context must be the DurableContext of a durable function, not {type(context).__name__}. In a function "
            "without one, and inside a step, use @with_lock or client.acquire"
        )
    if client is not None and not isinstance(client, LockClient):
        raise TypeError(f"client= must be a LockClient, not {type(client).__name__}")
    several = isinstance(key, (list, tuple))
    keys = checks.several_keys(key) if several else [checks.lock_key("key", key)]
    lease_duration = checks.lease_duration(lease_duration)
    checks.optional_seconds("wait", wait, endless=True)
    poll = checks.seconds("poll", poll, least=1.0)
    weight = {"permits": permits, "take": take, "shared": shared}
    for name, value in weight.items():
        if several and value is not None:
            raise TypeError(f"{name}={value} is for a single key: each lock of a list has one holder")
    weight = checked(LOCK, weight, "durable_lock")
    client = client or default_client()
    holds = Holds([DurableHold(client, each, lease_duration, weight["permits"], weight["take"]) for each in keys])
    return (DurableMultiLock if several else DurableLock)(context, holds, wait, poll)


class Block:
    """What the block of one key and that of several have in common."""

    def __init__(self, context: DurableContext, holds: Holds, wait: float | None, poll: float) -> None:
        self._context = context
        self._holds = holds
        self._wait = wait
        self._poll = poll
        self._state = "not entered"
        self._around: tuple[Block, ...] = ()

    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> T:
        """Run a function in a step while the lock is held. One operation.

        func: called with the StepContext. Decorators and clients in it find the invocation's deadline.
        name: as for ``context.step``. None: the function's, if the SDK gave it one.
        config: as for ``context.step``. Its retry strategy also decides about an outage in which the lock could not be
            verified.

        Each lock is verified before ``func`` runs, by one or two requests in the first step of an invocation and by the
        clocks after that. Long steps are renewed in the background. It belongs to the context that durable_lock was
        given: in a branch, use the branch's own steps, which begin with `raise_if_lost`.

        Returns what ``func`` returned, on a replay from the checkpoint.

        Raises LockLostError if the lock is lost. It is not retried. Raises TypeError for another func or config,
        LockAlreadyReleasedError outside of the block, and otherwise what ``context.step`` raises.

        Example: ``lock.step(lambda _: charge(order), name="charge")``
        """
        self._check("entered")
        if not callable(func):
            raise TypeError(f"func must be a function that takes the StepContext, not {func!r} ({type(func).__name__})")
        if config is None:
            config = StepConfig()
        elif not isinstance(config, StepConfig):
            raise TypeError(f"config must be a StepConfig of the SDK, not {config!r} ({type(config).__name__})")

        @functools.wraps(func)
        def verified(step: StepContext) -> T:
            self._holds.verified()
            token = invocation.enter(invocation.find((self._context.lambda_context,), {}))
            try:
                return func(step)
            finally:
                invocation.leave(token)

        decide = config.retry_strategy or RetryPresets.default()

        def unless_lost(error: Exception, attempts: int) -> RetryDecision:
            return RetryDecision.no_retry() if isinstance(error, HoldLostError) else decide(error, attempts)

        config = replace(config, retry_strategy=unless_lost)
        try:
            result: T = self._context.step(verified, name=name, config=config)
        except exceptions.StepError as error:
            if error.error_type != _LOST:
                raise
            raise LockLostError(error.message or "", key=self._key) from error
        return result

    def wait(self, duration: Duration, name: str | None = None) -> None:
        """Suspend the execution for a time that the lease covers. One operation.

        duration: the SDK's Duration, at least 1 s, and at least 5 s below the lease, and below those of the other
            blocks that the execution is in, around this one or within it.
        name: as for ``context.wait``.

        The leases of this block, and of the others in the same context, are renewed to their full length before
        the suspension. If that fails in an outage and the rest of a lease does not cover the wait, the invocation
        fails, and the service runs it again. If a lock is lost, its next `step` says so.

        Raises LockArgumentError for a wait that is too long, TypeError for another type, and LockAlreadyReleasedError
        outside of the block.

        Example: ``lock.wait(Duration.from_hours(2))``
        """
        self._check("entered")
        if not isinstance(duration, Duration):
            raise TypeError(f"duration must be a Duration of the SDK, not {duration!r} ({type(duration).__name__})")
        needed = duration.to_seconds() + LATE
        suspended = dict.fromkeys((*_entered.get(()), self))
        for block in suspended:
            if needed > block._holds.lease_duration:
                raise LockArgumentError(
                    f"wait({needed - LATE:g} s) is longer than the lease of {block._name} covers, which is "
                    f"{block._holds.lease_duration:g} s: pass its durable_lock lease_duration={needed:g} or more",
                    key=block._key,
                )
        if not self._context.is_replaying():
            for block in suspended:
                # The threads of other contexts may be at work under a lock, which then needs its attempt.
                if block._context is self._context:
                    try:
                        block._holds.renew_for(needed)
                    except LockError as error:
                        raise exceptions.InvocationError(
                            f"{block._name} was not renewed before a wait: {error}"
                        ) from error
        self._context.wait(duration, name=name)

    def raise_if_lost(self) -> None:
        """Raise LockLostError if the lock is not held now. Inside a step, in any context of this execution.

        The first call in an invocation costs one or two requests. Outside of steps it is repeated on each replay, and
        an error that it raised once is not remembered.

        Raises LockLostError, also after the block, and what LockClient.resume raises.

        Example: ``branch.step(lambda _: (lock.raise_if_lost(), send(letter)))``
        """
        self._holds.verified()

    def __enter__(self) -> Self:
        self._check("not entered")
        self._around = _entered.get(())
        around = [hold for block in self._around for hold in block._holds.all]
        for hold in self._holds.all:
            same = [other for other in around if (other.client, other.key) == (hold.client, hold.key)]
            taken = sum(other.take or 1 for other in same)
            if taken + (hold.take or 1) > (hold.permits or 1):
                what = "the lock" if hold.permits is None else f"{taken} of the {hold.permits} permits of"
                raise LockConfigurationError(
                    f"this execution has {what} {hold.key!r} already, in a block around this one, and would wait "
                    "for itself: give the inner block another key",
                    key=hold.key,
                )
            if (hold.take or 1) > 1 and same and same[0].take is None:  # rule 10 of core/permits.py
                raise LockConfigurationError(
                    f"take={hold.take} would wait for this very execution, which has a permit of {hold.key!r} without "
                    "take= in a block around this one: pass take=1 there",
                    key=hold.key,
                )
        self._state = "entered"
        _entered.set((*self._around, self))
        held: tuple[Block, ...] = self._around if len(self._holds.all) == 1 else (*self._around, self)
        shortest = min((block._holds.lease_duration for block in held), default=math.inf)
        try:
            acquire(self._context, self._holds, Polling(self._wait, self._poll, shortest))
        except BaseException as error:
            # A lock that was taken but not checkpointed is not released: this holder's next attempt goes on with it.
            self._leave(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(map(repr, self._holds.keys))} {self._state}>"

    def _leave(self, error: BaseException | None) -> None:
        self._state = "left"
        _entered.set(self._around)
        holds, ending = self._holds, block_end(error)
        if ending is BlockEnd.SUSPENDED:
            holds.suspend()
            return
        if ending is BlockEnd.CUT_OFF:
            self._release_now()
            return
        if not holds.tokens:
            return
        config = StepConfig(retry_strategy=_release_again)
        try:  # in a step, so that replays do not release. Errors of the release are logged
            self._context.step(lambda _: holds.release(), name=label("release", holds.keys), config=config)
        except exceptions.StepError as failed:
            holds.leave()
            holds.leave_to_lease(LockError(failed.message or ""))
        except BaseException as failed:
            if block_end(failed) is BlockEnd.CUT_OFF:
                self._release_now()
            else:
                holds.leave()  # until the step is tried again: no renewals meanwhile
            raise

    def _release_now(self) -> None:
        """Release without a step, because no operation can be made any more. Errors are logged."""
        try:
            self._holds.release()
        except LockError as error:
            self._holds.leave_to_lease(error)

    @property
    def _name(self) -> str:
        return label("durable", self._holds.keys)

    @property
    def _key(self) -> str | None:
        """The key, for an error. None if there are several."""
        keys = self._holds.keys
        return keys[0] if len(keys) == 1 else None

    def _check(self, state: str) -> None:
        if self._state != state:
            raise self._outside()

    def _outside(self) -> LockAlreadyReleasedError:
        return LockAlreadyReleasedError(
            f"{self._name} was {self._state}: use it within its block, `with durable_lock(...) as lock:`, and call "
            "durable_lock again for another block",
            key=self._key,
        )


class DurableLock(Block):
    """A lock in the block of `durable_lock`. Use it within the block only."""

    @property
    def key(self) -> str:
        """The lock's key."""
        return self._holds.keys[0]

    @property
    def fencing_token(self) -> int:
        """Rises with every grant of this key. The same in every replay and attempt of this block.

        Pass it to stores that must refuse late writers. It does not tell the attempts of this execution apart:
        `transact_item` does. Raises LockAlreadyReleasedError before the block is entered.
        """
        for token in self._holds.tokens.values():
            return token
        raise self._outside()

    def transact_item(self) -> dict[str, Any]:
        """Return an Update for a transaction of your own, which then succeeds only while this attempt holds the lock.

        Inside a step. An earlier attempt of this execution is refused as well, should it still run.

        Raises what `raise_if_lost` raises.

        Example: ``boto3_client.transact_write_items(TransactItems=[lock.transact_item(), put])``
        """
        return self._holds.verified()[0].transact_item()


class DurableMultiLock(Block):
    """The locks in the block of `durable_lock` with several keys. Use it within the block only.

    `step` and `raise_if_lost` verify each lock, `wait` renews each. The LockLostError of a step names the key in its
    message only.

    Example::

        with durable_lock(context, ["account#7", "account#3"], lease_duration=3600) as locks:
            locks.step(lambda _: transfer(locks.fencing_tokens))
    """

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, each one once, in the order in which the locks are taken: by their bytes in UTF-8."""
        return self._holds.keys

    @property
    def fencing_tokens(self) -> dict[str, int]:
        """The fencing token of each lock, by key. See `DurableLock.fencing_token`.

        Raises LockAlreadyReleasedError before the block is entered.
        """
        tokens = self._holds.tokens
        if len(tokens) < len(self._holds.all):
            raise self._outside()
        return tokens

    def transact_items(self) -> list[dict[str, Any]]:
        """Return an Update for each lock: a transaction that has them all succeeds only while this attempt holds all.

        Inside a step, as `DurableLock.transact_item`. Raises what `raise_if_lost` raises.

        Example: ``boto3_client.transact_write_items(TransactItems=[*locks.transact_items(), put])``
        """
        return [attempt.transact_item() for attempt in self._holds.verified()]


class BlockEnd(Enum):
    """How a block is left, and what becomes of its lock."""

    FINISHED = "the execution goes on behind the block: released in a step"
    SUSPENDED = "the block is entered again in another invocation: renewed, no operation"
    CUT_OFF = "the execution has failed for good, or the branch is an orphan: released, no operation"


def block_end(error: BaseException | None) -> BlockEnd:
    """Return how a block ended. error: what left it. None: it ended by its end, return, break or continue.

    The types are those of the SDK's ``execution.py``: what it answers PENDING or FAILED to, and what it lets Lambda
    retry.
    """
    if isinstance(error, exceptions.BackgroundThreadError):
        error = error.source_exception
        if not isinstance(error, exceptions.InvocationError):
            return BlockEnd.SUSPENDED  # raised in the handler, so Lambda runs the invocation again
    if isinstance(error, (exceptions.OrphanedChildException, exceptions.ExecutionError)):
        return BlockEnd.CUT_OFF
    if isinstance(error, exceptions.InvocationError):
        return BlockEnd.SUSPENDED if error.is_retryable() else BlockEnd.CUT_OFF
    if error is None or isinstance(error, Exception):
        return BlockEnd.FINISHED
    return BlockEnd.SUSPENDED  # SuspendExecution, and what ends the process


def _release_again(error: Exception, attempts: int) -> RetryDecision:
    if attempts >= _RELEASE_TRIES or not isinstance(error, LockError):
        return RetryDecision.no_retry()
    return RetryDecision.retry(Duration(2**attempts))
