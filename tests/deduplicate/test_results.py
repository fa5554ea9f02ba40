"""result=: duplicates get dataclasses, models and the like back, or whatever a serializer makes of JSON."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import pydantic
import pytest

from lambda_lock import deduplicate, with_lock

from .conftest import Once

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}


Number = typing.NewType("Number", int)
Name = typing.NewType("Name", str)


class Colour(enum.Enum):
    RED = "red"


class Line(NamedTuple):
    sku: str
    price: Decimal


class Note(TypedDict):
    at: datetime.datetime
    by: NotRequired[str]


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    name: str = pydantic.Field(alias="Name")
    since: datetime.date


@dataclasses.dataclass
class Receipt:
    number: UUID
    at: datetime.datetime
    lines: list[Line]
    colours: set[Colour]
    customer: Customer
    notes: dict[int, Note]
    pair: tuple[int, Decimal]
    parent: Receipt | None = None
    raw: bytes = b""
    took: datetime.timedelta = datetime.timedelta(0)
    total: Decimal = dataclasses.field(init=False, default=Decimal(0))


T = typing.TypeVar("T")


@dataclasses.dataclass
class Page(typing.Generic[T]):
    first: T
    rest: list[T]
    more: dict[str, Any]


def receipt() -> Receipt:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)
    customer = Customer(Name="Ann", since=datetime.date(2020, 2, 29))
    parts: dict[str, Any] = {
        "number": UUID(int=7),
        "at": at,
        "lines": [Line("a", Decimal("1.10")), Line("b", Decimal("1e30"))],
        "colours": {Colour.RED},
        "customer": customer,
        "notes": {3: {"at": at, "by": "me"}, 4: {"at": at}},
        "pair": (1, Decimal("2.50")),
    }
    return Receipt(**parts, parent=Receipt(**parts), raw=b"\x00\xff", took=datetime.timedelta(seconds=1.5))


def round_trip(once: Once, body: Callable[..., Any], result: Any = "json") -> Any:
    handler = once("{id}", scope="", result=result)(body)
    first = handler(EVENT)
    again = handler(EVENT)
    assert type(again) is type(first)
    assert again == first
    return again


# -- what is chosen by the return type


def of_receipt(event: Any, context: LambdaContext | None = None) -> Receipt:
    return receipt()


def of_customer(event: Any) -> Customer | None:
    return Customer(Name="Ann", since=datetime.date(2020, 2, 29))


@pytest.mark.parametrize("body", [of_receipt, of_customer])
def test_a_function_that_returns_a_dataclass_or_a_model_gives_it_to_duplicates(body, once):
    assert round_trip(once, body) == body(EVENT)


class Issuer:
    def __call__(self, event: Any) -> Customer:
        return Customer(Name="Ann", since=datetime.date(2020, 2, 29))


def issue(name: str, event: Any) -> Customer:
    return Customer(Name=name, since=datetime.date(2020, 2, 29))


@pytest.mark.parametrize("function", [Issuer(), functools.partial(issue, "Ann")])
def test_an_object_or_partial_function_below_another_decorator_gives_what_its_annotation_says(function):
    handler: Any = deduplicate("{id}", result="json")(with_lock("customer#{id}")(function))
    assert handler(EVENT) == handler(EVENT) == issue("Ann", EVENT)


@dataclasses.dataclass
class Finished:
    number: typing.Final[Decimal]


SAMPLES: list[tuple[Any, Any]] = [
    (Finished, Finished(Decimal("1.5"))), (list[Receipt], [receipt()]), (dict[str, Receipt], {"a": receipt()}),
    (Receipt | None, None), (tuple[str, int], ("a", 1)), (tuple[Colour, ...], (Colour.RED,)),
    (frozenset[int], frozenset({1, 2})), (Annotated[Decimal, "euro"], Decimal("1.5")),
    (typing.NewType("Amount", Decimal), Decimal("1.5")), (Sequence[datetime.date], [datetime.date(2026, 1, 2)]),
    (Mapping[str, Any], {"a": [1]}), (Literal["a", "b"], "a"), (Literal["a", 1, None], 1),
    (Literal[Colour.RED], Colour.RED), (list[Literal[Colour.RED, None]], [Colour.RED, None]), (Literal[b"a"], b"a"),
    (datetime.timedelta, datetime.timedelta(days=100_000, microseconds=1)),  # a float of seconds is not exact
    (datetime.timedelta, datetime.timedelta.max), (int | str | list[Any], [1]),
    (Customer, Customer(Name="Ann", since=datetime.date(2020, 2, 29))), (datetime.time, datetime.time(1, 2, 3)),
    (Page[datetime.date], Page(datetime.date(2026, 1, 2), [datetime.date(2026, 1, 3)], {"a": 1})),
    (dict[int, int], {1: 2}), (dict[Number, int], {1: 2}), (dict[Name, Decimal], {"a": Decimal(1)}),
    (dict[Literal["a", "b"], int], {"a": 1}), (dict[Annotated[UUID, "id"], int], {UUID(int=1): 1}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), SAMPLES, ids=[str(kind) for kind, _ in SAMPLES])
def test_types_are_stored_with_what_is_in_them(kind, value):
    round_trip(deduplicate, lambda event: value, kind)


class Closed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    number: int


class Wider(Closed):
    more: int = 0


def test_a_model_of_a_subclass_is_stored_as_what_the_annotation_names(once):
    """A duplicate would get an error otherwise: what Wider has and Closed forbids cannot be loaded."""
    handler = once("{id}", result=Closed)(lambda event: Wider(number=1, more=2))
    assert handler(EVENT) == Wider(number=1, more=2)
    assert handler(EVENT) == Closed(number=1)


@pytest.mark.parametrize("kind", [dict[int, int], "list[dict[int, int]]", dict[str, int], dict], ids=str)
def test_names_of_entries_are_what_the_annotation_says(kind):
    named = "int, int" in str(kind)
    value: Any = {1: 2} if named else {"1": 2}

    def body(event: Any) -> Any:
        return [value] if "list" in str(kind) else value

    body.__annotations__["return"] = kind
    if sys.version_info >= (3, 14):
        body.__annotate__ = lambda _: {"return": kind}  # what functools.wraps copies there
    round_trip(deduplicate, body)


def test_each_duplicate_gets_a_value_of_its_own(once):
    handler = once("{id}", scope="", result=Receipt, cache_size=1)(lambda event: receipt())
    handler(EVENT).lines.clear()
    handler(EVENT).lines.clear()
    assert handler(EVENT) == receipt()


HANDLER = """
    @once("{id}", scope="", result=%s)
    def handler(event)%s:
        return [Outer(Later(1))]
    """
OUTER = """
    @dataclasses.dataclass
    class Outer:
        inner: "Later"
    """
LATER = """
    @dataclasses.dataclass
    class Later:
        n: int
    """


@pytest.mark.parametrize(
    "text",
    [HANDLER % ("'json'", " -> 'list[Outer]'") + OUTER + LATER, OUTER + HANDLER % ("list[Outer]", "") + LATER],
    ids=["of the annotation", "within a type that is given"],
)
def test_a_type_that_is_defined_later_is_found_by_the_first_result(text, once):
    module = loaded(text, once=once)
    assert module.handler(EVENT) == module.handler(EVENT) == [module.Outer(module.Later(1))]


def loaded(text: str, **names: Any) -> Any:
    """A module of this text, as import loads it. It stays loaded until the next one."""
    module = types.ModuleType("loaded_for_a_test")
    vars(module).update(names, dataclasses=dataclasses, pydantic=pydantic, typing=typing)
    sys.modules[module.__name__] = module
    exec(compile(textwrap.dedent(text), "loaded.py", "exec"), vars(module))
    return module


HIDDEN = """
if typing.TYPE_CHECKING:
    from somewhere import Missing
