"""The stand-in for a lock while LAMBDA_LOCK_DISABLED is set, or in an outage (on_unavailable="run"). Loaded then."""

from __future__ import annotations

import functools
import threading

from ..client import checks
from ..client.reads import ask
from ..core.several import ordered
from ..errors import LockAlreadyReleasedError, LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Self

    from ..client.session import Operation
    from ..core.requests import Place
    from ..runtime.invocation import Invocation

_LOOK = 0.25  # seconds between two checks of an async wait_lost. It blocks no thread: a commit may need the last one


class StandIn:
    """What current_lock() returns while locks are disabled. It says that it is held, and protects nothing.

    It has the methods of a Lock and, for a list of keys, those of a MultiLock.

    Its fencing token is 0, so what the application guards by tokens refuses its writes. A token above the last one
    would be accepted now, but every real one after it would be refused.

    call: of the decorated function (guard.Call). options: has the lock's sort_key, lease_duration and permits.
    why: the reason that errors and the repr name.
    """

    owner = "disabled"
    fencing_token = 0
    version = ""
    take = 1
    lost = False
    data: bytes | None = None

    def __init__(self, call: Any, options: Any, why: str) -> None:
        self.keys: tuple[str, ...] = (call.key,) if isinstance(call.key, str) else tuple(ordered(call.key))
        self.key = ", ".join(self.keys)
        self.sort_key: str | None = options.sort_key
        self.fencing_tokens = dict.fromkeys(self.keys, 0)
        self.permits: int | None = options.permits
        self.attributes: dict[str, Any] = {}
        self.lease_duration: float = options.lease_duration or 20.0
        self._client: Any = call.client
        self._invocation: Invocation | None = call.invocation
        self._released = threading.Event()
        self._why = why

    @property
    def remaining(self) -> float:
        left = None if self._invocation is None else self._invocation.remaining()
        return (left or self.lease_duration) if self.is_held else 0.0

    @property
    def is_expired(self) -> bool:
        return self._released.is_set()

    is_almost_expired = is_expired

    @property
    def is_held(self) -> bool:
        return not self.is_expired

    def raise_if_lost(self) -> None:
        return

    def wait_lost(self, timeout: float | None = None) -> bool:
        self._released.wait(timeout)
        return False

    def heartbeat(
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        self._check_held()
        if delete_data or data is not None:
            self.data = data
        if lease_duration is not None:
            self.lease_duration = lease_duration

    def ensure(self, seconds: float) -> None:
        self._check_held()

    def commit(self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None) -> None:
        """Write the items, in a transaction that no lock guards."""
        self._client.__runner__.run(self._writing(items))
        self._released.set()

    def transact_item(self) -> dict[str, Any]:
        """An Update that changes nothing and refuses nothing."""
        self._check_held()
        return unguarded_item(self._client.__session__.settings.place(self.key, self.sort_key))

    def hand_over(self, *, lease_duration: float | None = None) -> str:
        raise LockConfigurationError(f"{self._why}: there is no lock {self.key!r} to hand over", key=self.key)

    def release(self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False) -> bool:
        self._check_held()
        self._released.set()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {', '.join(map(repr, self.keys))}: {self._why}>"

    def _writing(self, items: Sequence[Mapping[str, Any]]) -> Operation[Any]:
        self._check_held()
        session, key = self._client.__session__, self.keys[0]
        request = {"TransactItems": checks.transact_items(items), "ClientRequestToken": session.entropy.nonce()}
        place = session.settings.place(key, None if session.settings.names()[2] is None else key)
        return ask(session, place, ("TransactWriteItems", request))

    def _check_held(self) -> None:
        if self._released.is_set():
            raise LockAlreadyReleasedError(f"lock {self.key!r} was released before (a stand-in)", key=self.key)


def _awaited(method: Callable[..., Any]) -> Any:
    """The same method, to be awaited."""

    @functools.wraps(method)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return awaited


class AsyncStandIn(StandIn):
    """StandIn with the methods of an AsyncLock and an AsyncMultiLock."""

    heartbeat = _awaited(StandIn.heartbeat)
    ensure = _awaited(StandIn.ensure)
    hand_over = _awaited(StandIn.hand_over)
    release = _awaited(StandIn.release)
    __aenter__ = _awaited(StandIn.__enter__)
    __aexit__ = _awaited(StandIn.__exit__)

    async def wait_lost(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        import asyncio  # which a plain function does not have loaded

        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while self.is_held and (end is None or loop.time() < end):
            await asyncio.sleep(_LOOK if timeout is None else min(timeout, _LOOK))
        return False

    async def commit(  # type: ignore[override]
        self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None
    ) -> None:
        await self._client.__runner__.run(self._writing(items))
        self._released.set()


def unguarded_item(place: Place) -> dict[str, Any]:
    """Return an Update that is never refused and changes nothing that locks use."""
    return {
        "Update": {
            "TableName": place.table,
            "Key": place.item_key,
            "UpdateExpression": "REMOVE #n0",
            "ExpressionAttributeNames": {"#n0": "lambdaLockDisabled"},
        }
    }
