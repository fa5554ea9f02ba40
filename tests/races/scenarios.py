"""The pairs of acts whose threads are switched, and what must hold after each schedule.

A scenario prepares a world, names the acts, and judges their results. It never says which act comes first: every order
is right in which each caller was told the truth.
"""

import itertools
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lambda_lock import ClientClosedError, Lock, LockAlreadyReleasedError, LockLostError, OwnerMismatchError
from tests.prove.operations import close, commit, get, hand_over, release, renew

from .world import LEASE, THIEF, World

Act = Callable[[World], Any]
Verdict = Iterator[str]
Judge = Callable[[World, list[Any]], Verdict]

_DUE = 12.0  # seconds after the grant: a renewal is due, and validity lasts
_OVER = 30.0  # validity is over


@dataclass(frozen=True)
class Scenario:
    """prepare: runs before, without switches. acts: each on a thread of its own. judge: yields what is wrong.

    may_lose: whether the application may be told of a loss.
    settle: seconds that pass between the acts and the judge, with all that is due in them.
    in_memory: whether it runs on the tables in memory alone.
    """

    name: str
    acts: tuple[Act, ...]
    judge: Judge
    prepare: Act
    may_lose: bool = False
    settle: float = 3.0
    in_memory: bool = False


SCENARIOS: dict[str, Scenario] = {}


def _add(name: str, *acts: Act, judge: Judge, prepare: Act | None = None, **more: Any) -> None:
    SCENARIOS[name] = Scenario(name, acts, judge, prepare or _held, **more)


# -- before ------------------------------------------------------------------------------------------------------------


def _before(*keys: str, seconds: float = 0.0, stolen: bool = False) -> Act:
    """Acquire "k", or all of these keys, and let time pass. ``stolen``: then another gets the row of "k"."""

    def prepare(world: World) -> None:
        world.kept = world.acquire_all(*keys) if keys else world.acquire()
        world.notes["begun"] = world.clock.monotonic()
        world.clock.advance(seconds)
        if stolen:
            world.steal()

    return prepare


_held = _before()
_due = _before(seconds=_DUE)  # a renewal is due at once
_refused = _before(seconds=_DUE, stolen=True)  # and will be refused
_over = _before(seconds=_OVER)  # validity is over, and nobody has noticed
_two = _before("k", "l")
_two_due = _before("k", "l", seconds=_DUE)
_two_refused = _before("k", "l", seconds=_DUE, stolen=True)


def _handed_over(world: World) -> None:
    world.notes["string"] = world.acquire().hand_over(lease_duration=60)
    world.notes["other"] = world.new_client()


def _contended(world: World) -> None:
    world.notes["other"] = world.new_client()
    _due(world)


def _nothing(world: World) -> None:
    """No lock is held, and the heartbeat's thread was never started."""


# -- acts --------------------------------------------------------------------------------------------------------------


def _exit(world: World) -> Any:
    return world.kept.__exit__(None, None, None)


def _shorter(world: World) -> Any:
    return world.kept.heartbeat(lease_duration=6)


def _leave(world: World) -> Any:
    return world.client.close(release=False)


def _acquire(world: World) -> Any:
    return world.acquire("other")


def _acquire_waiting(world: World) -> Any:
    return world.acquire("k", world.notes["other"], wait=60)


def _acquire_here(world: World) -> Any:
    return world.acquire("k", wait=60)


def _acquire_all(world: World) -> Any:
    return world.acquire_all("other", "others")


def _close_other(world: World) -> Any:
    begun = world.clock.monotonic()
    world.notes["other"].close()
    world.notes["closing"] = world.clock.monotonic() - begun


def _adopt(world: World) -> Any:
    return world.client.adopt(world.notes["string"])


def _adopt_elsewhere(world: World) -> Any:
    return world.notes["other"].adopt(world.notes["string"])


