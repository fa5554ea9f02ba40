"""What happens to a request: it is delivered, lost, late, or delivered twice. The same goes for its reply."""

from typing import Any, TypeAlias

from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled, TransportError
from lambda_lock.core.protocol import Send
from lambda_lock.testing.table import Table
from lambda_lock.transport.answers import refusal

from .clocks import EPOCH
from .world import Task, World

Outcome: TypeAlias = Reply | ConditionFailed | TransactionCanceled | ServiceError
REMEMBERED = 600.0  # seconds for which DynamoDB remembers a client token
#: What may become of a request, with its text in a trace. The share of each is a setting, but for the last one.
_SAID = {
    "lost": "lost", "reply_lost": "reply lost", "double": "twice", "late": "late", "failed_after": "5xx, carried out",
    "failed_before": "5xx, not carried out", "throttled": "throttled", "unsent": "not sent",
    "slow": "slow: {:.2f} + {:.2f} s", "answered_twice": "twice; the second is answered",
    "minutes_late": "minutes late"}  # fmt: skip
_FATES = [name for name in _SAID if name != "minutes_late"]
OPEN_CONNECTION = 1.0  # seconds that a transport waits for an answer on an open connection


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self._fates = [(name, getattr(world.settings, name)) for name in _FATES]
        self._trouble = sum(share for _, share in self._fates)

    def send(self, task: Task, serial: int, action: Send) -> None:
        world = self.world
        rng = world.rng
        world.counts["requests"] += 1
        timeout = action.timeout
        if rng.random() < 0.8:
            timeout = min(timeout, OPEN_CONNECTION)
        self._trace(task, action, "sends")
        if task.watcher is not None:
            task.watcher.sends(action)
        share = world.settings.late_give_backs
        if share and is_release(action) and not task.process.spared and rng.random() < share:
            self._meet("minutes_late", task, serial, action, timeout)
            return
        draw = rng.random()
        if draw < self._trouble and not task.process.spared:
            for fate, share in self._fates:
                if draw < share:
                    self._meet(fate, task, serial, action, timeout)
                    return
                draw -= share
        self._deliver(task, serial, action, timeout, self._hop(), self._hop())
        if world.settings.freeze and rng.random() < world.settings.freeze / 2:
            world.at(world.now + rng.uniform(0, 0.05), task.process.maybe_freeze)
        stopped = world.settings.stopped_reads
        if stopped and action.operation == "GetItem" and not task.process.spared and rng.random() < stopped:
            world.at(world.now + rng.uniform(0, 0.02), task.process.freeze, 10 ** rng.uniform(0, 1.7), set())

    def _meet(self, fate: str, task: Task, serial: int, action: Send, timeout: float) -> None:
        """Let this fate happen to a request."""
        rng, slow = self.world.rng, (0.0, 0.0)
        self.world.counts["faults"] += 1
        over = self.world.now + timeout  # at the latest, unless the process freezes
        task.process.faulted = max(task.process.faulted, over)
        if fate == "slow":
            slow = 10 ** rng.uniform(-1, 0.5), 10 ** rng.uniform(-1, 0.5)
        self._trace(task, action, f"  ({_SAID[fate].format(*slow)})")
        match fate:
            case "lost":
                self._time_out(task, serial, timeout)
            case "reply_lost":
                self._fly(self._hop(), task, action)
                if rng.random() < 0.5:
                    self._time_out(task, serial, timeout)
                else:
                    self._answer(self._hop() + self._hop(), task, serial, TransportError(True))
            case "double":
                self._fly(self._long(), task, action)
                self._deliver(task, serial, action, timeout, self._hop(), self._hop())
            case "late" | "minutes_late":
                self._fly(self._long() if fate == "late" else rng.uniform(60, 600), task, action)
                self._time_out(task, serial, timeout)
            case "failed_after":
                hop = self._hop()
                self._fly(hop, task, action)
                self._answer(hop + self._hop(), task, serial, _unclear(action, serial, "InternalServerError"))
            case "failed_before":
                self._answer(self._hop(), task, serial, _unclear(action, serial, "ServiceUnavailable"))
            case "throttled":
                codes = ["ThrottlingException", "TransactionConflictException"]
                if action.operation == "TransactWriteItems":
                    codes = ["ThrottlingException", "TransactionInProgressException", "conflict"]
                code = rng.choice(codes)
                if code == "conflict":
                    self.world.at(self.world.now + self._hop(), self._arrive, task, serial, action, self._hop(), True)
                else:
                    self._answer(self._hop(), task, serial, ServiceError(code, "", True, self._date()))
            case "unsent":
                self._answer(self._hop(), task, serial, TransportError(False))
            case "slow":
                ways = ((slow[0], self._hop()), (self._hop(), slow[1]), slow)
                self._deliver(task, serial, action, timeout, *rng.choice(ways))
            case "answered_twice":
                hop = self._hop()
                self._fly(hop, task, action)
                self._deliver(task, serial, action, timeout, hop + self._hop(), self._hop())

    # -- parts

    def _hop(self) -> float:
        return self.world.rng.uniform(0.001, 0.02)

    def _long(self) -> float:
        """How late a late copy is: from less than a timeout to several leases."""
        rng = self.world.rng
        is_near = rng.random() < 0.6
        return min(10 ** rng.uniform(-0.5, 1.0), 10.0) if is_near else self.world.scale * rng.uniform(0.05, 2.5)

    def _deliver(self, task: Task, serial: int, action: Send, timeout: float, there: float, back: float) -> None:
        if there + back >= timeout:
            self._fly(there, task, action)
            self._time_out(task, serial, timeout)
        else:
            self.world.at(self.world.now + there, self._arrive, task, serial, action, back)

    def _arrive(self, task: Task, serial: int, action: Send, back: float, conflict: bool = False) -> None:
        if conflict:
            self.world.table.busy = {(key,) for key in keys_of(action)[self.world.rng.randrange(2) :]}
        self._answer(back, task, serial, self._execute(task, action))
        self.world.table.busy = set()

    def _fly(self, seconds: float, task: Task, action: Send) -> None:
        self.world.at(self.world.now + seconds, self._execute, task, action)

    def _execute(self, task: Task, action: Send) -> Outcome:
        world = self.world
        if action.operation == "GetItem" and not world.traced:
            return Reply(world.table.apply("GetItem", action.request), self._date())
        before = {key: world.table.get(key) for key in locks_of(action)}
        again = action.request.get("ClientRequestToken") in world.table.done
        outcome = answer(world.table, action, self._date())
        if isinstance(outcome, ServiceError) and not world.settings.forge:  # those who forge waiters cause some
            raise outcome
        if world.traced:
            what = "done before" if again else "done" if isinstance(outcome, Reply) else f"refused ({outcome})"
            shown = f"{what}; {describe_row(world.table.get(keys_of(action)[-1]))}; Date {outcome.date}"
            world.trace("table", f"{task.process.name}'s {describe(action)}: {shown}")
        if action.operation != "GetItem" and isinstance(outcome, Reply) and not again:
            for key, row in before.items():
                world.judge.wrote(task.process, action, row, key)
            if action.operation == "TransactWriteItems":
                token = action.request["ClientRequestToken"]
                world.judge.committed(token, before)
                world.at(world.now + REMEMBERED, world.table.done.pop, token, None)
        return outcome

    def _date(self) -> int | None:
        """The Date header of a front end, now."""
        rng, settings = self.world.rng, self.world.settings
        if settings.dateless and rng.random() < settings.dateless:
            return None
        spread = settings.front_ends
        offset = rng.choice((-spread, spread)) if rng.random() < 0.5 else rng.uniform(-spread, spread)
        return int(EPOCH + self.world.now + offset)

    def _answer(self, seconds: float, task: Task, serial: int, outcome: Any) -> None:
        if self.world.settings.dateless and getattr(outcome, "date", 0) is None:  # an answer without Date is a fault
            task.process.faulted = self.world.now + seconds
        self.world.at(self.world.now + seconds, task.process.call, task.resume, serial, outcome)

    def _time_out(self, task: Task, serial: int, timeout: float) -> None:
        self._answer(timeout, task, serial, TransportError(True))

    def _trace(self, task: Task, action: Send, what: str) -> None:
        if self.world.traced:
            self.world.trace(task.process.name, f"{what} {describe(action)}" if what == "sends" else what)


