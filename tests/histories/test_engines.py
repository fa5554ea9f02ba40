"""An engine that is stopped in the middle of work continues with what it had stored, or says that it cannot."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig.engine import Engine, EngineError

from .engines import LastingDynamoDBLocal, LastingMinistack


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


def write_both(engine: Engine, keys: str, number: int) -> None:
    items = [{"key": {"S": key}, "n": {"N": str(number)}} for key in keys]
    engine.dynamodb(
        "TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "locks", "Item": item}} for item in items]}
    )


@pytest.mark.dynamodb_local_only
@pytest.mark.parametrize("kills", [4, pytest.param(15, marks=pytest.mark.long)])
def test_a_transaction_that_was_answered_is_there_after_a_kill(kills):
    """DynamoDB Local answers a transaction before it has stored it. One of eight kills here would lose one."""
    over = threading.Event()

    def write(keys: str) -> None:
        for number in itertools.count():
            with contextlib.suppress(EngineError):  # while it is restarted
                write_both(engine, keys, number)
            if over.wait(0.001):
                return

    with LastingDynamoDBLocal() as engine, ThreadPoolExecutor() as writers:
        engine.create_table("locks")
        for keys in ("cd", "ef", "gh", "ij"):
            writers.submit(write, keys)
        try:
            for number in range(4 * kills):
                write_both(engine, "ab", number)
                if number % 4:
                    continue
                engine.restart()
                stored = {item["key"]["S"]: int(item["n"]["N"]) for item in engine.scan("locks")}
                assert (stored["a"], stored["b"]) == (number, number)
        finally:
            over.set()
