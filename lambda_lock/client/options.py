"""Checks the options of an acquire, and turns them into what the protocol takes. No I/O."""

from __future__ import annotations

from ..core import acquire, lease, protocol
from ..core.requests import Content, encode_data
from ..errors import LockArgumentError, LockConfigurationError, LockTimeoutError
from ..runtime import invocation
from ..runtime.import_guard import ImportGuard
from . import checks
from .renewer import KeepOptions
from .stored import check_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypedDict, Unpack

    from ..core.queue import Queue
    from ..core.requests import Place
    from ..runtime.invocation import Invocation
    from .lock import Callback
    from .multi_lock import MultiCallback
    from .session import Session

    class AdoptOptions(TypedDict, total=False):
        """How a lock is kept. `LockClient.adopt` says what each means."""

        lease_duration: float | None
        safe_time: float | None
        on_danger: Callback | None
        on_lost: Callback | None

    class HoldParts(TypedDict, total=False):
        """What names a hold without its string. `LockClient.resume` says what each means."""

        key: str | None
        sort_key: str | None
        owner: str | None
        fencing_token: int | None
        lease_duration: float | None

    class HoldOptions(HoldParts, total=False):
        """What adopt and resume take besides the string and ``context``."""

        safe_time: float | None
        on_danger: Callback | None
        on_lost: Callback | None

    class DecoratorOptions(AdoptOptions, total=False):
        """What the decorators pass on to acquire. `with_lock` says what each means."""

        reserve: float | None
        refresh_period: float | None
        reentrant: bool
        sort_key: str | None

    class QueueOptions(DecoratorOptions, total=False):
        """What `with_lock` passes on besides: an event never queues, and is never a semaphore."""

        queue: bool
        permits: int | None

    class SeveralDecoratorOptions(TypedDict, total=False):
        """What `with_lock` passes on to acquire_all, for a list of keys."""

        reserve: float | None
        lease_duration: float | None
        refresh_period: float | None
        queue: bool
        safe_time: float | None
        on_danger: MultiCallback | None
        on_lost: MultiCallback | None

    class SeveralOptions(SeveralDecoratorOptions, total=False):
        """What acquire_all takes besides the keys, ``wait`` and ``sort_key``. `LockClient.acquire_all` says more."""

        cancel_check: Callable[[], bool] | None
        context: object

    class AcquireOptions(QueueOptions, total=False):
        """What acquire takes besides the key and ``wait``. `LockClient.acquire` says what each means."""

        data: bytes | None
        replace_data: bool
        attributes: Mapping[str, Any] | None
        delete_on_release: bool
        replace: bool
        only_if_exists: bool
        cancel_check: Callable[[], bool] | None
        holder: str | None
        context: object


_SHORTEST_QUEUED = 0.25  # seconds of wait: with less, a place is not worth its write
_EXTRA_WAIT = 5.0  # seconds over the lease: enough to outlive a dead holder of the same lease


class Order:
    """What an acquire asks for, checked."""

    __slots__ = ("cancel_check", "cancelled", "kept", "wanted")

    def __init__(
        self, wanted: protocol.AcquireRequest, kept: KeepOptions, cancel_check: Callable[[], bool] | None
    ) -> None:
        self.wanted = wanted
        self.kept = kept
        self.cancel_check = cancel_check
        self.cancelled = False

    def check_cancelled(self, key: str) -> None:
        """Raise LockTimeoutError if ``cancel_check`` asks to stop waiting for the lock ``key``."""
        if self.cancel_check is not None and self.cancel_check():
            self.cancelled = True
            raise LockTimeoutError(f"waiting for lock {key!r} was cancelled by cancel_check", key=key)


