"""What may be thrown into a generator while it waits, and what the shipped drivers do then.

There are three kinds. The drivers treat them alike, but for this:

- An *interrupt* (KeyboardInterrupt, SystemExit) comes at any moment, and again while the generator gives back what it
  took. A request that is under way may still arrive, but nobody sees its answer.
- A *cancellation* of a task waits until the request under way is answered, and drops the answer (drive_async.py). What
  follows is sent on a thread, to its end. If no thread is free for it, the generator is closed (GeneratorExit).
- An *ordinary error*: a transport failed in an unexpected way, or the client was closed while an acquire waited. On the
  thread of the heartbeat, this is the only kind.
"""

from dataclasses import dataclass
from typing import Any

from lambda_lock import errors
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.protocol import Send, Wait

from .world import GivenUp, Process, Steps, T, Task

INTERRUPT, CANCELLATION, ERROR = KINDS = ("interrupt", "cancellation", "error")
UNSENT, UNDER_WAY, ANSWERED = ("before it is sent", "under way", "answer dropped")
_TIMES = {INTERRUPT: (1, 1, 1, 2, 2, 3), CANCELLATION: (1,), ERROR: (1, 1, 2)}
_CLOSED = 0.1  # of the cancellations find no thread


class Cancelled(GivenUp):
    """As asyncio.CancelledError."""


#: What an acquisition may end with, as it is documented.
REFUSED = (
    errors.LockNotGrantedError, errors.LockLostError, errors.TransportError, ServiceError, errors.LockFormatError,
    errors.LockConfigurationError,
)  # fmt: skip


class Unexpected(Exception):
    """An ordinary error that no code knows: of a transport, or of a client that is closed."""


#: What an operation may end with because of this module. Catch these together.
THROWN = (GivenUp, Unexpected)


def driven(process: Process, task: Task | None, steps: Steps[T], what: str) -> Steps[T]:
    """Run the steps of one operation, as a driver does. Sometimes something is thrown into them, at any yield.

    task: None on the thread of the heartbeat.
    what: the operation, for the counts.
    """
    settings, rng = process.world.settings, process.world.rng
    if not settings.interrupt or rng.random() >= settings.interrupt:
        return (yield from steps)
    kind = ERROR if task is None else rng.choice(KINDS)
    return (yield from _Thrower(process, task, steps, what, kind).run())


@dataclass
class _Thrower:
    process: Process
    task: Task | None
    steps: Steps[Any]
    what: str
    kind: str
    yields: int = 0
    due: bool = False  # while an interrupt is planned

    def __post_init__(self) -> None:
        self.world = self.process.world
        self.left = self.world.rng.choice(_TIMES[self.kind])
        self.often = self.world.rng.choice((0.1, 0.3, 0.6, 1.0))  # of the yields, until none is left

    def run(self) -> Steps[Any]:
        told: Any = None
        while True:
            is_thrown = isinstance(told, BaseException)
            try:
                action = self.steps.throw(told) if is_thrown else self.steps.send(told)
            except StopIteration as end:
                return end.value
            if is_thrown and self.kind == CANCELLATION and self.world.rng.random() < _CLOSED:
                self.steps.close()
                self._watcher("closed")
                self._tell("closed")
                raise Cancelled
            how = self._draw(action)
            if how == UNSENT:
                told = self._error()
                self._watcher("unsent", action)
                self._note(how)
                continue
            if how == UNDER_WAY:
                self._plan(action)
            try:
                told = yield action
            except GivenUp as error:  # planned here, or by the client
                told = self._error() if self.due else error
                if self.due:
                    self._tell(UNDER_WAY)
            else:
                if how == ANSWERED:
                    told = self._error()
                    if isinstance(action, Send):
                        self._watcher("dropped")
                    self._note(how)
            self.due = False
            self.yields += 1

    def _draw(self, action: Send | Wait) -> str | None:
        """What happens at this yield."""
        rng = self.world.rng
        if not self.left or rng.random() >= self.often:
            return None
        self.left -= 1
        if isinstance(action, Wait):  # an error, as of a closed client, comes at the end of a wait
            return ANSWERED if self.kind == ERROR else UNDER_WAY
        if self.kind != INTERRUPT:
            return rng.choice((UNSENT, ANSWERED))
        return rng.choice((UNSENT, UNDER_WAY, UNDER_WAY, ANSWERED))

    def _plan(self, action: Send | Wait) -> None:
        world, number = self.world, self.yields
        delay = world.rng.uniform(0, action.seconds) if isinstance(action, Wait) else 10 ** world.rng.uniform(-3, 0.3)
        self.due = True
        assert self.task is not None
        world.at(world.now + delay, self.process.call, self.task.interrupt, lambda: self.due and self.yields == number)

    def _error(self) -> BaseException:
        if self.kind == ERROR:
            return Unexpected()
        return Cancelled() if self.kind == CANCELLATION else GivenUp()

    def _note(self, how: str) -> None:
        """As Task.interrupt, where no reply is waited for."""
        self.process.faulted = max(self.process.faulted, self.world.now)
        self.world.counts["given up"] += 1
        self._watcher("interrupted")
        self._tell(how)

    def _watcher(self, what: str, *arguments: Any) -> None:
        if self.task is not None and self.task.watcher is not None:
            getattr(self.task.watcher, what)(*arguments)

    def _tell(self, how: str) -> None:
        self.world.counts[f"thrown into {self.what}"] += 1
        self.world.trace(self.process.name, f"{self.kind} in {self.what}, {how}")
