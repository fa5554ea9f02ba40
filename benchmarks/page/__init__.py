"""docs/performance.md and its pictures, from the results in build/bench."""
