"""Keys from what an event says: equal payloads hash alike, different ones do not, and nothing is hashed for many."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent, SQSEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, SecretStr

from lambda_lock import KeyTemplateError, deduplicate, payload_hash
from lambda_lock.keys.compile import compile_key
from rig import events
from rig.engine import ROOT

from .conftest import Calls


def handler(event: Any, context: Any = None) -> None: ...


def key_of(*paths: str, event: Any, func: Callable[..., Any] = handler) -> str:
    return compile_key(func, payload_hash(*paths), None)((event,), {})


AT = datetime(2026, 11, 21, tzinfo=UTC)


Level = IntEnum("Level", {"HIGH": 3})
Color = StrEnum("Color", {"RED": "red"})
Ratio = Enum("Ratio", {"HALF": 0.5})


@dataclasses.dataclass
class Money:
    amount: Decimal
    currency: str


class Order(BaseModel):
    id: uuid.UUID
    total: Money
    lines: list[str]


EXACT = 2.0**53  # from here on a float stands for several whole numbers
NUMBER = st.integers() | st.floats(-EXACT, EXACT, exclude_min=True, exclude_max=True)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.dictionaries(st.text(), JSON, min_size=1, max_size=4)


def same(one: Any, two: Any) -> bool:
    """Whether two of JSON's values are one: as in Python, but True is not 1."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[name], two[name]) for name in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


def shuffled(value: Any) -> Any:
    """An equal value: entries in another order and another kind of mapping or sequence, numbers of another type."""
    if isinstance(value, dict):
        return OrderedDict((name, shuffled(value[name])) for name in reversed(value))
    if isinstance(value, list):
        return tuple(shuffled(entry) for entry in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return Decimal(value) if value == int(value) else Decimal(repr(value))


# Equal and different


@given(EVENTS)
def test_equal_payloads_hash_alike_whatever_their_order_and_types(event):
    key = key_of(event=event)
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")
    assert key_of(event=shuffled(event)) == key
    assert key_of(event=json.loads(json.dumps(event))) == key
    assert key_of(event=MappingProxyType(event)) == key


@given(EVENTS, JSON, JSON)
def test_payloads_that_differ_in_one_entry_hash_differently(event, one, two):
    assert (key_of(event=event | {"x": one}) == key_of(event=event | {"x": two})) == same(one, two)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=8),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=8),
)
def test_decimals_hash_alike_only_if_they_are_equal(one, two):
    assert (key_of(event={"n": one}) == key_of(event={"n": two})) == (one == two)


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, Decimal("1"), Decimal("1.00"), Decimal("1E0"), Level(3) - 2), (0, 0.0, -0.0, Decimal("-0.00")),
        (0.1, Decimal("0.1"), Decimal("0.100")),
        (10**30, 1e30 if int(1e30) == 10**30 else 10**30, Decimal(10**30), Decimal("1E30")), (3, Level.HIGH, 3.0),
        ("red", Color.RED), (0.5, Ratio.HALF), (uuid.UUID(int=5), str(uuid.UUID(int=5))), ([1, 2], (1.0, 2)),
        (b"x", bytearray(b"x"), memoryview(b"x")), ({1, "a"}, frozenset({"a", 1.0})), ({0, 8}, {8, 0}),
        (AT, AT.astimezone(timezone(timedelta(hours=2))), "2026-11-21T00:00:00+00:00"), (AT.date(), "2026-11-21"),
        (timedelta(hours=1), timedelta(minutes=60)),
        ({1: "a", 2: "b"}, {2: "b", 1.0: "a"}, {Level.HIGH - 2: "a", Decimal(2): "b"}),
        ({uuid.UUID(int=5): 1}, {str(uuid.UUID(int=5)): 1}), ({Color.RED: 1}, {"red": 1}),
        (PurePosixPath("/a/b"), "/a/b"), (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (IPv6Address("::1"), IPv6Address("0:0::1")), (AnyUrl("https://a.example/x"), "https://a.example/x"),
    ],
)  # fmt: skip
def test_what_is_equal_hashes_alike(values):
    assert len({key_of(event={"value": value}) for value in values}) == 1
    assert len({key_of("value", event={"value": value}) for value in values}) == 1


