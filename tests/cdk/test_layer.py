"""The layer that LockLayer and `make layer` build, and that Python takes its ``.pyc`` files for what they are."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Annotations, Match

from lambda_lock import LockArgumentError, __version__
from lambda_lock.cdk import LockLayer, layer_files
from rig.engine import ROOT, inherited_environment
from rig.packages import accepted, contents, sources, unzip, zip_like_the_cdk
from tests.cdk.apps import new_stack, the_only
from tests.support.installed import finish

KIND = "AWS::Lambda::LayerVersion"
NAMES = ("python3.11", "python3.12", "python3.13", "python3.14")
RUNNING = f"python3.{sys.version_info.minor}"
AT_HAND = {name: program for name in NAMES if (program := layer_files.find_interpreter(name)) is not None}
USING = """
import sys
sys.path.insert(0, sys.argv[1])
from lambda_lock import LockClient, deduplicate, with_lock
with_lock("order#{id}")(lambda event, context: None)
"""


def runtimes(*names: str) -> list[lambda_.Runtime]:
    return [lambda_.Runtime(name, lambda_.RuntimeFamily.PYTHON) for name in names]


def synthesize(folder: Path, names: Sequence[str], **context: object) -> Path:
    """Synthesize an app with a layer into ``folder``. Returns the folder of the layer's asset."""
    app = cdk.App(outdir=str(folder), analytics_reporting=False, context=context)
    stack = cdk.Stack(app, "Stack")
    LockLayer(stack, "Library", runtimes=runtimes(*names))
    app.synth()
    key = the_only(stack, KIND)["Properties"]["Content"]["S3Key"]
    return folder / f"asset.{key.removesuffix('.zip')}"


def deliver(asset: Path, folder: Path) -> Path:
    """An asset as Lambda has it."""
    zip_like_the_cdk(asset, folder / "asset.zip")
    unzip(folder / "asset.zip", folder / "opt")
    return folder / "opt"


