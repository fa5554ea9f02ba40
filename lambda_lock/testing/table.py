"""An in-memory DynamoDB table that evaluates the real requests: linearizable, because `Table.apply` is one step.

Items, keys and expressions are DynamoDB's JSON, as core/requests.py writes them. An expression is parsed once, by its
text, into closures. What DynamoDB refuses is a ServiceError("ValidationException"), unused placeholders included; what
DynamoDB knows and this table does not (nested paths, ADD, size(), reads in transactions) is a NotImplementedError,
never a guess.

The rules of evaluation are those of the DynamoDB developer guide ("Condition and filter expressions", "Update
expressions"): a comparison with an absent attribute is false (``<>`` is true), one between two types is false (``<>``
is true), and every operand of an update sees the item as it was before. Transactions: API reference,
TransactWriteItems (`Table.apply`: all items are of this table; `transact`: each is of its own).
"""

from __future__ import annotations

import operator
import re
from binascii import a2b_base64
from decimal import Decimal

from ..core.outcome import ConditionFailed, ServiceError, TransactionCanceled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..core.outcome import Item

    Value: TypeAlias = dict[str, Any]
    Names: TypeAlias = dict[str, str]
    #: Operands and conditions: what they are for an item, under the request's names and values.
    Operand: TypeAlias = Callable[[Item, Names, Item], Value | None]
    Condition: TypeAlias = Callable[[Item, Names, Item], bool]
    #: What a write of a transaction would leave, its cancellation code, and the row shown with it.
    Attempt: TypeAlias = tuple[Item | None, str, Item | None]
    #: One change of an update: the attribute's placeholder or name, and its new value; None removes it.
    Change: TypeAlias = tuple[str, Operand | None]

_READS = frozenset({"TableName", "Key", "ConsistentRead"})
_WRITES = frozenset(
    {
        "TableName",
        "ConditionExpression",
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "ReturnValues",
        "ReturnValuesOnConditionCheckFailure",
    }
)
_FIELDS = {
    "GetItem": _READS,
    "PutItem": _WRITES | {"Item"},
    "UpdateItem": _WRITES | {"Key", "UpdateExpression"},
    "DeleteItem": _WRITES | {"Key"},
}
_TRANSACTED = {  # what TransactWriteItems calls a write, and what it takes of it
    "Put": ("PutItem", _FIELDS["PutItem"] - {"ReturnValues"}),
    "Update": ("UpdateItem", _FIELDS["UpdateItem"] - {"ReturnValues"}),
    "Delete": ("DeleteItem", _FIELDS["DeleteItem"] - {"ReturnValues"}),
    "ConditionCheck": ("ConditionCheck", _FIELDS["DeleteItem"] - {"ReturnValues"}),
}
_MOST_TRANSACTED = 100
_RETURNS = {
    "PutItem": frozenset({"NONE", "ALL_OLD"}),
    "UpdateItem": frozenset({"NONE", "ALL_OLD", "ALL_NEW"}),
    "DeleteItem": frozenset({"NONE", "ALL_OLD"}),
}
_NOTHING: dict[str, Any] = {}


