"""The functions' code, a plain copy without Docker.

The CDK makes its own copy for the first construct that uses the code, so use the code within the ``with`` block. The
copy is named by a hash of its files: the same checkout has the same asset.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aws_cdk import aws_lambda as lambda_

_FUNCTIONS = Path(__file__).resolve().parent / "functions"
_NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc")
_PROGRAM = 0o755


@contextmanager
def functions(beside: Mapping[str, str]) -> Iterator[lambda_.Code]:
    """The functions, as the package ``functions``.

    beside: programs to put next to the package, their texts by their names.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(_FUNCTIONS, Path(folder, "functions"), ignore=_NOT_SOURCE)
        for name, text in beside.items():
            program = Path(folder, name)
            program.write_text(text)
            program.chmod(_PROGRAM)
        yield lambda_.Code.from_asset(folder)
