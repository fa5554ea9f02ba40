"""The client for asyncio: the same locks, awaited.

Requests are sent on a few threads of the client's own (threads.py): the loop goes on, and nothing that others do on its
default executor holds up a lock. What ends or renews a lock has threads apart, so that it never waits for acquires and
reads. Renewals in the background come from the client's own threads for them (heartbeat.py). Nothing here is bound to a
loop: a client may serve one after the other.

A task that is cancelled while a request is under way settles that request first (at most one time-out): what it may
have taken is released before the CancelledError goes on.
"""

from __future__ import annotations

import asyncio
import functools

from .base_client import init_named
from .client import LockClient
from .core import protocol
from .core.protocol import Event, Send
from .drive import send
from .errors import DuplicateEventError, LockAlreadyReleasedError, LockError, LockNotGrantedError, TransportError
from .lock import Lock
from .signalsafe import Ticket
from .threads import LIMIT, Busy, Threads
from .timeline import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self, TypeVar, Unpack

    from .base_client import AcquireOptions, AdoptOptions, ClientSettings, Order
    from .client import Granted, Taking
    from .core.lease import Look
    from .core.outcome import Outcome, Reply
    from .core.protocol import Steps, Wait
    from .core.requests import Place, Request
    from .record import LockRecord
    from .timeline import Timeline
    from .transport import Transport

    T = TypeVar("T")

_init = init_named("AsyncLockClient")
_LOOK = 0.25  # seconds between two looks at what other threads do: a close, a loss
_PAUSE = 0.01  # seconds, where it will not take long
_GIVING_BACK = protocol.DECISION  # seconds: if no thread is free for so long, what may be held is left to its lease


async def drive(
    steps: Steps[T],
    transport: Transport,
    timeline: Timeline,
    sleep: Callable[[float], Awaitable[None]],
    asking: Threads,
    giving_back: Threads,
) -> T:
    """drive.drive for asyncio. Requests are sent on the threads ``asking``.

    What is raised meanwhile is thrown into the steps. What they still send then, to release what may have been taken,
    is sent on a thread of ``giving_back`` to its end: cancelling again does not keep anything from being released.
    """
    event: Any = None
    try:
        while True:  # inside the try: an interrupt may come up between any two steps of this loop
            step = steps.send(event)
            outcome = None
            if isinstance(step, Send):
                outcome = await _send(step, transport, asking)
            else:
                await sleep(step.seconds)
            event = Event(timeline.look(), outcome)
    except BaseException as error:
        if steps.gi_frame is None:  # type: ignore[attr-defined]  # they have ended with it
            if isinstance(error, StopIteration):  # else one of the application's, as of its cancel_check
                result: T = error.value
                return result
            raise
        step = steps.throw(error)
        try:
            return await giving_back.settle(_finish, steps, step, transport, timeline, patience=_GIVING_BACK)
        except Busy:
            steps.close()  # its lease ends it
            raise error from None


async def _send(step: Send, transport: Transport, threads: Threads) -> Outcome:
    try:
        return await threads.settle(send, step, transport, patience=step.timeout, needed=False)
    except Busy as error:
        return _unsent(step.timeout, error)


def _unsent(seconds: float, cause: Busy) -> TransportError:
    error = TransportError(
        False,
        f"nothing was sent: {LIMIT} requests were under way, and no thread was free for this one within {seconds:g} s. "
        "Check the connection, or begin fewer at a time",
    )
    error.__cause__ = cause
    return error


def _finish(steps: Steps[T], step: Send | Wait, transport: Transport, timeline: Timeline) -> T:
    """Drive the steps from ``step`` to their end, on this thread."""
    try:
        while True:
            outcome = None
            if isinstance(step, Send):
                outcome = send(step, transport)
            else:
                timeline.clock.sleep(step.seconds)
            step = steps.send(Event(timeline.look(), outcome))
    except StopIteration as end:
        result: T = end.value
        return result


def _asking(request: Request, client: LockClient) -> Callable[[Look], Steps[Reply]]:
    return lambda look: protocol.ask(request, client._memory, client._chance, look)


