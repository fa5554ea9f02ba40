"""DynamoDB Local listens on loopback only, and leaves no trace when it is stopped."""

from __future__ import annotations

import os
import socket
import tempfile

import pytest

from rig import engine as engine_module
from rig.engine import DynamoDBLocal

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


def test_the_answer_of_another_engine_on_the_port_is_not_taken_for_its_own(engine, monkeypatch):
    find = engine_module.free_port
    ports = iter([engine.port])
    monkeypatch.setattr(engine_module, "free_port", lambda: next(ports, None) or find())
    with DynamoDBLocal() as another:
        assert another.port != engine.port
        another.create_table("locks")
