"""What @with_lock knows of the invocation, under the unmodified awslambdaric."""

from __future__ import annotations

from typing import Any

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

def handler(event, context):
    if event["context"] == "handed":
        return handed(event, context)
    if event["context"] == "registered":
        register_lambda_context(context)
    return helper()
"""


def test_nested_functions_use_the_handlers_context_or_the_registered_one_which_ends_with_its_invocation(
    engine, table, tmp_path
):
    (tmp_path / "function.py").write_text(HANDLER)
    variables = engine.environment() | {"LAMBDA_LOCK_TABLE": table}
    with LambdaEnvironment("function.handler", tmp_path, environment=variables, function_name="orders") as environment:

        def seen(number: int, context: str) -> Any:
            event = {"id": "a", "context": context}
            return environment.invoke(event, timeout_seconds=8, request_id=f"request-{number}").result()

        handed, registered, neither = seen(1, "handed"), seen(2, "registered"), seen(3, "")
        warning = environment.wait_for_line("no Lambda context found")
    assert handed["threads"] == 1
    for number, found in enumerate((handed, registered), start=1):
        assert found["owner"].startswith(f"orders/request-{number}#")
        assert 1 < found["lease"] <= 8
    assert "request-" not in neither["owner"]
    assert neither["lease"] == 20
    assert "register_lambda_context" in warning
