"""The size of the library, as `make bench-short` counts it."""

from __future__ import annotations

from benchmarks.size.lines import by_package, lines_of_code

_MODULE = '''"""A module.

Its docstring has three lines.
"""

# a comment
import os  # and another


class Place:
    """Where it is."""

    text = """two
    lines"""

    def name(
        self,
    ) -> str:
        """Its name."""
        "no docstring, but a statement"
        return os.sep
'''


def test_docstrings_comments_and_blank_lines_are_not_lines_of_code(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(_MODULE)
    assert lines_of_code(file) == 9


def test_each_package_is_counted_by_itself(tmp_path):
    for name in ("own.py", "core/row.py", "core/deep/lease.py", "cli/app.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a = 1\n")
    assert by_package(tmp_path) == {"its own modules": 1, "core/": 2, "cli/": 1}
