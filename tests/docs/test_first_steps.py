"""The README's first screen and its client example work for somebody who has just found the project."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import time
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.engine import ROOT, Ministack, free_port, inherited_environment
from tests.support.installed import finish, install_alone

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```\n", README, re.MULTILINE | re.DOTALL)
COMMANDS = next(block for block in re.findall(r"(?:^    .*\n)+", README, re.MULTILINE) if "ministack" in block)


def test_the_first_block_runs_where_nothing_but_the_wheel_is_installed(tmp_path: Path) -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 6
    program = tmp_path / "first.py"
    program.write_text(BLOCKS[0])
    printed = finish([install_alone(tmp_path), program], {"HOME": str(tmp_path)}, cwd=tmp_path)
    assert re.fullmatch(
        r"mine: <Lock 'order#42' held for \d+\.\d s, token \d+> anybody else gets: None\n"
        r"then: <Lock 'order#42' released, token \d+>\n",
        printed,
    )


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell with the extras installed, and with a free port for the engine."""
    programs = tmp_path / "bin"
    programs.mkdir()
    engine = os.environ.get("LAMBDA_LOCK_ENGINE_BIN") or ROOT / ".venv-engine" / "bin" / "ministack"
    (programs / "ministack").symlink_to(engine)
    (programs / "lambda-lock").write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m lambda_lock.cli "$@"\n'
    )
    (programs / "lambda-lock").chmod(0o755)
    port = free_port()
    yield inherited_environment() | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "GATEWAY_PORT": str(port),
        "TMPDIR": str(tmp_path),
        "STATE_DIR": str(tmp_path / "state"),
        "DOCKER_HOST": "unix:///nonexistent",
    }
    pid = tmp_path / f"ministack-{port}.pid"
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.killpg(int(pid.read_text()), signal.SIGKILL)  # the detached engine leads a process group of its own


def _listens_on(port: int) -> set[str]:
    """The addresses on which a process listens on a port, as Linux writes them."""
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path("/proc/net", file).read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")}


def test_the_commands_start_an_engine_on_loopback_make_a_table_and_run_under_a_lock(
    shell: dict[str, str], tmp_path: Path
) -> None:
    install, *commands, last = (line.strip() for line in COMMANDS.splitlines())
    match = re.fullmatch(r'pip install "lambda-lock\[([\w,]+)\]"', install)
    assert match
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(match[1].split(",")) <= extras.keys()

    port = shell["GATEWAY_PORT"]
    script = "\n".join(["set -e", *commands]).replace(":4566", f":{port}")
    printed = finish(["bash", "-c", script], shell, cwd=tmp_path)
    assert re.search(r"^under token \d+$", printed, re.MULTILINE)
    if sys.platform == "linux":
        assert _listens_on(int(port)) == {"0100007F"}
    assert "stopped" in finish(["bash", "-c", last], shell, cwd=tmp_path)
    end = time.monotonic() + 30
    while sys.platform == "linux" and _listens_on(int(port)):
        assert time.monotonic() < end, "the engine is still running"
        time.sleep(0.02)


def test_the_client_example_leaves_nothing_held_and_runs_again_at_once(engine: Ministack, table: str) -> None:
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


def test_what_is_missing_is_where_the_readme_says() -> None:
    state = README.partition("## State")[2]
    assert "CHANGELOG.md#not-yet" in state
    missing = (ROOT / "CHANGELOG.md").read_text().partition("### Not yet")[2].partition("\n#")[0]
    assert missing.count("\n- ") >= 3