def _read(world: World) -> Any:
    """What the handle says, again and again."""
    lock, said = world.kept, []
    for _ in range(4):
        said.append((lock.is_held, lock.lost, lock.remaining > 0))
        world.clock.sleep(0.5)
    return said


def _raise_if_lost(world: World) -> Any:
    before = world.kept.lost
    try:
        world.kept.raise_if_lost()
    except LockLostError:
        return before, True, world.kept.is_held
    return before, False, None


def _wait_lost(world: World) -> Any:
    lost = world.kept.wait_lost(50)
    world.notes["woken"] = world.clock.monotonic()
    return lost


def _fork(world: World) -> Any:
    """Fork. The child does not hold the lock, and takes, renews and releases another one. Returns its wait status."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return status
    code = 3
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # a child that hangs is killed
        world.scheduler.forked()
        world.watched.clear()
        code = _in_child(world)
    finally:
        os._exit(code)


def _in_child(world: World) -> int:
    try:
        world.kept.release()
        return 4
    except OwnerMismatchError:
        if world.kept.is_held:
            return 5
    mine = world.client.acquire("child", wait=0)
    world.clock.sleep(2 * LEASE)
    if not mine.is_held:
        return 6  # the child's own heartbeat did not renew it
    return 0 if mine.release() else 7


# -- judgements --------------------------------------------------------------------------------------------------------


def _errors(results: Sequence[Any], *allowed: type[BaseException]) -> Verdict:
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, allowed):
            yield f"an act raised {result!r}"


def _ended_by(world: World, how: str, result: Any, key: str = "k") -> Verdict:
    """The row after a last act that was said to have succeeded."""
    row = world.row(key)
    if world.kept.is_held:
        yield f"the handle says it is held after its {how}"
    if how == "hand_over":
        if row.is_free or row.owner != world.kept.owner:
            yield f"handed over, but the row names {row.owner} and is_free={row.is_free}"
            return
        adopted = world.do(lambda: world.new_client().adopt(result))
        if not adopted.is_held or not world.do(adopted.release):
            yield "what was handed over could not be adopted and released"
    elif not row.is_free:
        yield f"the row names {row.owner} after a {how}"
    if world.is_written() is not (how == "commit"):
        yield f"after a {how}, the item of the commit is there: {world.is_written()}"


def _one_last_act(first: str, second: str) -> Judge:
    """Exactly one took effect. The other one raised LockAlreadyReleasedError."""
    names = (first, second)

    def judge(world: World, results: list[Any]) -> Verdict:
        yield from _errors(results, LockAlreadyReleasedError)
        wins = [n for n in (0, 1) if not isinstance(results[n], BaseException)]
        if len(wins) != 1:
            yield f"{len(wins)} last acts succeeded: {results}"
            return
        result = results[wins[0]]
        if names[wins[0]] == "release" and result is not True:
            yield f"the release said {result!r}"
        yield from _ended_by(world, names[wins[0]], result)

    return judge


def _beside_end(how: str) -> Judge:
    """An end of a block or of the client beside a last act, which may come first or second."""

    def judge(world: World, results: list[Any]) -> Verdict:
        yield from _errors(results[:1])  # the end itself raises nothing
        yield from _errors(results[1:], LockAlreadyReleasedError)
        act = results[1]
        if isinstance(act, BaseException):
            yield from _ended_by(world, "exit", None)
        else:
            yield from _ended_by(world, how, act)

    return judge


def _alone(how: str) -> Judge:
    """A last act, beside renewals that must not disturb it. heartbeat() may be told that the lock is released."""

    def judge(world: World, results: list[Any]) -> Verdict:
        yield from _errors(results[:1])
        yield from _errors(results[1:], LockAlreadyReleasedError)
        if how == "release" and results[0] is not True:
            yield f"the release said {results[0]!r}"
        if not isinstance(results[0], BaseException):
            yield from _ended_by(world, how, results[0])

    return judge


def _is_kept(world: World, results: list[Any]) -> Verdict:
    """The lock is held and renewed for long."""
    yield from _errors(results)
    for _ in range(2):
        row = world.row()
        if not world.kept.is_held or row.is_free or row.owner != world.kept.owner:
            yield f"the lock was lost: the row names {row.owner}, is_free={row.is_free}, {world.kept!r}"
        if row.version != world.kept.version:
            yield "the row does not have the newest version that was sent"
        world.pass_time(3 * LEASE)
    if not world.do(world.kept.release):
        yield "the release of a lock that was kept said that it was lost"


def _told(world: World, *times: int) -> Verdict:
    """The loss was told so often by log, hooks and callbacks each."""
    for name, told in (("log", world.told.log), ("hooks", world.told.hooks), ("callbacks", world.told.callbacks)):
        if told.count("lost") not in times:
            yield f"the loss was told {told.count('lost')} times by the {name}"


def _lost_once(world: World, results: list[Any]) -> Verdict:
    """The row was stolen. Log, hooks and callbacks tell that once each, and no last act says that it succeeded."""
    yield from _errors(results, LockLostError, LockAlreadyReleasedError)
    row = world.row()
    if row.owner != THIEF or row.is_free:
        yield f"the thief's row was changed: {row.owner}, is_free={row.is_free}"
    if world.kept.is_held:
        yield "the handle says it is held"
    if any(result is True or isinstance(result, str) for result in results):
        yield f"a last act said that it succeeded: {results}"
    yield from _told(world, 1)


def _several_lost(world: World, results: list[Any]) -> Verdict:
    yield from _lost_once(world, results)
    if not world.is_free("l"):
        yield "the other lock is not free"


def _over_once(world: World, results: list[Any]) -> Verdict:
    """Validity had ended. Nobody else took the lock, so a last act may succeed. If it says so, it has."""
    yield from _errors(results, LockLostError, LockAlreadyReleasedError)
    if world.kept.is_held:
        yield "the handle says it is held"
    if not isinstance(results[0], BaseException):
        how = "hand_over" if isinstance(results[0], str) else "commit" if world.is_written() else "release"
        yield from _ended_by(world, how, results[0])
    yield from _told(world, 0, 1)


def _reads(world: World, results: list[Any]) -> Verdict:
    """What the handle said: a lost lock stays lost, and is never held."""
    (said,) = results
    yield from _lost_once(world, [])
    if isinstance(said, BaseException):
        yield f"a read raised {said!r}"
        return
    held, lost, _ = map(list, zip(*said, strict=True))
    if held != sorted(held, reverse=True) or lost != sorted(lost):
        yield f"the handle went back: {said}"
    if any(was_lost and later for (_, was_lost, _), (later, _, _) in itertools.pairwise(said)):
        yield f"held after it was lost: {said}"


def _raised(world: World, results: list[Any]) -> Verdict:
    yield from _lost_once(world, [])
    yield from _errors(results)
    for before, raised, held in (said for said in results if isinstance(said, tuple)):
        if before and not raised:
            yield "raise_if_lost did not raise after is_lost() was True"
        if raised and held:
            yield "it is held after raise_if_lost has raised"


def _woken(lost: bool) -> Judge:
    def judge(world: World, results: list[Any]) -> Verdict:
        if results[0] is not lost:
            yield f"wait_lost said {results[0]!r}"
        if not lost and world.notes["woken"] > world.notes["begun"] + 0.1:  # no thread had to wait for time
            yield "the release did not wake wait_lost"
        yield from _lost_once(world, []) if lost else _alone("release")(world, results[1:])

    return judge


def _all_free(*keys: str, allowed: tuple[type[BaseException], ...] = (ClientClosedError,)) -> Any:
    """The client was closed: none of these rows is held, and no handle says so."""

    def judge(world: World, results: list[Any]) -> Verdict:
        yield from _errors(results, *allowed)
        for key in keys:
            if not world.is_free(key):
                yield f"the row {key!r} is held for nobody, by {world.row(key).owner}"
        for result in (*results, world.kept):
            if result is not None and hasattr(result, "is_held") and result.is_held:
                yield f"{result!r} is held after its client was closed"

    return judge


def _gave_up(world: World, results: list[Any]) -> Verdict:
    """The acquire that waited found its client closed. The holder, which has another client, keeps the lock."""
    if results[0] is not None or not isinstance(results[1], ClientClosedError):
        yield f"close said {results[0]!r}, the acquire {results[1]!r}"
    elif world.notes["closing"] > 0.1:  # no thread had to wait for time
        yield "the end of the acquire did not wake close"
    yield from _is_kept(world, [])


def _taken_over(world: World, results: list[Any]) -> Verdict:
    """The first holder gave it up, and the one that waited has it, and keeps it."""
    yield from _errors(results)
    if isinstance(results[1], BaseException):
        return
    world.kept, first = results[1], world.kept
    if first.is_held:
        yield "both say that they hold it"
    yield from _is_kept(world, [])


def _one_adopted(world: World, results: list[Any]) -> Verdict:
    yield from _errors(results, LockLostError)
    adopted = [result for result in results if isinstance(result, Lock)]
    if len(adopted) != 1:
        yield f"{len(adopted)} adopted it"
        return
    world.kept = adopted[0]
    yield from _is_kept(world, [])


def _both_kept(world: World, results: list[Any]) -> Verdict:
    """Two locks that were acquired at once are renewed by one thread of the heartbeat."""
    yield from _errors(results)
    if not all(isinstance(result, Lock) for result in results):
        return
    world.pass_time(3 * LEASE)
    for lock in results:
        if not lock.is_held:
            yield f"{lock!r} was not renewed"
    threads = world.scheduler.running.count("lambda_lock-heartbeat")
    if threads != 1:
        yield f"{threads} threads of the heartbeat"


def _next_kept(world: World, results: list[Any]) -> Verdict:
    yield from _both_kept(world, results[1:])
    yield from _alone("release")(world, results[:1])


def _group_ended(how: str) -> Judge:
    def judge(world: World, results: list[Any]) -> Verdict:
        yield from _errors(results, LockAlreadyReleasedError)
        if not (world.is_free("k") and world.is_free("l")):
            yield "a row is not free"
        if world.kept.is_held:
            yield "the handle says that they are held"
        if how == "either" and sum(not isinstance(result, BaseException) for result in results) != 1:
            yield f"not exactly one last act succeeded: {results}"
        if how == "release" and results[0] is not True:
            yield f"the release said {results[0]!r}"
        if how == "either" and world.is_written() is not (results[1] is None):
            yield "the item does not fit to what the commit said"

    return judge


def _forked(then: Judge) -> Judge:
    def judge(world: World, results: list[Any]) -> Verdict:
        if results[0] != 0:
            yield f"the child ended with {results[0]!r} (14: it hung)"
        yield from then(world, results[1:])

    return judge


def _seen(world: World, results: list[Any]) -> Verdict:
    yield from _errors(results[:1])
    yield from _alone("release")(world, results[1:])


# -- the pairs ---------------------------------------------------------------------------------------------------------

_LAST: dict[str, Act] = {"release": release, "commit": commit, "hand_over": hand_over}

for _number, _first in enumerate(_LAST):
    for _second in list(_LAST)[_number:]:
        _add(f"{_first} / {_second}", _LAST[_first], _LAST[_second], judge=_one_last_act(_first, _second))
for _how, _act in _LAST.items():
    _add(f"end of block / {_how}", _exit, _act, judge=_beside_end(_how))
    _add(f"close / {_how}", close, _act, judge=_beside_end(_how))
    _add(f"renewal / {_how}", _act, judge=_alone(_how), prepare=_due)
    _add(f"heartbeat() / {_how}", _act, renew, judge=_alone(_how))
    _add(f"refused renewal / {_how}", _act, judge=_lost_once, prepare=_refused, may_lose=True)
    _add(f"end of validity / {_how}", _act, judge=_over_once, prepare=_over, may_lose=True)
_add("renewal / end of block", _exit, judge=_alone("exit"), prepare=_due)
_add("refused renewal / end of block", _exit, judge=_lost_once, prepare=_refused, may_lose=True)
_add("end of validity / end of block", _exit, judge=_over_once, prepare=_over, may_lose=True)
_add("renewal / heartbeat()", renew, judge=_is_kept, prepare=_due)
_add("heartbeat() / heartbeat()", renew, renew, judge=_is_kept)
_add("renewal / heartbeat() with a shorter lease", _shorter, judge=_is_kept, prepare=_due)
_add("refused renewal / heartbeat()", renew, judge=_lost_once, prepare=_refused, may_lose=True)
_add("refused renewal / reads", _read, judge=_reads, prepare=_refused, may_lose=True)
_add("refused renewal / raise_if_lost", _raise_if_lost, judge=_raised, prepare=_refused, may_lose=True)
_add("refused renewal / wait_lost", _wait_lost, judge=_woken(True), prepare=_refused, may_lose=True)
_add("release / wait_lost", _wait_lost, release, judge=_woken(False))
_add("release / get", get, release, judge=_seen)
_add("close / acquire", close, _acquire, judge=_all_free("other"), prepare=_nothing)
_add("close / acquire that waits", _close_other, _acquire_waiting, judge=_gave_up, prepare=_contended)
_add("close / acquire_all", close, _acquire_all, judge=_all_free("other", "others"), prepare=_nothing)
_add("close / close", close, close, judge=_all_free("k"))
_add("close / renewal", close, judge=_all_free("k"), prepare=_due)
_add("close / refused renewal", close, judge=_lost_once, prepare=_refused, may_lose=True)
_add("close / heartbeat()", close, renew, judge=_all_free("k", allowed=(ClientClosedError, LockAlreadyReleasedError)))
_add("close without releases / acquire", _leave, _acquire, judge=_all_free(), prepare=_nothing)
_add("close without releases / acquire_all", _leave, _acquire_all, judge=_all_free(), prepare=_nothing)
_add("close without releases / renewal", _leave, judge=_all_free(), prepare=_due)
_add("renewal / release / acquire of another client", release, _acquire_waiting, judge=_taken_over, prepare=_contended)
_add("renewal / commit / acquire of another client", commit, _acquire_waiting, judge=_taken_over, prepare=_contended)
_add("release / acquire of the same client", release, _acquire_here, judge=_taken_over)
_add("adopt / adopt", _adopt, _adopt_elsewhere, judge=_one_adopted, prepare=_handed_over)
_add("acquire / acquire", _acquire, _acquire_here, judge=_both_kept, prepare=_nothing)
_add("release / acquire of another lock", release, _acquire, judge=_next_kept)
_add("several: release / commit", release, commit, judge=_group_ended("either"), prepare=_two)
_add("several: release / release", release, release, judge=_group_ended("either"), prepare=_two)
_add("several: renewals / release", release, judge=_group_ended("release"), prepare=_two_due)
_add("several: close / release", close, release, judge=_group_ended("close"), prepare=_two)
_add("several: refused renewal / release", release, judge=_several_lost, prepare=_two_refused, may_lose=True)
_add("several: refused renewal / end of block", _exit, judge=_several_lost, prepare=_two_refused, may_lose=True)
_add("fork / renewal", _fork, judge=_forked(_is_kept), prepare=_due, in_memory=True)
_add("fork / release", _fork, release, judge=_forked(_alone("release")), in_memory=True)
_add("fork / heartbeat()", _fork, renew, judge=_forked(_is_kept), in_memory=True)