@pytest.mark.parametrize(
    "values",
    [
        (1, "1", True, [1], {"1": 1}, 1.5, "1.0", [[1]], {"": 1}),
        (None, "None", "null", False, 0, "0", [None], "\x00"),
        (Decimal("12345678901234567.89"), Decimal("12345678901234567.88"), Decimal("12345678901234567")),
        (Decimal("0.1"), Decimal("0.10000000000000000001"), Decimal("1E-30"), Decimal("1E-31"), Decimal("1E-500")),
        (Decimal("1E-500"), Decimal("2E-500")),
        (2**53, 2**53 + 1, Decimal(2**53 + 2), float(2**53 - 1)),
        (["a", "b"], ["b", "a"], ["a,b"], [["a"], "b"], {"a": "b"}),
        (0.5, "0.5", ["0.5"], {"": "0.5"}, {"n": "0.5"}),
        (b"x", "x", "78", "b78", {"bytes": "78"}, [120]),
        ({1}, {1, 2}, {"1"}, [1], {"set": ["1"]}, {"set": [1]}, 'c["\\"n1\\""]'),
        (AT, AT + timedelta(microseconds=1), AT.replace(tzinfo=None), AT.date()),
        (timedelta(1), timedelta(0, 1), timedelta(0, 0, 1), timedelta(-1), 86_400, "d1,0,0", "1 day, 0:00:00"),
        ({1: "a"}, {"1": "a"}, {"n1": "a"}, {1: "a", "1": "a"}, {True: "a"}, {None: "a"}, {"a": 1}, [[1, "a"]]),
        (IPv4Address("10.0.0.1"), IPv4Network("10.0.0.1"), IPv4Address("10.0.0.2"), int(IPv4Address("10.0.0.1"))),
        (AnyUrl("https://a.example/x"), AnyUrl("https://b.example/x"), AnyUrl("https://u:p@a.example/x")),
    ],
)
def test_what_is_different_hashes_differently(values):
    assert len({key_of(event={"value": value}) for value in values}) == len(values)
    chosen = [value for value in values if value not in (None, "", [], {})]
    assert len({key_of("value", event={"value": value}) for value in chosen}) == len(chosen)


# A text that is JSON


@pytest.mark.parametrize(
    "texts",
    [
        ('{"a": 1, "b": [1.0, true]}', '{"b":[1,true],\n"a":1.00}', b' {"a": 1, "b": [1e0, true]}',
         r'{"\u0061": 1, "b": [1, true]}'),
        ('[{"a": 1, "b": null}]', '[ {"b": null, "a": 1.0} ]'),
        ('{"n": 12345678901234567890.10}', '{"n": 12345678901234567890.1}'),
    ],
)  # fmt: skip
def test_a_field_that_is_json_is_compared_as_json(texts):
    assert len({key_of("body", event={"body": text}) for text in texts}) == 1
    assert len({key_of(event=text) for text in texts}) == 1
    assert len({key_of(event={"body": text}) for text in texts}) == len(texts)  # of the whole event it is a text


@pytest.mark.parametrize(
    "texts",
    [
        ('{"a": 1}', '{"a": 2}', '{"a": "1"}', '{"a": true}', '{"a": null}', '{"a": [1]}', '[{"a": 1}]', "{}", "[]"),
        ('{"a": 1, "a": 2}', '{"a": 2}', '{"a": 2, "a": 1}', '{"a":2, "a":1}', '{"x": {"a": 1, "a": 2}}'),
        ('{"a": NaN}', '{"a":NaN}', '{"a": Infinity}', '{"a": "NaN"}'),
        ("1", "1.0", '"1"', " 1", "007", "7", "true", "null", "None"),
        ('{"a": 9007199254740992.0}', '{"a": 9007199254740993.0}', '{"a": 1e300}'),
        ('{"a": 1', '{"a" : 1', "eyJhIjogMX0=", "eyJhIjoxfQ==", '{"a": 1e9999}', '{"a":1e9999}'),
        ('{"a": 1}', {"a": 1}, 'j{"a": "n1"}', b"{", "{"),
    ],
)
def test_json_texts_that_say_something_else_and_other_texts_are_told_apart(texts):
    assert len({key_of("body", event={"body": text}) for text in texts}) == len(texts)


