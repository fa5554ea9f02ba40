"""DynamoDB Local listens on loopback only. What any engine leaves behind: test_engine.py."""

from __future__ import annotations

import socket

import pytest

pytestmark = pytest.mark.dynamodb_local_only


def test_dynamodb_local_listens_on_one_loopback_address_only(engine):
    # A server that listens on all interfaces would answer on all of 127.0.0.0/8.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", engine.port), timeout=5)
    socket.create_connection(("127.0.0.1", engine.port), timeout=5).close()
