from __future__ import annotations

import itertools
import json
import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent, SQSEvent
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from lambda_lock.errors import KeyTemplateError
from lambda_lock.keys.arguments import MAX_KEY_BYTES, Separator
from lambda_lock.keys.compile import compile_key
from lambda_lock.keys.payload_hash import payload_hash

if TYPE_CHECKING:
    from lambda_lock.keys.compile import Key

EVENT = {
    "id": "e-1",
    "detail-type": "OrderPlaced",
    "aws.account": "123",
    "detail": {"customer_id": "c-7", "items": [{"sku": "a"}, {"sku": "b"}], "0": "zero", "it's": "here", "none": None},
    "body": json.dumps({"order": {"id": 42}, "message": json.dumps({"inner": "deep"})}),
}


def handler(event: Any, context: Any) -> None: ...


def key_of(key: Key, *args: Any, func: Callable[..., Any] = handler, **kwargs: Any) -> str:
    return compile_key(func, key, None)(args, kwargs)


def searched(expression: str, *args: Any) -> str:
    return compile_key(handler, None, expression)(args, {})


# --- templates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("nightly", "nightly"), ("{id}", "e-1"), ("{event[id]}", "e-1"),
        ("invoice#{detail[customer_id]}", "invoice#c-7"), ("{event[detail][customer_id]}#{id}", "c-7#e-1"),
        ("{detail-type}", "OrderPlaced"), ("{event[detail-type]}", "OrderPlaced"), ("{event[aws.account]}", "123"),
        ("{detail[items][1][sku]}", "b"), ("{detail[0]}", "zero"), ("{detail[it's]}", "here"),
        ("{body[order][id]}", "42"), ("{body[message][inner]}", "deep"), ("{{{id}}}", "{e-1}"), ("{{id}}", "{id}"),
    ],
)  # fmt: skip
def test_a_template_reaches_fields_of_the_event(template, expected):
    assert key_of(template, EVENT, None) == expected


def test_a_name_that_is_a_parameter_is_that_argument_and_any_other_a_field_of_the_first():
    def charge(order: Any, tenant: str, *, region: str = "eu") -> None: ...

    template = "{tenant}#{region}#{customer}"
    order = {"customer": "c-1", "tenant": "not this", "region": "nor this"}
    assert key_of(template, order, "t-1", func=charge) == "t-1#eu#c-1"
    assert key_of(template, func=charge, region="us", tenant="t-2", order=order) == "t-2#us#c-1"


def test_the_first_of_starred_arguments_is_the_first_argument():
    def job(*events: Any) -> None: ...

    assert key_of("{id}", EVENT, func=job) == "e-1"
    with pytest.raises(KeyTemplateError, match="not given"):
        key_of("{id}", func=job)


def test_a_function_without_a_signature_has_a_first_argument_all_the_same():
    assert key_of("{id}", EVENT, func=dict.fromkeys) == "e-1"
    assert key_of("{id}", EVENT, func=getattr) == "e-1"


# --- what fields are reached through ------------------------------------------------------------------------------


@dataclass
class Customer:
    name: str
    tags: list[str] = field(default_factory=list)


class Order(BaseModel):
    id: uuid.UUID
    customer: Customer


ORDER = Order(id=uuid.UUID(int=5), customer=Customer("Ann", ["vip"]))


def test_fields_are_reached_through_dataclasses_and_models():
    key = key_of("{id}#{customer[name]}#{customer[tags][0]}", ORDER, None)
    assert key == "00000000-0000-0000-0000-000000000005#Ann#vip"


def test_fields_are_reached_through_powertools_event_classes():
    record = next(iter(SQSEvent({"Records": [{"messageId": "m", "body": EVENT["body"]}]}).records))
    assert key_of("{messageId}#{body[order][id]}", record) == "m#42"
    assert key_of("{detail[customer_id]}", EventBridgeEvent(EVENT), None) == "c-7"


def test_an_event_class_that_is_no_mapping_is_reached_through_its_raw_event():
    class Wrapped:
        raw_event = EVENT

    assert key_of("{event[id]}", Wrapped(), None) == "e-1"


def test_bytes_are_parsed_as_a_body_is():
    assert key_of("{event[id]}", b'{"id": "x"}', None) == "x"


@pytest.mark.parametrize("step", ["__class__", "model_dump", "__dict__"])
def test_methods_and_private_attributes_of_objects_are_out_of_reach(step):
    with pytest.raises(KeyTemplateError):
        key_of(f"{{event[{step}]}}", ORDER, None)


