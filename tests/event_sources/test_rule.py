"""EventBridge: an event that is delivered again is neither done again nor done twice at the same time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rig.cloud import Function
from rig.lambda_runtime import FunctionError

from . import judge

SOURCE = "com.example.orders"


def event(event_id: str, detail: dict[str, Any]) -> dict[str, Any]:
    """The event that the rule delivered, to deliver it again."""
    return {"id": event_id, "detail-type": "OrderPlaced", "source": SOURCE, "detail": detail}


def answer(function: Function, event: dict[str, Any]) -> Any:
    """What an invocation returns, or the name of its error."""
    try:
        return function.invoke(event)
    except FunctionError as error:
        return error.type


def test_an_event_that_is_delivered_again_is_answered_and_not_done_again(open_shop):
    shop = open_shop("orders.on_event")
    shop.cloud.rule({"source": [SOURCE]}, shop.function)
    detail = {"customer": "c-1"}
    event_id = shop.cloud.put_event(SOURCE, "OrderPlaced", detail)
    shop.orders.append({**detail, "id": event_id})
    shop.cloud.wait_until(lambda: shop.done() and not shop.held())
    first = shop.function.invoke(event(event_id, detail))
    assert first["done_by"]
    assert shop.function.invoke(event(event_id, detail)) == first
    assert shop.wrongs() == []


@pytest.mark.parametrize("commit", [False, True])
def test_an_event_that_is_delivered_while_it_is_being_done_is_refused_and_can_be_retried(open_shop, commit):
    shop = open_shop("orders.on_event")
    detail = {"customer": "c-1", "until": {"refused": 1}, "commit": commit, "plan": ["raise before"]}
    twice = event("twice", detail)
    shop.orders.append({**detail, "id": "twice"})
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(answer, [shop.function] * 2, [twice] * 2))
    assert sorted(answers) == ["LockNotGrantedError", "RuntimeError"]
    assert shop.done() == []
    shop.function.invoke(twice)
    shop.function.invoke(twice)
    assert len(judge.runs(shop.notes())) == 2
    assert shop.wrongs() == []
