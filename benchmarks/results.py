"""Where benchmarks leave their results, and the machine that they ran on."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

from rig.engine import ROOT

FOLDER = ROOT / "build" / "bench"


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option --json [FILE]."""
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print JSON instead of a table; with FILE, write it there too",
    )


def save(to: str | None, result: dict[str, Any]) -> bool:
    """Print or write the result as --json asks. Returns whether it was printed, instead of a table."""
    if to is None:
        return False
    text = json.dumps(result, indent=2) + "\n"
    if to == "-":
        print(text, end="")
        return True
    path = Path(to)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return False


def machine() -> dict[str, Any]:
    """The processor, its cores and the system."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux
    return {"processor": name, "cores": os.cpu_count(), "system": f"{platform.system()} {platform.release()}"}
