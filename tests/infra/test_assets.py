"""What is uploaded is this checkout's library, and the functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rig.engine import ROOT

from .conftest import Assembly


def asset(assembly: Assembly, code: dict[str, Any]) -> Path:
    return assembly.folder / f"asset.{Path(code['S3Key']).stem}"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sources(folder: Path, place: str) -> dict[str, bytes]:
    return {f"{place}/{name}": text for name, text in files(folder).items() if "__pycache__" not in name}


def layer(assembly: Assembly) -> dict[str, Any]:
    (properties,) = assembly.of("AWS::Lambda::LayerVersion").values()
    content: dict[str, Any] = properties["Content"]
    return content


def test_the_layer_is_the_package_of_this_checkout_and_nothing_else(account: Assembly) -> None:
    found = files(asset(account, layer(account)))
    assert found == sources(ROOT / "lambda_lock", "python/lambda_lock")
    assert "python/lambda_lock/py.typed" in found


def test_the_functions_share_one_package_without_anything_that_is_for_an_engine(account: Assembly) -> None:
    codes = [each["Code"] for each in account.of("AWS::Lambda::Function").values()]
    assert all(code == codes[0] for code in codes)
    assert files(asset(account, codes[0])) == sources(ROOT / "infra" / "functions", "functions")


def test_the_same_checkout_gives_the_same_layer(account: Assembly, local: Assembly) -> None:
    assert layer(account)["S3Key"] == layer(local)["S3Key"]


def test_every_handler_is_there(account: Assembly) -> None:
    for function in account.of("AWS::Lambda::Function").values():
        module, _, name = function["Handler"].rpartition(".")
        source = asset(account, function["Code"]) / f"{module.replace('.', '/')}.py"
        assert f"\ndef {name}(" in source.read_text()


def test_the_bootstrap_for_an_engine_can_be_executed(local: Assembly) -> None:
    code = next(iter(local.of("AWS::Lambda::Function").values()))["Code"]
    bootstrap = asset(local, code) / "bootstrap"
    assert bootstrap.stat().st_mode & 0o777 == 0o755
    assert "awslambdaric" in bootstrap.read_text()
