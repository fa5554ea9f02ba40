"""What is simulated: a plan for each kind of trouble, and the rules, each broken on its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from lambda_lock.core import requests, resume, row
from lambda_lock.core.protocol import Resumption
from lambda_lock.waker import function, look
from tests.prove.mistakes import Change, alter, planted, put, together, wrap
from tests.simulation.runs import Result

from . import filtering
from .scene import simulate

#: A bit of everything.
_ALL = {
    "faults": 0.02, "killed": 0.02, "dies": 0.1, "cancelled": 0.1, "gives_up": 0.1, "callers": 2, "late": 0.05,
    "doubled": 0.2, "unclear": 0.05, "throttled": 0.1, "forged": 3, "slow": 0.05}  # fmt: skip
#: By name.
PLANS: dict[str, dict[str, Any]] = {
    "calm": {"ordered": True, "executions": 12, "bound": 20.0},
    "calm, with newcomers": {"ordered": True, "executions": 12, "arrive": 100.0, "bound": 20.0},
    "calm permits": {"executions": 12, "permits": 3, "bound": 20.0},
    "network": {"faults": 0.03},
    "network, permits": {"faults": 0.03, "permits": 2, "executions": 10},
    "killed": {"killed": 0.08},
    "killed after a request": {"killed": 0.08, "after": True},
    "killed, permits": {"killed": 0.08, "after": True, "permits": 2, "executions": 10},
    "holders that die": {"dies": 0.4},
    "holders of permits that die": {"dies": 0.4, "permits": 2, "executions": 10},
    "sleepers that leave": {"cancelled": 0.3, "gives_up": 0.2, "executions": 10},
    "doubled and late records": {"late": 0.1, "doubled": 0.4},
    "lost records": {"lost": 0.2},
    "unclear calls": {"unclear": 0.2},
    "forged calls": {"forged": 20, "executions": 10},
    "strangers among the sleepers": {"strangers": 100, "executions": 12, "arrive": 60.0},
    "throttled": {"throttled": 0.4},
    "down for ten minutes": {"down": (10.0, 610.0)},
    "slow to wake": {"slow": 0.3},
    "beside those in the queue": {"callers": 4, "rounds": 25, "hold": (0.5, 2.0), "most": 40},
    "beside those in the queue, permits": {
        "callers": 5, "rounds": 15, "hold": (0.5, 2.0), "permits": 2, "executions": 8, "most": 60},
    "beside pollers": {"pollers": 3, "rounds": 60, "hold": (0.5, 2.0)},
    "weights": {"permits": 5, "takes": (1, 2, 5), "executions": 12, "bound": 20.0},
    "network, weights": {"faults": 0.03, "permits": 5, "takes": (1, 3, 5), "executions": 10},
    "killed, weights": {"killed": 0.08, "after": True, "permits": 4, "takes": (1, 2, 4), "executions": 10},
    "holders that die, weights": {"dies": 0.4, "permits": 5, "takes": (1, 3, 5), "executions": 10},
    "readers that poll beside a writer that sleeps": {
        "pollers": 8, "rounds": 60, "hold": (0.5, 2.0), "permits": 5, "takes": (1, 5), "light": True, "most": 60},
    "beside those in the queue, weights": {
        "callers": 4, "rounds": 8, "hold": (0.5, 2.0), "permits": 5, "takes": (1, 2, 5), "executions": 6, "most": 80},
    "all": {**_ALL, "after": True},
    "all, permits": {**_ALL, "permits": 2, "executions": 10},
    "all, weights": {**_ALL, "after": True, "pollers": 2, "permits": 4, "takes": (1, 2, 4), "executions": 10},
}  # fmt: skip


class Mutation:
    """plan: in which it shows. runs: within which it must. shows: the kinds of failure, one of which must be seen."""

    def __init__(self, plan: str, runs: int, change: Change, *shows: str, **more: Any) -> None:
        self.plan, self.runs, self.change, self.shows, self.more = plan, runs, change, shows, more


def _no_message(original: Any) -> Any:
    """A `_mark` without a message for the next look."""

    def mark(*arguments: Any) -> Iterator[Any]:
        steps, event = original(*arguments), None
        try:
            while True:
                step = steps.send(event)
                skipped = isinstance(step, look.Message)
                event = Resumption(arguments[0].talk.reading) if skipped else (yield step)
        except StopIteration as end:
            return end.value

    return mark


class _ByHolder(look.Claim, resume.HolderAcquisition):
    """A claim by holder: it takes over what its sleeper already holds."""


def _released_by_name(original: Any) -> Any:
    """A look that releases what a sleeper has, because its call is closed."""

    def call(self: Any, sleeper: Any) -> Iterator[Any]:
        answer = yield from original(self, sleeper)
        if isinstance(answer, look.ClosedError):
            read = yield from self.talk.ask(requests.read(self.place))
            row = self.place.row(read.item)
            if resume.holder_of(row.owner) == sleeper.holder:
                release = requests.release(self.place, owner=row.owner, token=row.token, content=requests.Content())
                yield from self.talk.exchange(release)
        return answer

    return call


_FORGOTTEN = ("forgotten", "stuck")

MUTATIONS: dict[str, Mutation] = {
    "no message for the end of a lease": Mutation(
        "holders that die", 20, wrap(look.Look, "_mark", _no_message), *_FORGOTTEN),
    "the entry removed before the call": Mutation(
        "killed", 100, alter("Look._serve", "line _call",
        "yield from sleepers.remove(self.place, lambda entry: entry == entries[0], self.talk)\n..."), *_FORGOTTEN,
        killed=0.15),
    "wakeAt written before the message": Mutation(
        "holders that die", 400,
        together(alter("Look._mark", "start", "late = 0"),
        alter("Look._mark", "line Message", "late = delay + LATER"),
        alter("Look._mark", "line Reply",
        "sent = yield from self.talk.write(update.request())\n"
        'if late:\n    yield Message(late)\nreturn isinstance(sent, Reply)')),
        *_FORGOTTEN, killed=0.15, after=True,
    ),
    "a claim by holder instead of an ordinary one": Mutation(
        "killed after a request", 200, put(look, "Claim", _ByHolder), "robbed", killed=0.15),
    "a holder's row released because its old call is closed": Mutation(
        "killed after a request", 200, wrap(look.Look, "_call", _released_by_name), "robbed", killed=0.15),
    "the release of a semaphore passes no filter": Mutation(
        "calm permits", 20, put(filtering, "FILTERS", function.FILTERS[:2]), *_FORGOTTEN),
    "a release passes no filter": Mutation("calm", 20, put(filtering, "FILTERS", function.FILTERS[:1]), *_FORGOTTEN),
    "no ticket for those who sleep": Mutation(
        "beside those in the queue", 20, alter("Look._mark", "line _stand_in_line", ""), "starved", rounds=60),
    "their ticket believed no longer than that of others": Mutation(
        "beside those in the queue", 20, put(row, "LONGEST_NAP_ASLEEP", 35), "starved", hold=(200.0, 240.0),
        lease=(260.0, 300.0), callers=3, rounds=20, most=20),
    "those who sleep before others that were first": Mutation(
        "beside those in the queue", 40, alter("Claim.see", "line append", ""), "jumped"),
    "newcomers who pass those who sleep": Mutation(
        "calm", 60, alter("HolderAcquisition.see", "call sleepers_come", "False"), "out of order", arrive=100.0),
    "a mark that is written each time": Mutation(
        "calm permits", 20, together(alter("Look._mark", "if sets", "False"),
        alter("Look._mark", "if attribute", "True")), "busy loop", "endless",
    ),
    "another look's claim taken for that of a waker that was killed": Mutation(
        "calm, with newcomers", 200, put(look, "AGAIN", -3), "out of order"),
    "a time of the next look believed that has passed": Mutation(
        "killed after a request", 20, alter("Look._mark", "if SPARED", "not 0 < wake_at <= now + delay + SPARED"),
        *_FORGOTTEN),
    "a message that comes before the time that wakeAt names": Mutation(
        "holders that die", 20, put(look, "LATER", -1), *_FORGOTTEN),
    "an entry removed at an index that may be another's by now": Mutation(
        "network, permits", 40,
        alter("sleepers.remove", "call require", 'update.require(f"attribute_exists({asleep}[{found[0]}])")'),
        *_FORGOTTEN),
    "a list without strangers written over who lay down meanwhile": Mutation(
        "strangers among the sleepers", 40,
        alter("without_strangers", "call require read", 'update.require(f"attribute_exists({asleep})")'), *_FORGOTTEN),
    "a registration that passes no filter": Mutation(
        "calm", 20, together(alter("sleepers._registration", "line NEWEST", ""),
        alter("sleepers._registration", "line newest values", "")), *_FORGOTTEN),
    "a ticket of the sleepers that does not say what the first of them takes": Mutation(
        "readers that poll beside a writer that sleeps", 20, alter("Look._mark", "argument take", "1"), "starved"),
    "a claim of one permit, whatever its sleeper takes": Mutation(
        "weights", 20, alter("Claim.__init__", "argument take", "None"), "of another weight"),
    "a ticket of the sleepers that stays as it is when another becomes the first": Mutation(
        "readers that poll beside a writer that sleeps", 100, alter("Look._stand_in_line", "term ticket_take", "False"),
        "starved", gives_up=0.3, executions=10),
    "who is cancelled keeps what was claimed for it": Mutation(
        "sleepers that leave", 60, alter("Look._serve", "term ClosedError", "False"), *_FORGOTTEN, bound=30.0),
}  # fmt: skip


def broken(name: str) -> AbstractContextManager[None]:
    return planted(MUTATIONS[name].change)


def play(seed: int, name: str, trace: Callable[[str], None] | None = None) -> Result:
    return simulate(seed, PLANS[name], trace, name)


def shown_by(name: str) -> str:
    """What the first run shows that finds a mutation. "": none does."""
    mutation = MUTATIONS[name]
    with broken(name):
        for seed in range(mutation.runs):
            failures = simulate(seed, PLANS[mutation.plan] | mutation.more).failures
            for kind in mutation.shows:
                if kind in failures:
                    return f"{kind}, in run {seed} of {mutation.plan!r}"
    return ""
