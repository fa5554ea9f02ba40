"""The CDK's own command line, with an engine in place of an account: what `npx cdk deploy` does with cdk.json."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from .cloud import ACCOUNT, SERVICES, Cloud
from .engine import REGION, ROOT, Ministack, inherited_environment, stop

_PROGRAM = ROOT / "node_modules" / ".bin" / "cdk"
_ASSET_BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"  # what bootstrapping would make
_ENVIRONMENT = {
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_VALIDATION": "true",  # tests switch it off, and without it the command takes a look-up to come for an error
    "NODE_NO_WARNINGS": "1",
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
}
_FLAGS = ("--ci", "--no-notices", "--no-version-reporting", "--no-color")  # with these it connects to the engine only
_SECONDS = 300
#: What an engine needs so that it can be deployed to, and used (``Ministack(services=…)``).
DEPLOYED = (*SERVICES, "cloudformation", "s3", "ssm", "states", "sns", "monitoring", "cloudcontrol")


class CdkError(Exception):
    """The command line is not there, or failed; the message has what it wrote."""


class Cdk:
    """Commands of the CDK for the app of cdk.json.

    cloud: where the app goes. folder: an empty one, for what is synthesized. local: the context value ``local`` of the
    app. Raises CdkError where Node or the command line is not installed.
    """

    def __init__(self, cloud: Cloud, folder: Path, local: dict[str, str]) -> None:
        check_installed()
        self._engine = cloud.engine
        self._folder = folder
        self._local = json.dumps(local)
        cloud.client("s3").create_bucket(Bucket=_ASSET_BUCKET)

    def synth(self, name: str) -> Path:
        """Synthesize into a new folder of this name; `deploy` and the others take it."""
        out = self._folder / name
        self._run("synth", "--quiet", "--context", f"local={self._local}", "--output", str(out))
        return out

    def deploy(self, assembly: Path) -> dict[str, str]:
        """Deploy the app's one stack, and return its outputs."""
        outputs = assembly.with_suffix(".outputs.json")
        how = ("--require-approval", "never", "--method=direct", "--progress=events", "--outputs-file", str(outputs))
        self._run("deploy", "--app", str(assembly), *how)
        (values,) = json.loads(outputs.read_text()).values()
        return dict(values)

    def diff(self, assembly: Path) -> str:
        """What the command says of the differences between what is deployed and what was synthesized."""
        return self._run("diff", "--app", str(assembly))

    def destroy(self, assembly: Path) -> None:
        self._run("destroy", "--app", str(assembly), "--force")

    def _run(self, *arguments: str) -> str:
        return run(self._engine, ROOT, *arguments)


def run(engine: Ministack, folder: Path, *arguments: str) -> str:
    """Run the command line in a folder, with an engine as the account. It keeps what it looks up in that folder.

    Returns what it wrote. Raises CdkError with that if it failed.
    """
    process = subprocess.Popen(
        [_PROGRAM, *arguments, *_FLAGS],
        cwd=folder,
        env=inherited_environment() | engine.environment() | _ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a group of its own: it starts the app, which starts Node
    )
    try:
        said, _ = process.communicate(timeout=_SECONDS)
    finally:
        _stop_group(process)
    if process.returncode:
        raise CdkError(f"cdk {arguments[0]} failed with status {process.returncode}; it wrote:\n{said}")
    return said


def check_installed() -> None:
    """Raises CdkError, with the remedy, where something is missing."""
    if shutil.which("node") is None:
        raise CdkError("the CDK needs Node, and node is not on the PATH: install Node 22 or newer")
    if not os.access(_PROGRAM, os.X_OK):
        raise CdkError("the CDK's command line is not installed: run 'npm ci'")


def _stop_group(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    stop(process)
