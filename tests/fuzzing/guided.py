"""One target in this process: ``python -m tests.fuzzing.guided ENGINE TARGET SECONDS SEED CORPUS``. See guide.py."""

import importlib
import logging
import sys
import time
from typing import Any

_BEGAN = time.monotonic()
_MANY, _FEW = 50, 5  # inputs at a time: a few where many targets share a short time


def by_atheris(name: str, seconds: str, seed: str, corpus: str) -> None:
    """Never returns: libFuzzer ends the process, with 0 if nothing failed."""
    atheris = importlib.import_module("atheris")  # it has no types
    with atheris.instrument_imports(include=["lambda_lock"]):
        targets = importlib.import_module("tests.fuzzing.targets")
    target = targets.TARGETS[name]
    left = max(int(float(seconds) - (time.monotonic() - _BEGAN)), 1)  # loading and instrumenting took some
    options = [f"-max_total_time={left}", f"-seed={seed}", "-max_len=8192", "-timeout=30", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus}/", corpus], target.feed)
    atheris.Fuzz()


def by_hypothesis(names: str, seconds: str, seed: str, corpus: str) -> None:
    """Draw inputs for one target, or for several whose names are separated by commas: each has its share of the time,
    and a few inputs at least. A failure is shown as the smallest example."""
    targets = importlib.import_module("tests.fuzzing.targets")
    until, left = _BEGAN + float(seconds), names.split(",")
    examples = _FEW if len(left) > 1 else _MANY
    while left:
        now = time.monotonic()
        print(f"Target {left[0]}", flush=True)
        _draw(targets.TARGETS[left.pop(0)], int(seed), now + (until - now) / (len(left) + 1), examples)


def _draw(target: Any, seed: int, until: float, examples: int) -> None:
    inputs = 0
    try:
        while not inputs or time.monotonic() < until:
            inputs += target.draw(seed + inputs, examples)
    finally:
        print(f"Done {inputs} runs", flush=True)


ENGINES = {"atheris": by_atheris, "hypothesis": by_hypothesis}

if __name__ == "__main__":
    logging.getLogger("lambda_lock").setLevel(logging.CRITICAL)
    engine, *arguments = sys.argv[1:]
    ENGINES[engine](*arguments)
