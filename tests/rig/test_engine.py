"""The engine is a real process that starts by itself, answers requests, and leaves nothing behind."""

import os
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from rig import engine as engine_module
from rig.engine import EngineError, Ministack


def test_the_engine_leaves_neither_process_nor_folder_behind_and_knows_no_secret(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    with Ministack() as engine:
        pid = engine.pid
        assert list(tmp_path.iterdir())
        if sys.platform == "linux":
            assert "hunter2" not in Path(f"/proc/{pid}/environ").read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(tmp_path.iterdir())


def test_the_engine_takes_another_port_where_the_first_is_taken_and_is_not_taken_for_the_engine_there(monkeypatch):
    find = engine_module.free_port
    with socket.socket() as silent, Ministack() as stranger:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        taken = [silent.getsockname()[1], stranger.port]
        ports = iter(taken)
        monkeypatch.setattr(engine_module, "free_port", lambda: next(ports, None) or find())
        with Ministack() as engine:
            assert engine.port not in taken
            engine.create_table("locks")
        assert stranger.dynamodb("ListTables", {})["TableNames"] == []


def test_an_engine_that_ends_at_once_is_an_error_with_what_it_wrote(tmp_path, monkeypatch):
    program = tmp_path / "ministack"
    program.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("LAMBDA_LOCK_ENGINE_BIN", str(program))
    with pytest.raises(EngineError, match="no such luck"), Ministack():
        pass


def test_a_scan_gives_all_items_over_several_pages(engine, table):
    for number in range(5):
        item = {"key": {"S": str(number)}, "data": {"S": "x" * 390_000}}  # a page ends at 1 MB
        engine.dynamodb("PutItem", {"TableName": table, "Item": item})
    assert {item["key"]["S"] for item in engine.scan(table)} == {"0", "1", "2", "3", "4"}


@pytest.mark.parametrize("services", [("dynamodb",), ("dynamodb", "lambda")])
def test_an_engine_answers_no_web_page(services):
    with Ministack(services=services) as engine:
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            for method, path in (("POST", "/_ministack/reset"), ("OPTIONS", "/"), ("GET", "/2015-03-31/functions")):
                asked = urllib.request.Request(engine.url + path, method=method, headers=headers)
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    urllib.request.urlopen(asked)


@pytest.mark.dynamodb_local_only
def test_dynamodb_local_listens_on_one_loopback_address_only(engine):
    # A server that listens on all interfaces would answer on all of 127.0.0.0/8.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", engine.port), timeout=5)
    socket.create_connection(("127.0.0.1", engine.port), timeout=5).close()
