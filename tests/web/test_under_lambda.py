"""Locks of web applications, under the unmodified awslambdaric and behind a stand-in for the Lambda Web Adapter."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rig import events
from rig.lambda_runtime import TimedOut
from rig.managed_instances import ManagedInstance

from .conftest import FLASK, HANDLERS, LONG, UVICORN, http, rest, said

GRACE = 2.0  # seconds between the end of a lease and its stored expiry

FRONTS: dict[str, tuple[str, tuple[str, ...] | None, Any]] = {
    "Mangum and FastAPI": ("fastapi_app.handler", None, http),
    "serverless-wsgi and Flask": ("flask_app.handler", None, http),
    "Chalice": ("chalice_app.app", None, rest),
    "the Lambda Web Adapter and FastAPI": ("run.sh", UVICORN, http),
    "the Lambda Web Adapter and Flask": ("run.sh", FLASK, http),
}


@pytest.mark.long
@pytest.mark.parametrize("front", FRONTS)
def test_the_lock_of_a_request_ends_with_its_answer_and_of_a_killed_one_with_the_deadline(
    front, start, rows, other, tmp_path
):
    handler, command, event = FRONTS[front]
    environment = start(handler, command)
    answer = said(environment.invoke(event({"id": "early"}), LONG, request_id="request-1").result())
    assert answer["owner"].startswith("orders/request-1#")
    assert not rows.is_held("early")
    killed = environment.invoke(event({"id": "late", "until": str(tmp_path / "never")}), 5.0)
    environment.wait_for_line("holding late")
    expiry = rows.expiry("late")
    with pytest.raises(TimedOut):
        killed.result()
    assert killed.deadline is not None
    assert abs(expiry - (killed.deadline + GRACE)) < 1.5  # and not a lease of 20 s later
    with other.acquire("late", wait=LONG):
        assert time.time() > killed.deadline
    assert said(environment.invoke(event({"id": "late"}), LONG).result())["lease"] == 20


def test_an_event_function_of_chalice_finds_its_context_by_the_same_middleware(start):
    environment = start("chalice_app.of_a_queue")
    event = events.load("sqs")
    answers = environment.invoke(event, 9.0, request_id="request-1").result()
    assert len(answers) == len(event["Records"])
    assert all(answer["owner"].startswith("orders/request-1#") and answer["lease"] <= 9 for answer in answers)


# Servers of their own


@pytest.mark.parametrize("command", [UVICORN, FLASK], ids=["ASGI", "WSGI"])
def test_requests_side_by_side_in_one_process_each_have_their_own_deadline(command, variables, tmp_path):
    environment = variables | {"BEHIND_THE_ADAPTER": "1"}
    with ManagedInstance(
        "run.sh", HANDLERS, environment=environment, function_name="orders", command=command
    ) as instance:
        go_on = {"until": str(tmp_path / "go-on")}
        hurried = instance.invoke(http({"id": "hurried", **go_on}), 15.0, request_id="request-1")
        instance.wait_for_line("holding hurried")
        patient = instance.invoke(http({"id": "patient", **go_on}), LONG, request_id="request-2")
        instance.wait_for_line("holding patient")
        (tmp_path / "go-on").touch()
        one, two = said(hurried.result()), said(patient.result())
    assert one["pid"] == two["pid"]
    assert one["owner"].startswith("orders/request-1#")
    assert two["owner"].startswith("orders/request-2#")
    assert one["lease"] <= 15 < two["lease"]


def test_a_server_with_snapstart_gets_no_lock_before_its_first_request_and_each_after_it(start, rows):
    environment = start("run.sh", UVICORN, AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")
    first = said(environment.invoke(http({"id": "a"}), LONG, request_id="request-1").result())
    refusal = environment.wait_for_line("at readiness")
    assert refusal.startswith("refused at readiness: lock 'at readiness' was asked for while a SnapStart function")
    assert "web_adapter=True" in refusal
    assert rows.get("at readiness") is None
    assert first["owner"].startswith("orders/request-1#")
    assert said(environment.invoke(http({"id": "b"}, "/elsewhere"), LONG).result()) == "granted"