def answer(table: Table, action: Send, date: int | None) -> Outcome:
    """Carry a request out. Returns what its sender is told with this Date."""
    try:
        return Reply(table.apply(action.operation, action.request), date)
    except (ConditionFailed, TransactionCanceled, ServiceError) as refused:
        refused.date = date
        return refused


def _unclear(action: Send, serial: int, code: str) -> Exception:
    """An answer that does not say whether the request was carried out. For every second write it is the error of a
    table with multi-Region strong consistency whose row another Region writes."""
    if serial % 2 and action.operation in ("UpdateItem", "PutItem", "DeleteItem"):
        return refusal("ReplicatedWriteConflictException", "", {}, None)
    return ServiceError(code, "", True, None)


def keys_of(action: Send) -> list[str]:
    """The rows that a request is about. The lock's row is the last."""
    return [(update.get("Key") or update["Item"])["key"]["S"] for update in _parts(action)]


def locks_of(action: Send) -> list[str]:
    """The locks that a request is about: one, or those of a commit."""
    keys = zip(keys_of(action), _parts(action), strict=True)
    return [key for key, part in keys if part["TableName"] == "locks"]


def _parts(action: Send) -> list[dict[str, Any]]:
    request = action.request
    return [item["Update"] for item in request["TransactItems"]] if "TransactItems" in request else [request]


def is_release(action: Send) -> bool:
    """Whether a request gives back a lock, a claim or a place. All other updates ask for the new row, or go above its
    version ("<")."""
    request = action.request
    if action.operation == "UpdateItem":
        if request["UpdateExpression"].startswith("SET #next_at = #next_at - "):  # a start of a rate limit
            return True
        return "ReturnValues" not in request and " < " not in request.get("ConditionExpression", "")
    return action.operation == "DeleteItem"


def describe(action: Send) -> str:
    request = action.request
    if action.operation == "TransactWriteItems":
        return f"commit {request['ClientRequestToken']}"
    if action.operation == "GetItem":
        return "read"
    if action.operation == "PutItem":
        return f"put {request['Item'].get('recordVersionNumber', {}).get('S')}"
    values = [next(iter(value.values())) for value in request.get("ExpressionAttributeValues", {}).values()]
    update = request.get("UpdateExpression", "delete")
    if "#next_at" in update:
        kind = "give-back" if " - " in update else "take"
    elif "if_not_exists" in update:
        kind = "claim" if "attribute_not_exists" in request["ConditionExpression"] else "take-over"
    elif action.operation == "DeleteItem":
        kind = "delete"
    else:
        kind = "renewal" if "<" in request["ConditionExpression"] else "release"
        kind = "adopt" if kind == "renewal" and " + " in update else kind
        if kind == "renewal" and "ReturnValues" in request:
            kind = "park" if values[0].endswith("/") else "resume"
    return f"{kind} {values}"


def describe_row(item: Any) -> str:
    if item is None:
        return "no row"
    texts = {name: next(iter(value.values())) for name, value in item.items() if name not in ("key", "ttl")}
    return " ".join(f"{name}={text}" for name, text in texts.items())
