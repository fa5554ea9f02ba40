"""Watch single calls of the core: what each sends and is told, and whether what it tells its caller is true."""

from collections.abc import Sequence
from typing import Any

from lambda_lock.core import lease
from lambda_lock.core.outcome import NOT_DONE, ConditionFailed, Reply, ServiceError
from lambda_lock.core.permits import Entry
from lambda_lock.core.protocol import DECISION, AcquireRequest, Send, Wait
from lambda_lock.core.queue import LONGEST_NAP, LONGEST_OUTSIDE, PATIENCE
from lambda_lock.core.row import LONGEST_BELIEVED, Row, base_of, ticket_take
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import DuplicateEventError, TransportError

from . import items
from .clocks import DATES, EPOCH
from .holding import OurHolding
from .world import Process, World

SLACK = 1.6  # seconds: a back-off within an exchange, some hops, and a moment in the client
_MOST_THROWN = 3  # into an acquisition, which then ends at once: what landed is left to its lease


class Errand:
    """Watches one call of a generator: what it sends, and the outcome of the newest request."""

    def __init__(self, world: World, process: Process, key: str) -> None:
        self.world = world
        self.process = process
        self.key = key
        self.started = world.now
        self.sent = 0.0  # true time of the newest send
        self._first: Any = None
        self.action: Send | None = None
        self.outcome: Any = None
        self.carried_out = False  # whether its first request was carried out

    @property
    def unharmed(self) -> bool:
        """No fault has hit the process since the start."""
        return self.process.faulted < self.started

    def fail(self, kind: str, message: str) -> None:
        self.world.judge.fail(kind, message)

    def sends(self, action: Send) -> None:
        self.sent = self.world.now
        if self.action is None:
            self.world.judge.errands[id(action.request)] = self
            self._first = action.request
        self.action = action
        self.outcome = None

    def woke(self, outcome: Any) -> None:
        if outcome is not None:  # None: a wait is over
            self.outcome = outcome

    def unsent(self, action: Send | Wait) -> None:
        """Something is thrown into the generator instead of this."""

    def dropped(self) -> None:
        """The generator does not see the newest answer."""

    def interrupted(self) -> None:
        """Something is thrown into the generator."""

    def closed(self) -> None:
        """The generator was closed."""

    def close(self) -> None:
        self.world.judge.errands.pop(id(self._first), None)


class Release(Errand):
    """Watches one release or commit: everything that it sends is recorded as this holding's, including late copies."""

    def __init__(self, world: World, holding: OurHolding) -> None:
        super().__init__(world, holding.process, holding.key)
        self.holding = holding
        self.completed = False  # one of its requests completed the event
        self._requests: list[Any] = []  # kept, so that no other request gets one of their ids

    def sends(self, action: Send) -> None:
        super().sends(action)
        self._requests.append(action.request)
        self.world.judge.releases[id(action.request)] = self

    def landed(self, key: str, before: Any, after: Any) -> None:
        """One of its requests was carried out."""
        for holding in self.ends():
            if holding.key == key and holding.owns(before) and not holding.owns(after):
                holding.freed = True

    def ends(self) -> Sequence[OurHolding]:
        return [self.holding]

    def told_completed(self) -> None:
        if not (self.completed or self.holding.completed):  # the latter: by an interrupted act
            self.fail("false success", f"{self.holding} was told that {self.key} is done, and it is not")


class Commit(Release):
    """Watches one commit, under one lock or several: what its caller was told is true, and stays true."""

    def __init__(self, world: World, holdings: Sequence[OurHolding]) -> None:
        super().__init__(world, holdings[-1])
        self.holdings = holdings
        holdings[-1].committing = True
        self.done = 0  # how often it was carried out
        self.refused = False  # its caller was told so
        self._had_all = len(self.not_owned(self._rows())) == 0

    def _rows(self) -> dict[str, Any]:
        return {holding.key: self.world.table.get(holding.key) for holding in self.holdings}

    def sends(self, action: Send) -> None:
        super().sends(action)
        if action.operation == "TransactWriteItems":
            self.world.judge.commits[action.request["ClientRequestToken"]] = self

    def ends(self) -> Sequence[OurHolding]:
        return self.holdings

    def not_owned(self, befores: dict[str, Any]) -> list[OurHolding]:
        """The holdings that did not own their rows when the commit was carried out."""
        return [holding for holding in self.holdings if not holding.owns(befores[holding.key])]

    def told_done(self) -> None:
        if self.holding.hold.window is not None:
            self.told_completed()
        if not self.done:
            self.fail("false success", f"the commit of {self.holding} is said to be done, and is not")
        self._left("was told that its commit is done")

    def told_refused(self, error: Exception, lost: bool) -> None:
        """Under several locks, the client then still releases the others."""
        judge, self.refused = self.world.judge, True
        if self.done:
            self.fail("false refusal", f"{self.holding} was told {error!r}, though its commit was carried out")
        unchanged = all(judge.changed[holding.key] < self.started for holding in self.holdings)
        if lost and self.unharmed and self._had_all and unchanged:
            self.fail("refused", f"{self.holding} was told {error!r}, though it had {self.key}")
        if len(self.holdings) == 1:
            self.released_all()

    def released_all(self) -> None:
        """Nothing is held after a refusal."""
        if self.unharmed:
            self._left("was refused its commit")

    def _left(self, why: str) -> None:
        for holding in self.holdings:
            if holding.owns(self.world.table.get(holding.key)):
                self.fail("left behind", f"{holding} {why}, and has {holding.key} still")