@pytest.fixture(scope="module")
def asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The asset of a layer for all runtimes."""
    return synthesize(tmp_path_factory.mktemp("app"), NAMES)


@pytest.fixture(scope="module")
def delivered(asset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deliver(asset, tmp_path_factory.mktemp("layer"))


@pytest.mark.parametrize("name", AT_HAND)
def test_a_release_of_python_accepts_every_compiled_file_of_the_unzipped_layer(delivered, name):
    assert accepted(AT_HAND[name], delivered) == sources(delivered) != set()
    finish([AT_HAND[name], "-I", "-B", "-c", USING, delivered / "python"], inherited_environment())


def test_the_running_python_is_always_at_hand():
    assert RUNNING in AT_HAND


def test_a_file_that_was_compiled_the_usual_way_is_not_accepted_after_the_zip(tmp_path):
    source = tmp_path / "plain" / "module.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    finish([sys.executable, "-I", "-m", "compileall", "-q", source.parent], inherited_environment())
    assert accepted(sys.executable, source.parent) == {str(source)}
    assert accepted(sys.executable, deliver(source.parent, tmp_path)) == set()


def test_the_layer_is_the_library_without_what_never_runs_in_a_function(asset):
    package = ROOT / "lambda_lock"
    wanted = {f"python/lambda_lock/{name}": data for name, data in contents(package).items() if ".pyc" not in name}
    left_out = {name for name in wanted if name.split("/")[2] in ("cdk", "cli", "testing")}
    assert {f"python/lambda_lock/{part}/__init__.py" for part in ("cdk", "cli", "testing")} <= left_out
    found = {name: data for name, data in contents(asset).items() if not name.endswith(".pyc")}
    assert found == {name: data for name, data in wanted.items() if name not in left_out}


def test_each_source_has_one_compiled_file_for_each_version_at_hand(asset):
    tags = {f"cpython-{name.removeprefix('python').replace('.', '')}" for name in AT_HAND}
    wanted = {
        str(path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc") for path in asset.rglob("*.py") for tag in tags
    }
    assert {str(path) for path in asset.rglob("*.pyc")} == wanted


def test_everybody_may_read_the_files_wherever_and_by_whomever_they_were_written(tmp_path, monkeypatch):
    installed = tmp_path / "lambda_lock"
    shutil.copytree(layer_files.PACKAGE, installed, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*installed.rglob("*"), installed):
        path.chmod(0o500 if path.is_dir() else 0o400)
    monkeypatch.setattr(layer_files, "PACKAGE", installed)
    before = os.umask(0o077)
    try:
        layer_files.write(tmp_path / "layer", [sys.executable])
    finally:
        os.umask(before)
    paths = list((tmp_path / "layer" / "python" / "lambda_lock").rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o755}
    assert any(path.suffix == ".pyc" for path in paths)


@pytest.mark.long
@pytest.mark.parametrize("name", AT_HAND)
def test_the_files_are_the_same_from_run_to_run_whatever_is_set_for_python(name, tmp_path, monkeypatch):
    layer_files.write(tmp_path / "first", [AT_HAND[name]])
    for variable, value in {
        "PYTHONHASHSEED": "7",
        "PYTHONOPTIMIZE": "2",
        "PYTHONPYCACHEPREFIX": str(tmp_path / "elsewhere"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SOURCE_DATE_EPOCH": "1000000000",
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    layer_files.write(tmp_path / "a folder with another name", [AT_HAND[name]])
    assert contents(tmp_path / "first") == contents(tmp_path / "a folder with another name")
    assert not (tmp_path / "elsewhere").exists()


def test_a_second_synthesis_makes_no_new_layer(tmp_path):
    first, second = (synthesize(tmp_path / name, [RUNNING]) for name in ("first", "second"))
    assert first.name == second.name
    assert synthesize(tmp_path / "first", [RUNNING]) == first


def test_layers_for_different_runtimes_in_one_app_have_their_own_files():
    stack = new_stack(files=True)
    LockLayer(stack, "One", runtimes=runtimes(RUNNING))
    # One that exists: cdk-nag would take another for the newest Python in every later test of this process.
    LockLayer(stack, "Other", runtimes=runtimes(next(name for name in NAMES if name != RUNNING)))
    LockLayer(stack, "Again", runtimes=runtimes(RUNNING))
    layers = cdk.assertions.Template.from_stack(stack).find_resources(KIND)
    keys = {id[:-8]: each["Properties"]["Content"]["S3Key"] for id, each in layers.items()}
    assert keys["One"] == keys["Again"] != keys["Other"]


def test_without_staging_the_files_stay_where_the_template_says(tmp_path):
    """`cdk synth --no-staging` is for tools that run the functions from the template, such as `sam local`."""
    context = {"aws:cdk:disable-asset-staging": True, "aws:cdk:enable-asset-metadata": True}
    synthesize(tmp_path, [RUNNING], **context)
    template = json.loads((tmp_path / "Stack.template.json").read_text())
    (resource,) = (each for each in template["Resources"].values() if each["Type"] == KIND)
    assert (tmp_path / resource["Metadata"]["aws:asset:path"] / "python" / "lambda_lock" / "__init__.py").is_file()


def test_a_command_that_deploys_nothing_does_not_compile(tmp_path):
    """`cdk ls` and `cdk destroy` tell the app so."""
    asset = synthesize(tmp_path, [RUNNING], **{"aws:cdk:bundling-stacks": []})
    assert not (asset / "python").exists()


def test_the_layer_says_what_it_is_and_where_it_runs(stack):
    LockLayer(stack, "Library", runtimes=runtimes("python3.12", RUNNING, "python3.12"), layer_version_name="locks")
    layer = the_only(stack, KIND)
    del layer["Properties"]["Content"]
    assert layer == {
        "Type": KIND,
        "DeletionPolicy": "Delete",
        "UpdateReplacePolicy": "Delete",
        "Properties": {
            "CompatibleArchitectures": ["x86_64", "arm64"],
            "CompatibleRuntimes": list(dict.fromkeys(["python3.12", RUNNING])),
            "Description": f"lambda_lock {__version__}",
            "LayerName": "locks",
            "LicenseInfo": "Apache-2.0",
        },
    }


def test_versions_of_the_layer_can_be_kept(stack):
    LockLayer(stack, "Library", runtimes=runtimes(RUNNING), removal_policy=cdk.RemovalPolicy.RETAIN)
    assert the_only(stack, KIND)["DeletionPolicy"] == "Retain"


def test_a_runtime_without_an_interpreter_gets_a_warning_with_the_remedy(tmp_path, monkeypatch):
    other = next(name for name in NAMES if name != RUNNING)
    monkeypatch.setenv("PATH", str(tmp_path))
    stack = new_stack()
    LockLayer(stack, "Library", runtimes=runtimes(RUNNING, other))
    said = Annotations.from_stack(stack)
    remedy = rf"{re.escape(other)} is not on the PATH.*uv python install {re.escape(other.removeprefix('python'))}"
    said.has_warning("/Stack/Library", Match.string_like_regexp(remedy))
    assert len(said.find_warning("*", Match.any_value())) == 1


@pytest.mark.parametrize(
    "script",
    ["exit 127", 'exec "$REAL" "$@"', "exit 0"],
    ids=["a shim without a version", "another version than its name says", "no Python"],
)
def test_a_program_that_is_not_what_its_name_says_is_passed_over(script, tmp_path, monkeypatch):
    other = next(name for name in NAMES if name != RUNNING)
    program = tmp_path / other
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("REAL", sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert layer_files.find_interpreter(other) is None


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([], LockArgumentError, r"runtimes=\[\] is empty: name the runtime"),
        ([lambda_.Runtime.PYTHON_3_10], LockArgumentError, "does not run on python3.10. Use Python 3.11 or newer"),
        ([lambda_.Runtime.NODEJS_20_X], LockArgumentError, "does not run on nodejs20.x"),
        (["python3.13"], TypeError, r"runtimes must be a list of aws_lambda.Runtime, not \['python3.13'\]"),
        ("python3.13", TypeError, "runtimes must be a list of aws_lambda.Runtime, not 'python3.13'"),
        (lambda_.Runtime.PYTHON_3_12, TypeError, "runtimes must be a list of aws_lambda.Runtime"),
        (None, TypeError, "runtimes must be a list of aws_lambda.Runtime, not None"),
    ],
    ids=["none", "an old one", "of another language", "a name", "one name", "one", "None"],
)
def test_bad_runtimes_are_refused_by_name(given, error, said):
    with pytest.raises(error, match=said):
        LockLayer(new_stack(), "Library", runtimes=given)


@pytest.mark.long
def test_the_program_writes_the_same_layer_as_a_zip_without_node(asset, tmp_path):
    program = [sys.executable, "-I", layer_files.__file__]
    archives = [tmp_path / "first.zip", tmp_path / "new" / "second.zip"]
    for archive in archives:
        said = finish([*program, archive, *AT_HAND], inherited_environment())
        assert all(f"{name}: .pyc files from " in said for name in AT_HAND)
    first, second = archives
    assert first.read_bytes() == second.read_bytes()
    folder = tmp_path / "opt"
    unzip(first, folder)
    assert contents(folder) == contents(asset)
    assert accepted(sys.executable, folder) == sources(folder)
    with zipfile.ZipFile(first) as file:
        assert {entry.external_attr >> 16 for entry in file.infolist()} == {0o644}


def test_the_program_says_which_interpreter_is_missing(tmp_path):
    said = finish([sys.executable, layer_files.__file__, tmp_path / "layer.zip", "python3.99"], inherited_environment())
    assert "python3.99 is not on the PATH" in said


def test_the_program_without_a_file_to_write_says_how_to_use_it():
    done = subprocess.run([sys.executable, layer_files.__file__], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")


def test_make_layer_installs_nothing():
    """It takes seconds also in a fresh checkout: the environments of the other targets take minutes."""
    planned = subprocess.run(
        ["make", "--always-make", "--dry-run", "layer"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (command,) = planned.stdout.splitlines()
    assert "lambda_lock/cdk/layer_files.py build/lambda-lock-layer.zip" in command
