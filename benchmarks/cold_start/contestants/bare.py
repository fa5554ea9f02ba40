"""Python itself: what every process pays."""

from benchmarks.cold_start.contestants.harness import held

held()