class ByString(Errand):
    """Watches one release by string. requests: the ids of those that it has sent."""

    def __init__(self, world: World, process: Process, key: str) -> None:
        super().__init__(world, process, key)
        self.requests: set[int] = set()

    def sends(self, action: Send) -> None:
        super().sends(action)
        self.requests.add(id(action.request))
        self.world.judge.takes(None, action)


class Waiter(Errand):
    """Watches one acquisition: no one waits for a dead holder, and no one is refused a free lock."""

    def __init__(self, world: World, process: Process, wanted: AcquireRequest) -> None:
        super().__init__(world, process, wanted.place.key)
        self.wanted = wanted
        self._since = self._latest = -1.0  # the time by which it should have the lock, if nothing else happens
        self._may_be_there: set[str] = set()  # its own versions that it has seen, or has no clear answer for
        self._learned: set[str] = set()  # those of them that only the newest answer shows
        self._writes = world.judge.writes[self.key]
        self._was_free = self._is_free()
        self._giving_back: float | None = None  # elapsed time of the first release
        self.began = self.looked = process.peek()
        self.waits = True
        self.tickets: set[str] = set()  # all that it asked for
        self.losses = 0  # tickets that others removed
        self.shown: float | None = None  # true time of the newest request whose answer showed the row
        self._throttled = False  # at any time: outside a full queue, it then naps for longer
        self.troubled = 0.0  # true time of the last look that was not answered
        self.strayed = False  # it has seen waiters that cannot be read, and goes on without the queue
        self.versions: set[str] = set()  # all that it sent
        self.thrown = 0  # how often something was thrown in
        self.what = "adopt" if isinstance(self, Adopter) else "acquire"  # for the counts
        if wanted.queue is not None:
            self.what = "queue"
        if wanted.place.permits is not None:
            self.what += " of a permit"

    def sends(self, action: Send) -> None:
        super().sends(action)
        self.world.judge.line.sends(self, action)
        if "ReturnValues" in action.request:
            self.versions |= items.versions_in(action)
            self.world.judge.takes(self.wanted, action)
        if items.returns_ticket(action) or gives_back(action):
            self.waits = False
        if self._giving_back is None and gives_back(action):
            self._giving_back = self.process.peek()

    def woke(self, outcome: Any) -> None:
        super().woke(outcome)
        self.looked = self.process.peek()
        if outcome is not None:
            if self._is_unanswered_look(outcome):
                self.troubled = self.world.now
            if isinstance(outcome, (Reply, ConditionFailed)):
                self.shown = self.sent
            known = set(self._may_be_there)
            self._note(outcome)
            self._learned = self._may_be_there - known
        self._throttled = self._throttled or (isinstance(outcome, ServiceError) and outcome.code in NOT_DONE)
        if not self.wanted.waits:
            return
        now, refresh = self.world.now, self.wanted.refresh_period
        since = max(self.started, self.process.faulted, self.world.judge.changed.get(self.key, 0.0))
        if now <= since + (refresh if self.wanted.queue is None else LONGEST_NAP) + SLACK:  # patience only adds to that
            return
        if self.wanted.queue is not None:  # it naps, and has patience with those ahead, until their tickets expire
            patience = min(PATIENCE * self.world.judge.line.ahead(self), LONGEST_BELIEVED + DATES)
            queued = LONGEST_NAP + patience + (LONGEST_OUTSIDE if self._throttled else 0.0)
            refresh = max(refresh, queued) if self.strayed or self.losses > 1 else queued
            since = max(since, self.world.judge.line.fewer(self))
        if now <= since + refresh + SLACK:
            return
        if since != self._since:
            self._since, self._latest = since, max(since, self._free_at(since)) + refresh + SLACK
        if now > self._latest:
            self.fail("starved", f"{self.wanted.owner} still waits, though {self.key} has long been free")

    def _is_unanswered_look(self, outcome: Any) -> bool:
        assert self.action is not None
        return self.action.operation == "GetItem" and not isinstance(outcome, Reply)

    def closed(self) -> None:
        self.thrown = _MOST_THROWN

    def unsent(self, action: Send | Wait) -> None:
        """It is interrupted before it sends this."""
        if isinstance(action, Send) and (items.returns_ticket(action) or gives_back(action)):
            self.waits = False

    def dropped(self) -> None:
        self._may_be_there -= self._learned
        self._note(None)

    def interrupted(self) -> None:
        self.thrown += 1 if self.waits or self.thrown else 2  # it may have been ending already, by an error of its own
        self.waits = False
        if self.outcome is None:
            self._note(None)

    def close(self) -> None:
        super().close()
        self.waits = False
        if self.wanted.queue is not None:
            self.world.judge.line.ended(self)

    def _note(self, outcome: Any) -> None:
        if isinstance(outcome, (Reply, ConditionFailed)):
            item = outcome.item
            if item is None:
                return
            self.strayed = self.strayed or items.waits_cannot_be_read(item)
            mine = items.by_attempt(item).get(items.attempt_of(self.wanted.owner))
            if mine is not None:
                self._may_be_there.add(mine.version)
            elif self.wanted.place.permits is None and JAVA.version in item:
                self._may_be_there.add(item[JAVA.version]["S"])
        elif self.action is not None and not _refused_for_now(outcome):
            self._may_be_there |= items.versions_in(self.action)

    def failed(self, error: BaseException, elapsed: float) -> None:
        """The acquisition ended with ``error``."""
        self._abandoned()
        wanted = self.wanted
        late = elapsed - max(wanted.wait_until, self.began)
        if wanted.queue is not None and self.unharmed and late > SLACK:
            self.fail("overlong", f"{wanted.owner} gave up {late:.1f} s after its wait was over")
        if isinstance(error, DuplicateEventError):
            self._told_done(error)
            return
        if self._was_free:
            self.refused(elapsed, f"did not get {self.key}, which was free: {error!r}")

    def refused(self, elapsed: float, why: str) -> None:
        """It got nothing that was there, and had the time for it."""
        lease_end, unchanged = self.wanted.lease_end, self._writes == self.world.judge.writes[self.key]
        has_time = lease_end is None or lease_end - elapsed >= 6
        if has_time and unchanged and self.unharmed and not self.world.settings.dateless:
            self.fail("refused", f"{self.wanted.owner} {why}")

    def _told_done(self, error: DuplicateEventError) -> None:
        until, judge = error.completed_until, self.world.judge
        assert until is not None
        if until not in judge.completed.get(self.key, ()):
            self.fail("false done", f"{self.wanted.owner} was told that {self.key} is done, but no one completed it")
        elif until <= EPOCH + self.started - self.world.settings.front_ends:
            self.fail("false done", f"{self.wanted.owner} was told that {self.key} is done until {until}: that is over")
        else:
            judge.forgets.served(self.key, until, self.started)
            if error.result not in judge.results[self.key, until]:
                self.fail("false result", f"{self.wanted.owner} got {error.result!r} for {self.key} until {until}")

    def _is_free(self) -> bool:
        """Whether it is free. A holder that has expired by every front end's Date is not counted."""
        item, place = self.world.table.get(self.key), self.wanted.place
        if place.permits is not None and items.is_weighed(item) and isinstance(place, items.OldPlace):
            return False
        ends = [one.expiry_ms / 1000 - EPOCH + DATES if one.expiry_ms else float("inf") for one in self._held()]
        left = [take for end, take in zip(ends, self._takes(), strict=True) if end >= self.world.now]
        return sum(left) + self._needs() <= (place.permits or 1) and not self._is_awaited()

    def _needs(self) -> int:
        """How many permits have to be free."""
        place = self.wanted.place
        all_of_them = place.take > 1 and not items.is_weighed(self.world.table.get(self.key))
        return place.permits or 1 if all_of_them else place.take

    def _takes(self) -> list[int]:
        """How many permits each of the holders takes."""
        if self.wanted.place.permits is None:
            return [1 for _ in self._held()]
        return list(items.takes_in(self.world.table.get(self.key)).values())

    def _is_awaited(self) -> bool:
        """Whether there is a ticket that nobody passes who takes as much, dead or alive: one who waits for more than 1
        permit is passed by nobody, and who takes more than 1 passes nobody."""
        waiters = (self.world.table.get(self.key) or {}).get("waiters", {}).get("L", ())
        if self.wanted.place.permits is None:
            return False
        return any(max(ticket_take(one.get("S", "")), self.wanted.place.take) > 1 for one in waiters)

    def _free_at(self, since: float) -> float:
        """The true time by which enough holders have expired for this waiter, if nobody writes meanwhile."""
        ends = sorted(zip((self._end_of(one, since) for one in self._held()), self._takes(), strict=True))
        at, taken = since, sum(self._takes()) + self._needs()
        for end, take in ends:
            if taken <= (self.wanted.place.permits or 1):
                break
            at, taken = end, taken - take
        return max(at, since + LONGEST_BELIEVED + DATES) if self._is_awaited() else at

    def _end_of(self, held: Row | Entry, since: float) -> float:
        if held.lease_ms is None:
            return float("inf")
        observed = since + self.wanted.refresh_period + SLACK + held.lease_ms / 1000 * (1 + 2 * lease.DRIFT)
        if self.wanted.queue is not None:
            observed += LONGEST_NAP  # those ahead may have seen it later
        return observed if held.expiry_ms is None else min(observed, held.expiry_ms / 1000 - EPOCH + DATES)

    def _held(self) -> Sequence[Row | Entry]:
        """The holders: the row of a lock that is held, or a semaphore's entries."""
        item = self.world.table.get(self.key)
        if self.wanted.place.permits is not None:
            return list(items.by_attempt(item).values())
        row = items.row_of(item)
        return [] if row is None or row.is_free else [row]

    def _abandoned(self) -> None:
        """If the acquisition could know that a claim landed before its last request, that claim is not left behind."""
        version, judge = self._landed(), self.world.judge
        if self.thrown >= _MOST_THROWN:
            return
        if version is None or judge.changed[self.key] >= self.sent or version not in self._may_be_there:
            return
        if self._tried_to_give_back() and not isinstance(self.outcome, (Reply, ConditionFailed)):
            return
        self.fail("left behind", f"{self.wanted.owner} gave up, but left its claim in {self.key}")

    def _landed(self) -> str | None:
        """The version under which the row names this acquisition's owner now."""
        row = self._row()
        return None if row is None or row.is_free or row.owner != self.wanted.owner else row.version

    def _tried_to_give_back(self) -> bool:
        """Whether it sent releases for a whole decision, less its last pause (1.5 s)."""
        since = self._giving_back
        return since is not None and self.process.peek() - since > DECISION - 1.5

    def _row(self) -> Row | None:
        """The lock as its row shows it, or the permit of this waiter's hold."""
        item = self.world.table.get(self.key)
        return items.row_of(item) if item is None or self.wanted.place.permits is None else self.wanted.place.view(item)


