"""A result is stored only if duplicates get it as it was. If not, the first caller gets it, and they get None."""

from __future__ import annotations

import dataclasses
import datetime
import http
import io
import json
import math
import re
import zoneinfo
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, NotRequired, TypedDict

import pydantic
import pydantic.dataclasses
import pytest

from lambda_lock import LockArgumentError, LockFormatError, deduplicate
from tests.support.rows import Rows

from .conftest import commit, is_done, put, warnings
from .test_results import Colour, Receipt, Roman

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}
SECRET = "s3cr3t"
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


class Excluded(pydantic.BaseModel):
    name: str = pydantic.Field(default="", exclude=True)


class ExcludedAndNeeded(pydantic.BaseModel):
    name: str = pydantic.Field(exclude=True)


class TwoAliases(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(validate_by_name=False, validate_by_alias=True)

    name: str = pydantic.Field(validation_alias="in", serialization_alias="out")


class Masked(pydantic.BaseModel):
    name: pydantic.SecretStr


class Before(pydantic.BaseModel):
    cents: Decimal

    @pydantic.field_validator("cents", mode="before")
    @classmethod
    def of_euros(cls, value: Any) -> Any:
        return Decimal(value) / 100


class Anything(pydantic.BaseModel):
    name: Any


class Computed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    name: str

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def length(self) -> int:
        return len(self.name)


class Root(pydantic.RootModel[list[int]]):
    pass


class Lazy(pydantic.BaseModel):
    rows: Iterable[int]


class Spread(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")


@dataclasses.dataclass
class Changing:
    price: Decimal

    def __post_init__(self) -> None:
        self.price = self.price / 100


@dataclasses.dataclass
class Refusing:
    name: str

    def __post_init__(self) -> None:
        if self.name != "raw":
            raise ValueError(self.name)
        self.name = SECRET


@dataclasses.dataclass
class Uninitialized:
    name: str = dataclasses.field(default="", init=False, compare=False)


@pydantic.dataclasses.dataclass
class Validated:
    at: datetime.date


@dataclasses.dataclass
class Table:
    rows: Iterable[int]


@dataclasses.dataclass
class Holder:
    inner: list[Changing]
    pair: tuple[int, int] | None = None


class Note(TypedDict):
    at: datetime.date
    by: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: Decimal


def changed() -> Uninitialized:
    made = Uninitialized()
    made.name = SECRET
    return made


class NoFit:
    """A serializer that reads cents as if they were hundredths of cents: 9.90 came back as 0.099."""

    def dump(self, value: float) -> int:
        return round(value * 100)

    def load(self, value: int) -> float:
        return value / 10_000


class OneWay:
    def dump(self, value: Any) -> Any:
        return value.secret

    def load(self, value: Any) -> Any:
        raise ValueError(f"a message with {value}")


@dataclasses.dataclass
class Node:
    """May hold itself."""

    inner: Node | None = None

    @classmethod
    def circle(cls) -> Node:
        made = cls()
        made.inner = made
        return made


@dataclasses.dataclass
class Guarded:
    name: str

    def __getattribute__(self, name: str) -> Any:
        if name == "name":
            raise RuntimeError(f"a message with {SECRET}")
        return object.__getattribute__(self, name)


def nested(depth: int) -> Any:
    made: Any = ()
    for _ in range(depth):
        made = [made]
    return made


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@dataclasses.dataclass
class Opaque:
    secret: str


# kind, result, words of the warning
UNFIT: list[tuple[Any, Any, str]] = [
    (Excluded, Excluded(name=SECRET), r"at \.name: it comes back with another value"),
    (ExcludedAndNeeded, ExcludedAndNeeded(name=SECRET), "cannot be loaded again.*ValidationError: missing at name"),
    (Masked, Masked(name=SECRET), r"at \.name: it comes back with another value"),  # type: ignore[arg-type]
    (Before, Before(cents=Decimal(990)), r"at \.cents: it comes back with another value"),
    (Anything, Anything(name=datetime.date(2026, 1, 2)), r"at \.name: it comes back as str, and was date"),
    (Anything, Anything(name=(1, 2)), r"at \.name: it comes back as list, and was tuple"),
    (dict[str, list[Masked]], {"a": [Masked(name=SECRET)]}, r"at \[a\]\[0\]\.name"),  # type: ignore[arg-type]
    (list[Masked | None], [None, Masked(name=SECRET)], r"at \[1\]\.name"),  # type: ignore[arg-type]
    (Spread, Spread(more=Decimal("1.5")), r"at \.more: it comes back as str, and was Decimal"),  # type: ignore[call-arg]
    (Changing, Changing(Decimal(990)), r"at \.price: it comes back with another value"),
    (Refusing, Refusing("raw"), "cannot be loaded again, as duplicates need it: ValueError in __post_init__, line"),
    (Uninitialized, changed(), r"at \.name: it comes back with another value"),
    (Holder, Holder([Changing(Decimal(990))]), r"at \.inner\[0\]\.price"),
    (Holder, Holder([], [1, 2]), r"at \.pair: it comes back as tuple, and was list"),  # type: ignore[arg-type]
    (Note, {"at": datetime.date(2026, 1, 2), "more": 1}, r"\[more\] is lost"),
    (Note, {"at": SECRET}, r"cannot be written.*TypeError in dump.* at \.at"),
    (Decimal, 9.9, "it comes back as Decimal, and was float"),
    (datetime.date, datetime.datetime(2026, 1, 2, 3), "it comes back as date, and was datetime"),
    ("json", {"body": [1, ("a",)]}, r"at \[body\]\[1\]: it comes back as list, and was tuple"),
    (list[datetime.date], [datetime.date(2026, 1, 2), SECRET], "cannot be written"),
    (dict[str, Decimal], {"a": Decimal(1), "b": SECRET}, "cannot be loaded again"),
    ("json", [Point(1, 2)], r"at \[0\]: it comes back as list, and was Point"),  # type: ignore[arg-type]
    ("json", {1: "a"}, "a name of an entry is another one"),
    ("json", {None: "a", "null": "b"}, "does not come back"),
    ("json", {"at": Decimal(1)}, "cannot be written as JSON .Object of type Decimal is not JSON serializable"),
    ("json", object(), "'e-1', of type object, cannot be written as JSON"),
    ("json", {(1, 2): 3}, "'e-1', of type dict, cannot be written as JSON"),
    (NoFit(), 9.90, "dump and load do not fit"),
    (Roman(), "three", "cannot be written by its serializer: TypeError in dump"),
    (Receipt, {"not": "a receipt"}, "cannot be written"),
    (OneWay(), Opaque(SECRET), "cannot be loaded again, as duplicates need it: ValueError in load, line"),
]


def shown(result: Any) -> str:
    return repr(vars(result)) if hasattr(result, "__dict__") else repr(result)


def is_done_without_a_result(rows: Rows, caplog: pytest.LogCaptureFixture) -> bool:
    told = warnings(caplog)
    caplog.clear()
    return is_done(rows, "e-1") and "result" not in rows["e-1"] and told == ["result_not_stored"]


@pytest.mark.parametrize(("kind", "result", "words"), UNFIT)
def test_what_would_not_come_back_as_it_was_is_not_stored(kind, result, words, rows, caplog):
    text = shown(result)
    for cache_size in (0, 10):
        handler = deduplicate("{id}", scope="", result=kind, cache_size=cache_size)(lambda event: result)
        assert handler(EVENT) is result
        assert shown(result) == text
        assert [handler(EVENT), handler(EVENT)] == [None, None]
        assert re.search(words, caplog.records[0].getMessage())
        assert SECRET not in caplog.text
        assert is_done_without_a_result(rows, caplog)
        rows.delete("e-1")


FIT: list[tuple[Any, Any]] = [
    (TwoAliases, TwoAliases.model_validate({"in": "a"})), (Computed, Computed(name="a")), (Excluded, Excluded()),
    (Root, Root([1, 2])), (Validated, Validated(at=datetime.date(2026, 1, 2))),
    (Spread, Spread(more=[1])),  # type: ignore[call-arg]
    (tuple[dict[str, int], int], ({"a": 1}, 404)), (Point, Point(1, Decimal("9.90"))),
    (list[tuple[int, ...]], [(1, 2), ()]), (set[Colour], {Colour.RED}),
    (set[str], {str(number) for number in range(100)}), (dict[str, Any], {"a": math.inf}),
    (Holder, Holder([], (1, 2))), ("json", ({"statusCode": 404}, 404)), (Sequence[int], (1, 2)),
    ("json", {"statusCode": http.HTTPStatus.OK, "b": [1.5, None, True, "é\ud800"]}),
    (datetime.datetime, datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "result"), FIT)
def test_what_comes_back_as_it_was_is_stored(kind, result, caplog):
    handler = deduplicate("{id}", result=kind)(lambda event: result)
    assert handler(EVENT) is result
    again = handler(EVENT)
    assert type(again) is type(result)
    if not isinstance(result, datetime.datetime):  # of the hour that comes twice: equal to none of another zone
        assert again == result
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("kind", "make", "words"),
    [
        (Node, Node.circle, "cannot be looked through: RecursionError"),
        (Guarded, lambda: Guarded(SECRET), "cannot be looked through: RuntimeError in __getattribute__"),
        ("json", lambda: nested(600), "cannot be compared with what comes back: RecursionError"),
        ("json", lambda: nested(100_000), "cannot be written as JSON"),
        ("json", circle, "cannot be written as JSON"),
    ],
)
def test_a_result_that_cannot_be_looked_through_is_not_stored_and_its_event_is_done(kind, make, words, rows, caplog):
    result = make()
    handler = deduplicate("{id}", scope="", result=kind)(lambda event: result)
    assert handler(EVENT) is result
    assert handler(EVENT) is None
    assert re.search(words, caplog.records[-1].getMessage())
    assert SECRET not in caplog.text
    assert is_done_without_a_result(rows, caplog)


def test_what_pydantic_warns_of_is_not_shown(once, recwarn):
    handler = once("{id}", result=Root)(lambda event: Root.model_construct(SECRET))  # type: ignore[arg-type]
    handler(EVENT)
    assert handler(EVENT) is None
    assert [str(warning.message) for warning in recwarn] == []


def test_a_number_that_is_none_comes_back_as_such(once, caplog):
    handler = once("{id}", result="json")(lambda event: [math.nan])
    handler(EVENT)
    assert math.isnan(handler(EVENT)[0])
    assert warnings(caplog) == []


# -- iterators


def numbers() -> Iterator[int]:
    yield from range(3)


async def numbers_async() -> AsyncIterator[int]:
    yield 1


def consumed(result: Any) -> list[Any]:
    return list(result["rows"] if isinstance(result, dict) else getattr(result, "rows", result))


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("json", lambda: {"rows": map(int, "012")}),
        ("json", lambda: {"rows": numbers()}),
        ("json", lambda: iter([0, 1, 2])),
        (Iterable[int], lambda: iter(range(3))),
        (dict[str, Iterable[Decimal]], lambda: {"rows": numbers()}),
        (Table, lambda: Table(numbers())),
        (Table, lambda: Table(map(int, "012"))),
        (Lazy, lambda: Lazy(rows=[0, 1, 2])),
        (Lazy, lambda: Lazy(rows=numbers())),
        (Anything, lambda: Anything(name=numbers())),
        (NoFit(), lambda: {"rows": numbers()}),
        (NoFit(), lambda: io.StringIO("0\n1\n2\n")),
    ],
)
def test_an_iterator_in_a_result_reaches_the_first_caller_unread(kind, make, rows, caplog):
    for cache_size in (0, 10):
        handler = deduplicate("{id}", scope="", result=kind, cache_size=cache_size)(lambda event: make())
        given = handler(EVENT)
        assert len(consumed(given.name if isinstance(given, Anything) else given)) == 3
        assert handler(EVENT) is None
        assert is_done_without_a_result(rows, caplog)
        rows.delete("e-1")