class Table:
    """One table. ``partition_key`` and ``sort_key`` name its key attributes (of a lock: strings)."""

    def __init__(self, partition_key: str = "key", sort_key: str | None = None) -> None:
        self.key_names = (partition_key,) if sort_key is None else (partition_key, sort_key)
        self._items: dict[tuple[Any, ...], Item] = {}
        #: Keys on which a transaction of somebody is under way: writes meet a conflict. Set by whoever wants one.
        self.busy: set[tuple[str, ...]] = set()
        #: Transactions carried out, by client token. DynamoDB forgets one after ten minutes: whoever has a clock does.
        self.done: dict[str, list[dict[str, Any]]] = {}

    def items(self) -> list[Item]:
        """All items, in the order of their first writing."""
        return list(self._items.values())

    def get(self, *key: str) -> Item | None:
        """The item under a partition key (and sort key) of strings, None where there is none."""
        return self._items.get(key)

    def apply(self, operation: str, request: dict[str, Any]) -> Item | None:
        """Carry out one request in one step. Returns the item of a GetItem, or the attributes that a write was asked
        for.

        Items that are returned are the table's own: look, do not change. Raises ConditionFailed (without a Date: a
        table has no clock), TransactionCanceled likewise, and ServiceError for what DynamoDB would refuse.
        """
        if operation == "TransactWriteItems":
            transact(lambda _: self, self.done, **request)
            return None
        fields = _FIELDS.get(operation)
        if fields is None:
            raise NotImplementedError(f"{operation}: this table evaluates {', '.join(_FIELDS)}")
        if not request.keys() <= fields:
            raise NotImplementedError(f"{operation} with {', '.join(sorted(request.keys() - fields))}")
        key = self.key(request["Item"] if operation == "PutItem" else request["Key"], operation != "PutItem")
        old = self._items.get(key)
        if operation == "GetItem":
            return old
        returned = request.get("ReturnValues", "NONE")
        if returned not in _RETURNS[operation]:
            raise NotImplementedError(f"{operation} with ReturnValues={returned}")
        if key in self.busy:
            raise ServiceError("TransactionConflictException", "a transaction is under way on the item", retryable=True)
        new = self._changed(operation, request, old)
        self.store(key, new)
        return {"ALL_NEW": new, "ALL_OLD": old}.get(returned)

    def store(self, key: tuple[Any, ...], item: Item | None) -> None:
        """Put the item under its key; None: delete what is there."""
        if item is None:
            self._items.pop(key, None)
        else:
            self._items[key] = item

    def attempt(self, operation: str, key: tuple[Any, ...], request: dict[str, Any]) -> Attempt:
        """What one write of a transaction would leave under ``key``; its cancellation code, and the row shown."""
        old = self._items.get(key)
        if key in self.busy:
            return old, "TransactionConflict", None
        try:
            new = self._changed(operation, request, old)
        except ConditionFailed as refused:
            return old, "ConditionalCheckFailed", refused.item
        return (old if operation == "ConditionCheck" else new), "None", None

    def _changed(self, operation: str, request: dict[str, Any], old: Item | None) -> Item | None:
        """The item as the write leaves it, None for none; raises ConditionFailed."""
        names = request.get("ExpressionAttributeNames", _NOTHING)
        values = request.get("ExpressionAttributeValues", _NOTHING)
        condition = _parsed(_condition_cache, request.get("ConditionExpression"))
        update = _parsed(_update_cache, request.get("UpdateExpression"))
        _check_placeholders(condition, update, names, values)
        before = old or {}
        if condition is not None and not condition.evaluate(before, names, values):
            shown = old if request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" else None
            raise ConditionFailed(shown, None)
        if operation in ("DeleteItem", "ConditionCheck"):
            return None
        if operation == "PutItem":
            return dict(request["Item"])
        new = dict(before or request["Key"])
        if update is not None:
            self._update(new, before, update.evaluate, names, values)
        return new

    def _update(self, new: Item, before: Item, changes: list[Change], names: Names, values: Item) -> None:
        changed = set()
        for path, operand in changes:
            attribute = names[path] if path[0] == "#" else path
            if attribute in self.key_names:
                raise _invalid(f"the update changes {attribute}, which is part of the key")
            if attribute in changed:
                raise _invalid(f"two document paths overlap: {attribute} is changed twice")
            changed.add(attribute)
            if operand is None:
                new.pop(attribute, None)
                continue
            value = operand(before, names, values)
            if value is None:
                raise _invalid("the expression refers to an attribute that does not exist in the item")
            new[attribute] = value

    def key(self, item: Item, exact: bool) -> tuple[Any, ...]:
        """The key of an item, or (``exact``) of what must be nothing but a key."""
        try:
            key = tuple([_key_value(item[name]) for name in self.key_names])
        except KeyError as missing:
            raise _invalid(f"the key attribute {missing} is absent") from None
        if exact and len(item) != len(key):
            raise _invalid(f"the key has other attributes than {self.key_names}")
        if "" in key:
            raise _invalid("a key attribute is empty")
        return key


def _key_value(value: Value) -> str | int | Decimal | bytes:
    """What stands for a key attribute: numbers that are equal are one key."""
    if "S" in value:
        text: str = value["S"]
        return text
    if "N" in value:
        return _number(value)
    if "B" not in value:
        raise _invalid(f"the key attribute {value} is no string, number or binary")
    return a2b_base64(value["B"])


def transact(
    table_of: Callable[[dict[str, Any]], Table],
    done: dict[str, list[dict[str, Any]]],
    TransactItems: list[dict[str, Any]],  # noqa: N803
    ClientRequestToken: str | None = None,  # noqa: N803
) -> None:
    """All of the writes or none, each in its table. The same token again is the same transaction, once it was done."""
    if not 1 <= len(TransactItems) <= _MOST_TRANSACTED:
        raise _invalid(f"a transaction has 1 to {_MOST_TRANSACTED} items, not {len(TransactItems)}")
    if ClientRequestToken is not None and not 1 <= len(ClientRequestToken) <= 36:
        raise _invalid("a client token has 1 to 36 characters")
    if ClientRequestToken in done:
        if done[ClientRequestToken] != TransactItems:
            raise ServiceError("IdempotentParameterMismatchException", "this token was another transaction's")
        return
    changes: dict[tuple[Table, tuple[Any, ...]], Item | None] = {}
    reasons: list[str] = []
    shown: list[Item | None] = []
    for item in TransactItems:
        operation, request = _transacted(item)
        table, put = table_of(request), operation == "PutItem"
        key = table.key(request["Item"] if put else request["Key"], not put)
        if (table, key) in changes:
            raise _invalid("a transaction cannot include multiple operations on one item")
        changes[table, key], reason, row = table.attempt(operation, key, request)
        reasons.append(reason)
        shown.append(row)
    if any(reason != "None" for reason in reasons):
        raise TransactionCanceled(reasons, shown, None)
    for (table, key), new in changes.items():
        table.store(key, new)
    if ClientRequestToken is not None:
        done[ClientRequestToken] = TransactItems


