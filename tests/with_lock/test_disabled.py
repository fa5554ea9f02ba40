"""What a function finds as its lock while LAMBDA_LOCK_DISABLED is set."""

from __future__ import annotations

import threading

import pytest

from lambda_lock import Lock, LockAlreadyReleasedError
from lambda_lock.decorators.disabled import StandIn
from lambda_lock.invocation import Invocation
from lambda_lock.timeline import elapsed


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn("k", None, 20.0, None)


def test_a_stand_in_has_every_public_name_of_a_lock(stand_in: StandIn) -> None:
    public = {name for name in vars(Lock) if not name.startswith("_")} - {"tick"}  # the heartbeat's
    assert public <= set(dir(stand_in))


def test_a_stand_in_is_held_until_it_is_released(stand_in: StandIn) -> None:
    stand_in.raise_if_lost()
    assert (stand_in.is_held, stand_in.lost, stand_in.is_expired, stand_in.is_almost_expired) == (
        True,
        False,
        False,
        False,
    )
    assert stand_in.remaining == 20
    assert stand_in.release()
    assert (stand_in.is_held, stand_in.lost, stand_in.remaining) == (False, False, 0)
    with pytest.raises(LockAlreadyReleasedError):
        stand_in.release()
    with pytest.raises(LockAlreadyReleasedError):
        stand_in.heartbeat()


def test_a_stand_in_has_the_invocations_time(stand_in: StandIn) -> None:
    assert 4 < StandIn("k", None, 20.0, Invocation(None, elapsed() + 5)).remaining <= 5
    assert StandIn("k", None, 20.0, Invocation(None, elapsed())).remaining == 20


def test_a_stand_in_is_renewed_with_data_and_lease(stand_in: StandIn) -> None:
    stand_in.heartbeat(data=b"x", lease_duration=30.0)
    assert (stand_in.data, stand_in.lease_duration) == (b"x", 30)
    stand_in.heartbeat(delete_data=True)
    assert stand_in.data is None


def test_a_stand_in_is_never_lost_and_wakes_who_waits_for_that(stand_in: StandIn) -> None:
    assert stand_in.wait_lost(0) is False
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(stand_in.wait_lost()))
    thread.start()
    with stand_in:
        pass
    thread.join(10)
    assert answers == [False]


def test_a_stand_in_says_what_it_is(stand_in: StandIn) -> None:
    assert "LAMBDA_LOCK_DISABLED" in repr(stand_in)
    assert (stand_in.fencing_token, stand_in.owner, stand_in.attributes) == (0, "disabled", {})
