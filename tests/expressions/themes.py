"""Requests that fit their rows. Each theme is about one rule, and draws from so few values that ties are frequent."""

from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from .databases import Case, Item, Request
from .grammar import KEYS, Writer

COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
KINDS = ("S", "SS", "N", "NS", "B", "BS", "BOOL", "NULL", "L", "M")


def _each(kind: str, *contents: Any) -> st.SearchStrategy[Item]:
    return st.sampled_from([{kind: content} for content in contents])


#: Numbers whose order is not that of their texts; texts whose order is not that of UTF-16; bytes, not that of base64.
numbers = _each("N", "-10", "-9", "1", "1.5", "9", "10", "11", "100")
texts = _each("S", "", "a", "ab", "b", "bab", "é", "1", "\uffff", "\U0001f512")
blobs = _each("B", "", "YQ==", "YWI=", "YWFh", "AA==", "+w==", "/w==", "eg==")
long_numbers = _each("N", "9" * 38, "1" + "0" * 37, "-" + "9" * 38, "1" + "0" * 28 + "1", "1E-5", "1E125", "0.1", "7")
few_texts = st.lists(st.sampled_from(["a", "ab", "b", "1"]), min_size=1, max_size=3, unique=True)
few_numbers = st.lists(st.sampled_from(["1", "2", "10"]), min_size=1, max_size=3, unique=True)
few_blobs = st.lists(st.sampled_from(["YQ==", "YWI=", "/w=="]), min_size=1, max_size=2, unique=True)
text_sets = few_texts.map(lambda found: {"SS": found})
longer = _each("SS", ["ab"], ["ab", "b"])  # "a" is within an element only
twins = _each("SS", ["a", "ab"], ["ab", "a"])  # one set, in two orders
sets = st.one_of(
    longer, twins, text_sets, few_numbers.map(lambda found: {"NS": found}), few_blobs.map(lambda found: {"BS": found})
)
elements: st.SearchStrategy[Item] = st.sampled_from(
    [{"S": "a"}, {"S": "ab"}, {"S": "1"}, {"N": "1"}, {"N": "2"}, {"B": "YQ=="}, {"BOOL": True}]
)
lists = st.lists(elements, min_size=1, max_size=4).map(lambda found: {"L": found})
maps = st.dictionaries(st.sampled_from(["x", "y"]), numbers, max_size=2).map(lambda found: {"M": found})
others = st.one_of(_each("BOOL", True, False), st.just({"NULL": True}), blobs, sets, numbers, texts)
#: The attributes of a row. One in four is missing.
ROW = {"x": numbers, "y": texts, "é": lists, "size": sets, "a-b": maps, "a.b": blobs}
OF_TYPE = {"x": numbers, "y": texts, "a.b": blobs}


# -- conditions


def comparison(writer: Writer) -> str:
    name = writer.among(*OF_TYPE)
    of = st.one_of(numbers, texts, blobs) if writer.often(1) else OF_TYPE[name]
    return f"{writer.name(name)} {writer.among(*COMPARATORS)} {writer.value(of)}"


def between(writer: Writer) -> str:
    name = writer.among(*OF_TYPE)
    one, two = sorted([writer.draw(OF_TYPE[name]), writer.draw(OF_TYPE[name])], key=_order)
    return f"{writer.name(name)} BETWEEN {writer.value(st.just(one))} AND {writer.value(st.just(two))}"


def among(writer: Writer) -> str:
    name = writer.among(*OF_TYPE)
    return f"{writer.name(name)} IN ({', '.join(writer.value(OF_TYPE[name]) for _ in range(writer.among(1, 2, 3, 4)))})"


def attributes(writer: Writer) -> str:
    """Two attributes, or a document or set and a value. Any may be absent."""
    if writer.often(2):
        name, of = writer.among(("size", sets), ("size", twins), ("é", lists), ("a-b", maps))
        return f"{writer.name(name)} {writer.among('=', '<>')} {writer.value(of)}"
    one, two = writer.draw(st.permutations(["x", "y", "a.b", "é", "a-b"]))[:2]
    deeper = writer.among("", "", ".x")
    return f"{writer.name(one)}{deeper} {writer.among('=', '=', *COMPARATORS)} {writer.name(two)}{deeper}"


def order(writer: Writer) -> str:
    """Two values, whatever the row is."""
    of = writer.among(numbers, _each("S", "a", "b", "é", "\uffff", "\U0001f512"), blobs)
    return f"{writer.value(of)} {writer.among(*COMPARATORS[2:])} {writer.value(of)}"