@given(EVENTS, EVENTS)
def test_bodies_hash_alike_only_if_they_say_the_same(one, two):
    keys = [key_of("body", event={"body": json.dumps(each)}) for each in (one, shuffled_text(one), two)]
    assert keys[0] == keys[1]
    assert (keys[0] == keys[2]) == same(one, two)


def shuffled_text(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in reversed(event)}


# Chosen fields


@given(EVENTS, st.text(), st.text())
def test_only_the_chosen_fields_count(event, one, two):
    chosen = {"id": 7, "detail": {"amount": Decimal("1.50")}}
    paths = ("id", "detail[amount]")
    key = key_of(*paths, event=chosen | {"receipt": one})
    assert key == key_of(*paths, event=chosen | {"receipt": two, "more": event})
    assert key == key_of(*reversed(paths), event=chosen)
    assert key != key_of(*paths, event=chosen | {"id": 8})


def test_fields_of_json_text_are_reached_as_in_templates():
    [record] = events.sqs([{"order": {"id": 7}}])["Records"]
    [again] = events.redelivered({"Records": [record]})["Records"]
    assert key_of("body[order][id]", event=record) == key_of("body[order][id]", event=again)
    assert key_of("messageId", event=record) == key_of("messageId", event=again)
    assert key_of(event=record) != key_of(event=again)  # another receipt handle: never the same twice


def test_a_field_is_told_from_another_with_the_same_value():
    event = {"a": "1", "b": "1"}
    assert len({key_of("a", event=event), key_of("b", event=event), key_of("a", "b", event=event)}) == 3


def test_further_arguments_are_reached_by_name_and_self_is_not_the_first():
    class Service:
        def charge(self, order: dict[str, Any], tenant: str = "t-1") -> None: ...

    build = compile_key(Service.charge, payload_hash("id", "tenant"), None)
    one, other = Service(), Service()
    assert build((one, {"id": 7}), {}) == build((other,), {"order": {"id": 7}, "tenant": "t-1"})
    assert build((one, {"id": 7}), {}) != build((one, {"id": 7}, "t-2"), {})
    whole = compile_key(Service.charge, payload_hash(), None)
    assert whole((one, {"id": 7}), {}) == whole((other, {"id": 7}), {}) == key_of(event={"id": 7})


def test_payload_hash_may_be_called_by_itself_for_a_first_argument():
    assert payload_hash("id")({"id": 7, "more": 1}) == key_of("id", event={"id": 7})
    assert payload_hash()({"id": 7}) == key_of(event={"id": 7})


# What it can hash


def test_dataclasses_and_models_are_what_their_fields_are():
    order = Order(id=uuid.UUID(int=5), total=Money(Decimal("1.50"), "EUR"), lines=["a"])
    plain = {"id": str(uuid.UUID(int=5)), "total": {"amount": 1.5, "currency": "EUR"}, "lines": ["a"]}
    assert key_of(event=order) == key_of(event=plain)
    assert key_of("total", event=order) == key_of("total", event=plain)


def test_what_a_dataclass_is_only_made_with_is_none_of_its_fields():
    @dataclasses.dataclass
    class Opened:
        name: str
        by: dataclasses.InitVar[int]
        at: int = dataclasses.field(init=False)

    opened: Any = Opened("a", 1)
    assert key_of(event=opened) == key_of(event=Opened("a", 2)) != key_of(event=Opened("b", 1))
    assert key_of("name", event=opened) == key_of("name", event={"name": "a"})
    with pytest.raises(KeyTemplateError, match=r"has no field \[by\]"):
        key_of("event[by]", event=opened)
    opened.at = 7
    assert key_of(event=opened) == key_of(event={"name": "a", "at": 7})


def test_event_classes_of_powertools_are_their_raw_events():
    raw = events.load("eventbridge")
    assert key_of(event=EventBridgeEvent(raw)) == key_of(event=raw)
    assert key_of("detail", event=EventBridgeEvent(raw)) == key_of("detail", event=raw)
    batch = events.load("sqs")
    record = next(SQSEvent(batch).records)
    assert key_of("body[order_id]", event=record) == key_of("body[order_id]", event=batch["Records"][0])


