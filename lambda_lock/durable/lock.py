"""The block of a durable lock, and what runs in it."""

from __future__ import annotations

import functools
from dataclasses import replace

from aws_durable_execution_sdk_python.config import Duration, StepConfig
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.exceptions import InvocationError, StepError
from aws_durable_execution_sdk_python.retries import RetryDecision, RetryPresets

from ..client import checks
from ..client.lock_client import LockClient
from ..decorators.environment import default_client
from ..errors import LockAlreadyReleasedError, LockArgumentError, LockError, LockLostError
from ..observe.log import logger, tell, tell_not_released
from ..runtime import invocation
from .acquiring import Polling, acquire, label
from .ending import Ending, ending_of
from .hold import DurableHold, HoldLostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self, TypeVar

    from aws_durable_execution_sdk_python.types import StepContext

    T = TypeVar("T")
    Retries = Callable[[Exception, int], RetryDecision]

_LATE = 5.0  # seconds by which a suspended execution may go on too late; its lease must cover them
_LOST = f"{HoldLostError.__module__}.{HoldLostError.__qualname__}"  # as the SDK writes the type of an error
_RELEASE_TRIES = 9  # within 9 minutes; after them the lock is left to its lease


def durable_lock(
    context: DurableContext,
    key: str,
    *,
    lease_duration: float,
    wait: float | None = None,
    poll: float = 60,
    client: LockClient | None = None,
) -> DurableLock:
    """Hold the lock ``key`` in a ``with`` block of a durable function, over suspensions, replays and killed attempts.

    context: the DurableContext of the handler, of a child context or of a branch.
    key: 1 to 2,048 bytes of UTF-8. The same in every replay.
    lease_duration: seconds, 1 or more. It must outlast the longest suspension within the block, with retries, callbacks
        and pauses of the execution. If a function is killed for good, others wait that long.
    wait: seconds to wait for the lock, 0 or more. 0: try once. None and inf: until the execution times out. While it
        waits, the execution is suspended.
    poll: seconds between two tries, 1 or more. After ten times as many seconds, pauses become a tenth of the time
        waited, at most a day.
    client: the LockClient. None: default_client(), which reads LAMBDA_LOCK_TABLE.

    Returns the DurableLock, which acquires when its block is entered. It does so in two operations, and releases in a
    third, however often it is tried and the block replayed.

    - Left by return or error: released, in a step. If that gets no answer within 9 minutes, it is logged, and the lock
      is left to its lease.
    - Left by suspension: renewed to the full lease. No operation is made.
    - Left by an error that fails the execution for good, or in a branch that its ``parallel`` no longer waits for:
      released, without an operation.

    Raises TypeError and LockArgumentError for bad input. Entering raises LockNotGrantedError if ``wait=0`` finds the
    lock held, LockTimeoutError if the wait ran out, TransportError if it ran out in an outage, and otherwise what
    LockClient.acquire raises.

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
    checks.key_text("key", key)
    checks.lease_duration(lease_duration)
    checks.optional_seconds("wait", wait, endless=True)
    polling = Polling(wait, checks.seconds("poll", poll, least=1.0))
    return DurableLock(context, DurableHold(client or default_client(), key, float(lease_duration)), polling)


class DurableLock:
    """A lock in the block of `durable_lock`. Use it within the block only."""

    def __init__(self, context: DurableContext, hold: DurableHold, polling: Polling) -> None:
        self._context = context
        self._hold = hold
        self._polling = polling
        self._state = "not entered"

    @property
    def key(self) -> str:
        """The lock's key."""
        return self._hold.key

    @property
    def fencing_token(self) -> int:
        """Rises with every grant of this key. The same in every replay and attempt of this block.

        Pass it to stores that must refuse late writers. It does not tell the attempts of this execution apart:
        `transact_item` does. Raises LockAlreadyReleasedError before the block is entered.
        """
        if self._hold.token < 0:
            raise self._outside()
        return self._hold.token

    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> T:
        """Run a function in a step while the lock is held. One operation.

        func: called with the StepContext. Decorators and clients in it find the invocation's deadline.
        name: as for ``context.step``. None: the function's, if the SDK gave it one.
        config: as for ``context.step``. Its retry strategy also decides about an outage in which the lock could not be
            verified.

        The lock is verified before ``func`` runs, by one or two requests in the first step of an invocation and by the
        clocks after that. Long steps are renewed in the background. It belongs to the context that durable_lock was
        given: in a branch, use the branch's own steps, which begin with `raise_if_lost`.

        Returns what ``func`` returned, on a replay from the checkpoint.

        Raises LockLostError if the lock is lost. It is not retried. Raises TypeError for another func or config,
        LockAlreadyReleasedError outside of the block, and otherwise what ``context.step`` raises.

        Example: ``lock.step(lambda _: charge(order), name="charge")``
        """
        self._check_inside()
        if not callable(func):
            raise TypeError(f"func must be a function that takes the StepContext, not {func!r} ({type(func).__name__})")
        if config is None:
            config = StepConfig()
        elif not isinstance(config, StepConfig):
            raise TypeError(f"config must be a StepConfig of the SDK, not {config!r} ({type(config).__name__})")

        @functools.wraps(func)
        def verified(step: StepContext) -> T:
            self._hold.verified()
            token = invocation.enter(invocation.find((self._context.lambda_context,), {}))
            try:
                return func(step)
            finally:
                invocation.leave(token)

        config = replace(config, retry_strategy=_not_once_lost(config.retry_strategy or RetryPresets.default()))
        try:
            result: T = self._context.step(verified, name=name, config=config)
        except StepError as error:
            if error.error_type != _LOST:
                raise
            raise LockLostError(error.message or "", key=self.key) from error
        return result

    def wait(self, duration: Duration, name: str | None = None) -> None:
        """Suspend the execution for a time that the lease covers. One operation.

        duration: the SDK's Duration, at least 1 s, and at least 5 s below the lease.
        name: as for ``context.wait``.

        The lease is renewed to its full length before the suspension. If that fails in an outage and the rest of the
        lease does not cover the wait, the invocation fails, and the service runs it again. If the lock is lost, the
        next `step` says so.

        Raises LockArgumentError for a wait that is too long, TypeError for another type, and LockAlreadyReleasedError
        outside of the block.

        Example: ``lock.wait(Duration.from_hours(2))``
        """
        self._check_inside()
        if not isinstance(duration, Duration):
            raise TypeError(f"duration must be a Duration of the SDK, not {duration!r} ({type(duration).__name__})")
        needed = duration.to_seconds() + _LATE
        if needed > self._hold.lease_duration:
            raise LockArgumentError(
                f"wait({duration.to_seconds()} s) is longer than the lease of lock {self.key!r} covers, which is "
                f"{self._hold.lease_duration:g} s: pass durable_lock lease_duration={needed:g} or more",
                key=self.key,
            )
        if not self._context.is_replaying():
            self._renew_for(needed)
        self._context.wait(duration, name=name)

    def raise_if_lost(self) -> None:
        """Raise LockLostError if the lock is not held now. Inside a step, in any context of this execution.

        The first call in an invocation costs one or two requests. Outside of steps it is repeated on each replay, and
        an error that it raised once is not remembered.

        Raises LockLostError, also after the block, and what LockClient.resume raises.

        Example: ``branch.step(lambda _: (lock.raise_if_lost(), send(letter)))``
        """
        self._hold.verified()

    def transact_item(self) -> dict[str, Any]:
        """Return an Update for a transaction of your own, which then succeeds only while this attempt holds the lock.

        Inside a step. An earlier attempt of this execution is refused as well, should it still run.

        Raises what `raise_if_lost` raises.

        Example: ``boto3_client.transact_write_items(TransactItems=[lock.transact_item(), put])``
        """
        return self._hold.verified().transact_item()

    def __enter__(self) -> Self:
        if self._state != "not entered":
            raise self._outside()
        self._state = "entered"
        try:
            acquire(self._context, self._hold, self._polling)
        except BaseException as error:
            self._state = "left"
            # If it was taken and not checkpointed, the next attempt of this holder goes on with it.
            self._end(ending_of(error), suspended=self._hold.leave)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state = "left"
        self._end(ending_of(error), suspended=self._suspend)

    def __repr__(self) -> str:
        return f"<DurableLock {self.key!r} {self._state}>"

    def _end(self, ending: Ending, *, suspended: Callable[[], None]) -> None:
        if ending is Ending.SUSPENDED:
            suspended()
        elif ending is Ending.CUT_OFF:
            self._release_now()
        elif self._hold.token >= 0:
            self._release_in_step()

    def _suspend(self) -> None:
        try:
            self._hold.renew_and_end()
        except LockError as error:
            self._tell_not_renewed(error)
        finally:
            self._hold.leave()

    def _renew_for(self, needed: float) -> None:
        left = self._hold.remaining()
        try:
            self._hold.renew_and_end()
        except LockLostError as error:
            self._tell_not_renewed(error)  # an error here would not be checkpointed, and no replay would see it
        except LockError as error:
            if left < needed:
                raise InvocationError(f"lock {self.key!r} was not renewed before a wait: {error}") from error
            self._tell_not_renewed(error)

    def _release_in_step(self) -> None:
        """Release, so that replays do not. Errors of the release are logged."""
        config = StepConfig(retry_strategy=_release_again)
        try:
            self._context.step(lambda _: self._hold.release(), name=label("release", self.key), config=config)
        except StepError as error:
            self._hold.leave()
            tell_not_released(logger, LockError(error.message or ""), key=self.key, owner=self._hold.owner)
        except BaseException as error:
            if ending_of(error) is Ending.CUT_OFF:
                self._release_now()
            else:
                self._hold.leave()  # until the next try; nobody needs a renewal
            raise

    def _release_now(self) -> None:
        """Release, where no operation can be made any more."""
        if self._hold.token < 0:
            return
        try:
            self._hold.release()
        except LockError as error:
            tell_not_released(logger, error, key=self.key, owner=self._hold.owner)

    def _tell_not_renewed(self, error: LockError) -> None:
        event = "lost" if isinstance(error, LockLostError) else "renewal_failed"
        message = "lock %r was not renewed for the suspension of its execution: %s"
        tell(logger, event, message, self.key, error, key=self.key, owner=self._hold.owner)

    def _check_inside(self) -> None:
        if self._state != "entered":
            raise self._outside()

    def _outside(self) -> LockAlreadyReleasedError:
        return LockAlreadyReleasedError(
            f"durable lock {self.key!r} was {self._state}: use it within its block, `with durable_lock(...) as lock:`, "
            "and call durable_lock again for another block",
            key=self.key,
        )


def _not_once_lost(decide: Retries) -> Retries:
    """The retry strategy of a step, which does not retry a lost lock: it stays lost."""

    def strategy(error: Exception, attempts: int) -> RetryDecision:
        if isinstance(error, HoldLostError):
            return RetryDecision.no_retry()
        return decide(error, attempts)

    return strategy


def _release_again(error: Exception, attempts: int) -> RetryDecision:
    if attempts >= _RELEASE_TRIES or not isinstance(error, LockError):
        return RetryDecision.no_retry()
    return RetryDecision.retry(Duration(2**attempts))
