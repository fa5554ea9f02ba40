"""Check what a lock costs against benchmarks/limits.toml: make bench-short

Each limit is the figure that was measured when it was set, and the share by which it may be exceeded. Times are not
checked: they depend on the machine. Instructions need valgrind, and their limits are for one version of Python.
"""

from __future__ import annotations

import argparse
import sys

from rig.engine import ROOT

from .check import compare, read, update
from .measure import measure

FILE = ROOT / "benchmarks" / "limits.toml"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write what is measured into benchmarks/limits.toml")
    arguments = parser.parse_args()
    text, python = FILE.read_text(), f"{sys.version_info.major}.{sys.version_info.minor}"
    measured = measure(lambda what: print(f"measuring {what} ..." if "left out" not in what else what, flush=True))
    if arguments.update:
        FILE.write_text(update(text, measured, python))
        text = FILE.read_text()
    verdicts = compare(read(text), measured, python)
    for verdict in verdicts:
        print(f"{verdict.state.value:<9} {verdict.name}: {verdict.words}")
    bad = [verdict for verdict in verdicts if not verdict.state.is_good]
    if bad:
        print(f"{len(bad)} of {len(verdicts)} limits do not hold: CONTRIBUTING.md says what to do", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
