"""All benchmarks, in the order in which `make bench` runs them. This is the only list of them."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass

from rig.engine import ROOT


@dataclass(frozen=True)
class Benchmark:
    """A module below ``benchmarks`` that takes ``--json FILE``.

    section: its module with a function ``section(result)``, which writes its part of the page. Empty:
        `benchmarks.page` writes none for it. page: in docs/. needs: a program or a file of this checkout that it needs.
    """

    name: str
    section: str = ""
    page: str = "performance.md"
    needs: str = ""

    @property
    def module(self) -> str:
        return f"benchmarks.{self.name}"

    @property
    def file(self) -> str:
        """The name of its results file."""
        return f"{self.name.replace('.', '_')}.json"

    def missing(self) -> str:
        """What keeps it from running. Empty: nothing."""
        if importlib.util.find_spec(self.module) is None:
            return f"there is no {self.module}"
        if self.needs and not (shutil.which(self.needs) or (ROOT / self.needs).exists()):
            return f"{self.needs} is not installed"
        return ""


BENCHMARKS = (
    Benchmark("contention", section="benchmarks.contention.report", page="performance-contention.md"),
    Benchmark("cold_start", section="benchmarks.cold_start.section"),
    Benchmark("instructions.compare", section="benchmarks.instructions.report"),
    Benchmark("instructions", needs="valgrind"),
    Benchmark("packaging"),
    Benchmark("idempotency"),
    Benchmark("costs"),
    Benchmark("rates"),
    Benchmark("waking"),
    Benchmark("heartbeats", section="benchmarks.heartbeats.report"),
    Benchmark("scale", section="benchmarks.scale.report"),
)
