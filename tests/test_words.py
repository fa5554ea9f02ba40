"""One word for one thing, and each room to itself: what CONTRIBUTING.md forbids does not come back."""

import ast
import re
from collections.abc import Iterator

import pytest

from rig.engine import ROOT

_MODULES = sorted((ROOT / "lambda_lock").rglob("*.py"))
_TEXTS = [*_MODULES, *sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
#: What a module may ask of Python, of the CDK and of botocore although its name says that it is private.
_OF_OTHERS = {
    *("_asdict", "_exit", "_getframe", "_current_frames", "_get_running_loop"),
    *("_cfn_properties", "_synthesize_template", "_partialmethod"),
}
_MOST_WORDS = 30


def _glossary() -> dict[str, list[str]]:
    """The words, each with those that are forbidden beside it."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## One word for one thing")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][2:]
    return {word.strip(): re.findall(r"`([^`]+)`", forbidden) for word, _, forbidden in rows}


def _uses(text: str, word: str) -> list[int]:
    """The lines of a text that have a word, also if it is broken at the end of a line."""
    pattern = r"(?<!\w)" + r"[\s#\"]+".join(map(re.escape, word.split())) + (r"(?!\w)" if word[-1].isalnum() else "")
    return [text.count("\n", 0, found.start()) + 1 for found in re.finditer(pattern, text)]


@pytest.mark.parametrize("word", [word for forbidden in _glossary().values() for word in forbidden])
def test_a_word_that_was_replaced_does_not_come_back(word):
    found = [f"{path.relative_to(ROOT)}:{line}" for path in _TEXTS for line in _uses(path.read_text(), word)]
    assert not found, f"{word!r} is another word's: see the glossary in CONTRIBUTING.md"


def test_the_glossary_can_be_read_at_once_and_a_forbidden_word_is_found_also_where_a_line_ends():
    assert 10 < len(_glossary()) <= _MOST_WORDS
    assert _uses("a\nis a place in\n    # the queue, Recalled", "place in the queue") == [2]
    assert not _uses("a place in\n# the queue, Recalled", "Recall")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _opened(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The private names of others that a module uses: those that it neither sets nor defines itself."""
    own = set(_OF_OTHERS)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):  # of its own base class
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.level or str(node.module).startswith("lambda_lock")):
            for each in node.names:
                if _is_private(each.name) and each.name != "_version":
                    yield node.lineno, each.name


@pytest.mark.parametrize("path", _MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_opens_what_is_private_to_another(path):
    assert not list(_opened(ast.parse(path.read_text())))


def test_what_a_module_opens_of_another_is_noticed():
    text = "from .held import _secret\nself._mine = 1\nother._mine\nself._of_a_base\nother._theirs"
    assert list(_opened(ast.parse(text))) == [(1, "_secret"), (5, "other._theirs")]
