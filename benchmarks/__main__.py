"""Run all benchmarks, then write docs/performance*.md: make bench

Each leaves its results in build/bench. To run one of them again: ARGS='--only contention'. The page keeps the sections
of the others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from rig.engine import ROOT

from .plan import BENCHMARKS
from .results import FOLDER

PYTHON = ROOT / ".venv-bench" / "bin" / "python"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--only", action="append", choices=names, help="run only this one (may be repeated)")
    arguments = parser.parse_args()
    failed = []
    chosen = [benchmark for benchmark in BENCHMARKS if not arguments.only or benchmark.name in arguments.only]
    for number, benchmark in enumerate(chosen, 1):
        head = f"[{number} of {len(chosen)}] {benchmark.name}"
        missing = benchmark.missing()
        if missing:
            print(f"{head}: left out, because {missing}", flush=True)
            continue
        print(f"{head}: python -m {benchmark.module}", flush=True)
        started = time.monotonic()
        command = [sys.executable, "-m", benchmark.module, "--json", str(FOLDER / benchmark.file)]
        FOLDER.mkdir(parents=True, exist_ok=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(benchmark.name)
        print(f"{time.monotonic() - started:.0f} s\n", flush=True)
    written = subprocess.run([PYTHON, "-m", "benchmarks.page"], cwd=ROOT, check=False).returncode
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed or written else 0


if __name__ == "__main__":
    sys.exit(main())
