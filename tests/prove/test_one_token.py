"""The generator of mutations changes one token each, the plugin plants them, and what no test notices is reported."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from rig.engine import ROOT
from tests.prove import one_token, tokens

SOURCE = '''"""A docstring."""
__slots__ = ("a",)
if TYPE_CHECKING:
    import never
LIMIT: int = 3

def one(a: int = 1) -> bool:
    """Another."""
    if not a and a < LIMIT:
        raise ValueError(f"{a + 1} is wrong")
    a.close()
    while a.left:
        break
    return max(a - 1, 0.5) == 2 and True
'''
CHANGES = [
    *("3 → 4", "1 → 2"),
    "not a and a < LIMIT → not a or a < LIMIT",
    *("not a → a", "a < LIMIT → a <= LIMIT"),
    "raise ValueError(f'{a + 1} is wrong') → nothing",
    *("a.close() → nothing", "a.left → not a.left", "break → nothing"),
    "return max(a - 1, 0.5) == 2 and True → nothing",
    "max(a - 1, 0.5) == 2 and True → max(a - 1, 0.5) == 2 or True",
    "max(a - 1, 0.5) == 2 → max(a - 1, 0.5) != 2",
    *("max(a - 1, 0.5) → min(a - 1, 0.5)", "a - 1 → a + 1"),
    *("1 → 2", "0.5 → 1.5", "2 → 3", "True → False"),
]


def test_what_runs_is_changed_one_token_at_a_time_and_in_the_order_of_the_source():
    assert [each.change for each in tokens.mutations("one.py", ast.parse(SOURCE))] == CHANGES
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    for number in range(len(CHANGES)):
        tree = ast.parse(SOURCE)
        tokens.mutations("one.py", tree)[number].plant()
        after = ast.unparse(tree).splitlines()
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_every_file_has_its_tests_and_every_folder_of_them_exists():
    for file in tokens.files():
        assert all((ROOT / "tests" / folder).is_dir() for folder in one_token.rings(file)), file


def test_a_process_with_the_plugin_imports_the_mutated_module():
    (limit,) = (each for each in tokens.mutations("transport/http1.py") if each.change == "20.0 → 21.0")
    program = "import tests.prove.tokens; from lambda_lock.transport import http1; print(http1.IDLE)"
    environment = os.environ | {tokens.VARIABLE: limit.name}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "21.0\n", done.stderr


@pytest.mark.prove
def test_what_no_test_notices_is_told_and_what_one_notices_has_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(one_token, "RINGS", {"": ("greenlets",), "web/context.py": ("web",)})
    file = tmp_path / "figures.json"
    for only, noticed in (("cdk/lock_layer.py", 0), ("web/context.py#2", 1)):
        assert one_token.main(["--only", only, "--count", "1", "--seed", "1", "--json", str(file)]) == 0
        figures = json.loads(file.read_text())
        assert (figures["mutations"], figures["noticed"], len(figures["survivors"])) == (1, noticed, 1 - noticed)
        assert ("no test notices:" in capsys.readouterr().out) == (not noticed)