class AsyncLockClient:
    """`LockClient` for asyncio: the same settings and methods, awaited."""

    def __init__(self, table: str | None = None, **settings: Unpack[ClientSettings]) -> None:
        client = LockClient.__new__(LockClient)
        _init(client, table, **settings)
        self._over(client)

    @classmethod
    def over(cls, client: LockClient) -> Self:
        """An async client with the settings, connections and locks of ``client``."""
        made = cls.__new__(cls)
        made._over(client)
        return made

    def _over(self, client: LockClient) -> None:
        self._sync = client
        self._asking = Threads()  # acquires and reads
        self._ending = Threads()  # what ends or renews a lock, which bounds how long others wait for it

    async def _write_unguarded(self, items: Sequence[Mapping[str, Any]], key: str) -> None:
        await self._ending.settle(self._sync._write_unguarded, items, key)

    def _unguarded_item(self, key: str, sort_key: str | None) -> dict[str, Any]:
        return self._sync._unguarded_item(key, sort_key)

    async def acquire(self, key: str, *, wait: float | None = None, **options: Unpack[AcquireOptions]) -> AsyncLock:
        """`LockClient.acquire`. Cancelling the task ends the wait and leaves nothing held."""
        client = self._sync
        if options.pop("reentrant", False) and (held := client._held_by(key, options.get("sort_key"))) is not None:
            return AsyncLock(self, held._enter_again())
        order = client._order(key, wait=wait, **options)
        return await self._take(order, client._acquiring(order))

    async def _acquire_event(
        self, key: str, window: int, *, wait: float | None, **options: Unpack[AcquireOptions]
    ) -> AsyncLock:
        """`LockClient._acquire_event`."""
        client = self._sync
        if options.pop("reentrant", False) and (held := client._held_by(key, options.get("sort_key"))) is not None:
            return AsyncLock(self, held._enter_again(event=True))
        order = client._event_order(key, window, wait=wait, **options)
        return await self._take(order, client._acquiring(order))

    async def try_acquire(self, key: str, *, wait: float = 0, **options: Unpack[AcquireOptions]) -> AsyncLock | None:
        """`LockClient.try_acquire`."""
        try:
            return await self.acquire(key, wait=wait, **options)
        except LockNotGrantedError as error:
            if error.too_late:
                raise
            return None

    async def adopt(self, token: str, *, context: object = None, **options: Unpack[AdoptOptions]) -> AsyncLock:
        """`LockClient.adopt`."""
        from .core.handover import adopt

        client = self._sync
        order, number = client._adoption(token, context=context, **options)
        return await self._take(
            order, lambda look, keep: adopt(order.wish, number, client._memory, client._chance, look, keep=keep)
        )

    async def get(self, key: str, *, sort_key: str | None = None) -> LockRecord | None:
        """`LockClient.get`."""
        from .record import LockRecord

        client = self._sync
        place = client._place(key, sort_key)
        client._check_open()
        row, date = await self._run(lambda look: protocol.read(place, client._memory, client._chance, look), place)
        return None if row is None else LockRecord(row, place, date)

    async def list(self, *, key: str | None = None) -> AsyncIterator[LockRecord]:
        """`LockClient.list`, for ``async for``."""
        client = self._sync
        pages = client._pages(key)
        while (request := pages.request()) is not None:
            reply = await self._run(_asking(request, client), pages.place)
            for record in pages.take(reply):
                yield record

    async def prewarm(self) -> None:
        """`LockClient.prewarm`."""
        await self._asking.settle(self._sync.prewarm, needed=False)

    def held(self) -> tuple[AsyncLock, ...]:
        """`LockClient.held`; the handles are new ones of the same locks."""
        return tuple(AsyncLock(self, lock) for lock in self._sync.held())

    async def close(self, *, release: bool = True) -> None:
        """`LockClient.close`."""
        await self._ending.settle(functools.partial(self._sync.close, release=release))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def transport(self) -> Transport:
        """`LockClient.transport`."""
        return self._sync.transport

    async def _take(self, order: Order, steps: Taking) -> AsyncLock:
        client = self._sync

        async def sleep(seconds: float) -> None:
            await self._sleep(seconds)
            client._check_open()
            order.check_cancelled()

        granted: Granted = []
        try:
            hold = await self._run(lambda look: steps(look, client._keep_in(granted)), order.wish.place, sleep)
            return AsyncLock(self, client._register(Lock(client, hold, **order.handle), hold))
        except (DuplicateEventError, LockNotGrantedError) as error:
            client._tell_refused(error, order)
            raise
        except BaseException:
            if granted:
                await self._ending.settle(client._give_back_all, granted)
            raise

    async def _run(
        self,
        steps: Callable[[Look], Steps[T]],
        place: Place,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        threads: Threads | None = None,
    ) -> T:
        client, threads = self._sync, threads or self._asking
        timeline = client._timeline
        if client._given_transport is None and client._chosen is None:
            await threads.run(getattr, client, "transport")  # may import boto3, which takes its time
        with client._explained(place):
            return await drive(
                steps(timeline.look()), client.transport, timeline, sleep or self._sleep, threads, self._ending
            )

    async def _sleep(self, seconds: float) -> None:
        """Sleep; a close() on whatever thread or loop ends it within _LOOK."""
        client = self._sync
        if client._timeline is not SYSTEM:
            await self._asking.run(client._timeline.clock.sleep, seconds)
            return
        now = asyncio.get_running_loop().time
        end = now() + seconds
        while (left := end - now()) > 0:
            await asyncio.sleep(min(left, _LOOK))
            if client._closed.is_set:
                return


