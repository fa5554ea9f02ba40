"""Reports what happens to locks: the log, metrics and hooks. Private; docs/observing.md describes the events."""
