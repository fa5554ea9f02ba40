"""What a client notes of the operations that are under way."""

from lambda_lock import LockClient
from lambda_lock.runtime import signalsafe
from lambda_lock.runtime.signalsafe import HELD_HERE, UnderWay
from lambda_lock.testing import in_memory


def test_a_client_that_is_never_closed_does_not_keep_each_coroutine_that_was_closed_in_its_midst():
    under_way, closed = UnderWay(), [object() for _ in range(250)]
    for steps in closed:
        under_way.begin(steps)
        under_way.leave(steps)
    assert list(under_way.left()) == closed[-100:]


def test_what_is_noted_of_locks_held_here_has_a_bound_and_all_are_released_beyond_it(monkeypatch):
    monkeypatch.setattr(signalsafe, "_MOST_HERE", 5)
    with in_memory(), LockClient(heartbeat_period=0) as client:
        locks = [client.acquire(f"{number}") for number in range(20)]
        assert len(HELD_HERE) <= 5
        assert all(lock.release() for lock in locks)
