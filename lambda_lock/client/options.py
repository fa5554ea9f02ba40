"""The options of an acquire: a table of them, the terms that they make, and what each call adds to these. No I/O.

`TABLE` says of each option its default, its check, and what takes it. Whoever takes options gives them to `checked`.
`Terms` are these with the settings of a client: made once for an acquire, or for all calls of a decorated function.
`wanted` adds what each call has of its own: place, deadline and owner.
"""

from __future__ import annotations

from functools import partial, update_wrapper  # the Lambda runtime has it loaded

from ..core import acquire, lease, protocol
from ..core.requests import Content, encode_data
from ..core.row import MOST_WAITERS
from ..errors import LockArgumentError, LockConfigurationError
from ..runtime import invocation
from ..runtime.timeline import SYSTEM
from . import checks
from .renewer import KeepOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, TypedDict, TypeVar

    from ..core.queue import Queue
    from ..core.requests import Place
    from .lock import Callback
    from .multi_lock import MultiCallback
    from .session import Session
    from .settings import Settings
    from .taking import Wanted

    F = TypeVar("F", bound=Callable[..., Any])

    class CommonOptions(TypedDict, total=False):
        """Seconds, for all that takes locks, also batches. `LockClient.acquire` says what each means."""

        reserve: float | None
        lease_duration: float | None
        refresh_period: float | None

    class TimeOptions(CommonOptions, total=False):
        """What all but batches take besides."""

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
        shared: bool | None

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

        take: int | None  # of with_lock also a function
        data: bytes | None
        replace_data: bool
        attributes: Mapping[str, Any] | None
        delete_on_release: bool
        replace: bool
        only_if_exists: bool
        cancel_check: Callable[[], bool] | None
        holder: str | None
        context: object

    class Asked(AcquireOptions, total=False):
        """All options of acquire."""

        wait: float | None


_SHORTEST_QUEUED = 0.25  # seconds of wait: for less, a ticket in the queue is not worth its write
_EXTRA_WAIT = 5.0  # seconds over the lease: enough to outlive a dead holder of the same lease


# What takes options. A test compares the table with the signatures, and with the bundles above.
ACQUIRE, SEVERAL, EVENT, RECORD = "acquire", "acquire_all", "deduplicate", "a batch"
LOCK, LOCKS = "with_lock", "with_lock with a list of keys"
_BUT_RECORD = (ACQUIRE, SEVERAL, LOCK, LOCKS, EVENT)
_ALL = (*_BUT_RECORD, RECORD)


class Option:
    """An option. check: called with its name and a value other than the default; it returns the value to use, or
    raises. None: `wanted` checks it, because that depends on the lock's place. takers: what takes it.
    """

    __slots__ = ("check", "default", "takers")

    def __init__(self, default: object, check: Callable[[str, Any], object] | None, *takers: str) -> None:
        self.default = default
        self.check = check
        self.takers = takers


_SECONDS = partial(checks.seconds, least=0.0)

