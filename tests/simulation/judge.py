"""What must hold, in true time. The judge sees everything. The processes that it judges see only clocks and replies.

A process *holds* at a true time if a look at its clocks at that time would show its handle as held. A frozen process
looks when it thaws, and that look counts for the whole freeze. Dead processes hold nothing.
"""

from collections import Counter
from typing import Any, TypeAlias

from lambda_lock.core import lease
from lambda_lock.core.outcome import ConditionFailed, Reply
from lambda_lock.core.protocol import AcquireRequest, Send
from lambda_lock.core.row import Row, base_of, expiry_of, is_attempt
from lambda_lock.core.schema import JAVA

from .clocks import EPOCH
from .errands import SLACK, ByString, Commit, Errand, Release
from .foreign import ForeignHolding
from .forgets import Forgets
from .holding import OurHolding
from .items import by_attempt, number_in, row_of
from .line import Line
from .reaper import Reaper
from .world import Process, World

Holding: TypeAlias = OurHolding | ForeignHolding  # a lock that some process believes it holds
#: Which hold: the key of its lock, its base owner and its token.
_HoldName: TypeAlias = tuple[str, str | None, int | None]


class Judge:
    """Judges a run on locks.

    If holds outlive invocations (holds.py), a later attempt may take the hold from an earlier one: that is fenced.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.failures: dict[str, str] = {}  # the first of each kind
        self.changed: dict[str, float] = {}  # true time of the last write, by key
        self.writes: Counter[str] = Counter()
        self.errands: dict[int, Errand] = {}  # the releases that are under way, by their first request
        self.commits: dict[str, Commit] = {}  # by client token
        self.releases: dict[int, Release] = {}  # of our holdings, by any of their requests, including late copies
        self.completed: dict[str, list[int]] = {}  # until when events are done, in order of completion, by key
        self.results: dict[tuple[str, float], set[str | None]] = {}  # what was stored then, by key and that time
        self.forgets = Forgets(world)
        self.erasures: dict[int, Any] = {}  # the requests that erase a row, by their ids
        self.line = Line(world)
        self.reaper = Reaper(world) if world.settings.reap else None
        self.groups: dict[str, Any] = {}  # the acquisitions of several locks that are under way, by owner
        self.adopted: dict[str, set[str]] = {}  # the strings that were adopted in the row's life, by key
        self._requests: dict[int, AcquireRequest | None] = {}  # which wish a request serves (see ``takes``)
        self._kept: list[Any] = []  # these requests, so that no other one gets one of their ids
        self._holdings: dict[str, list[Holding]] = {}
        self._newest: dict[str, Holding] = {}  # granted, by key
        self._tokens: dict[str, int] = {}  # the newest token in the row's life, by key
        self._granted: dict[str, int] = {}
        self._plain: set[str] = set()  # rows last claimed by a plain lock, which does not see completions
        self._outlive = world.settings.executions != (0,)
        self.holders: set[str] = set()  # the names of executions that acquire by them
        self._asked: dict[int, int] = {}  # by wish: the token of the hold that it resumes
        self._gone: set[_HoldName] = set()  # holds that were released or taken over
        self._reaped: dict[str, set[_HoldName]] = {}  # by key, until the next write
        self._revived: set[str] = set()  # versions that resumed one of these
        self._landed: dict[_HoldName, list[AcquireRequest | None]] = {}  # by hold, in this order
        self._writers: dict[str | None, AcquireRequest | None] = {}  # by version: which wish's request wrote it

    def fail(self, kind: str, message: str) -> None:
        if kind in self.world.settings.forgiven:
            return
        self.world.trace("JUDGE", f"{kind}: {message}")
        self.failures.setdefault(kind, f"at {self.world.now:.3f} s: {message}")

    # -- the row

    def wrote(self, process: Process, action: Send, before: Any, key: str) -> None:
        """A write was carried out. ``before`` is the row of the lock ``key`` as it was."""
        after = self.world.table.get(key)
        if self._outlive:
            self._wrote_holds(action, key, self.shown(before), self.shown(after))
        self.changed[key] = self.world.now
        self.writes[key] += 1
        if after is not None and JAVA.version not in after:
            self.fail("no version", f"{process.name} left a row of {key} that the older clients cannot read")
        self._token(key, before, after)
        if id(action.request) in self.erasures:
            self._erased(key, before)
            return
        if self.world.settings.queue:
            self.line.wrote(process, key, action, before, after)
        if self.world.settings.event:
            self._completion(action, key, before or {}, after or {})
        release = self._release(action)
        if release is not None:
            release.landed(key, before, after)
        errand = self.errands.get(id(action.request))
        if errand is not None:
            errand.carried_out = True
        for holding in self._holdings.get(key, ()):
            if not holding.over and not holding.owns(after):
                self._suspect(holding, "robbed", f"{holding} lost its row to a request of {process.name}")
        if self.reaper is not None:
            self.reaper.wrote(key)

    def reaped(self, key: str, before: Any) -> None:
        """Time to live deleted the row of ``key``. No lock is lost by that, and no completion that still counts.

        If the next write is a late copy of the hold's own claim, it has the hold again: nobody came in between.
        """
        self._reaped[key] = self._names(key, self.shown(before))
        self.changed[key] = self.world.now
        self.writes[key] += 1
        for holding in self._holdings.get(key, ()):
            if not holding.over and holding.owns(before):
                self._suspect(holding, "robbed", f"{holding} lost its row to time to live")
        if key in self._plain:  # its ttl disregards completions (docs/how-it-works.md)
            self.completed.setdefault(key, []).append(0)  # none counts now; who saw one before may still say so
        if self.is_done(key):
            self.fail("erased", f"time to live deleted the completion of {key} until {self.completed[key][-1]}")
        self._tokens.pop(key, None)
        self._granted.pop(key, None)
        self.adopted.pop(key, None)
        self.line.forged(key, before, None)

    def _erased(self, key: str, before: Any) -> None:
        """Somebody erased the row of ``key``. Nobody may have had it, and no completion counts any more.

        Permits of the dead may go: those whose expiry has passed by a Date.
        """
        self.world.counts["erased"] += 1
        holders = [one for one in self._holdings.get(key, ()) if not one.over and one.owns(before)]
        holders = [one for one in holders if one.is_held(one.process.peek())]
        latest = EPOCH + self.world.now + self.world.settings.front_ends
        alive = [one for one in by_attempt(before).values() if one.expiry_ms / 1000 > latest]
        row = None if self.world.permits else row_of(before)
        if holders or alive or (row is not None and not row.is_free):
            self.fail("erased a holder", f"the row of {key} was erased under {holders or before}")
        self.completed.setdefault(key, []).append(0)  # who saw an older one before may still say so
        self._granted.pop(key, None)
        self.line.forged(key, before, None)

    def _token(self, key: str, before: Any, after: Any) -> None:
        # Deleted, or held by a foreign client, which drops our token or sets it back: a new life.
        if after is None or "fencingToken" not in after or expiry_of(after[JAVA.version]["S"]) is None:
            self._tokens.pop(key, None)
            self._granted.pop(key, None)
            if not self.world.deletes:  # if every release deletes, nothing is handed over
                self.adopted.pop(key, None)
            return
        token = int(after["fencingToken"]["N"])
        if before is not None and before.get("fencingToken") == after["fencingToken"]:
            return
        if token <= self._tokens.get(key, 0):
            self.fail("token", f"token {token} of {key} came after {self._tokens[key]}")
        self._tokens[key] = token

    # -- events

    def is_done(self, key: str) -> bool:
        """Whether the newest completion of an event still counts, no matter which front end is asked."""
        completed = self.completed.get(key)
        return completed is not None and completed[-1] > EPOCH + self.world.now + self.world.settings.front_ends

    def _completion(self, action: Send, key: str, before: Any, after: Any) -> None:
        """Judge a write to an event's row: only the owner completes the event, once, and a completion stays."""
        release = self._release(action)
        if release is not None and before.get(JAVA.owner) != {"S": release.holding.hold.owner}:
            self.fail("late release", f"{release.holding} released or completed {key}, which was another's")
        until = number_in(after, JAVA.completed_until)
        names = action.request.get("ExpressionAttributeNames", {}).values()
        if before.get(JAVA.token) != after.get(JAVA.token):
            plain = action.operation != "PutItem" and JAVA.completed_until not in names
            plain = plain and id(action.request) not in self.forgets.claims
            (self._plain.add if plain else self._plain.discard)(key)
        early = until - number_in(after, JAVA.ttl)
        if JAVA.ttl in after and early > 0 and key not in self._plain:
            self.fail("ttl", f"the row of {key} may go {early} s before its completion ends")
        if id(action.request) in self.forgets.requests:
            self.forgets.erased(action.request, key, before, after)
            return
        if self.is_done(key) and until < self.completed[key][-1]:
            self.fail("erased", f"the completion of {key} until {self.completed[key][-1]} became {until}")
        if release is not None and _completes(action):
            self._completed(release, key, until, action.operation == "TransactWriteItems")
        elif before.get(JAVA.completed_until) != after.get(JAVA.completed_until):
            self.fail("completed", f"{key} was completed by a request that is not a release")

    def _completed(self, release: Release, key: str, until: int, by_commit: bool) -> None:
        holding = release.holding
        release.completed = holding.completed = True
        self.world.counts["completions"] += 1
        assert holding.hold.window is not None, "only events are completed"
        # A Date is truncated to seconds, and front ends differ.
        unsure = 2.0 + 2 * lease.DRIFT * (release.started - holding.since)
        short = EPOCH + release.started + holding.hold.window - until
        if short > unsure:
            self.fail("window", f"{holding} completed {key} for {short:.1f} s less than its window")
        if self.is_done(key):
            self.fail("done twice", f"{holding} completed {key}, which was done until {self.completed[key][-1]}")
        if holding.failed:
            self.fail("false completion", f"{holding} completed {key}, but its handler failed")
        if holding.committing and not by_commit:
            self.fail("no effects", f"{key} was completed without what {holding} meant to write with it")
        self.completed.setdefault(key, []).append(until)
        self.results.setdefault((key, until), set()).add(holding.result)
        self.forgets.completed(key, until, holding.since)

    def _release(self, action: Send) -> Release | None:
        if action.operation == "TransactWriteItems":
            return self.commits.get(action.request["ClientRequestToken"])
        return self.releases.get(id(action.request))

    # -- holdings

    def granted(self, holding: Holding, token: int | None = None) -> None:
        world, key = self.world, holding.key
        newest = self._newest.get(key)
        if isinstance(holding, OurHolding):
            self._granted_ours(holding)
        world.counts["grants"] += 1
        world.trace(holding.process.name, f"GRANTED {key}: {holding}")
        holdings = [other for other in self._holdings.get(key, ()) if not other.over]
        self._meet(holding, holdings)
        self._holdings[key] = [*holdings, holding]
        self._newest[key] = holding
        holding.process.holdings = [*[one for one in holding.process.holdings if not one.over], holding]
        if not holding.owns(world.table.get(key)):
            self._suspect(holding, "robbed", f"{holding} was granted {key}, but the row is another's")
        if isinstance(holding, OurHolding) and holding.hold.window is not None:
            world.counts["events"] += 1
            if self.is_done(key):
                self.fail("done again", f"{holding} begins {key}, which is done until {self.completed[key][-1]}")
        if token is not None:
            self._grant_token(key, token)
        if newest is not None and self.is_fenced(holding):
            self._newest[key] = newest

    def _granted_ours(self, holding: OurHolding) -> None:
        """A resumed handle has the hold that was asked for, with nobody in between, and ends with its invocation."""
        hold, token = holding.hold, self._asked.get(id(holding.wanted))
        if token is not None and hold.token != token:
            self.fail("revived", f"{holding} was resumed by a string with token {token}")
        if token is not None and hold.place.view(hold.item).version in self._revived:
            self.fail("revived", f"{holding} was resumed, though its hold was released or lost before")
        if is_attempt(hold.owner) and hold.lease_end is not None and hold.valid_until > hold.lease_end:
            self.fail("deadline", f"{holding} is valid beyond the end of its invocation")

    def _grant_token(self, key: str, token: int) -> None:
        newest = self._newest[key]
        if isinstance(newest, OurHolding) and is_attempt(newest.hold.owner):
            return  # it has the token of its hold, even before the first handle learns of its grant
        if key in self._tokens:
            if token <= self._granted.get(key, 0):
                self.fail("token", f"token {token} of {key} was granted after {self._granted[key]}")
            self._granted[key] = token

    def looked(self, process: Process, elapsed: float) -> None:
        """A process with holdings looked at its clocks."""
        for holding in process.holdings:
            others = self._holdings[holding.key]
            if len(others) == 1 or holding.over or not holding.is_held(elapsed):
                continue
            self._meet(holding, [other for other in others if other is not holding and not other.over])

    def _meet(self, holding: Holding, others: list[Holding]) -> None:
        """``holding`` is valid, and so may the others be."""
        if self.is_fenced(holding):
            return
        for other in others:
            self._suspect(other, "overlap", f"{holding} and {other} hold {holding.key}")
            if self.world.settings.forgiven:
                left = min(one.hold.valid_until - one.process.peek() for one in (holding, other))  # type: ignore[union-attr]
                if left > 2 * (self.world.settings.drift / 1e6 - lease.DRIFT) * 3600 + SLACK:
                    self.fail("long overlap", f"{holding} and {other} hold {holding.key} for another {left:.1f} s")

    def thawed(self, process: Process) -> None:
        for holding in process.holdings:
            suspects, holding.suspects = holding.suspects, []
            if suspects and not holding.over and holding.is_held(process.peek()):
                for kind, message in suspects:
                    self.fail(kind, f"{message} (frozen then, and held at the thaw)")

    def _suspect(self, holding: Holding, kind: str, message: str) -> None:
        if self.is_fenced(holding):
            return
        if holding.process.frozen:
            holding.suspects.append((kind, message))
        elif holding.is_held(holding.process.peek()):
            self.fail(kind, message)

    # -- single acts

    def renewed(self, holding: Holding) -> None:
        """A renewal was granted: if the lock is held now, no one else has had it in between, not even in an outage."""
        newest = self._newest[holding.key]
        if holding.over or self.is_fenced(holding):
            return
        if newest is not holding and holding.is_held(holding.process.peek()):
            self.fail("came back", f"{holding} renewed {holding.key}, which {newest} has had since")

    def adopt(self, key: str, string: str) -> None:
        """A string was adopted. That may happen only once, as long as its row is kept."""
        strings = self.adopted.setdefault(key, set())
        if string in strings:
            self.fail("adopted twice", f"{key} was adopted twice by {string}")
        strings.add(string)

    def committed(self, token: str, befores: dict[str, Any]) -> None:
        """A commit was carried out. ``befores`` are the rows of its locks as they were."""
        commit = self.commits[token]
        commit.done += 1
        self.world.counts["commits"] += 1
        for holding in commit.not_owned(befores):
            self.fail("late write", f"{holding} wrote without the lock: commit {token}")
        if commit.done > 1:
            self.fail("written twice", f"{commit.holding} wrote twice: commit {token}")
        if commit.refused:
            self.fail("false refusal", f"{commit.holding} was told that commit {token} is refused; carried out later")

    def takes(self, wanted: AcquireRequest | None, action: Send) -> None:
        """A request is sent that takes, resumes or adopts a lock. wanted: None for a release by string."""
        self._kept.append(action.request)
        self._requests[id(action.request)] = wanted

    def expiry(self, holding: OurHolding, before_ms: int, beyond: float) -> None:
        """A correct writer's stored expiry frees the row soon after its lease if the writer dies now."""
        hold = holding.hold
        latest = EPOCH + self.world.now * (1 + lease.DRIFT) + hold.lease_ms / 1000 + lease.GRACE + beyond
        if hold.expiry_ms > max(before_ms + 2, latest * 1000):
            self.fail("expiry", f"{holding} wrote an expiry {hold.expiry_ms / 1000 - latest:.1f} s too late")

    def released(self, holding: OurHolding, done: bool, errand: Errand) -> None:
        """What `release` returned is true, and it left no late copy that it saw."""
        row = self.world.table.get(holding.key)
        if not done and errand.carried_out and not self.world.settings.answered_twice:
            self.fail("release", f"release of {holding} was False, but it was carried out")
        if not done and holding.freed and not self.world.settings.answered_twice:
            self.fail("false loss", f"release of {holding} was False, though it was released by its own last act")
        if self.changed.get(holding.key, 0.0) >= errand.sent:
            return
        if done and holding.owns(row):
            self.fail("release", f"release of {holding} was True, and it is still held")
        if done and self._outlive and self.has(holding.key, holding.hold.owner, holding.hold.token):
            self.fail("release", f"release of {holding} was True, and its hold is still held")
        if not isinstance(errand.outcome, (Reply, ConditionFailed)):  # no answer: what is left ends with its lease
            return
        if holding.interrupted and self._is_parked(holding, row):
            self.fail("held for nobody", f"release of {holding} left {holding.key} to a string that nobody has")
        if holding.has_an_entry(row):
            self.fail("copy left", f"release of {holding} left a late copy of its claim behind")

    def _is_parked(self, holding: OurHolding, row: Any) -> bool:
        """Whether the hold is parked, by a handover that was interrupted."""
        hold, shown = holding.hold, holding.hold.place.view(row or {})
        if hold.resumed or not hold.handed_over or shown.is_free or self.is_fenced(holding):
            return False
        return shown.token == hold.token and shown.owner == f"{base_of(hold.owner)}/"

    # -- holds that outlive an invocation

    def is_fenced(self, holding: Holding) -> bool:
        """Whether the hold has gone on without this holding: a later attempt, or a release by string, has landed.

        This goes by the order in which requests landed, and not by the names in the row.
        """
        if not isinstance(holding, OurHolding) or not self.world.settings.zombies:
            return False
        landed = self._landed.get((holding.key, base_of(holding.hold.owner), holding.hold.token), [])
        return holding.wanted in landed and landed[-1] is not holding.wanted

    def shown(self, item: Any) -> dict[str | None, Row]:
        """The holds that an item shows, by their base owners."""
        row = Row(item or {}, JAVA)
        return {} if row.is_free else {base_of(row.owner): row}

    def resumes(self, wanted: AcquireRequest, token: int) -> None:
        self._asked[id(wanted)] = token
        self._kept.append(wanted)

    def _wrote_holds(self, action: Send, key: str, olds: dict[str | None, Row], news: dict[str | None, Row]) -> None:
        release = self._release(action)
        if release is not None and self.is_fenced(release.holding) and not self._is_late_claim(olds, release.holding):
            self.fail("zombie", f"{release.holding} released {key}, which a later attempt had")
        old_names, new_names = self._names(key, olds), self._names(key, news)
        if id(action.request) in self._requests:
            wanted, landed = self._requests[id(action.request)], set()
            for base, new in news.items():
                old = olds.get(base)
                if old is None or old.version != new.version:
                    self._writers.setdefault(new.version, wanted)
                    # An acquisition may get two holds: one by a late copy of its claim. So the token counts, too.
                    landed |= {(key, base, new.token)} | ({(key, base, old.token)} if old else set())
            if wanted is None:
                landed |= old_names - new_names
            for hold in landed:
                self._landed.setdefault(hold, []).append(wanted)
        for base in olds.keys() & news.keys():
            if olds[base].owner != news[base].owner:
                self._passed_on(key, olds[base], news[base])
        self._gone |= (self._reaped.pop(key, set()) | old_names) - new_names

    def _names(self, key: str, holds: dict[str | None, Row]) -> set[_HoldName]:
        return {(key, base, row.token) for base, row in holds.items()}

    def _is_late_claim(self, holds: dict[str | None, Row], holding: OurHolding) -> bool:
        """Whether the row has a copy of the handle's own claim that landed after its hold was over: nobody has it."""
        row = holds.get(base_of(holding.hold.owner))
        is_another = row is not None and row.token != holding.hold.token
        return is_another and row is not None and self._writers.get(row.version) is holding.wanted

    def _passed_on(self, key: str, old: Row, new: Row) -> None:
        """A resume or a hand-over landed."""
        assert new.owner is not None
        self.world.counts["parked" if new.owner.endswith("/") else "resumed"] += 1
        old_ms, new_ms = expiry_of(old.version or ""), expiry_of(new.version or "")
        assert old_ms is not None
        assert new_ms is not None
        assert new.lease_ms is not None
        if (key, base_of(new.owner), new.token) in self._gone and new.version is not None:
            self._revived.add(new.version)
        if new_ms < old_ms:
            self.fail("expiry", f"{new.owner} turned the expiry of {key} back by {old_ms - new_ms} ms")
        if new.owner.endswith("/"):
            return
        latest = EPOCH + self.world.now * (1 + lease.DRIFT) + new.lease_ms / 1000 + lease.GRACE + 3.5
        if new_ms > max(old_ms + 2, latest * 1000):
            self.fail("expiry", f"{new.owner} wrote an expiry {new_ms / 1000 - latest:.1f} s too late")

    def released_by_string(self, key: str, owner: str, token: int, done: bool, errand: ByString) -> None:
        if self.changed.get(key, 0.0) >= errand.sent:
            return
        if self.has(key, owner, token):
            self.fail("release", f"release of {owner} by string was {done}, and it is still held")
        row = Row(self.world.table.get(key) or {}, JAVA)
        if not done and row.token == token and base_of(row.owner) == base_of(owner):
            self.fail("release", f"release of {owner} by string was False, and it is released")

    def has(self, key: str, owner: str, token: int) -> bool:
        """Whether the hold is held."""
        row = self.shown(self.world.table.get(key)).get(base_of(owner))
        return row is not None and row.token == token


def _completes(action: Send) -> bool:
    """Whether an update, or the last update of a transaction, completes an event."""
    request = action.request["TransactItems"][-1]["Update"] if "TransactItems" in action.request else action.request
    names = request.get("ExpressionAttributeNames", {})
    update = request.get("UpdateExpression", "")
    return any(f"{name} = " in update for name in names if names[name] == JAVA.completed_until)