def test_looking_up_changes_nothing():
    event: defaultdict[str, str] = defaultdict(str)
    with pytest.raises(KeyTemplateError):
        key_of("{event[id]}", event, None)
    assert not event


# --- several fields -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        ("{a}#{b}", ("a#b", "c#d"), r"a\#b#c#d"),
        ("{a}#{b}", ("##", "##"), r"\#\##" + "##"),
        ("{a}#{b}", (r"C:\a\b", r"\#\\"), r"C:\a\b#\#\\"),
        ("{a}#{b}", ("a\\", r"#b"), r"a\\##b"),
        ("{a}#{b}", (r"a\#", "b"), r"a\\\##b"),
        ("{a}#{b}", (r"a\\#b", "c"), r"a\\\\\#b#c"),
        ("{a}#end", ("a#end#",), "a#end##end"),
        ("{a}-{b}#{c}", ("a#b", "c-d", "e-#"), "a#b-c-d#e-#"),
        ("{a}-{b}#{c}", ("a-b", "c#d", "e"), r"a\-b-c\#d#e"),
        ("{a}::{b}", ("a:b", ":c"), "a:b:::c"),
        ("{a}::{b}", ("a:", "c"), r"a\:::c"),
        ("{a}::{b}", ("a:::b", "c"), r"a\:\::b::c"),
        ("{a}{{b{b}", ("a{", "c"), "a{{bc"),
        ("{a}{{b{b}", ("{a{b", "c"), r"{a\{b{bc"),
        ("{a}\\{b}", ("a\\b]", "c"), r"a]\b]]\c"),
        ("{a}{b}", ("a#", "b"), r"a\##b"),
    ],
)
def test_a_separator_within_a_field_is_escaped_except_in_the_last(template, values, expected):
    assert key_of(template, dict(zip("abc", values, strict=False)), None) == expected


ALPHABET = st.sampled_from("#:a{}\\\\]^")
LITERAL = st.text(ALPHABET, max_size=4)
VALUE = st.text(ALPHABET, min_size=1, max_size=5)


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, list[str], tuple[list[str], list[str]]]:
    """A template, its literals, and twice the values of its fields: often the same text, cut in another place."""
    literals = draw(st.lists(LITERAL, min_size=2, max_size=5))
    fields = len(literals) - 1
    one = draw(st.lists(VALUE, min_size=fields, max_size=fields))
    other = draw(st.lists(VALUE, min_size=fields, max_size=fields))
    if fields > 1 and draw(st.booleans()):
        text = one[0] + literals[1] + one[1]
        cut = draw(st.integers(0, len(text)))
        other = [text[:cut] or "a", text[cut + draw(st.integers(0, len(literals[1]) + 1)) :] or "a", *one[2:]]
    braced = [literal.replace("{", "{{").replace("}", "}}") for literal in literals]
    template = braced[0] + "".join(f"{{f{number}}}{after}" for number, after in enumerate(braced[1:]))
    return template, literals, (one, other)


def composed(template: str, values: list[str]) -> str:
    return key_of(template, {f"f{number}": value for number, value in enumerate(values)}, None)


@pytest.mark.parametrize("examples", [200, pytest.param(1000, marks=pytest.mark.long)])
def test_different_values_give_different_keys(examples):
    @settings(max_examples=examples)
    @given(templates())
    def check(drawn):
        template, _, (one, other) = drawn
        assert (composed(template, one) == composed(template, other)) == (one == other)

    check()


@pytest.mark.parametrize("literal", ["#", "##", "#:#", "\\", "\\#", "#\\", ""])
def test_of_all_short_values_no_two_pairs_have_one_key(literal):
    texts = ["".join(text) for size in range(1, 5) for text in itertools.product("#:\\]", repeat=size)]
    separator = Separator(literal or "#")
    written = {separator.escaped(text) for text in texts}
    assert len(written) == len(texts)
    # None is where another one ends. So the key shows where the value ended, no matter what follows.
    ended = {text + separator.literal for text in written}
    assert not any(text[:size] in ended for text in ended for size in range(1, len(text)))


