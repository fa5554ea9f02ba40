"""What the threat model in SECURITY.md says that an attacker can do, done. Nothing in the library prevents these."""

import time
from email.utils import formatdate

import pytest

from lambda_lock import LockClient, LockLostError
from rig.wire import Answer
from tests.support.fresh import fresh_process
from tests.support.rows import rows

__all__ = ["fresh_process", "rows"]


def an_hour_ahead(answer: Answer) -> Answer:
    others = [(name, value) for name, value in answer.headers if name.lower() != "date"]
    return Answer(answer.status, [*others, ("Date", formatdate(time.time() + 3600, usegmt=True))], answer.body)


def test_who_forges_the_date_of_replies_makes_a_client_take_a_lock_that_is_held(wire, rows):
    with LockClient(endpoint_url=rows.engine.url) as honest, LockClient() as deceived:
        held = honest.acquire("a", lease_duration=60)
        assert deceived.try_acquire("a") is None
        wire.alter_reply(an_hour_ahead, times=float("inf"))
        taken = deceived.try_acquire("a")
        assert taken is not None
        assert held.is_held  # two at once, until the honest one's next renewal
        assert taken.fencing_token > held.fencing_token  # which what it protects can tell


def test_who_may_write_the_row_gives_a_held_lock_to_another_and_the_holder_learns_it_at_its_renewal(rows):
    with LockClient() as honest, LockClient() as other:
        held = honest.acquire("a")
        rows.change("a", isReleased={"S": "1"})
        taken = other.try_acquire("a")
        assert taken is not None
        assert held.is_held
        with pytest.raises(LockLostError):
            held.heartbeat()
