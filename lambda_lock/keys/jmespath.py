"""Keys from JMESPath expressions. This module, jmespath and Powertools are loaded only if an expression needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import LockConfigurationError
from .arguments import declared_fields, joined, scalar_text, separated
from .parameters import MISSING, Parameters, Unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def from_jmespath(expression: str, parameters: Parameters) -> Callable[..., str]:
    """The function that makes keys of an expression on the first argument. Raises Unusable, LockConfigurationError."""
    if parameters.first is None:
        raise Unusable("the function has no first argument to search in", expression)
    try:
        import jmespath  # here, so that only functions with an expression pay for it
        from jmespath.exceptions import JMESPathError
        from jmespath.parser import ParsedResult
    except ImportError as error:
        raise LockConfigurationError(
            "key_jmespath= needs jmespath: pip install jmespath (boto3 and Powertools include it), or use key= instead"
        ) from error
    try:
        compiled = jmespath.compile(expression)
    except (JMESPathError, RecursionError, ValueError) as error:  # nested too deep; a number of too many digits
        raise Unusable(f"it is not a valid JMESPath expression: {error}", expression) from error
    options = None
    if "powertools_" in expression:  # importing Powertools is slow
        try:
            from aws_lambda_powertools.utilities.jmespath_utils import PowertoolsFunctions
        except ImportError as error:
            raise LockConfigurationError(
                "the powertools_… functions in key_jmespath= need Powertools: pip install 'lambda-lock[powertools]'"
            ) from error
        options = jmespath.Options(custom_functions=PowertoolsFunctions())
    found = _joined_parts(compiled.parsed)
    parts = separated(part if isinstance(part, str) else ParsedResult(expression, part) for part in found)

    def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        first = parameters.argument(None, args, kwargs)
        if first is MISSING:
            raise Unusable("the first argument is not given", expression)
        try:
            searched = _plain(first)
            value = compiled.search(searched, options)
            if len(parts) > 1:  # a join(): the search has checked that all its values are strs
                value = joined(parts, ParsedResult.search, searched, options)
            return scalar_text(value)
        except Unusable as error:
            raise Unusable(str(error), expression) from None
        except Exception as error:  # a function in the expression may raise anything for the value it was given
            raise Unusable(type(error).__name__, expression) from error  # the message would show the event

    return make


def _joined_parts(node: Any) -> list[Any]:
    """The literals (str) and fields (nodes) of ``join('#', [a, 'b', c])``, nested ones included. Otherwise the node.

    jmespath calls its nodes an implementation detail. So a node of any other shape is taken as a field.
    """
    if node["type"] == "literal" and isinstance(node["value"], str):
        return [node["value"]]
    if node["type"] in ("subexpression", "pipe"):  # detail.join(…), detail | join(…)
        *before, last = node["children"]
        return [
            part if isinstance(part, str) else {**node, "children": [*before, part]} for part in _joined_parts(last)
        ]
    if node["type"] != "function_expression" or node["value"] != "join" or len(node["children"]) != 2:
        return [node]
    glue, elements = node["children"]
    if glue["type"] != "literal" or elements["type"] != "multi_select_list":
        return [node]
    parts: list[Any] = []
    for number, element in enumerate(elements["children"]):
        parts += [glue["value"]] * bool(number) + _joined_parts(element)
    return parts


def _plain(value: object) -> object:
    """An event class, model or dataclass as a dict that JMESPath can search. Other values stay as they are."""
    if isinstance(value, dict):
        return value
    raw = getattr(value, "raw_event", None)
    if isinstance(raw, Mapping):
        return raw
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    fields = declared_fields(value)
    return value if fields is None else {name: _plain(getattr(value, name)) for name in fields}
