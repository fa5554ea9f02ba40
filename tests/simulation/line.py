"""Who waits in which order, in true time: the judge's list of tickets, and what may be done to them."""

from typing import Any

from lambda_lock.core.permits import hold_of
from lambda_lock.core.protocol import Send
from lambda_lock.core.queue import LONGEST_NAP, PATIENCE
from lambda_lock.core.row import MOST_WAITERS, TICKET_NAME, counts, expiry_of, ticket_expiry, ticket_take
from lambda_lock.core.schema import JAVA

from .clocks import DATES, EPOCH
from .errands import Waiter
from .items import attempt_of, by_attempt, is_weighed, remembered, takes_in
from .world import Process, World

_LOOKED_AFTER = 15.0  # seconds without a fault in which a living waiter renews its ticket
_HOP = 0.1  # seconds from a look to the claim that follows from it, without a fault


class Line:
    """The tickets of a run, by name.

    disturbed: the keys whose waiters somebody else wrote (foreign clients, forgers). Their tickets have no order of
        their own but the one that the row shows.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.disturbed: set[str] = set()
        self.taken: dict[str, int] = {}  # the number of each ticket's append among all, in true time
        self._appends = 0
        self._grants: dict[str, tuple[Any, float]] = {}  # each key's last grant, and since when the row shows it
        self._released: dict[str, float] = {}  # when each was released, if it is
        self._owners: dict[str, Waiter] = {}  # by each ticket that was ever asked for
        self._written: dict[str, float] = {}  # the true time of each row's newest write
        # By request: whose, whether it is a last try, for how many seconds all looks have been answered, and when the
        # row that it was made from was shown.
        self._claims: dict[int, tuple[Waiter, bool, float, float | None, Any]] = {}

    def fail(self, kind: str, message: str) -> None:
        self.world.judge.fail(kind, message)

    def sends(self, waiter: Waiter, action: Send) -> None:
        """A waiter sends a request."""
        ticket = ticket_in(action)
        if ticket is not None:
            self._owners.setdefault(ticket[:TICKET_NAME], waiter)
            waiter.tickets.add(ticket[:TICKET_NAME])
        elif "ReturnValues" in action.request or action.operation == "PutItem":
            last = waiter.looked >= waiter.wanted.wait_until  # as it decided: a clock may be stepped before it sends
            answered = self.world.now - waiter.troubled
            self._claims.setdefault(id(action.request), (waiter, last, answered, waiter.shown, action.request))

    def wrote(self, process: Process, key: str, action: Send, before: Any, after: Any) -> None:
        """Judge what a write did to those who wait."""
        old, new = _tickets(before), _tickets(after)
        last_write, self._written[key] = self._written.get(key, -1.0), self.world.now
        free_for = self._free_for(key, before or {})
        state = self._state(after or {})
        if self._grants.get(key, (None, 0.0))[0] != state:
            self._grants[key] = state, self.world.now
        if JAVA.released not in (before or {}) or state != self._state(before or {}):
            self._released[key] = self.world.now
        if old is None or new is None:
            self.disturbed.add(key)
            return
        if old == new and id(action.request) not in self._claims:
            return
        waiter, last, answered, shown, _ = self._claims.get(id(action.request), (None, False, 0.0, None, None))
        self._came(key, action, before, after)
        removed = [name for name in old if name not in new]
        if action.operation in ("PutItem", "DeleteItem"):  # the Java client's, replace=True, or the row is gone
            for name in removed:
                self._lost(name)
            return
        first = next((name for name in old if self._counts(old[name])), None)
        for name in removed:
            passed = name == first and waiter is not None and not last and min(free_for, answered) >= PATIENCE - _HOP
            mine = waiter is None or name in waiter.tickets
            if self._counts(old[name]) and not passed and not mine and key not in self.disturbed:
                self.fail("impatient", f"{process.name} removed {name}, alive or dead")
            self._removed(process, key, waiter, name, old[name], passed)
        granted = waiter is not None and self._is_grant(waiter, before or {}, after or {})
        if waiter is not None and granted and waiter.wanted.queue is not None and not last:
            self._granted(key, waiter, old, removed)
            self._judge_dead(key, waiter, old, removed)
        # One may pass that claims from what an earlier look has shown, or without any look a row of no weights.
        is_as_shown = last_write < shown if shown is not None else is_weighed(before)
        is_judged = is_as_shown and self.world.permits and not self.world.settings.answered_twice
        if waiter is not None and granted and is_judged:
            self._judge_passed(key, waiter, before, old, removed)

    def _came(self, key: str, action: Send, before: Any, after: Any) -> None:
        """Judge who came, who was renewed, and whether anybody was moved."""
        old, new, ticket = _tickets(before) or {}, _tickets(after) or {}, ticket_in(action)
        for name in new:
            if name not in old:
                if name not in self._owners or ticket is None or ticket[:TICKET_NAME] != name:
                    self.disturbed.add(key)
                else:  # taken anew, where a late copy of an append brings back a ticket that was removed
                    self._appends += 1
                    self.taken[name] = self._appends
                    if ticket_renewed(action) == name:
                        self.fail("came back to wait", f"a renewal brought back the ticket {name}")
        if key in self.disturbed:
            return
        if len(new) > MOST_WAITERS and len(new) > len(old):
            self.fail("crowd", f"{len(new)} wait for {key}")
        texts = _texts(after) or []
        if len(set(texts)) < len(texts):
            self.fail("crowd", f"a ticket is twice in {texts}")
        left = iter([text[:TICKET_NAME] for text in _texts(before) or []])
        stayed = [text[:TICKET_NAME] for text in texts if text[:TICKET_NAME] in old]
        taken = None if ticket is None or ticket_renewed(action) is not None else ticket[:TICKET_NAME]
        if not all(name in left for name in stayed if name != taken):
            self.fail("moved", f"{_texts(before)} became {texts}")

    def forged(self, key: str, before: Any, after: Any) -> None:
        """Somebody else wrote the waiters."""
        self.disturbed.add(key)
        for name in set(_tickets(before) or ()) - set(_tickets(after) or ()):
            self._lost(name)

    def _lost(self, name: str) -> None:
        if name in self._owners:
            self._owners[name].losses += 1

    def _removed(self, process: Process, key: str, waiter: Waiter | None, name: str, ticket: str, passed: bool) -> None:
        """A request of ours removed a ticket. Of those who wait, only one whose ticket has expired may lose it, and the
        first one, if it let a free lock go by.

        passed: whether the ticket was the first, the lock was free for as long as others have patience, and all reads
            of the remover were answered meanwhile.
        """
        owner = self._owners.get(name)
        if owner is None:
            return
        owner.losses += 1
        if owner.process is process and waiter in (None, owner):
            return
        self.world.counts["tickets removed"] += 1
        if not owner.waits or owner.process.dead or owner.losses > 2 or key in self.disturbed:
            return
        said = f"{owner.wanted.owner}, who waits, lost its ticket to {process.name}"
        now = self.world.now
        if not self._counts(ticket):
            if not owner.process.frozen and owner.process.faulted < now - _LOOKED_AFTER:
                self.fail("thrown out", f"{said}: it had expired")
        elif not passed:
            self.fail("thrown out", said)
        elif not owner.process.frozen and owner.process.faulted < now - PATIENCE - LONGEST_NAP:
            self.fail("thrown out", f"{said}: it was taken for dead")
        else:
            self.world.counts["taken for dead"] += 1

    def _counts(self, ticket: str) -> bool:
        """Whether a ticket counts for every front end, now."""
        now, apart = EPOCH + self.world.now, self.world.settings.front_ends
        return counts(ticket, int(now - apart)) and counts(ticket, int(now + apart))

    def _free_for(self, key: str, row: Any) -> float:
        """For how many seconds the row has shown the same grant, which is over."""
        _, since = self._grants.get(key, (None, 0.0))
        return self.world.now - max(since, self._over_since(key, row))

    def _over_since(self, key: str, row: Any) -> float:
        """Since when a row's grant is over for everybody: released, or past its expiry by the Date."""
        if JAVA.version not in row or self.world.permits:  # the size of a semaphore is a condition of each claim
            return 0.0
        expiry_ms, until = expiry_of(row[JAVA.version]["S"]), self.world.now
        if JAVA.released in row:
            until = self._released.get(key, 0.0)
        return until if expiry_ms is None else min(until, expiry_ms / 1000 - EPOCH - self.world.settings.front_ends)

    def _state(self, row: Any) -> Any:
        """The attributes that change with each grant."""
        return [row.get(name) for name in (JAVA.version, JAVA.token)[bool(self.world.permits) :]]

    def _is_grant(self, waiter: Waiter, before: Any, after: Any) -> bool:
        """Whether a write of a waiter takes the lock, and does not only correct."""
        if self.world.permits:
            name = attempt_of(waiter.wanted.owner)
            return name in by_attempt(after) and name not in by_attempt(before)
        version = before.get(JAVA.version)
        return bool(version != after.get(JAVA.version)) and (version or {}).get("S") not in waiter.versions

    def _left(self, key: str, waiter: Waiter) -> int:
        """How many permits are free. 0 for a lock."""
        permits = waiter.wanted.place.permits
        return 0 if permits is None else max(permits - sum(takes_in(self.world.table.get(key)).values()), 0)

    def _granted(self, key: str, waiter: Waiter, old: dict[str, str], removed: list[str]) -> None:
        """A waiter's claim landed, not as a last try. No more may wait ahead of it than permits are still free."""
        if waiter.losses > 1 or waiter.strayed:
            return  # goes on without the queue
        names = list(old)
        mine = [name for name in names if name in waiter.tickets]
        ahead = names[: names.index(mine[0])] if mine else names
        if key not in self.disturbed:  # also those that took their ticket earlier, wherever the row has them
            taken = self.taken[mine[0]] if mine else self._appends + 1
            ahead = [name for name in names if self.taken.get(name, taken) < taken]
        others = [name for name in ahead if name not in removed and self._owners.get(name) is not waiter]
        alive = [self._owners[name] for name in others if self._counts(old[name]) and self._is_alive(name)]
        if sum(owner.wanted.place.take for owner in alive) > self._left(key, waiter):
            said = f"{waiter.wanted.owner} got {key}, though {alive[0].wanted.owner} waits"
            self.fail("out of order", said)

    def _judge_passed(self, key: str, waiter: Waiter, before: Any, old: dict[str, str], removed: list[str]) -> None:
        """A claim landed in a row as its sender saw it. While one waits for more than 1 permit, whose ticket counts,
        what those ahead want is left to them; all are ahead of one without a ticket. So also of a last try, and of
        those who do not wait at all. Who takes more than 1 without a ticket passes nobody. Nobody wants more than the
        sender's N."""
        weighed, permits = is_weighed(before), waiter.wanted.place.permits or 1
        if hold_of(attempt_of(waiter.wanted.owner)) in map(hold_of, by_attempt(before)):
            return  # resumed
        names = list(old)
        mine = next((at for at, name in enumerate(names) if name in waiter.tickets), None)
        ahead = [name for name in names[:mine] if name not in removed and self._counts(old[name])]
        wants = [ticket_take(old[name]) for name in ahead]
        wants = [permits if want > 1 and not weighed else min(want, permits) for want in wants]
        is_heavy = max(wants, default=1) > 1 or (mine is None and waiter.wanted.place.take > 1)
        if is_heavy and sum(wants) > self._left(key, waiter):
            self.fail("passed", f"{waiter.wanted.owner} got {key}, though {ahead} wait for {wants}")

    def _judge_dead(self, key: str, waiter: Waiter, old: dict[str, str], removed: list[str]) -> None:
        """A claim removes the tickets ahead that had expired before it was sent: they would fill the row."""
        mine = next((at for at, name in enumerate(old) if name in waiter.tickets), None)
        if mine is None or not waiter.unharmed or waiter.losses > 1 or waiter.strayed:
            return
        for name, ticket in list(old.items())[:mine]:
            if name not in removed and (ticket_expiry(ticket) or 0) - EPOCH + DATES < self.world.now - _HOP:
                self.fail("dead kept", f"{waiter.wanted.owner} left the expired ticket {name} of {key}")

    def _is_alive(self, name: str) -> bool:
        """Whether the owner of a ticket waits for it, and no fault has kept it from looking after it.

        A freeze may stop the clock by which it observes a dead holder, so any fault counts.
        """
        owner = self._owners.get(name)
        if owner is None or not owner.waits or owner.process.dead or owner.process.frozen or owner.losses > 1:
            return False
        return owner.unharmed and owner.process.peek() < owner.wanted.wait_until

    def ahead(self, waiter: Waiter) -> int:
        """How many tickets are before those of a waiter."""
        names = list(_tickets(self.world.table.get(waiter.key)) or ())
        return next((at for at, name in enumerate(names) if name in waiter.tickets), len(names))

    def fewer(self, waiter: Waiter) -> float:
        """When the latest ticket ahead of a waiter expired: its patience begins anew. 0.0: none has."""
        tickets = list((_tickets(self.world.table.get(waiter.key)) or {}).values())[: self.ahead(waiter)]
        ends = [(ticket_expiry(ticket) or 0) - EPOCH + DATES for ticket in tickets]
        return max((end for end in ends if end <= self.world.now), default=0.0)

    def ended(self, waiter: Waiter) -> None:
        """An acquisition is over. If no fault hit it, none of its tickets is left.

        One whose process died is only collected: that may be at any moment, also after the run, and it left its ticket.
        """
        left = [name for name in _tickets(self.world.table.get(waiter.key)) or () if name in waiter.tickets]
        if left and waiter.unharmed and not waiter.process.dead and waiter.key not in self.disturbed:
            self.fail("ticket left", f"{waiter.wanted.owner} is done, and left its ticket {left[0]}")


def ticket_in(action: Send) -> str | None:
    """The ticket that a request takes or renews."""
    update, values = action.request.get("UpdateExpression", ""), action.request.get("ExpressionAttributeValues", {})
    if "list_append" in update:
        return str(values[":new"]["L"][0]["S"])
    return str(values[":new"]["S"]) if "] = " in update else None


def ticket_renewed(action: Send) -> str | None:
    """The name of the ticket that a request renews."""
    ticket, values = ticket_in(action), action.request.get("ExpressionAttributeValues", {})
    if ticket is None or "list_append" in action.request["UpdateExpression"]:
        return None
    name = ticket[:TICKET_NAME]
    return name if all(value["S"][:TICKET_NAME] == name for value in values.values()) else None


@remembered
def _tickets(item: Any) -> dict[str, str] | None:
    """The tickets in a row, by name. Of one that is there twice, the first. None if they cannot be read."""
    texts = _texts(item)
    if texts is None:
        return None
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(text[:TICKET_NAME], text)
    return found


def _texts(item: Any) -> list[str] | None:
    entries = (item or {}).get(JAVA.waiters, {"L": []}).get("L")
    if not isinstance(entries, list) or any("S" not in entry for entry in entries):
        return None
    return [entry["S"] for entry in entries]
