"""What must hold in every state. A failure is a kind, as in tests/simulation/judge.py, and a sentence."""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from lambda_lock.core import lease
from lambda_lock.core.permits import hold_of
from lambda_lock.core.protocol import Send
from lambda_lock.core.row import TICKET_NAME, base_of, read_row
from lambda_lock.core.schema import JAVA
from lambda_lock.testing.table import Table
from tests.simulation.clocks import DATES
from tests.simulation.errands import SLACK
from tests.simulation.items import attempt_of, is_held_by, number_in, takes_in, wrong_weights
from tests.simulation.network import answer, describe, describe_row

from .process import KEY, SECOND, Process, Setup
from .table import is_by_string

if TYPE_CHECKING:
    from .explore import Explorer, Node, State

Failure = tuple[str, str]
_EPOCH = 1_800_000_000
_REFUSED = ("acquire: LockNotGrantedError", "acquire: LockTimeoutError")
_HOP = SECOND // 100


class Judge:
    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.case = explorer.case
        self.tables = explorer.tables
        self.endings: Counter[str] = Counter()
        self.granted: set[tuple[str, int]] = set()  # owners and tokens
        self.closings = 0
        self.is_held = functools.cache(explorer.is_held)
        self._owns: dict[tuple[int, int], bool] = {}
        self._closed: set[tuple[int, int]] = set()
        self._wrote: dict[tuple[int, int], Failure | None] = {}
        # A copy may land between an answer and its receipt. Without slow answers, the two are one step.
        self._is_sure = not (self.case.doubles and self.case.slow)
        # No decision ends before the one fault is over: an acquire that ends without the lock has released its claim.
        self._retries = self.case.slow == 0 and self.case.faults <= 1
        queue = any(setup.queue for setup in self.case.processes)
        permits, window = self.case.processes[0].permits, self.case.processes[0].window
        self._newcomer = Setup(wait=30.0, lease=2000, permits=permits, window=window, queue=queue)

    def step(self, before: State, after: State, label: Any) -> Failure | None:
        """Judge what was written and told, whether or not the state after it was seen before."""
        if before[0] != after[0]:
            return None
        found = self._write(before, after, label) if before[1] != after[1] else None
        return found or self._told(before, after)

    def state(self, before: State, after: State) -> Failure | None:
        """Judge a new state. Time alone makes nobody valid."""
        if before[0] != after[0]:
            return None
        return (self.closing(after) if before[1] != after[1] else None) or self._holders(after)

    # -- who holds

    def _holders(self, state: State) -> Failure | None:
        """No more valid holders than permits, and each has the row. Fenced attempts are not counted: whoever resumes or
        releases by string knows them to be dead (core/resume.py)."""
        now, table = state[:2]
        valid = [number for number in state[4:] if self.is_held(number, now)]
        if not valid:
            return None
        fenced = self.tables.contents[table][3]
        nodes = [self.explorer.nodes[self.explorer.processes[number][0]] for number in valid]
        nodes = [node for node in nodes if node.held[3:5] not in fenced]
        if sum(self._take_of(table, node) for node in nodes) > self.case.permits:
            return "overlap", f"{' and '.join(node.held[3] for node in nodes)} hold the lock"
        for node in nodes:
            if not self._is_of(table, node):
                row = describe_row(self.tables.lock(table))
                return "robbed", f"{node.held[3]} (token {node.held[4]}) is valid, and the row is not its own: {row}"
        return None

    def _take_of(self, table: int, node: Node) -> int:
        """How many permits a hold has: as its caller believes, and as the row says."""
        shown = takes_in(self.tables.lock(table)) if self._newcomer.permits else {}
        return max(node.takes, shown.get(attempt_of(node.held[3]), 1))

    def _is_of(self, table: int, node: Node) -> bool:
        """Whether the row belongs to a hold, under its token."""
        key = (self.tables.contents[table][0], node.number)
        owns = self._owns.get(key)
        if owns is None:
            _, _, _, owner, token = node.held
            self.granted.add((owner, token))
            owns = self._owns[key] = is_held_by(self.tables.lock(table), owner, token, self._newcomer.permits)
        return owns

    # -- writes

    def _write(self, before: State, after: State, label: Any) -> Failure | None:
        now = before[0]
        if label[1] is None:  # the application's row alone
            return None
        index, request = label[1][1:3]
        old, new = self.tables.lock(before[1]), self.tables.lock(after[1])
        if now < self.case.foreign_until and (new or {}).get(JAVA.version) != self.case.row[JAVA.version]:
            return "robbed", "the foreign holder was taken over while it was valid"
        if self.tables.requests[request][0] == "TransactWriteItems" and not self._is_committer(request, old):
            return "late write", "a commit was carried out without the lock"
        key = before[1], after[1]
        if key not in self._wrote:
            self._wrote[key] = _tokens(old, new, self._newcomer.permits > 0) or wrong_weights(old, new)
        found = self._wrote[key] or self._release(before, old, new, request)
        if self._newcomer.queue and label[1][0] != "late":
            found = found or _misplaced(self.explorer, before, index, old, new)
        return found or self._completion(now, old or {}, new or {}, index, request)

    def _release(self, before: State, old: Any, new: Any, request: int) -> Failure | None:
        """Only the owner in the row releases it, and no fenced attempt does."""
        operation, body = self.tables.requests[request]
        if operation != "UpdateItem" or not old or JAVA.released in old or JAVA.released not in (new or {}):
            return None
        values = body.get("ExpressionAttributeValues", {})
        if old.get(JAVA.owner) not in values.values():
            return "late release", f"{values} released what {old[JAVA.owner]['S']} had"
        is_fenced = (old[JAVA.owner]["S"], number_in(old, JAVA.token)) in self.tables.contents[before[1]][3]
        if is_fenced and not is_by_string(body):
            return "zombie", f"{old[JAVA.owner]['S']} released its hold, which a later attempt had"
        return None

    def _is_committer(self, request: int, old: Any) -> bool:
        update = self.tables.requests[request][1]["TransactItems"][-1]["Update"]
        values = list(update["ExpressionAttributeValues"].values())
        if old is None or JAVA.released in old:
            return False
        if "permits" in old:
            return True
        return old[JAVA.owner] in values and old[JAVA.token] in values

    def _completion(self, now: int, old: Any, new: Any, index: int, request: int) -> Failure | None:
        """An event that is done is not begun or completed again, and stays done. Only its owner completes it, and one
        that commits only together with what it writes."""
        until, after = number_in(old, JAVA.completed_until), number_in(new, JAVA.completed_until)
        is_done = until > _EPOCH + (now + SECOND // 4) // SECOND
        if is_done and after < until:
            return "erased", f"the completion until {until} became {after}"
        if is_done and old.get(JAVA.token) != new.get(JAVA.token):
            return "done again", f"an event that is done until {until} was claimed"
        if after != until:
            values = self.tables.requests[request][1].get("ExpressionAttributeValues", {})
            if is_done:
                return "done twice", f"an event that is done until {until} was completed until {after}"
            if self.tables.requests[request][0] == "UpdateItem" and old.get(JAVA.owner) not in values.values():
                return "late release", f"{values} completed what another owns"
            if self.tables.requests[request][0] == "UpdateItem" and self.case.processes[index].acts == ("commit",):
                return "no effects", f"p{index} completed the event without its commit"
        return None

    # -- what callers are told

    def _told(self, before: State, after: State) -> Failure | None:
        for at in range(4, len(after)):
            node = self.explorer.nodes[self.explorer.processes[after[at]][0]]
            if node.told.startswith("commit: ") and (found := self._commit(node, after)):
                return found
            if before[at] == after[at]:
                continue
            if node.failure:
                return "escaped", node.failure
            if node.told.endswith("LockFormatError") and not self._is_unreadable(self.tables.lock(after[1])):
                return "refused", f"{node.asked} was told that its row is damaged"
            if node.held is not None and (found := self._stranger(node)):
                return found
            if node.robbed and node.robbed not in self.tables.contents[after[1]][3]:
                return "lost for nothing", f"{node.robbed[0]} was told that it lost a lock that was valid"
            row = self.tables.lock(after[1])
            was = self.explorer.nodes[self.explorer.processes[before[at]][0]]
            left = node.gave_up or (node.ended and self._retries)
            if left and node.clean and self._is_sure and _is_from(row, node):
                return "left behind", f"{node.asked} gave up, but left its claim: {describe_row(row)}"
            if was.held is None and node.held is not None and _is_from(row, node) and _is_late(row, after[0]):
                return "expiry", f"{node.asked} was granted the lock until too late: {describe_row(row)}"
            if node.told != was.told and node.told:
                self.endings[node.told] += 1
                if (found := self._by_string(node, row)) is not None:
                    return found
                if node.told in _REFUSED and node.tries == 1 and self._alone(at, after):
                    return "refused", f"{node.asked} did not get the lock, though nobody else was there"
                sure = node.clean and self._is_sure and not self._is_shared()
                if node.told == "release: True" and sure and _is_from(row, node):
                    return "release", f"release of {node.asked} was True, and it is still held"
                if node.told.startswith("release: ") and node.answered and sure and _is_from(row, node):
                    return "copy left", f"{node.asked} left a late copy of its claim: {describe_row(row)}"
                if node.told == "commit: done" and sure and _is_from(row, node):
                    return "release", f"the commit of {node.asked} is done, and the lock is still held"
                if node.told == "complete: True" and JAVA.completed_until not in (row or {}):
                    return "false success", f"{node.asked} was told that the event is done, and it is not"
        return None

    def _by_string(self, node: Node, row: Any) -> Failure | None:
        """Judge what a resume or a release by string was told. A hold that is over never comes back."""
        if node.wanted is None or not _has(row, *node.wanted):
            return None
        if node.told == "resume: LockLostError":
            return "refused", f"{node.asked} was told that its hold is lost, and it is there: {describe_row(row)}"
        if node.told in ("end: True", "end: False"):
            return "release", f"release of {node.wanted[0]} by string was {node.told[5:]}, and it is still held"
        return None

    def _stranger(self, node: Node) -> Failure | None:
        """A process that takes no strings never has the hold of another."""
        setup = self.case.processes[node.index]
        base = base_of(node.held[3]) or ""
        if any(setup.by_string.values()) or base.rpartition("#")[0] == (setup.holder or f"p{node.index}"):
            return None
        return "robbed", f"p{node.index} was granted what {base} has"

    def _is_shared(self) -> bool:
        setups = self.case.processes
        return any(any(setup.by_string.values()) or setup.holder or "hand over" in setup.acts for setup in setups)

    def _alone(self, at: int, state: State) -> bool:
        """Whether only this process has done anything yet, with a lock that was free, within a decision."""
        others = (number for other, number in enumerate(state[4:], 4) if other != at)
        in_time = state[0] - self.case.start < 4 * SECOND
        return self.case.row is None and in_time and all(map(self.explorer.is_new, others))

    def _commit(self, node: Node, state: State) -> Failure | None:
        done = any(token.startswith(f"{node.index:02x}") for token, _ in self.tables.contents[state[1]][2])
        if node.told == "commit: done" and not done:
            return "false success", f"the commit of {node.asked} is said to be done, and is not"
        soon = state[0] < self.case.start + 3 * SECOND // 2  # conflicts do not refuse while a lease lasts
        if node.told == "commit: CommitRefusedError" and soon and self.case.is_open and not self.case.flips:
            return "refused", f"{node.asked} was told that its commit is refused, though nothing was against it"
        if node.told in ("commit: CommitRefusedError", "commit: LockLostError") and done:
            return "false refusal", f"{node.asked} was told {node.told}, though its commit was carried out"
        return None

    # -- progress

    def end(self, state: State) -> Failure | None:
        """Nothing can happen any more: no process may still wait. (If a request hangs, another state can follow.)"""
        from .explore import is_idle

        if is_idle(state):
            return None
        for number in state[4:]:
            node = self.explorer.nodes[self.explorer.processes[number][0]]
            if any(node.actions):
                return "stuck", f"process {node.index} never goes on"
        return None

    def closing(self, state: State) -> Failure | None:
        """If all processes die now, a newcomer gets the lock: soon if it is free, else when its holder has expired."""
        now, table = state[:2]
        key = self.tables.contents[table][0], now
        if key in self._closed or self._is_unreadable(self.tables.lock(table)):
            return None
        self._closed.add(key)
        self.closings += 1
        row = self.tables.lock(table)
        started, latest = now, now + int(SLACK * SECOND) + self._ends(row, now)
        process = Process(99, self._newcomer, now)
        process.start(("acquire",), self._newcomer.read(now, 0))
        copy = Table()
        copy.store((KEY,), row)
        while process.hold is None:
            action = process.actions[0]
            if action is None:
                if self._is_done(row, now):
                    return None
                return "refused", f"a newcomer at {started / SECOND:.3f} was told no: {describe_row(row)}"
            outcome = None
            if isinstance(action, Send):
                now += _HOP
                outcome = answer(copy, action, _EPOCH + now // SECOND)
            else:
                now += math.ceil(action.seconds * SECOND)
            process.resume(0, outcome, self._newcomer.read(now, 0), False)
            if now > latest + _HOP:
                times = f"at {started / SECOND:.3f} still waits at {now / SECOND:.3f}"
                return "starved", f"a newcomer {times}: {describe_row(row)}"
        return None

    def _is_unreadable(self, item: Any) -> bool:
        """Whether the row is one that nobody may take: a foreign holder's, with no lease to go by."""
        row = read_row(item, JAVA, KEY)
        return row is not None and not row.is_free and "permits" not in row.item and row.lease_ms is None

    def _is_done(self, row: Any, now: int) -> bool:
        return number_in(row or {}, JAVA.completed_until) > _EPOCH + (now - SECOND // 4) // SECOND

    def _ends(self, item: Any, now: int) -> int:
        """Within how many units of time a process that sees the row now may take the lock."""
        row = read_row(item, JAVA, KEY)
        # The patience with the dead: no place here counts for longer than the longest wait, and a second.
        longest = 7 if self._newcomer.queue and row is not None and row.waiters else 0
        if row is None or row.is_free:
            return longest * SECOND
        held = [(text[3:16], row.lease_ms) for text in (row.version or "",)]
        if "permits" in row.item:
            held = [(entry["S"][3:16], int(entry["S"].split(":")[3])) for entry in row.item["permits"]["M"].values()]
            if sum(takes_in(item).values()) < self._newcomer.permits:
                return longest * SECOND
        ends = []
        for expiry, lease_ms in held:
            observed = SECOND + int((lease_ms or 0) / 1000 * (1 + 2 * lease.DRIFT) * SECOND)
            if expiry.isdigit():
                observed = min(observed, max(int((int(expiry) / 1000 - _EPOCH + DATES) * SECOND) - now, 0))
            ends.append(observed)
        return min(ends) + longest * SECOND + (2 * SECOND if longest else 0)

    def describe(self, label: Any) -> str:
        """One step, in words."""
        return "; ".join(self._step(*step) for step in label if step is not None)

    def _step(self, what: str, *about: Any) -> str:
        if what.startswith("time"):
            return "time passes" + (f", and the monotonic clock of p{about[1]} stops" if len(about) > 1 else "")
        if what == "flip":
            return "the application's row changes"
        who, *rest = about
        if what in ("takes", "wakes", "begins", "wakes early", "interrupted", "loses the answer"):
            shown = repr(self.tables.make(rest[0])) if what == "takes" else " ".join(map(str, rest))
            return f"p{who} {what} {shown}"[:90]
        operation, request = self.tables.requests[rest[0]]
        said = f"p{who}'s {describe(Send(operation, request, 1.0))}"
        if what != "sends":
            return f"{said}: {what}"
        kind, date, twice, *hangs = rest[1:]
        done = "done" if kind == "reply" else kind
        return ", ".join([f"{said}: {done}", f"Date {date - _EPOCH}", *filter(None, (twice, *hangs))])


def _is_from(item: Any, node: Node) -> bool:
    """Whether the row is held under the newest acquire of a process, as the nonce in its version tells."""
    if item is None or JAVA.released in item:
        return False
    if "permits" in item:
        return node.asked.rpartition("#")[2] in item["permits"]["M"]
    version = item[JAVA.version]["S"]
    return version[17:19] == f"{node.index:02x}" and item.get(JAVA.owner) == {"S": node.asked}


def _is_late(item: Any, now: int) -> bool:
    """Whether the expiry is beyond what a clock that is not fast would have written (lease.clock_was_fast)."""
    if "permits" in item:
        return False
    expiry, lease_ms = int(item[JAVA.version]["S"][3:16]), int(item[JAVA.lease]["S"])
    return expiry > (_EPOCH + now / SECOND + 0.25 + lease.GRACE + 3) * 1000 + lease_ms


def _tokens(old: Any, new: Any, semaphore: bool) -> Failure | None:
    """The row's token never falls, and rises with each new holder."""
    before, after = number_in(old or {}, JAVA.token), number_in(new or {}, JAVA.token)
    if after < before:
        return "token", f"token {after} came after {before}"
    if semaphore:
        held, holds = (set(map(hold_of, (item or {}).get("permits", {}).get("M", {}))) for item in (old, new))
        if len(holds) < len((new or {}).get("permits", {}).get("M", {})):
            return "maps", "a hold has two permits"
        if holds - held and after == before:
            return "token", f"a permit was granted under the token {after} again"
        if len(holds - held) > 1:
            return "token", "two permits were granted at once"
    elif new is not None and old is not None and _holder(old) != _holder(new) and after == before:
        return "token", f"another owner came under the token {after}"
    return None


def _holder(item: Any) -> str | None:
    return base_of(item.get(JAVA.owner, {}).get("S"))


def _has(item: Any, owner: str | None, token: int) -> bool:
    """Whether the row is that of a hold, and held."""
    is_held = item is not None and JAVA.released not in item
    return is_held and _holder(item) == owner and number_in(item, JAVA.token) == token


# -- who comes first in a queue ---------------------------------------------------------------------------------------
#
# The rules are those of tests/simulation/line.py. It is simpler here: nobody else writes the tickets. They are judged
# only where nothing has gone wrong yet. There, each one that waits looks after its place in time.


def _misplaced(explorer: Explorer, state: State, index: int, old: Any, new: Any) -> tuple[str, str] | None:
    """What is wrong with a write of the process ``index``, in ``state``, that made ``new`` of the row ``old``.

    A place is taken behind the others. Nobody in the queue is granted the lock before one that came earlier and waits,
    except by the last try of a wait. Nobody removes the place of one that waits.
    """
    before, after = _places(old), _places(new)
    came = [name for name in after if name not in before]
    if came and after[-len(came) :] != came:
        return "out of order", f"the place {came[0]} was not taken behind the others: {after}"
    number = state[4 + index]
    if not explorer.setups[index].queue or not explorer.is_undisturbed(state):
        return None
    last = explorer.is_last_try(number, state[0])
    mine = next((at for at, name in enumerate(before) if _waiter_of(name) == index), len(before))
    granted = number_in(new or {}, JAVA.token) > number_in(old or {}, JAVA.token)
    for at, name in enumerate(before):
        owner = _waiter_of(name)
        if owner == index or not explorer.waits(state[4 + owner], state[0], name):
            continue
        if granted and at < mine and not last:
            return "out of order", f"p{index} got the lock, though p{owner} waits before it"
        if name not in after:
            return "thrown out", f"p{owner}, who waits, lost its place to p{index}"
    return None


def _places(item: Any) -> list[str]:
    """The names of the places. A renewal changes only the rest of one."""
    row = read_row(item, JAVA, KEY)
    return [] if row is None else [place[:TICKET_NAME] for place in row.waiters or ()]


def _waiter_of(place: str) -> int:
    """The process that drew the name of a place (Process._nonce)."""
    return int(place[:2], 16)
