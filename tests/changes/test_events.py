"""Other validate= fields, or another type of result, are being deployed: both versions meet the events of the other."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from types import ModuleType
from typing import Any, ClassVar, Final, NamedTuple, Optional, TypedDict

import pytest
from pydantic import BaseModel

from lambda_lock import PayloadMismatchError, current_dedup, deduplicate
from lambda_lock.decorators.shapes import shape_of
from lambda_lock.testing import in_memory

from .conftest import change, told

pytestmark = pytest.mark.usefixtures("table")

PAYMENT = {"id": "7", "amount": 5, "currency": "EUR"}


def _paying(*fields: str, **options: Any) -> Callable[..., Any]:
    @deduplicate("{id}", scope="pay", result="json", validate=list(fields) or None, **options)
    def pay(event: dict[str, Any]) -> int:
        return int(event["amount"])

    return pay


@pytest.mark.parametrize("swapped", [False, True], ids=["the old completes", "the new completes"])
@pytest.mark.parametrize("cache_size", [0, 10])
def test_of_other_fields_a_payload_is_not_compared_and_that_is_told_once(swapped, cache_size, caplog):
    old, new = _paying("amount", cache_size=cache_size), _paying("currency", "amount", cache_size=cache_size)
    first, second = (new, old) if swapped else (old, new)
    assert first(PAYMENT) == 5
    for _ in range(3):
        assert second(PAYMENT) == first(PAYMENT) == 5
    (record,) = told(caplog, "validate_differs")
    assert (record.levelno, record.lock_key) == (logging.WARNING, "pay#7")
    with pytest.raises(PayloadMismatchError):
        first({**PAYMENT, "amount": 6})
    assert second({**PAYMENT, "amount": 6}) == 5  # not compared: nobody is blamed for the deploy
    for event in ({**PAYMENT, "id": "8"}, {**PAYMENT, "id": "9"}):
        first(event), second(event)
    assert len(told(caplog, "validate_differs")) == 1


def test_the_order_of_the_fields_is_no_change(caplog):
    _paying("amount", "currency")(PAYMENT)
    with pytest.raises(PayloadMismatchError):
        _paying("currency", "amount")({**PAYMENT, "amount": 6})
    assert told(caplog, "validate_differs") == []


UNREADABLE = ["", "%s", "x", "%s:", "%s: :", "%s:a b:c", "%s:\n:", "1%s:a:"]


@pytest.mark.parametrize("left", [None, {"N": "7"}, *({"S": text} for text in UNREADABLE)])
def test_a_row_that_does_not_say_which_fields_is_compared_as_before(left, rows, caplog):
    new = _paying("amount")
    new(PAYMENT)
    until = rows["pay#7"]["completedUntil"]["N"]
    change(rows, "pay#7", resultOf=left and {kind: text.replace("%s", until) for kind, text in left.items()})
    assert new(PAYMENT) == 5
    with pytest.raises(PayloadMismatchError):
        new({**PAYMENT, "amount": 6})
    with pytest.raises(PayloadMismatchError):
        _paying("currency", "amount")(PAYMENT)  # as ever: the row does not tell
    assert told(caplog, "validate_differs") == []


def test_what_is_left_of_an_older_result_is_not_believed(rows, caplog):
    """A client without it completes the event again: it replaces the result, and leaves the rest of the row."""
    _paying("amount")(PAYMENT)
    change(rows, "pay#7", completedUntil={"N": str(int(rows["pay#7"]["completedUntil"]["N"]) + 1)})
    with pytest.raises(PayloadMismatchError):
        _paying("currency", "amount")(PAYMENT)
    assert told(caplog, "validate_differs") == []


def test_a_row_has_it_only_where_it_is_used_and_the_same_result_as_ever(rows):
    deduplicate("{id}", scope="plain", result="json")(lambda event: 1)(PAYMENT)
    assert "resultOf" not in rows["plain#7"]
    _paying("amount")(PAYMENT)
    row = rows["pay#7"]
    until, fields, kind = row["resultOf"]["S"].split(":")
    assert (until, len(fields), kind) == (row["completedUntil"]["N"], 8, "")
    assert row["result"]["S"].startswith("sha256:")
    assert row["result"]["S"].endswith(" 5")


def test_a_result_that_a_commit_stores_carries_its_version_too(rows):
    @deduplicate("{id}", scope="pay", result="json", validate=["amount"])
    def pay(event: dict[str, Any]) -> int:
        lock: Any = current_dedup()
        lock.commit([{"Put": {"TableName": rows.table, "Item": {"key": {"S": "paid"}}}}], result=5)
        return 5

    pay(PAYMENT)
    assert rows["pay#7"]["resultOf"]["S"].startswith(rows["pay#7"]["completedUntil"]["N"] + ":")
    pay.forget(PAYMENT)
    assert "resultOf" not in rows["pay#7"]


# The type of the result


@dataclass
class Old:
    id: str


@dataclass
class New:
    id: str
    amount: int = 0


def _charging(kind: Any, **options: Any) -> Callable[..., Any]:
    @deduplicate("{id}", scope="charge", result=kind, **options)
    def charge(event: dict[str, Any]) -> Any:
        return kind(event["id"])

    return charge


@pytest.mark.parametrize("cache_size", [0, 10])
def test_a_result_of_another_type_is_loaded_as_ever_and_that_is_told_once(cache_size, caplog):
    old, new = _charging(Old, cache_size=cache_size), _charging(New, cache_size=cache_size)
    assert old({"id": "7"}) == old({"id": "7"}) == Old("7")
    assert told(caplog, "result_differs") == []
    assert new({"id": "7"}) == new({"id": "7"}) == New("7", 0)
    (record,) = told(caplog, "result_differs")
    assert (record.levelno, record.lock_key) == (logging.WARNING, "charge#7")
    new({"id": "8"})
    assert old({"id": "8"}) == Old("8")  # during a rollback
    assert len(told(caplog, "result_differs")) == 2


def test_an_old_row_and_another_name_of_the_type_are_nothing_to_tell(rows, caplog):
    old, new = _charging(Old), _charging(New)
    old({"id": "7"})
    renamed = make_dataclass("Renamed", [("id", str)])
    assert _charging(renamed)({"id": "7"}) == renamed("7")
    change(rows, "charge#7", resultOf=None)
    assert new({"id": "7"}) == New("7")
    assert told(caplog, "result_differs") == []


class _Serializer:
    def dump(self, value: Any) -> Any:
        return value

    def load(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("other", ["json", _Serializer()], ids=["json", "a serializer"])
def test_where_no_type_is_named_nothing_is_compared(other, caplog):
    _charging(Old)({"id": "7"})
    handler = deduplicate("{id}", scope="charge", result=other)(lambda event: {"id": "8"})
    assert handler({"id": "7"}) == {"id": "7"}
    handler({"id": "8"})
    assert _charging(New)({"id": "8"}) == New("8")
    assert told(caplog, "result_differs") == []


def test_a_type_that_is_defined_later_is_compared(caplog, monkeypatch):
    source = """
