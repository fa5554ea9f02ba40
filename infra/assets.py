"""The assets to upload: the library as a layer, and the functions' code. They are plain copies, without Docker.

The CDK makes its own copy for the first construct that uses the code, so use the code within the ``with`` block. The
copy is named by a hash of its files: the same checkout has the same assets.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from aws_cdk import aws_lambda as lambda_

ROOT = Path(__file__).resolve().parent.parent
NOT_IN_FUNCTIONS = frozenset({"cdk", "cli", "testing"})  # the parts of the library that never run in a function
_NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc")
_PROGRAM = 0o755


def library() -> AbstractContextManager[lambda_.Code]:
    """The parts of this checkout's lambda_lock that functions use, in a layer's folder for Python packages."""
    return _copy(ROOT / "lambda_lock", "python/lambda_lock", without=NOT_IN_FUNCTIONS)


def functions(beside: Mapping[str, str]) -> AbstractContextManager[lambda_.Code]:
    """The functions, as the package ``functions``.

    beside: programs to put next to the package, their texts by their names.
    """
    return _copy(ROOT / "infra" / "functions", "functions", programs=beside)


@contextmanager
def _copy(
    source: Path, place: str, *, without: Collection[str] = (), programs: Mapping[str, str] | None = None
) -> Iterator[lambda_.Code]:
    """Copy ``source`` to ``place`` in a temporary folder.

    without: folders of ``source`` that are left out. programs: programs to add, their texts by their names.
    """

    def left_out(folder: str, names: list[str]) -> set[str]:
        return _NOT_SOURCE(folder, names) | (set(without) if folder == str(source) else set())

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(source, Path(folder, place), ignore=left_out)
        for name, text in (programs or {}).items():
            program = Path(folder, name)
            program.write_text(text)
            program.chmod(_PROGRAM)
        yield lambda_.Code.from_asset(folder)
