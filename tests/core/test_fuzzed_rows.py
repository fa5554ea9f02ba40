"""Any DynamoDB JSON in any of our columns leads only to documented errors, within a handful of requests."""

from base64 import b64encode
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_lock import GO, JAVA, PYTHON, Schema
from lambda_lock.core import acquire
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.row import Row
from lambda_lock.errors import LockError

from .driver import NOW, OnTable

HANDFUL = 12  # requests: an acquire, and giving it back

numbers = st.one_of(
    st.integers(-5, 5).map(str),
    st.integers(-(10**38) + 1, 10**38 - 1).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-100, max_value=10**14).map(str),
    st.sampled_from(["7.0", "7.5", "1E+3", "1E+125", "1E-130", "9" * 38, "1E+38", "-0", "1800000000", "9" * 30]),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "0", "1", "-1", "20000", "20s", "0s", "9" * 400, "9" * 5000, "9" * 400 + "h", "someone#1"]),
    st.integers(0, 10**14).map(lambda expiry: f"L1:{expiry:013d}:{'0' * 32}"),
    st.sampled_from([NOW - 60, NOW, NOW + 60]).map(lambda at: f"L1:{int(at * 1000):013d}:{'a' * 32}"),
    st.just(f"L1:9999999999999:{'f' * 32}"),
)
scalars = st.one_of(
    texts.map(lambda text: {"S": text}),
    numbers.map(lambda number: {"N": number}),
    st.binary(max_size=8).map(lambda data: {"B": b64encode(data).decode()}),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.just({"NULL": True}),
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=2).map(lambda items: {"L": items}),
    st.dictionaries(st.text(min_size=1, max_size=3), scalars, max_size=2).map(lambda items: {"M": items}),
    st.lists(texts, min_size=1, max_size=2, unique=True).map(lambda items: {"SS": items}),
    st.just({"NS": ["7"]}),
    st.just({"BS": ["AA=="]}),
)


@st.composite
def damage(draw: st.DrawFn) -> tuple[Schema, dict[str, Any]]:
    """A schema, and values for some of its columns. None removes a column."""
    schema = draw(st.sampled_from([JAVA, GO, PYTHON]))
    columns = [name for name in schema.attribute_names() if name is not None]
    names = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=9, unique=True))
    return schema, {name: draw(st.none() | values) for name in names}


fuzzed = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@fuzzed
@given(damage(), st.booleans(), st.booleans(), st.booleans())
def test_acquiring_over_any_row_grants_a_lock_or_raises_what_is_documented(damaged, replace, event, dead):
    schema, changes = damaged
    driver = OnTable(schema)
    hold = driver.acquire()
    if dead:
        driver.now += 60
    else:
        driver.release(hold)
    driver.damage(**changes)
    wanted = driver.wanted(replace=replace, window=60 if event else None)
    driver.sent.clear()
    try:
        hold = driver.run(acquire.acquire(wanted, driver.talk()))
    except (LockError, ServiceError):  # which are documented
        return
    finally:
        assert len(driver.sent) <= HANDFUL
    assert driver.row[schema.owner] == {"S": hold.owner}
    assert Row(driver.row, schema).token == hold.token
    assert driver.release(hold) is True
