"""Write docs/performance*.md from the results in build/bench: .venv-bench/bin/python -m benchmarks.page

The pages have a pair of comments for each section. What is between them is replaced if there are results. The rest of
a page stays as it is.
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

PAGES = ROOT / "docs"
FIGURES = PAGES / "performance"


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """The results that are there, by the names of their benchmarks."""
    files = {benchmark.name: folder / benchmark.file for benchmark in BENCHMARKS}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def main() -> int:
    found = results(FOLDER)
    for benchmark in BENCHMARKS:
        if benchmark.section and benchmark.name in found:
            section: str = importlib.import_module(benchmark.section).section(found[benchmark.name])
            page = PAGES / benchmark.page
            page.write_text(place(page.read_text(), benchmark.name, section.strip() + "\n"))
    FIGURES.mkdir(exist_ok=True)
    for name, (needs, draw) in PICTURES.items():
        if needs in found:
            draw(found[needs], FIGURES / f"{name}.svg")
    print(f"docs/performance*.md are written, from the results of {', '.join(found) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
