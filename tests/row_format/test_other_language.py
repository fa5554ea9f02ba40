"""A client in JavaScript, written by docs/row-format.md alone, comes to the outcomes and the rows of the scenarios."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.installed import finish

from .play import FOLDER, load, place_of

CLIENT = Path(__file__).parent / "client.mjs"
OPTIONAL = "heldMs"  # it writes none


def without_optional(row: Any) -> Any:
    return row and {name: value for name, value in row.items() if name != OPTIONAL}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
@pytest.mark.parametrize("name", ["locks", "events"])
def test_a_client_in_another_language_follows_the_scenarios(name, engine):
    scenarios = load(name)["scenarios"]
    tables = [
        engine.create_table(f"other-{name}-{index}", *place_of(scenario).key_names)
        for index, scenario in enumerate(scenarios)
    ]
    try:
        command = ["node", CLIENT, FOLDER / f"{name}.json", engine.url, f"other-{name}"]
        said = json.loads(finish(command, dict(os.environ)))
    finally:
        for table in tables:
            engine.delete_table(table)
    for scenario, played in zip(scenarios, said, strict=True):
        known = [step for step in scenario["steps"] if step["act"] != "forget"]  # it does not know how to forget
        expected = [{"outcome": step["outcome"], "row": without_optional(step["row"])} for step in known]
        assert [one | {"row": without_optional(one["row"])} for one in played] == expected, scenario["name"]
