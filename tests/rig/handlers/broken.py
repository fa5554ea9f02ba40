"""A module that cannot be loaded."""

raise RuntimeError("broken at import")
