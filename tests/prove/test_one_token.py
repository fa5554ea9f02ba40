"""The generator of mutations changes one token each, the plugin plants them, and what no test notices is reported."""

import ast
import os
import sys

import pytest

from rig.engine import ROOT
from tests.prove import one_token, tokens
from tests.support.installed import finish

SOURCE = '''"""A docstring."""
__slots__ = ("a",)
def one(a: int = 1) -> bool:
    if not a and a < 3:
        raise ValueError(f"{a + 1} is wrong")
    a.close()
    while a.left:
        break
    return max(a - 1, 0.5) == True
'''
CHANGES = [
    *("1 → 2", "not a and a < 3 → not a or a < 3", "not a → a", "a < 3 → a <= 3", "3 → 4"),
    *("raise ValueError(f'{a + 1} is wrong') → nothing", "a.close() → nothing", "a.left → not a.left"),
    "break → nothing",
    *("return max(a - 1, 0.5) == True → nothing", "max(a - 1, 0.5) == True → max(a - 1, 0.5) != True"),
    *("max(a - 1, 0.5) → min(a - 1, 0.5)", "a - 1 → a + 1", "1 → 2", "0.5 → 1.5", "True → False"),
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
    assert finish([sys.executable, "-c", program], environment, cwd=ROOT) == "21.0\n"


@pytest.mark.prove
@pytest.mark.parametrize(("only", "noticed"), [("cdk/lock_layer.py", 0), ("web/context.py#2", 1)])
def test_what_no_test_notices_is_told_and_what_one_notices_has_its_name(only, noticed, monkeypatch, capsys):
    monkeypatch.setattr(one_token, "RINGS", {"": ("greenlets",), "web/context.py": ("web",)})
    assert one_token.main(["--only", only, "--count", "1", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert (f"noticed: {noticed}\n" in said, "no test notices:" in said) == (True, not noticed)