class Adopter(Waiter):
    """Watches one adoption: a lock that was handed over and is still there is granted."""

    def __init__(self, world: World, process: Process, wanted: AcquireRequest, token: int) -> None:
        super().__init__(world, process, wanted)
        self._own: set[str] = set()
        self._token = token
        self._was_there = self._is_there()

    def sends(self, action: Send) -> None:
        super().sends(action)
        self._own |= items.versions_in(action)

    def failed(self, error: BaseException, elapsed: float) -> None:
        self._may_be_there &= self._own  # the others belong to another adopter, under the same owner
        self._abandoned()
        if self._was_there:
            self.refused(elapsed, f"could not adopt, though the lock is there: {error!r}")

    def _is_there(self) -> bool:
        row, base = self._row(), base_of(self.wanted.owner)
        return row is not None and not row.is_free and row.owner in (base, f"{base}/") and row.token == self._token


def gives_back(action: Send) -> bool:
    """Whether an acquisition's request is a release: its other updates ask for the new row (ReturnValues)."""
    is_update = action.operation == "UpdateItem" and "ReturnValues" not in action.request
    return is_update or action.operation == "DeleteItem"


def _refused_for_now(outcome: Any) -> bool:
    """This send was clearly not carried out, or not even sent. A copy of it may be, but the sender cannot know that."""
    if isinstance(outcome, TransportError):
        return not outcome.ambiguous
    return isinstance(outcome, ServiceError) and outcome.code in ("ThrottlingException", "TransactionConflictException")
