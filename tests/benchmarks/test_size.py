"""The size of the library, as `make bench-short` counts it."""

from benchmarks.size.lines import by_package, lines_of_code

_MODULE = '''"""A module.

Its docstring has three lines."""
# a comment
class Place:  # and another
    """Where it is."""

    text = """two
    lines"""
    def name(self) -> str:
        """Its name."""
        "no docstring, but a statement"
'''


def test_docstrings_comments_and_blank_lines_are_no_lines_of_code_and_each_package_is_counted_by_itself(tmp_path):
    for name in ("own.py", "core/row.py", "core/deep/lease.py", "cli/app.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a = 1\n" if name != "own.py" else _MODULE)
    assert lines_of_code(tmp_path / "own.py") == 5
    assert by_package(tmp_path) == {"its own modules": 5, "core/": 2, "cli/": 1}
