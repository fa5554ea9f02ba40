"""Lines of code of each package of lambda_lock: without docstrings, comments and blank lines."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from pathlib import Path

from rig.engine import ROOT

#: Tokens that do not make a line one of code.
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of_code(file: Path) -> int:
    """The lines of ``file`` on which there is code. A string over several lines counts each of them."""
    with tokenize.open(file) as text:
        tokens = list(tokenize.generate_tokens(text.readline))
    code = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return len(code - _docstrings(file))


def _docstrings(file: Path) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            found |= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return found


def by_package(folder: Path = ROOT / "lambda_lock") -> dict[str, int]:
    """Lines of code by package: the folders in ``folder``, and its own modules."""
    counted: Counter[str] = Counter()
    for file in sorted(folder.rglob("*.py")):
        inside = file.relative_to(folder)
        counted[f"{inside.parts[0]}/" if len(inside.parts) > 1 else "its own modules"] += lines_of_code(file)
    return dict(counted)
