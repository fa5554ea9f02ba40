"""What a layer of one file would save: python -m benchmarks.packaging.one_file

Writes the library as LockLayer does, and as one file from which a finder of its own takes the modules, with docstrings
and without. Counts the instructions of importing and decorating at Lambda's INIT (callgrind), without those of Python
and awslambdaric, and compares the memory at their end. Then shows the end of an error's traceback, and what a module
knows of its file. Needs valgrind.
"""

from __future__ import annotations

import ast
import marshal
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.instructions.count import CALLGRIND
from rig.engine import ROOT, client_environment

#: Run as the program that it is: its package would load the CDK.
_LAYER = runpy.run_path(str(ROOT / "lambda_lock" / "cdk" / "layer_files.py"))
_NAME = "lambda_lock"
_RUNTIME = "import awslambdaric.__main__, awslambdaric.bootstrap, awslambdaric.lambda_context, gc; gc.disable()\n"
_DECORATED = "from lambda_lock import with_lock\nwith_lock('order#{id}')(lambda event, context: None)\n"
_MEMORY = "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"  # KB, at most
_FAILED = (
    "import inspect, sys, traceback\nfrom lambda_lock import with_lock\nfrom lambda_lock.decorators import guard\n"
    "try: with_lock('order#{id}')(lambda event, context: None)({}, None)\n"
    "except Exception: traceback.print_exc(limit=-1, file=sys.stdout)\n"
    "print('__file__:', getattr(guard, '__file__', None))\n"
    "try: print('source:', len(inspect.getsource(guard)), 'characters')\n"
    "except Exception as error: print('source:', error)\n"
)
_COUNT = re.compile(r"Collected : (\d+)")
#: ``lambda_lock/__init__.py``: a finder of the modules in the file beside it, each read when it is imported.
_FINDER = """
import marshal, sys
from importlib.machinery import ModuleSpec

_file = open(__file__.rpartition("/")[0] + "/modules", "rb", 0)
_index = marshal.loads(_file.read(int.from_bytes(_file.read(4), "little")))
_begin = _file.tell()

class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, _Finder, is_package=_index[name][0]) if name in _index else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        exec(_code(module.__name__), module.__dict__)

def _code(name):
    _, at, size = _index[name]
    _file.seek(_begin + at)
    return marshal.loads(_file.read(size))

sys.meta_path.insert(0, _Finder)
exec(_code("lambda_lock"), globals())
"""


def _take_docstrings(tree: ast.Module) -> None:
    """Take the docstrings out, and leave every line where it is."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node.body[0])]


def _codes(layer: Path, documented: bool) -> Iterator[tuple[str, bool, bytes]]:
    """The name of each module in a layer, whether it is a package, and its code."""
    for path in sorted((layer / _NAME).rglob("*.py")):
        tree = ast.parse(path.read_text())
        if not documented:
            _take_docstrings(tree)
        parts = path.relative_to(layer).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        code = compile(tree, f"/opt/python/{path.relative_to(layer)}", "exec", dont_inherit=True)
        yield ".".join(parts[:-1] if is_package else parts), is_package, marshal.dumps(code)


def _write_one(layer: Path, folder: Path, *, documented: bool) -> None:
    index, codes = {}, b""
    for name, is_package, code in _codes(layer, documented):
        index[name] = is_package, len(codes), len(code)
        codes += code
    package = folder / _NAME
    package.mkdir(parents=True)
    head = marshal.dumps(index)
    (package / "modules").write_bytes(len(head).to_bytes(4, "little") + head + codes)
    (package / "__init__.py").write_text(_FINDER)
    how = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(folder)]
    subprocess.run(how, check=True)


def _run(path: Path, code: str, *tool: str) -> subprocess.CompletedProcess[str]:
    environment = client_environment("http://127.0.0.1:1") | {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(path),
        "PYTHONHASHSEED": "0",
        "LAMBDA_LOCK_TABLE": "locks",
        "AWS_LAMBDA_FUNCTION_NAME": "orders",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "OPENSSL_ia32cap": "0",  # the same instructions on any processor
    }
    command = [*tool, sys.executable, "-c", _RUNTIME + code]
    return subprocess.run(command, env=environment, cwd=path, capture_output=True, text=True, check=True)


def _instructions(path: Path, code: str) -> int:
    found = _COUNT.search(_run(path, code, *CALLGRIND).stderr)
    assert found is not None
    return int(found[1])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lambda-lock-one-file-") as name:
        folder, layer = Path(name), Path(name) / "as the layer"
        _LAYER["write"](folder / "written", [sys.executable])
        (folder / "written" / "python").rename(layer)
        ways = {"as the layer": layer}
        for title, documented in (("one file", True), ("one file without docstrings", False)):
            ways[title] = folder / title
            _write_one(layer, ways[title], documented=documented)
        nothing = _instructions(layer, "")
        print(f"{'Python and awslambdaric':<28} {nothing:>12,}", flush=True)
        for title, path in ways.items():
            memory = int(_run(path, _DECORATED + _MEMORY).stdout)
            print(f"{title:<28} {_instructions(path, _DECORATED) - nothing:>12,} {memory:>8,} KB", flush=True)
        for title, path in ways.items():
            print(f"\n{title}:\n{_run(path, _FAILED).stdout}", end="", flush=True)


if __name__ == "__main__":
    main()