@pytest.mark.parametrize(
    "value",
    [
        object(), math.nan, math.inf, Decimal("NaN"), SecretStr("a"), iter("a"), {object(): 1},
        Decimal("-Infinity"),
        {math.nan: "a"}, {AT.date(): 1, "2026-11-21": 2}, {"deep": [{"x": object()}]}, {object()}, lambda: 1, int,
        10**5000, Decimal("1E+5000"),
    ],
    ids=lambda value: str(type(value).__name__),
)  # fmt: skip
def test_what_has_no_text_is_refused_without_showing_the_event(value):
    for paths in ((), ("value",)):
        with pytest.raises(KeyTemplateError, match=r"payload hash of handler\(\) cannot be built") as caught:
            key_of(*paths, event={"value": value, "secret": "s3cr3t"})
        assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("number", ["9007199254740992.0", "9007199254740993.0", "-9007199254740993.0", "1e300", "1E23"])
def test_a_number_in_json_that_shares_its_float_with_others_is_refused_as_in_a_template(number):
    event = {"body": f'{{"n": {number}}}', "detail": {"deep": [json.loads(number)]}}
    for key in (payload_hash(), payload_hash("detail"), payload_hash("body[n]"), "{body[n]}"):
        with pytest.raises(KeyTemplateError, match="too large to be exact: pass the number as a str"):
            compile_key(handler, key, None)((event,), {})


def test_a_number_that_would_fill_the_memory_if_written_out_is_refused_at_once():
    """In a process of its own: where it is written out, no signal ends that."""
    program = "import decimal, lambda_lock; lambda_lock.payload_hash()(decimal.Decimal('1E+1000000000'))"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert "KeyTemplateError: the payload hash of payload_hash() cannot be built" in ended.stderr


def test_a_payload_without_end_is_refused():
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(KeyTemplateError, match="deep"):
        key_of(event={"ring": ring})


@pytest.mark.parametrize("value", [None, "", [], {}, ()])
def test_a_payload_or_chosen_fields_that_are_all_empty_would_be_one_event_for_all_and_are_refused(value):
    with pytest.raises(KeyTemplateError, match="all such events would be taken for the same one"):
        key_of(event=value)
    with pytest.raises(KeyTemplateError, match="everything that it hashes is empty") as caught:
        key_of("a", "b", event={"a": value, "b": None, "c": "not chosen"})
    assert caught.value.field == "a"
    assert key_of("a", "b", event={"a": value, "b": 0})


def test_a_chosen_field_that_is_missing_is_refused_and_named():
    with pytest.raises(KeyTemplateError, match=r"has no \[order\]") as caught:
        key_of("id", "detail[order]", event={"id": 7, "detail": {"other": 1}})
    assert caught.value.field == "detail[order]"


# When decorating


@pytest.mark.parametrize("path", ["", "a b[", "a.b", "{a}", "0", " a", "a]"])
def test_a_path_that_cannot_be_read_is_refused(path):
    with pytest.raises(KeyTemplateError, match=r"payload hash of handler\(\)"):
        deduplicate(payload_hash(path))(handler)


def test_a_function_without_arguments_has_nothing_to_hash():
    def nothing() -> None: ...

    with pytest.raises(KeyTemplateError, match="no argument to hash"):
        deduplicate(payload_hash())(nothing)


def test_payload_hash_without_its_parentheses_is_an_error_at_the_first_call_that_says_so(table):
    with pytest.raises(TypeError, match=r"write @deduplicate\(payload_hash\(...\)\)"):
        deduplicate(payload_hash)(handler)({"id": 7}, None)  # type: ignore[arg-type]


def test_an_event_without_an_id_is_done_once_by_what_it_says(once, table):
    calls = Calls()
    charge = once(payload_hash("order", "amount"))(calls.handler)
    for sent, amount in enumerate([1, Decimal("1.00"), 2]):
        charge({"order": "o-1", "amount": amount, "sent": sent})
    assert calls.count == 2
