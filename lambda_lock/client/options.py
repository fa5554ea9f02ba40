"""Checks the options of an acquire, and turns them into what the protocol takes. No I/O."""

from __future__ import annotations

from functools import partial  # the Lambda runtime has it loaded

from ..core import acquire, lease, protocol
from ..core.requests import Content, encode_data
from ..errors import LockArgumentError, LockConfigurationError
from ..runtime import invocation
from ..runtime.timeline import SYSTEM
from . import checks
from .renewer import KeepOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypedDict

    from ..core.queue import Queue
    from ..core.requests import Place
    from .lock import Callback
    from .multi_lock import MultiCallback
    from .session import Session
    from .taking import Ordered

    class TimeOptions(TypedDict, total=False):
        """Seconds. `LockClient.acquire` says what each means."""

        reserve: float | None
        lease_duration: float | None
        refresh_period: float | None
        safe_time: float | None

    class HoldParts(TypedDict, total=False):
        """What names a hold without its string. `LockClient.resume` says what each means."""

        key: str | None
        sort_key: str | None
        owner: str | None
        fencing_token: int | None
        permits: int | None
        lease_duration: float | None

    class DecoratorOptions(TimeOptions, total=False):
        """What the decorators pass on to acquire. `with_lock` says what each means."""

        reentrant: bool
        sort_key: str | None
        on_danger: Callback | None
        on_lost: Callback | None

    class QueueOptions(DecoratorOptions, total=False):
        """What `with_lock` passes on besides: an event never queues, and is never a semaphore."""

        queue: bool
        permits: int | None

    class SeveralDecoratorOptions(TimeOptions, total=False):
        """What `with_lock` passes on to acquire_all, for a list of keys."""

        queue: bool
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


_SHORTEST_QUEUED = 0.25  # seconds of wait: for less, a ticket in the queue is not worth its write
_HOLDER_LIMIT = 512  # bytes, as of an owner's prefix
_EXTRA_WAIT = 5.0  # seconds over the lease: enough to outlive a dead holder of the same lease


def order(
    session: Session,
    key: str,
    window: int | None = None,
    owner: str | None = None,
    prefix: str | None = None,
    /,  # those above are not options of acquire, and cannot be passed by name
    *,
    wait: float | None = None,
    reserve: float | None = None,
    data: bytes | None = None,
    replace_data: bool = True,
    attributes: Mapping[str, Any] | None = None,
    sort_key: str | None = None,
    lease_duration: float | None = None,
    refresh_period: float | None = None,
    delete_on_release: bool = False,
    replace: bool = False,
    only_if_exists: bool = False,
    queue: bool = True,
    permits: int | None = None,
    reentrant: bool = False,
    safe_time: float | None = None,
    on_danger: Callable[[Any], object] | None = None,
    on_lost: Callable[[Any], object] | None = None,
    cancel_check: Callable[[], bool] | None = None,
    holder: str | None = None,
    context: object = None,
) -> Ordered:
    """The table of acquire's options: their names and defaults above, and below how each is checked and where it goes.

    Raises what `LockClient.acquire` raises before it sends anything.

    window: of an event, as in AcquireRequest. owner: of a lock that is adopted. None: a new one. prefix: of a new
    owner, up to its nonce. None: the client's. ``reentrant`` has been dealt with before (`entered_before`, taking.py).
    """
    settings = session.settings
    place = settings.place(key, sort_key)
    if holder is not None:
        check_holder(holder, key, delete_on_release, replace, reentrant)
        prefix, queue = f"{holder}#", False
    if lease_duration is None:
        lease_duration, period = settings.lease_duration, settings.heartbeat_period
    else:
        lease_duration = checks.lease_duration(lease_duration)
        period = checks.heartbeat_period(settings.heartbeat_period, lease_duration)
    if safe_time is None:
        safe_time = settings.safe_time
    if safe_time is not None:
        safe_time = checks.safe_time(safe_time, lease_duration)
    kept = KeepOptions(lease_duration, period, safe_time, on_danger, on_lost)
    if permits is not None:
        checks.permits(permits, place, delete_on_release, replace)
    if on_danger is not None and safe_time is None:
        raise LockArgumentError(f"on_danger would never be called for lock {key!r}: pass safe_time= as well", key=key)
    content = content_of(place, settings.ttl, data, replace_data, attributes)
    if wait is not None:
        checks.seconds("wait", wait, least=0.0, endless=True)
    if reserve is not None:
        checks.seconds("reserve", reserve, least=0.0)
    if on_danger is not None or on_lost is not None or cancel_check is not None:
        checks.callback("on_danger", on_danger)
        checks.callback("on_lost", on_lost)
        checks.callback("cancel_check", cancel_check, takes=0)
    refresh_period = settings.refresh_period if refresh_period is None else checks.refresh_period(refresh_period)
    if session.closed.is_set:
        session.check_open()
    checks.real_threads()
    found = invocation.find((), {}, context)
    now = session.timeline.elapsed()
    left = None if found is None else found.remaining(now if session.timeline is SYSTEM else None)
    if found is None and invocation.snapstart_initializing():
        raise LockConfigurationError(
            f"lock {key!r} was asked for while a SnapStart function initialises: its memory will be copied, and "
            "the lock with it. Acquire it in the handler. A web server behind the Lambda Web Adapter learns of its "
            "first request by a middleware of lambda_lock.web, with web_adapter=True. A middleware of yours that "
            "takes locks is added before that one, so that it runs inside",
            key=key,
        )
    if left is not None and left < lease.MIN_LEASE:
        raise acquire.too_late(key, int(left * 1000))
    wait, advice = _limited(wait, reserve, left, lease_duration)
    delete_on_release = delete_on_release or place.schema.released is None
    polls = wait < _SHORTEST_QUEUED or window is not None or delete_on_release or replace or only_if_exists
    queues = queue and settings.queue and place.schema.waiters is not None and not polls
    if owner is None:
        prefix = prefix or f"{settings.owner_prefix or invocation.owner_prefix(found)}#"
        owner = prefix + session.entropy.nonce()
    if permits is not None:
        from ..core.permits import PermitPlace, name_of

        if holder is not None:  # an attempt of the one hold that the holder has
            owner = f"{holder}#{name_of(holder)}/{session.entropy.nonce()}"
        place = PermitPlace(place, permits, owner)
    if window is not None and delete_on_release:
        raise LockConfigurationError(
            f"event {key!r} cannot be remembered: rows of the schema {settings.schema.name} are deleted on release. "
            "Pass deduplicate a client with the schema JAVA or GO, and a table of its own",
            key=key,
        )
    wanted = protocol.AcquireRequest(
        place,
        owner,
        place.schema.round_lease(int(lease_duration * 1000)),
        content,
        lease_end=None if left is None else now + left,
        wait_until=now + wait,
        waits=wait > 0,
        refresh_period=refresh_period,
        delete_on_release=delete_on_release,
        only_if_exists=only_if_exists,
        replace=replace,
        hold_on_unavailable=settings.hold_on_unavailable,
        advice=advice,
        window=window,
        queue=partial(_queue, session, permits) if queues else None,
        decision=settings.decision_time,
    )
    return wanted, kept, cancel_check


