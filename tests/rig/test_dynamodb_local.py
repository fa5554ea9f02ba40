"""DynamoDB Local listens on loopback only, and leaves no trace when it is stopped."""

from __future__ import annotations

import os
import socket
import tempfile

import pytest

from rig.engine import DynamoDBLocal, EngineError

pytestmark = pytest.mark.dynamodb_local_only


def test_dynamodb_local_listens_on_one_loopback_address_only(engine):
    # A server that listens on all interfaces would answer on all of 127.0.0.0/8.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", engine.port), timeout=5)
    socket.create_connection(("127.0.0.1", engine.port), timeout=5).close()


def test_dynamodb_local_leaves_neither_process_nor_folder_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with DynamoDBLocal() as engine:
        pid = engine.pid
        assert engine.create_table("locks") == "locks"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(tmp_path.iterdir())


def test_without_java_the_error_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="needs Java 17 or newer"), DynamoDBLocal():
        pass


def test_unbuilt_it_says_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setattr(DynamoDBLocal, "_BUILT", tmp_path)
    with pytest.raises(EngineError, match="run 'make test-dynamodb-local'"), DynamoDBLocal():
        pass
