"""Write docs/performance.md from the results in build/bench: .venv-bench/bin/python -m benchmarks.page

The page has a pair of comments for each section. What is between them is replaced if there are results. The rest of the
page stays as it is.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.place import place
from benchmarks.plan import BENCHMARKS
from benchmarks.results import FOLDER
from rig.engine import ROOT

from .pictures import PICTURES

PAGE = ROOT / "docs" / "performance.md"
FIGURES = ROOT / "docs" / "performance"


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """The results that are there, by the names of their benchmarks."""
    files = {benchmark.name: folder / benchmark.file for benchmark in BENCHMARKS}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def main() -> int:
    found = results(FOLDER)
    page = PAGE.read_text()
    for benchmark in BENCHMARKS:
        if benchmark.section and benchmark.name in found:
            section: str = importlib.import_module(benchmark.section).section(found[benchmark.name])
            page = place(page, benchmark.name, section.strip() + "\n")
    PAGE.write_text(page)
    FIGURES.mkdir(exist_ok=True)
    for name, (needs, draw) in PICTURES.items():
        if needs in found:
            draw(found[needs], FIGURES / f"{name}.svg")
    print(f"docs/performance.md is written, from the results of {', '.join(found) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