@pytest.mark.parametrize("examples", [150, pytest.param(500, marks=pytest.mark.long)])
def test_values_without_the_separator_stay_as_they_are(examples):
    """Unless the separator begins in the value, or the value ends in an escape character."""

    @settings(max_examples=examples)
    @given(templates())
    def check(drawn):
        template, literals, (values, _) = drawn
        assume(all(literals[1:-1]))
        for value, literal in zip(values[:-1], literals[1:-1], strict=True):
            assume((value + literal).find(literal) == len(value) and not value.endswith(("\\", "]", "^", "_")))
        plain = "".join(a + b for a, b in zip(literals, [*values, ""], strict=True))
        assert composed(template, values) == plain

    check()


@given(st.text(min_size=1))
def test_a_single_field_is_never_escaped(value):
    assert key_of("a#{event}#b", value, None) == f"a#{value}#b"


def test_a_value_of_megabytes_is_refused_at_once():
    with pytest.raises(KeyTemplateError, match="but DynamoDB allows 2048"):
        key_of("{event[id]}#{event[id]}", {"id": "#" * 5_000_000}, None)


def test_a_key_may_have_2048_bytes_and_not_one_more_once_it_is_escaped():
    assert key_of("{event}", "ü" * 1024, None) == "ü" * 1024
    with pytest.raises(KeyTemplateError, match="2049 bytes"):
        key_of("{event}", "ü" * 1024 + "x", None)
    assert len(key_of("{a}#{b}", {"a": "#" * 1023, "b": "b"}, None)) == 2048
    with pytest.raises(KeyTemplateError, match="a key of 2050 bytes, but DynamoDB allows 2048"):
        key_of("{a}#{b}", {"a": "#" * 1024, "b": "b"}, None)


# --- values -------------------------------------------------------------------------------------------------------


class Color(Enum):
    RED = "red"
    NOTHING = None


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", "a"), (" ", " "), (0, "0"), (-7, "-7"), (10**30, "1" + "0" * 30), (1.0, "1"), (-0.0, "0"), (1.5, "1.5"),
        (1e-7, "0.0000001"), (Decimal("1"), "1"), (Decimal("1.50"), "1.5"), (Decimal("1E+2"), "100"),
        (Decimal("-0.0"), "0"),
        (Decimal("12345678901234567890123456789012345678"), "12345678901234567890123456789012345678"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"), (date(2026, 2, 3), "2026-02-03"),
        (datetime(2026, 2, 3, 4, 5, 6), "2026-02-03T04:05:06"),
        (datetime(2026, 2, 3, 4, 5, 6, 7, UTC), "2026-02-03T04:05:06.000007+00:00"),
        (datetime(2026, 2, 3, 5, 5, tzinfo=timezone(timedelta(hours=1))), "2026-02-03T04:05:00+00:00"),
        (Color.RED, "red"), (Level.HIGH, "3"), (Word.YES, "yes"),
    ],
)  # fmt: skip
def test_a_value_is_written_in_one_way(value, expected):
    assert key_of("{event}", value, None) == expected


@pytest.mark.parametrize(("moment", "hours"), [(datetime.min, 14), (datetime.max, -12)])
def test_a_datetime_that_utc_has_no_year_for_is_refused_by_its_field_and_by_a_hash_of_it(moment, hours):
    value = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    said = "a datetime that UTC has no year for: pass it as a str"
    with pytest.raises(KeyTemplateError, match=said) as caught:
        key_of("{event[at]}", {"at": value}, None)
    assert caught.value.field == "event[at]"
    with pytest.raises(KeyTemplateError, match=said):
        key_of(payload_hash(), {"at": value}, None)


NO_SCALARS: list[Any] = [True, False, {}, {"secret": 1}, [1], (), {1}, object(), b"bytes", Customer("Ann")]


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_equal_numbers_of_any_type_give_equal_keys(number):
    texts = {key_of("{event}", one, None) for one in (number, float(number), Decimal(number), Decimal(f"{number}.00"))}
    assert texts == {str(number)}


EXACT = st.floats(-(2**53), 2**53, exclude_min=True, exclude_max=True)


@given(EXACT, EXACT)
def test_different_numbers_give_different_keys(one, other):
    assert (key_of("{event}", one, None) == key_of("{event}", other, None)) == (one == other)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "None"),
        (Color.NOTHING, "None"),
        ("", "an empty str"),
        *((value, f"of type {type(value).__name__}") for value in NO_SCALARS),
        *((value, "not finite") for value in (float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"))),
        *((value, "too large to be exact") for value in (2.0**53, 2.0**54)),
        (Decimal("1E+999999"), "too many digits"),
        pytest.param(10**5000, "too many digits", id="int"),
    ],
)
def test_a_value_that_would_be_one_lock_for_everybody_is_refused(value, found):
    with pytest.raises(KeyTemplateError, match=found) as caught:
        key_of("a#{event[id]}", {"id": value}, None)
    assert caught.value.field == "event[id]"
    assert "event[id]" in str(caught.value)
    assert "handler()" in str(caught.value)