def test_an_async_iterator_in_a_result_is_told_and_not_stored(once, caplog):
    handler = once("{id}", result=Anything)(lambda event: Anything(name=numbers_async()))
    handler(EVENT)
    assert handler(EVENT) is None
    assert r"has an iterator at .name, which storing would use up" in caplog.text


# -- commits, and what an older version stored


@pytest.mark.parametrize(
    ("result", "wrong", "right", "words"),
    [
        ("json", ("body", 404), ["body", 404], "as list, and was tuple"),
        (Roman(), "three", 3, "cannot be written by its serializer: TypeError in dump"),
    ],
)
def test_a_commit_refuses_before_it_writes_what_would_not_come_back(result, wrong, right, words, once, rows):
    given: list[Any] = [wrong]
    handler = once("{id}", scope="", result=result)(lambda event: commit([put(rows, "effect")], result=given[0]))
    with pytest.raises(LockArgumentError, match=words):
        handler(EVENT)
    assert rows.get("effect") is None
    given[0] = right
    handler(EVENT)
    assert handler(EVENT) == right


def test_a_stored_result_that_cannot_be_loaded_is_told_without_its_value(once):
    once("{id}", scope="", result="json")(lambda event: {"at": SECRET})(EVENT)
    for kind, words in ((Note, r"ValueError in .* at \.at"), (Validated, "at"), (Before, "ValidationError: missing")):
        with pytest.raises(LockFormatError, match=f"'e-1' cannot be loaded.*{words}") as refused:
            once("{id}", scope="", result=kind)(lambda event: None)(EVENT)
        assert SECRET not in str(refused.value)


# -- the check itself


class Counting:
    """A serializer that changes what it is given, as one may that converts in place."""

    def dump(self, value: Any) -> Any:
        return {**value, "at": value["at"].isoformat()}

    def load(self, value: Any) -> Any:
        value["at"] = datetime.date.fromisoformat(value["at"])
        return value


def test_the_check_changes_neither_the_result_nor_what_is_stored(once, rows):
    result = {"at": datetime.date(2026, 1, 2), "more": [1]}
    handler = once("{id}", scope="", result=Counting())(lambda event: result)
    assert handler(EVENT) is result
    assert result == {"at": datetime.date(2026, 1, 2), "more": [1]}
    assert json.loads(rows["e-1"]["result"]["S"]) == {"at": "2026-01-02", "more": [1]}
    assert handler(EVENT) == result


def test_a_serializer_that_writes_a_time_of_its_own_fits_if_what_it_loads_is_equal(once):
    class Timed:
        count = 0

        def dump(self, value: int) -> Any:
            Timed.count += 1
            return {"value": value, "written": Timed.count}

        def load(self, value: Any) -> int:
            return int(value["value"])

    handler = once("{id}", result=Timed())(lambda event: 7)
    assert [handler(EVENT), handler(EVENT)] == [7, 7]
