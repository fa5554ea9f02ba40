"""The waker, with moments in which it can die: before and after it calls a sleeper, and before it answers.

They are the moments of an order named "waker": see shop.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lambda_lock.waker import handler as waker
from lambda_lock.waker.function import Calls

shop = import_module("shop")  # it is beside this module, where the function runs
_call = Calls.call


def call(self: Calls, kind: str, callback: str) -> Exception | None:
    shop.moment("waker", "call")
    answer = _call(self, kind, callback)
    shop.moment("waker", "called")
    return answer


Calls.call = call  # type: ignore[method-assign]


def handler(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    answer = waker(event, context)
    shop.moment("waker", "answers")
    return answer
