"""Functions of Lambda itself, packaged as docs/packaging.md says, on both architectures."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rig.engine import ROOT, inherited_environment
from rig.packages import unzip, zip_like_the_cdk

from ..account import ARCHITECTURES, Account
from ..report import BROKEN, HOLDS, MEASURED, Report

_HANDLER = Path(__file__).resolve().parent.parent / "function.py"
_LAYER = ROOT / "lambda_lock" / "cdk" / "layer_files.py"  # a program, so that Node is not needed
_MEMORY_MB, _TIMEOUT = 256, 30
_PYTHON = f"python3.{min(max(sys.version_info.minor, 11), 14)}"


def check(account: Account, report: Report, long: bool) -> None:
    role = account.create_role(account.roles[-1], {"Service": "lambda.amazonaws.com"}, "policy.json")
    package = _package()
    times, compiled = [], []
    for name, architecture in zip(account.functions, ARCHITECTURES, strict=True):
        account.create_function(
            name,
            Runtime=_PYTHON,
            Handler="function.handler",
            Role=role,
            Code={"ZipFile": package},
            Architectures=[architecture],
            MemorySize=_MEMORY_MB,
            Timeout=_TIMEOUT,
            Environment={"Variables": _variables(account)},
        )
        answers = [_invoke(account, name) for _ in range(2)]
        holds = all(isinstance(answer.get("token"), int) for answer, _ in answers)
        report.note(f"cold_start.{architecture}", HOLDS if holds else BROKEN, [answer for answer, _ in answers])
        compiled.append(answers[0][0].get("compiled"))
        times.append(f"{architecture}: {', '.join(line for _, line in answers)}")
    report.note("cold_start.compiled", HOLDS if all(compiled) else BROKEN, f"accepted: {compiled}, {_PYTHON}")
    report.note("cold_start.times", MEASURED, f"{_MEMORY_MB} MB; {'; '.join(times)}")


def _package() -> bytes:
    """A zip file with the handler and the library, compiled by this Python."""
    with tempfile.TemporaryDirectory() as name:
        layer, function = Path(name, "layer.zip"), Path(name, "function.zip")
        subprocess.run(
            [sys.executable, "-I", _LAYER, layer, _PYTHON],
            env=inherited_environment(),
            capture_output=True,
            check=True,
            timeout=120,
        )
        unzip(layer, Path(name))
        packages = Path(name, "python")
        shutil.copy(_HANDLER, packages)
        zip_like_the_cdk(packages, function)
        return function.read_bytes()


def _variables(account: Account) -> dict[str, str]:
    there = {"AWS_ENDPOINT_URL": account.endpoint} if account.is_engine else {}
    return {"LAMBDA_LOCK_TABLE": account.run} | there


def _invoke(account: Account, name: str) -> tuple[dict[str, Any], str]:
    """The answer, and the times of the REPORT line. Rights that IAM has not passed on yet are waited for."""
    found: list[tuple[dict[str, Any], str]] = []

    def answered() -> bool:
        reply = account.client("lambda").invoke(FunctionName=name, LogType="Tail", Payload=b"{}")
        answer = json.loads(reply["Payload"].read())
        log = base64.b64decode(reply.get("LogResult", "")).decode(errors="replace")
        times = re.findall(r"\b((?:Init )?Duration: [\d.]+ ms)", log)
        found.append((answer, ", ".join(reversed(times)) or "no REPORT"))
        return "is missing" not in str(answer.get("errorMessage", ""))

    account.until(answered)
    return found[-1]