@pytest.mark.parametrize(
    ("template", "event", "message"),
    [
        ("{missing}", EVENT, r"the first argument has no \[missing\]; it has id, detail-type"),
        ("{detail[customerId]}", EVENT, r"detail has no \[customerId\]; it has customer_id, items"),
        ("{event[detail][a][b]}", EVENT, r"event\[detail\] has no \[a\]"),
        ("{detail[items][2][sku]}", EVENT, r"detail\[items\] has 2 elements, so \[2\] does not exist"),
        ("{detail[items][sku]}", EVENT, "write the index of an element"),
        ("{detail[items][-1]}", EVENT, "write the index of an element"),
        ("{detail[none][x]}", EVENT, r"detail\[none\] is None, which has no fields"),
        ("{id[x]}", EVENT, "id is of type str but not JSON"),
        ("{event[x]}", "[" * 100_000, "not JSON"),
        ("{event[x]}", {}, "it is empty"),
        ("{customer[age]}", ORDER, r"customer has no field \[age\]; it has name, tags"),
        ("{event[x]}", 5, "event is of type int, which has no fields"),
    ],
)
def test_a_field_that_is_missing_is_named_with_what_was_found(template, event, message):
    with pytest.raises(KeyTemplateError, match=message) as caught:
        key_of(template, event, None)
    assert caught.value.field == template.strip("{}")


def test_an_argument_that_is_not_given_is_named():
    with pytest.raises(KeyTemplateError, match="event: the argument is not given"):
        key_of("{event}")


def test_messages_do_not_show_values():
    secret = "s3cret"
    for event in ({"id": [secret]}, {"id": {"x": secret}}, {"id": (secret,)}):
        with pytest.raises(KeyTemplateError) as caught:
            key_of("{event[id]}", event, None)
        assert secret not in str(caught.value)


# --- templates that are wrong -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{0[id]}", "positional"),
        ("{event[detail].id}", "attributes"),
        ("{event[]}", "cannot be read"),
        ("{ event }", "cannot be read"),
        ("{[id]}", "cannot be read"),
        ("{event[id]x}", "event"),
        ("{detail['x']}", r"quotes around a name: .* write \{detail\[x\]\}"),
        ('{event[detail]["x y"][0]}', r"quotes around a name: .* write \{event\[detail\]\[x y\]\[0\]\}"),
        ("event}", "literal brace"),
        ("{event[id}", "literal brace"),
        ("{event[{id}]}", "event"),
        ("x" * (MAX_KEY_BYTES + 1), "2049 bytes"),
    ],
)
def test_a_wrong_template_is_refused_when_decorating(template, message):
    with pytest.raises(KeyTemplateError, match=message):
        compile_key(handler, template, None)


def test_a_field_of_nothing_is_refused_when_decorating():
    def job(*, region: str) -> None: ...

    compile_key(job, "{region}", None)
    with pytest.raises(KeyTemplateError, match="no first argument"):
        compile_key(job, "{id}", None)


def test_an_expression_is_a_str():
    with pytest.raises(TypeError, match="key_jmespath= must be a str, got int"):
        compile_key(handler, None, 5)  # type: ignore[arg-type]


# --- the key as a whole -------------------------------------------------------------------------------------------


def test_half_a_surrogate_pair_is_no_key():
    with pytest.raises(KeyTemplateError, match="not valid Unicode"):
        key_of("{event[id]}", '{"id": "\\ud800"}', None)


# --- functions ----------------------------------------------------------------------------------------------------


def test_a_key_function_gets_the_calls_own_arguments():
    assert key_of(lambda event, context, shard=0: f"{event['id']}#{context}#{shard}", EVENT, "c", shard=2) == "e-1#c#2"


@pytest.mark.parametrize("value", ["", None, 5, b"x", ["a"]])
def test_a_key_function_must_return_a_non_empty_str(value):
    with pytest.raises(KeyTemplateError, match=r"key function .* must be a non-empty str"):
        key_of(lambda event, context: value, EVENT, None)


