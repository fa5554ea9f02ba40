"""One target in this process: ``python -m tests.fuzzing.guided ENGINE TARGET SECONDS SEED CORPUS``. See guide.py."""

from __future__ import annotations

import importlib
import logging
import sys
import time

_BEGAN = time.monotonic()


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


def by_hypothesis(name: str, seconds: str, seed: str, corpus: str) -> None:
    """Draw inputs until the time is over. A failure is shown as the smallest example."""
    targets = importlib.import_module("tests.fuzzing.targets")
    until, inputs = _BEGAN + float(seconds), 0
    target = targets.TARGETS[name]
    try:
        while time.monotonic() < until:
            inputs += target.draw(int(seed) + inputs)
    finally:
        print(f"Done {inputs} runs", flush=True)


if __name__ == "__main__":
    logging.getLogger("lambda_lock").setLevel(logging.CRITICAL)
    engine, *arguments = sys.argv[1:]
    (by_atheris if engine == "atheris" else by_hypothesis)(*arguments)
