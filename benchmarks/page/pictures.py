"""The pictures, drawn with matplotlib as SVG. The same results give the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.cold_start.report import NAMES as LIBRARIES
from benchmarks.cold_start.section import LIBRARIES as SHOWN
from benchmarks.cold_start.section import parts
from benchmarks.contention.report import sweep
from benchmarks.contention.rows import NAMES, SWEEP_HOLD

# Middle tones, with enough contrast both on white and on the near-black of dark pages. The background is transparent.
INK = "#77808a"
COLOURS = {
    "queue": "#2f81f7",
    "poll": "#8fa8c8",
    "dynamodb_lock": "#b8860b",
    "dynamodb_lock_100ms": "#e5793b",
    "java": "#a371c7",
}
MARKERS = {"queue": "o", "poll": "s", "dynamodb_lock": "D", "dynamodb_lock_100ms": "^", "java": "v"}
PARTS = {"Python": "#77808a", "the runtime's modules": "#a9b4c0", "library and first lock": "#2f81f7"}
STYLE = {
    "svg.hashsalt": "lambda_lock",
    "svg.fonttype": "none",  # text stays text: small, and in the reader's font
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": INK,
    "grid.alpha": 0.25,
}


def contention(result: dict[str, Any], file: Path) -> None:
    """Locks a second and the longest wait over the number of workers."""
    points = sweep(result)
    with mpl.rc_context(STYLE):
        figure, (rates, waits) = plt.subplots(1, 2, figsize=(9, 4))
        for name, found in points.items():
            reading = {"color": COLOURS[name], "marker": MARKERS[name], "label": NAMES[name], "markersize": 5}
            reading["linewidth"] = 2.5 if name == "queue" else 1.5
            workers = [count for count, _ in found]
            runs = [[run["per_second"] for run in one["runs"]] for _, one in found]
            middle = [one["per_second"] for _, one in found]
            rates.plot(workers, middle, **reading)
            rates.fill_between(
                workers, [min(run) for run in runs], [max(run) for run in runs], color=COLOURS[name], alpha=0.2, lw=0
            )
            waits.plot(workers, [one["longest"] for _, one in found], **reading)
            unfinished = [(count, one["longest"]) for count, one in found if one["open"]]
            if unfinished:  # a hollow mark: that wait had not ended
                reading |= {"linestyle": "", "label": None, "markerfacecolor": "#ffffff"}
                waits.plot(*zip(*unfinished, strict=True), **reading)
        counts = sorted({count for found in points.values() for count, _ in found})
        ideal = [(count - 1) * SWEEP_HOLD for count in counts]
        waits.plot(
            counts, ideal, color=INK, linestyle=":", label=f"the holds of all others, (N − 1) × {_ms(SWEEP_HOLD)}"
        )
        rates.set_title("locks a second", loc="left")
        rates.set_ylim(bottom=0)
        waits.set_title("longest wait, seconds", loc="left")
        waits.set_yscale("log")
        waits.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        for axes in (rates, waits):
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_locator(FixedLocator(counts))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.set_xlabel(f"workers that hold the lock for {_ms(SWEEP_HOLD)} each")
            axes.grid(visible=True)
        handles, labels = waits.get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=2)
        figure.tight_layout(rect=(0, 0.08 + 0.045 * -(-len(labels) // 2), 1, 1))
        _save(figure, file)


def cold_start(result: dict[str, Any], file: Path) -> None:
    """CPU time from the start of a process to its first lock, in parts."""
    conditions = {"https": "with .pyc files", "https_uncompiled": "without .pyc files"}
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 3.6))
        labels: list[str] = []
        for condition, title in conditions.items():
            for name in SHOWN:
                left = 0.0
                for (part, colour), value in zip(PARTS.items(), parts(result, condition, name), strict=True):
                    axes.barh(len(labels), value, left=left, color=colour, height=0.65, label=None if labels else part)
                    left += value
                at = (left, len(labels))
                axes.annotate(f"{left:.0f} ms", at, xytext=(4, 0), textcoords="offset points", va="center")
                labels.append(f"{LIBRARIES[name]}, {title}")
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.set_title("CPU time from the start of a process to its first lock over HTTPS, ms", loc="left")
        axes.set_axisbelow(True)
        axes.grid(visible=True, axis="x")
        axes.margins(x=0.1)
        figure.legend(loc="lower center", ncols=3)
        figure.tight_layout(rect=(0, 0.08, 1, 1))
        _save(figure, file)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:g} ms"


def _save(figure: Any, file: Path) -> None:
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    # matplotlib ends some lines with spaces
    file.write_text("".join(f"{line.rstrip()}\n" for line in file.read_text().splitlines()))


#: Each picture, by its file's name: the benchmark that it needs, and what draws it.
PICTURES: dict[str, tuple[str, Callable[[dict[str, Any], Path], None]]] = {
    "contention": ("contention", contention),
    "cold-start": ("cold_start", cold_start),
}