def _order(value: Item) -> Any:
    ((kind, content),) = value.items()
    if kind == "N":
        return Decimal(content)
    return content.encode() if kind == "S" else b64decode(content)


def size(writer: Writer) -> str:
    name = writer.among("y", "a.b", "a.b", "size", "é", "a-b", "x")
    count = st.integers(0, 4).map(lambda number: {"N": str(number)})
    return f"size({writer.name(name)}) {writer.among('=', '=', '<', '>=')} {writer.value(count)}"


def begins_with(writer: Writer) -> str:
    name = writer.among("y", "y", "x", "a.b", "a.b", "size")
    prefix = {"a.b": _each("B", "YQ==", "YWI=", "", "/w=="), "x": _each("S", "1", "9", "-")}
    return f"begins_with({writer.name(name)}, {writer.value(prefix.get(name, _each('S', 'a', 'b', '', 'ab')))})"


def contains(writer: Writer) -> str:
    name = writer.among("y", "é", "é", "size", "size", "a.b")
    part = _each("S", "a", "b", "1") if name == "y" else blobs if name == "a.b" else elements
    if name == "size":
        part = st.one_of(_each("S", "a", "b", "1"), _each("N", "1"))
    return f"contains({writer.name(name)}, {writer.value(part)})"


def kind(writer: Writer) -> str:
    return f"attribute_type({writer.name()}, {writer.value(_each('S', *KINDS))})"


def existence(writer: Writer) -> str:
    path = writer.key() if writer.often(1) else writer.name() + writer.among("", "", ".x", "[0]", "[1]")
    return f"{writer.among('attribute_exists', 'attribute_not_exists')}({path})"


def logic(writer: Writer) -> str:
    """Attributes that are there or not, joined without parentheses, or with some."""

    def atom() -> str:
        text = f"{writer.among('attribute_exists', 'attribute_not_exists')}({writer.name(writer.among('x', 'y', 'é'))})"
        return f"{writer.among('', '', 'NOT ', 'not ')}{text}"

    parts = [atom()]
    for _ in range(writer.among(2, 3, 4)):
        parts += [writer.among("AND", "OR", "or"), atom()]
    if writer.often(1):
        return f"NOT ({' '.join(parts[:-2])}) {parts[-2]} {parts[-1]}"
    return " ".join(parts)


# -- updates


def arithmetic(writer: Writer) -> str:
    of = long_numbers if writer.often(1) else numbers
    name, other = writer.name(writer.among("x", "x", "x", "y")), writer.name("x")
    which = writer.among("sum", "counter", "two", "ADD", "ADD absent", "long")
    if which == "long":
        return f"SET {name} = {writer.value(long_numbers)} {writer.among('+', '-')} {writer.value(long_numbers)}"
    if which == "sum":
        return f"SET {name} = {other} {writer.among('+', '-')} {writer.value(of)}"
    if which == "counter":
        return f"SET {name} = if_not_exists({name}, {writer.value(of)}) + {writer.value(of)}"
    if which == "two":
        return f"SET {name} = {writer.value(of)} {writer.among('+', '-')} {other}"
    return f"ADD {other if which == 'ADD' else writer.name('a.b')} {writer.value(of)}"


def of_sets(writer: Writer) -> str:
    name = writer.name(writer.among("size", "size", "size", "y"))
    return f"{writer.among('ADD', 'DELETE', 'DELETE')} {name} {writer.value(sets)}"


def of_lists(writer: Writer) -> str:
    name = writer.name("é")
    which = writer.among("REMOVE", "REMOVE", "SET", "append", "both")
    if which == "append":
        operands = [writer.among(name, f"if_not_exists({name}, {writer.value(lists)})"), writer.value(lists)]
        return f"SET {name} = list_append({', '.join(operands if writer.often(2) else operands[::-1])})"
    indexes = writer.draw(st.lists(st.sampled_from([0, 1, 2, 3, 7]), min_size=1, max_size=3, unique=True))
    if which == "REMOVE":
        return f"REMOVE {', '.join(f'{name}[{index}]' for index in indexes)}"
    change = f"SET {', '.join(f'{name}[{index}] = {writer.value(elements)}' for index in indexes)}"
    return change if which == "SET" else f"{change} REMOVE {name}[{writer.among(4, 5, 6)}]"


def of_maps(writer: Writer) -> str:
    name, part = writer.name(writer.among("a-b", "a-b", "y", "é")), writer.name(writer.among("x", "y"))
    deeper = writer.among("", "", ".x")
    which = writer.among("SET", "SET", "REMOVE", "ADD")
    if which == "REMOVE":
        return f"REMOVE {name}.{part}{deeper}"
    return f"{which} {name}.{part}{deeper}{' =' if which == 'SET' else ''} {writer.value(numbers)}"


