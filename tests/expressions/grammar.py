"""Random requests: items of all types, and conditions and updates from DynamoDB's grammar."""

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
    st.lists(st.sampled_from(["YQ==", "AA==", "/w=="]), min_size=1, unique=True).map(lambda texts: {"BS": texts}),
)
NAMES = ("x", "y", "é", "size", "a-b", "a.b")
names = st.sampled_from(NAMES)


def _nested(inner: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda elements: {"L": elements}),
        st.dictionaries(names, inner, max_size=3).map(lambda entries: {"M": entries}),
    )


values: st.SearchStrategy[Item] = st.one_of(scalars, sets, st.recursive(scalars | sets, _nested, max_leaves=4))


counted = numbers.map(lambda text: {"N": text})
worded = texts.map(lambda text: {"S": text})
listed: st.SearchStrategy[Item] = st.lists(scalars, max_size=3).map(lambda elements: {"L": elements})
mapped: st.SearchStrategy[Item] = st.dictionaries(names, scalars, max_size=3).map(lambda entries: {"M": entries})
#: What an attribute mostly is, so that many requests fit their rows.
USUAL = {"x": counted, "y": worded, "é": listed, "size": sets, "a-b": mapped, "a.b": values}


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

    def name(self, name: str = "") -> str:
        name = name or self.draw(names)
        if name in ("x", "y") and self.often(1):
            return str(name)
        placeholder = f"#n{NAMES.index(name)}"
        self.names[placeholder] = name
        return placeholder

    def path(self) -> str:
        """A path anywhere, which mostly fits what its attribute usually is."""
        name = self.draw(names)
        path = self.name(name)
        deeper = {"é": (0, 1), "a-b": (0, 1), "a.b": (0, 0, 1, 2)}.get(name, (0, 0, 0, 0, 0, 0, 0, 1))
        for _ in range(self.among(*deeper)):
            index = name == "é" or (name != "a-b" and self.often(2))
            path += f"[{self.among(0, 0, 1, 2, 5)}]" if index else f".{self.name()}"
        return path

    def usual(self, name: str) -> str:
        """A value as the attribute of this name usually has it."""
        return self.value(USUAL[name] if self.often() else values)

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
        which = self.among("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN")
        if self.often(2):
            name = self.among("x", "x", "y", "y", *(() if which[0] in "<>B" and which != "<>" else NAMES))
            if which == "BETWEEN":
                return f"{self.name(name)} BETWEEN {self.usual(name)} AND {self.name('x')}"
            if which == "IN":
                return f"{self.name(name)} IN ({self.usual(name)}, {self.usual(name)})"
            return f"{self.name(name)} {which} {self.usual(name)}"
        if self.often(1):
            few_or_more = st.integers(0, 6).map(lambda count: {"N": str(count)})
            which = self.among("=", "<", "<=", ">", ">=")
            return f"size({self.name(self.among('y', 'y', *NAMES))}) {which} {self.value(few_or_more)}"
        left = self.operand()
        if which == "BETWEEN":
            return f"{left} BETWEEN {self.operand()} AND {self.operand()}"
        if which == "IN":
            return f"{left} IN ({', '.join(self.operand() for _ in range(self.among(1, 2, 3)))})"
        return f"{left} {which} {self.operand()}"

    def function(self) -> str:
        exist = ("attribute_exists", "attribute_not_exists")
        which = self.among(*exist, *exist, "attribute_type", "begins_with", "contains")
        if which == "begins_with" and self.often(2):
            return f"begins_with({self.name('y')}, {self.value(worded)})"
        if which == "contains" and self.often(2):
            name = self.among("y", "é", "size")
            part = worded if name == "y" else scalars if name == "é" else few.map(lambda text: {"S": text})
            return f"contains({self.name(name)}, {self.value(part)})"
        path = self.path()
        if which in exist:
            return f"{which}({path})"
        if which == "attribute_type":
            kinds = st.sampled_from(["S", "SS", "N", "NS", "B", "BS", "BOOL", "NULL", "L", "M", "X"])
            named = self.value(kinds.map(lambda kind: {"S": kind})) if self.often() else self.operand()
            return f"{which}({path}, {named})"
        if which == "begins_with":
            prefix = st.one_of(texts.map(lambda text: {"S": text}), encoded.map(lambda text: {"B": text}), values)
            return f"{which}({path}, {self.value(prefix) if self.often() else self.path()})"
        return f"{which}({path}, {self.operand()})"

    # -- updates

    def update(self) -> str:
        clause = st.sampled_from(["SET", "REMOVE", "ADD", "DELETE"])
        clauses = self.draw(st.lists(clause, min_size=1, max_size=2, unique=True))
        return " ".join(f"{each} {', '.join(self.changes(each))}" for each in clauses)

    def changes(self, clause: str) -> list[str]:
        return [self.change(clause) for _ in range(self.among(1, 1, 2, 3))]

    def change(self, clause: str) -> str:
        path = self.path() if self.draw(st.integers(0, 60)) < 60 else self.key()
        if clause == "REMOVE":
            return path
        if clause in ("ADD", "DELETE") and self.often():
            name = "size" if clause == "DELETE" else self.among("x", "size")
            return f"{self.name(name)} {self.value(USUAL[name])}"
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
        return self.of("x", counted)

    def of(self, name: str, some: st.SearchStrategy[Item]) -> str:
        """An operand that is mostly of the type that this attribute usually has."""
        which = self.among("value", "path", "path", "default", "default", "any path", "any")
        if which == "any":
            return self.value(values)
        path = self.path() if which == "any path" else self.name(name)
        if which == "default":
            return f"if_not_exists({path}, {self.value(some)})"
        return path if which in ("path", "any path") else self.value(some)

    def list(self) -> str:
        return self.of("é", listed)

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


@st.composite
def rows(draw: st.DrawFn) -> Item:
    """A row without its key: most attributes are there, and mostly as usual."""
    found = {}
    for name, usual in USUAL.items():
        if draw(st.integers(0, 3)):
            found[name] = draw(usual if draw(st.integers(0, 3)) else values)
    return found


items = rows()


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
