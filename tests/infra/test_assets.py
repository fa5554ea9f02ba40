"""What is uploaded is this checkout's library, and the functions."""

import sys
from pathlib import Path
from typing import Any

from rig.engine import ROOT, inherited_environment
from rig.packages import contents
from tests.support.installed import finish

from .conftest import Assembly

IMPORTING = """
import importlib, sys
folder, *modules = sys.argv[1:]
sys.path.insert(0, folder)
for module in modules:
    importlib.import_module(module)
print(sys.modules["lambda_lock"].__file__)
"""


def asset(assembly: Assembly, code: dict[str, Any]) -> Path:
    return assembly.folder / f"asset.{Path(code['S3Key']).stem}"


def sources(folder: Path, place: str) -> dict[str, bytes]:
    return {f"{place}/{name}": text for name, text in contents(folder).items() if "__pycache__" not in name}


def layer(assembly: Assembly) -> dict[str, Any]:
    (properties,) = assembly.of("AWS::Lambda::LayerVersion").values()
    content: dict[str, Any] = properties["Content"]
    return content


def test_functions_can_import_every_module_of_the_layer(account):
    folder = asset(account, layer(account)) / "python"
    names = [path.relative_to(folder).with_suffix("").parts for path in sorted(folder.rglob("*.py"))]
    modules = [".".join(parts).removesuffix(".__init__") for parts in names if "durable" not in parts]  # needs its SDK
    said = finish([sys.executable, "-B", "-c", IMPORTING, folder, *modules], inherited_environment())
    assert said.strip() == str(folder / "lambda_lock" / "__init__.py")


def test_the_functions_share_one_package_without_anything_that_is_for_an_engine(account):
    codes = [each["Code"] for each in account.of("AWS::Lambda::Function").values()]
    assert all(code == codes[0] for code in codes)
    assert contents(asset(account, codes[0])) == sources(ROOT / "infra" / "functions", "functions")


def test_every_handler_is_there(account):
    for function in account.of("AWS::Lambda::Function").values():
        module, _, name = function["Handler"].rpartition(".")
        source = asset(account, function["Code"]) / f"{module.replace('.', '/')}.py"
        assert f"\ndef {name}(" in source.read_text()


def test_the_bootstrap_for_an_engine_can_be_executed(local):
    code = next(iter(local.of("AWS::Lambda::Function").values()))["Code"]
    bootstrap = asset(local, code) / "bootstrap"
    assert bootstrap.stat().st_mode & 0o777 == 0o755
    assert "awslambdaric" in bootstrap.read_text()