def reading(writer: Writer) -> str:
    """Several changes, some of which read what others write."""
    names = writer.draw(st.permutations(["x", "y", "a.b", "size"]))
    one, two, three, four = (writer.name(name) for name in names)
    changes = [
        f"{one} = {writer.value(numbers)}",
        f"{two} = if_not_exists({one}, {writer.value(numbers)})",
        *([f"{three} = {two}"] if writer.often(1) else []),
    ]
    if writer.often(1):
        changes.reverse()
    return f"SET {', '.join(changes)}{f' REMOVE {four}' if writer.often(1) else ''}"


CONDITIONS = (comparison, between, among, attributes, order, size, begins_with, contains, kind, existence, logic)
UPDATES = (arithmetic, of_sets, of_lists, of_maps, reading)


# -- cases


def write(draw: st.DrawFn, table: str, key: Item, theme: Callable[[Writer], str], transacted: bool = False) -> Request:
    """One write about the theme: its condition and no change, or its update, or both of them with another one."""
    writer = Writer(draw)
    request: dict[str, Any] = {"TableName": table, "Key": key}
    if theme in UPDATES:
        request["UpdateExpression"] = theme(writer)
    if theme in CONDITIONS or writer.often(1):
        condition = theme if theme in CONDITIONS else writer.among(existence, comparison)
        request["ConditionExpression"] = condition(writer)
    if not transacted:
        request["ReturnValues"] = writer.among("NONE", "ALL_OLD", "ALL_NEW")
    if writer.often(2):
        request["ReturnValuesOnConditionCheckFailure"] = writer.among("NONE", "ALL_OLD")
    return "UpdateItem", request | writer.placeholders()


@st.composite
def rows(draw: st.DrawFn) -> Item:
    return {name: draw(of) for name, of in ROW.items() if draw(st.integers(0, 3))}


@st.composite
def alone(draw: st.DrawFn) -> Case:
    """A row, and requests to it that are about one theme."""
    table = draw(st.sampled_from(["locks", "sorted", "orders"]))
    key = KEYS[table][0]
    theme = draw(st.sampled_from([*CONDITIONS, *UPDATES]))
    case: list[Request] = [("PutItem", {"TableName": table, "Item": {**draw(rows()), **key}})]
    case += [write(draw, table, key, theme) for _ in range(draw(st.integers(3, 8)))]
    return Case(case)


@st.composite
def transactions(draw: st.DrawFn) -> Case:
    """Transactions of several writes, of which one may fail, and which may come again or with another content."""
    table = draw(st.sampled_from(["locks", "sorted", "orders"]))
    keys = [key for key in KEYS[table] if draw(st.booleans())]
    case: list[Request] = [("PutItem", {"TableName": table, "Item": {**draw(rows()), **key}}) for key in keys]
    for _ in range(draw(st.integers(1, 3))):
        case.append(_transaction(draw, table))
        if draw(st.booleans()):
            case.append(case[-1])
    return Case(case)


def _transaction(draw: st.DrawFn, table: str) -> Request:
    writes = []
    for key in KEYS[table][: draw(st.integers(1, 2))]:
        which = draw(st.sampled_from(["Update", "Update", "Put", "Delete", "ConditionCheck"]))
        _, request = write(draw, table, key, draw(st.sampled_from([reading, of_sets, arithmetic])), True)
        if which != "Update":
            request = _simple(draw, table, key, which)
        writes.append({which: request})
    token = draw(st.sampled_from([None, "token-1", "token-1", "token-2"]))
    return "TransactWriteItems", {"TransactItems": writes} | ({"ClientRequestToken": token} if token else {})


def _simple(draw: st.DrawFn, table: str, key: Item, which: str) -> dict[str, Any]:
    writer = Writer(draw)
    request: dict[str, Any] = {"TableName": table}
    request |= {"Item": {**draw(rows()), **key}} if which == "Put" else {"Key": key}
    if which == "ConditionCheck" or writer.often(2):
        name = writer.key() if table != "orders" and writer.often(1) else writer.name("x")
        request["ConditionExpression"] = f"{writer.among('attribute_exists', 'attribute_not_exists')}({name})"
        request["ReturnValuesOnConditionCheckFailure"] = writer.among("NONE", "ALL_OLD")
    return request | writer.placeholders()


cases: st.SearchStrategy[Case] = st.one_of(alone(), alone(), alone(), transactions())
