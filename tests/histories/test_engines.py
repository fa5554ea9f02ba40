"""An engine that is stopped in the middle of work continues with what it had stored, or says that it cannot."""

import os
import signal

import pytest

from rig.engine import EngineError

from .engines import LastingMinistack


@pytest.mark.ministack_only("starts an engine of its own")
def test_an_engine_goes_on_with_what_it_had_stored_and_is_not_killed_for_a_restart_if_it_does_not_end(monkeypatch):
    item = {"key": {"S": "a"}}
    with LastingMinistack() as engine:
        engine.create_table("locks")
        engine.dynamodb("PutItem", {"TableName": "locks", "Item": item})
        engine.restart()
        assert engine.scan("locks") == [item]
        monkeypatch.setattr(LastingMinistack, "END_SECONDS", 0.05)
        os.kill(engine.pid, signal.SIGSTOP)
        with pytest.raises(EngineError, match="did not end within"):
            engine.restart()
        os.kill(engine.pid, signal.SIGCONT)
