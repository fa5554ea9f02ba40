"""Everything that tells: the log, metrics and hooks. Private; docs/observing.md describes what it tells."""
