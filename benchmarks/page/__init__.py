"""docs/performance*.md and their pictures, from the results in build/bench."""
