"""What docs/step-functions.md and docs/waiting-asleep.md show: code and definitions, as they stand there."""

import json
import re
from typing import Any

from rig.engine import ROOT

_PAGES = "\n".join((ROOT / "docs" / name).read_text() for name in ("step-functions.md", "waiting-asleep.md"))
_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", _PAGES, re.M | re.S)

#: The modules that the handlers are in, and what each block contains.
MODULES = {
    "steps": "def ended",
    "claim": "def acquire_parts",
    "asleep": "def sleep(",
    "asleep_permits": "def sleep_permit",
    "permits": "def acquire_permit",
}
HANDLERS = ("acquire", "reserve", "ask", "ship", "release", "ended")
HANDLERS_OF_PERMITS = ("acquire_permit", "permit_ended")
HANDLERS_OF_SLEEP = ("sleep", "sleep_permit")
HANDLERS_OF_PARTS = ("acquire_parts", "reserve_parts", "release_parts")


def code(contains: str) -> str:
    """The one block of Python that contains a text."""
    (found,) = (block for kind, block in _BLOCKS if kind == "py" and contains in block)
    return str(found)


def definition(contains: str, names: dict[str, str]) -> dict[str, Any]:
    """The one block of JSON that contains a text. names: what its ``${name}`` stand for, as CloudFormation has them."""
    (found,) = (block for kind, block in _BLOCKS if kind == "json" and contains in block)
    loaded: dict[str, Any] = json.loads(re.sub(r"\$\{(\w+)\}", lambda name: names[name[1]], found))
    return loaded


def machines(names: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The definitions of Orders and AfterOrders."""
    return definition("Orders: one execution", names), definition("AfterOrders:", names)


def asleep(names: dict[str, str]) -> dict[str, Any]:
    """The definition of Orders whose executions sleep until the lock is free."""
    orders, _ = machines(names)
    return orders | {"States": orders["States"] | definition('"Sleep": {', names)}


def of_permits(names: dict[str, str]) -> dict[str, str]:
    """What the names stand for in the state machines for at most N executions."""
    own = {"acquire": "acquire_permit", "ended": "permit_ended", "sleep": "sleep_permit"}
    return names | {name: names[handler] for name, handler in own.items()}


def pattern(machine_arn: str) -> dict[str, Any]:
    """The pattern of the rule for the end of an execution."""
    return definition('"detail-type"', {"Orders": machine_arn})
