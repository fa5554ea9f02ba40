"""What others write between the reads and the writes of a look, and what a look leaves to those who are awake."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import LockNotGrantedError
from lambda_lock.core.outcome import ConditionFailed

from .support import Scene
from .test_waker import held as held

Send = Callable[..., Any]


def before(scene: Scene, key: str, act: Callable[[], object]) -> None:
    """Carry out ``act`` right before the next write to the row of ``key``."""
    pending = [act]
    watch(scene, key, lambda _: pending.pop()() if pending else None)


def watch(scene: Scene, key: str, seen: Callable[[Callable[[], object]], object]) -> None:
    """Tell of each write to the row of ``key``, before it is carried out, with what carries it out."""
    send: Send = scene.memory.send

    def between(operation: str, request: Any, *, timeout: float) -> Any:
        if operation == "UpdateItem" and request["Key"]["key"]["S"] == key:
            seen(lambda: send(operation, request, timeout=timeout))
        return send(operation, request, timeout=timeout)

    scene.memory.send = between  # type: ignore[method-assign]


def arrive(copies: list[Callable[[], object]]) -> None:
    assert copies
    for again in copies:
        with contextlib.suppress(ConditionFailed):
            again()


def copied(scene: Scene) -> list[Callable[[], object]]:
    """The writes from now on to the row of "k", to be carried out once more."""
    copies: list[Callable[[], object]] = []
    watch(scene, "k", copies.append)
    return copies


def test_an_entry_that_moved_up_meanwhile_is_not_removed_in_the_place_of_another(scene, held):
    scene.lies_down(*"ab")
    held.release()
    before(scene, "k~sleepers", lambda: scene.gets_up("a"))
    scene.look()
    assert scene.calls.called == ["token-a"]
    assert scene.sleepers() == ["b"]


def test_who_lies_down_again_does_not_write_over_one_who_moved_up_meanwhile(scene):
    scene.memory.hold("k")
    scene.lies_down(*"ab")
    before(scene, "k~sleepers", lambda: scene.gets_up("a"))
    scene.lies_down("a")
    assert scene.sleepers() == ["b", "a"]


def test_one_who_began_to_wait_awake_before_the_claim_comes_first(scene):
    scene.client.acquire("k", wait=0).release()
    scene.lies_down("a")
    before(scene, "k", lambda: scene.update("SET waiters = :v", {"L": [scene.ticket()]}))
    scene.look()
    assert scene.calls.called == []
    assert scene.line() == ["abcdefgh", "~sleeper"]


def test_a_claim_takes_the_sleepers_out_of_the_line_and_the_next_is_behind_who_waits_awake(scene, held):
    scene.lies_down(*"ab")
    scene.look()
    scene.update("SET waiters = list_append(waiters, :v)", {"L": [scene.ticket()]})
    held.release()
    scene.look()
    assert scene.calls.called == ["token-a"]
    assert scene.line() == ["abcdefgh", "~sleeper"]


def test_a_claim_does_not_take_another_out_of_a_line_that_moved_up_meanwhile(scene, held):
    scene.lies_down("a")
    scene.look()
    ours = scene.row()["waiters"]["L"][0]
    first, second = scene.ticket("first---"), scene.ticket("second--")
    held.release()
    scene.update("SET waiters = :v", {"L": [ours, first, second]})
    before(scene, "k", lambda: scene.update("SET waiters = :v", {"L": [first, second]}))
    scene.look()
    assert scene.line()[:2] == ["first---", "second--"]
    assert scene.calls.called == []


def test_a_lock_whose_row_is_deleted_before_the_mark_is_claimed(scene):
    held = scene.client.acquire("k", wait=0, delete_on_release=True)
    scene.lies_down("a")
    before(scene, "k", held.release)
    scene.look()
    assert scene.calls.called == ["token-a"]


@pytest.mark.parametrize(("free", "taken"), [(1, 0), (2, 0), (2, 1)], ids=["1 free", "2 free", "1 of 2 taken"])
def test_a_sleeper_leaves_a_permit_to_each_who_is_awake_and_before_it(scene, free, taken):
    permits = [scene.client.acquire("k", permits=3, wait=0) for _ in range(3)]
    scene.lies_down("a", permits=3)
    scene.look()
    scene.update("SET waiters = :v", {"L": [scene.ticket(), *scene.row()["waiters"]["L"]]})
    for permit in permits[:free]:
        permit.release()
    if taken:
        before(scene, "k", lambda: scene.client.acquire("k", permits=3, wait=0))
    scene.look()
    assert scene.calls.called == ["token-a"][: free - taken - 1]
    assert scene.line()[0] == "abcdefgh"


@pytest.mark.parametrize(
    "act",
    [lambda scene: scene.look(), lambda scene: scene.memory.fail("lost_reply")],
    ids=["another look at the same moment", "a mark that is sent twice"],
)
def test_the_sleepers_stand_in_line_once(scene, act):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    before(scene, "k", lambda: act(scene))
    scene.look()
    assert scene.line() == ["~sleeper"]


def test_a_late_copy_of_a_mark_brings_no_earlier_time_back(scene):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    copies = copied(scene)
    scene.look()
    scene.memory.clock.advance(scene.calls.messages[0][1])
    scene.memory.hold("k", owner="another", lease_duration=100)
    scene.look()
    left = scene.row()
    arrive(copies)
    assert scene.row() == left


def test_a_late_copy_of_the_removal_of_the_marks_leaves_those_of_a_later_sleeper(scene, held):
    scene.lies_down("a")
    scene.look()
    scene.gets_up("a")
    copies = copied(scene)
    scene.look()
    assert "sleepers" not in scene.row()
    scene.memory.clock.advance(7)
    scene.lies_down("b")
    scene.look()
    arrive(copies)
    assert scene.row()["sleepers"] == {"N": "1"}
    held.release()


def test_nobody_who_comes_passes_the_sleepers_while_their_look_is_on_its_way(scene):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    scene.look()
    scene.memory.clock.advance(scene.calls.messages[0][1])
    with pytest.raises(LockNotGrantedError):
        scene.client.acquire("k", holder="b", wait=0)
    scene.look()
    assert scene.calls.called == ["token-a"]


@pytest.mark.parametrize("wake_at", [{"N": "9999999999"}, {"N": "0"}, {"N": "-1"}, {"S": "soon"}, {"L": []}])
def test_a_time_of_the_next_look_that_no_look_has_written_is_not_believed(scene, wake_at):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    scene.update("SET wakeAt = :v", wake_at)
    scene.look()
    assert len(scene.calls.messages) == 1