def _transacted(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if len(item) != 1 or not item.keys() <= _TRANSACTED.keys():
        raise _invalid(f"an item of a transaction is one of {', '.join(_TRANSACTED)}, not {', '.join(item)}")
    ((name, request),) = item.items()
    operation, fields = _TRANSACTED[name]
    if not request.keys() <= fields:
        raise _invalid(f"{name} with {', '.join(sorted(request.keys() - fields))}")
    if name == "ConditionCheck" and "ConditionExpression" not in request:
        raise _invalid("a ConditionCheck without a condition")
    return operation, request


def _invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)


# -- expressions ----------------------------------------------------------------------------------------------------


class _Expression:
    """A parsed expression: its closures, and the placeholders it uses."""

    __slots__ = ("evaluate", "names", "values")

    def __init__(self, evaluate: Any, names: set[str], values: set[str]) -> None:
        self.evaluate = evaluate
        self.names = names
        self.values = values


class _Cache:
    __slots__ = ("expressions", "parse")

    def __init__(self, parse: Callable[[_Parser], Any]) -> None:
        self.parse = parse
        self.expressions: dict[str, _Expression] = {}


def _parsed(cache: _Cache, text: str | None) -> _Expression | None:
    if text is None:
        return None
    known = cache.expressions.get(text)
    if known is None:
        parser = _Parser(text)
        known = _Expression(cache.parse(parser), parser.names, parser.values)
        cache.expressions[text] = known
    return known


def _check_placeholders(condition: _Expression | None, update: _Expression | None, names: Names, values: Item) -> None:
    if condition is not None and update is not None:
        used_names, used_values = condition.names | update.names, condition.values | update.values
    else:
        one = condition or update
        used_names, used_values = (one.names, one.values) if one is not None else (set(), set())
    if names.keys() != used_names:
        raise _invalid(f"names defined and names used differ: {sorted(names.keys() ^ used_names)}")
    if values.keys() != used_values:
        raise _invalid(f"values defined and values used differ: {sorted(values.keys() ^ used_values)}")


