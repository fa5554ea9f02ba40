"""Python alone: the cost that every process has."""

from benchmarks.cold_start.contestants.harness import held

held()
