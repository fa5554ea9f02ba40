"""Random requests: items of all types, and conditions and updates from DynamoDB's grammar."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from hypothesis import strategies as st

from .databases import TABLES, Case, Item, Request

numbers = st.one_of(
    st.integers(-3, 9).map(str),
    st.integers(-(10**37), 10**37).map(str),
    st.sampled_from(["7.0", "7.5", "1E3", "1E+3", "1E20", "-0", "0.0", "9" * 38, "-1.5e-3", "1800000000000", "0.1"]),
)
texts = st.one_of(
    st.sampled_from(["", "a", "ab", "b", "é", "☃", "ab☃", "\U0001f512", "\uffff", "7"]), st.text(max_size=3)
)
blobs = st.one_of(st.sampled_from([b"", b"a", b"ab", b"\xff", b"\x00"]), st.binary(max_size=3))
encoded = blobs.map(lambda data: b64encode(data).decode())
scalars: st.SearchStrategy[Item] = st.one_of(
    texts.map(lambda text: {"S": text}),
    numbers.map(lambda number: {"N": number}),
    encoded.map(lambda text: {"B": text}),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.just({"NULL": True}),
)
few = st.sampled_from(["a", "b", "ab", "é"])
sets: st.SearchStrategy[Item] = st.one_of(
    st.lists(few, min_size=1, max_size=3, unique=True).map(lambda texts: {"SS": texts}),
    st.lists(st.integers(-1, 3).map(str), min_size=1, max_size=3, unique=True).map(lambda texts: {"NS": texts}),
    st.lists(st.sampled_from(["YQ==", "AA==", "/w=="]), min_size=1, max_size=3, unique=True).map(
        lambda texts: {"BS": texts}
    ),
)
NAMES = ("x", "y", "é", "size", "a-b", "a.b")
names = st.sampled_from(NAMES)


def _nested(inner: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda elements: {"L": elements}),
        st.dictionaries(names, inner, max_size=3).map(lambda entries: {"M": entries}),
    )


values: st.SearchStrategy[Item] = st.one_of(scalars, sets, st.recursive(scalars | sets, _nested, max_leaves=4))


class Writer:
    """Writes the text of expressions, and remembers their placeholders."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.names: dict[str, str] = {}
        self.values: Item = {}

    def among(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def often(self, share: int = 3) -> bool:
        """True in ``share`` of 4. The other case is the simpler one."""
        return bool(self.draw(st.integers(0, 3)) > 3 - share)

    # -- operands

    def name(self) -> str:
        name = self.draw(names)
        if name in ("x", "y") and self.often(1):
            return str(name)
        placeholder = f"#n{NAMES.index(name)}"
        self.names[placeholder] = name
        return placeholder

    def path(self) -> str:
        path = self.name()
        for _ in range(self.among(0, 0, 0, 1, 1, 2)):
            path += f"[{self.among(0, 1, 2, 5)}]" if self.often(2) else f".{self.name()}"
        return path

    def key(self) -> str:
        self.names["#k"] = "key"
        return "#k"

    def value(self, of: st.SearchStrategy[Item] = values) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = self.draw(of)
        return placeholder

    def operand(self) -> str:
        which = self.among("value", "path", "path", "size")
        if which == "value":
            return self.value()
        return f"size({self.path()})" if which == "size" else self.path()

    # -- conditions

    def condition(self, depth: int = 2) -> str:
        which = self.among("comparison", "function", "function", "comparison", "and", "or", "not", "parens")
        if depth == 0 or which in ("comparison", "function"):
            return self.function() if which == "function" else self.comparison()
        inner = self.condition(depth - 1)
        if which == "not":
            return f"NOT {inner}"
        if which == "parens":
            return f"({inner})"
        return f"{inner} {self.among(which, which.upper())} {self.condition(depth - 1)}"

    def comparison(self) -> str:
        left = self.operand()
        which = self.among("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN")
        if which == "BETWEEN":
            return f"{left} BETWEEN {self.operand()} AND {self.operand()}"
        if which == "IN":
            return f"{left} IN ({', '.join(self.operand() for _ in range(self.among(1, 2, 3)))})"
        return f"{left} {which} {self.operand()}"

    def function(self) -> str:
        which = self.among("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains")
        path = self.path()
        if which in ("attribute_exists", "attribute_not_exists"):
            return f"{which}({path})"
        if which == "attribute_type":
            kinds = st.sampled_from(["S", "SS", "N", "NS", "B", "BS", "BOOL", "NULL", "L", "M", "X"])
            return f"{which}({path}, {self.value(kinds.map(lambda kind: {'S': kind}))})"
        if which == "begins_with":
            prefix = st.one_of(texts.map(lambda text: {"S": text}), encoded.map(lambda text: {"B": text}), values)
            return f"{which}({path}, {self.value(prefix) if self.often() else self.path()})"
        return f"{which}({path}, {self.operand()})"

    # -- updates

    def update(self) -> str:
        clauses = self.draw(
            st.lists(st.sampled_from(["SET", "REMOVE", "ADD", "DELETE"]), min_size=1, max_size=2, unique=True)
        )
        return " ".join(f"{each} {', '.join(self.changes(each))}" for each in clauses)

    def changes(self, clause: str) -> list[str]:
        return [self.change(clause) for _ in range(self.among(1, 1, 2, 3))]

    def change(self, clause: str) -> str:
        path = self.path() if self.draw(st.integers(0, 60)) < 60 else self.key()
        if clause == "REMOVE":
            return path
        if clause == "ADD":
            return f"{path} {self.value(st.one_of(numbers.map(lambda text: {'N': text}), sets, values))}"
        if clause == "DELETE":
            return f"{path} {self.value(sets | values)}"
        return f"{path} = {self.expression()}"

    def expression(self) -> str:
        which = self.among("value", "term", "sum", "append")
        if which == "value":
            return self.value()
        if which == "sum":
            return f"{self.number()} {self.among('+', '-')} {self.number()}"
        if which == "append":
            return f"list_append({self.list()}, {self.list()})"
        return self.path() if self.often(2) else f"if_not_exists({self.path()}, {self.value()})"

    def number(self) -> str:
        some = numbers.map(lambda text: {"N": text})
        which = self.among("value", "path", "default", "any")
        if which == "default":
            return f"if_not_exists({self.path()}, {self.value(some)})"
        return self.path() if which == "path" else self.value(values if which == "any" else some)

    def list(self) -> str:
        some = st.lists(scalars, max_size=2).map(lambda elements: {"L": elements})
        which = self.among("value", "path", "default", "any")
        if which == "default":
            return f"if_not_exists({self.path()}, {self.value(some)})"
        return self.path() if which == "path" else self.value(values if which == "any" else some)

    # -- requests

    def placeholders(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.names:
            found["ExpressionAttributeNames"] = self.names
        if self.values:
            found["ExpressionAttributeValues"] = self.values
        if self.draw(st.integers(0, 40)) == 40:  # one that is not used
            found["ExpressionAttributeNames"] = {**self.names, "#z": "z"}
        return found


KEYS = {
    "locks": [{"key": {"S": "k"}}, {"key": {"S": "é☃"}}],
    "sorted": [{"key": {"S": "k"}, "sort": {"S": sort}} for sort in ("s", "t")],
    "orders": [{"id": {"N": number}} for number in ("7", "8")],
}


@st.composite
def write(draw: st.DrawFn, table: str, *, transacted: bool = False) -> Request:
    """One write. In a transaction it may be a ConditionCheck, and asks for no values."""
    writer = Writer(draw)
    operations = ("UpdateItem", "UpdateItem", "UpdateItem", "PutItem", "DeleteItem")
    operation = writer.among(*operations, *(("ConditionCheck",) if transacted else ()))
    key = writer.among(*KEYS[table])
    request: dict[str, Any] = {"TableName": table}
    if operation == "PutItem":
        request["Item"] = {**draw(items), **key}
    else:
        request["Key"] = key
    if operation == "UpdateItem" and (transacted or writer.often()):
        request["UpdateExpression"] = writer.update()
    if operation == "ConditionCheck" or writer.often(2):
        request["ConditionExpression"] = writer.condition()
    if writer.often(2):
        request["ReturnValuesOnConditionCheckFailure"] = writer.among("NONE", "ALL_OLD")
    returned = ("NONE", "ALL_OLD", "ALL_NEW") if operation == "UpdateItem" else ("NONE", "ALL_OLD")
    if not transacted and writer.often(2):
        request["ReturnValues"] = writer.among(*returned)
    return operation, request | writer.placeholders()


items: st.SearchStrategy[Item] = st.dictionaries(names, values, max_size=4)


@st.composite
def transaction(draw: st.DrawFn, table: str) -> Request:
    inner = draw(st.lists(write(table, transacted=True), min_size=1, max_size=3))
    writes = [{operation.removesuffix("Item"): request} for operation, request in inner]
    token = draw(st.sampled_from([None, "token-1", "token-2"]))
    return "TransactWriteItems", {"TransactItems": writes} | ({"ClientRequestToken": token} if token else {})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Rows, and then random requests to them."""
    table = draw(st.sampled_from(["locks", "sorted", "orders"]))
    puts: list[Request] = [
        ("PutItem", {"TableName": table, "Item": {**draw(items), **key}})
        for key in KEYS[table][:2]
        if draw(st.integers(0, 3)) > 0
    ]
    any_write = st.one_of(write(table), write(table), write(table), transaction(table))
    return Case([*puts, *draw(st.lists(any_write, min_size=1, max_size=3))])


assert KEYS.keys() <= TABLES.keys()
