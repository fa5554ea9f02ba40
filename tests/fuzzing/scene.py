"""A client in counted time: every send goes over a real connection to the server that lies, and is charged to a clock
that stands still otherwise. So a bound on time is exact, whatever the machine does meanwhile."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest import mock

from lambda_lock import JAVA, AsyncLockClient, LockClient
from lambda_lock.client import session
from lambda_lock.core.outcome import Reply
from lambda_lock.errors import TransportError
from lambda_lock.testing import ManualClock
from lambda_lock.testing.memory import Memory
from lambda_lock.transport import Credentials, HttpsTransport
from tests.support.awaited import Awaited

from .bounds import Bound
from .liar import FAITHFUL, KINDS, Answer, Liar

KEYS = ("a", "b", "c")
NOW = 1_800_000_000.0
OWNED = {"owner_prefix": "me"}
WAIT = 4.0  # seconds; each second of a wait may cost a hundred requests
PATIENCE = 5.0  # real seconds for an answer that comes
IMPATIENCE = 0.04  # real seconds for an answer that does not come
_LUCK = (0.0, *[0.5] * 15, *[0.999] * 4)  # with no luck, a decision takes 500 requests
_SHARES = (0.0, 0.0, 0.05, 0.5, 0.999)


class Unbounded(BaseException):
    """An operation goes on although its bound is reached. No code of the library catches it for good."""


@dataclass(frozen=True)
class Script:
    """What the server answers: ``answers`` in turn, each with another seed; the truth from request ``honest`` on.

    shares: which part of its time-out each answer takes, in turn. luck: of all back-offs.
    """

    answers: tuple[Answer, ...] = ()
    honest: int | None = 0
    shares: tuple[float, ...] = (0.0,)
    luck: float = 0.5

    @property
    def is_faithful(self) -> bool:
        return all(answer.is_faithful for answer in self.answers)

    def at(self, index: int) -> Answer:
        if not self.answers or (self.honest is not None and index >= self.honest):
            return Answer("honest", 0)
        answer = self.answers[index % len(self.answers)]
        return replace(answer, seed=answer.seed + index)

    def smaller(self) -> Iterator[Script]:
        """Simpler scripts, the simplest first."""
        yield from (replace(self, honest=honest) for honest in range(10 if self.honest is None else self.honest))
        for at in range(len(self.answers)):
            if rest := self.answers[:at] + self.answers[at + 1 :]:
                yield replace(self, answers=rest)
        for simplest in (replace(self, shares=(0.0,)), replace(self, luck=0.5)):
            if simplest != self:
                yield simplest

    def __str__(self) -> str:
        said = ", ".join(f"{answer.kind} ({answer.seed})" for answer in self.answers)
        until = "" if self.honest is None else f"; honest from the request {self.honest} on"
        return f"[{said}]{until}; time-outs used: {self.shares}; luck {self.luck}"


def scripted(rng: random.Random, among: Collection[str] = KINDS) -> Script:
    """Draw a script: one answer for ever, some in turn, or a few and then honest ones."""
    kinds = sorted(among if rng.random() < 0.7 else FAITHFUL)
    kinds = [kind for kind in kinds if kind not in _RARE or rng.random() < 0.1]
    answers = tuple(Answer(rng.choice(kinds), rng.getrandbits(32)) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    honest = rng.choice((None, None, 1, 2, 4, 8, 16))
    shares = tuple(rng.choice(_SHARES) for _ in range(rng.choice((1, 3))))
    return Script(answers, honest, shares, rng.choice(_LUCK))


_RARE = frozenset({"slow bytes", "silence", "endless chunks", "endless head"})  # each costs real time


class Meter:
    """The transport of the clients: it counts the requests, and charges their time to the clock.

    memory: an honest table.
    limit: what may not be exceeded, from `limited` on.
    """

    name = "meter"

    def __init__(self) -> None:
        self.clock = CountedClock(self)
        self.memory = Memory({}, self.clock, JAVA)
        self.requests = 0
        self.limit: Bound | None = None
        self.began = self.clock.monotonic()

    def limited(self, limit: Bound | None) -> None:
        """Count anew, up to this limit, if any."""
        self.limit, self.requests, self.began = limit, 0, self.clock.monotonic()

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self.began

    def check(self) -> None:
        limit = self.limit
        if limit is not None and (self.requests > limit.requests or self.seconds > limit.seconds + 0.01):
            raise Unbounded(f"{self.requests} requests and {self.seconds:.1f} s; the bound is {limit}")

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        self.requests += 1
        self.check()
        return self.answer(self.requests - 1, operation, request, timeout)

    def answer(self, index: int, operation: str, request: dict[str, Any], timeout: float) -> Reply:
        """Answer the request with this number, since the count began."""
        raise NotImplementedError

    def close(self) -> None:
        """Count no longer."""
        self.limited(None)


class Scripted(Meter):
    """It chooses each answer of the server that lies."""

    def __init__(self, server: Liar) -> None:
        super().__init__()
        server.memory = self.memory
        self.inner = HttpsTransport("eu-west-1", f"http://127.0.0.1:{server.port}", Credentials("AKIA", "secret"))
        self.server = server
        self.script = Script()

    def answer(self, index: int, operation: str, request: dict[str, Any], timeout: float) -> Reply:
        script = self.script
        answer = self.server.next = script.at(index)
        share = script.shares[index % len(script.shares)]
        try:
            reply = self.inner.send(operation, request, timeout=IMPATIENCE if answer.stalls else PATIENCE)
        except TransportError as error:
            self.clock.advance(timeout * (1.0 if "timed out" in str(error) else share))
            raise
        except BaseException:
            self.clock.advance(timeout * share)
            raise
        self.clock.advance(timeout * share)
        return reply

    def close(self) -> None:
        super().close()
        self.script = Script((Answer("unheard", 0),), None)


class CountedClock(ManualClock):
    """A clock on which sleeping counts too."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(NOW)
        self._meter = meter

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._meter.check()


class Scene:
    """One client, on a table of its own, with a meter in between. Its rival asks the table itself."""

    key, keys, permits = "k", KEYS, 2
    item: ClassVar = {"Put": {"TableName": "locks", "Item": {"key": {"S": "order"}, "state": {"S": "paid"}}}}

    def __init__(self, meter: Meter, *, is_async: bool = False) -> None:
        self.meter, self.clock, self.memory = meter, meter.clock, meter.memory
        self.client: Any = Awaited(AsyncLockClient(**self.options())) if is_async else LockClient(**self.options())
        self.rival = LockClient(**{**self.options(), "transport": self.memory})
        self.kept: Any = None  # what was prepared

    def options(self) -> dict[str, Any]:
        return {"table": "locks", "transport": self.meter, "clock": self.clock, "heartbeat_period": 0, **OWNED}

    def close(self) -> None:
        self.meter.close()
        self.client.close(release=False)
        self.rival.close(release=False)


@contextmanager
def lucky(luck: float) -> Iterator[None]:
    """All back-offs of new clients have this luck."""
    with mock.patch.object(session, "_jitter", return_value=luck):
        yield
