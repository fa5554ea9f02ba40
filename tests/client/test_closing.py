"""What close() of a client does with what is under way, was interrupted or has failed."""

import gc
from typing import Any

import pytest

from lambda_lock.errors import ClientClosedError, LockError
from lambda_lock.runtime.signalsafe import OpenLocks


@pytest.mark.plain
def test_an_acquire_whose_client_is_closed_at_the_grant_says_so_and_holds_nothing(client, rows, monkeypatch):
    attach = OpenLocks.attach

    def close_first(self: OpenLocks, *arguments: Any) -> None:
        client.close()
        attach(self, *arguments)

    monkeypatch.setattr(OpenLocks, "attach", close_first)
    with pytest.raises(ClientClosedError):
        client.acquire("a")
    assert not rows.is_held("a")


def test_a_release_that_failed_is_made_up_for_by_close_though_its_handle_is_gone(wire, make, rows):
    client = make(keeping=False)
    lock = client.acquire("a")
    wire.answer(400, "AccessDeniedException", "UpdateItem")
    with pytest.raises(LockError):
        lock.release()
    del lock
    gc.collect()
    client.close()
    assert not rows.is_held("a")