from __future__ import annotations
from dataclasses import dataclass
from lambda_lock import deduplicate

@deduplicate("{id}", scope="charge", result="json")
def charge(event) -> Later:
    return Later(event["id"])

@dataclass
class Later:
    id: str
    %s
"""
    for more in ("", "amount: int = 0"):
        module: Any = ModuleType("later")
        monkeypatch.setitem(sys.modules, "later", module)
        exec(compile(source % more, "later.py", "exec"), vars(module))
        module.charge({"id": "7"})
    assert len(told(caplog, "result_differs")) == 1


class Receipt(BaseModel):
    id: str
    lines: list[Old]


class Wider(BaseModel):
    id: str
    lines: list[New]


class Pair(NamedTuple):
    id: str


class Entry(TypedDict):
    id: str


@dataclass
class Marked:
    KIND: ClassVar[str] = "a constant"
    id: Final[str]
    length: int = field(init=False, default=0)


@dataclass
class Node:
    id: str
    next: Optional[Node] = None  # noqa: UP045


@dataclass
class Link:
    id: str
    next: Link | None = None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Receipt, Wider, False),
        (Pair, Old, True),
        (Entry, Old, True),
        (list[Old], list[New], False),
        (dict[str, Old], dict[str, Old], True),
        (Optional[int], int | None, True),  # noqa: UP045
        (Old | None, None | Old, True),
        (Marked, Old, True),  # only what is stored counts
        (int | None, int, False),
        *((kind, kind, True) for kind in (Node, Link)),  # each contains itself
    ],
)
def test_shapes_are_the_names_and_types_of_fields_at_any_depth(one, other, same):
    assert (shape_of(one) == shape_of(other)) is same


def test_a_type_that_cannot_be_read_keeps_no_call_from_running(monkeypatch):
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("lambda_lock.decorators.shapes.shape_of", fail)
    assert _charging(Old)({"id": "7"}) == Old("7")
    assert _charging(New)({"id": "7"}) == New("7")


def test_a_results_version_is_kept_in_memory_too_and_is_no_attribute_of_the_applications(caplog):
    with in_memory() as memory:
        _charging(Old)({"id": "7"})
        assert _charging(New)({"id": "7"}) == New("7")
        (record,) = memory.rows()
        assert (record.result, record.attributes) == ('{"id":"7"}', {})
    assert len(told(caplog, "result_differs")) == 1
