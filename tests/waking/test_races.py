"""What others write between the reads and the writes of a look, and what a look leaves to those who are awake."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import LockNotGrantedError
from lambda_lock.core.outcome import ConditionFailed
from lambda_lock.core.tickets import make_ticket

from .support import Scene
from .test_waker import row, sleepers


def before(scene: Scene, key: str, act: Callable[[], object]) -> None:
    """Carry out ``act`` right before the next write to the row of ``key``."""
    send, pending = scene.memory.send, [act]

    def between(operation: str, request: Any, *, timeout: float) -> Any:
        if operation == "UpdateItem" and request["Key"]["key"]["S"] == key and pending:
            pending.pop()()
        return send(operation, request, timeout=timeout)

    scene.memory.send = between  # type: ignore[method-assign]


def arrive(copies: list[Callable[[], object]]) -> None:
    assert copies
    for again in copies:
        with contextlib.suppress(ConditionFailed):
            again()


def copied(scene: Scene) -> list[Callable[[], object]]:
    """The writes from now on to the row of "k", to be carried out once more."""
    send, copies = scene.memory.send, list[Callable[[], object]]()

    def noted(operation: str, request: Any, *, timeout: float) -> Any:
        if operation == "UpdateItem" and request["Key"]["key"]["S"] == "k":
            copies.append(lambda: send(operation, request, timeout=timeout))
        return send(operation, request, timeout=timeout)

    scene.memory.send = noted  # type: ignore[method-assign]
    return copies


def write(scene: Scene, expression: str, value: Any, key: str = "k") -> None:
    request = {
        "TableName": "locks",
        "Key": {"key": {"S": key}},
        "UpdateExpression": expression,
        "ExpressionAttributeValues": {":v": value},
    }
    scene.memory.send("UpdateItem", request, timeout=1)


def waits(scene: Scene, name: str = "abcdefgh") -> dict[str, Any]:
    """The ticket of one who is awake."""
    return {"S": make_ticket(name, int(scene.memory.clock.wall()) + 20)}


def line(scene: Scene) -> list[str]:
    return [ticket["S"][:8] for ticket in row(scene)["waiters"]["L"]]


def test_an_entry_that_moved_up_meanwhile_is_not_removed_in_the_place_of_another(scene):
    held = scene.client.acquire("k", wait=0)
    for name in "ab":
        scene.lies_down(name)
    held.release()
    before(scene, "k~sleepers", lambda: scene.gets_up("a"))
    scene.look()
    assert scene.calls.called == ["token-a"]
    assert sleepers(scene) == ["b"]


def test_who_lies_down_again_does_not_write_over_one_who_moved_up_meanwhile(scene):
    scene.memory.hold("k")
    for name in "ab":
        scene.lies_down(name)
    before(scene, "k~sleepers", lambda: scene.gets_up("a"))
    scene.lies_down("a")
    assert sleepers(scene) == ["b", "a"]


def test_one_who_began_to_wait_awake_before_the_claim_comes_first(scene):
    scene.client.acquire("k", wait=0).release()
    scene.lies_down("a")
    before(scene, "k", lambda: write(scene, "SET waiters = :v", {"L": [waits(scene)]}))
    scene.look()
    assert scene.calls.called == []
    assert line(scene) == ["abcdefgh", "~sleeper"]


def test_a_claim_takes_the_sleepers_out_of_the_line_and_the_next_is_behind_who_waits_awake(scene):
    held = scene.client.acquire("k", wait=0)
    for name in "ab":
        scene.lies_down(name)
    scene.look()
    write(scene, "SET waiters = list_append(waiters, :v)", {"L": [waits(scene)]})
    held.release()
    scene.look()
    assert scene.calls.called == ["token-a"]
    assert line(scene) == ["abcdefgh", "~sleeper"]


def test_a_claim_does_not_take_another_out_of_a_line_that_moved_up_meanwhile(scene):
    held = scene.client.acquire("k", wait=0)
    scene.lies_down("a")
    scene.look()
    ours = row(scene)["waiters"]["L"][0]
    first, second = waits(scene, "first---"), waits(scene, "second--")
    held.release()
    write(scene, "SET waiters = :v", {"L": [ours, first, second]})
    before(scene, "k", lambda: write(scene, "SET waiters = :v", {"L": [first, second]}))
    scene.look()
    assert line(scene)[:2] == ["first---", "second--"]
    assert scene.calls.called == []


def test_a_lock_whose_row_is_deleted_before_the_mark_is_claimed(scene):
    held = scene.client.acquire("k", wait=0, delete_on_release=True)
    scene.lies_down("a")
    before(scene, "k", held.release)
    scene.look()
    assert scene.calls.called == ["token-a"]


@pytest.mark.parametrize("free", [1, 2])
def test_a_sleeper_leaves_a_permit_to_each_who_is_awake_and_before_it(scene, free):
    permits = [scene.client.acquire("k", permits=3, wait=0) for _ in range(3)]
    scene.lies_down("a", permits=3)
    scene.look()
    write(scene, "SET waiters = :v", {"L": [waits(scene), *row(scene)["waiters"]["L"]]})
    for permit in permits[:free]:
        permit.release()
    scene.look()
    assert scene.calls.called == ["token-a"][: free - 1]
    assert line(scene)[0] == "abcdefgh"


def test_a_permit_that_somebody_else_took_meanwhile_was_not_the_one_of_who_waits_awake(scene):
    permits = [scene.client.acquire("k", permits=3, wait=0) for _ in range(3)]
    scene.lies_down("a", permits=3)
    scene.look()
    write(scene, "SET waiters = :v", {"L": [waits(scene), *row(scene)["waiters"]["L"]]})
    for permit in permits[:2]:
        permit.release()
    before(scene, "k", lambda: scene.client.acquire("k", permits=3, wait=0))
    scene.look()
    assert scene.calls.called == []


def test_of_two_looks_at_the_same_moment_one_stands_in_line(scene):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    before(scene, "k", scene.look)
    scene.look()
    assert line(scene) == ["~sleeper"]


def test_a_mark_that_is_sent_twice_stands_in_line_once(scene):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    before(scene, "k", lambda: scene.memory.fail("lost_reply"))
    scene.look()
    assert line(scene) == ["~sleeper"]


def test_a_late_copy_of_a_mark_brings_no_earlier_time_back(scene):
    scene.memory.hold("k", lease_duration=30)
    scene.lies_down("a")
    copies = copied(scene)
    scene.look()
    scene.memory.clock.advance(scene.calls.messages[0][1])
    scene.memory.hold("k", owner="another", lease_duration=100)
    scene.look()
    left = row(scene)
    arrive(copies)
    assert row(scene) == left


def test_a_late_copy_of_the_removal_of_the_marks_leaves_those_of_a_later_sleeper(scene):
    held = scene.client.acquire("k", wait=0)
    scene.lies_down("a")
    scene.look()
    scene.gets_up("a")
    copies = copied(scene)
    scene.look()
    assert "sleepers" not in row(scene)
    scene.memory.clock.advance(7)
    scene.lies_down("b")
    scene.look()
    arrive(copies)
    assert row(scene)["sleepers"] == {"N": "1"}
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
    write(scene, "SET wakeAt = :v", wake_at)
    scene.look()
    assert len(scene.calls.messages) == 1