def test_an_error_in_a_key_function_comes_through():
    with pytest.raises(KeyError, match="nope"):
        key_of(lambda event, context: event["nope"], EVENT, None)


# --- JMESPath -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("detail.customer_id", "c-7"),
        ("join('#', [id, detail.customer_id])", "e-1#c-7"),
        ("powertools_json(body).order.id", "42"),
        ('"detail-type"', "OrderPlaced"),
    ],
)
def test_an_expression_is_searched_in_the_first_argument(expression, expected):
    assert searched(expression, EVENT, None) == expected
    assert searched(expression, EventBridgeEvent(EVENT), None) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("join('#', [a, b])", r"1\#2#3#4"), ("detail.join('#', [a, b])", r"1\#2#3#4"),
        ("detail | join('#', [a, b])", r"1\#2#3#4"), ("join('-', [a, b])", "1#2-3#4"),
        ("join('#', ['order#v2', a])", "order#v2#1#2"),
        ("join('#', ['order', join('-', [a, b]), n])", r"order#1#2-3\#4#1-2"),
        ("join('#', ['order', join('-', [n, b]), a])", r"order#1\-2-3\#4#1#2"),
        ("join('', ['order-', a])", "order-1#2"), ("join('', [a, b])", r"1\#2#3#4"), ("join('#', [a])", "1#2"),
        ("join('#', list)", "x#y#z"), ("a", "1#2"), ("'a#b'", "a#b"),
    ],
)  # fmt: skip
def test_fields_that_an_expression_joins_are_kept_apart_as_in_a_template(expression, expected):
    fields = {"a": "1#2", "b": "3#4", "n": "1-2", "list": ["x#y", "z"]}
    assert searched(expression, fields | {"detail": fields}) == expected


def test_an_expression_is_searched_in_models_and_dataclasses():
    assert searched("customer.tags[0]", ORDER) == "vip"
    assert searched("join('#', tags)", Customer("Ann", ["a", "b"])) == "a#b"


def test_an_expression_is_searched_after_self():
    class Service:
        def method(self, event: Any) -> None: ...

    assert compile_key(Service.method, None, "id")((Service(), EVENT), {}) == "e-1"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("missing", "the value is None"), ("detail", "of type dict"), ("[id, id]", "of type list"),
        ("id == id", "of type bool"), ("length(@) > `0` && ''", "an empty str"),
        ("join('#', [id, missing])", "JMESPathTypeError"), ("join('#', [id, `5`])", "JMESPathTypeError"),
        ("join(`5`, [id, id])", "JMESPathTypeError"), ("join('#')", "ArityError"),
        ("powertools_json(id)", "JSONDecodeError"), ("powertools_json(detail)", "JMESPathTypeError"),
        ("powertools_base64_gzip('aGk=')", "BadGzipFile"),
    ],
)  # fmt: skip
def test_a_result_that_is_no_key_is_refused(expression, message):
    with pytest.raises(KeyTemplateError, match=message) as caught:
        searched(expression, EVENT, None)
    assert caught.value.field == expression


def test_an_expression_without_a_first_argument_is_refused():
    with pytest.raises(KeyTemplateError, match="no first argument"):
        compile_key(lambda: None, None, "id")
    with pytest.raises(KeyTemplateError, match="not given"):
        searched("id")


@pytest.mark.parametrize("expression", ["", "a..b", "[", "unknown_function(a"])
def test_a_wrong_expression_is_refused_when_decorating(expression):
    with pytest.raises(KeyTemplateError, match="is not a valid JMESPath expression"):
        compile_key(handler, None, expression)


def test_a_plain_expression_does_not_load_powertools():
    program = (
        "import sys\n"
        "from lambda_lock.keys.compile import compile_key\n"
        "assert compile_key(lambda event: 0, None, 'id')(({'id': 'a'},), {}) == 'a'\n"
        "assert 'aws_lambda_powertools' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_templates_load_no_slow_module():
    program = (
        "import sys\n"
        "from lambda_lock.keys.compile import compile_key\n"
        "def f(self, event, context=None, *, n=1): ...\n"
        "assert compile_key(f, '{detail[id]}#{n}', None)((0, {'detail': {'id': 'a'}}), {}) == 'a#1'\n"
        "slow = {'typing', 'inspect', 'dataclasses', 'decimal', 'jmespath', 'asyncio', 'uuid'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.')\n{program}"], check=True)