"""
UNDEFINED = {
    "for type checkers": 'def make(event) -> "Missing": ...\n',
    "in a union": 'def make(event) -> "int | Missing | None": ...\n',
    "of a module for type checkers": """
        if typing.TYPE_CHECKING:
            import Missing
        def make(event) -> "list[Missing.Receipt]": ...
        """,
    "local": """
        def makes():
            class Missing: ...
            def make(event) -> "Missing": ...
            return make
        make = makes()
        """,
    "of a field": """
        @dataclasses.dataclass
        class Outer:
            inner: "list[Missing]"
        def make(event) -> Outer: ...
        """,
    "of an entry": """
        class Outer(typing.TypedDict):
            inner: "Missing"
        def make(event) -> list[Outer]: ...
        """,
    "of a model": """
        class Outer(pydantic.BaseModel):
            inner: "Missing"
        def make(event) -> "Outer | None": ...
        """,
}


@pytest.mark.parametrize("where", UNDEFINED)
def test_a_name_that_no_module_defines_is_told_when_decorating(where):
    text = HIDDEN + textwrap.dedent(UNDEFINED[where])
    words = r"make\(\) has a result that cannot be stored: its annotation names 'Missing', which is not defined"
    with pytest.raises(TypeError, match=words):
        loaded(text + "once('{id}', result='json')(make)", once=deduplicate)
    module = loaded(text)  # decorated when the module has been loaded
    with pytest.raises(TypeError, match=words):
        deduplicate("{id}", result="json")(module.make)


class Fluent:
    def itself(self, event: Any) -> typing.Self:
        return self


def final(event: Any) -> "typing.Final": ...  # type: ignore[valid-type]  # noqa: UP037


@pytest.mark.parametrize(("function", "words"), [(Fluent.itself, r"typing\.Self"), (final, "typing.Final")])
def test_what_is_no_type_of_its_own_is_told_when_decorating(function, words):
    with pytest.raises(TypeError, match=rf"has a result that cannot be stored: .*{words}"):
        deduplicate("{id}", result="json")(function)


# -- what is refused when decorating


class Connection:
    pass


@dataclasses.dataclass
class Holding:
    deep: dict[str, list[Connection]]


@dataclasses.dataclass
class Opened:
    name: str
    by: dataclasses.InitVar[int]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Opened, "Opened, which needs 'by' to be made, and that is none of its fields"),
        (Page[complex], r"complex at .first"),
        (Connection, "Connection"),
        (Holding, r"Connection at .deep\[\]\[\]"),
        (list[complex], r"complex at \[\]"),
        (Receipt | Customer, "JSON would not say which"),
        (Receipt | Connection, "Connection"),
        (dict[tuple[int, int], str], "as a key"),
        (memoryview, "memoryview"),
        (Literal["a", Colour.RED], "JSON would not say which"),
    ],
)
def test_a_type_that_cannot_be_stored_is_refused_when_decorating(kind, words):
    def body(event: Any) -> Any:
        raise AssertionError

    with pytest.raises(TypeError, match=words):
        deduplicate("{id}", result=kind)(body)
    body.__annotations__["return"] = kind
    with pytest.raises(TypeError, match=rf"body\(\) has a result that cannot be stored: .*{words}"):
        deduplicate("{id}", result="json")(body)
    deduplicate("{id}")(body)


# -- serializers


class Roman:
    """Stores numbers as strokes."""

    def dump(self, value: int) -> str:
        return "I" * value

    def load(self, value: str) -> int:
        return len(value)


def test_a_serializer_converts_results_to_json_and_back(once, rows):
    assert round_trip(once, lambda event: 3, Roman()) == 3
    assert rows["e-1"]["result"] == {"S": '"III"'}
    rows.delete("e-1")
    assert round_trip(once, lambda event: None, Roman()) is None  # of which it is not asked


# -- what it costs


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="logging itself loads inspect and dataclasses there")
def test_plain_results_load_neither_typing_nor_dataclasses():
    program = """
import sys
from lambda_lock import deduplicate
@deduplicate("{id}", result="json")
def handler(event, context) -> "dict[str, list[int] | None]": ...
@deduplicate("{id}", result="json")
def other(event, context) -> dict[str, int]: ...
found = {"typing", "dataclasses", "lambda_lock.decorators.results", "lambda_lock.decorators.completed"} & {*sys.modules}
assert not found, found
"""
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"], check=True
    )
