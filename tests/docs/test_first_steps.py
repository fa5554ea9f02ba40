"""The README's first screen and its client example work for somebody who has just found the project."""

import gc
import json
import re
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from rig.engine import ROOT
from tests.support.installed import finish, install_alone

from .conftest import first_terminal

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```\n", README, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"(?:^    .*\n)+", README, re.MULTILINE)
(STARTING,) = (block for block in COMMANDS if "lambda-lock dev" in block)
(USING,) = (block for block in COMMANDS if "lambda-lock run" in block)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which nothing but the wheel is installed."""
    return install_alone(tmp_path_factory.mktemp("alone"))


def test_the_first_block_runs_where_nothing_but_the_wheel_is_installed(alone, tmp_path):
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 6
    program = tmp_path / "first.py"
    program.write_text(BLOCKS[0])
    printed = finish([alone, program], {"HOME": str(tmp_path)}, cwd=tmp_path)
    assert re.fullmatch(
        r"mine: <Lock 'order#42' held for \d+\.\d s, token \d+> anybody else gets: None\n"
        r"then: <Lock 'order#42' released, token \d+>\n",
        printed,
    )


def test_two_commands_start_an_engine_with_a_table_and_what_they_print_leads_another_terminal_to_it(shell, tmp_path):
    install, dev = (line.partition("  #")[0].strip() for line in STARTING.splitlines())
    match = re.fullmatch(r'pip install "lambda-lock\[([\w,]+)\]"', install)
    assert match
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(match[1].split(",")) <= extras.keys()

    run, watch = (line.partition("  #")[0].strip() for line in USING.splitlines())
    assert watch.endswith("--watch")
    command = tmp_path / "bin" / "lambda-lock"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m lambda_lock.cli "$@"\n')
    command.chmod(0o755)
    with first_terminal(f"exec {dev}", shell, tmp_path) as pasted:
        second = f"{pasted}\n{run}\n{watch.removesuffix('--watch')}"
        printed = finish(["bash", "-c", second], shell, cwd=tmp_path)
    assert re.search(r"^under token \d+\nnightly-report\t\tfree\t", printed, re.MULTILINE)


def test_links_and_pictures_of_the_readme_lead_somewhere_where_a_package_index_shows_it(alone, tmp_path):
    ask = "import importlib.metadata, json; print(json.dumps(importlib.metadata.metadata('lambda-lock').json))"
    metadata = json.loads(finish([alone, "-c", ask], {"HOME": str(tmp_path)}, cwd=tmp_path))
    assert metadata["description_content_type"] == "text/markdown"
    shown = metadata["description"]
    repository = "https://(?:github.com|raw.githubusercontent.com)/lambda-lock/lambda-lock/(?:blob/)?"
    targets = re.findall(r"\]\(([^)\s]+)\)", shown)
    assert len(targets) >= 20
    for target in targets:
        if target.startswith("#"):
            continue
        assert target.startswith("https://"), target
        if match := re.match(rf"{repository}v{re.escape(metadata['version'])}/([^#]+)", target):
            assert (ROOT / match[1]).exists(), target
    assert re.search(r"!\[[^\]]+\]\(https://raw\.githubusercontent\.com/[^)]+/docs/demo\.svg\)", shown)
    labels = {line.partition(",")[0] for line in metadata["project_url"]}
    assert {"Homepage", "Documentation", "Source", "Changelog", "Issues"} <= labels


def test_the_client_example_leaves_nothing_held_and_runs_again_at_once(engine, table):
    (example,) = (block for block in BLOCKS if 'LockClient("locks"' in block)
    example = example.replace('"locks"', repr(table))
    for _ in range(2):  # the second run is within the lease of the first
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            exec(compile(example, "README.md", "exec"), {})
            gc.collect()
        assert not [warning for warning in warned if "import#2026-11" in str(warning.message)]  # dropped handle
        (row,) = engine.scan(table)
        assert "isReleased" in row


def test_what_is_missing_is_where_the_readme_says():
    state = README.partition("## State")[2]
    assert "CHANGELOG.md#not-yet" in state
    missing = (ROOT / "CHANGELOG.md").read_text().partition("### Not yet")[2].partition("\n#")[0]
    assert missing.count("\n- ") >= 3
