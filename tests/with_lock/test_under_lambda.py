"""What @with_lock knows of the invocation, under the unmodified awslambdaric."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.lambda_runtime import LambdaEnvironment

HANDLER = """
import threading
from lambda_lock import register_lambda_context
from lambda_lock.decorators.with_lock import current_lock, with_lock

@with_lock("helper")
def helper():
    lock = current_lock()
    return {"owner": lock.owner, "lease": lock.lease_duration, "threads": threading.active_count()}

@with_lock("{id}")
def handed(event, context):
    return helper()

def registered(event, context):
    if event["register"]:
        register_lambda_context(context)
    return helper()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "function.py").write_text(HANDLER)
    return tmp_path


def test_nested_functions_use_the_handlers_context(engine, table, folder):
    variables = engine.environment() | {"LAMBDA_LOCK_TABLE": table}
    with LambdaEnvironment("function.handed", folder, environment=variables, function_name="orders") as environment:
        seen = environment.invoke({"id": "a"}, timeout_seconds=8, request_id="request-1").result()
    assert seen["owner"].startswith("orders/request-1#")
    assert 1 < seen["lease"] <= 8
    assert seen["threads"] == 1


def test_a_registered_context_does_not_outlive_its_invocation(engine, table, folder):
    variables = engine.environment() | {"LAMBDA_LOCK_TABLE": table}
    with LambdaEnvironment("function.registered", folder, environment=variables, function_name="orders") as environment:
        first = environment.invoke({"register": True}, timeout_seconds=8, request_id="request-1").result()
        second = environment.invoke({"register": False}, timeout_seconds=8, request_id="request-2").result()
        warning = environment.wait_for_line("no Lambda context found")
    assert first["owner"].startswith("orders/request-1#")
    assert first["lease"] <= 8
    assert "request-1" not in second["owner"]
    assert second["lease"] == 20
    assert "register_lambda_context" in warning
