"""The client: takes locks, reads them, and gives them all back when it is closed."""

from __future__ import annotations

import functools
import warnings

from . import checks
from .base_client import PREWARM_KEY, BaseClient, init_named, line_of_execution
from .core import acquire, keep, protocol, requests
from .drive import drive
from .errors import DuplicateEventError, LockAlreadyReleasedError, LockError, LockNotGrantedError, TransportError
from .lock import Lock
from .log import tell, tell_not_released
from .timeline import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self, TypeAlias, TypeVar, Unpack

    from .base_client import AcquireOptions, AdoptOptions, Order
    from .core.lease import Look
    from .core.protocol import Steps
    from .core.requests import Place
    from .lock import Callback
    from .record import LockRecord

    T = TypeVar("T")
    Granted: TypeAlias = list[protocol.Hold]
    #: The steps of an acquire or adopt, given a look at the clocks and where to keep what is granted.
    Taking: TypeAlias = Callable[[Look, Callable[[protocol.Hold], None]], Steps[protocol.Hold]]

_OUTAGE = 2  # releases in a row without an answer after which close() sends no more; one may be its row's fault


class LockClient(BaseClient):
    """Locks in one DynamoDB table, for threads. Building one does no I/O and needs no table or credentials yet.

    The settings are those of BaseClient, which says what each means.
    """

    if not TYPE_CHECKING:
        __init__ = init_named("LockClient")

    # -- locks ------------------------------------------------------------------------------------------------------

    def acquire(
        self,
        key: str,
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
        reentrant: bool = False,
        safe_time: float | None = None,
        on_danger: Callback | None = None,
        on_lost: Callback | None = None,
        cancel_check: Callable[[], bool] | None = None,
        context: object = None,
    ) -> Lock:
        """Take the lock ``key``, waiting for it where somebody else holds it.

        wait: seconds; None: the invocation's time left less ``reserve`` (outside Lambda the lease + 5 s), 0: one
        decision, inf: for ever. reserve: seconds that the work needs after the grant; None: a quarter of the time
        left, at least 1 s. data: bytes stored with the lock; None leaves what is stored, b"" empties it; with
        ``replace_data=False`` only where none is stored. attributes: plain Python values stored as columns. sort_key:
        where the table has one. lease_duration, refresh_period, safe_time: as for the client. delete_on_release: the
        row goes (tokens then do not go on rising). replace: the row is written anew, so that columns of others go; one
        request more. only_if_exists: only where a row exists. reentrant: count up where the same thread or task holds
        it already. on_danger, on_lost: called with the Lock on a thread of their own. cancel_check: asked after each
        pause of the wait; once it says True, LockTimeoutError is raised. context: the Lambda context, for its remaining
        time; None: found where a decorator or `register_lambda_context` left it.

        Returns the Lock. Raises LockNotGrantedError at once where ``wait=0`` finds it held or where less than a second
        is left, LockTimeoutError where a wait ran out, LockFormatError for a held row that cannot be read,
        LockConfigurationError (table, keys, Region, credentials, permission), TransportError where DynamoDB did not
        answer, ClientClosedError, and LockArgumentError or TypeError for bad input. After an error nothing is held
        here. A claim that may have reached DynamoDB is given back first, which may take 5 s; where no answer comes in
        that time, the row looks held until the lease ends.
        """
        if reentrant and (held := self._held_by(key, sort_key)) is not None:
            return held._enter_again()
        order = self._order(
            key,
            wait=wait,
            reserve=reserve,
            data=data,
            replace_data=replace_data,
            attributes=attributes,
            sort_key=sort_key,
            lease_duration=lease_duration,
            refresh_period=refresh_period,
            delete_on_release=delete_on_release,
            replace=replace,
            only_if_exists=only_if_exists,
            safe_time=safe_time,
            on_danger=on_danger,
            on_lost=on_lost,
            cancel_check=cancel_check,
            context=context,
        )
        return self._take(order, self._acquiring(order))

    def _acquire_event(self, key: str, window: int, *, wait: float | None, **options: Unpack[AcquireOptions]) -> Lock:
        """`acquire` for an event that counts as done for ``window`` seconds once it is completed.

        Raises DuplicateEventError too, with the stored text as its result, and LockConfigurationError for a re-entrant
        one where what is held is no event.
        """
        if options.pop("reentrant", False) and (held := self._held_by(key, options.get("sort_key"))) is not None:
            return held._enter_again(event=True)
        order = self._event_order(key, window, wait=wait, **options)
        return self._take(order, self._acquiring(order))

    def try_acquire(self, key: str, *, wait: float = 0, **options: Unpack[AcquireOptions]) -> Lock | None:
        """`acquire` in one decision (``wait=0``), or within ``wait`` seconds; None where somebody else holds the lock.

        Takes what acquire takes and raises what it raises, but for contention.
        """
        try:
            return self.acquire(key, wait=wait, **options)
        except LockNotGrantedError as error:
            if error.too_late:
                raise
            return None

    def get(self, key: str, *, sort_key: str | None = None) -> LockRecord | None:
        """Read a lock without taking it: one consistent read. None where the table has no such row.

        Raises what `acquire` raises about table, keys, Region, credentials, permission and transport.
        """
        from .record import LockRecord

        place = self._place(key, sort_key)
        self._check_open()
        row, date = self._run(lambda look: protocol.read(place, self._memory, self._chance, look), place)
        return None if row is None else LockRecord(row, place, date)

    def list(self, *, key: str | None = None) -> Iterator[LockRecord]:
        """All locks of the table, or of one partition ``key`` (in a table with a sort key), held or not, page by page.

        Needs dynamodb:Scan, or Query with ``key``, beyond a lock's four permissions; a Scan reads the whole table. Rows
        that were never a lock's are passed over. Raises what `get` raises.
        """
        pages = self._pages(key)
        while (request := pages.request()) is not None:
            yield from pages.take(
                self._run(lambda look: protocol.ask(request, self._memory, self._chance, look), pages.place)
            )

    def prewarm(self) -> None:
        """Open the connection and learn DynamoDB's time, so that the first lock does not wait for either.

        One consistent read of a row that does not exist. Raises what `get` raises.
        """
        self.get(PREWARM_KEY, sort_key=PREWARM_KEY if self._names()[2] is not None else None)

    def adopt(self, token: str, *, context: object = None, **options: Unpack[AdoptOptions]) -> Lock:
        """Go on with a lock that `Lock.hand_over` gave the string ``token`` for; the fencing token rises by one.

        lease_duration: seconds; None: that of the handing over, never past this invocation. safe_time, on_danger,
        on_lost, context: as for `acquire`. Raises LockLostError where the lock is not there any more or the string was
        adopted before, LockFormatError for what is no such string or belongs to another table, and what `acquire`
        raises otherwise.
        """
        order, number = self._adoption(token, context=context, **options)
        from .core.handover import adopt

        return self._take(
            order, lambda look, keep: adopt(order.wish, number, self._memory, self._chance, look, keep=keep)
        )

    def held(self) -> tuple[Lock, ...]:
        """The locks of this client that are held now, in this process."""
        return tuple(lock for lock in self._open.locks() if lock.is_held)

    def close(self, *, release: bool = True) -> None:
        """End the client: waiting acquires raise ClientClosedError, held locks are released (or left to their lease).

        Locks whose handles were dropped are released as well. A release that fails is logged, and the others are tried
        all the same. Where two in a row get no answer (10 s at most), DynamoDB cannot be reached, and the rest is left
        to its lease. After an interrupt it may be called again, and goes on. Otherwise closing twice does nothing.
        """
        self._closed.set()
        if release:
            self._release_all()
        else:
            self._abandon_all()
        if self._sends_renewals is not None:
            self._sends_renewals.close()
        if self._chosen is not None:
            self._chosen.close()

    def _release_all(self) -> None:
        unanswered = 0  # in a row
        for hold, release, abandon in self._to_release():
            if unanswered == _OUTAGE:
                self._tell_not_released(hold, TransportError(False, "DynamoDB does not answer, nothing was sent"))
                abandon()
                continue
            try:
                release()
                unanswered = 0
            except LockAlreadyReleasedError:
                continue  # by its holder, a moment ago
            except LockError as error:
                self._tell_not_released(hold, error)
                unanswered = unanswered + 1 if isinstance(error, TransportError) else 0

    def _to_release(self) -> Iterator[tuple[protocol.Hold, Callable[[], object], Callable[[], object]]]:
        """For each lock that is still open: its hold, what releases it, and what leaves it to its lease."""
        for lock in self._open.locks():
            if lock._is_open():
                lock._entered = 1
                yield lock._hold, lock.release, lock._abandon
        for hold in self._open.forgotten():
            leave = functools.partial(self._open.discard, hold)
            if self._timeline.elapsed() < hold.valid_until:  # ended or not: a release of it may have been interrupted
                yield hold, functools.partial(self._give_back, hold), leave
            else:
                leave()

    def _abandon_all(self) -> None:
        for lock in self._open.locks():
            if lock._is_open():
                lock._abandon()
        for hold in self._open.forgotten():
            self._open.discard(hold)

    def _tell_not_released(self, hold: protocol.Hold, error: LockError) -> None:
        tell_not_released(self._log, error, key=hold.place.key, owner=hold.owner, fencing_token=hold.token)
        self._open.discard(hold)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _acquiring(self, order: Order) -> Taking:
        return lambda look, keep: acquire.acquire(order.wish, self._memory, self._chance, look, keep)

    def _take(self, order: Order, steps: Taking) -> Lock:
        """Run the steps of an acquire or adopt, and make the Lock."""
        place = order.wish.place

        def sleep(seconds: float) -> None:
            self._sleep_open(seconds)
            order.check_cancelled()

        granted: Granted = []
        try:
            hold = self._run(lambda look: steps(look, self._keep_in(granted)), place, sleep)
            return self._register(Lock(self, hold, **order.handle), hold)
        except (DuplicateEventError, LockNotGrantedError) as error:
            self._tell_refused(error, order)
            raise
        except BaseException:
            self._give_back_all(granted)
            raise

    def _keep_in(self, granted: Granted) -> Callable[[protocol.Hold], None]:
        def keep(hold: protocol.Hold) -> None:
            granted.append(hold)
            self._open.add(hold)

        return keep

    def _register(self, lock: Lock, hold: protocol.Hold) -> Lock:
        self._open.attach(hold, lock)
        self._check_open()  # either close() finds the lock among those held, or we find the client closed
        lock._tell("granted", "lock %r was granted")
        return lock

    def _run(self, steps: Callable[[Look], Steps[T]], place: Place, sleep: Callable[[float], None] | None = None) -> T:
        timeline = self._timeline
        with self._explained(place):
            return drive(steps(timeline.look()), self.transport, timeline, sleep or timeline.clock.sleep)

    def _write_unguarded(self, items: Sequence[Mapping[str, Any]], key: str) -> None:
        """A commit while locks are disabled."""
        request = {"TransactItems": checks.transact_items(items), "ClientRequestToken": self._chance.nonce()}
        place = self._place(key, None if self._names()[2] is None else key)
        self._run(lambda look: protocol.ask(("TransactWriteItems", request), self._memory, self._chance, look), place)

    def _unguarded_item(self, key: str, sort_key: str | None) -> dict[str, Any]:
        """A transact_item while locks are disabled."""
        return requests.unguarded_item(self._place(key, sort_key))

    def _sleep_open(self, seconds: float) -> None:
        """Sleep as a waiting acquire does: woken, with an error, when the client is closed."""
        if self._timeline is SYSTEM:
            self._closed.wait(seconds)
        else:
            self._timeline.clock.sleep(seconds)
        self._check_open()

    def _held_by(self, key: str, sort_key: str | None) -> Lock | None:
        """The lock that this thread or task holds already."""
        place, line = self._place(key, sort_key), line_of_execution()
        for lock in self.held():
            if lock._hold.place.where == place.where and lock._line == line:
                return lock
        return None

    def _give_back_all(self, granted: Granted) -> None:
        """Interrupted, or closed, between the grant and the return: nobody will ever release these."""
        for hold in granted:
            try:
                self._give_back(hold)
            except LockError as error:
                self._tell_not_released(hold, error)

    def _give_back(self, hold: protocol.Hold) -> None:
        self._run(lambda look: keep.release(hold, self._memory, self._chance, look), hold.place)
        self._open.discard(hold)

    def _tell_forgotten(self, lock: Lock) -> None:
        """A handle was collected while its lock is held."""
        message = (
            f"the handle of lock {lock.key!r} was dropped while the lock is held: keep it, and release it (`with "
            "client.acquire(...) as lock:`). Nobody renews it now; it ends with its lease, or when the client is closed"
        )
        tell(self._log, "forgotten", "%s", message, **lock._about())
        warnings.warn(message, ResourceWarning, stacklevel=3)