_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_0-9]+)|(<>|<=|>=|[=<>(),+\-]))")
_FUNCTIONS = ("attribute_exists", "attribute_not_exists", "begins_with")
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class _Parser:
    """Recursive descent over one expression's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens(text)
        self.at = 0
        self.names: set[str] = set()
        self.values: set[str] = set()

    @staticmethod
    def _tokens(text: str) -> list[str]:
        tokens, at, text = [], 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise NotImplementedError(f"{text[at:].strip()[:20]!r} in the expression {text!r}")
            tokens.append(match.group(1) or match.group(2))
            at = match.end()
        return tokens

    # -- tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, *words: str) -> str:
        """Take the next token if it is one of these (keywords in any case); "" if not."""
        word = self.peek().upper()
        if word not in words:
            return ""
        self.at += 1
        return word

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise _invalid(f"{token!r} expected at token {self.at} of {self.text!r}")

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise _invalid(f"{self.peek()!r} not expected in {self.text!r}")

    # -- operands

    def path(self) -> str:
        """A top-level attribute: ``#name`` or a bare name."""
        token = self.take()
        if not token or not (token[0] == "#" or token[0].isalpha() or token[0] == "_"):
            raise _invalid(f"an attribute expected, not {token!r}, in {self.text!r}")
        if token[0] == "#":
            self.names.add(token)
        return token

    def operand(self) -> Operand:
        if not self.peek().startswith(":"):
            return _attribute(self.path())
        value = self.take()
        self.values.add(value)
        return lambda item, names, values: values.get(value)

    # -- conditions

    def condition(self) -> Condition:
        condition = self.either()
        self.end()
        return condition

    def either(self) -> Condition:
        parts = [self.every()]
        while self.accept("OR"):
            parts.append(self.every())
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def every(self) -> Condition:
        parts = [self.negated()]
        while self.accept("AND"):
            parts.append(self.negated())
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def negated(self) -> Condition:
        if not self.accept("NOT"):
            return self.single()
        inner = self.negated()
        return lambda item, names, values: not inner(item, names, values)

    def single(self) -> Condition:
        if self.accept("("):
            inner = self.either()
            self.expect(")")
            return inner
        if self.tokens[self.at + 1 : self.at + 2] == ["("]:
            return self.function(self.take())
        left = self.operand()
        if self.accept("IN"):
            return self.among(left)
        comparator = self.take()
        if comparator == "=":
            return _equals(left, self.operand())
        if comparator == "<>":
            equal = _equals(left, self.operand())
            return lambda item, names, values: not equal(item, names, values)
        if comparator not in _ORDER:
            raise NotImplementedError(f"{comparator!r} in the condition {self.text!r}")
        return _ordered(left, self.operand(), _ORDER[comparator])

    def function(self, name: str) -> Condition:
        if name not in _FUNCTIONS:
            raise NotImplementedError(f"{name}() in the condition {self.text!r}")
        self.expect("(")
        attribute = _attribute(self.path())
        if name == "begins_with":
            self.expect(",")
            condition = _begins_with(attribute, self.operand())
        elif name == "attribute_exists":
            condition = _exists(attribute)
        else:
            condition = _is_absent(attribute)
        self.expect(")")
        return condition

    def among(self, left: Operand) -> Condition:
        self.expect("(")
        parts = [_equals(left, self.operand())]
        while self.accept(","):
            parts.append(_equals(left, self.operand()))
        self.expect(")")
        return _any_of(parts)

    # -- updates

    def update(self) -> list[Change]:
        changes: list[Change] = []
        clauses = set()
        while self.peek():
            clause = self.accept("SET", "REMOVE")
            if not clause:
                raise NotImplementedError(f"{self.peek()!r} in the update {self.text!r}")
            if clause in clauses:
                raise _invalid(f"{clause} stands twice in {self.text!r}")
            clauses.add(clause)
            changes.append(self.change(clause))
            while self.accept(","):
                changes.append(self.change(clause))
        return changes

    def change(self, clause: str) -> Change:
        path = self.path()
        if clause == "REMOVE":
            return path, None
        self.expect("=")
        left = self.term()
        sign = self.accept("+", "-")
        return path, _sum(left, self.term(), -1 if sign == "-" else 1) if sign else left

    def term(self) -> Operand:
        if self.tokens[self.at + 1 : self.at + 2] != ["("]:
            return self.operand()
        name = self.take()
        if name != "if_not_exists":
            raise NotImplementedError(f"{name}() in the update {self.text!r}")
        self.expect("(")
        attribute = _attribute(self.path())
        self.expect(",")
        otherwise = self.term()
        self.expect(")")
        return lambda item, names, values: attribute(item, names, values) or otherwise(item, names, values)


_condition_cache = _Cache(_Parser.condition)
_update_cache = _Cache(_Parser.update)


# -- closures ---------------------------------------------------------------------------------------------------------


def _attribute(path: str) -> Operand:
    if path[0] == "#":
        return lambda item, names, values: item.get(names[path])
    return lambda item, names, values: item.get(path)


def _any_of(parts: list[Condition]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        for part in parts:  # noqa: SIM110 - any() with a generator costs twice as much
            if part(item, names, values):
                return True
        return False

    return evaluate


def _all_of(parts: list[Condition]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        for part in parts:  # noqa: SIM110 - as above
            if not part(item, names, values):
                return False
        return True

    return evaluate


def _exists(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is not None


def _is_absent(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is None


def _equals(left: Operand, right: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return False
        return one == other or ("N" in one and "N" in other and _number(one) == _number(other))

    return evaluate


def _ordered(left: Operand, right: Operand, compare: Callable[[Any, Any], bool]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None or one.keys() != other.keys():
            return False
        if "N" in one:
            return compare(_number(one), _number(other))
        if "S" not in one:
            raise NotImplementedError(f"an order of {one} and {other}")
        return compare(one["S"].encode(), other["S"].encode())

    return evaluate


def _begins_with(attribute: Operand, prefix: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        whole, start = attribute(item, names, values), prefix(item, names, values)
        if start is None or "S" not in start:
            raise NotImplementedError(f"begins_with({start})")
        return whole is not None and "S" in whole and str(whole["S"]).startswith(start["S"])

    return evaluate


def _sum(left: Operand, right: Operand, sign: int) -> Operand:
    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return None
        if "N" not in one or "N" not in other:
            raise _invalid(f"an operand of the sum is not a number: {one}, {other}")
        return {"N": str(_number(one) + sign * _number(other))}

    return evaluate


def _number(value: Value) -> int | Decimal:
    text: str = value["N"]
    return int(text) if text.isdigit() else Decimal(text)