TABLE = {
    "wait": Option(None, partial(_SECONDS, endless=True), *_ALL),
    "reserve": Option(None, _SECONDS, *_ALL),
    "data": Option(None, lambda _, value: checks.data(value), ACQUIRE),
    "replace_data": Option(True, checks.flag, ACQUIRE),
    "attributes": Option(None, None, ACQUIRE),
    "sort_key": Option(None, partial(checks.key_text, limit=checks.SORT_KEY_LIMIT), *_BUT_RECORD),
    "lease_duration": Option(None, lambda _, value: checks.lease_duration(value), *_ALL),
    "refresh_period": Option(None, lambda _, value: checks.refresh_period(value), *_ALL),
    "delete_on_release": Option(False, checks.flag, ACQUIRE),
    "replace": Option(False, checks.flag, ACQUIRE),
    "only_if_exists": Option(False, checks.flag, ACQUIRE),
    "queue": Option(True, checks.flag, ACQUIRE, SEVERAL, LOCK, LOCKS),
    "permits": Option(None, lambda _, value: checks.permit_count(value), ACQUIRE, LOCK),
    "take": Option(None, lambda _, value: checks.take_count(value), ACQUIRE, LOCK),
    "shared": Option(None, checks.flag, ACQUIRE, LOCK),
    "reentrant": Option(False, checks.flag, ACQUIRE, LOCK, EVENT),
    "safe_time": Option(None, _SECONDS, *_BUT_RECORD),
    "on_danger": Option(None, checks.callback, *_BUT_RECORD),
    "on_lost": Option(None, checks.callback, *_BUT_RECORD),
    "cancel_check": Option(None, partial(checks.callback, takes=0), ACQUIRE, SEVERAL),
    "holder": Option(None, checks.holder, ACQUIRE),
    "context": Option(None, None, ACQUIRE, SEVERAL),
}
_NOT_WITH_HOLDER = {
    "delete_on_release": "a late copy of its claim could bring a deleted row back",
    "replace": "a hold that is resumed keeps its row",
    "reentrant": "each attempt is a handle of its own",
}
_NOT_WITH_PERMITS = dict.fromkeys(("delete_on_release", "replace"), "the row belongs to all holders")
_defaults: Any = {name: option.default for name, option in TABLE.items()}


def checked(taker: str, given: dict[str, Any], called: str = "", own: Collection[str] | None = ()) -> Any:
    """Check the options that ``taker`` was given, as far as one alone can be wrong. Returns those that it was given,
    with ``permits`` and ``take`` for ``shared``.

    called: what errors call the taker, if not that. own: options of its own, which are not in the table.
    Raises LockArgumentError, and TypeError also for an option that the taker does not take.
    """
    for name, value in given.items():
        option = TABLE.get(name)
        if option is None or taker not in option.takers:
            checks.options(called or taker, [*(own or ()), *names_of(taker)], given, _takers)
        elif value is not option.default and option.check is not None:
            given[name] = option.check(name, value)
    if given.get("take") is not None or given.get("shared") is not None:
        checks.weight(given)
    return given


def _takers(name: str) -> Sequence[str]:
    return TABLE[name].takers if name in TABLE else ()


def names_of(taker: str) -> list[str]:
    """The names of the options in the table that ``taker`` takes."""
    return [name for name, option in TABLE.items() if taker in option.takers]


def declared(run: Any) -> Callable[[F], F]:
    """Let ``run`` do what a function declares. Callers see the signature and docstring of that function.

    So ``run`` can take options by ``**``: it passes on those that it was given, and knows what an unknown one means.
    """

    def of(declaration: F) -> F:
        return update_wrapper(run, declaration)  # type: ignore[return-value]  # it has that one's signature

    return of