class AsyncLock:
    """`Lock` for asyncio: what asks DynamoDB is awaited, all else is as there. An async context manager."""

    def __init__(self, client: AsyncLockClient, lock: Lock) -> None:
        self._client = client
        self._lock = lock

    @property
    def key(self) -> str:
        """`Lock.key`."""
        return self._lock.key

    @property
    def sort_key(self) -> str | None:
        """`Lock.sort_key`."""
        return self._lock.sort_key

    @property
    def owner(self) -> str:
        """`Lock.owner`."""
        return self._lock.owner

    @property
    def fencing_token(self) -> int:
        """`Lock.fencing_token`."""
        return self._lock.fencing_token

    @property
    def version(self) -> str:
        """`Lock.version`."""
        return self._lock.version

    @property
    def data(self) -> bytes | None:
        """`Lock.data`."""
        return self._lock.data

    @property
    def attributes(self) -> dict[str, Any]:
        """`Lock.attributes`."""
        return self._lock.attributes

    @property
    def lease_duration(self) -> float:
        """`Lock.lease_duration`."""
        return self._lock.lease_duration

    @property
    def remaining(self) -> float:
        """`Lock.remaining`."""
        return self._lock.remaining

    @property
    def is_held(self) -> bool:
        """`Lock.is_held`."""
        return self._lock.is_held

    @property
    def is_expired(self) -> bool:
        """`Lock.is_expired`."""
        return self._lock.is_expired

    @property
    def is_almost_expired(self) -> bool:
        """`Lock.is_almost_expired`."""
        return self._lock.is_almost_expired

    @property
    def lost(self) -> bool:
        """`Lock.lost`."""
        return self._lock.lost

    def raise_if_lost(self) -> None:
        """`Lock.raise_if_lost`."""
        self._lock.raise_if_lost()

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """`Lock.wait_lost`: wait until it is lost (True), or released or ``timeout`` seconds passed (False)."""
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while not self.lost:
            left = 1.0 if end is None else end - asyncio.get_running_loop().time()
            if left <= 0 or self._lock._hold.ended:
                return False
            await asyncio.sleep(min(left, max(self.remaining, _PAUSE), _LOOK))
        return True

    async def heartbeat(
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        """`Lock.heartbeat`."""
        lock = self._lock
        steps = lock._begin_heartbeat(data, delete_data, lease_duration)
        turn = Ticket()
        try:
            await self._await_turn(turn)
            await self._run(steps)
        finally:
            lock._end_turn(turn)

    async def _await_turn(self, turn: Ticket) -> None:
        """`Lock._await_turn`."""
        for _ in range(int(protocol.DECISION / _PAUSE)):
            if self._lock._renewing.take(turn):
                return
            await asyncio.sleep(_PAUSE)
            self._lock._check_renewable()
        raise self._lock._not_renewed(None)

    async def ensure(self, seconds: float) -> None:
        """`Lock.ensure`."""
        lease_duration = self._lock._lease_to_ensure(seconds)
        if lease_duration is not None:
            await self.heartbeat(lease_duration=lease_duration)
            self._lock._check_ensured(seconds)

    async def release(
        self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False
    ) -> bool:
        """`Lock.release`."""
        steps = self._lock._begin_release(data, delete)
        if steps is None:
            return True
        try:
            return await self._end(steps, steps)
        except LockError as error:
            return self._lock._release_failed(error, best_effort)

    async def _complete(self, result: str | None) -> bool:
        """`Lock._complete`."""
        steps = self._lock._begin_release(None, None, complete=True, result=result)
        return True if steps is None else await self._end(steps, steps)

    @property
    def _ended(self) -> bool:
        return self._lock._ended

    @property
    def _completed(self) -> bool:
        return self._lock._completed

    def _checked_result(self, result: object) -> str | None:
        return self._lock._checked_result(result)

    async def commit(
        self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None
    ) -> None:
        """`Lock.commit`."""
        await self._end(self._lock._begin_commit(items, data, result))

    def transact_item(self) -> dict[str, Any]:
        """`Lock.transact_item`."""
        return self._lock.transact_item()

    async def hand_over(self, *, lease_duration: float | None = None) -> str:
        """`Lock.hand_over`."""
        return await self._end(self._lock._begin_hand_over(lease_duration))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock._released or not self._lock._in_this_process():
            return
        try:
            await self.release(best_effort=True)
        except LockAlreadyReleasedError:  # another task releases it at this moment
            return

    def __repr__(self) -> str:
        return repr(self._lock).replace("<Lock", "<AsyncLock", 1)

    async def _run(self, steps: Callable[[Look], Steps[T]]) -> T:
        client = self._client
        return await client._run(steps, self._lock._hold.place, threads=client._ending)

    async def _end(self, steps: Callable[[Look], Steps[T]], release: Callable[[Look], Steps[bool]] | None = None) -> T:
        """Run a last act. One that is cancelled ends with a release: whatever came of it, nobody else would."""
        try:
            return await self._run(steps)
        except asyncio.CancelledError:
            try:
                await self._client._ending.settle(
                    self._give_up, release or self._lock._plain_release(), patience=_GIVING_BACK
                )
            except Busy as error:
                self._lock._release_failed(_unsent(_GIVING_BACK, error), best_effort=True)
            raise

    def _give_up(self, release: Callable[[Look], Steps[bool]]) -> None:
        """On a thread, where cancelling again does not interrupt it."""
        try:
            self._lock._run(release)
        except LockAlreadyReleasedError:
            return
        except LockError as error:
            self._lock._release_failed(error, best_effort=True)
