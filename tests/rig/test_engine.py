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


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_engine_leaves_neither_process_nor_folder_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Ministack() as engine:
        pid = engine.pid
        assert is_alive(pid)
        assert list(tmp_path.iterdir())
    assert not is_alive(pid)
    assert not list(tmp_path.iterdir())


def test_the_engine_stops_also_when_the_block_raises():
    pids = []

    def fail() -> None:
        with Ministack() as engine:
            pids.append(engine.pid)
            raise ValueError("in the block")

    with pytest.raises(ValueError, match="in the block"):
        fail()
    assert not is_alive(pids[0])


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


def test_a_table_has_the_keys_that_were_asked_for(engine):
    engine.create_table("with-sort-key", "pk", "sk")
    try:
        description = engine.dynamodb("DescribeTable", {"TableName": "with-sort-key"})["Table"]
        assert description["KeySchema"] == [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ]
    finally:
        engine.delete_table("with-sort-key")


def test_an_error_of_the_engine_bears_its_name(engine):
    with pytest.raises(EngineError) as caught:
        engine.scan("no-such-table")
    assert caught.value.code == "ResourceNotFoundException"


def test_with_auth_a_key_without_rights_is_refused():
    with Ministack(auth=True) as engine:
        engine.create_table("locks")  # with the access key "test", which has all permissions
        place = {"endpoint_url": engine.url, "region_name": REGION}
        iam = boto3.client("iam", **place, aws_access_key_id="test", aws_secret_access_key="test")
        iam.create_user(UserName="nobody")
        key = iam.create_access_key(UserName="nobody")["AccessKey"]
        nobody = boto3.client(
            "dynamodb",
            **place,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )
        with pytest.raises(ClientError, match="AccessDenied"):
            nobody.scan(TableName="locks")


def test_the_table_fixture_points_this_process_at_a_new_empty_table(engine, table):
    assert engine.scan(table) == []
    assert os.environ["LAMBDA_LOCK_TABLE"] == table
    assert os.environ["AWS_ENDPOINT_URL"] == engine.url


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
