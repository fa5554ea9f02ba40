"""Requests with a key under the unmodified awslambdaric: killed in the middle, and delivered again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rig.lambda_runtime import TimedOut

from .conftest import LONG, ONCE_UVICORN, http

FRONTS: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "a plain handler": ("once_app.plain", None),
    "Mangum and FastAPI": ("once_app.mangum", None),
    "the Lambda Web Adapter and FastAPI": ("run.sh", ONCE_UVICORN),
}


def headers_of(answer: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in answer["headers"].items()}


@pytest.mark.long
@pytest.mark.parametrize("front", FRONTS)
def test_a_request_that_was_killed_is_carried_out_by_the_next_delivery_whose_answer_all_later_ones_get(
    front, start, tmp_path
):
    handler, command = FRONTS[front]
    environment = start(handler, command)
    event = http({"id": "o-1", "until": str(tmp_path / "go-on")}, **{"idempotency-key": "k-1"})
    killed = environment.invoke(event, 5.0)
    environment.wait_for_line("working on o-1")
    with pytest.raises(TimedOut):
        killed.result()
    (tmp_path / "go-on").touch()
    made = environment.invoke(event, LONG).result()  # it waits for the end of the killed one's lease
    again = environment.invoke(event, LONG).result()
    for answer in (made, again):
        assert answer["statusCode"] in (201, "201")
        assert headers_of(answer)["location"] == "/orders/o-1"
    assert made["body"] == again["body"]
    assert json.loads(made["body"])["made"] == "o-1"
    assert "idempotent-replayed" not in headers_of(made)
    assert headers_of(again)["idempotent-replayed"] == "true"