def order(
    session: Session,
    key: str,
    *,
    wait: float | None,
    owner: str | None = None,
    prefix: str | None = None,
    window: int | None = None,
    **options: Unpack[AcquireOptions],
) -> Order:
    """Check what an acquire asks for. Raises what `LockClient.acquire` raises before it sends anything.

    owner: of a lock that is adopted. None: a new one. prefix: of a new owner, up to its nonce. None: the client's.
    window: of an event, as in AcquireRequest. ``reentrant`` has been dealt with before.
    """
    settings, permits = session.settings, options.get("permits")
    place = settings.place(key, options.get("sort_key"))
    kept = _keep_options(session, options)
    if permits is not None:
        checks.permits(permits, place, kept.full_lease, options)
    if kept.on_danger is not None and kept.safe_time is None:
        raise LockArgumentError(f"on_danger would never be called for lock {key!r}: pass safe_time= as well", key=key)
    content = content_of(place, settings.ttl, options)
    checks.optional_seconds("wait", wait, endless=True)
    checks.optional_seconds("reserve", options.get("reserve"))
    checks.callback("on_danger", kept.on_danger)
    checks.callback("on_lost", kept.on_lost)
    checks.callback("cancel_check", options.get("cancel_check"))
    session.check_open()
    checks.real_threads()
    found = invocation.find((), {}, options.get("context"))
    left = None if found is None else found.remaining()
    _check_may_run(place, found, left)
    now = session.timeline.elapsed()
    patience, advice = _patience(wait, options.get("reserve"), left, kept.full_lease)
    refresh_period = options.get("refresh_period")
    replace, only_if_exists = options.get("replace", False), options.get("only_if_exists", False)
    delete_on_release = options.get("delete_on_release", False) or place.schema.released is None
    polls = patience < _SHORTEST_QUEUED or window is not None or delete_on_release or replace or only_if_exists
    queues = options.get("queue", True) and settings.queue and place.schema.waiters is not None and not polls
    if owner is None:
        prefix = prefix or f"{settings.owner_prefix or invocation.owner_prefix(found)}#"
        owner = prefix + session.entropy.nonce()
    if permits is not None:
        with ImportGuard():
            from ..core.permits import PermitPlace

        place = PermitPlace(place, permits, owner)
    wanted = protocol.AcquireRequest(
        place,
        owner,
        place.schema.round_lease(int(kept.full_lease * 1000)),
        content,
        lease_end=None if left is None else now + left,
        wait_until=now + patience,
        patient=patience > 0,
        refresh_period=settings.refresh_period if refresh_period is None else checks.refresh_period(refresh_period),
        delete_on_release=delete_on_release,
        only_if_exists=only_if_exists,
        replace=replace,
        hold_on_unavailable=settings.hold_on_unavailable,
        advice=advice,
        window=window,
        queue=_queue_of(session, permits) if queues else None,
        decision=settings.decision_time,
    )
    if window is not None and wanted.delete_on_release:
        raise LockConfigurationError(
            f"event {key!r} cannot be remembered: rows of the schema {settings.schema.name} are deleted on release. "
            "Pass deduplicate a client with the schema JAVA or GO, and a table of its own",
            key=key,
        )
    return Order(wanted, kept, options.get("cancel_check"))


def _queue_of(session: Session, permits: int | None) -> Callable[[acquire.Acquisition], Queue]:
    """What makes the queue of an acquisition. Only acquires that have to wait load it."""

    def queue(acquisition: acquire.Acquisition) -> Queue:
        with ImportGuard():
            if permits is None:
                from ..core.queue import Queue as Kind
            else:
                from ..core.permit_queue import PermitQueue as Kind

        return Kind(acquisition, session.tell_unreadable_waiters)

    return queue


def _keep_options(session: Session, options: AcquireOptions) -> KeepOptions:
    """Lease and signals of one lock: its own or the client's."""
    settings, duration, safe_time = session.settings, options.get("lease_duration"), options.get("safe_time")
    duration = settings.lease_duration if duration is None else checks.lease_duration(duration)
    period = checks.heartbeat_period(settings.heartbeat_period, duration)
    safe_time = checks.safe_time(settings.safe_time if safe_time is None else safe_time, duration)
    return KeepOptions(duration, period, safe_time, options.get("on_danger"), options.get("on_lost"))


def content_of(place: Place, ttl: int | None, options: AcquireOptions) -> Content:
    """What a claim writes for the application. Raises LockArgumentError or TypeError if a row cannot hold it."""
    data = checks.data(options.get("data"))
    encoded = None if data is None else encode_data(data)
    columns = checks.attributes(options.get("attributes"), place.schema, place.key_names)
    if encoded is not None or columns:
        stored = {**place.item_key, **columns, place.schema.data: {"B": encoded or ""}}
        check_size(stored, place.key)
    return Content(encoded, options.get("replace_data", True), columns, ttl)


def _patience(
    wait: float | None, reserve: float | None, left: float | None, lease_duration: float
) -> tuple[float, str | None]:
    """How long to wait, in seconds. The wait never uses the time that the work needs after the grant.

    If that limits the wait, advice for the error is returned as well, because waiting longer would not help.
    """
    if left is None:
        return lease_duration + _EXTRA_WAIT if wait is None else wait, None
    kept = max(1.0, left / 4) if reserve is None else reserve
    most = max(left - kept, 0.0)
    if wait is not None and wait <= most:
        return wait, None
    what = f"The wait was at most {most:.1f} s" if wait is None else f"wait={wait:g} was cut to {most:.1f} s"
    for_work = f"reserve={reserve:g}" if reserve is not None else f"{kept:.1f} s (reserve: a quarter, at least 1 s)"
    smaller = "Pass a smaller reserve=, raise" if kept else "Raise"
    return most, (
        f"{what}: the invocation had {left:.1f} s left, less {for_work} for the work. "
        f"{smaller} the function's timeout, or let the caller try again"
    )


def _check_may_run(place: Place, found: Invocation | None, left: float | None) -> None:
    if found is None and invocation.snapstart_initializing():
        raise LockConfigurationError(
            f"lock {place.key!r} was asked for while a SnapStart function initialises: its memory will be copied, and "
            "the lock with it. Acquire it in the handler",
            key=place.key,
        )
    if left is not None and left < lease.MIN_LEASE:
        raise acquire.too_late(place.key, int(left * 1000))
