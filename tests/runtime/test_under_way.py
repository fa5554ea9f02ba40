"""What a client notes of the operations that are under way."""

from __future__ import annotations

from lambda_lock.runtime.signalsafe import UnderWay


def test_a_client_that_is_never_closed_does_not_keep_each_coroutine_that_was_closed_in_its_midst() -> None:
    under_way, closed = UnderWay(), [object() for _ in range(250)]
    for steps in closed:
        under_way.begin(steps)
        under_way.leave(steps)
    assert list(under_way.left()) == closed[-100:]
