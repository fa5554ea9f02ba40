"""The engine is a real process that starts by itself, answers requests, and leaves nothing behind."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from rig import engine as engine_module
from rig.engine import REGION, EngineError, Ministack


def test_the_engine_leaves_neither_process_nor_folder_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Ministack() as engine:
        pid = engine.pid
        assert list(tmp_path.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(tmp_path.iterdir())


def test_the_engine_takes_another_port_when_the_first_was_taken_in_between(monkeypatch):
    find = engine_module.free_port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = iter([taken.getsockname()[1]])
        monkeypatch.setattr(engine_module, "free_port", lambda: next(ports, None) or find())
        with Ministack() as engine:
            assert engine.port != taken.getsockname()[1]
            engine.create_table("locks")


def test_the_answer_of_another_engine_on_the_port_is_not_taken_for_its_own(monkeypatch):
    find = engine_module.free_port
    with Ministack() as stranger:
        ports = iter([stranger.port])
        monkeypatch.setattr(engine_module, "free_port", lambda: next(ports, None) or find())
        with Ministack() as engine:
            assert engine.port != stranger.port
            engine.create_table("locks")
        assert stranger.dynamodb("ListTables", {})["TableNames"] == []


def test_a_missing_engine_is_named_together_with_the_remedy(monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_ENGINE_BIN", "/nowhere/ministack")
    with pytest.raises(EngineError, match="/nowhere/ministack is not there: run 'make setup'"), Ministack():
        pass


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


def test_an_engine_for_tables_has_no_other_service():
    with Ministack() as engine:
        place = {"endpoint_url": engine.url, "region_name": REGION}
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        for service, operation in (("lambda", "list_functions"), ("sqs", "list_queues"), ("s3", "list_buckets")):
            with pytest.raises(ClientError, match=r"403|AccessDenied"):
                getattr(boto3.client(service, **place, **keys), operation)()


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
@pytest.mark.parametrize("services", [("dynamodb",), ("dynamodb", "lambda")])
def test_an_engine_answers_no_web_page(services, headers):
    with Ministack(services=services) as engine:
        for method, path in (("POST", "/_ministack/reset"), ("OPTIONS", "/"), ("GET", "/2015-03-31/functions")):
            asked = urllib.request.Request(engine.url + path, method=method, headers=headers)
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(asked)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_secret_of_this_process_reaches_the_engine(monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    with Ministack() as engine:
        assert "hunter2" not in Path(f"/proc/{engine.pid}/environ").read_text()


def test_an_engine_that_gives_no_answer_is_named(monkeypatch):
    monkeypatch.setattr(Ministack, "ANSWER_SECONDS", 0.05)
    engine = Ministack()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine.port = silent.getsockname()[1]
        with pytest.raises(EngineError, match=f"GetItem: the engine on port {engine.port} gave no answer"):
            engine.dynamodb("GetItem", {})