def filled(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The options that a `declared` function was given, and its defaults for the others.

    Raises TypeError for an option that it does not declare.
    """
    defaults: dict[str, Any] = function.__wrapped__.__kwdefaults__
    checks.options(function.__name__, defaults, given, _takers)
    return defaults | given


class Terms:
    """Under what a lock is taken: the options that were given, which fit each other and the settings of the client.

    given: as `checked` returned them. key: of the lock, for errors. None: the terms are for several calls.
    Raises LockArgumentError, LockConfigurationError or TypeError.
    """

    __slots__ = ("asked", "heartbeat_period", "lease_duration", "refresh_period", "safe_time", "settings")

    asked: Asked

    def __init__(self, settings: Settings, given: Mapping[str, Any], key: str | None = None) -> None:
        asked = self.asked = _defaults | given
        self.settings = settings
        lease_duration, safe_time = asked["lease_duration"], asked["safe_time"]
        if lease_duration is None:
            self.lease_duration, self.heartbeat_period = settings.lease_duration, settings.heartbeat_period
        else:
            self.lease_duration = lease_duration
            self.heartbeat_period = checks.heartbeat_period(settings.heartbeat_period, lease_duration)
        self.safe_time = settings.safe_time if safe_time is None else safe_time
        if lease_duration is not None or safe_time is not None:
            checks.safe_time(self.safe_time, self.lease_duration)
        refresh_period = asked["refresh_period"]
        self.refresh_period = settings.refresh_period if refresh_period is None else refresh_period
        if asked["on_danger"] is not None and self.safe_time is None:
            of_lock = "" if key is None else f" for lock {key!r}"
            raise LockArgumentError(f"on_danger would never be called{of_lock}: pass safe_time= as well", key=key)
        if asked["holder"] is not None:
            checks.alone("holder", asked, _NOT_WITH_HOLDER, key)
        if asked["permits"] is not None:
            checks.permits(asked["permits"], settings.schema, key)
            checks.alone("permits", asked, _NOT_WITH_PERMITS, key)


def terms_of(given: Mapping[str, Any], settings: Settings | None) -> Callable[[Settings], Terms]:
    """Return what gives the terms of a decorator for a client's settings. They are made once for each client in turn.

    given: as `checked` returned them. settings: of the client that the decorator was given; None: its calls find one.
    Raises what Terms raises, as far as the settings are known.
    """
    if settings is None and given.get("lease_duration") is not None:
        checks.safe_time(given.get("safe_time"), given["lease_duration"])
    made = None if settings is None else Terms(settings, given)

    def terms(settings: Settings) -> Terms:
        nonlocal made
        found = made  # read once: another thread may make those of another client meanwhile
        if found is None or found.settings is not settings:
            made = found = Terms(settings, given)
        return found

    return terms


def wanted(
    session: Session,
    terms: Terms,
    key: str,
    window: int | None = None,
    owner: str | None = None,
    prefix: str | None = None,
) -> Wanted:
    """Add to the terms what a call has of its own: the lock's place, the invocation's deadline, and an owner.

    Raises what `LockClient.acquire` raises before it sends anything.

    window: of an event, as in AcquireRequest. owner: of a lock that is adopted. None: a new one. prefix: of a new
    owner, up to its nonce. None: the client's. ``reentrant`` has been dealt with before (`entered_before`, taking.py).
    """
    settings, asked = terms.settings, terms.asked
    place = settings.place(key, asked["sort_key"])
    kept = KeepOptions(  # before the owner is drawn: it notes the process that may have the lock
        terms.lease_duration, terms.heartbeat_period, terms.safe_time, asked["on_danger"], asked["on_lost"]
    )
    content = content_of(place, settings.ttl, asked["data"], asked["replace_data"], asked["attributes"])
    if session.closed.is_set:
        session.check_open()
    checks.real_threads()
    found = invocation.find((), {}, asked["context"])
    now = session.timeline.elapsed()
    left = None if found is None else found.remaining(now if session.timeline is SYSTEM else None)
    if found is None and invocation.snapstart_initializing():
        raise _initializing(key)
    if left is not None and left < lease.MIN_LEASE:
        raise acquire.too_late(key, int(left * 1000))
    wait, advice = _limited(asked["wait"], asked["reserve"], left, terms.lease_duration)
    delete_on_release = asked["delete_on_release"] or place.schema.released is None
    if window is not None and delete_on_release:
        raise LockConfigurationError(
            f"event {key!r} cannot be remembered: rows of the schema {settings.schema.name} are deleted on release. "
            "Pass deduplicate a client with the schema JAVA or GO, and a table of its own",
            key=key,
        )
    replace, only_if_exists, permits = asked["replace"], asked["only_if_exists"], asked["permits"]
    polls = wait < _SHORTEST_QUEUED or window is not None or delete_on_release or replace or only_if_exists
    holder = asked["holder"]
    queues = asked["queue"] and settings.queue and place.schema.waiters is not None and not polls and holder is None
    if owner is None:
        if prefix is None:
            prefix = f"{holder or settings.owner_prefix or invocation.owner_prefix(found)}#"
        owner = prefix + session.entropy.nonce()
    if permits is not None:
        from ..core.permits import PermitPlace

        if holder is not None:  # an attempt of the one hold that the holder has
            from ..core.resume import name_of

            owner = f"{holder}#{name_of(holder)}/{session.entropy.nonce()}"
        place = PermitPlace(place, permits, owner, asked["take"])
    request = protocol.AcquireRequest(
        place,
        owner,
        place.schema.round_lease(int(terms.lease_duration * 1000)),
        content,
        lease_end=None if left is None else now + left,
        wait_until=now + wait,
        waits=wait > 0,
        refresh_period=terms.refresh_period,
        delete_on_release=delete_on_release,
        only_if_exists=only_if_exists,
        replace=replace,
        hold_on_unavailable=settings.hold_on_unavailable,
        advice=advice,
        window=window,
        queue=partial(_queue, session, permits) if queues else None,
        decision=settings.decision_time,
    )
    return request, kept, asked["cancel_check"]


def request_for(session: Session, key: str, **options: Any) -> protocol.AcquireRequest:
    """What is asked for the row of ``key`` under these options of acquire, by what keeps no lock of it."""
    request, _, _ = wanted(session, Terms(session.settings, checked(ACQUIRE, options), key), key)
    return request


def _initializing(key: str) -> LockConfigurationError:
    return LockConfigurationError(
        f"lock {key!r} was asked for while a SnapStart function initialises: its memory will be copied, and "
        "the lock with it. Acquire it in the handler. A web server behind the Lambda Web Adapter learns of its "
        "first request by a middleware of lambda_lock.web, with web_adapter=True. A middleware of yours that "
        "takes locks is added before that one, so that it runs inside",
        key=key,
    )


def _queue(session: Session, permits: int | None, acquisition: acquire.Acquisition) -> Queue:
    """The queue of an acquisition. Only acquires that have to wait load it."""

    def unreadable(place: Place) -> None:
        message = (
            "the attribute %s of lock %r is not a list of at most %d tickets: the lock is taken without the queue. "
            "Remove the attribute, or pass queue=False if it is yours"
        )
        about = place.schema.waiters, place.key, MOST_WAITERS
        session.observer.tell("waiters_unreadable", message, *about, place=place, once=place.where)

    if permits is not None:
        from ..core.permit_queue import queue_for_permit

        return queue_for_permit(acquisition, unreadable)
    from ..core.queue import Queue

    return Queue(acquisition, unreadable)


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
    from .values import check_size, columns_of

    encoded = None if data is None else encode_data(checks.data(data))
    columns = {} if attributes is None else columns_of(attributes, place)
    check_size({**place.item_key, **columns, place.schema.data: {"B": encoded or ""}}, place.key)
    return Content(encoded, replace_data, columns, ttl)


def _limited(
    wait: float | None, reserve: float | None, left: float | None, lease_duration: float
) -> tuple[float, Callable[[], str] | None]:
    """The wait in seconds. It never uses the time that the work needs after the grant.

    If that limits the wait, what gives advice for the error is returned as well: waiting longer would not help.
    """
    if left is None:
        return lease_duration + _EXTRA_WAIT if wait is None else wait, None
    kept = max(1.0, left / 4) if reserve is None else reserve
    most = max(left - kept, 0.0)
    if wait is not None and wait <= most:
        return wait, None
    return most, partial(_cut, wait, reserve, left, kept, most)


def _cut(wait: float | None, reserve: float | None, left: float, kept: float, most: float) -> str:
    """The advice for an error after a wait that was cut to ``most`` seconds. kept: what was left for the work."""
    what = f"The wait was at most {most:.1f} s" if wait is None else f"wait={wait:.15g} was cut to {most:.1f} s"
    for_work = f"reserve={reserve:g}" if reserve is not None else f"{kept:.1f} s (reserve: a quarter, at least 1 s)"
    smaller = "Pass a smaller reserve=, raise" if kept else "Raise"
    return (
        f"{what}: the invocation had {left:.1f} s left, less {for_work} for the work. "
        f"{smaller} the function's timeout, or let the caller try again"
    )