def check_holder(
    holder: object, key: str, delete_on_release: bool = False, replace: bool = False, reentrant: bool = False
) -> None:
    """Check the name of a holder, and that the other options make sense for a hold that is resumed."""
    if holder == "":
        raise LockArgumentError(
            "holder is empty: pass a name that only this work has, such as the execution's", key=key
        )
    checks.key_text("holder", holder, _HOLDER_LIMIT)
    for option, value, why in (
        ("delete_on_release", delete_on_release, "a late copy of its claim could bring a deleted row back"),
        ("replace", replace, "a hold that is resumed keeps its row"),
        ("reentrant", reentrant, "each attempt is a handle of its own"),
    ):
        if value:
            raise LockArgumentError(
                f"{option}={value!r} is not possible with holder={holder!r}: {why}. Leave one of the two out", key=key
            )


def _queue(session: Session, permits: int | None, acquisition: acquire.Acquisition) -> Queue:
    """The queue of an acquisition. Only acquires that have to wait load it."""
    if permits is None:
        from ..core.queue import Queue as Kind
    else:
        from ..core.permit_queue import PermitQueue as Kind

    return Kind(acquisition, session.tell_unreadable_waiters)


def content_of(
    place: Place,
    ttl: int | None,
    data: bytes | None,
    replace_data: bool = True,
    attributes: Mapping[str, Any] | None = None,
) -> Content:
    """What a claim writes for the application. Raises LockArgumentError or TypeError if a row cannot hold it."""
    if data is None and attributes is None:
        return Content(None, replace_data, {}, ttl)
    from .record import check_size, columns_of

    encoded = None if data is None else encode_data(checks.data(data))
    columns = {} if attributes is None else columns_of(attributes, place)
    check_size({**place.item_key, **columns, place.schema.data: {"B": encoded or ""}}, place.key)
    return Content(encoded, replace_data, columns, ttl)


def _limited(
    wait: float | None, reserve: float | None, left: float | None, lease_duration: float
) -> tuple[float, str | None]:
    """The wait in seconds. It never uses the time that the work needs after the grant.

    If that limits the wait, advice for the error is returned as well, because waiting longer would not help.
    """
    if left is None:
        return lease_duration + _EXTRA_WAIT if wait is None else wait, None
    kept = max(1.0, left / 4) if reserve is None else reserve
    most = max(left - kept, 0.0)
    if wait is not None and wait <= most:
        return wait, None
    what = f"The wait was at most {most:.1f} s" if wait is None else f"wait={wait:.15g} was cut to {most:.1f} s"
    for_work = f"reserve={reserve:g}" if reserve is not None else f"{kept:.1f} s (reserve: a quarter, at least 1 s)"
    smaller = "Pass a smaller reserve=, raise" if kept else "Raise"
    return most, (
        f"{what}: the invocation had {left:.1f} s left, less {for_work} for the work. "
        f"{smaller} the function's timeout, or let the caller try again"
    )
